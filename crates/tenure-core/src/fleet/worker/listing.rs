//! The listing: all workers and all units, page by page. The planner lists when the board shows a new generation, and once in a long
//! while without that. Other workers list for themselves only if their parts of the plan can't be told. A worker that has to
//! choose another one lists the workers alone.

mod page;
mod plan;

use super::listed::{Owner, Peer, Unit};
use super::{FleetWorker, InFlight};
use crate::bugs::Bug;
use crate::fleet::plan::Uncovered;
use crate::fleet::sorted::Sorted;
use crate::fleet::talk::Summary;
use crate::fleet::unit::Status;
use crate::op::Op;
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce};
use crate::values::key::Key;
use crate::values::record::Stored;
use crate::values::time::{Now, Tick};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What a listing is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Purpose {
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
    began: Tick,
    purpose: Purpose,
    section: ListingSection,
    after: Option<Key>,
    /// When to ask for the next page; None while one is under way.
    ask_at: Option<Tick>,
    pub(super) peers: BTreeMap<Key, Peer>,
    pub(super) units: Sorted<Unit>,
    /// The parts of the plan that were told before.
    pub(super) parts: BTreeMap<Key, Stored>,
    damaged: Vec<(Key, StoreError)>,
    /// Sessions that can't be read, or are not workers'.
    odd: BTreeMap<Key, Uncovered>,
    /// Sessions that have been silent for too long.
    dead: Vec<(Key, Stored)>,
    /// Sessions that are there, and are no live worker's, or this worker's own.
    ended: BTreeSet<Key>,
    /// Sessions that have begun lately.
    young: BTreeSet<Key>,
}

impl FleetWorker {
    pub(super) fn listing_wake_at(&self) -> Option<Tick> {
        self.session_fence()?;
        match &self.listing {
            Some(listing) => listing.ask_at,
            None => {
                let is_planner = self.is_planner();
                let soon = (self.is_unlisted() || self.wants_roster()).then_some(self.list_at);
                let again = self.doubts.list_at.filter(|_| is_planner).map(|at| at.max(self.list_at));
                soon.into_iter().chain(again).chain(is_planner.then_some(self.relist_at)).min()
            }
        }
    }

    /// Whether there is something that only a listing shows this worker.
    fn is_unlisted(&self) -> bool {
        self.board.is_blind() || self.hearing.lists() || self.is_planner() && self.is_behind()
    }

    /// Whether the board shows another generation than that which was listed.
    pub(super) fn is_behind(&self) -> bool {
        // Somebody may have deleted it, and with it a generation that this worker has not seen.
        (self.board.seen().is_some() || self.listed.is_some()) && self.listed != Some(self.generation())
    }

    pub(super) fn wake_listing(&mut self, now: Now) {
        if self.session_fence().is_none() {
            self.listing = None;
            return;
        }
        if self.listing.is_none() {
            let is_planner = self.is_planner();
            let again = is_planner && self.doubts.list_at.is_some_and(|at| now.held >= at);
            let is_relist = is_planner && now.held >= self.relist_at;
            let is_whole = (self.is_unlisted() || again) && now.held >= self.list_at || is_relist;
            let purpose = match () {
                () if is_whole && is_planner => Purpose::Plan,
                () if is_whole => Purpose::Own,
                () if self.wants_roster() && now.held >= self.list_at => Purpose::Roster,
                () => return,
            };
            if is_whole {
                self.doubts.list_at = None;
                self.hearing.begin_listing();
            }
            self.lists += 1;
            self.listing = Some(Box::new(Listing {
                number: self.lists,
                roster: self.env.fleet().worker_prefix(),
                generation: self.generation(),
                began: now.held,
                purpose,
                section: ListingSection::Workers,
                after: None,
                ask_at: Some(now.held),
                peers: BTreeMap::new(),
                units: Sorted::default(),
                parts: BTreeMap::new(),
                damaged: Vec::new(),
                odd: BTreeMap::new(),
                dead: Vec::new(),
                ended: BTreeSet::from([self.env.me.clone()]),
                young: BTreeSet::new(),
            }));
        }
        let Some(listing) = &mut self.listing else { return };
        if listing.ask_at.is_none_or(|at| now.held < at) {
            return;
        }
        listing.ask_at = None;
        let fleet = self.env.fleet();
        let prefix = match listing.section {
            ListingSection::Workers => fleet.worker_prefix(),
            ListingSection::Parts => fleet.plan_prefix(),
            ListingSection::Units => fleet.unit_prefix(),
        };
        let op = Op::List { prefix, after: listing.after.clone(), limit: self.env.options.page.max(1) };
        self.send(InFlight::List(self.lists), op);
    }

    /// When to list all again, if nothing happens before: after about ten ttls. That finds units which were orphaned without any notice.
    pub(super) fn next_relist(&self, now: Now) -> Tick {
        if self.env.has_bug(Bug::AuditForgotten) {
            return Tick::NEVER;
        }
        let turn = self.env.part(1).max(Duration::from_secs(3)) * 10;
        let jitter = turn / 512 * u32::from(self.env.nonces.jitter());
        now.held.after(turn - turn / 4 + jitter)
    }

