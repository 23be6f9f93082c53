//! What can be chosen about TableTheory's leases.

use super::error::LeaseKey;
use super::lease::HeldLease;
use std::collections::BTreeSet;
use std::time::Duration;
use tenure_core::{InvalidInput, StoreError};
use tenure_dynamodb::Dialect;
use tenure_dynamodb::DynamoConfig;
use tenure_dynamodb::service::{Layout, yes};

/// What the attributes of a lease's item are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The table's HASH key: `pk`.
    pub partition_key: String,
    /// The table's RANGE key: `sk`.
    pub sort_key: String,
    /// The holder's token: `lease_token`.
    pub token: String,
    /// When the lease ends, in Unix seconds: `lease_expires_at`.
    pub expires_at: String,
    /// When DynamoDB may delete the item, in Unix seconds: `ttl`.
    pub ttl: String,
}

impl Default for Names {
    fn default() -> Self {
        Names {
            partition_key: "pk".into(),
            sort_key: "sk".into(),
            token: "lease_token".into(),
            expires_at: "lease_expires_at".into(),
            ttl: "ttl".into(),
        }
    }
}

/// Where TableTheory's leases are, and how they are written. All processes of a fleet must agree on all but the skew margin
/// and the validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableTheoryOptions {
    pub(crate) place: DynamoConfig,
    pub(crate) lock_sort_key: String,
    pub(crate) ttl: bool,
    pub(crate) ttl_buffer: Duration,
    pub(crate) names: Names,
    pub(crate) validated: bool,
    pub(crate) skew: Duration,
}

impl TableTheoryOptions {
    /// The longest skew margin.
    pub const MAX_SKEW: Duration = Duration::from_secs(3600);

    /// Leases in the table of this name, in the region and with the credentials that every AWS program would use.
    #[must_use]
    pub fn new(table: impl Into<String>) -> Self {
        TableTheoryOptions::at(DynamoConfig::new(table))
    }

    /// Leases in this table. Its namespace and its ages mean nothing here.
    #[must_use]
    pub fn at(place: DynamoConfig) -> Self {
        TableTheoryOptions {
            place,
            lock_sort_key: "LOCK".to_owned(),
            ttl: true,
            ttl_buffer: Duration::from_secs(3600),
            names: Names::default(),
            validated: true,
            skew: Duration::from_millis(500),
        }
    }

    /// Understands a URL, with or without its scheme: `dynamodb://TABLE?dialect=tabletheory&region=…`. Of the options of
    /// [`DynamoConfig::from_url`] there are `region`, `endpoint`, `profile`, `timeout_ms`, `plain_text` and `one_region`; and
    /// further `lock_sort_key`, `ttl=no`, `ttl_buffer_s`, `skew_ms`, and for the names of attributes `pk_name`, `sk_name`,
    /// `token_name`, `expires_at_name` and `ttl_name`.
    ///
    /// # Errors
    /// `Invalid`, naming the option and those that there are. A password is never repeated.
    pub fn from_url(url: &str) -> Result<Self, StoreError> {
        const OWN: [&str; 9] = [
            "lock_sort_key",
            "ttl",
            "ttl_buffer_s",
            "skew_ms",
            "pk_name",
            "sk_name",
            "token_name",
            "expires_at_name",
            "ttl_name",
        ];
        let (place, own) = Dialect::TableTheory.options(url, &OWN)?;
        let mut options = TableTheoryOptions::at(place);
        for (name, value) in own {
            let number = |unit: &str| {
                value.parse::<u64>().map_err(|_| {
                    StoreError::invalid(format!("{name}={value:?} is no number of {unit}; write {name}=1000"))
                })
            };
            match &*name {
                "lock_sort_key" => options.lock_sort_key = value,
                "ttl_buffer_s" => options.ttl_buffer = Duration::from_secs(number("seconds")?),
                "skew_ms" => options.skew = Duration::from_millis(number("milliseconds")?),
                "ttl" => options.ttl = yes(&name, &value)?,
                "pk_name" => options.names.partition_key = value,
                "sk_name" => options.names.sort_key = value,
                "token_name" => options.names.token = value,
                "expires_at_name" => options.names.expires_at = value,
                _ => options.names.ttl = value,
            }
        }
        options.check()?;
        Ok(options)
    }

    /// The sort key of what [`Manager::acquire`](super::Manager::acquire) takes: `LOCK`, unless said otherwise.
    #[must_use]
    pub fn lock_sort_key(self, lock_sort_key: impl Into<String>) -> Self {
        TableTheoryOptions { lock_sort_key: lock_sort_key.into(), ..self }
    }

    /// Whether items have the attribute by which DynamoDB deletes them some time after their end. Yes, unless said otherwise.
    #[must_use]
    pub fn ttl(self, ttl: bool) -> Self {
        TableTheoryOptions { ttl, ..self }
    }

