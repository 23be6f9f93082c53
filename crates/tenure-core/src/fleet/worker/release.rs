//! The end of a unit's tenure here: it is given up, passed on to another worker, or lost.

use super::FleetWorker;
use super::own::{Own, Stage};
use crate::bugs::Bug;
use crate::fleet::talk::{FleetNotice, RequestId};
use crate::fleet::unit::Status;
use crate::holder::command::Command;
use crate::holder::lease_id::LeaseId;
use crate::holder::loss::Loss;
use crate::holder::update::Transferee;
use crate::values::error::StoreError;
use crate::values::key::{HolderId, Key};
use crate::values::metadata::Metadata;
use crate::values::time::Now;

impl FleetWorker {
    pub(super) fn released(&mut self, now: Now, lease: LeaseId, ours: bool) {
        let Some((key, own)) = self.own_of(lease) else { return };
        let (told, is_done) = (own.told, own.spec.status == Status::Done);
        let (transferee, chosen, asker) = (own.transferee.take(), own.chosen, own.asked.end);
        let told_by_letter = self.retries.passed(&key).filter(|_| ours);
        self.await_vacancy(lease);
        self.forget(lease);
        if told {
            self.tell(FleetNotice::Released(lease, asker, ours));
        }
        self.given_again(now, key.clone());
        if let Some(session) = told_by_letter {
            return self.tell_of_unit(now, key, session);
        }
        // The others are told once it is so: before that, they would find nothing.
        if self.life.leaving && self.own.is_empty() {
            // Nothing else is given up here that they could hear of by the same telling, and this worker waits for it to be told.
            self.want_advance(now.held);
        } else if is_done {
            // Many units may be finished at about the same time: the others need to hear of it once.
            self.want_advance(now.held.after(self.env.interval()));
        } else if transferee.is_none_or(|transferee| transferee == self.env.me) {
            self.want_advance(now.held.after(self.env.interval() / 2));
        } else if chosen {
            // No plan tells its transferee to expect it.
            self.want_advance(now.held);
        } else if !self.env.has_bug(Bug::AwaitedForgotten) {
            // All look once more whether what was passed on has arrived: at once when that was the last for now.
            let goes = |own: &Own| matches!(own.stage, Stage::Draining | Stage::Going);
            let parts = if self.own.values().any(goes) { 1 } else { 4 };
            self.want_advance(now.held.after(self.env.interval() / parts));
        }
    }

    pub(super) fn lost(&mut self, now: Now, lease: LeaseId, loss: Loss) {
        let Some((key, own)) = self.own_of(lease) else { return };
        let asker = own.asked.end;
        let (told, held) = (own.told, asker.is_none() && matches!(own.stage, Stage::Held | Stage::Draining));
        self.await_vacancy(lease);
        self.forget(lease);
        match (told, held) {
            (true, true) => self.tell(FleetNotice::Lost(lease, loss)),
            (true, false) => self.tell(FleetNotice::Released(lease, asker, false)),
            (false, _) => {}
        }
        self.given_again(now, key);
        self.want_advance(now.held);
        // What was planned for this worker before may be so again.
        self.list_again(now.held);
    }

    /// Passes it to whom it is planned for, or to nobody.
    pub(super) fn give_away(&mut self, now: Now, lease: LeaseId) {
        self.pass_on(now, lease, Metadata::new());
    }

    /// The same, with these names in the reserved field of its record.
    pub(super) fn pass_on(&mut self, now: Now, lease: LeaseId, own: Metadata) {
        let transferee = self.transferee(lease);
        self.going(lease);
        match transferee {
            Some(transferee) => self.command_holder(now, Command::Pass(lease, Box::new(transferee), own)),
            None if own.is_empty() => self.command_holder(now, Command::Release(lease, None)),
            None => self.command_holder(now, Command::ReleaseNoted(lease, own)),
        }
    }

    /// Who else is to have it.
    pub(super) fn transferee(&self, lease: LeaseId) -> Option<Transferee> {
        let own = self.own.by_lease(lease)?;
        let session = own.transferee.as_ref().filter(|session| **session != self.env.me)?;
        self.roster.transferee(session)
    }

    /// Hands it to a worker that is on the roster, once that was listed.
    pub(super) fn hand_to(&mut self, now: Now, lease: LeaseId, request: RequestId, to: &HolderId) {
        let session = self.roster.session_of(to).cloned();
        match (self.own_of(lease), session) {
            (Some((_, own)), session @ Some(_)) => {
                own.transferee = session;
                own.chosen = true;
                self.give_away(now, lease);
            }
            (Some((_, own)), None) => {
                own.asked.end = None;
                let text = format!("there is no worker {to} in the fleet; see its roster");
                self.tell(FleetNotice::Failed(lease, request, StoreError::invalid(text)));
            }
            (None, _) => {}
        }
    }

    pub(super) fn going(&mut self, lease: LeaseId) {
        if let Some((_, own)) = self.own_of(lease) {
            own.stage = Stage::Going;
        }
    }

    pub(super) fn forget(&mut self, lease: LeaseId) -> Option<Key> {
        self.claims.ended(lease);
        let key = self.own.forget(lease)?;
        self.roster.forget_choice(lease);
        self.retries.forget(&key);
        Some(key)
    }

    /// It is over for its users, and its record may still show it. Whoever waits for it now may not do so any more by the next plan, which leaves here what
    /// it finds here.
    fn await_vacancy(&mut self, lease: LeaseId) {
        if self.holder.is_given_up(lease) {
            self.own.lapses(lease);
        }
    }

    /// What was withdrawn or could not be ended is vacated after its time. A plan that was made before that left it here.
    pub(super) fn tell_vacated(&mut self, now: Now) {
        let holder = &self.holder;
        if self.own.have_lapsed(|lease| holder.is_given_up(lease)) && !self.env.has_bug(Bug::LapseUntold) {
            self.want_advance(now.held);
        }
    }
}

#[cfg(test)]
mod tests;
