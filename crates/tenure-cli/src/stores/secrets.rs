//! What of a store's URL may be shown.

use tenure_store::parts::check_login;

/// A URL without what may hold a secret: who calls, and all options.
pub(super) fn without_secrets(url: &str) -> String {
    let (plain, options) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
    let (scheme, place) = url.split_once(':').unwrap_or_default();
    // A password with such a sign in it, not percent-encoded, ends nobody knows where.
    let is_torn = options.contains('@') || check_login("", place).is_err();
    // It may be one of libpq's words (`host=h password=p`), which are no URL.
    let has_words = plain.contains(char::is_whitespace) || plain.contains("password=");
    match plain.split_once("://") {
        Some((_, place)) if !is_torn && !has_words => {
            format!("{scheme}://{}", place.rsplit_once('@').map_or(place, |(_, host)| host))
        }
        _ => format!("{scheme}:…"),
    }
}

#[cfg(test)]
mod tests {
    //! Plan: users, passwords and options where they belong, and where they do not; passwords of any signs.
    use super::*;

    #[test]
    fn what_is_shown_has_no_secrets() {
        for (url, shown) in [
            ("dynamodb://t?region=x&token=hidden", "dynamodb://t"),
            ("x://me:hidden@host:1/db?password=hidden", "x://host:1/db"),
            ("x://me:hid@den@host#hidden", "x:…"),
            ("x://me:hid/den@host", "x:…"),
            ("x://me:hidden#more@host/db", "x:…"),
            ("x://me@host?password=hid@den", "x:…"),
            ("x:me:hidden@host/db", "x:…"),
            ("x:host=h password=hidden", "x:…"),
            ("x:password=hidden", "x:…"),
            ("x://host password=hidden", "x:…"),
            ("x://host,password=hidden", "x:…"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }

    #[test]
    fn nothing_that_is_shown_is_a_piece_of_a_password() {
        use proptest::prelude::*;
        proptest!(|(user in "[QZ9@/?#:&=%,;\\[\\] .]{0,8}", password in "[QZ9@/?#:&=%,;\\[\\] .]{0,12}")| {
            let shown = without_secrets(&format!("redis://{user}:{password}@host:1/0?namespace=x"));
            prop_assert!(!shown.contains(['Q', 'Z', '9']), "{}", shown);
        });
    }
}