    /// How long after a lease's end, in whole seconds, DynamoDB may delete its item: an hour, unless said otherwise. With
    /// zero, items have no such attribute.
    #[must_use]
    pub fn ttl_buffer(self, ttl_buffer: Duration) -> Self {
        TableTheoryOptions { ttl_buffer, ..self }
    }

    /// What the attributes are called.
    #[must_use]
    pub fn names(self, names: Names) -> Self {
        TableTheoryOptions { names, ..self }
    }

    /// Whether what is asked for is checked before anything is sent: that neither keys nor tokens are empty, and that a
    /// lease lasts for some time. Yes, unless said otherwise. The table's name is always checked.
    #[must_use]
    pub fn validation(self, validated: bool) -> Self {
        TableTheoryOptions { validated, ..self }
    }

    /// How much sooner than its item says a lease ends for its holder: 500 ms, unless said otherwise. This is how far the wall
    /// clocks of two hosts may be apart before two may believe in the same lease.
    #[must_use]
    pub fn skew_margin(self, skew: Duration) -> Self {
        TableTheoryOptions { skew, ..self }
    }

    /// How much sooner than its item says a lease ends for its holder.
    #[must_use]
    pub fn margin(&self) -> Duration {
        self.skew
    }

    /// The attribute by which DynamoDB is to delete items some time after their end; none if they don't have it.
    #[must_use]
    pub fn ttl_attribute(&self) -> Option<&str> {
        self.buffer().map(|_| &*self.names.ttl)
    }

    /// How long after its end DynamoDB may delete an item, in seconds; none if it never does.
    pub(crate) fn buffer(&self) -> Option<u64> {
        let buffer = self.ttl_buffer.as_secs();
        (self.ttl && buffer > 0).then_some(buffer)
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout {
            whose: "those of these leases",
            hash: self.names.partition_key.clone(),
            range: Some(self.names.sort_key.clone()),
            actions: "the actions GetItem, PutItem, UpdateItem, DeleteItem and DescribeTable (and CreateTable and UpdateTimeToLive, where it is to make the table)",
            creation: "create one with `tenure doctor --create-table`, or as your other programs do",
            removal: "old items",
        }
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.place.check()?;
        let Names { partition_key, sort_key, token, expires_at, ttl } = &self.names;
        let names = [partition_key, sort_key, token, expires_at, ttl];
        if let Some(bad) = names.iter().find(|name| name.is_empty() || name.len() > 255) {
            let bytes = bad.len();
            return Err(StoreError::invalid(format!(
                "the name of an attribute has 1 to 255 bytes; one of those of TableTheory's leases has {bytes}"
            )));
        }
        if names.iter().collect::<BTreeSet<_>>().len() < names.len() {
            return Err(StoreError::invalid(format!(
                "two attributes of TableTheory's leases have the same name; choose five different ones instead of {}",
                names.map(|name| format!("{name:?}")).join(", ")
            )));
        }
        if self.validated && self.lock_sort_key.is_empty() {
            return Err(StoreError::invalid("the lock sort key is empty; leave it out for LOCK"));
        }
        if self.skew > Self::MAX_SKEW {
            return Err(StoreError::invalid(format!(
                "a skew margin of {:?} is over the limit of an hour; set the clocks",
                self.skew
            )));
        }
        Ok(())
    }

    /// That a lease lasts for some time, but not for ages.
    pub(crate) fn check_duration(&self, duration: Duration) -> Result<(), InvalidInput> {
        /// Longer ones are mistakes in a unit.
        const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
        if duration > LONGEST {
            return Err(InvalidInput::new(format!("a lease of {duration:?} is over the limit of a year")));
        }
        if duration.is_zero() && self.validated {
            return Err(InvalidInput::new(
                "a lease of no duration would end at once; ask for 10 s, for example",
            ));
        }
        Ok(())
    }

    /// The same, and that it can be held at all: it ends at a whole second, and the margin sooner for its holder.
    pub(crate) fn check_held(&self, duration: Duration) -> Result<(), InvalidInput> {
        const CUT: Duration = Duration::from_secs(1);
        self.check_duration(duration)?;
        let least = CUT.saturating_add(self.skew);
        if duration <= least && self.validated {
            return Err(InvalidInput::new(format!(
                "a lease of {duration:?} may be over before it is held: it ends at a whole second, and {:?} sooner for its holder (the \
                 skew margin); ask for more than {least:?}",
                self.skew
            )));
        }
        Ok(())
    }

    /// That the keys of a lease are there.
    pub(crate) fn check_key(&self, key: &LeaseKey) -> Result<(), InvalidInput> {
        for (what, key) in [("partition", &key.pk), ("sort", &key.sk)] {
            if key.is_empty() && self.validated {
                return Err(InvalidInput::new(format!("the {what} key of a lease is empty; name one")));
            }
        }
        Ok(())
    }

