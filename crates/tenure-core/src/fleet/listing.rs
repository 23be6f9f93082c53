//! The listing: all workers and all units, page by page, when the board shows a new generation, and once in a long while
//! without that, for what was orphaned in some way that nobody told of.

use super::about::About;
use super::board;
use super::names::FleetName;
use super::plan::{Balance, Load, Plan, Room, Uncovered, plan};
use super::talk::{FleetNotice, Summary};
use super::unit::{Status, UnitSpec};
use super::worker::{Errand, Worker};
use crate::bugs::{Bug, Bugs};
use crate::holder::failure_detector::Verdict;
use crate::op::{Answer, Listed, Op};
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce};
use crate::values::key::{HolderId, Key};
use crate::values::record::Stored;
use crate::values::time::{Now, Tick, Ttl};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A live worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    pub(super) holder: HolderId,
    pub(super) fence: Fence,
    pub(super) ttl: Ttl,
    pub(super) about: About,
    /// Whether its session's age and the wall clocks agreed when it was last seen.
    pub(super) attested: bool,
    /// How many units are planned for it.
    pub(super) planned: u64,
    /// How many of these evenness counts.
    pub(super) counted: u64,
    /// Whether it understands letters that pass a unit on.
    pub(super) letters: bool,
}

/// A unit as its record showed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Unit {
    pub(super) spec: UnitSpec,
    pub(super) owner: Owner,
    /// The id and the fence of its tenure; none if it has none.
    pub(super) held: Option<(Nonce, Fence)>,
}

impl Unit {
    /// Names the write that nobody's record shows, or the tenure that it does.
    pub(super) fn shows(&self) -> u128 {
        match &self.owner {
            Owner::Nobody(stored) | Owner::Missing(stored) | Owner::LongMissing(stored) => stored.version.0,
            _ => self.held.map_or(0, |(id, _)| id.0),
        }
    }
}

/// Who has a unit, by its record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// Nobody who lives; this is the record, by which it can be claimed without another look.
    Nobody(Box<Stored>),
    /// A session that is missing altogether. Nobody can have it before that has lasted for a ttl.
    Missing(Box<Stored>),
    /// A session that has been missing for a ttl.
    LongMissing(Box<Stored>),
    /// The worker with this session.
    Worker(Key),
    /// Something outside the fleet, such as a person who holds it by hand.
    Outsider,
    /// Whether its session lives, or whose that is, can't be told: nobody can have it before somebody mends that.
    Behind(Uncovered),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Listing {
    /// Which it is: pages of an earlier one may still come.
    number: u64,
    /// What the keys of workers' sessions begin with.
    roster: String,
    generation: Fence,
    began: Tick,
    /// Whether the workers are all known, and it is the units' turn.
    at_units: bool,
    after: Option<Key>,
    /// When to ask for the next page; None while one is under way.
    ask_at: Option<Tick>,
    peers: BTreeMap<Key, Peer>,
    units: BTreeMap<Key, Unit>,
    damaged: Vec<(Key, StoreError)>,
    /// Sessions that can't be read, or are not workers'.
    odd: BTreeMap<Key, Uncovered>,
    /// Sessions that have been silent for too long.
    dead: Vec<(Key, Stored)>,
    /// Sessions that are there, and are no live worker's, or this worker's own.
    ended: BTreeSet<Key>,
}

impl Worker {
    pub(super) fn listing_wakes(&self) -> Option<Tick> {
        self.session_fence()?;
        match &self.listing {
            Some(listing) => listing.ask_at,
            None if self.is_behind() || self.look.blind => Some(self.list_at.min(self.audit_at)),
            None => {
                Some(self.doubts.list_at.map_or(self.audit_at, |at| self.audit_at.min(at.max(self.list_at))))
            }
        }
    }

    /// Whether the board shows another generation than that which was listed.
    pub(super) fn is_behind(&self) -> bool {
        // Somebody may have deleted it, and with it a generation that this worker has not seen.
        (self.board.is_some() || self.listed.is_some())
            && self.listed != Some(board::generation(self.board.as_ref()))
    }

