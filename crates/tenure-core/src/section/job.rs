//! The jobs that a section's machine does for its users.

use super::Portion;
use crate::op::OpId;
use crate::range::RangeSet;
use crate::values::error::StoreError;
use crate::values::fence::{Nonce, Version};
use crate::values::time::{Tick, Ttl};

/// A write of an entry that may have taken effect, or may yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Try {
    pub(super) op: OpId,
    /// The entry's id.
    pub(super) id: Nonce,
    pub(super) sent: Tick,
    /// The version that it is to be written over: unless the record still has that, it will never land.
    pub(super) over: Option<Version>,
}

/// Who waits for the end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Asker {
    /// Someone who wants the lease.
    Waits,
    /// Someone who has changed their mind, and is told when nothing of it stands.
    Gave,
    /// Nobody.
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct WantedRanges {
    pub(super) desired: RangeSet,
    pub(super) duration: Ttl,
    pub(super) portion: Portion,
    /// The last operation that was begun before this was asked for.
    pub(super) born: OpId,
    pub(super) give_up: Tick,
    pub(super) tries: Vec<Try>,
    pub(super) asker: Asker,
    pub(super) last_error: Option<StoreError>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum SectionJob {
    /// A lease is wanted, or was.
    Wanted(Box<WantedRanges>),
    /// A lease is held: nothing to do.
    Held { id: Nonce, over: Tick },
    /// A lease is being given up. `told`: nobody waits for it.
    Giving { id: Nonce, give_up: Tick, tried: bool, told: bool },
    /// The ledger is wanted.
    Listing { born: OpId, give_up: Tick },
    /// What is over is to be collected.
    Reclaiming { born: OpId, give_up: Tick },
}

impl SectionJob {
    pub(super) fn is_work(&self) -> bool {
        !matches!(self, SectionJob::Held { .. })
    }

    /// Whether somebody waits for what comes of it.
    pub(super) fn is_awaited(&self) -> bool {
        match self {
            SectionJob::Wanted(wanted) => wanted.asker != Asker::Gone,
            SectionJob::Held { .. } => false,
            SectionJob::Giving { told, .. } => !told,
            SectionJob::Listing { .. } | SectionJob::Reclaiming { .. } => true,
        }
    }

    /// When there is no point in going on.
    pub(super) fn give_up(&self) -> Option<Tick> {
        match self {
            SectionJob::Wanted(wanted) => Some(wanted.give_up),
            SectionJob::Held { .. } => None,
            SectionJob::Giving { give_up, .. }
            | SectionJob::Listing { give_up, .. }
            | SectionJob::Reclaiming { give_up, .. } => Some(*give_up),
        }
    }
}
