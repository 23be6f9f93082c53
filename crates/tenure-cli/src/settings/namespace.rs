//! Namespaces: parts of one store that know nothing of each other, named as each store has it.

use super::Sourced;
use crate::exit::Failure;
use crate::stores::Url;
use crate::text::escaped;
use std::path::{Path, PathBuf};

/// The part of that name.
pub(super) fn within(url: &Url, namespace: &Sourced<String>) -> Result<Url, Failure> {
    let Sourced { value: name, source } = namespace;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !(1..=60).contains(&name.len()) || !name.chars().all(is_plain) {
        let text = format!(
            "{source}: the namespace \"{}\" is not 1 to 60 letters, digits, - and _ of ASCII",
            escaped(name)
        );
        return Err(Failure::usage(text));
    }
    let none = || {
        let text = format!("{source}: the store's URL names a namespace itself, or has none to name");
        Failure::usage(text)
    };
    if url.has_dialect() {
        return Err(none());
    }
    match url {
        Url::Sqlite(path) => Ok(Url::Sqlite(beside(path, name))),
        Url::Default(path) => Ok(Url::Default(beside(path, name))),
        Url::Memory => Ok(Url::Memory),
        Url::Service(url) => of_service(url, name).map(Url::Service).ok_or_else(none),
    }
}

/// `leases.db` becomes `leases.NAME.db`.
fn beside(path: &Path, name: &str) -> PathBuf {
    let extension = path.extension().map_or_else(String::new, |it| format!(".{}", it.to_string_lossy()));
    let mut file = path.file_stem().unwrap_or_default().to_owned();
    file.push(format!(".{name}{extension}"));
    path.with_file_name(file)
}

/// None if it has one already.
fn of_service(url: &str, name: &str) -> Option<String> {
    let (plain, options) = url.split_once('?').map_or((url, None), |(plain, options)| (plain, Some(options)));
    let has = |option: &str| {
        let mut all = options.unwrap_or_default().split('&');
        all.any(|one| one.split('=').next() == Some(option))
    };
    let scheme = plain.split(':').next().unwrap_or_default();
    let option = match scheme {
        "etcd" | "etcds" => {
            let options = options.map_or_else(String::new, |options| format!("?{options}"));
            return Some(format!("{}/{name}{options}", plain.trim_end_matches('/')));
        }
        "postgres" | "postgresql" => "schema",
        _ => "namespace",
    };
    let sign = if options.is_some() { '&' } else { '?' };
    (!has(option)).then(|| format!("{url}{sign}{option}={name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_programs_share_has_no_parts() {
        let name =
            Sourced { value: "x".to_owned(), source: super::super::SettingSource::Typed("--namespace") };
        let refused = within(&Url::Sqlite("x.db?dialect=less".into()), &name).unwrap_err();
        assert!(refused.text.starts_with("--namespace: "), "{refused}");
    }

    #[test]
    fn each_store_has_namespaces_in_its_own_way() {
        assert_eq!(beside(Path::new("/a/leases.db"), "x"), Path::new("/a/leases.x.db"));
        assert_eq!(beside(Path::new("plain"), "x"), Path::new("plain.x"));
        for (url, told) in [
            ("dynamodb://t?region=r", Some("dynamodb://t?region=r&namespace=x")),
            ("redis://h/0", Some("redis://h/0?namespace=x")),
            ("postgres://u@h/d", Some("postgres://u@h/d?schema=x")),
            ("etcd://h,h/p?a=b", Some("etcd://h,h/p/x?a=b")),
            ("postgres://u@h/d?schema=s", None),
        ] {
            assert_eq!(of_service(url, "x").as_deref(), told);
        }
    }
}
