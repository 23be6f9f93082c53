//! The commands and notices between a worker's machine and its users.

use super::about::About;
use super::names::FleetName;
use super::plan::{Cause, Uncovered};
use super::planning::{Planning, Role};
use super::unit::{Status, UnitSpec};
use crate::holder::lease_id::LeaseId;
use crate::holder::loss::Loss;
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::key::{HolderId, Key};
use crate::values::metadata::Metadata;
use crate::values::time::Tick;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How a worker takes part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Options {
    /// In which fleet.
    pub fleet: FleetName,
    /// What it offers.
    pub about: About,
    /// How long the body of a unit that is to move may take to end.
    pub drain: Duration,
    /// Whether the store hints at changes: then nothing is polled for.
    pub push: bool,
    /// By how much the ages of records that the store tells may fall short of the truth; none where it tells none.
    pub age_error: Option<Duration>,
    /// How many records are listed at a time: [`Options::PAGE`] is good; worlds that test this take fewer.
    pub page: usize,
    /// About how many workers look at the planner in each interval, beside those who stand by; the others of a larger fleet rest:
    /// [`Options::LOOKERS`] is good; worlds that test this take fewer.
    pub lookers: usize,
}

impl Options {
    /// About how many workers look at the planner in each interval.
    pub const LOOKERS: usize = 16;
    /// How many records are listed at a time.
    pub const PAGE: usize = 1000;
}

/// Names what a user asks about a unit, in the answer to it. Chosen by the user, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What users ask of a [`FleetWorker`](super::FleetWorker).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FleetCommand {
    /// Take part.
    Join,
    /// Write other fields into a unit's record. One that comes while another is under way is written after it. Answered by
    /// `Updated`, `Failed`, or the unit's end, `Lost` or `Released`.
    Update(LeaseId, RequestId, Metadata),
    /// As `Update`, but fields of other names stay as they stand in the record.
    Merge(LeaseId, RequestId, Metadata),
    /// What was done for a unit has ended: pass it on to where it belongs. Answered by `Released`, or by `Assigned` if it
    /// belongs here after all.
    Drained(LeaseId),
    /// The unit is done, and nobody is to have it again; with other fields, if given. Answered by `Released`, or by
    /// `Failed` if the fields are no good.
    Finish(LeaseId, RequestId, Option<Metadata>),
    /// What was done for the unit has failed: let another worker have it, or this one again, after a while. Answered by `Released`.
    Decline(LeaseId, RequestId),
    /// Nobody believes in the unit any more, but what was done for it may still go on: as `Decline`, and whoever has it next, this worker too, has it under
    /// a higher fence. Answered by `Released`.
    Abandon(LeaseId, RequestId),
    /// Let this very worker have the unit. Answered by `Released`, or `Failed` if there is no such worker.
    HandTo(LeaseId, RequestId, HolderId),
    /// What was done for the unit could not be ended for certain: let it expire. Answered by `Released`.
    Lapse(LeaseId),
    /// Offer something else from now on.
    Offer(About),
    /// Units were added or changed from here: tell the others.
    Tell,
    /// Go: pass everything on to the others, then stop. What is held is drained first. Answered by `Stopped`.
    Leave,
    /// Go at once: give everything up. Answered by `Stopped`.
    Stop,
}

impl FleetCommand {
    /// The unit's lease that it is about, if it is about one.
    #[must_use]
    pub fn lease(&self) -> Option<LeaseId> {
        match self {
            FleetCommand::Update(lease, ..)
            | FleetCommand::Merge(lease, ..)
            | FleetCommand::Drained(lease)
            | FleetCommand::Finish(lease, ..)
            | FleetCommand::Decline(lease, _)
            | FleetCommand::Abandon(lease, _)
            | FleetCommand::HandTo(lease, ..)
            | FleetCommand::Lapse(lease) => Some(*lease),
            _ => None,
        }
    }
}

/// Why a unit is to be let go of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Reason {
    /// It is planned for another worker.
    Moved(HolderId),
    /// This worker is leaving.
    Leaving,
    /// Somebody asked for it.
    Asked,
    /// It was withdrawn: it is lost when the session's present validity ends.
    Revoked,
    /// It was finished or deleted by somebody else.
    Closed(Status),
    /// No worker can have it any more, this one included.
    Uncovered(Uncovered),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Moved(worker) => write!(f, "it is planned for {worker}"),
            Reason::Leaving => f.write_str("this worker is leaving"),
            Reason::Asked => f.write_str("somebody asked for it"),
            Reason::Revoked => f.write_str("it was withdrawn"),
            Reason::Closed(status) => write!(f, "it is {status}"),
            Reason::Uncovered(why) => write!(f, "{why}"),
        }
    }
}

