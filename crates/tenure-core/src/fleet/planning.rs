//! Who plans for a fleet and which plan was told last, as its board says; and what a worker tells its users of that.

use super::board;
use super::names::{FleetKey, FleetName};
use crate::values::key::HolderId;
use crate::values::record::{Attachment, Record};
use crate::values::time::Wall;
use std::collections::BTreeSet;
use std::fmt;

/// What a fleet's board says of its planning.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
        match FleetKey::of(&self.planner.as_ref()?.session)? {
            (name, FleetKey::Worker(worker)) if name == fleet.as_str() => HolderId::new(worker).ok(),
            _ => None,
        }
    }
}

/// What a worker is to its fleet's planning.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
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

/// Its name.
impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
