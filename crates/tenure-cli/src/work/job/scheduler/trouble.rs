//! Trouble with the store, or with starting commands: the scheduler tries on for a while, tells each kind of it once, and gives up in the end.

use super::{SHORT, Scheduler};
use crate::exit::{self, Failure};
use crate::output;
use crate::stores::file::FileWatch;
use crate::text::brief;
use std::collections::VecDeque;
use std::time::Duration;
use tenure::StoreError;
use tenure::clock::boottime;

/// Since when nothing has worked, and what was said of it.
#[derive(Default)]
pub(super) struct FailureStreak {
    since: Option<Duration>,
    /// The last few texts: several servers may fail in turn, each in its way.
    told: VecDeque<String>,
}

/// What follows from a failure.
enum TroubleOutcome {
    /// It was not told yet.
    IsNew,
    IsKnown,
    /// It has lasted for too long.
    GiveUp,
}

impl FailureStreak {
    /// Something has failed like this. `patience`: for how long that may go on.
    fn on(&mut self, text: &str, patience: Duration, now: Duration) -> TroubleOutcome {
        const MOST: usize = 8;
        if now.saturating_sub(*self.since.get_or_insert(now)) > patience {
            return TroubleOutcome::GiveUp;
        }
        if self.told.iter().any(|told| told == text) {
            return TroubleOutcome::IsKnown;
        }
        if self.told.len() >= MOST {
            self.told.pop_front();
        }
        self.told.push_back(text.to_owned());
        TroubleOutcome::IsNew
    }

    /// Something has worked.
    pub(super) fn end(&mut self) {
        *self = FailureStreak::default();
    }
}

impl Scheduler {
    /// The store is this file.
    pub(crate) fn is_in(&mut self, file: FileWatch) {
        self.file = file;
    }

    /// The store has failed in a way that may pass.
    pub(super) fn on_trouble(&mut self, error: &StoreError) {
        // A file that is gone may be put back, but not when whoever has removed it is done with that.
        let patience = if self.file.is_gone() { self.plan.ttl } else { self.patience() };
        self.try_on(|scheduler| &mut scheduler.trouble, &error.to_string(), patience, exit::UNAVAILABLE);
        if !error.is_passing() {
            self.give_up(error.clone().into());
        }
    }

    /// No command can be started for now: this machine has no processes or no memory left.
    pub(super) fn on_unstarted(&mut self, text: &str) {
        let patience = self.patience();
        self.try_on(|scheduler| &mut scheduler.unstarted, text, patience, exit::CANNOT_EXECUTE);
    }

    fn patience(&self) -> Duration {
        (self.plan.ttl * 6).max(Duration::from_secs(60))
    }

    fn try_on(
        &mut self,
        trouble: impl FnOnce(&mut Scheduler) -> &mut FailureStreak,
        text: &str,
        patience: Duration,
        code: u8,
    ) {
        let now = boottime();
        self.board.drop_candidates();
        self.rounds.look_at(now + (self.plan.ttl / 10).clamp(SHORT, Duration::from_secs(1)));
        // What runs is not given up for it.
        let at_most = if self.slots.tasks() == 0 { patience } else { Duration::MAX };
        match trouble(self).on(text, at_most, now) {
            TroubleOutcome::IsNew => output::note(format!("{text}; trying on")),
            TroubleOutcome::IsKnown => {}
            TroubleOutcome::GiveUp => {
                let text = format!("{text}; given up after {}", brief(patience));
                self.give_up(Failure::new(code, text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_trouble_is_told_once_and_lasts_for_so_long_at_most() {
        let (second, mut trouble) = (Duration::from_secs(1), FailureStreak::default());
        let mut told = |text: &str, at: u32| match trouble.on(text, second * 9, second * at) {
            TroubleOutcome::IsNew => "new",
            TroubleOutcome::IsKnown => "known",
            TroubleOutcome::GiveUp => "over",
        };
        let seen = [("a", 1), ("b", 2), ("a", 3), ("b", 10), ("a", 11)].map(|(text, at)| told(text, at));
        assert_eq!(seen, ["new", "new", "known", "known", "over"]);
        trouble.end();
        assert!(matches!(trouble.on("a", second, second * 99), TroubleOutcome::IsNew));
        for n in 0..100 {
            let _outcome = trouble.on(&n.to_string(), second, second * 99);
        }
        assert!(trouble.told.len() < 10);
    }
}