    fn listed_roster(&mut self, now: Now, mut listing: Listing) {
        // Looks would not show them any more.
        let dead = std::mem::take(&mut listing.dead);
        self.bury(now, dead, self.is_standby());
        let took = now.held.since(listing.began).saturating_mul(3).min(self.env.part(1));
        self.list_at = now.held.after(took.max(self.env.least_pause()));
        self.list_refused = None;
        self.roster_of = Some(listing.generation);
        self.peers = listing.peers;
        self.choose_from_roster(now);
    }

    /// A bug on purpose.
    fn keep_stale_roster(&self, listing: &mut Listing) {
        if self.peers.len() > 1 {
            listing.peers.retain(|key, _| *key == self.env.me);
            listing.peers.extend(self.peers.clone());
        }
    }

    pub(super) fn listed_all(&mut self, now: Now, mut listing: Listing) {
        let Some(fence) = self.session_fence() else { return };
        self.list_refused = None;
        let plans = listing.purpose == Purpose::Plan;
        // However much is to be listed: not all the time. Only one plans, for whom all wait.
        let share = if plans { 1 } else { 3 };
        let took = now.held.since(listing.began).saturating_mul(share).min(self.env.part(1));
        let pause =
            if self.board.is_blind() { self.env.interval() } else { took.max(self.env.least_pause()) };
        self.list_at = now.held.after(pause);
        if plans {
            self.listed = Some(listing.generation);
            self.relist_at = self.next_relist(now);
        }
        self.planned_from = listing.began;
        let mut me = Peer {
            holder: self.env.id.clone(),
            fence,
            ttl: self.env.ttl,
            about: self.env.options.about.clone(),
            has: None,
            heartbeat: Nonce(0),
            planned: 0,
            letters: true,
            attested: false,
        };
        if self.env.has_bug(Bug::LeaverTakes) {
            me.about.leaving = false;
        }
        listing.peers.insert(self.env.me.clone(), me);
        let dead = std::mem::take(&mut listing.dead);
        if self.env.has_bug(Bug::PlansFromStaleRoster) {
            self.keep_stale_roster(&mut listing);
        }
        listing.find_own();
        self.settle_missing(now, &mut listing.units);
        self.env.pace.meet(listing.peers.values().map(|peer| peer.ttl));
        if self.env.has_bug(Bug::DeletedTaken) {
            let open = |unit: &Unit| (*unit.spec).clone().status(Status::Open).into();
            listing.units.values_mut().for_each(|unit| unit.spec = open(unit));
        }
        let (plan, names, workers, moves) = listing.plan(self.env.fleet(), self.env.bugs);
        listing.peers.values_mut().for_each(|peer| peer.planned = 0);
        for owner in plan.iter().filter_map(|owner| owner.as_ref().ok()) {
            if let Some(peer) = listing.peers.get_mut(&workers[*owner]) {
                peer.planned += 1;
            }
        }
        let mut summary = Summary {
            generation: listing.generation,
            planner: Some(self.env.me.clone()),
            workers: workers.len(),
            units: names.len(),
            damaged: std::mem::take(&mut listing.damaged),
            moves: if plans { moves } else { BTreeMap::new() },
            ..Summary::default()
        };
        let targets: Sorted<Result<Key, _>> = names
            .into_iter()
            .zip(plan)
            .filter_map(|(at, target)| {
                Some((listing.units.at(at)?.0.clone(), target.map(|at| workers[at].clone())))
            })
            .collect();
        summary.uncovered = targets
            .iter()
            .filter_map(|(unit, target)| Some((unit.clone(), *target.as_ref().err()?)))
            .chain(listing.units.iter().filter_map(|(unit, found)| match found.owner {
                Owner::Behind(why) if found.spec.status == Status::Open => Some((unit.clone(), why)),
                Owner::Worker(_) if found.spec.rests(now.wall) => Some((unit.clone(), Uncovered::Declined)),
                _ => None,
            }))
            .collect();
        summary.planned = targets.values().filter(|target| target.as_ref() == Ok(&self.env.me)).count();
        self.bury(now, dead, plans);
        if plans {
            self.tell_plan(now, &listing, &targets, (summary.workers, summary.units));
        }
        self.peers = listing.peers;
        self.peers.remove(&self.env.me);
        self.choose_from_roster(now);
        self.follow_plan(now, listing.units, targets, summary);
    }
}

impl Listing {
    /// One of these workers, and no units.
    #[cfg(test)]
    pub(super) fn of_peers(peers: BTreeMap<Key, Peer>) -> Listing {
        Listing {
            number: 0,
            roster: String::new(),
            generation: Fence(0),
            began: Tick(0),
            purpose: Purpose::Plan,
            section: ListingSection::Units,
            after: None,
            ask_at: None,
            peers,
            units: Sorted::default(),
            parts: BTreeMap::new(),
            damaged: Vec::new(),
            odd: BTreeMap::new(),
            dead: Vec::new(),
            ended: BTreeSet::new(),
            young: BTreeSet::new(),
        }
    }

    /// What is attached to this worker's own session is its own.
    fn find_own(&mut self) {
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

#[cfg(test)]
mod tests;
