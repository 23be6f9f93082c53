//! Telling the plan. The planner writes the parts that have changed, and then marks the board with the plan's number and the names of the
//! workers concerned. Other workers read nothing.

use super::congestion::CongestionWindow;
use super::disputes::Disputes;
use super::listed::{Owner, Peer, Unit};
use super::listing::Listing;
use super::{InFlight, Worker};
use crate::bugs::Bug;
use crate::fleet::board::{self, ToldPlan};
use crate::fleet::digest::{Digest, spread};
use crate::fleet::part::{self, Part, Shows, Task};
use crate::fleet::plan::Uncovered;
use crate::fleet::sorted::Sorted;
use crate::fleet::talk::FleetNotice;
use crate::fleet::unit::Status;
use crate::op::{Answer, Expect, Op, Outcome, Write};
use crate::values::error::{ErrorKind, StoreError};
use crate::values::fence::{Fence, Nonce};
use crate::values::key::{HolderId, Key};
use crate::values::record::{Attachment, Record, Stored};
use crate::values::time::{Now, Tick, Ttl};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A part that can't be written so often in a row is left alone until the next plan. Where the store is too busy for it, it is tried for a ttl.
const ATTEMPTS: u32 = 4;

/// What is not done is looked at again after a ttl, then after two, and so on, up to so many.
const SELDOM: u32 = 10;
/// How many workers stand by.
const STANDBYS: usize = 2;

/// What a worker was told last.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Told {
    part: Part,
    /// What was last to be written: it may be that some of it was done since, and is no part of the plan any more.
    wrote: Option<Part>,
    /// For how many plans in a row that was its part.
    times: u32,
}

/// One plan that is being told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Round {
    mark: ToldPlan,
    standbys: BTreeSet<HolderId>,
    /// Parts that are being written.
    writes: BTreeMap<Key, PartWrite>,
    /// Those of them that are still to be sent.
    unsent: VecDeque<Key>,
    /// The store did not take some of them.
    refused: bool,
}

/// A part that is being written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PartWrite {
    write: Write,
    /// How often that was tried.
    attempts: u32,
    /// Since when the store is too busy for it.
    refused_since: Option<Tick>,
}

/// What the planner knows of what it has told.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Telling {
    /// The number of the last plan that this worker has told, in whichever of its terms.
    number: u64,
    told: BTreeMap<Key, Told>,
    pub(super) disputes: Disputes,
    round: Option<Box<Round>>,
    window: CongestionWindow,
    /// How many parts have no answer yet, of whichever plan.
    under_way: usize,
}

impl Telling {
    /// Whether a plan is being told.
    pub(super) fn is_under_way(&self) -> bool {
        self.round.is_some()
    }

    /// When the next part is sent, unless one has to be answered before.
    pub(super) fn wake_at(&self) -> Option<Tick> {
        self.round.as_ref().filter(|round| !round.unsent.is_empty())?;
        self.window.wake_at(self.under_way)
    }

    /// The next part to send.
    fn next(&mut self, now: Now) -> Option<Write> {
        let round = self.round.as_mut().filter(|_| self.window.is_open(now, self.under_way))?;
        let key = round.unsent.pop_front()?;
        let write = round.writes.get(&key)?.write.clone();
        self.under_way += 1;
        Some(write)
    }

    /// This worker plans no more.
    pub(super) fn end(&mut self) {
        let Telling { number, under_way, .. } = *self;
        *self = Telling { number, under_way, window: std::mem::take(&mut self.window), ..Telling::default() };
    }
}

