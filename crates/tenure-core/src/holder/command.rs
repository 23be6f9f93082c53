//! Users' commands to a holder.

use crate::holder::acquisition::{MetadataPolicy, WaitPolicy};
use crate::holder::lease_id::LeaseId;
use crate::holder::update::{Token, Transferee};
use crate::semaphore::Wish;
use crate::values::key::Key;
use crate::values::metadata::Metadata;
use crate::values::time::Ttl;

/// How a lease is kept alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeepAlive {
    /// By its own renewals, with this ttl.
    Own(Ttl),
    /// By its process's session.
    Session,
}

/// What a user wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Want {
    /// Which key.
    pub key: Key,
    /// How it is kept alive.
    pub keep_alive: KeepAlive,
    /// What becomes of its metadata.
    pub metadata_policy: MetadataPolicy,
    /// How long to wait.
    pub wait_policy: WaitPolicy,
}

/// What users ask of a [`Holder`](crate::Holder).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Command {
    /// Get a lease. Answered by `Acquired`, `Held`, `Absent` or `Failed`.
    Acquire(LeaseId, Want),
    /// Get permits of a semaphore. Answered by `Acquired`, `Held` or `Failed`. They are given up by `Release` or `Lapse`, and take no
    /// other command.
    Permits(LeaseId, Box<Wish>),
    /// Give up a lease, or the attempt to get it; with other metadata in the same write, if given. Answered by
    /// `Released`.
    Release(LeaseId, Option<Metadata>),
    /// Give up a lease, with these fields written over those of the same names in the same write. Answered by `Released`.
    Finish(LeaseId, Metadata),
    /// Give up a lease, with these names in the reserved field in the same write. Answered by `Released`.
    ReleaseNoted(LeaseId, Metadata),
    /// Give a held lease to another process, in one write; with these names in the reserved field, if there are any. Answered by
    /// `Released`.
    Pass(LeaseId, Box<Transferee>, Metadata),
    /// Stop believing, but leave the record to expire: what was done under the lease could not be ended for certain.
    /// Answered by `Released`.
    Lapse(LeaseId),
    /// Write other metadata under the lease. Answered by `Updated`, or by the lease's end: its loss, or `Released` if it is given up
    /// or left to expire meanwhile.
    Update(LeaseId, Metadata),
    /// As `Update`, but fields of other names stay as they stand in the record.
    Merge(LeaseId, Metadata),
    /// Write these names in the reserved field, and keep all else as it stands in the record; what is `Null` goes. Answered as
    /// `Update`.
    Note(LeaseId, Metadata),
    /// Turn the lease into plain data that lasts for a ttl: from this command on, nobody here believes in it. Answered by
    /// `Detached`, or by the lease's loss: one that was withdrawn is given up instead.
    Detach(LeaseId, Ttl),
    /// Prolong a tenure that is plain data, as plain data. Answered by `Detached`, `NotOurs` or `Failed`; and by `Lost`, with nothing
    /// prolonged, if its key was withdrawn.
    Refresh(LeaseId, Box<Token>),
    /// Go on holding a tenure that was plain data, under the same fence. Of all copies of a token, one can be adopted; the
    /// others are void from then on. Answered by `Acquired`, `NotOurs` or `Failed`. If its key was withdrawn, `Asked` follows, and it is
    /// not renewed; `NotOurs` comes in place of both where its record had to be written once more.
    Adopt(LeaseId, Box<Token>),
    /// Give up a tenure that is plain data. Answered by `Released`.
    Return(LeaseId, Box<Token>),
    /// Look whether the record of a held lease that is attached still shows it, for there is reason to doubt it. If not, its loss is told; else
    /// nothing is.
    Examine(LeaseId),
    /// Write other metadata into the session's record, now or when it begins. Answered by `Announced` once a session that is
    /// up shows it, or by `NotAnnounced` if it can't be written; of several, the last one counts, and one answer is for all. Not answered once all is stopped.
    Announce(Metadata),
    /// Begin the session now rather than with the first lease that is attached to it.
    Start,
    /// Give up everything. Answered by `Stopped`.
    Stop,
}

impl Command {
    /// Which lease it is about; none if it is about the session or all.
    #[must_use]
    pub fn lease(&self) -> Option<LeaseId> {
        match self {
            Command::Acquire(lease, _)
            | Command::Permits(lease, _)
            | Command::Release(lease, _)
            | Command::Finish(lease, _)
            | Command::ReleaseNoted(lease, _)
            | Command::Pass(lease, ..)
            | Command::Lapse(lease)
            | Command::Update(lease, _)
            | Command::Merge(lease, _)
            | Command::Note(lease, _)
            | Command::Detach(lease, _)
            | Command::Refresh(lease, _)
            | Command::Adopt(lease, _)
            | Command::Return(lease, _)
            | Command::Examine(lease) => Some(*lease),
            Command::Announce(_) | Command::Start | Command::Stop => None,
        }
    }
}
