//! The names of record layouts that other programs read and write too, in URLs. Each is spoken by a crate of its own.

mod options;

use crate::credentials::{after_scheme, check_credentials};
use tenure_core::StoreError;
use url::Url;

/// A record layout, with its expiry rule, that other programs read and write too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// That of TableTheory's package `lease`: the crate `tenure-tabletheory`.
    TableTheory,
    /// That of the KCL's lease table, and of `a8m/lease`: the crate `tenure-kcl`.
    Kcl,
}

impl Dialect {
    const ALL: [Dialect; 2] = [Dialect::TableTheory, Dialect::Kcl];

    /// As it is called in URLs: `dialect=…`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Dialect::TableTheory => "tabletheory",
            Dialect::Kcl => "kcl",
        }
    }

    /// What the command line does on it.
    #[must_use]
    pub fn verbs(self) -> &'static str {
        match self {
            Dialect::TableTheory => "`tenure run`, and `tenure doctor`",
            Dialect::Kcl => {
                "`tenure work --forever`, `tenure doctor`, and `tenure fleet adopt`, the way off it"
            }
        }
    }

    /// The dialect that a URL names, with or without its scheme; none for the native layout.
    ///
    /// # Errors
    /// `Invalid` when there is no such dialect, naming those that there are.
    pub fn of_url(url: &str) -> Result<Option<Dialect>, StoreError> {
        let rest = after_scheme(url);
        // What can't be read as a URL is for whoever reads the rest of it to complain about; a password is no dialect.
        if check_credentials(rest).is_err() {
            return Ok(None);
        }
        let Ok(url) = Url::parse(&format!("dynamodb:{rest}")) else { return Ok(None) };
        let named = url.query_pairs().find(|(name, _)| name == "dialect");
        named.map(|(_, name)| Dialect::named(&name)).transpose()
    }

    fn named(name: &str) -> Result<Dialect, StoreError> {
        let found = Dialect::ALL.into_iter().find(|dialect| dialect.name() == name);
        found.ok_or_else(|| {
            StoreError::invalid(format!(
                "there is no dialect {name:?}; there are tabletheory and kcl, and without one tenure's own layout"
            ))
        })
    }

    /// Why a dialect that was named in a store's URL can't be had as a store.
    pub(crate) fn is_no_store(name: &str) -> StoreError {
        match Dialect::named(name) {
            Err(error) => error,
            Ok(dialect) => StoreError::unsupported(format!(
                "the dialect {name} has no room for what a store keeps (fences, holders, metadata); on it there is {}; for all \
                 else, leave dialect={name} out and name a table of tenure's own",
                dialect.verbs()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a URL's dialect is found or there is none; a dialect is no store, and says what works.
    use super::*;
    use crate::config::DynamoConfig;
    use tenure_core::ErrorKind;

    #[test]
    fn a_url_names_a_dialect_or_none() {
        assert_eq!(Dialect::of_url("//jobs?region=x"), Ok(None));
        assert_eq!(Dialect::of_url("//jobs?region=x&dialect=kcl"), Ok(Some(Dialect::Kcl)));
        assert_eq!(Dialect::of_url("//jobs?dialect=tabletheory"), Ok(Some(Dialect::TableTheory)));
        assert_eq!(Dialect::of_url("dynamodb://jobs?dialect=kcl"), Ok(Some(Dialect::Kcl)));
        let error = Dialect::of_url("//jobs?dialect=kcl2").unwrap_err().to_string();
        assert!(error.contains("\"kcl2\"; there are tabletheory and kcl"), "{error}");
    }

    #[test]
    fn a_dialect_is_no_store() {
        for (name, works) in [("tabletheory", "tenure run"), ("kcl", "work --forever")] {
            let error = DynamoConfig::from_url(&format!("//jobs?dialect={name}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(works), "{error}");
        }
        let error = DynamoConfig::from_url("//jobs?dialect=x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}
