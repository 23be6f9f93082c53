//! The context that a holder lends to its parts during a step.

use crate::backoff::MOMENT;
use crate::bugs::Bug;
use crate::holder::failure_detector::FailureDetector;
use crate::holder::lease_id::LeaseId;
use crate::op::{Freshness, Op, OpId, Request, Write};
use crate::rules::Rules;
use crate::values::fence::{Nonce, Nonces};
use crate::values::key::{HolderId, Key};
use crate::values::record::{Attachment, Stored};
use crate::values::time::{Now, Tick, Ttl, Wall};
use std::collections::BTreeMap;
use std::time::Duration;

/// Which part of a holder an operation or a wake-up belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum OpOwner {
    /// The session; it comes before all that is attached to it.
    Session,
    /// A lease, by its id.
    Lease(LeaseId),
    /// An orphaned claim: a key that may still show a claim which nobody here wants.
    Orphan(Key),
    /// A semaphore, by its key.
    Semaphore(Key),
    /// The audit of what is attached to the session.
    Audit,
}

/// A write that was sent and of which it is not known whether it took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    pub(crate) nonce: Nonce,
    pub(crate) sent: Tick,
    /// The wall clock at that time.
    pub(crate) wall: Wall,
}

impl Attempt {
    /// Whether the store says that this write, which it shows, is older than the time since it was sent. Then it was dated by a
    /// clock that had missed some, and others may take its record for a dead one's: nothing is to be believed on it.
    pub(crate) fn is_misdated(&self, now: Now, seen: &Stored, rules: &Rules) -> bool {
        is_misdated(now, self.sent, seen.age(), rules)
    }
}

/// Whether an age contradicts when the write was sent. Stores tell ages of whole milliseconds.
pub(crate) fn is_misdated(now: Now, sent: Tick, age: Option<Duration>, rules: &Rules) -> bool {
    let most = rules.drift.most(now.held.since(sent)) + Duration::from_millis(1);
    age.is_some_and(|age| age > most) && !rules.bugs.has(Bug::MisdatedBelieved)
}

/// The tenures of this process's leases.
pub(crate) trait OwnTenures {
    /// Whether a tenure with this id is one of them, or may turn out to be.
    fn may_have(&self, id: Nonce) -> bool;
}

pub(crate) struct Ctx<'a> {
    pub(crate) now: Now,
    pub(crate) rules: &'a Rules,
    pub(crate) holder: &'a HolderId,
    pub(crate) nonces: &'a mut Nonces,
    pub(crate) detector: &'a mut FailureDetector,
    pub(crate) requests: &'a mut Vec<Request>,
    pub(crate) ops: &'a mut BTreeMap<OpId, OpOwner>,
    pub(crate) last_op: &'a mut u64,
    /// The part that is taking the step.
    pub(crate) part: OpOwner,
    /// The key of this process's session, whether it is up or not.
    pub(crate) session_key: &'a Key,
    /// The fence of the session while it is up.
    pub(crate) session: Option<Attachment>,
    /// Those of all leases but the one that is taking the step.
    pub(crate) own: &'a dyn OwnTenures,
}

impl Ctx<'_> {
    /// Whether a tenure is held, or being given up, by another lease of this process, or may turn out to be.
    pub(crate) fn is_ours(&self, id: Nonce) -> bool {
        self.own.may_have(id)
    }

    /// A write that is sent now.
    pub(crate) fn attempt(&self, nonce: Nonce) -> Attempt {
        Attempt { nonce, sent: self.now.held, wall: self.now.wall }
    }

    /// Whether the clocks show that time was hidden since `sent` and `wall` were read: then what was sent at that time proves
    /// nothing about now.
    pub(crate) fn has_gap(&self, sent: Tick, wall: Wall) -> bool {
        self.now.has_gap(sent, wall) && !self.rules.bugs.has(Bug::GapIgnored)
    }

    fn send(&mut self, op: Op, timeout: Duration, urgent: bool) -> OpId {
        // All that is attached to the session waits for it: it can't wait behind them.
        let urgent = urgent || self.part == OpOwner::Session;
        *self.last_op += 1;
        let id = OpId(*self.last_op);
        self.ops.insert(id, self.part.clone());
        self.requests.push(Request { id, op, timeout, urgent });
        id
    }

    pub(crate) fn read(&mut self, key: &Key, ttl: Ttl) -> OpId {
        self.send(Op::Read(key.clone()), call_timeout(ttl), false)
    }

    pub(crate) fn read_many(&mut self, keys: Vec<Key>, freshness: Freshness, ttl: Ttl) -> OpId {
        self.send(Op::ReadMany(keys, freshness), call_timeout(ttl), false)
    }

    pub(crate) fn write(&mut self, write: Write, ttl: Ttl) -> OpId {
        self.send(Op::Write(Box::new(write)), call_timeout(ttl), false)
    }

    /// A renewal: ahead of the queue, and given up in time for a second one.
    pub(crate) fn renew(&mut self, write: Write, timeout: Duration) -> OpId {
        self.send(Op::Write(Box::new(write)), timeout, true)
    }

    /// A tick between ¾ `span` and `span` from now.
    pub(crate) fn jittered(&self, span: Duration) -> Tick {
        self.now.held.after(self.jitter(span))
    }

    /// Between ¾ `span` and `span`.
    pub(crate) fn jitter(&self, span: Duration) -> Duration {
        self.nonces.jittered(span)
    }

    /// When to try again after the `failures`-th failure in a row: from ttl/64 it doubles up to ttl/4, and is 5 s at most; 40 s after
    /// a minute of that. Who waits for a key with a long ttl, or gives one up, waits no longer for a moment's trouble.
    pub(crate) fn retry_at(&self, ttl: Ttl, failures: u32) -> Tick {
        let most = MOMENT.saturating_mul(1 << failures.saturating_sub(12).min(3));
        self.jittered(pause(ttl, failures).min(most))
    }

    /// The same for a renewal, which has a part of its ttl for that: a process may have many.
    pub(crate) fn renew_again_at(&self, ttl: Ttl, failures: u32) -> Tick {
        self.jittered(pause(ttl, failures))
    }
}

fn pause(ttl: Ttl, failures: u32) -> Duration {
    ttl.part(64 >> failures.saturating_sub(1).min(4))
}

/// How long a call that is not a renewal may take: a quarter of the ttl, and 5 s at most.
pub(crate) fn call_timeout(ttl: Ttl) -> Duration {
    ttl.part(4).min(MOMENT)
}
