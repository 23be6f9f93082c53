//! Trouble with the store: the scheduler tries on for a while, tells each new kind of it once, and gives up in the end.

use super::{SHORT, Scheduler};
use crate::exit::{self, Failure};
use crate::output;
use crate::text::brief;
use std::time::Duration;
use tenure::StoreError;
use tenure::clock::boottime;

/// Since when nothing has worked, and what was said last.
#[derive(Default)]
pub(super) struct StoreTrouble(Option<(Duration, String)>);

/// What follows from a failure.
enum TroubleOutcome {
    /// It is the first, or another than the last.
    IsNew,
    IsKnown,
    /// It has lasted for too long.
    GiveUp,
}

impl StoreTrouble {
    /// Something has failed like this. `patience`: for how long that may go on.
    fn on(&mut self, text: &str, patience: Duration, now: Duration) -> TroubleOutcome {
        match &mut self.0 {
            Some((since, _)) if now.saturating_sub(*since) > patience => TroubleOutcome::GiveUp,
            Some((_, last)) if *last == text => TroubleOutcome::IsKnown,
            Some((_, last)) => {
                text.clone_into(last);
                TroubleOutcome::IsNew
            }
            None => {
                self.0 = Some((now, text.to_owned()));
                TroubleOutcome::IsNew
            }
        }
    }

    /// Something has worked.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }
}

impl Scheduler {
    /// Something did not work that may work later.
    pub(super) fn on_trouble(&mut self, error: &StoreError) {
        let now = boottime();
        let text = error.to_string();
        self.board.drop_candidates();
        self.rounds.look_at(now + (self.plan.ttl / 10).clamp(SHORT, Duration::from_secs(1)));
        let patience = (self.plan.ttl * 6).max(Duration::from_secs(60));
        // What runs is not given up for it.
        let at_most = if self.slots.tasks() == 0 { patience } else { Duration::MAX };
        match self.trouble.on(&text, at_most, now) {
            TroubleOutcome::IsNew => output::note(format!("{text}; trying on")),
            TroubleOutcome::IsKnown => {}
            TroubleOutcome::GiveUp => {
                let text = format!("{text}; given up after {}", brief(patience));
                return self.give_up(Failure::new(exit::UNAVAILABLE, text));
            }
        }
        if !error.is_passing() {
            self.give_up(error.clone().into());
        }
    }
}
