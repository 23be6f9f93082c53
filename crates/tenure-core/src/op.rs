//! The language between machines and the world: operations and notices out, answers and commands in.

use crate::values::error::StoreError;
use crate::values::fence::{Fence, Version};
use crate::values::key::Key;
use crate::values::record::{Record, Stored};
use crate::values::time::{Now, Tick};
use std::time::Duration;

/// What a write expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expect {
    /// No record at all. For creating things once; a vacant record is in the way.
    Absent,
    /// No tenure: no record, or a vacant one. The store sets the fence to the higher of the record's own and one more
    /// than the old record's, so that a released key is taken in one round trip.
    Vacant,
    /// The record in just this version. The fence is written as given.
    Unchanged(Version),
}

/// A conditional write of one record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Write {
    /// Where.
    pub key: Key,
    /// On which condition.
    pub expect: Expect,
    /// What.
    pub record: Record,
}

/// The answer to a conditional write. Losing is an answer, not an error.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The record was written.
    Won {
        /// Its version.
        version: Version,
        /// Its fence, which the store may have raised.
        fence: Fence,
    },
    /// The condition did not hold and nothing was written; this is what stands there.
    Lost(Option<Stored>),
}

/// Which state of a record a read has to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Freshness {
    /// The latest.
    Latest,
    /// The latest, or one that it had not long ago, whichever costs the store less: from a replica, say, that lags by some
    /// milliseconds. For those who act on a change only after they have read the latest.
    Recent,
}

/// An operation on a store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Read one record.
    Read(Key),
    /// Read several records in one request. Which of them are missing shows by their absence from the answer.
    ReadMany(Vec<Key>, Freshness),
    /// Read a page of the records whose keys begin with a prefix: up to `limit`, in the order of their keys, those after
    /// `after` only. Fewer than `limit` mean the end.
    List {
        /// What their keys begin with.
        prefix: String,
        /// Where the page before this one ended.
        after: Option<Key>,
        /// The most records in a page.
        limit: usize,
    },
    /// Write one record.
    Write(Box<Write>),
}

/// One record among several. A record that can't be read is there with the reason, not hidden.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Listed {
    /// Its key.
    pub key: Key,
    /// The record, or why it can't be read.
    pub stored: Result<Stored, StoreError>,
}

/// Pairs an operation with its answer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// An operation that a machine wants done.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// Comes back with the answer.
    pub id: OpId,
    /// What to do.
    pub op: Op,
    /// After this long without an answer, a read counts as unavailable and a write as unknown.
    pub timeout: Duration,
    /// Renewals go ahead of everything else that waits for the store.
    pub urgent: bool,
}

/// The answer to an operation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// To a read: the record, if there is one.
    Read(Option<Stored>),
    /// To a read of several, or a page of a listing: those that exist.
    Listed(Vec<Listed>),
    /// To a write.
    Write(Outcome),
}

/// What a store says of a change. It may be lost or late, and where it names no version it may be wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hint {
    /// Any record may have changed.
    Any,
    /// This record may have changed.
    Key(Key),
    /// This record was written, in this version, before the hint was sent. Whoever later reads the same version knows that
    /// nothing was written since the hint came: as good as a read at that time.
    Written(Key, Version),
}

impl Hint {
    /// Which record it is about; none if it may be any.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            Hint::Any => None,
            Hint::Key(key) | Hint::Written(key, _) => Some(key),
        }
    }
}

#[allow(clippy::large_enum_variant, reason = "an event lives for one step only")]
/// What happened. `C` is the commands that users give to the machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event<C> {
    /// A user's wish.
    Command(C),
    /// An operation's result. Late, repeated and unasked-for answers are ignored.
    Answer(OpId, Result<Answer, StoreError>),
    /// The store says that something may have changed.
    Changed(Hint),
    /// Time has passed. Early, late and repeated wake-ups are harmless.
    Wake,
}

/// What a machine wants after an event. `N` is the notices that it gives to its users, before any of the operations is
/// started: an operation may free what a notice ends the belief in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step<N> {
    /// Operations to start; their order is free.
    pub requests: Vec<Request>,
    /// Told to the users, in this order.
    pub notices: Vec<N>,
    /// When, by [`Now::held`], to come back with [`Event::Wake`] if nothing else happens before.
    pub wake_at: Option<Tick>,
}

/// A passive machine: it decides, a driver obeys. No I/O, no clock, no randomness inside.
pub trait Machine {
    /// What users ask of it.
    type Command;
    /// What it tells them.
    type Notice;

    /// Takes one event and says what to do.
    fn step(&mut self, now: Now, event: Event<Self::Command>) -> Step<Self::Notice>;

    /// Whether it waits for something that a push of the store would tell it sooner.
    fn listens(&self) -> bool;
}
