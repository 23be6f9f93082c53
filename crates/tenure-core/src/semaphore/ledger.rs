//! The content of a semaphore's record: the holders of permits, and the waiters in their order.

mod wire;

use super::Mode;
use crate::bugs::{Bug, Bugs};
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce};
use crate::values::key::{HolderId, Key};
use crate::values::metadata::{Metadata, Value};
use crate::values::record::{Attachment, Occupant, Record};
use crate::values::reserved;
use crate::values::time::{Ttl, Wall};

/// What keys of semaphores begin with; the semaphore's name follows.
pub const PREFIX: &str = reserved::SEMAPHORE;
/// The field of a record's metadata that has the semaphore's holders and tickets.
pub const FIELD: &str = "semaphore";

/// Somebody's claim to permits: a place in the queue, and then the permits themselves under the same id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Ticket {
    /// The claim itself, never used again.
    pub id: Nonce,
    /// Who.
    pub holder: HolderId,
    /// The session that it lives and dies with.
    pub attachment: Attachment,
    /// The session's ttl, by which those judge it who find the session deleted.
    pub ttl: Ttl,
    /// How the permits are held.
    pub mode: Mode,
    /// How many.
    pub permits: u32,
    /// Whether it takes what is free before its turn.
    pub barges: bool,
    /// The wall clock of its holder when it asked.
    pub since: Wall,
}

/// Permits that are held.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Grant {
    /// By whom, and how.
    pub ticket: Ticket,
    /// The fence: greater than that of every earlier grant of the key.
    pub fence: Fence,
}

impl Grant {
    /// What was granted to `ticket` under this fence.
    #[must_use]
    pub fn new(ticket: Ticket, fence: Fence) -> Grant {
        Grant { ticket, fence }
    }
}

/// All that a semaphore's record says.
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SemaphoreLedger {
    /// How many permits there are.
    pub permits: u32,
    /// Who holds permits, in the order in which they were granted.
    pub holders: Vec<Grant>,
    /// Who waits, in the order in which they came.
    pub queue: Vec<Ticket>,
}

impl SemaphoreLedger {
    /// The most permits that a key has.
    pub const MOST_PERMITS: u32 = 1 << 30;
    /// The most bytes that a ledger is written with, on a store that takes as much.
    pub const MAX_BYTES: usize = 192 * 1024;

    /// A ledger of so many permits.
    #[must_use]
    pub fn new(permits: u32, holders: Vec<Grant>, queue: Vec<Ticket>) -> SemaphoreLedger {
        SemaphoreLedger { permits, holders, queue }
    }

