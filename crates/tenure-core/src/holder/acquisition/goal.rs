//! What an acquisition is to get, and for how long it waits for that.

use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::metadata::Metadata;
use crate::values::record::{Attachment, Stored};
use crate::values::time::{Tick, Ttl};
use std::time::Duration;

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Goal {
    pub(crate) key: Key,
    pub(crate) ttl: Ttl,
    pub(crate) attachment: Option<Attachment>,
    /// The least fence to claim it with, whatever its record shows.
    pub(crate) least: Fence,
    pub(crate) metadata_policy: MetadataPolicy,
    pub(crate) wait_policy: WaitPolicy,
}

/// How long to wait for a key that someone holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitPolicy {
    /// Not at all: be told who holds it.
    Try,
    /// Until this tick of the holder's time line ([`crate::values::time::Now::held`]).
    Until(Tick),
    /// For ever.
    Forever,
    /// For ever, and be told who holds it whenever that changes.
    Follow {
        /// The longest time between two looks at it.
        every: Duration,
        /// How much longer to wait once it is free, so that those who come first can have it.
        after: Duration,
    },
    /// For ever, only to be told who holds it whenever that changes: it is never claimed.
    Watch {
        /// The longest time between two looks at it.
        every: Duration,
    },
}

/// What becomes of the metadata that the key's record carries when it is claimed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MetadataPolicy {
    /// The record is written anew with this metadata, whatever was there.
    Replace(Metadata),
    /// The record must exist and keeps its metadata. What was last seen of it saves a read, if it is still so.
    Keep(Option<Box<Stored>>),
}

impl WaitPolicy {
    /// The tick until which it waits, if it was given one.
    pub(crate) fn deadline(self) -> Option<Tick> {
        match self {
            WaitPolicy::Until(end) => Some(end),
            WaitPolicy::Try | WaitPolicy::Forever | WaitPolicy::Follow { .. } | WaitPolicy::Watch { .. } => {
                None
            }
        }
    }

    /// From when on the user does not wait for somebody else's end.
    pub(super) fn patience_ends(self) -> Tick {
        match self {
            WaitPolicy::Try => Tick(0),
            WaitPolicy::Until(end) => end,
            WaitPolicy::Forever | WaitPolicy::Follow { .. } | WaitPolicy::Watch { .. } => Tick::NEVER,
        }
    }
}
