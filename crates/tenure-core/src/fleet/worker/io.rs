//! What a step of a worker gives, and what comes back later: its own operations, and its holder's notices.

use crate::fleet::talk::FleetNotice;
use crate::holder::notice::Notice;
use crate::op::{Op, OpId, Request, Write};
use crate::values::fence::Nonce;
use crate::values::key::Key;
use crate::values::record::Attachment;
use crate::values::time::{Tick, Ttl};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Operations of the worker itself have this bit in their ids; those of its holder don't.
pub(super) const OWN: u64 = 1 << 63;
/// What an operation of the worker itself is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum InFlight {
    Look,
    /// A page of the sessions that are watched, with so many at the most.
    Watch(usize),
    /// A page of the listing with this number.
    List(u64),
    Advance,
    Alarm,
    /// Saying which plan was told.
    ToldPlan(Box<Write>),
    /// Telling another worker its part of the plan, by a write with this nonce.
    Part(Key, Nonce),
    /// Reading one's own part, or units that it names.
    Hear,
    /// Raising the fence of a dead worker's session, whose last sign of life was this heartbeat.
    Fence(Attachment, Option<Nonce>),
    /// Whether a session is really missing that something is attached to, and that something's ttl.
    Missing(Attachment, Ttl),
    /// Telling the worker with this session of a unit, or of its part.
    Letter(Key, Key),
}

/// What goes out, and what is awaited.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Io {
    last_op: u64,
    pub(super) in_flight: BTreeMap<OpId, InFlight>,
    pub(super) requests: Vec<Request>,
    pub(super) notices: Vec<FleetNotice>,
    /// When the holder wants to be woken.
    pub(super) holder_wakes: Option<Tick>,
    /// Notices of the holder that nothing was done about yet.
    pub(super) inbox: VecDeque<Notice>,
}

impl Io {
    pub(super) fn send(&mut self, flight: InFlight, op: Op, timeout: Duration) {
        self.last_op += 1;
        let id = OpId(OWN | self.last_op);
        // A look must not wait behind thousands of claims. A listing can, and so can letters, of which a plan may take thousands. Once its session was
        // read, a letter is written before that is renewed.
        let is_new_letter = matches!((&flight, &op), (InFlight::Letter(..), Op::Read(_)));
        let urgent = !matches!(flight, InFlight::List(_)) && !is_new_letter;
        self.in_flight.insert(id, flight);
        self.requests.push(Request { id, op, timeout, urgent });
    }

    pub(super) fn is_fencing(&self, key: &Key) -> bool {
        self.in_flight
            .values()
            .any(|flight| matches!(flight, InFlight::Fence(dead, _) if dead.session == *key))
    }
}
