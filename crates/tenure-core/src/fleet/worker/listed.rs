//! What a listing shows: the workers that live, and the units with those who have them.

use crate::fleet::about::About;
use crate::fleet::digest::Digest;
use crate::fleet::part::Shows;
use crate::fleet::plan::Uncovered;
use crate::fleet::seen::{ListedRecord, Says, TenureId};
use crate::values::fence::{Fence, Nonce};
use crate::values::key::{HolderId, Key};
use crate::values::time::Ttl;

/// A live worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    pub(super) holder: HolderId,
    pub(super) fence: Fence,
    pub(super) ttl: Ttl,
    pub(super) about: About,
    /// What it had when it last renewed, and that renewal's heartbeat.
    pub(super) has: Option<Digest>,
    pub(super) heartbeat: Nonce,
    /// How many units are planned for it.
    pub(super) planned: u64,
    /// Whether it understands letters that pass a unit on.
    pub(super) letters: bool,
    /// Whether its record tells at first sight how long it has been silent.
    pub(super) attested: bool,
}

impl Peer {
    /// One of whom no more is known than a plan says.
    pub(super) fn named(holder: HolderId, fence: Fence, ttl: Ttl) -> Peer {
        let (about, heartbeat) = (About::default(), Nonce(0));
        Peer { holder, fence, ttl, about, has: None, heartbeat, planned: 0, letters: true, attested: false }
    }
}

/// A unit as its record showed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Unit {
    pub(super) spec: Says,
    pub(super) owner: Owner,
    /// The id and the fence of its tenure; none if it has none.
    pub(super) held: Option<TenureId>,
    pub(super) shows: Shows,
}

/// Who has a unit, by its record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// Nobody who lives; this is the record, by which it can be claimed without another look.
    Nobody(ListedRecord),
    /// A session that is missing altogether. Nobody can have it before that has lasted for a ttl.
    Missing(ListedRecord),
    /// A session that has been missing for a ttl.
    LongMissing(ListedRecord),
    /// The worker with this session.
    Worker(Key),
    /// Something outside the fleet, such as a person who holds it by hand.
    Outsider,
    /// Whether its session lives, or whose that is, can't be told: nobody can have it before somebody mends that.
    Behind(Uncovered),
}