impl Worker {
    /// Tells the plan to those whose parts it changes.
    pub(super) fn tell_plan(
        &mut self,
        now: Now,
        listing: &Listing,
        targets: &Sorted<Result<Key, Uncovered>>,
        is_relist: bool,
        (workers, units): (usize, usize),
    ) {
        let Some(planner) = self.planner.clone().filter(|_| !self.look.blind) else { return };
        let number = self.telling.number + 1;
        let before = self.telling.round.take().map(|round| *round);
        let (unmarked, mut under_way) =
            before.map(|round| (round.mark.told, round.writes)).unwrap_or_default();
        let unmarked = unmarked.unwrap_or_default();
        if self.has_bug(Bug::UnderWayForgotten) {
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
            writes: BTreeMap::new(),
            unsent: VecDeque::new(),
            refused: false,
        };
        self.telling.told.retain(|session, _| parts.contains_key(session));
        for (session, part) in parts {
            let sum = sums.get(&session).copied().unwrap_or_default();
            let part = part.bounded(sum.token(), self.has_bug(Bug::LargePartCut));
            let Some(peer) = listing.peers.get(&session) else { continue };
            let Ok(key) = self.options.fleet.part(&peer.holder) else { continue };
            let stands = listing.parts.get(&key);
            // What was sent for an earlier plan may stand there at any time, unless this one is written.
            let contends = under_way.contains_key(&key);
            if !self.is_news(&session, &part, stands, listing, is_relist) && !contends {
                continue;
            }
            if let Some(told) = &mut round.mark.told {
                told.insert(peer.holder.clone());
            }
            let stood = stands.and_then(|stands| Part::parse(&stands.record.metadata));
            if contends || stood.as_ref() != Some(&part) {
                if let Some(told) = self.telling.told.get_mut(&session) {
                    told.wrote = Some(part.clone());
                }
                let refused_since = under_way.get(&key).and_then(|before| before.refused_since);
                let write = self.part_write(now, key.clone(), stands, &part);
                round.writes.insert(key, PartWrite { write, attempts: 0, refused_since });
            }
        }
        let undone = self.telling.told.values().filter(|told| !told.part.is_empty());
        if let Some(times) = undone.map(|told| told.times).min() {
            // Whether all is done by then shows whether all agree.
            self.list_again(now.held.after(self.part(1) * times.min(SELDOM)));
        }
        let marked = self.board.as_ref().and_then(|board| board::marked(&board.record));
        let standbys = self.board.as_ref().map(|board| board::standbys(&board.record)).unwrap_or_default();
        let is_same = |mark: &ToldPlan| {
            (mark.counts, mark.ttls, mark.rest, &standbys)
                == (round.mark.counts, round.mark.ttls, round.mark.rest, &round.standbys)
        };
        let is_told = round.mark.told.as_ref().is_some_and(BTreeSet::is_empty)
            && marked.is_some_and(|mark| is_same(&mark));
        if is_told {
            return self.lead.unfit.told();
        }
        self.telling.number = number;
        round.unsent = round.writes.keys().cloned().collect();
        self.telling.round = Some(Box::new(round));
        self.wake_telling(now);
        self.mark_plan(now);
    }

    /// Sends what parts it may.
    pub(super) fn wake_telling(&mut self, now: Now) {
        while let Some(write) = self.telling.next(now) {
            self.send(InFlight::Part(write.key.clone(), write.record.nonce), Op::Write(Box::new(write)));
        }
    }

    /// Those who are to stand by: the same as before, as long as they are there.
    fn standbys(&self, listing: &Listing) -> BTreeSet<HolderId> {
        let marked = self.board.as_ref().map(|board| board::standbys(&board.record)).unwrap_or_default();
        let stays = |(session, peer): &(&Key, &Peer)| **session != self.me && !peer.about.leaving;
        let mut peers: Vec<(&Key, &Peer)> = listing.peers.iter().filter(stays).collect();
        peers.sort_by_key(|(session, peer)| (!marked.contains(&peer.holder), spread(session)));
        peers.into_iter().take(STANDBYS).map(|(_, peer)| peer.holder.clone()).collect()
    }

    fn ttls(&self, listing: &Listing) -> (Ttl, Ttl) {
        let ttls = listing.peers.values().map(|peer| peer.ttl);
        ttls.fold((self.ttl, self.ttl), |(least, most), ttl| (least.min(ttl), most.max(ttl)))
    }

