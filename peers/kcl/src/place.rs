//! A lease table by URL.

use super::format::{Format, Unowned};
use std::fmt;
use tenure_core::StoreError;
use tenure_dynamodb::Dialect;
use tenure_dynamodb::DynamoConfig;

/// A lease table as a URL names it: where it is, how its rows are written, and how its workers steal.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    pub(crate) config: DynamoConfig,
    pub(crate) format: Format,
    steal: usize,
    shards: Option<bool>,
}

impl Place {
    /// Understands a URL, with or without its scheme: `dynamodb://TABLE?dialect=kcl&region=…`. Options of its own: `peers=kcl|a8m` (whose
    /// conditions are followed where they differ; `kcl` by default), `unowned=absent|null` (how "nobody" is written; as those peers do by
    /// default), `steal=N` (how many leases a worker steals at a time; 1 by default) and `shards=yes|no` (see [`Options::shards`](crate::Options::shards)).
    ///
    /// # Errors
    /// `Invalid`, naming the option and those that there are.
    pub fn from_url(url: &str) -> Result<Place, StoreError> {
        let (config, own) = Dialect::Kcl.options(url, &["peers", "unowned", "steal", "shards"])?;
        let option = |name: &str| own.get(name).map(String::as_str);
        let bad = |text: String| Err(StoreError::invalid(text));
        let mut format = match option("peers") {
            None | Some("kcl") => Format::kcl(),
            Some("a8m") => Format::a8m(),
            Some(other) => return bad(format!("peers={other:?} is neither kcl nor a8m")),
        };
        format = match option("unowned") {
            None => format,
            Some("absent") => format.unowned(Unowned::Absent),
            Some("null") => format.unowned(Unowned::Null),
            Some(other) => return bad(format!("unowned={other:?} is neither absent nor null")),
        };
        let steal = match option("steal").map(str::parse::<usize>) {
            None => 1,
            Some(Ok(steal)) if steal > 0 => steal,
            Some(_) => return bad("steal= is the number of leases to steal at a time, 1 or more".to_owned()),
        };
        let shards = match option("shards") {
            None => None,
            Some("yes") => Some(true),
            Some("no") => Some(false),
            Some(other) => return bad(format!("shards={other:?} is neither yes nor no")),
        };
        Ok(Place { config, format, steal, shards })
    }

    /// The table's name.
    #[must_use]
    pub fn table(&self) -> &str {
        self.config.table()
    }

    /// How its rows are read and written.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// How many leases a worker steals at a time.
    #[must_use]
    pub fn leases_to_steal(&self) -> usize {
        self.steal
    }

    /// Whether rows are shards, if the URL says so: see [`Options::shards`](crate::Options::shards).
    #[must_use]
    pub fn shards(&self) -> Option<bool> {
        self.shards
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("config", &self.config)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_it_all() {
        let place = Place::from_url("//jobs?dialect=kcl&region=eu-west-1").unwrap();
        assert_eq!((place.table(), place.format(), place.leases_to_steal()), ("jobs", Format::kcl(), 1));
        let place = Place::from_url("//jobs?dialect=kcl&peers=a8m&unowned=absent&steal=7").unwrap();
        assert_eq!((place.format(), place.leases_to_steal()), (Format::a8m().unowned(Unowned::Absent), 7));
        assert_eq!(place.shards(), None);
        let shards = |says| Place::from_url(&format!("//jobs?dialect=kcl&shards={says}")).unwrap().shards();
        assert_eq!((shards("yes"), shards("no")), (Some(true), Some(false)));
        for (options, says) in [
            ("peers=java", "neither kcl nor a8m"),
            ("unowned=none", "neither absent nor null"),
            ("steal=0", "1 or more"),
            ("steal=x", "1 or more"),
            ("shards=1", "neither yes nor no"),
            ("namespace=x", "namespace"),
            ("regoin=x", "steal"),
        ] {
            let error = Place::from_url(&format!("//jobs?dialect=kcl&{options}")).unwrap_err().to_string();
            assert!(error.contains(says), "{options}: {error}");
        }
        assert!(Place::from_url("//jobs").is_err());
        let whole = Place::from_url("dynamodb://jobs?dialect=kcl&steal=7").unwrap();
        assert_eq!(whole, Place::from_url("//jobs?dialect=kcl&steal=7").unwrap());
    }
}
