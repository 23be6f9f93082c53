//! Sections: ranges of keys that many processes lease for a limited time, each section in one record.
//!
//! The record has no tenure. Its metadata list the section's leases ([`SectionLedger`]), and every change is one conditional write of
//! all of it. So leases of a section never overlap, whatever the processes do, and sections are independent of each other.
//! Expired entries are collected as new ones are made.
//!
//! A lease is never renewed. Its holder believes for `duration·(1−ρ)/(1+ρ)` from before it sent the write that won. Other processes
//! may collect the entry once it has stood for its full duration (see `watch`). Its fence is the record's at that write, which
//! grows with each lease. If one write makes several leases, the fence grows by one for each.
//!
//! [`SectionMachine`] is the machine of one section in one process. All wishes of its users at a time go into one write.

mod job;
mod ledger;
mod machine;
mod since;
mod watch;

pub use ledger::{COVERED, Entry, FIELD, PREFIX, SectionLedger, is_cover, is_over, is_section, key};
pub use machine::{SectionMachine, SectionSetup};
pub use since::Since;

use crate::LeaseId;
use crate::range::RangeSet;
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::time::{Tick, Ttl};

/// How much is to be had, where others hold a part of what is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Portion {
    /// What nobody else holds of it, and what fits.
    Free,
    /// All of it, or nothing.
    All,
}

/// What users ask of a [`SectionMachine`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SectionCommand {
    /// Lease these ranges, as far as they can be had, for so long. Answered by `Obtained` or `Failed`.
    Acquire(LeaseId, RangeSet, Ttl, Portion),
    /// Give up a lease, or the attempt to get it. Answered by `Released`; nothing else is told of the lease any more.
    Release(LeaseId),
    /// Stop believing, but leave the entry to expire: what was done under the lease could not be ended for certain. Answered
    /// by `Released`.
    Lapse(LeaseId),
    /// Tell all leases of the section. Answered by `Listed` or `Failed`.
    List(LeaseId),
    /// Collect what is over. Answered by `Reclaimed` or `Failed`.
    Reclaim(LeaseId),
    /// Finish what is under way, and leave what is held to expire. Answered by `Stopped`, when all else is answered.
    Stop,
}

impl SectionCommand {
    /// Which lease it is about, if one.
    #[must_use]
    pub fn lease(&self) -> Option<LeaseId> {
        match self {
            SectionCommand::Acquire(lease, ..)
            | SectionCommand::Release(lease)
            | SectionCommand::Lapse(lease)
            | SectionCommand::List(lease)
            | SectionCommand::Reclaim(lease) => Some(*lease),
            SectionCommand::Stop => None,
        }
    }
}

/// What a [`SectionMachine`] tells its users.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SectionNotice {
    /// What was obtained, perhaps nothing: then there is no fence and nothing to give up.
    Obtained {
        /// Which lease.
        lease: LeaseId,
        /// What is held.
        parts: RangeSet,
        /// Its fence.
        fence: Option<Fence>,
        /// The end of belief.
        until: Tick,
    },
    /// It could not be done.
    Failed(LeaseId, StoreError),
    /// The lease is given up. False: it was not ours any more, or is left to expire.
    Released(LeaseId, bool),
    /// All leases of the section.
    Listed(LeaseId, Vec<Entry>),
    /// How many entries were collected.
    Reclaimed(LeaseId, usize),
    /// Everything is finished.
    Stopped,
}