    /// What each of the others has to do, and a digest of that, however much it is.
    fn parts(
        &self,
        planner: &Attachment,
        listing: &Listing,
        targets: &Sorted<Result<Key, Uncovered>>,
    ) -> (BTreeMap<Key, Part>, BTreeMap<Key, Digest>) {
        let others = listing.peers.iter().filter(|(session, _)| **session != self.me);
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
            let Some(name) = self.options.fleet.unit_of(key) else { continue };
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
        own.filter_map(|(key, unit)| Some((self.options.fleet.unit_of(key)?.to_owned(), unit.shows)))
            .collect()
    }

    /// Whether a worker is to be told of its part: it is another one than it was told before, or nothing has come of it since. What stays
    /// undone though it was told can't be done, as where the store refuses a unit: so it is told ever more seldom.
    fn is_news(
        &mut self,
        session: &Key,
        part: &Part,
        stands: Option<&Stored>,
        listing: &Listing,
        is_relist: bool,
    ) -> bool {
        /// After so many plans it is told as often again.
        const MOST: u32 = 32;
        let stands = stands.and_then(|stands| Part::parse(&stands.record.metadata));
        let told = self.telling.told.remove(session).filter(|told| told.part.to == part.to);
        // What does not stand there did not arrive, or somebody has written something else since: nobody goes by it.
        let bugs = self.holder.bugs();
        let told = told.filter(|told| match &told.wrote {
            Some(wrote) => Some(wrote) == stands.as_ref() || bugs.has(Bug::PartNotCompared),
            // What was sent long ago may have arrived since.
            None => !stands.as_ref().is_some_and(|stands| {
                (&stands.planner, stands.to) == (&part.planner, part.to)
                    && (stands.lists.is_some() || !self.left_of(session, stands, listing).is_empty())
            }),
        });
        let is_known = told.is_some();
        let (before, times, wrote) = match told {
            Some(told) => (Some(told.part), told.times, told.wrote),
            None => (stands, 0, None),
        };
        let left = before.as_ref().filter(|before| before.to == part.to);
        let left = left.map(|before| self.left_of(session, before, listing)).unwrap_or_default();
        let is_same = is_known && before.is_some_and(|before| before == *part);
        let times = if is_same { times.saturating_add(1) } else { 1 };
        let is_news = match () {
            () if is_same && (part.is_empty() || bugs.has(Bug::ToldOnce)) => false,
            () if is_same && !bugs.has(Bug::ToldEachTime) => {
                times.is_power_of_two() || is_relist && times.is_multiple_of(MOST)
            }
            // What was told before is being done.
            () if part.tasks == left && part.lists.is_none() => !is_known && !part.is_empty(),
            () => true,
        };
        let wrote = if is_news { Some(part.clone()) } else { wrote };
        self.telling.told.insert(session.clone(), Told { part: part.clone(), wrote, times });
        is_news
    }

    /// The tasks of a part that are not done yet, as their units' records show.
    fn left_of(&self, session: &Key, part: &Part, listing: &Listing) -> BTreeMap<String, (Shows, Task)> {
        let is_left = |name: &String, shows: &Shows, task: &Task| {
            let unit = self.options.fleet.unit(name).ok();
            unit.and_then(|unit| listing.units.get(&unit)).is_some_and(|unit| {
                let has = task.takes() && matches!(&unit.owner, Owner::Worker(owner) if owner == session);
                unit.shows == *shows && !has
            })
        };
        let tasks = part.tasks.iter().filter(|(name, (shows, task))| is_left(name, shows, task));
        tasks.map(|(name, task)| (name.clone(), task.clone())).collect()
    }

    fn part_write(&mut self, now: Now, key: Key, stands: Option<&Stored>, part: &Part) -> Write {
        let fence = stands.map_or(Fence(0), |stands| stands.record.fence).max(Fence::floor(now.wall));
        let record = Record {
            fence,
            nonce: self.nonces.draw(),
            stamp: now.wall,
            tenure: None,
            metadata: part.compose(),
        };
        Write {
            key,
            expect: stands.map_or(Expect::Absent, |stands| Expect::Unchanged(stands.version)),
            record,
        }
    }