    pub(super) fn wake_listing(&mut self, now: Now) {
        if self.session_fence().is_none() {
            self.listing = None;
            return;
        }
        if self.listing.is_none() {
            let behind = self.is_behind() || self.look.blind;
            let behind = behind || self.doubts.list_at.is_some_and(|at| now.held >= at);
            let due = behind && now.held >= self.list_at || now.held >= self.audit_at;
            if !due {
                return;
            }
            self.doubts.list_at = None;
            self.lists += 1;
            self.listing = Some(Box::new(Listing {
                number: self.lists,
                roster: self.options.fleet.worker_prefix(),
                generation: board::generation(self.board.as_ref()),
                began: now.held,
                at_units: false,
                after: None,
                ask_at: Some(now.held),
                peers: BTreeMap::new(),
                units: BTreeMap::new(),
                damaged: Vec::new(),
                odd: BTreeMap::new(),
                dead: Vec::new(),
                ended: BTreeSet::from([self.me.clone()]),
            }));
        }
        let Some(listing) = &mut self.listing else { return };
        if listing.ask_at.is_none_or(|at| now.held < at) {
            return;
        }
        listing.ask_at = None;
        let fleet = &self.options.fleet;
        let prefix = if listing.at_units { fleet.unit_prefix() } else { fleet.worker_prefix() };
        let op = Op::List { prefix, after: listing.after.clone(), limit: self.options.page.max(1) };
        self.send(Errand::List(self.lists), op);
    }

    pub(super) fn paged(&mut self, now: Now, number: u64, result: Result<Answer, StoreError>) {
        let Some(mut listing) = self.listing.take_if(|listing| listing.number == number) else { return };
        match result {
            Ok(Answer::Listed(page)) => {
                let is_last = page.len() < self.options.page.max(1) || self.has_bug(Bug::OnePageListed);
                listing.after = page.last().map(|listed| listed.key.clone());
                for Listed { key, stored } in page {
                    match stored {
                        Ok(stored) if listing.at_units => {
                            listing.add_unit(key, stored, self.holder.env.rules.bugs);
                        }
                        Ok(stored) => self.add_peer(now, &mut listing, key, stored),
                        Err(error) => {
                            if !listing.at_units {
                                listing.odd.insert(key.clone(), Uncovered::Damaged);
                            }
                            listing.damaged.push((key, error));
                        }
                    }
                }
                listing.ask_at = Some(now.held);
                if is_last && listing.at_units {
                    return self.listed_all(now, *listing);
                }
                if is_last {
                    listing.at_units = true;
                    listing.after = None;
                }
            }
            Ok(_) => {}
            Err(error) => {
                listing.ask_at = Some(now.held.after(self.part(16)));
                self.tell(FleetNotice::Trouble(error));
            }
        }
        self.listing = Some(listing);
    }

    /// Counts a session as a worker if it says that it is one, and has not been silent for a ttl.
    fn add_peer(&mut self, now: Now, listing: &mut Listing, key: Key, stored: Stored) {
        let Some(tenure) = &stored.record.tenure else {
            listing.ended.insert(key);
            return;
        };
        let rules = self.holder.env.rules.clone();
        let verdict = self.holder.env.detector.judge(now, &key, &stored, tenure, &rules);
        if key == self.me {
            return;
        }
        if verdict == Verdict::Suspected {
            // Whoever watched it may have died, or failed to fence it.
            listing.ended.insert(key.clone());
            return listing.dead.push((key, stored));
        }
        let Some(about) = About::parse(&stored.record.metadata) else {
            listing.odd.insert(key, Uncovered::Foreign);
            return;
        };
        let (holder, fence, ttl) = (tenure.holder.clone(), stored.record.fence, tenure.ttl);
        let attested = rules.first_sight && is_attested(now, &stored, ttl);
        let letters = About::hears_letters(&stored.record.metadata);
        let peer = Peer { holder, fence, ttl, about, attested, planned: 0, counted: 0, letters };
        listing.peers.insert(key, peer);
    }

    /// A bug on purpose.
    fn keep_stale_roster(&self, listing: &mut Listing) {
        if self.peers.len() > 1 {
            listing.peers.retain(|key, _| *key == self.me);
            listing.peers.extend(self.peers.clone());
        }
    }

