//! The table of less's, named by a URL with `dialect=less`.

use crate::exit::Failure;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tenure::{Clock, Key, Wall};
use tenure_less::{CandidateOptions, Seen, SqliteStorage, Storage};

/// What such a URL says.
#[derive(Debug)]
pub(crate) struct LessLocation {
    at: At,
    skew: Duration,
}

#[derive(Debug)]
enum At {
    Sqlite(PathBuf),
    /// Without the dialect's own options.
    #[cfg(feature = "postgres")]
    Postgres(String),
}

/// Who leads, and until when, by the row as it stands.
pub(crate) fn leader(seen: Seen) -> Option<(String, Wall)> {
    let row = seen.row.filter(|row| row.deadline >= seen.now)?;
    Some((row.value, Wall(u64::try_from(row.deadline.0 / 1000).unwrap_or(0))))
}

/// The options that the dialect has of its own.
const OPTIONS: &str = "skew_ms";

impl LessLocation {
    /// None if it names no table of less's.
    pub(crate) fn of(url: &str) -> Result<Option<LessLocation>, Failure> {
        let Some((place, query)) = url.split_once('?') else { return Ok(None) };
        let (mut is_less, mut skew, mut others) = (false, None, Vec::new());
        for option in query.split('&') {
            match option.split_once('=') {
                Some(("dialect", "less")) => is_less = true,
                Some(("skew_ms", value)) => skew = Some(value),
                _ => others.push(option),
            }
        }
        if !is_less {
            return Ok(None);
        }
        let skew = match skew.map(str::parse::<u64>) {
            None => Duration::from_millis(500),
            Some(Ok(millis)) => Duration::from_millis(millis),
            Some(Err(_)) => {
                return Err(Failure::usage("skew_ms is no number of milliseconds; write skew_ms=500"));
            }
        };
        let at = match place.split_once(':') {
            Some(("sqlite", path)) if others.is_empty() => At::Sqlite(path.into()),
            Some(("sqlite", _)) => {
                return Err(Failure::usage(format!("besides dialect=less, the options are {OPTIONS}")));
            }
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", _)) => {
                let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
                At::Postgres(format!("{place}{query}"))
            }
            _ => {
                let known = if cfg!(feature = "postgres") { "sqlite: and postgres:" } else { "sqlite:" };
                return Err(Failure::usage(format!("less has its table in {known}; name one of these")));
            }
        };
        Ok(Some(LessLocation { at, skew }))
    }

    /// The defaults of less but for the times, which are in proportion to the ttl as `elect` has them everywhere.
    pub(crate) fn options(&self, key: &Key, ttl: Duration) -> CandidateOptions {
        CandidateOptions::new()
            .key(key.as_str())
            .ttl(ttl)
            .follow_every(ttl / 5)
            .hold_every(ttl / 5)
            .skew_margin(self.skew)
    }

    /// By how much clocks may differ.
    pub(crate) fn skew(&self) -> Duration {
        self.skew
    }

    pub(crate) async fn open(&self, clock: Arc<dyn Clock>) -> Result<Arc<dyn Storage>, Failure> {
        Ok(match &self.at {
            At::Sqlite(path) => Arc::new(SqliteStorage::open(path, clock)?),
            #[cfg(feature = "postgres")]
            At::Postgres(url) => {
                let config = tenure::postgres::PostgresConfig::from_url(url)?;
                Arc::new(tenure_less::PostgresStorage::open(&config).await?)
            }
        })
    }

    /// What the role lacks of the rights on the table; nothing in a file, whose rights show when it is opened.
    pub(crate) async fn lacking(&self) -> Result<Vec<String>, Failure> {
        Ok(match &self.at {
            At::Sqlite(_) => Vec::new(),
            #[cfg(feature = "postgres")]
            At::Postgres(url) => {
                let config = tenure::postgres::PostgresConfig::from_url(url)?;
                tenure_less::PostgresStorage::open(&config).await?.lacking().await?
            }
        })
    }

    /// Whether the server takes no writes, whatever the role's rights.
    pub(crate) async fn is_read_only(&self) -> Result<bool, Failure> {
        Ok(match &self.at {
            At::Sqlite(_) => false,
            #[cfg(feature = "postgres")]
            At::Postgres(url) => {
                let config = tenure::postgres::PostgresConfig::from_url(url)?;
                tenure_less::PostgresStorage::open(&config).await?.is_read_only().await?
            }
        })
    }

    /// Makes the table as less's own migration does, if it is missing.
    pub(crate) async fn migrate(&self) -> Result<(), Failure> {
        match &self.at {
            At::Sqlite(path) => SqliteStorage::migrate(path)?,
            #[cfg(feature = "postgres")]
            At::Postgres(url) => {
                let config = tenure::postgres::PostgresConfig::from_url(url)?;
                tenure_less::PostgresStorage::migrate(&config).await?;
            }
        }
        Ok(())
    }
}
