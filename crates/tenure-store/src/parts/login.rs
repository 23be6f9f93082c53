//! Who calls, as a store's URL says it before the host.

use tenure_core::StoreError;

/// Refuses a URL whose user or password has a sign that ends it: a part of the password would be taken for a host, a path or an option, and
/// be shown as such. `place` is the URL from its two slashes on; `url` is what people call it, such as "the Redis store's URL".
///
/// It can't be known where a password ends that is followed by two `@`, or has a `/` or `?` in it. So an `@` behind a `:` and one of these is
/// refused also where it belongs to an option: there, too, it may be written `%40`.
///
/// # Errors
/// `Invalid`, which repeats nothing of the URL.
pub fn check_login(url: &str, place: &str) -> Result<(), StoreError> {
    if !is_torn(place) {
        return Ok(());
    }
    Err(StoreError::invalid(format!(
        "{url}: the user or the password has a sign that ends it (@, / or ?); write it percent-encoded, as %40 for @, %2F for / and %3F \
         for ?, or keep the password in password-file=FILE; an @ in an option is written %40, too"
    )))
}

/// Refuses a URL that says who calls, where nobody is to be named: credentials `belong` elsewhere.
///
/// # Errors
/// `Invalid`, with `belong`; it repeats nothing of the URL.
pub fn check_nobody(place: &str, belong: &str) -> Result<(), StoreError> {
    let authority = place.strip_prefix("//").unwrap_or(place).split(['/', '?']).next().unwrap_or_default();
    if is_torn(place) || authority.contains('@') { Err(StoreError::invalid(belong)) } else { Ok(()) }
}

/// Whether what stands before the last `@` can't be a user and a password that are written as they should be.
fn is_torn(place: &str) -> bool {
    let Some((login, _)) = place.strip_prefix("//").unwrap_or(place).rsplit_once('@') else { return false };
    // Without a colon there is no password, and an `@` may be a user's, or one of a path.
    match login.contains(':') {
        true => login.contains(['@', '/', '?']),
        false => login.contains('@') && !login.contains(['/', '?']),
    }
}

#[cfg(test)]
mod tests {
    //! Plan: logins that are whole, and paths and options with an `@`; each sign that tears one, in the user and in the password.
    use super::*;

    #[test]
    fn a_login_that_is_whole_is_told_from_a_torn_one() {
        for place in [
            "//host:1/db?x=y",
            "//user@host:1/db",
            "//user:secret@host,other:2/db?x=y",
            "//user:se%40cr%2Fet@host",
            "//:secret@host",
            "//host/a@b",
            "//user@host/db?x=a@b",
        ] {
            assert_eq!(check_login("the URL", place), Ok(()), "{place}");
        }
        for place in [
            "//user:sec@ret@host",
            "//user:1?sec=ret@host",
            "//user:1/ret@host",
            "//user:/secret@host",
            "//:?secret@host",
            "//us/er:secret@host",
            "//us?er:secret@host",
            "//us@er:secret@host",
            "//us@er@host",
        ] {
            let error = check_login("the URL", place).unwrap_err().to_string();
            assert!(error.contains("the URL: ") && error.contains("%3F"), "{error}");
            assert!(!error.contains("ret") && !error.contains("er:"), "{error}");
            assert_eq!(check_nobody(place, "elsewhere"), Err(StoreError::invalid("elsewhere")), "{place}");
        }
    }

    #[test]
    fn nobody_is_named_where_nobody_belongs() {
        for (place, is_nobody) in [
            ("//table?x=a@b", true),
            ("table", true),
            ("//user@table", false),
            ("//user:#secret@table", false),
            ("//user:secret@table?x=y", false),
        ] {
            assert_eq!(check_nobody(place, "elsewhere").is_ok(), is_nobody, "{place}");
        }
    }
}
