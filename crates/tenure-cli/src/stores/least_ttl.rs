//! The shortest ttl that a store keeps, which its URL's scheme tells before anything is asked or made.

use super::Url;
use crate::exit::Failure;
use std::time::Duration;
use tenure::Store;
#[cfg(feature = "dynamodb")]
use tenure::dynamodb::DynamoConfig;
#[cfg(feature = "etcd")]
use tenure::etcd::EtcdConfig;
#[cfg(feature = "postgres")]
use tenure::postgres::PostgresConfig;
#[cfg(feature = "redis")]
use tenure::redis::RedisConfig;
use tenure::sqlite::SqliteConfig;
use tenure::store::Capabilities;

impl Url {
    /// Refuses a ttl that the store can't keep, as the library does once the store is open.
    pub(crate) fn check_ttl(&self, ttl: Duration) -> Result<(), Failure> {
        self.check_least("ttl", ttl)
    }

    /// The same of the fixed time of a range.
    pub(crate) fn check_duration(&self, duration: Duration) -> Result<(), Failure> {
        self.check_least("duration", duration)
    }

    fn check_least(&self, what: &str, span: Duration) -> Result<(), Failure> {
        match self.capabilities().map(|can| can.least_ttl).filter(|least| span < *least) {
            Some(least) => Err(Failure::usage(format!(
                "a {what} of {span:?} is below this store's minimum of {least:?}"
            ))),
            None => Ok(()),
        }
    }

    /// Those of the store as it is opened without options, of which none changes the least ttl. None where other programs' rules hold.
    fn capabilities(&self) -> Option<Capabilities> {
        if self.has_dialect() {
            return None;
        }
        match self {
            Url::Sqlite(path) | Url::Default(path) => Some(SqliteConfig::new(path).capabilities()),
            Url::Memory => Some(tenure::memory().capabilities()),
            Url::Service(url) => of_service(url.split(':').next().unwrap_or_default()),
        }
    }
}

/// No file is read for it, as the user's own URL may name one with a password.
fn of_service(scheme: &str) -> Option<Capabilities> {
    match scheme {
        #[cfg(feature = "dynamodb")]
        "dynamodb" => Some(DynamoConfig::new("leases").capabilities()),
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" => Some(EtcdConfig::from_url("etcd://localhost/leases").ok()?.capabilities()),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            Some(PostgresConfig::from_url("postgres://localhost/leases").ok()?.capabilities())
        }
        #[cfg(feature = "redis")]
        "redis" | "rediss" => Some(RedisConfig::from_url("redis://localhost").ok()?.capabilities()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    //! Plan: every store that this build knows tells its least ttl; what is shorter is refused in the library's words; a dialect has rules of its own.
    use super::*;
    use crate::exit::USAGE;
    use tenure::Leases;
    use tenure::registry::Registry;

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn every_store_tells_by_its_scheme_which_ttl_is_too_short() {
        for id in Registry::standard().ids() {
            let url = match id {
                "sqlite" => Url::Sqlite("no/such/place.db".into()),
                "memory" => Url::Memory,
                id => Url::Service(format!("{id}://127.0.0.1:1/x?password-file=nowhere")),
            };
            let least = url.capabilities().unwrap_or_else(|| panic!("{id} tells nothing")).least_ttl;
            assert!(url.check_ttl(least).is_ok() && url.check_duration(least).is_ok(), "{id}");
            let failure = url.check_ttl(least - MILLI).unwrap_err();
            assert!(failure.code == USAGE && failure.text.contains("minimum"), "{id}: {failure}");
        }
    }

    #[test]
    fn it_is_refused_in_the_words_of_the_library() {
        let short = MILLI * 5;
        let theirs = Leases::builder(tenure::memory()).session_ttl(short).start().err();
        let ours = Url::Memory.check_ttl(short).err();
        assert_eq!(ours.map(|failure| failure.text), theirs.map(|error| error.to_string()));
        let range = Url::Memory.check_duration(short).unwrap_err().text;
        assert_eq!(range, "a duration of 5ms is below this store's minimum of 10ms");
    }

    #[test]
    fn the_table_of_another_program_has_rules_of_its_own() {
        let url = Url::Service("dynamodb://table?region=eu-west-1&dialect=kcl".to_owned());
        assert!(url.check_ttl(MILLI).is_ok());
    }
}