    fn listed_all(&mut self, now: Now, mut listing: Listing) {
        let Some(fence) = self.session_fence() else { return };
        // However much is to be listed: not all the time.
        let took = now.held.since(listing.began).saturating_mul(3).min(self.part(1));
        let pause = if self.look.blind { self.interval() } else { took.max(self.part(32)) };
        self.list_at = now.held.after(pause);
        let is_audit = self.listed == Some(listing.generation);
        self.listed = Some(listing.generation);
        self.planned_from = listing.began;
        let was_turn = listing.began >= self.audit_at;
        let mut me = Peer {
            holder: self.holder.env.identity.holder.clone(),
            fence,
            ttl: self.ttl,
            about: self.options.about.clone(),
            attested: true,
            planned: 0,
            counted: 0,
            letters: true,
        };
        if self.has_bug(Bug::LeaverTakes) {
            me.about.leaving = false;
        }
        listing.peers.insert(self.me.clone(), me);
        let live: BTreeSet<Key> = listing.peers.keys().cloned().collect();
        let dead = std::mem::take(&mut listing.dead);
        if self.has_bug(Bug::PlansFromStaleRoster) {
            self.keep_stale_roster(&mut listing);
        }
        listing.find_own();
        self.settle_missing(now, &mut listing.units);
        self.pace.meet(listing.peers.values().map(|peer| peer.ttl));
        if self.has_bug(Bug::DeletedTaken) {
            listing.units.values_mut().for_each(|unit| unit.spec.status = Status::Open);
        }
        let (plan, names, workers) = listing.plan(&self.options.fleet, self.holder.env.rules.bugs);
        for (unit, owner) in names.iter().zip(&plan) {
            let Ok(owner) = owner else { continue };
            let fails = listing.units.get(unit).is_some_and(|unit| unit.spec.fails());
            if let Some(peer) = listing.peers.get_mut(&workers[*owner]) {
                peer.planned += 1;
                peer.counted += u64::from(!fails);
            }
        }
        let mut summary = Summary {
            generation: listing.generation,
            workers: workers.len(),
            units: names.len(),
            damaged: listing.damaged,
            ..Summary::default()
        };
        let targets: BTreeMap<Key, Result<Key, _>> = names
            .into_iter()
            .zip(plan)
            .map(|(unit, target)| (unit, target.map(|at| workers[at].clone())))
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
        summary.planned = targets.values().filter(|target| target.as_ref() == Ok(&self.me)).count();
        self.peers = listing.peers;
        self.peers.remove(&self.me);
        // What one lists alone, as nobody has told of a change, puts off no turn: all others count theirs as before.
        if was_turn || !is_audit {
            self.audit_at = self.next_audit(now, was_turn.then_some(&self.me));
        }
        if was_turn && is_audit {
            self.mark_audit(now);
        }
        let takes = |(key, unit): (&Key, &Unit)| match &unit.owner {
            Owner::Nobody(stored) if targets.get(key) == Some(&Ok(self.me.clone())) => {
                Some(stored.record.tenure.as_ref()?.attachment.as_ref()?.session.clone())
            }
            _ => None,
        };
        let transferee_of: BTreeSet<Key> = listing.units.iter().filter_map(takes).collect();
        self.bury(now, dead, &live, &transferee_of);
        self.follow_plan(now, listing.units, targets, summary, (is_audit, was_turn));
    }
}

/// Two witnesses agree while they are less than this part of a ttl apart: by as much later a death may be judged.
const ATTESTED: u32 = 4;

/// Whether the two witnesses agree about how old a session's record is. Some stores can't tell an age to the second: one that
/// falls short is judged later by as much, but never too early.
pub(super) fn is_attested(now: Now, stored: &Stored, ttl: Ttl) -> bool {
    let by_wall = now.wall.since(stored.record.stamp);
    stored.age().is_some_and(|age| age.abs_diff(by_wall) < ttl.part(ATTESTED))
}

/// The least ttl whose ages are always told well enough by a store whose ages fall short of the truth by less than
/// `age_error`, where the wall clocks agree. A worker with a shorter ttl looks at eight others instead of one.
#[must_use]
pub fn least_ttl_attested(age_error: Duration) -> Duration {
    age_error * ATTESTED
}

