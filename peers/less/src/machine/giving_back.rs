//! How a candidate that leads no more gives its row back, and lets others go first.

use super::{EndCause, Intent, LeadershipMachine, MachineStep, Phase, Sight, StorageCall};
use crate::storage::Seen;
use tenure_core::Now;

/// How often a candidate that gives its row back may fail to. One that resigns goes on for twice its follow rate at the least.
const RELEASES: u32 = 2;

impl LeadershipMachine {
    /// Whoever wishes to lead no more does not, also while a call is under way.
    pub(super) fn mind_the_wish(&mut self, now: Now) {
        let cause = match self.wish {
            Intent::Lead => return,
            Intent::Resign => EndCause::Resigned,
            Intent::Stop | Intent::Lapse => EndCause::Stopped,
        };
        if matches!(self.phase, Phase::Leading { .. }) {
            self.step_down(cause, now);
        }
    }

    /// What follows from a wish to lead no more; none if there is no such wish, or it is fulfilled.
    pub(super) fn give_up(&mut self, now: Now) -> Option<MachineStep> {
        if self.wish == Intent::Lead {
            return None;
        }
        if self.is_giving_back() {
            if now.held < self.next_release {
                return Some(MachineStep::Wait(self.next_release));
            }
            self.has_resigned = self.wish == Intent::Resign;
            if self.failed_releases == 0 {
                self.gives_back_until = now.held.after(self.options.follow * 2);
            }
            let ask = self.own.take().map_or(StorageCall::Look, |row| StorageCall::Release { row });
            return Some(self.ask(ask, now));
        }
        if self.wish != Intent::Resign {
            return Some(MachineStep::Over);
        }
        self.wish = Intent::Lead;
        self.failed_releases = 0;
        self.next_release = now.held;
        self.stands_back = now.held.after(self.options.follow * 2);
        self.next = self.next.max(self.stands_back);
        None
    }

    /// Whether a row that may be its own is to be given back.
    pub(super) fn is_giving_back(&self) -> bool {
        self.may_be_mine && matches!(self.wish, Intent::Resign | Intent::Stop)
    }

    /// Its row could not be given back.
    pub(super) fn failed_to_give_back(&mut self, now: Now) {
        self.failed_releases += 1;
        let has_time = self.wish == Intent::Resign && now.held < self.gives_back_until;
        if self.failed_releases >= RELEASES && !has_time {
            self.may_be_mine = false;
            self.sight = Sight::Unknown;
        }
    }

    /// A row that this candidate could not give back when it resigned is gone after all, or another leads.
    pub(super) fn let_others_go_first(&mut self, seen: &Seen, now: Now) {
        match &seen.row {
            Some(row) => self.has_resigned &= row.value == self.id,
            None if self.has_resigned && !matches!(self.sight, Sight::Vacant) => {
                self.stands_back = now.held.after(self.options.follow * 2);
            }
            None => {}
        }
    }
}
