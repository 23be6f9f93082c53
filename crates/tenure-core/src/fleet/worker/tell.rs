//! Telling the plan. The planner writes the parts that have changed, and then marks the board with the plan's number and the names of the
//! workers concerned. Other workers read nothing.

mod news;
mod writing;

use self::news::Told;
use self::writing::PartWrites;
use super::disputes::Disputes;
use super::listed::{Owner, Peer, Unit};
use super::listing::Listing;
use super::{FleetWorker, InFlight};
use crate::bugs::Bug;
use crate::fleet::board::{self, SeenBoard, ToldPlan};
use crate::fleet::digest::{Digest, spread};
use crate::fleet::part::{self, Part, Shows, Task};
use crate::fleet::plan::Uncovered;
use crate::fleet::sorted::Sorted;
use crate::fleet::talk::FleetNotice;
use crate::fleet::unit::Status;
use crate::op::{Answer, Op, Outcome, Write};
use crate::values::error::StoreError;
use crate::values::key::{HolderId, Key};
use crate::values::record::{Attachment, Stored};
use crate::values::time::{Now, Tick, Ttl};
use std::collections::{BTreeMap, BTreeSet};

/// How many workers stand by.
const STANDBYS: usize = 2;

/// One plan that is being told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Round {
    mark: ToldPlan,
    standbys: BTreeSet<HolderId>,
    /// The store did not take some of its parts.
    refused: bool,
}

/// What the planner knows of what it has told.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Telling {
    /// The number of the last plan that this worker has told, in whichever of its terms.
    number: u64,
    told: BTreeMap<Key, Told>,
    pub(super) disputes: Disputes,
    round: Option<Box<Round>>,
    writing: PartWrites,
}

impl Telling {
    /// Whether a plan is being told.
    pub(super) fn is_under_way(&self) -> bool {
        self.round.is_some()
    }

    /// When the next part is sent, unless one has to be answered before.
    pub(super) fn wake_at(&self) -> Option<Tick> {
        self.writing.wake_at()
    }

    /// This worker plans no more.
    pub(super) fn end(&mut self) {
        let Telling { number, mut writing, .. } = std::mem::take(self);
        writing.take();
        *self = Telling { number, writing, ..Telling::default() };
    }

    /// The store does not take a part.
    fn refused(&mut self) {
        if let Some(round) = &mut self.round {
            round.refused = true;
        }
    }
}