    /// A part was written, or was not.
    pub(super) fn told_part(
        &mut self,
        now: Now,
        key: &Key,
        nonce: Nonce,
        result: Result<Answer, StoreError>,
    ) {
        let is_planner = self.is_planner();
        let is_busy = result.as_ref().is_err_and(|error| self.store_is_busy(error));
        let (pause, longest) = (self.refusal_pause(), self.part(1));
        self.telling.under_way = self.telling.under_way.saturating_sub(1);
        match &result {
            Err(_) if is_busy => self.telling.window.refused(now, pause),
            // How much a store has to do that has not answered, or denies it, is unknown.
            Err(_) => {}
            Ok(_) => self.telling.window.answered(),
        }
        let Some(round) = &mut self.telling.round else { return };
        // One of an earlier plan may be answered after that of this one was sent.
        let sent = round.writes.get_mut(key).filter(|part| part.write.record.nonce == nonce);
        let Some(PartWrite { write, attempts, refused_since }) = sent else { return };
        if let Some(error) = result.as_ref().err().filter(|_| is_busy && is_planner) {
            let since = *refused_since.get_or_insert(now.held);
            if now.held.since(since) < longest {
                round.unsent.push_back(key.clone());
                return self.tell(FleetNotice::Trouble(error.clone()));
            }
        } else {
            *refused_since = None;
        }
        *attempts += 1;
        let (mut trouble, mut refused) = (None, false);
        let again = match result {
            Ok(Answer::Write(Outcome::Lost(current)))
                if current.as_ref().is_none_or(|current| current.record.nonce != write.record.nonce) =>
            {
                write.expect =
                    current.as_ref().map_or(Expect::Absent, |current| Expect::Unchanged(current.version));
                let standing = current.map_or(Fence(0), |current| current.record.fence);
                write.record.fence = write.record.fence.max(standing);
                true
            }
            Ok(_) => false,
            Err(error) => {
                let again = error.is_passing();
                // A record that nobody can write is its worker's trouble.
                refused = !matches!(error.kind(), ErrorKind::Foreign | ErrorKind::Invalid);
                trouble = Some(error);
                again
            }
        };
        // A part that was refused for so long may be refused for longer, and the others are to know of theirs.
        let once_more = again && *attempts < ATTEMPTS && is_planner && !is_busy;
        if once_more {
            round.unsent.push_front(key.clone());
        } else {
            round.writes.remove(key);
            round.refused |= refused;
        }
        if let Some(error) = trouble {
            self.tell(FleetNotice::Trouble(error));
        }
        if once_more {
            return self.wake_telling(now);
        }
        if refused && self.cannot_tell(now) {
            return;
        }
        if again || refused {
            self.telling.told.clear();
            self.list_again(now.held.after(self.interval()));
        }
        self.mark_plan(now);
    }

    /// Says on the board which plan was told, once all parts are written.
    pub(super) fn mark_plan(&mut self, now: Now) {
        let first = self.has_bug(Bug::MarkedFirst);
        let round = self.telling.round.as_ref();
        let Some(round) = round.filter(|round| round.writes.is_empty() || first) else { return };
        let is_marking = self.io.in_flight.values().any(|flight| matches!(flight, InFlight::ToldPlan(_)));
        let Some(seen) = self.board.as_ref().filter(|_| !is_marking && !self.look.blind && self.is_planner())
        else {
            return;
        };
        let (key, nonce) = (self.board_key.clone(), self.nonces.draw());
        let write = board::mark(key, seen, &round.mark, &round.standbys, nonce, now.wall);
        self.send(InFlight::ToldPlan(Box::new(write.clone())), Op::Write(Box::new(write)));
    }

    pub(super) fn marked(&mut self, now: Now, write: Write, result: Result<Answer, StoreError>) {
        match result {
            Ok(Answer::Write(Outcome::Won { version, .. })) => {
                let marked = board::marked(&write.record).map(|mark| mark.number);
                let round = self.telling.round.take_if(|round| Some(round.mark.number) == marked);
                self.saw_board(now, Some(Stored::new(write.record).versioned(version)));
                if let Some(round) = round {
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
                    self.list_again(now.held.after(self.interval()));
                }
                return;
            }
        }
        self.mark_plan(now);
    }
}

#[cfg(test)]
mod tests;
