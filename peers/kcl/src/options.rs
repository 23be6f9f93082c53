//! Who a worker is, and how it takes and keeps leases.

use super::row::check_worker;
use std::time::Duration;
use tenure_core::time::millis;
use tenure_core::{Drift, StoreError, Tick, Ttl};

/// Who a worker is, and how it takes and keeps leases. Everything is checked before any I/O.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub(crate) worker: String,
    pub(crate) failover: Duration,
    pub(crate) most: usize,
    pub(crate) steal: usize,
    pub(crate) at_once: usize,
    pub(crate) look_every: Option<Duration>,
    pub(crate) settle_steals: bool,
    pub(crate) shards: Option<bool>,
    pub(crate) drift: Drift,
    pub(crate) lots: u64,
}

impl Options {
    /// A worker of that id, which must be another at each start, and for each process: two that share one both work on what one
    /// of them takes. `tenure::clock::host_name()`, the process id and something random make a good one.
    #[must_use]
    pub fn new(worker: impl Into<String>) -> Self {
        Options {
            worker: worker.into(),
            failover: Duration::from_secs(10),
            most: usize::MAX,
            steal: 1,
            at_once: 32,
            look_every: None,
            settle_steals: true,
            shards: None,
            drift: Drift::default(),
            lots: 0,
        }
    }

    /// After how long without a change of its counter a lease is free: 10 s unless said otherwise, as with all peers. It must
    /// be the same for all workers on the table.
    #[must_use]
    pub fn failover(self, failover: Duration) -> Self {
        Options { failover, ..self }
    }

    /// The most leases that this worker takes. As many as there are, unless said otherwise. Where others have too low a maximum for
    /// their share, this worker takes the rest, once it has been free for three failover times. All maxima together must be enough for
    /// all leases: what is over stays nobody's.
    #[must_use]
    pub fn max_leases(self, most: usize) -> Self {
        Options { most, ..self }
    }

    /// How many leases are stolen at a time from the worker that has most. 1, unless said otherwise.
    #[must_use]
    pub fn leases_to_steal(self, steal: usize) -> Self {
        Options { steal, ..self }
    }

    /// How many requests are under way at a time. 32, unless said otherwise. Renewals that are due go first; updates, releases and takes go in turn.
    #[must_use]
    pub fn requests_at_once(self, at_once: usize) -> Self {
        Options { at_once, ..self }
    }

    /// How often the whole table is read, to find what is free. Each half of a failover time, unless said otherwise.
    #[must_use]
    pub fn look_every(self, span: Duration) -> Self {
        Options { look_every: Some(span), ..self }
    }

    /// Whether a stolen lease is told, and believed, only when whoever it was stolen from must have noticed: a failover time
    /// after the take, by the answer to a renewal. So is one that a peer was evicted from, or gave up, as it may have stolen it just
    /// before. Yes, unless said otherwise. The peers don't wait: there both work on a stolen lease for up to a third of
    /// a failover time.
    #[must_use]
    pub fn settle_steals(self, settle_steals: bool) -> Self {
        Options { settle_steals, ..self }
    }

    /// Whether rows are shards of a stream, as the KCL's consumers write them: what has the checkpoint `SHARD_END` is not taken, nor what has a
    /// parent (`parentShardId`) in the table that has not. One that is held and gets that checkpoint is told by
    /// [`Event::Finished`](crate::Event::Finished). Rows without these attributes are taken as ever. In the KCL's layout yes, in `a8m/lease`'s no,
    /// unless said otherwise.
    #[must_use]
    pub fn shards(self, are_shards: bool) -> Self {
        Options { shards: Some(are_shards), ..self }
    }

    /// How far clock rates may be off. 10 %, unless said otherwise.
    #[must_use]
    pub fn drift(self, drift: Drift) -> Self {
        Options { drift, ..self }
    }

    /// What the choice among equal leases is drawn from, beside the worker's id.
    #[must_use]
    pub fn seed(self, lots: u64) -> Self {
        Options { lots, ..self }
    }

    /// The worker's id.
    #[must_use]
    pub fn worker(&self) -> &str {
        &self.worker
    }

    /// After how long without a change of its counter a lease is free.
    #[must_use]
    pub fn failover_time(&self) -> Duration {
        self.failover
    }

    /// Whether they make sense together.
    ///
    /// # Errors
    /// `Invalid`, naming the option and the remedy.
    pub fn check(&self) -> Result<(), StoreError> {
        const SHORTEST: Duration = Duration::from_millis(300);
        let bad = |text: String| Err(StoreError::invalid(text));
        check_worker(&self.worker)?;
        Ttl::new(self.failover)?;
        if self.failover < SHORTEST {
            return bad(format!("a failover time of {:?} is under {SHORTEST:?}; choose more", self.failover));
        }
        for (what, number) in
            [("max_leases", self.most), ("leases_to_steal", self.steal), ("requests_at_once", self.at_once)]
        {
            if number == 0 {
                return bad(format!("{what} is 0, so that nothing could be done; choose 1 or more"));
            }
        }
        match self.look_every {
            Some(span) if span < Duration::from_millis(10) => {
                bad(format!("to read the whole table each {span:?} is too much; choose 10 ms or more"))
            }
            _ => Ok(()),
        }
    }

    /// How long each page of a look is asked for before the look has failed.
    pub(crate) fn look_patience(&self) -> Duration {
        self.failover / 2
    }

    /// How often to look.
    pub(crate) fn period(&self) -> Duration {
        self.look_every.unwrap_or(self.failover / 2)
    }

    /// Until when to believe in what was won by a request sent at `sent`.
    pub(crate) fn believed_until(&self, sent: Tick) -> Tick {
        sent.after(self.drift.belief(Ttl::clamped(millis(self.failover))))
    }

    /// When to renew what was won by a request sent at `sent`.
    pub(crate) fn renewed_at(&self, sent: Tick) -> Tick {
        sent.after(self.failover / 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named_with_a_remedy() {
        let good = Options::new("w");
        assert_eq!(good.check(), Ok(()));
        for (bad, says) in [
            (Options::new(""), "worker id"),
            (good.clone().failover(Duration::from_millis(200)), "failover time"),
            (good.clone().failover(Duration::from_secs(90_000)), "1 day"),
            (good.clone().max_leases(0), "max_leases"),
            (good.clone().leases_to_steal(0), "leases_to_steal"),
            (good.clone().requests_at_once(0), "requests_at_once"),
            (good.clone().look_every(Duration::ZERO), "10 ms"),
        ] {
            let error = bad.check().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn belief_ends_before_any_peer_may_take() {
        let options = Options::new("w").failover(Duration::from_secs(11));
        assert_eq!(options.believed_until(Tick(5)), Tick(9_000_000_005));
        assert!(options.renewed_at(Tick(0)) < Tick(3_700_000_000));
    }
}