    /// That a lease says which it is, and whose.
    pub(crate) fn check_lease(&self, lease: &HeldLease) -> Result<(), InvalidInput> {
        self.check_key(&lease.key)?;
        if lease.token.is_empty() && self.validated {
            let key = &lease.key;
            return Err(InvalidInput::new(format!(
                "the lease {key} has no token; take one that was acquired"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a URL with every option; mistakes are named before anything is sent; what validation covers and what it doesn't.
    use super::*;

    #[test]
    fn a_url_says_it_all() {
        let url = "//jobs?dialect=tabletheory&region=eu-west-1&lock_sort_key=L&ttl=no&ttl_buffer_s=60&skew_ms=250&pk_name=a\
                   &sk_name=b&token_name=c&expires_at_name=d&ttl_name=e";
        let [partition_key, sort_key, token, expires_at, ttl] = ["a", "b", "c", "d", "e"].map(str::to_owned);
        let meant = TableTheoryOptions::at(DynamoConfig::new("jobs").region("eu-west-1"))
            .lock_sort_key("L")
            .ttl(false)
            .ttl_buffer(Duration::from_secs(60))
            .skew_margin(Duration::from_millis(250))
            .names(Names { partition_key, sort_key, token, expires_at, ttl });
        assert_eq!(TableTheoryOptions::from_url(url), Ok(meant.clone()));
        assert_eq!(
            TableTheoryOptions::from_url(&format!("dynamodb:{url}")),
            Ok(meant),
            "a whole URL is as good"
        );
        assert_eq!(
            TableTheoryOptions::from_url("//jobs?dialect=tabletheory"),
            Ok(TableTheoryOptions::new("jobs"))
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (options, says) in [
            ("ttl=maybe", "neither yes nor no"),
            ("ttl_buffer_s=1h", "no number of seconds"),
            ("skew_ms=-1", "no number of milliseconds"),
            ("skew_ms=3600001", "over the limit of an hour"),
            ("token_name=", "1 to 255 bytes"),
            ("token_name=ttl", "the same name"),
            ("lock_sort_key=", "for LOCK"),
            ("sort_key=x", "there are region, endpoint"),
        ] {
            let error =
                TableTheoryOptions::from_url(&format!("//jobs?dialect=tabletheory&{options}")).unwrap_err();
            assert!(error.to_string().contains(says), "{options}: {error}");
        }
        assert!(
            TableTheoryOptions::new("ab").validation(false).check().is_err(),
            "the table's name is always checked"
        );
        let longest = |bytes| Names { ttl: "t".repeat(bytes), ..Names::default() };
        assert_eq!(
            TableTheoryOptions::new("jobs")
                .names(longest(255))
                .skew_margin(TableTheoryOptions::MAX_SKEW)
                .check(),
            Ok(())
        );
        assert!(TableTheoryOptions::new("jobs").names(longest(256)).check().is_err());
    }

    #[test]
    fn requests_are_checked_unless_that_is_switched_off() {
        let options = TableTheoryOptions::new("jobs");
        let unchecked = options.clone().validation(false);
        for (pk, sk, token, says) in
            [("", "s", "t", "partition key"), ("p", "", "t", "sort key"), ("p", "s", "", "no token")]
        {
            let lease = HeldLease::known_by(pk, sk, token);
            let error = options.check_lease(&lease).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
            assert!(unchecked.check_lease(&lease).is_ok());
        }
        assert!(options.check_lease(&HeldLease::known_by("p", "s", "t")).is_ok());
        assert!(
            options.check_duration(Duration::ZERO).is_err()
                && unchecked.check_duration(Duration::ZERO).is_ok()
        );
        assert!(options.check_duration(Duration::from_nanos(1)).is_ok());
        let (least, more) = (Duration::from_millis(1500), Duration::from_millis(1501));
        let short = options.check_held(least).unwrap_err().to_string();
        assert!(short.contains("more than 1.5s"), "{short}");
        assert!(options.check_held(more).is_ok() && unchecked.check_held(least).is_ok());
        assert!(options.check_held(Duration::ZERO).is_err());
        let year = Duration::from_secs(366 * 24 * 3600);
        assert!(options.check_duration(year).is_ok());
        assert!(unchecked.check_duration(year + Duration::from_nanos(1)).is_err());
        assert!(unchecked.clone().lock_sort_key("").check().is_ok());
        assert!(options.lock_sort_key("").check().is_err());
    }

    #[test]
    fn a_buffer_of_nothing_is_no_ttl() {
        let options = TableTheoryOptions::new("jobs");
        assert_eq!(options.buffer(), Some(3600));
        assert_eq!(options.ttl_attribute(), Some("ttl"));
        assert_eq!(options.clone().ttl(false).buffer(), None);
        assert_eq!(options.clone().ttl(false).ttl_attribute(), None);
        assert_eq!(options.ttl_buffer(Duration::from_millis(999)).buffer(), None);
    }
}
