//! What a worker knows of its fleet's board, and so of who plans.
//!
//! The board is *unknown* before the first look, *seen*, or *blind*: its record can't be read, and all is listed in each interval until somebody
//! mends or deletes it. A board that was seen names a planner or nobody. The planner that it names may have *gone* since: it is dead, or has stopped.

use super::env::FleetEnv;
use crate::fleet::board::{self, SeenBoard, ToldPlan};
use crate::fleet::planning::{Planning, Role};
use crate::fleet::talk::FleetNotice;
use crate::values::fence::Fence;
use crate::values::key::{HolderId, Key};
use crate::values::record::{Attachment, Stored};
use crate::values::time::{Now, Tick};

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct KnownBoard {
    seen: Option<SeenBoard>,
    /// Who plans, by the board.
    planner: Option<Attachment>,
    /// A planner that is named by the board, and is dead or has stopped.
    gone: Option<Attachment>,
    /// What users were told of that.
    told: (Role, Planning),
    is_blind: bool,
    /// Since when it shows the alarm.
    alarmed: Option<Tick>,
}

impl KnownBoard {
    pub(super) fn seen(&self) -> Option<&SeenBoard> {
        self.seen.as_ref()
    }

    pub(super) fn stored(&self) -> Option<&Stored> {
        self.seen.as_ref().map(|board| &board.stored)
    }

    /// The generation that it shows.
    pub(super) fn generation(&self) -> Fence {
        board::generation(self.stored())
    }

    /// The last plan that was told by who plans now.
    pub(super) fn told_plan(&self) -> Option<&ToldPlan> {
        self.seen.as_ref()?.plan.as_ref()
    }

    /// Whether it names this worker as one that is to take the planner's place.
    pub(super) fn names_standby(&self, worker: &HolderId) -> bool {
        self.seen.as_ref().is_some_and(|board| board.standbys.contains(worker))
    }

    pub(super) fn has_standbys(&self) -> bool {
        self.seen.as_ref().is_some_and(|board| !board.standbys.is_empty())
    }

    pub(super) fn planner(&self) -> Option<&Attachment> {
        self.planner.as_ref()
    }

    /// Whether the planner that it names has this session, whichever of its fences.
    pub(super) fn names_planner(&self, session: &Key) -> bool {
        self.planner.as_ref().is_some_and(|planner| planner.session == *session)
    }

    /// Whether this is the planner that has gone.
    pub(super) fn has_gone(&self, planner: &Attachment) -> bool {
        self.gone.as_ref() == Some(planner)
    }

    /// The session of the planner is over, though the board still names it.
    pub(super) fn planner_went(&mut self) {
        self.gone.clone_from(&self.planner);
    }

    /// Whether its record can't be read.
    pub(super) fn is_blind(&self) -> bool {
        self.is_blind
    }

    /// A look has read the record, or could not.
    pub(super) fn reads(&mut self, can_read: bool) {
        self.is_blind = !can_read;
    }

    /// Whether an alarm stands. One that was raised long ago was a false one, and nobody looks more often for it any more.
    pub(super) fn is_alarmed(&self, now: Now, env: &FleetEnv) -> bool {
        self.alarmed.is_some_and(|since| now.held.since(since) < env.part(1) * 2)
    }

    /// This worker sets the alarm.
    pub(super) fn alarms(&mut self, now: Now) {
        self.alarmed = Some(now.held);
    }

    /// Whether this is the board as it was seen before.
    pub(super) fn is_same(&self, board: Option<&Stored>) -> bool {
        self.stored().map(|seen| seen.version) == board.map(|board| board.version)
    }

    /// A board shows the alarm, or none.
    pub(super) fn see_alarm(&mut self, now: Now, board: Option<&Stored>) {
        self.alarmed = board::is_alarmed(board).then_some(now.held);
    }

    /// This is the board now.
    pub(super) fn see(&mut self, board: Option<Stored>) {
        let planner = board.as_ref().and_then(|board| board::planner(&board.record));
        if planner != self.planner {
            // Whoever plans anew lives, whatever became of its session's record before.
            self.gone = None;
        }
        self.planner = planner;
        self.seen = board.map(SeenBoard::of);
    }

    /// What users are told of who plans, and of what this worker is to that, if either has changed.
    pub(super) fn planning(&mut self, role: Role) -> Option<FleetNotice> {
        let planning = self.stored().map(|board| Planning::of(&board.record)).unwrap_or_default();
        if (role, &planning) == (self.told.0, &self.told.1) {
            return None;
        }
        self.told = (role, planning.clone());
        Some(FleetNotice::Planning(role, Box::new(planning)))
    }
}
