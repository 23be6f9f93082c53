//! L1, takeover is bounded: with the store up, a dead holder's key is held again within 1.4 × ttl on any store, and within
//! 1.15 × ttl where the store tells the age of a record (and wall clocks agree) or pushes changes. A released key goes to a
//! waiter in one push or one poll.
//!
//! Source: the promise L1; KCL issue 1803 (leader killed and nobody takes over); lock client issue 44 and dynamolock issue 84
//! (a dead lock is never taken). Counted from the death, in true time, with a waiter that waited before it.

use crate::kernel::clock::{SECOND, True};
use std::collections::BTreeMap;
use tenure_core::LeaseId;

/// A holder that died, or a key that was given up, while others waited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vacancy {
    pub(crate) since: True,
    pub(crate) bound: True,
    pub(crate) by_death: bool,
    /// On which node, and as which lease, someone waited for it before.
    pub(crate) waiter: (usize, LeaseId),
}

/// Keys that wait for their next holder.
#[derive(Debug, Default)]
pub(crate) struct Takeovers {
    open: BTreeMap<usize, Vacancy>,
    /// How long takeovers took, in hundredths of a ttl: those of deaths.
    pub(crate) taken: Vec<u32>,
}

impl Takeovers {
    pub(crate) fn begin(&mut self, key: usize, vacancy: Vacancy) {
        self.open.entry(key).or_insert(vacancy);
    }

    /// Mail was written to someone who may be dead: the record's age begins anew, so only silence counts.
    pub(crate) fn age_is_lost(&mut self, bound: True) {
        for vacancy in self.open.values_mut().filter(|vacancy| vacancy.by_death) {
            vacancy.bound = vacancy.bound.max(bound);
        }
    }

    /// Nobody waits any more, or it starts over.
    pub(crate) fn cancel(&mut self, key: usize) {
        self.open.remove(&key);
    }

    /// Who waited does not any more, so nothing is promised.
    pub(crate) fn waiter_left(&mut self, lease: LeaseId) {
        self.open.retain(|_, vacancy| vacancy.waiter.1 != lease);
    }

    pub(crate) fn waiters_died(&mut self, node: usize) {
        self.open.retain(|_, vacancy| vacancy.waiter.0 != node);
    }

    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }

    /// Someone holds `key`.
    pub(crate) fn held(&mut self, key: usize, t: True, ttl: True) -> Result<(), String> {
        let Some(vacancy) = self.open.remove(&key) else { return Ok(()) };
        if vacancy.by_death {
            self.taken.push(((t - vacancy.since) * 100 / ttl) as u32);
        }
        in_time(key, vacancy, t)
    }

    /// Time has passed.
    pub(crate) fn look(&self, t: True) -> Result<(), String> {
        self.open.iter().try_for_each(|(key, vacancy)| in_time(*key, *vacancy, t))
    }
}

fn in_time(key: usize, vacancy: Vacancy, t: True) -> Result<(), String> {
    if t - vacancy.since <= vacancy.bound {
        return Ok(());
    }
    Err(format!(
        "k{key}, {} at {:.3} s, was not held again within {:.3} s",
        if vacancy.by_death { "whose holder died" } else { "given up" },
        vacancy.since as f64 / SECOND as f64,
        vacancy.bound as f64 / SECOND as f64
    ))
}
