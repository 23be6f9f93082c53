//! A candidate's settings, and the check that they fit together.

use crate::holder::acquisition::{MetadataPolicy, WaitPolicy};
use crate::holder::command::{Command, KeepAlive, Want};
use crate::holder::lease_id::LeaseId;
use crate::values::error::InvalidInput;
use crate::values::key::Key;
use crate::values::metadata::Metadata;
use crate::values::time::{Drift, Ttl};
use std::time::Duration;

/// The terms of a candidacy. [`Terms::of`] gives the usual ones; [`Terms::check`] says whether they fit together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// What is led.
    pub key: Key,
    /// How long a leader that died is still taken for alive. Of a candidate that is attached: the session's ttl.
    pub ttl: Ttl,
    /// Whether leadership is attached to the process's session.
    pub is_attached: bool,
    /// How often to look at who leads, at least; a store that pushes changes tells sooner.
    pub follow: Duration,
    /// How often a leader renews.
    pub hold: Duration,
    /// After so many renewals in a row without success, one every `hold`, a leader steps down. Without a number it leads for as long as it
    /// believes: only while something runs under it does it step down before, by `reserve`.
    pub errors: Option<u32>,
    /// How long what runs under a leader may take to end.
    pub reserve: Duration,
    /// How long to stand back after stepping down.
    pub cooldown: Duration,
    /// The place in the order of preference; 0 comes first. Each place waits a quarter of `follow` longer before it takes a
    /// key that is free.
    pub rank: u32,
    /// What the record says of the leader, for people and other candidates.
    pub labels: Metadata,
    /// How far clock rates may be off.
    pub drift: Drift,
}

/// The last place in the order of preference.
const LAST_RANK: u32 = 8;

const LONGEST_COOLDOWN: Duration = Duration::from_secs(86_400);

impl Terms {
    /// The usual terms for a key: all that has to do with time in proportion to the ttl, so that 10 s give a look and a
    /// renewal every 2 s, and a cooldown of 4 s.
    #[must_use]
    pub fn of(key: Key, ttl: Ttl) -> Terms {
        Terms {
            key,
            ttl,
            is_attached: false,
            follow: ttl.part(5),
            hold: ttl.part(5),
            errors: None,
            reserve: ttl.part(8),
            cooldown: ttl.part(5) * 2,
            rank: 0,
            labels: Metadata::new(),
            drift: Drift::default(),
        }
    }

    /// Whether these terms fit together.
    ///
    /// # Errors
    /// When they don't: the text says which, why, and what to choose instead.
    pub fn check(&self) -> Result<(), InvalidInput> {
        let refuse = |text: String| Err(InvalidInput::new(text));
        let (ttl, belief) = (self.ttl.duration(), self.belief());
        let shortest = Duration::from_millis(1);
        for (name, interval) in [("follow", self.follow), ("hold", self.hold)] {
            if interval < shortest {
                return refuse(format!(
                    "a {name} interval of {interval:?} would only burn time; choose 1 ms or more"
                ));
            }
        }
        if self.follow > self.ttl.part(4) {
            return refuse(format!(
                "a follow interval of {:?} with a ttl of {ttl:?}: a dead leader would be succeeded later than 1.4 × ttl; choose \
                 {:?} or less, or a longer ttl",
                self.follow,
                self.ttl.part(4)
            ));
        }
        if self.hold > self.ttl.part(3) {
            return refuse(format!(
                "a hold interval of {:?} with a ttl of {ttl:?}: a leader could not survive one failed renewal; choose {:?} or \
                 less, or a longer ttl",
                self.hold,
                self.ttl.part(3)
            ));
        }
        if self.errors == Some(0) {
            return refuse("0 errors before falling back: no leader could lead; choose 1 or more".to_owned());
        }
        if let Some(errors) = self.errors
            && self.hold.saturating_mul(errors) >= belief
        {
            return refuse(format!(
                "{errors} errors in a row, one every {:?}, take {:?}, but a leader believes for {belief:?} only (of a ttl of \
                 {ttl:?}): choose fewer errors, a shorter hold interval, or a longer ttl",
                self.hold,
                self.hold.saturating_mul(errors)
            ));
        }
        if self.cooldown > LONGEST_COOLDOWN {
            return refuse(format!(
                "a cooldown of {:?}: a candidate that has resigned once would hardly stand again; choose a day or less, or stop it",
                self.cooldown
            ));
        }
        if self.rank > LAST_RANK {
            return refuse(format!("a preference of {} is beyond the last, {LAST_RANK}", self.rank));
        }
        Ok(())
    }

