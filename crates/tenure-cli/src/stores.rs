//! Stores by URL.

use crate::exit::{Failure, UNAVAILABLE};
use crate::text::escaped;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tenure::registry::{Opening, Registry};
use tenure::{AnyStore, Clock};

/// A store as named by `--store`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Url {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// This process's memory: gone when it ends.
    Memory,
}

/// Whether a store that isn't there yet is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Create,
    Refuse,
}

impl Url {
    /// Reads a URL. Errors never repeat more of it than the scheme: the rest may hold a password.
    pub(crate) fn parse(text: &str) -> Result<Url, Failure> {
        const KNOWN: &str = "sqlite:PATH and memory:";
        let Some((scheme, rest)) = text.split_once(':') else {
            let shown = escaped(text);
            let hint =
                if text.is_empty() { String::new() } else { format!("; for a file, write sqlite:{shown}") };
            return Err(Failure::usage(format!(
                "the store {shown:?} is not a URL{hint} (this build knows {KNOWN})"
            )));
        };
        match scheme {
            "sqlite" => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                if path.is_empty() || path.contains('\0') {
                    return Err(Failure::usage(
                        "the store sqlite: names no file; write sqlite:leases.db, for example",
                    ));
                }
                Ok(Url::Sqlite(PathBuf::from(path)))
            }
            "memory" if rest.is_empty() => Ok(Url::Memory),
            "memory" => Err(Failure::usage("the store memory: takes nothing after the colon")),
            scheme => {
                let scheme: String = scheme.chars().take(20).collect();
                let scheme = escaped(&scheme);
                Err(Failure::usage(format!(
                    "no store has the scheme \"{scheme}:\"; this build knows {KNOWN}"
                )))
            }
        }
    }

    /// The file, if it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Url::Sqlite(path) => Some(path),
            Url::Memory => None,
        }
    }

    /// As it may be shown.
    pub(crate) fn shown(&self) -> String {
        match self {
            Url::Sqlite(path) => format!("sqlite:{}", escaped(&path.to_string_lossy())),
            Url::Memory => "memory:".to_owned(),
        }
    }

    /// Opens the store.
    pub(crate) async fn open(&self, missing: Missing, clock: Arc<dyn Clock>) -> Result<AnyStore, Failure> {
        if let (Url::Sqlite(path), Missing::Refuse) = (self, missing)
            && !path.exists()
        {
            let path = escaped(&path.to_string_lossy());
            let text = format!("there is no store at {path}; name another by --store or TENURE_STORE");
            return Err(Failure::new(UNAVAILABLE, text));
        }
        let opening = Opening { create: missing == Missing::Create, clock };
        Ok(Registry::standard().open(&self.plain(), opening).await?)
    }

    /// As the library's registry of stores understands it.
    fn plain(&self) -> String {
        match self {
            Url::Sqlite(path) => format!("sqlite:{}", path.to_string_lossy()),
            Url::Memory => "memory:".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_named_by_url() {
        assert_eq!(Url::parse("sqlite:a b.db").unwrap(), Url::Sqlite("a b.db".into()));
        assert_eq!(Url::parse("sqlite:///var/x.db").unwrap(), Url::Sqlite("/var/x.db".into()));
        assert_eq!(Url::parse("memory:").unwrap(), Url::Memory);
        for bad in ["", "leases.db", "sqlite:", "memory:x", "postgres://u:secret@h/d"] {
            let error = Url::parse(bad).unwrap_err();
            assert_eq!(error.code, crate::exit::USAGE, "{bad}");
            assert!(!error.text.contains("secret"), "{error}");
        }
    }
}
