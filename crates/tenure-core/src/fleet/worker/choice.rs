//! Choosing another worker: for a unit that has failed, and for a unit that a user hands over by name. The planner knows the other
//! workers; any other worker lists the roster first. One that the store does not let list chooses from those that it knows.

use super::Worker;
use super::own::Stage;
use crate::fleet::talk::RequestId;
use crate::holder::lease_id::LeaseId;
use crate::values::key::HolderId;
use crate::values::time::Now;

/// A unit that is to go to another worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Choice {
    pub(super) lease: LeaseId,
    request: RequestId,
    /// This one; or whoever is next in turn.
    to: Option<HolderId>,
}

impl Worker {
    /// What was done for a unit has ended: another worker is to have it.
    pub(super) fn choose(&mut self, now: Now, lease: LeaseId, request: RequestId, to: Option<HolderId>) {
        let Some((_, own)) = self.ending(lease, request) else { return };
        own.asked.end = Some(request);
        self.choices.push(Choice { lease, request, to });
        if self.is_planner() || self.look.blind || !self.may_list(now) {
            self.choose_from_roster(now);
        }
    }

    /// Whether the roster has to be listed: for that, or since this worker stands by and there is a new generation.
    pub(super) fn wants_roster(&self) -> bool {
        let generation = self.generation();
        !self.choices.is_empty() || self.is_standby() && self.roster_of != Some(generation)
    }

    /// The others are known, or as many of them as there are to be known.
    pub(super) fn choose_from_roster(&mut self, now: Now) {
        for Choice { lease, request, to } in std::mem::take(&mut self.choices) {
            // One that is being given up meanwhile is answered by that.
            let is_here = |stage| matches!(stage, Stage::Held | Stage::Draining);
            if !self.own_of(lease).is_some_and(|(_, own)| is_here(own.stage)) {
                continue;
            }
            match to {
                Some(holder) => self.hand_to(now, lease, request, &holder),
                None => self.decline(now, lease),
            }
        }
    }
}
