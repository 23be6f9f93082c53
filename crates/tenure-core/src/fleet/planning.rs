//! Who plans for a fleet and which plan was told last, as its board says; and what a worker tells its users of that.

use super::board;
use super::names::FleetName;
use super::talk::FleetNotice;
use super::worker::Worker;
use crate::values::key::HolderId;
use crate::values::record::{Attachment, Record};
use crate::values::time::Wall;
use std::collections::BTreeSet;

/// What a fleet's board says of its planning.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Planning {
    /// The session of the worker that plans for all. It may be dead, until another worker takes its place.
    pub planner: Option<Attachment>,
    /// The workers that watch the planner, and are to take its place.
    pub standbys: BTreeSet<HolderId>,
    /// The number of the last plan that this planner told. Each planner counts its own.
    pub plan: Option<u64>,
    /// When that was, by the planner's wall clock. None where the record does not say.
    pub told: Option<Wall>,
}

impl Planning {
    /// As a board's record says.
    #[must_use]
    pub fn of(board: &Record) -> Planning {
        Planning {
            planner: board::planner(board),
            standbys: board::standbys(board),
            plan: board::told_plan(board),
            told: board::told_at(board),
        }
    }

    /// The worker that plans, by name.
    #[must_use]
    pub fn holder(&self, fleet: &FleetName) -> Option<HolderId> {
        let session = &self.planner.as_ref()?.session;
        HolderId::new(session.as_str().strip_prefix(&fleet.worker_prefix())?).ok()
    }
}

/// What a worker is to its fleet's planning.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Role {
    /// It plans for all.
    Planner,
    /// It watches the planner, and is to take its place.
    Standby,
    /// It hears its part of the plan.
    #[default]
    Member,
}

impl Role {
    /// In one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Planner => "planner",
            Role::Standby => "standby",
            Role::Member => "member",
        }
    }
}

impl Worker {
    /// Tells users who plans, and what this worker is to that, if either has changed.
    pub(super) fn tell_planning(&mut self) {
        let role = match () {
            () if self.is_planner() => Role::Planner,
            () if self.is_standby() => Role::Standby,
            () => Role::Member,
        };
        let planning = self.board.as_ref().map(|board| Planning::of(&board.record)).unwrap_or_default();
        if (role, &planning) != (self.planning.0, &self.planning.1) {
            self.planning = (role, planning.clone());
            self.tell(FleetNotice::Planning(role, Box::new(planning)));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a worker tells of the board once each time that it says something else of planning, and of its own role.
    use super::*;
    use crate::fleet::alone::*;
    use crate::op::{Answer, Outcome};
    use crate::values::fence::{Nonce, Version};
    use crate::values::record::Stored;

    fn plannings(worker: &mut Worker) -> Vec<(Role, Planning)> {
        let planning =
            |told| if let FleetNotice::Planning(role, what) = told { Some((role, *what)) } else { None };
        told(worker).into_iter().filter_map(planning).collect()
    }

    #[test]
    fn a_worker_tells_who_plans_and_its_own_role_whenever_either_changes() {
        let mut worker = led(2, true);
        told(&mut worker);
        worker.saw_board(at(100), Some(board_by(8, 8, &myself())));
        let now = Planning { planner: Some(myself()), ..Planning::default() };
        assert_eq!(now.holder(&fleet()), Some(holder(0)));
        assert_eq!(Planning::default().holder(&fleet()), None);
        assert_eq!(plannings(&mut worker), [(Role::Planner, now.clone())]);
        // A generation alone says nothing of that.
        worker.saw_board(at(101), Some(board_by(9, 9, &myself())));
        assert_eq!(plannings(&mut worker), []);
        let (ttls, told) = ((ttl(), ttl()), Some(BTreeSet::new()));
        let mark = board::Mark { number: 3, told, counts: (2, 5), ttls, rest: 1 };
        let seen = worker.board.clone().unwrap();
        let by = BTreeSet::from([holder(1)]);
        let write = board::mark(worker.board_key.clone(), &seen, &mark, &by, Nonce(1), at(77).wall);
        let won = Ok(Answer::Write(Outcome::Won { version: Version(10), fence: write.record.fence }));
        worker.marked(at(102), write.clone(), won);
        let marked = Planning { standbys: by, plan: Some(3), told: Some(at(77).wall), ..now };
        assert_eq!(plannings(&mut worker), [(Role::Planner, marked)]);
        // Somebody else plans now, and this worker stands by.
        let mut other = write.record;
        let me = worker.holder.env.identity.holder.clone();
        other.metadata.insert(
            "planner".to_owned(),
            board_by(9, 9, &{
                let mut other = myself();
                other.session = session(1);
                other
            })
            .record
            .metadata
            .remove("planner")
            .unwrap(),
        );
        other
            .metadata
            .insert("standbys".to_owned(), crate::values::metadata::Value::List(vec![me.as_str().into()]));
        worker.saw_board(at(103), Some(Stored::new(other).versioned(Version(11))));
        let role = plannings(&mut worker).into_iter().map(|(role, _)| role).collect::<Vec<_>>();
        assert_eq!(role, [Role::Standby]);
        worker.saw_board(at(104), None);
        assert_eq!(plannings(&mut worker), [(Role::Member, Planning::default())]);
    }
}