impl FleetWorker {
    /// Tells the plan to those whose parts it changes.
    pub(super) fn tell_plan(
        &mut self,
        now: Now,
        listing: &Listing,
        targets: &Sorted<Result<Key, Uncovered>>,
        (workers, units): (usize, usize),
    ) {
        let Some(planner) = self.board.planner().cloned().filter(|_| !self.board.is_blind()) else { return };
        let number = self.telling.number + 1;
        let before = self.telling.round.take();
        let unmarked = before.and_then(|round| round.mark.told).unwrap_or_default();
        let mut under_way = self.telling.writing.take();
        if self.env.has_bug(Bug::UnderWayForgotten) {
            under_way.clear();
        }
        let (mut parts, sums) = self.parts(&planner, listing, targets);
        let disputed = self.settle_disputes(now, listing);
        for (session, reason) in disputed {
            if let Some(part) = parts.get_mut(&session) {
                part.lists = Some(reason);
                // Whom the store does not let list goes by that.
                part.name_own(self.listed_of(listing, &session));
            }
        }
        let mut round = Round {
            mark: ToldPlan {
                number,
                // Those of a plan that was not told to the end are told of this one.
                told: Some(unmarked),
                counts: (workers as u64, units as u64),
                ttls: self.ttls(listing),
                rest: self.next_rest(now, workers),
            },
            standbys: self.standbys(listing),
            refused: false,
        };
        self.telling.told.retain(|session, _| parts.contains_key(session));
        for (session, part) in parts {
            let sum = sums.get(&session).copied().unwrap_or_default();
            let part = part.bounded(sum.token(), self.env.has_bug(Bug::LargePartCut));
            let Some(peer) = listing.peers.get(&session) else { continue };
            let Ok(key) = self.env.fleet().part(&peer.holder) else { continue };
            let stands = listing.parts.get(&key);
            // What was sent for an earlier plan may stand there at any time, unless this one is written.
            let is_under_way = under_way.contains_key(&key);
            let mut stood = stands.and_then(|stands| Part::parse(&stands.record.metadata));
            if self.env.has_bug(Bug::PartNotCompared) {
                let told = self.telling.told.get(&session);
                stood = told.and_then(|told| told.wrote.clone()).or(stood);
            }
            if !self.is_news(now, &session, &part, stood.as_ref(), listing) && !is_under_way {
                continue;
            }
            if let Some(told) = &mut round.mark.told {
                told.insert(peer.holder.clone());
            }
            if is_under_way || stood.as_ref() != Some(&part) {
                if let Some(told) = self.telling.told.get_mut(&session) {
                    told.wrote = Some(part.clone());
                }
                let refused_since = under_way.get(&key).copied().flatten();
                let write = self.part_write(now, key, stands, &part);
                self.telling.writing.add(write, refused_since);
            }
        }
        self.list_for_undone(now);
        let is_same = |board: &SeenBoard| {
            let plan = board.plan.as_ref().map(|plan| (plan.counts, plan.ttls, plan.rest));
            plan == Some((round.mark.counts, round.mark.ttls, round.mark.rest))
                && board.standbys == round.standbys
        };
        let is_told = round.mark.told.as_ref().is_some_and(BTreeSet::is_empty)
            && self.board.seen().is_some_and(is_same);
        if is_told {
            return self.lead.unfit.told();
        }
        self.telling.number = number;
        self.telling.round = Some(Box::new(round));
        self.wake_telling(now);
        self.mark_plan(now);
    }

    /// Those who are to stand by: the same as before, as long as they are there.
    fn standbys(&self, listing: &Listing) -> BTreeSet<HolderId> {
        let is_named = |peer: &Peer| self.board.names_standby(&peer.holder);
        let stays = |(session, peer): &(&Key, &Peer)| **session != self.env.me && !peer.about.leaving;
        let mut peers: Vec<(&Key, &Peer)> = listing.peers.iter().filter(stays).collect();
        peers.sort_by_key(|(session, peer)| (!is_named(peer), spread(session)));
        peers.into_iter().take(STANDBYS).map(|(_, peer)| peer.holder.clone()).collect()
    }

    fn ttls(&self, listing: &Listing) -> (Ttl, Ttl) {
        let ttls = listing.peers.values().map(|peer| peer.ttl);
        ttls.fold((self.env.ttl, self.env.ttl), |(least, most), ttl| (least.min(ttl), most.max(ttl)))
    }