    /// The same of a record that may say nothing: then it is one of a semaphore that nobody uses, as whoever mends a damaged one leaves.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn standing(record: &Record) -> Result<SemaphoreLedger, StoreError> {
        if record.tenure.is_none() && record.metadata.is_empty() {
            return Ok(SemaphoreLedger::default());
        }
        SemaphoreLedger::of(record)
    }

    /// What a semaphore's record says.
    ///
    /// # Errors
    /// `Foreign` when it is not a semaphore's, is damaged, or was written by a newer version.
    pub fn of(record: &Record) -> Result<SemaphoreLedger, StoreError> {
        match payload(record) {
            Some(bytes) => wire::decode(bytes),
            None => {
                Err(StoreError::foreign("the record is not a semaphore's; give the semaphore another name"))
            }
        }
    }

    /// As the metadata of a record, and how many bytes that takes.
    #[must_use]
    pub fn to_metadata(&self) -> (Metadata, usize) {
        let bytes = wire::encode(self);
        let size = bytes.len();
        ([(FIELD.to_owned(), Value::Bytes(bytes))].into(), size)
    }

    /// How many bytes it takes at the most until all who wait have been granted what they wait for: each grant adds a fence.
    pub(super) fn most_bytes(&self) -> usize {
        /// A number of 64 bits, as it is written.
        const FENCE: usize = 10;
        self.to_metadata().1 + self.queue.len() * FENCE
    }

    /// Whether nobody holds or wants anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.queue.is_empty()
    }

    /// How many permits are out. One that is held exclusively counts as all.
    #[must_use]
    pub fn out(&self) -> u32 {
        if self.holders.iter().any(|grant| grant.ticket.mode == Mode::Exclusive) {
            return self.permits;
        }
        self.holders.iter().map(|grant| grant.ticket.permits).fold(0, u32::saturating_add)
    }

    /// Whether the permits are free that `ticket` is for.
    #[must_use]
    pub fn fits(&self, ticket: &Ticket) -> bool {
        match ticket.mode {
            Mode::Exclusive => self.holders.is_empty(),
            Mode::Shared => ticket.permits <= self.permits.saturating_sub(self.out()),
        }
    }

    /// The same with a mistake on purpose, if there is one.
    fn may_have(&self, ticket: &Ticket, bugs: Bugs) -> bool {
        let readers = self.holders.iter().all(|grant| grant.ticket.mode == Mode::Shared);
        match ticket.mode {
            Mode::Shared if bugs.has(Bug::PermitsUncounted) => readers,
            Mode::Exclusive if bugs.has(Bug::WriterBesideReaders) => readers,
            _ => self.fits(ticket),
        }
    }

    /// The grant with this id.
    #[must_use]
    pub fn grant(&self, id: Nonce) -> Option<&Grant> {
        self.holders.iter().find(|grant| grant.ticket.id == id)
    }

    /// The place in the queue of the ticket with this id.
    #[must_use]
    pub fn place(&self, id: Nonce) -> Option<usize> {
        self.queue.iter().position(|ticket| ticket.id == id)
    }

    /// Whether it shows a claim with this id, granted or not.
    #[must_use]
    pub fn has(&self, id: Nonce) -> bool {
        self.grant(id).is_some() || self.place(id).is_some()
    }

    /// All claims, those that are granted first.
    pub fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.holders.iter().map(|grant| &grant.ticket).chain(&self.queue)
    }

    /// Who holds permits, as told to those who don't get any: whoever has had them longest.
    #[must_use]
    pub fn occupant(&self) -> Option<Occupant> {
        let first = self.holders.first();
        first.map(|grant| Occupant::new(grant.ticket.holder.clone(), grant.fence, grant.ticket.since))
    }

    /// Takes out every claim for which `is_gone` holds. True if there was one.
    pub(crate) fn remove(&mut self, is_gone: impl Fn(&Ticket) -> bool) -> bool {
        let before = (self.holders.len(), self.queue.len());
        self.holders.retain(|grant| !is_gone(&grant.ticket));
        self.queue.retain(|ticket| !is_gone(ticket));
        before != (self.holders.len(), self.queue.len())
    }

    /// Grants what is free to those who wait, in their order: nobody comes before an earlier one but those who barge. `fence` is that of the
    /// last grant. True if there was something to grant.
    pub(crate) fn grant_on(&mut self, fence: &mut Fence, floor: Fence, bugs: Bugs) -> bool {
        let before = self.holders.len();
        if bugs.has(Bug::GrantForgotten) {
            return false;
        }
        if bugs.has(Bug::QueueReversed) {
            self.queue.reverse();
        }
        let mut waiting = Vec::new();
        for ticket in std::mem::take(&mut self.queue) {
            let has_turn = waiting.is_empty() || ticket.barges;
            if has_turn && self.may_have(&ticket, bugs) && self.hold(ticket.clone(), fence, floor, bugs) {
                continue;
            }
            waiting.push(ticket);
        }
        if bugs.has(Bug::QueueReversed) {
            waiting.reverse();
        }
        self.queue = waiting;
        before != self.holders.len()
    }

    /// Grants `ticket` at once if its permits are free and nobody came before; else it joins the queue, if it `waits`. True if there is
    /// room for it in either.
    pub(crate) fn take(
        &mut self,
        ticket: Ticket,
        waits: bool,
        fence: &mut Fence,
        floor: Fence,
        bugs: Bugs,
    ) -> bool {
        let has_turn = self.queue.is_empty() || ticket.barges || bugs.has(Bug::TicketsOvertaken);
        if has_turn && self.may_have(&ticket, bugs) && self.hold(ticket.clone(), fence, floor, bugs) {
            return true;
        }
        if waits {
            self.queue.push(ticket);
        }
        waits
    }

    /// False if there is no higher fence any more.
    fn hold(&mut self, ticket: Ticket, fence: &mut Fence, floor: Fence, bugs: Bugs) -> bool {
        let Ok(next) = fence.next(floor) else { return false };
        if !bugs.has(Bug::GrantKeepsFence) {
            *fence = next;
        }
        self.holders.push(Grant { ticket, fence: *fence });
        true
    }

    /// How many writes that grant something have to come, at the least, before the claim with this id is granted; 0 if it is, or is not
    /// there.
    pub(crate) fn grants_before(&self, id: Nonce) -> u32 {
        let Some(place) = self.place(id) else { return 0 };
        // It does not wait for those before it.
        if self.queue.get(place).is_some_and(|ticket| ticket.barges) {
            return 1;
        }
        let mut ahead = SemaphoreLedger { permits: self.permits, ..SemaphoreLedger::default() };
        let mut writes = 1;
        for ticket in self.queue.iter().take(place + 1) {
            if !ahead.fits(ticket) {
                writes += 1;
                ahead.holders.clear();
            }
            ahead.holders.push(Grant { ticket: ticket.clone(), fence: Fence(0) });
        }
        writes
    }
}

/// The key of the semaphore of this name.
///
/// # Errors
/// When the name is empty or too long.
pub fn key(name: &str) -> Result<Key, crate::InvalidInput> {
    if name.is_empty() {
        return Err(crate::InvalidInput::new("the name of a semaphore can't be empty"));
    }
    Key::new(format!("{PREFIX}{name}"))
}

/// Whether `record` is one of a semaphore: its metadata may be larger than that of other records.
#[must_use]
pub fn is_semaphore(record: &Record) -> bool {
    payload(record).is_some()
}

/// Whether nobody holds or wants anything of a semaphore: only then may its record be removed.
#[must_use]
pub fn is_idle(record: &Record) -> bool {
    SemaphoreLedger::of(record).is_ok_and(|ledger| ledger.is_empty())
}

fn payload(record: &Record) -> Option<&[u8]> {
    match record.metadata.get(FIELD) {
        Some(Value::Bytes(bytes)) if record.metadata.len() == 1 && record.tenure.is_none() => Some(bytes),
        _ => None,
    }
}
