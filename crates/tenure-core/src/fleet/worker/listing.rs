//! A listing: all workers and all units, page by page. `lister` says when there is one.

mod lister;
mod page;
mod plan;

pub(super) use self::lister::{FailedPage, ListNeeds, Lister};
pub(super) use self::page::{ListedPage, SessionSighting};
use super::listed::{Owner, Peer, Unit};
use crate::fleet::plan::Uncovered;
use crate::fleet::sorted::Sorted;
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::record::Stored;
use crate::values::time::Tick;
use std::collections::{BTreeMap, BTreeSet};

/// What a listing is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// A plan for all.
    Plan,
    /// What this worker itself has to do.
    Own,
    /// Who there is.
    Roster,
}

/// Which records a page is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ListingSection {
    Workers,
    Parts,
    Units,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Listing {
    /// Which it is: pages of an earlier one may still come.
    number: u64,
    /// What the keys of workers' sessions begin with.
    roster: String,
    pub(super) generation: Fence,
    pub(super) began: Tick,
    pub(super) purpose: Purpose,
    section: ListingSection,
    after: Option<Key>,
    /// When to ask for the next page; None while one is under way.
    ask_at: Option<Tick>,
    pub(super) peers: BTreeMap<Key, Peer>,
    pub(super) units: Sorted<Unit>,
    /// The parts of the plan that were told before.
    pub(super) parts: BTreeMap<Key, Stored>,
    pub(super) damaged: Vec<(Key, StoreError)>,
    /// Sessions that can't be read, or are not workers'.
    odd: BTreeMap<Key, Uncovered>,
    /// Sessions that have been silent for too long.
    pub(super) dead: Vec<(Key, Stored)>,
    /// Sessions that are there, and are no live worker's, or this worker's own.
    ended: BTreeSet<Key>,
    /// Sessions that have begun lately.
    pub(super) young: BTreeSet<Key>,
}

impl Listing {
    /// One that has not shown anything yet.
    fn new(number: u64, roster: String, generation: Fence, began: Tick, purpose: Purpose) -> Listing {
        Listing {
            number,
            roster,
            generation,
            began,
            purpose,
            section: ListingSection::Workers,
            after: None,
            ask_at: Some(began),
            peers: BTreeMap::new(),
            units: Sorted::default(),
            parts: BTreeMap::new(),
            damaged: Vec::new(),
            odd: BTreeMap::new(),
            dead: Vec::new(),
            ended: BTreeSet::new(),
            young: BTreeSet::new(),
        }
    }

    /// One of these workers, and no units.
    #[cfg(test)]
    pub(super) fn of_peers(peers: BTreeMap<Key, Peer>) -> Listing {
        Listing { peers, ..Listing::new(0, String::new(), Fence(0), Tick(0), Purpose::Plan) }
    }

    /// What is attached to this worker's own session is its own.
    pub(super) fn find_own(&mut self) {
        let peers = &self.peers;
        for unit in self.units.values_mut() {
            let Owner::Nobody(seen) = &unit.owner else { continue };
            let attachment = seen.tenure().and_then(|tenure| tenure.attachment.as_ref());
            let Some(attachment) = attachment else { continue };
            if let Some((session, peer)) = peers.get_key_value(&attachment.session)
                && peer.fence == attachment.fence
            {
                unit.owner = Owner::Worker(session.clone());
            }
        }
    }
}