    /// What each of the others has to do, and a digest of that, however much it is.
    fn parts(
        &self,
        planner: &Attachment,
        listing: &Listing,
        targets: &Sorted<Result<Key, Uncovered>>,
    ) -> (BTreeMap<Key, Part>, BTreeMap<Key, Digest>) {
        let others = listing.peers.iter().filter(|(session, _)| **session != self.env.me);
        let mut parts: BTreeMap<Key, Part> =
            others.map(|(session, peer)| (session.clone(), Part::new(planner.clone(), peer.fence))).collect();
        let mut sizes: BTreeMap<Key, usize> = BTreeMap::new();
        let mut sums: BTreeMap<Key, Digest> = BTreeMap::new();
        let mut tell =
            |session: &Key, (key, name, unit): (&Key, &str, &Unit), task: Task, peer: Option<&Key>| {
                let Some(part) = parts.get_mut(session) else { return };
                let sum = sums.entry(session.clone()).or_default();
                *sum = sum.with(task.share(key, unit.shows, peer));
                let size = sizes.entry(session.clone()).or_default();
                if *size > part::MAX_BYTES {
                    // It does not fit into a record, so nothing of it will be told.
                    return;
                }
                *size += task.size(name);
                let peer = peer.and_then(|session| listing.peers.get(session));
                part.peers.extend(peer.map(|peer| (peer.holder.clone(), (peer.fence, peer.ttl))));
                part.tasks.insert(name.to_owned(), (unit.shows, task));
            };
        let holder = |session: &Key| listing.peers.get(session).map(|peer: &Peer| peer.holder.clone());
        for (key, unit) in listing.units.iter() {
            let Some(name) = self.env.fleet().unit_of(key) else { continue };
            let unit = (key, name, unit);
            match (targets.get(key), &unit.2.owner) {
                (Some(Ok(target)), Owner::Nobody(_)) => tell(target, unit, Task::Take, None),
                // Each waits for itself until that has lasted for a ttl.
                (Some(Ok(target)), Owner::Missing(_) | Owner::LongMissing(_)) => {
                    tell(target, unit, Task::TakeMissing, None);
                }
                (Some(Ok(target)), Owner::Worker(owner)) if target != owner => {
                    if let Some(who) = holder(owner) {
                        tell(target, unit, Task::Await(who), Some(owner));
                    }
                    if let Some(who) = holder(target) {
                        tell(owner, unit, Task::Pass(who), Some(target));
                    }
                }
                (Some(Err(why)), Owner::Worker(owner)) => tell(owner, unit, Task::Drop(*why), None),
                (None, Owner::Worker(owner)) if unit.2.spec.status != Status::Open => {
                    tell(owner, unit, Task::Close(unit.2.spec.status), None);
                }
                _ => {}
            }
        }
        (parts, sums)
    }

    /// The units that a worker has by their records.
    fn listed_of(&self, listing: &Listing, session: &Key) -> Vec<(String, Shows)> {
        let is_own = |unit: &Unit| matches!(&unit.owner, Owner::Worker(owner) if owner == session);
        let own = listing.units.iter().filter(|(_, unit)| is_own(unit));
        own.filter_map(|(key, unit)| Some((self.env.fleet().unit_of(key)?.to_owned(), unit.shows))).collect()
    }

    /// Says on the board which plan was told, once all parts are written.
    pub(super) fn mark_plan(&mut self, now: Now) {
        let first = self.env.has_bug(Bug::MarkedFirst);
        let round = self.telling.round.as_ref();
        let Some(round) = round.filter(|_| self.telling.writing.is_done() || first) else { return };
        let is_marking = self.io.in_flight.values().any(|flight| matches!(flight, InFlight::ToldPlan(_)));
        let Some(seen) =
            self.board.stored().filter(|_| !is_marking && !self.board.is_blind() && self.is_planner())
        else {
            return;
        };
        let (key, nonce) = (self.env.board_key.clone(), self.env.nonces.draw());
        let write = board::mark(key, seen, &round.mark, &round.standbys, nonce, now.wall);
        self.send(InFlight::ToldPlan(Box::new(write.clone())), Op::Write(Box::new(write)));
    }

    pub(super) fn marked(&mut self, now: Now, write: Write, result: Result<Answer, StoreError>) {
        match result {
            Ok(Answer::Write(Outcome::Won { version, .. })) => {
                // It can be written.
                self.advance_refused = None;
                let marked = board::marked(&write.record).map(|mark| mark.number);
                let round = self.telling.round.take_if(|round| Some(round.mark.number) == marked);
                self.saw_board(now, Some(Stored::new(write.record).versioned(version)));
                if let Some(round) = round {
                    self.telling.writing.take();
                    if !round.refused {
                        self.lead.unfit.told();
                    }
                    self.tell_those_who_rest(now, &round.mark, round.standbys);
                }
            }
            // Somebody else has written there: the next attempt goes by that.
            Ok(Answer::Write(Outcome::Lost(current))) => self.saw_board(now, current),
            Ok(_) => {}
            Err(error) => {
                self.tell(FleetNotice::Trouble(error));
                // Another attempt is made when a look has shown what stands there; to give the role up, once all was listed again.
                if !self.telling.is_under_way() {
                    self.list_again(now.held.after(self.env.interval()));
                }
                return;
            }
        }
        self.mark_plan(now);
    }
}

#[cfg(test)]
mod tests;
