//! What a store can do, as plain data.

use std::time::Duration;
use tenure_core::StoreError;

/// How it is decided that a holder's time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Expiry {
    /// Contenders watch a record for a full ttl.
    ObservedSilence,
    /// As `ObservedSilence`; and the store tells a record's age, which is one of two witnesses for takeover at first sight.
    AttestedAge,
}

/// What a store can do. What is off is refused with an error of kind `Unsupported`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Capabilities {
    /// How holders' time ends.
    pub expiry: Expiry,
    /// Whether fences are kept.
    pub fencing: bool,
    /// Whether [`crate::Store::list`] works.
    pub list: bool,
    /// Whether [`crate::Store::changed`] works.
    pub watch: bool,
    /// The most writes that one [`crate::Store::write_many`] takes.
    pub batch: usize,
    /// The most bytes that an encoded record may have.
    pub record_bytes: usize,
    /// The shortest ttl that makes sense on this store.
    pub least_ttl: Duration,
    /// How far a record's age may fall short of the truth, beyond the time that an answer takes. It is never over the truth. Where ages are short by a
    /// share of the time between two writes as well, this holds for a ttl of up to four times as much, and a quarter of the ttl beyond that.
    pub age_error: Duration,
}

impl Capabilities {
    /// Those of a store with the native layout that can do everything: change what yours can't.
    #[must_use]
    pub fn native(least_ttl: Duration) -> Self {
        Capabilities {
            expiry: Expiry::AttestedAge,
            fencing: true,
            list: true,
            watch: true,
            batch: 1000,
            record_bytes: crate::codec::MAX_BYTES,
            least_ttl,
            age_error: Duration::from_millis(1),
        }
    }

    /// The least ttl of fleets in which ages are told well enough for a new planner to know at once who was silent for how long. With a
    /// shorter one, workers that die together with their planner and those who stand by it are noticed a ttl later.
    #[must_use]
    pub fn least_ttl_of_small_looks(&self) -> Option<Duration> {
        let tells_ages = self.expiry == Expiry::AttestedAge;
        tells_ages.then(|| tenure_core::fleet::least_ttl_attested(self.age_error))
    }

    /// All of them in words, each with its name: for `tenure doctor` and for the table in `docs/stores.md`.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let or = |is: bool, yes: &str, no: &str| if is { yes } else { no }.to_owned();
        let tells_ages = self.expiry == Expiry::AttestedAge;
        let takeover = match self.expiry {
            Expiry::AttestedAge => "at first sight, once its ttl is over".to_owned(),
            Expiry::ObservedSilence => "once it was watched for its ttl".to_owned(),
        };
        let ages = if tells_ages {
            format!("told, short by at most {:?}", self.age_error)
        } else {
            "not told".to_owned()
        };
        let looks = self.least_ttl_of_small_looks();
        let looks =
            looks.map_or_else(|| "none".to_owned(), |least| format!("{:?}", least.max(self.least_ttl)));
        vec![
            ("a dead holder's key is taken", takeover),
            ("fences", or(self.fencing, "kept, and only grow", "none")),
            ("listings", or(self.list, "yes, by key", "no")),
            ("waiters", or(self.watch, "are woken", "poll")),
            ("ages of records", ages),
            ("least ttl", format!("{:?}", self.least_ttl)),
            ("least ttl of small looks", looks),
            ("writes in a batch", self.batch.to_string()),
            ("largest record", format!("{} bytes", self.record_bytes)),
        ]
    }

    /// The same with ages that may fall short of the truth by as much.
    #[must_use]
    pub fn aging_within(self, age_error: Duration) -> Self {
        Capabilities { age_error, ..self }
    }

    /// The most bytes that a section's leases, or a semaphore's holders and tickets, may take: what is left of a record for them.
    #[must_use]
    pub fn section_bytes(&self) -> usize {
        /// The rest of a record without a tenure, and room for what stores put beside it.
        const REST: usize = 1024;
        self.record_bytes.saturating_sub(REST).min(tenure_core::section::SectionLedger::MAX_BYTES)
    }

    /// Refuses a batch of more writes than a [`crate::Store::write_many`] takes.
    ///
    /// # Errors
    /// `Invalid`, with both counts.
    pub fn check_batch(&self, writes: usize) -> Result<(), StoreError> {
        let most = self.batch;
        if writes <= most {
            return Ok(());
        }
        Err(StoreError::invalid(format!("{writes} writes at once are over the limit of {most}; write fewer")))
    }

    /// The same with another way of expiry.
    #[must_use]
    pub fn expiring(self, expiry: Expiry) -> Self {
        Capabilities { expiry, ..self }
    }

    /// The same without [`crate::Store::changed`].
    #[must_use]
    pub fn without_watch(self) -> Self {
        Capabilities { watch: false, ..self }
    }
}
