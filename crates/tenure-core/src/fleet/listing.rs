//! The listing: all workers and all units, page by page, when the board shows a new generation, and once in a long while
//! without that, for what was orphaned in some way that nobody told of.

use super::about::About;
use super::board;
use super::plan::{Balance, Load, Plan, Room, plan};
use super::talk::{FleetNotice, Summary};
use super::unit::{Status, UnitSpec};
use super::worker::{Errand, Worker};
use crate::bugs::Bug;
use crate::error::StoreError;
use crate::fence::Fence;
use crate::key::{HolderId, Key};
use crate::op::{Answer, Listed, Op};
use crate::record::Stored;
use crate::time::{Now, Tick, Ttl};
use crate::vigil::Verdict;
use std::collections::BTreeMap;
use std::time::Duration;

const PAGE: usize = 1000;

/// A live worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    pub(super) holder: HolderId,
    pub(super) fence: Fence,
    pub(super) ttl: Ttl,
    pub(super) about: About,
    /// How many units are planned for it.
    pub(super) planned: u64,
}

/// A unit as its record showed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Unit {
    pub(super) spec: UnitSpec,
    pub(super) owner: Owner,
}

/// Who has a unit, by its record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// Nobody who lives; this is the record, by which it can be claimed without another look.
    Nobody(Box<Stored>),
    /// The worker with this session.
    Worker(Key),
    /// Something outside the fleet, such as a person who holds it by hand.
    Outsider,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Listing {
    /// Which it is: pages of an earlier one may still come.
    number: u64,
    /// What the keys of workers' sessions begin with.
    roster: String,
    generation: Fence,
    /// Whether the workers are all known, and it is the units' turn.
    at_units: bool,
    after: Option<Key>,
    /// When to ask for the next page; None while one is under way.
    ask_at: Option<Tick>,
    peers: BTreeMap<Key, Peer>,
    units: BTreeMap<Key, Unit>,
    damaged: Vec<(Key, StoreError)>,
}

impl Worker {
    pub(super) fn listing_wakes(&self) -> Option<Tick> {
        self.session_fence()?;
        match &self.listing {
            Some(listing) => listing.ask_at,
            None if self.is_behind() => Some(self.list_at),
            None => Some(self.audit_at),
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
            let due = self.is_behind() && now.held >= self.list_at || now.held >= self.audit_at;
            if !due {
                return;
            }
            self.lists += 1;
            self.listing = Some(Box::new(Listing {
                number: self.lists,
                roster: self.options.fleet.worker_prefix(),
                generation: board::generation(self.board.as_ref()),
                at_units: false,
                after: None,
                ask_at: Some(now.held),
                peers: BTreeMap::new(),
                units: BTreeMap::new(),
                damaged: Vec::new(),
            }));
        }
        let Some(listing) = &mut self.listing else { return };
        if listing.ask_at.is_none_or(|at| now.held < at) {
            return;
        }
        listing.ask_at = None;
        let fleet = &self.options.fleet;
        let prefix = if listing.at_units { fleet.unit_prefix() } else { fleet.worker_prefix() };
        let op = Op::List { prefix, after: listing.after.clone(), limit: PAGE };
        self.send(Errand::List(self.lists), op);
    }