    /// How long a leader believes after it sent the write that won.
    #[must_use]
    pub fn belief(&self) -> Duration {
        self.drift.belief(self.ttl)
    }

    /// How long a leader goes on without a successful renewal, while `bodies` run under it or not.
    #[must_use]
    pub fn tolerance(&self, bodies: bool) -> Duration {
        match self.errors {
            Some(errors) => self.hold.saturating_mul(errors),
            None if bodies => self.belief().saturating_sub(self.reserve),
            None => self.belief(),
        }
    }

    /// How much longer than the most preferred candidate this one waits before it takes a key that is free.
    #[must_use]
    pub fn deference(&self) -> Duration {
        self.follow / 4 * self.rank
    }

    /// The command that tries to get the key.
    pub(crate) fn acquire(&self, lease: LeaseId) -> Command {
        let keep_alive = if self.is_attached { KeepAlive::Session } else { KeepAlive::Own(self.ttl) };
        let wait_policy = WaitPolicy::Follow { every: self.follow, after: self.deference() };
        let (key, metadata_policy) = (self.key.clone(), MetadataPolicy::Replace(self.labels.clone()));
        Command::Acquire(lease, Want { key, keep_alive, metadata_policy, wait_policy })
    }

    /// The command that only looks.
    pub(crate) fn watch(&self, lease: LeaseId) -> Command {
        let (key, metadata_policy) = (self.key.clone(), MetadataPolicy::Replace(Metadata::new()));
        let wait_policy = WaitPolicy::Watch { every: self.follow };
        Command::Acquire(
            lease,
            Want { key, keep_alive: KeepAlive::Own(self.ttl), metadata_policy, wait_policy },
        )
    }
}

#[cfg(test)]
mod tests {
    //! Plan: the defaults fit for every ttl; each inconsistency is refused with what is wrong and what to choose; the limits
    //! themselves are allowed.
    use super::*;
    use proptest::prelude::*;

    fn terms() -> Terms {
        Terms::of(Key::new("default").unwrap(), Ttl::new(Duration::from_secs(10)).unwrap())
    }

    #[test]
    fn the_defaults_fit_whatever_the_ttl() {
        proptest!(|(millis in 10u64..=86_400_000)| {
            let terms = Terms { ttl: Ttl::clamped(millis), ..Terms::of(terms().key, Ttl::clamped(millis)) };
            prop_assert_eq!(terms.check(), Ok(()));
        });
        let ten = terms();
        assert_eq!(
            (ten.follow, ten.hold, ten.errors),
            (Duration::from_secs(2), Duration::from_secs(2), None)
        );
    }

    #[test]
    fn what_does_not_fit_is_refused_with_a_remedy() {
        let secs = Duration::from_secs_f64;
        let cases = [
            (Terms { follow: Duration::ZERO, ..terms() }, "follow interval of 0ns", "1 ms or more"),
            (Terms { hold: Duration::ZERO, ..terms() }, "hold interval of 0ns", "1 ms or more"),
            (Terms { follow: secs(2.6), ..terms() }, "follow interval of 2.6s", "2.5s or less"),
            (Terms { hold: secs(3.4), ..terms() }, "hold interval of 3.4s", "3.333333333s or less"),
            (Terms { errors: Some(0), ..terms() }, "0 errors", "1 or more"),
            (
                Terms { errors: Some(5), ..terms() },
                "5 errors in a row, one every 2s, take 10s",
                "fewer errors",
            ),
            (
                Terms { hold: secs(3.0), errors: Some(3), ..terms() },
                "believes for 8.181818181s only",
                "longer ttl",
            ),
            (Terms { rank: 9, ..terms() }, "preference of 9", "8"),
        ];
        for (terms, what, remedy) in cases {
            let text = terms.check().unwrap_err().to_string();
            assert!(text.contains(what) && text.contains(remedy), "{text}");
        }
        let limits = Terms { follow: secs(2.5), hold: secs(2.7), errors: Some(3), rank: 8, ..terms() };
        assert_eq!(limits.check(), Ok(()));
        let fast = Duration::from_millis(1);
        assert_eq!(Terms { follow: fast, hold: fast, ..terms() }.check(), Ok(()));
        assert_eq!(Terms { hold: terms().ttl.part(3), errors: Some(2), ..terms() }.check(), Ok(()));
    }

    #[test]
    fn those_who_come_later_in_the_order_wait_longer() {
        let wait = |rank| Terms { rank, ..terms() }.deference();
        assert_eq!([wait(0), wait(1), wait(4)], [0, 500, 2000].map(Duration::from_millis));
    }
}
