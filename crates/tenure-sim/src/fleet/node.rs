//! What is known of a worker and of the bodies that work there.

use super::Node;
use crate::kernel::clock::True;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tenure_core::fleet::RequestId;
use tenure_core::{Fence, Key, LeaseId, Tick, Ttl};

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
pub(crate) struct AssignedWork {
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

impl AssignedWork {
    /// Whether something is being done for the unit.
    pub(crate) fn runs(&self) -> bool {
        matches!(self.body, Body::Works | Body::Drains)
    }
}

/// What reaches a process from outside, besides answers, hints and wake-ups.
pub(crate) enum FleetCall {
    /// A body's turn.
    Turn(LeaseId, u32),
    /// A body has ended, or is known not to.
    Ends(LeaseId),
    Leave,
    Stop,
}

/// What was left to expire: it may be given up only then.
#[derive(Debug, Clone)]
pub(crate) struct UnitLapse {
    pub(crate) unit: Key,
    pub(crate) fence: Fence,
    pub(crate) until: Tick,
    pub(crate) session: Option<Fence>,
}

/// What the world knows of a worker and those who work there.
pub(crate) struct FleetNodeState {
    /// Of its session.
    pub(crate) ttl: Ttl,
    /// Reads that were sent while all was settled.
    pub(crate) settled_reads: u64,
    /// The same, while it planned or stood by.
    pub(crate) settled_watches: u64,
    pub(crate) leaving: bool,
    /// It dies with its next renewal.
    pub(crate) doomed: bool,
    // All the rest ends with the process.
    pub(crate) works: BTreeMap<LeaseId, AssignedWork>,
    pub(crate) lapses: Vec<UnitLapse>,
    /// Until when all is believed; zero for not at all, for now.
    pub(crate) valid: Tick,
    /// The last end of belief that was told.
    pub(crate) deadline: Tick,
    /// When session writes that took effect were sent, the newest last.
    pub(crate) heartbeats: VecDeque<Tick>,
    /// It has given a unit up, and nobody has told the others to look since.
    pub(crate) unsaid: Option<Key>,
    /// Leases that users give up though they are lost: they have not heard of that yet, and are to be answered.
    pub(crate) late: BTreeSet<LeaseId>,
    /// All leases that users were told of.
    pub(crate) known: BTreeSet<LeaseId>,
}

impl FleetNodeState {
    /// A worker with this ttl that has done nothing.
    pub(super) fn new(ttl: Ttl) -> FleetNodeState {
        FleetNodeState {
            ttl,
            settled_reads: 0,
            settled_watches: 0,
            leaving: false,
            doomed: false,
            works: BTreeMap::new(),
            lapses: Vec::new(),
            valid: Tick(0),
            deadline: Tick(0),
            heartbeats: VecDeque::new(),
            unsaid: None,
            late: BTreeSet::new(),
            known: BTreeSet::new(),
        }
    }
}

impl Node {
    /// Whether this worker's users believe, right now, in what they have.
    pub(crate) fn believes(&self, t: True) -> bool {
        self.clock.held(t) < self.own.valid
    }

    /// Who works on `unit` here, if anybody does.
    pub(crate) fn works_on(&self, unit: &Key) -> Option<(LeaseId, &AssignedWork)> {
        self.own
            .works
            .iter()
            .find(|(_, work)| work.unit == *unit && work.runs())
            .map(|(lease, work)| (*lease, work))
    }

    pub(crate) fn note_heartbeat(&mut self, sent: Tick) {
        if self.own.heartbeats.len() >= 8 {
            self.own.heartbeats.pop_front();
        }
        self.own.heartbeats.push_back(sent);
    }
}
