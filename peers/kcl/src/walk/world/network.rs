//! The network between the table and the workers: what is late, and what is lost; and what the service does with a change.

use super::super::time::{FAILOVER, Micros};
use super::{Happens, KclWorld};
use crate::change::{ChangeAim, RowChange};
use crate::settling::{ChangeAnswer, Settling};
use crate::worker::ChangePurpose;
use std::sync::atomic::Ordering;
use tenure_core::{Clock, ErrorKind, StoreError};

impl KclWorld {
    pub(super) fn request(&mut self, who: u64, now: Micros, settling: Settling, purpose: ChangePurpose) {
        self.ids += 1;
        let attempt = self.ids;
        let change = Box::new(settling.change.clone());
        let Some(ours) = self.ours.get_mut(&who) else { return };
        ours.clock.now.fetch_max(now, Ordering::SeqCst);
        let sent = ours.clock.held();
        let patience = u64::try_from(settling.patience(sent).as_micros()).unwrap() * 100 / ours.clock.rate;
        ours.under_way.insert(attempt, (settling, purpose, sent));
        let unknown = Err(StoreError::new(ErrorKind::Unknown, "no answer"));
        self.at(now + patience, who, Happens::Answered { attempt, answer: Box::new(unknown) });
        if !self.is_lost() {
            let arrives = now + self.delay();
            let is_answered = !self.is_lost();
            self.at(arrives, who, Happens::Change { attempt, change, is_answered });
        }
    }

    pub(super) fn answer(&mut self, who: u64, is_answered: bool, happens: Happens) {
        let at = self.now + self.delay();
        match happens {
            happens if is_answered => self.at(at, who, happens),
            // The change's patience ends by itself.
            Happens::Answered { .. } => {}
            _ => {
                let error = StoreError::unavailable("no answer");
                self.at(at + FAILOVER / 2, who, Happens::Looked(Err(error)));
            }
        }
    }

    pub(super) fn delay(&mut self) -> Micros {
        let usual = 200 + self.rng.below(4_000);
        if self.is_faulty() && self.rng.one_in(20) { usual + self.rng.below(FAILOVER * 3 / 2) } else { usual }
    }

    pub(super) fn is_lost(&mut self) -> bool {
        self.is_faulty() && self.rng.one_in(15)
    }

    /// What the service does: the conditions of all changes are those of the row that was read.
    pub(super) fn perform(&mut self, change: &RowChange) -> ChangeAnswer {
        let key = change.before.key();
        match self.rows.get_mut(key) {
            Some(row) if row.is_same(&change.before) => {
                if change.aim == ChangeAim::Delete {
                    self.rows.remove(key);
                    return ChangeAnswer::Made(None);
                }
                *row = change.after.clone();
                ChangeAnswer::Made(Some(row.clone()))
            }
            row => ChangeAnswer::Refused(row.map(|row| row.clone())),
        }
    }
}