impl Reason {
    /// All names that there are.
    pub const NAMES: [&str; 6] = ["moved", "leaving", "asked", "revoked", "closed", "uncovered"];

    /// In one word, as in labels of metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Reason::Moved(_) => "moved",
            Reason::Leaving => "leaving",
            Reason::Asked => "asked",
            Reason::Revoked => "revoked",
            Reason::Closed(_) => "closed",
            Reason::Uncovered(_) => "uncovered",
        }
    }
}

/// How a worker has come to a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Taken {
    /// Another worker passed it on.
    Passed,
    /// Nobody held it: it was new, or given up.
    Vacant,
    /// Its worker was gone: it had died, or stopped without passing it on.
    Gone,
    /// It had failed here, and rested.
    Rested,
}

impl Taken {
    /// All that there are.
    pub const ALL: [Taken; 4] = [Taken::Passed, Taken::Vacant, Taken::Gone, Taken::Rested];

    /// In one word, as in labels of metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Taken::Passed => "passed",
            Taken::Vacant => "vacant",
            Taken::Gone => "gone",
            Taken::Rested => "rested",
        }
    }
}

/// Its name.
impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a plan came to, as this worker sees it.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Summary {
    /// The board's fence when it was planned.
    pub generation: Fence,
    /// The session of the worker that made it, if that is known.
    pub planner: Option<Key>,
    /// Live workers, this one included.
    pub workers: usize,
    /// Units with work to do.
    pub units: usize,
    /// How many of them are this worker's by the plan.
    pub planned: usize,
    /// How many this worker has to pass on.
    pub outgoing: usize,
    /// How many this worker waits for.
    pub incoming: usize,
    /// How many units move in the whole fleet, by cause. Only the planner knows.
    pub moves: BTreeMap<Cause, usize>,
    /// Units that nobody can have, with the reason.
    pub uncovered: Vec<(Key, Uncovered)>,
    /// Units whose records can't be read, with the reason.
    pub damaged: Vec<(Key, StoreError)>,
}

/// What a [`FleetWorker`](super::FleetWorker) tells its users.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FleetNotice {
    /// The unit is this worker's, as long as the session is believed in.
    Assigned {
        /// Its key.
        unit: Key,
        /// Names it in commands.
        lease: LeaseId,
        /// Its fence.
        fence: Fence,
        /// How it came here.
        how: Taken,
        /// What its record says to the plan.
        spec: UnitSpec,
        /// The users' fields.
        fields: Metadata,
    },
    /// End what is done for the unit, by then at the latest, and say `Drained`.
    Draining(LeaseId, Reason, Tick),
    /// The unit was withdrawn: it is believed no longer than until then, however long the session is.
    Withdrawn(LeaseId, Tick),
    /// The unit is gone. Nothing more is answered about it.
    Lost(LeaseId, Loss),
    /// The fields are written.
    Updated {
        /// Whose.
        lease: LeaseId,
        /// What asked for it.
        request: RequestId,
        /// The users' fields as they are now.
        fields: Metadata,
    },
    /// What was asked for could not be done; the unit is still held.
    Failed(LeaseId, RequestId, StoreError),
    /// The unit is given up, by the request if there was one. False: it was not ours any more, or is left to expire. Whatever
    /// else was asked about it, and not answered before, was not done.
    Released(LeaseId, Option<RequestId>, bool),
    /// The unit has failed so often in a row, and is left alone for so long; then it is assigned again.
    Rests {
        /// Its key.
        unit: Key,
        /// How often.
        failures: u32,
        /// How long.
        rest: Duration,
    },
    /// All that is held is believed until then; not at all, for now, at tick 0.
    Valid(Tick),
    /// There is a new plan.
    Planned(Box<Summary>),
    /// What this worker is to the fleet's planning, and what the board says of that: either has changed.
    Planning(Role, Box<Planning>),
    /// The store could not be asked about the fleet; it will be asked again.
    Trouble(StoreError),
    /// Everything is given up.
    Stopped,
}
