//! One machine of a fleet's world: its clocks, the worker on it, and the bodies that work there.

use crate::clock::{NodeClock, True};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tenure_core::fleet::{FleetNotice, RequestId, Worker};
use tenure_core::op::{Answer, Hint, OpId, Step};
use tenure_core::{Fence, HolderId, Key, LeaseId, Now, StoreError, Tick, Ttl};

/// How far the body of a unit is, as the user knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Works,
    /// It was asked to end.
    Drains,
    /// It has ended, and the user said so; the answer has not come.
    Ended {
        at: True,
        finished: bool,
    },
    /// It could not be ended, and the user said so.
    Lapsed,
}

/// A unit that this worker's users were told of.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    pub(crate) unit: Key,
    pub(crate) fence: Fence,
    /// The place of this tenure among all.
    pub(crate) order: u64,
    pub(crate) body: Body,
    /// It was withdrawn: until when it is believed in, whatever becomes of the session.
    pub(crate) until: Option<Tick>,
    pub(crate) turn: u32,
    /// A checkpoint that is under way: which, and since when.
    pub(crate) writes: Option<(i64, True)>,
    /// Checkpoints that were asked for, and whose answers nobody waits for any more.
    pub(crate) forsaken: Vec<RequestId>,
    /// What was asked to end it.
    pub(crate) end: Option<RequestId>,
}

impl Work {
    /// Whether something is being done for the unit.
    pub(crate) fn runs(&self) -> bool {
        matches!(self.body, Body::Works | Body::Drains)
    }
}

/// What reaches a process from outside.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "most are answers")]
pub(crate) enum Input {
    Answer(OpId, Result<Answer, StoreError>),
    Wake,
    Hint(Hint),
    /// A body's turn.
    Turn(LeaseId, u32),
    /// A body has ended, or is known not to.
    Ends(LeaseId),
    Leave,
    Stop,
}

/// What was left to expire: it may be given up only then.
#[derive(Debug, Clone)]
pub(crate) struct Lapse {
    pub(crate) unit: Key,
    pub(crate) fence: Fence,
    pub(crate) until: Tick,
    pub(crate) session: Option<Fence>,
}

pub(crate) struct WorkerNode {
    pub(crate) index: usize,
    /// Counts processes here.
    pub(crate) life: u32,
    pub(crate) machine: Option<Worker>,
    pub(crate) who: HolderId,
    /// Of this process's session.
    pub(crate) ttl: Ttl,
    pub(crate) session: Key,
    pub(crate) clock: NodeClock,
    pub(crate) paused: bool,
    pub(crate) pause_turn: u32,
    pub(crate) inbox: VecDeque<Input>,
    /// A step that was taken before a pause and shows after it.
    pub(crate) held_back: Option<(Now, Step<FleetNotice>)>,
    pub(crate) works: BTreeMap<LeaseId, Work>,
    pub(crate) lapses: Vec<Lapse>,
    /// Until when all is believed; zero for not at all, for now.
    pub(crate) valid: Tick,
    /// The last end of belief that was told.
    pub(crate) deadline: Tick,
    /// When session writes that took effect were sent, the newest last.
    pub(crate) heartbeats: VecDeque<Tick>,
    pub(crate) wake_at: Option<Tick>,
    pub(crate) scheduled: True,
    pub(crate) requests_pass: bool,
    pub(crate) answers_pass: bool,
    pub(crate) link_turn: u32,
    pub(crate) leaving: bool,
    /// It has given a unit up, and nobody has told the others to look since.
    pub(crate) unsaid: Option<Key>,
    pub(crate) stopping: bool,
    /// It dies with its next renewal.
    pub(crate) doomed: bool,
    /// Requests that were sent while all was settled.
    pub(crate) settled_reads: u64,
    /// Leases that users give up though they are lost: they have not heard of that yet, and are to be answered.
    pub(crate) late: BTreeSet<LeaseId>,
    /// All leases that users were told of.
    pub(crate) known: BTreeSet<LeaseId>,
}

impl WorkerNode {
    /// Whether this worker's users believe, right now, in what they have.
    pub(crate) fn believes(&self, t: True) -> bool {
        self.clock.held(t) < self.valid
    }

    /// Whether the process runs and can be expected to act.
    pub(crate) fn acts(&self) -> bool {
        self.machine.is_some() && !self.paused
    }

    /// Who works on `unit` here, if anybody does.
    pub(crate) fn works_on(&self, unit: &Key) -> Option<(LeaseId, &Work)> {
        self.works
            .iter()
            .find(|(_, work)| work.unit == *unit && work.runs())
            .map(|(lease, work)| (*lease, work))
    }

    pub(crate) fn note_heartbeat(&mut self, sent: Tick) {
        if self.heartbeats.len() >= 8 {
            self.heartbeats.pop_front();
        }
        self.heartbeats.push_back(sent);
    }
}