impl Listing {
    fn add_unit(&mut self, key: Key, stored: Stored, bugs: Bugs) {
        let spec = match UnitSpec::parse(stored.record.metadata.clone()) {
            Ok((spec, _)) => spec,
            Err(error) => return self.damaged.push((key, error)),
        };
        let held = stored.record.tenure.as_ref().map(|tenure| (tenure.id, stored.record.fence));
        let owner = match &stored.record.tenure {
            None => Owner::Nobody(Box::new(stored)),
            Some(tenure) => match &tenure.attachment {
                None => Owner::Outsider,
                Some(attachment) if !attachment.session.as_str().starts_with(&self.roster) => Owner::Outsider,
                Some(attachment) if self.odd.contains_key(&attachment.session) => {
                    self.odd.get(&attachment.session).map_or(Owner::Outsider, |why| Owner::Behind(*why))
                }
                Some(attachment) if bugs.has(Bug::DeadTransfereeTrusted) => {
                    Owner::Worker(attachment.session.clone())
                }
                Some(attachment) => match self.peers.get(&attachment.session) {
                    Some(peer) if peer.fence == attachment.fence => Owner::Worker(attachment.session.clone()),
                    None if !self.ended.contains(&attachment.session) => Owner::Missing(Box::new(stored)),
                    // Dead, or ourselves: that is told apart once all is listed.
                    _ => Owner::Nobody(Box::new(stored)),
                },
            },
        };
        self.units.insert(key, Unit { spec, owner, held });
    }

    /// What is attached to this worker's own session is its own.
    fn find_own(&mut self) {
        let peers = &self.peers;
        for unit in self.units.values_mut() {
            let Owner::Nobody(stored) = &unit.owner else { continue };
            let attachment = stored.record.tenure.as_ref().and_then(|tenure| tenure.attachment.as_ref());
            let Some(attachment) = attachment else { continue };
            if peers.get(&attachment.session).is_some_and(|peer| peer.fence == attachment.fence) {
                unit.owner = Owner::Worker(attachment.session.clone());
            }
        }
    }

    /// The plan, with the units and the workers that its numbers stand for.
    fn plan(&self, fleet: &FleetName, bugs: Bugs) -> (Plan, Vec<Key>, Vec<Key>) {
        let workers: Vec<Key> = self.peers.keys().cloned().collect();
        let rooms: Vec<Room> = self.peers.values().map(|peer| peer.about.room()).collect();
        let index: BTreeMap<&Key, usize> = workers.iter().enumerate().map(|(at, key)| (key, at)).collect();
        let holders: BTreeMap<&HolderId, usize> =
            self.peers.values().enumerate().map(|(at, peer)| (&peer.holder, at)).collect();
        let mut decliners: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for (at, peer) in self.peers.values().enumerate() {
            for unit in &peer.about.declines {
                decliners.entry(unit).or_default().insert(at);
            }
        }
        let open = self.units.iter().filter(|(_, unit)| unit.spec.status == Status::Open);
        let open = open.filter(|(_, unit)| !matches!(unit.owner, Owner::Outsider | Owner::Behind(_)));
        let (names, loads): (Vec<Key>, Vec<Load>) = open
            .map(|(key, unit)| {
                let owner = match &unit.owner {
                    Owner::Worker(session) => index.get(session).copied(),
                    _ => None,
                };
                let pin = unit.spec.pin.as_ref().filter(|_| !bugs.has(Bug::PinIgnored));
                let pin = pin.and_then(|pin| holders.get(pin)).copied();
                let weight = if bugs.has(Bug::WeightIgnored) { 1 } else { unit.spec.weight };
                let needs = unit.spec.needs.clone();
                let declined_by = fleet.unit_of(key).and_then(|unit| decliners.get(unit)).cloned();
                let declined_by = declined_by.unwrap_or_default();
                let (stays, settled) = (unit.spec.fails(), unit.spec.retry.is_some());
                (key.clone(), Load { weight, needs, owner, pin, stays, settled, declined_by })
            })
            .unzip();
        let balance = self.peers.values().next().map_or(Balance::Count, |first| first.about.balance);
        (plan(&loads, &rooms, balance), names, workers)
    }
}

#[cfg(test)]
mod tests;
