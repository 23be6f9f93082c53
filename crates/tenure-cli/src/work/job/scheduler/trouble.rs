//! Trouble with the store: the scheduler tries on for a while, tells each new kind of it once, and gives up in the end.

use super::{SHORT, Scheduler};
use crate::exit::{self, Failure};
use crate::output;
use crate::stores::file::FileWatch;
use crate::text::brief;
use std::time::Duration;
use tenure::StoreError;
use tenure::clock::boottime;

/// Since when nothing has worked, and what was said last.
#[derive(Default)]
pub(super) struct StoreTrouble {
    last: Option<(Duration, String)>,
    file: FileWatch,
}

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
        match &mut self.last {
            Some((since, _)) if now.saturating_sub(*since) > patience => TroubleOutcome::GiveUp,
            Some((_, last)) if *last == text => TroubleOutcome::IsKnown,
            Some((_, last)) => {
                text.clone_into(last);
                TroubleOutcome::IsNew
            }
            None => {
                self.last = Some((now, text.to_owned()));
                TroubleOutcome::IsNew
            }
        }
    }

    /// Something has worked.
    pub(super) fn end(&mut self) {
        self.last = None;
    }
}

impl Scheduler {
    /// The store is this file.
    pub(crate) fn is_in(&mut self, file: FileWatch) {
        self.trouble.file = file;
    }

    /// Something did not work that may work later.
    pub(super) fn on_trouble(&mut self, error: &StoreError) {
        let now = boottime();
        let text = error.to_string();
        self.board.drop_candidates();
        self.rounds.look_at(now + (self.plan.ttl / 10).clamp(SHORT, Duration::from_secs(1)));
        // A file that is gone may be put back, but not when whoever has removed it is done with that.
        let is_gone = self.trouble.file.is_gone();
        let patience = if is_gone { self.plan.ttl } else { (self.plan.ttl * 6).max(Duration::from_secs(60)) };
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