    pub(super) fn paged(&mut self, now: Now, number: u64, result: Result<Answer, StoreError>) {
        let Some(mut listing) = self.listing.take_if(|listing| listing.number == number) else { return };
        match result {
            Ok(Answer::Listed(page)) => {
                let is_last = page.len() < PAGE;
                listing.after = page.last().map(|listed| listed.key.clone());
                for Listed { key, stored } in page {
                    match stored {
                        Ok(stored) if listing.at_units => {
                            let trusts = self.has_bug(Bug::DeadHeirTrusted);
                            listing.add_unit(key, stored, trusts);
                        }
                        Ok(stored) => self.add_peer(now, &mut listing, key, stored),
                        Err(error) => listing.damaged.push((key, error)),
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
                listing.ask_at = Some(now.held.after(self.ttl.part(16)));
                self.tell(FleetNotice::Trouble(error));
            }
        }
        self.listing = Some(listing);
    }

    /// Counts a session as a worker if it says that it is one, and has not been silent for a ttl.
    fn add_peer(&mut self, now: Now, listing: &mut Listing, key: Key, stored: Stored) {
        let (Some(tenure), Some(about)) = (&stored.record.tenure, About::parse(&stored.record.metadata))
        else {
            return;
        };
        let rules = self.holder.desk.rules.clone();
        let verdict = self.holder.desk.vigils.judge(now, &key, &stored, tenure, &rules, true);
        if key == self.me {
            return;
        }
        if verdict == Verdict::Silent {
            // Whoever watched it may have died, or failed to fence it.
            return self.fence_neighbour(now, key, stored);
        }
        let (holder, fence, ttl) = (tenure.holder.clone(), stored.record.fence, tenure.ttl);
        listing.peers.insert(key, Peer { holder, fence, ttl, about, planned: 0 });
    }

    fn listed_all(&mut self, now: Now, mut listing: Listing) {
        let Some(fence) = self.session_fence() else { return };
        self.list_at = now.held.after(self.ttl.part(32));
        let is_audit = self.listed == Some(listing.generation);
        self.listed = Some(listing.generation);
        // Of all audits of the fleet, this is every n-th, for n workers.
        let audits = self.ttl.duration().max(Duration::from_secs(3)) * 10;
        let workers = u32::try_from(listing.peers.len() + 1).unwrap_or(u32::MAX);
        let jitter = 768 + u32::from(self.nonces.jitter()) * 2;
        self.audit_at = now.held.after(audits.saturating_mul(workers) / 1024 * jitter);
        // What was declined is looked at again once that is over.
        self.declined.retain(|_, until| now.held < *until);
        self.audit_at = self.declined.values().copied().fold(self.audit_at, Tick::min);
        let me = Peer {
            holder: self.holder.desk.identity.holder.clone(),
            fence,
            ttl: self.ttl,
            about: About {
                leaving: self.leaving && !self.has_bug(Bug::LeaverTakes),
                ..self.options.about.clone()
            },
            planned: 0,
        };
        listing.peers.insert(self.me.clone(), me);
        if self.has_bug(Bug::PlansFromStaleRoster) && self.peers.len() > 1 {
            listing.peers.retain(|key, _| *key == self.me);
            listing.peers.extend(self.peers.clone());
        }
        listing.find_own();
        if self.has_bug(Bug::DeletedTaken) {
            listing.units.values_mut().for_each(|unit| unit.spec.status = Status::Open);
        }
        let (plan, names, workers) = listing.plan();
        for owner in plan.iter().flatten() {
            if let Some(peer) = listing.peers.get_mut(&workers[*owner]) {
                peer.planned += 1;
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
            .collect();
        summary.planned = targets.values().filter(|target| target.as_ref() == Ok(&self.me)).count();
        self.peers = listing.peers;
        self.peers.remove(&self.me);
        self.follow_plan(now, listing.units, targets, summary, is_audit);
    }
}

impl Listing {
    fn add_unit(&mut self, key: Key, stored: Stored, trusts: bool) {
        let spec = match UnitSpec::parse(stored.record.metadata.clone()) {
            Ok((spec, _)) => spec,
            Err(error) => return self.damaged.push((key, error)),
        };
        let owner = match &stored.record.tenure {
            None => Owner::Nobody(Box::new(stored)),
            Some(tenure) => match &tenure.ride {
                None => Owner::Outsider,
                Some(ride) if !ride.session.as_str().starts_with(&self.roster) => Owner::Outsider,
                Some(ride) if trusts => Owner::Worker(ride.session.clone()),
                Some(ride) => match self.peers.get(&ride.session) {
                    Some(peer) if peer.fence == ride.fence => Owner::Worker(ride.session.clone()),
                    // Dead, or ourselves: that is told apart once all is listed.
                    _ => Owner::Nobody(Box::new(stored)),
                },
            },
        };
        self.units.insert(key, Unit { spec, owner });
    }

    /// What rides on this worker's own session is its own.
    fn find_own(&mut self) {
        let peers = &self.peers;
        for unit in self.units.values_mut() {
            let Owner::Nobody(stored) = &unit.owner else { continue };
            let ride = stored.record.tenure.as_ref().and_then(|tenure| tenure.ride.as_ref());
            let Some(ride) = ride else { continue };
            if peers.get(&ride.session).is_some_and(|peer| peer.fence == ride.fence) {
                unit.owner = Owner::Worker(ride.session.clone());
            }
        }
    }

    /// The plan, with the units and the workers that its numbers stand for.
    fn plan(&self) -> (Plan, Vec<Key>, Vec<Key>) {
        let workers: Vec<Key> = self.peers.keys().cloned().collect();
        let rooms: Vec<Room> = self.peers.values().map(|peer| peer.about.room()).collect();
        let index: BTreeMap<&Key, usize> = workers.iter().enumerate().map(|(at, key)| (key, at)).collect();
        let holders: BTreeMap<&HolderId, usize> =
            self.peers.values().enumerate().map(|(at, peer)| (&peer.holder, at)).collect();
        let open = self.units.iter().filter(|(_, unit)| unit.spec.status == Status::Open);
        let open = open.filter(|(_, unit)| unit.owner != Owner::Outsider);
        let (names, loads): (Vec<Key>, Vec<Load>) = open
            .map(|(key, unit)| {
                let owner = match &unit.owner {
                    Owner::Worker(session) => index.get(session).copied(),
                    _ => None,
                };
                let pin = unit.spec.pin.as_ref().and_then(|pin| holders.get(pin)).copied();
                let (weight, needs) = (unit.spec.weight, unit.spec.needs.clone());
                (key.clone(), Load { weight, needs, owner, pin })
            })
            .unzip();
        let balance = self.peers.values().next().map_or(Balance::Count, |first| first.about.balance);
        (plan(&loads, &rooms, balance), names, workers)
    }
}
