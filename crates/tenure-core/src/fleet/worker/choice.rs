//! Choosing another worker: for a unit that has failed, and for a unit that a user hands over by name. The planner knows the other
//! workers; any other worker lists the roster first. One that the store does not let list chooses from those that it knows.

use super::FleetWorker;
use super::own::Stage;
use super::retry::MayStay;
use crate::bugs::Bug;
use crate::fleet::talk::RequestId;
use crate::holder::lease_id::LeaseId;
use crate::values::key::HolderId;
use crate::values::time::Now;

/// A unit that is to go to another worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Choice {
    pub(super) lease: LeaseId,
    request: RequestId,
    end: EndedUnit,
}

/// How a unit came to be given up, by which the next worker is chosen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum EndedUnit {
    /// A user has named the next one.
    HandedTo(HolderId),
    /// Whoever is next in turn has it; or this worker again, after a rest.
    Failed,
    /// The same, but for a rest under this tenure: what was done for it may go on, and is told from what comes next by the fence alone.
    Abandoned,
}

impl FleetWorker {
    /// This worker is done with a unit: another one is to have it.
    pub(super) fn choose(&mut self, now: Now, lease: LeaseId, request: RequestId, end: EndedUnit) {
        let Some((_, own)) = self.ending(lease, request) else { return };
        own.asked.end = Some(request);
        // What was to end has not failed. It goes where it was to go, for which nobody need be listed.
        if end == EndedUnit::Abandoned && own.stage == Stage::Draining {
            return self.give_away(now, lease);
        }
        self.roster.choose_from(Choice { lease, request, end });
        if self.is_planner() || self.board.is_blind() || !self.lister.may_list(now) {
            self.choose_from_roster(now);
        }
    }

    /// Whether the roster has to be listed: for that, or since this worker stands by and there is a new generation.
    pub(super) fn wants_roster(&self) -> bool {
        let generation = self.generation();
        self.roster.is_awaited() || self.is_standby() && !self.lister.has_roster_of(generation)
    }

    /// The others are known, or as many of them as there are to be known.
    pub(super) fn choose_from_roster(&mut self, now: Now) {
        for Choice { lease, request, end } in self.roster.take_choices() {
            // One that is being given up meanwhile is answered by that.
            let stage = self.own_of(lease).map(|(_, own)| own.stage);
            let Some(stage @ (Stage::Held | Stage::Draining)) = stage else { continue };
            match end {
                EndedUnit::HandedTo(holder) => self.hand_to(now, lease, request, &holder),
                EndedUnit::Failed => self.decline(now, lease, MayStay::Yes),
                EndedUnit::Abandoned if self.env.has_bug(Bug::AbandonedInPlace) => {
                    self.decline(now, lease, MayStay::Yes);
                }
                EndedUnit::Abandoned if stage == Stage::Draining => self.give_away(now, lease),
                EndedUnit::Abandoned => self.decline(now, lease, MayStay::No),
            }
        }
    }
}
