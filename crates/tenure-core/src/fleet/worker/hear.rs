//! Hearing the plan. A worker that does not plan learns from the board that there is a new plan, and reads its own part. Of the units it
//! reads only those that it is to claim at once. A task is out of date if its unit's record shows something else by now; it is ignored.

mod reading;

use super::claims::Claim;
use super::listed::{Owner, Peer, Unit};
use super::own::Stage;
use super::{Errand, Worker};
use crate::bugs::Bug;
use crate::fleet::board::{self, Mark};
use crate::fleet::part::{Part, Shows, Task};
use crate::fleet::sorted::Sorted;
use crate::fleet::talk::{FleetNotice, Reason, Summary};
use crate::fleet::unit::{Status, UnitSpec};
use crate::holder::command::Command;
use crate::op::{Answer, Freshness, Listed, Op};
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce};
use crate::values::key::{HolderId, Key};
use crate::values::record::{Attachment, Stored};
use crate::values::time::{Now, Tick};
use reading::Reading;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// So many others are remembered in any fleet.
const STRANGERS: usize = 32;

/// What a worker knows of others' plans.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Hearing {
    /// Who made the last plan that was heard, and its number.
    heard: Option<(Attachment, u64)>,
    reading: Option<Box<Reading>>,
    /// A reading that was broken off amid units, as one read of it has failed.
    broken: Option<Box<Reading>>,
    /// When to read again what could not be read.
    retry_at: Tick,
    /// It was told to list everything itself, or its part can't be read.
    lists: bool,
    /// Until then a worker that has just begun looks often for the first plan that concerns it: so what others pass to it does not lie idle.
    expects_until: Tick,
}

impl Hearing {
    /// Whether this worker has to list everything for itself.
    pub(super) fn lists(&self) -> bool {
        self.lists
    }

    pub(super) fn begin_listing(&mut self) {
        self.lists = false;
        self.end_reading();
    }

    fn end_reading(&mut self) {
        (self.reading, self.broken) = (None, None);
    }

    /// The store does not let it: it goes by what it is told.
    pub(super) fn give_up_listing(&mut self) {
        self.lists = false;
    }

    /// The worker has begun, and is to hear of a plan.
    pub(super) fn expect(&mut self, until: Tick) {
        self.expects_until = until;
    }

    pub(super) fn expects(&self, now: Now) -> bool {
        now.held < self.expects_until
    }

    pub(super) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// It has heard this planner's plan of this number.
    #[cfg(test)]
    pub(super) fn after(planner: Attachment, number: u64) -> Hearing {
        Hearing { heard: Some((planner, number)), ..Hearing::default() }
    }
}

impl Worker {
    /// The last plan that the board tells of, unless it was heard.
    fn news(&self) -> Option<(Attachment, Mark)> {
        let mark = board::marked(&self.board.as_ref()?.record)?;
        let planner = self.planner.clone()?;
        let is_heard = self
            .hearing
            .heard
            .as_ref()
            .is_some_and(|(who, number)| *who == planner && *number >= mark.number);
        (!is_heard && !self.is_planner()).then_some((planner, mark))
    }

    /// Whether the board tells of a plan that this worker has not heard.
    pub(super) fn has_news(&self) -> bool {
        self.news().is_some()
    }

    pub(super) fn hearing_wakes(&self) -> Option<Tick> {
        if self.is_deaf() || self.hearing.is_reading() {
            return None;
        }
        let again = self.doubts.list_at.filter(|_| self.planner.is_some());
        let news = self.has_news().then_some(self.hearing.retry_at);
        news.into_iter().chain(again.map(|at| at.max(self.hearing.retry_at))).min()
    }

    /// Whether this worker goes by what it lists itself.
    fn is_deaf(&self) -> bool {
        self.session_fence().is_none() || self.is_planner() || self.look.blind || self.hearing.lists
    }

    pub(super) fn wake_hearing(&mut self, now: Now) {
        if self.is_deaf() {
            return self.hearing.end_reading();
        }
        if self.hearing_wakes().is_none_or(|at| now.held < at) {
            return;
        }
        let news = self.news();
        let mut is_news = false;
        if let Some((planner, mark)) = &news {
            self.pace.meet([mark.ttls.0, mark.ttls.1].into_iter());
            let is_next = self
                .hearing
                .heard
                .as_ref()
                .is_some_and(|(who, number)| who == planner && number + 1 == mark.number);
            let is_next = is_next || self.has_bug(Bug::MissedPlanIgnored);
            let is_many = !self.has_bug(Bug::OverflowIsNothing);
            let me = &self.holder.env.identity.holder;
            let is_told = mark.told.as_ref().map_or(is_many, |told| told.contains(me));
            is_news = is_told;
            if is_next && !is_told {
                self.hearing.heard = Some((planner.clone(), mark.number));
                self.tell_summary(&planner.session.clone(), 0);
                return;
            }
        }
        let plan = match news {
            Some((planner, mark)) => (planner, mark.number),
            // Who plans anew has not told anybody yet: what was heard last is another one's plan.
            None => match self.hearing.heard.clone().filter(|(who, _)| Some(who) == self.planner.as_ref()) {
                Some(heard) => heard,
                None => return self.doubts.list_at = None,
            },
        };
        let Ok(key) = self.options.fleet.part(&self.holder.env.identity.holder) else { return };
        self.doubts.list_at = None;
        if let Some(broken) = self.hearing.broken.take().filter(|broken| self.goes_on(now, broken, &plan)) {
            return drop(self.read_units(broken));
        }
        let reading = Reading {
            plan,
            is_news,
            began: now.held,
            part: None,
            asked: Vec::new(),
            units: VecDeque::new(),
            found: BTreeMap::new(),
            answered: now.held,
        };
        self.hearing.reading = Some(Box::new(reading));
        self.send(Errand::Hear, Op::ReadMany(vec![key], Freshness::Latest));
    }

    pub(super) fn heard(&mut self, now: Now, result: Result<Answer, StoreError>) {
        let Some(mut reading) = self.hearing.reading.take() else { return };
        let found = match result {
            Ok(Answer::Listed(found)) => found,
            Ok(_) => return,
            Err(error) => {
                self.hearing.retry_at = now.held.after(self.part(16));
                self.list_again(self.hearing.retry_at);
                // Of many reads some fail now and then: what the others have shown stands.
                self.hearing.broken = Some(reading).filter(|reading| reading.part.is_some());
                return self.tell(FleetNotice::Trouble(error));
            }
        };
        reading.answered = now.held;
        if reading.part.is_none() {
            let part = match found.into_iter().next().map(|listed| listed.stored) {
                Some(Ok(stored)) => Part::parse(&stored.record.metadata),
                Some(Err(error)) => {
                    // Nobody can tell this worker anything: it sees for itself.
                    self.tell(FleetNotice::Trouble(error));
                    self.hearing.heard = Some(reading.plan);
                    self.hearing.lists = self.may_list(now) && !self.has_bug(Bug::UnreadPartIgnored);
                    return;
                }
                None => None,
            };
            let part = self.valid_part(part, &reading.plan.0);
            if part.is_none() && self.has_bug(Bug::OldPartStands) {
                return self.hearing.heard = Some(reading.plan);
            }
            reading.is_news &= part.is_some();
            let part = part.unwrap_or_else(|| self.no_part(now, &reading.plan.0));
            // Whom the store does not let list does what it is told besides.
            if part.lists.is_some() && self.may_list(now) {
                self.hearing.heard = Some(reading.plan);
                self.hearing.lists = true;
                return;
            }
            reading.units = self.units_to_read(&part);
            reading.part = Some(part);
        } else {
            reading.found.extend(found.into_iter().map(|Listed { key, stored }| (key, stored)));
        }
        reading.asked.clear();
        let Some(reading) = self.read_units(reading) else { return };
        let Reading { plan, is_news, began, part, found, .. } = *reading;
        self.hearing.heard = Some(plan);
        if is_news {
            self.hearing.expects_until = Tick(0);
        }
        self.planned_from = began;
        if let Some(part) = part {
            let is_overtaken = self.follow_part(now, &part, found, is_news);
            if is_news && is_overtaken {
                // Somebody has done meanwhile what an earlier plan said.
                self.want_bump(now.held.after(self.interval() / 2));
            }
        }
    }

    /// A part counts if who plans now has written it, and for this very session.
    fn valid_part(&self, part: Option<Part>, planner: &Attachment) -> Option<Part> {
        let obeys = self.has_bug(Bug::DeposedPlannerObeyed);
        let any = self.has_bug(Bug::AnySessionsPart);
        part.filter(|part| {
            (any || Some(part.to) == self.session_fence()) && (obeys || part.planner == *planner)
        })
    }

    /// There is no part for this worker, and so nothing to do, whatever an earlier planner has told it. If there was to be one, somebody
    /// has written or deleted something there: who plans is told.
    fn no_part(&mut self, now: Now, planner: &Attachment) -> Part {
        let named = self.news().and_then(|(_, mark)| mark.told);
        if named.is_some_and(|told| told.contains(&self.holder.env.identity.holder)) {
            self.want_bump(now.held.after(self.interval() / 2));
        }
        Part::new(planner.clone(), self.session_fence().unwrap_or(Fence(0)))
    }

    /// Sets to work on this worker's part of a plan. Whether a unit that it should have is another's by now.
    fn follow_part(
        &mut self,
        now: Now,
        part: &Part,
        found: BTreeMap<Key, Result<Stored, StoreError>>,
        is_news: bool,
    ) -> bool {
        for (holder, (fence, ttl)) in &part.peers {
            let Ok(session) = self.options.fleet.worker(holder) else { continue };
            let known = self.peers.get(&session).filter(|peer| peer.fence == *fence).cloned();
            let peer = known.unwrap_or_else(|| Peer::new(holder.clone(), *fence, *ttl));
            self.peers.insert(session, peer);
        }
        self.forget_strangers(part);
        let mut tasks: BTreeMap<Key, (Shows, Task)> = BTreeMap::new();
        for (name, task) in &part.tasks {
            if let Ok(unit) = self.options.fleet.unit(name) {
                tasks.insert(unit, task.clone());
            }
        }
        let found: BTreeMap<Key, Stored> =
            found.into_iter().filter_map(|(key, stored)| Some((key, stored.ok()?))).collect();
        self.revise_resting(now, &found);
        self.revise_told(&tasks);
        let awaited = std::mem::take(&mut self.awaited);
        let mut free = VecDeque::new();
        let (mut missing, mut doubtful, mut overtaken) = (Sorted::default(), Vec::new(), BTreeSet::new());
        for (unit, (shows, task)) in &tasks {
            if let Some(own) = self.own.get(unit) {
                if task.takes() && matches!(own.stage, Stage::Held | Stage::Draining) {
                    // By its record it is another's.
                    doubtful.push(own.lease);
                }
                continue;
            }
            let Some(stored) = found.get(unit) else { continue };
            let Ok((spec, _)) = UnitSpec::parse(stored.record.metadata.clone()) else { continue };
            if spec.status != Status::Open && !self.has_bug(Bug::DeletedTaken) {
                continue;
            }
            let claim = |seen| Claim { key: unit.clone(), seen, target: Some(self.me.clone()) };
            let is_due = Shows::of(&stored.record) == *shows || self.has_bug(Bug::StateIgnored);
            let is_vacant = stored.record.tenure.is_none();
            // Somebody has written it since it was planned, as whoever keeps its weight does: the claim is conditional on what it shows now.
            let is_open = is_news && is_vacant && self.may_have(unit, &spec);
            let seen = stored.clone().into();
            match task {
                // To be had even if only to be passed on.
                Task::Pass(who) if self.is_attached_here(stored) => {
                    free.push_back(Claim { target: self.options.fleet.worker(who).ok(), ..claim(None) });
                }
                _ if self.is_attached_here(stored) => free.push_back(claim(None)),
                Task::Await(_) if is_vacant => free.push_back(claim(Some(seen))),
                Task::Await(_) if is_due && !self.has_bug(Bug::AwaitedForgotten) => {
                    self.awaited.insert(unit.clone());
                }
                Task::Take if is_due || is_open => free.push_back(claim(Some(seen))),
                Task::TakeMissing if is_due => {
                    let (owner, shows) = (Owner::Missing(seen), *shows);
                    missing.insert(unit.clone(), Unit { spec: spec.into(), owner, held: None, shows });
                }
                _ if !is_due && task.takes() => {
                    overtaken.insert(unit.clone());
                }
                _ => {}
            }
        }
        for unit in awaited.iter().filter(|unit| !tasks.contains_key(*unit) && !self.own.contains_key(*unit))
        {
            // It came before this plan was made.
            if found.get(unit).is_some_and(|stored| self.is_attached_here(stored)) {
                free.push_back(Claim { key: unit.clone(), seen: None, target: Some(self.me.clone()) });
            }
        }
        if !self.has_bug(Bug::ForeignTenureIgnored) {
            doubtful.into_iter().for_each(|lease| self.order(now, Command::Examine(lease)));
        }
        self.settle_missing(now, &mut missing);
        for (key, unit) in missing {
            if let Owner::LongMissing(stored) = unit.owner {
                free.push_back(Claim { key, seen: Some(stored), target: Some(self.me.clone()) });
            }
        }
        let planned =
            |unit: &Key| tasks.get(unit).is_some_and(|(_, task)| task.takes()) && !overtaken.contains(unit);
        // What is planned for others is known to who plans.
        self.doubt_hinted(planned);
        self.doubts.keep(planned, |_| true);
        self.doubts.keep_refused(planned);
        if !self.awaited.is_subset(&awaited) {
            self.awaited_from = now.held;
        }
        let incoming = self.awaited.len() + free.len();
        self.claims.plan(free);
        self.drain_what_goes(now);
        self.tell_summary(&part.planner.session, incoming);
        self.wake_claims(now);
        if !self.awaited.is_empty() {
            self.look_now(now);
        }
        !overtaken.is_empty()
    }

    /// Whether this worker wants a unit, has all that it needs and room for its weight, and it is pinned to nobody else.
    fn may_have(&self, unit: &Key, spec: &UnitSpec) -> bool {
        let (me, about) = (&self.holder.env.identity.holder, &self.options.about);
        let wants = self.options.fleet.unit_of(unit).is_none_or(|name| !about.declines.contains(name));
        let has = self.own.values().map(|own| own.spec.weight.max(1)).fold(0, u64::saturating_add);
        let has_room = has.saturating_add(spec.weight.max(1)) <= about.weight;
        let may = spec.pin.as_ref().is_none_or(|pin| pin == me) && spec.needs.is_subset(&about.labels);
        wants && has_room && may
    }

    /// Parts name others all the time, and who does not list hears of no end of them. Once these are more than the workers that there are, those stay
    /// that this worker has something to do with.
    fn forget_strangers(&mut self, part: &Part) {
        let mark = self.board.as_ref().and_then(|board| board::marked(&board.record));
        let workers = mark.map_or(0, |mark| usize::try_from(mark.counts.0).unwrap_or(usize::MAX));
        if self.is_watcher() || self.peers.len() <= workers.max(STRANGERS) {
            return;
        }
        let named = part.peers.keys().filter_map(|who| self.options.fleet.worker(who).ok());
        let near = self.own.values().filter_map(|own| own.transferee.clone());
        let kept: BTreeSet<Key> = named.chain(near).collect();
        self.peers.retain(|session, _| kept.contains(session));
    }

    fn is_attached_here(&self, stored: &Stored) -> bool {
        let attachment = stored.record.tenure.as_ref().and_then(|tenure| tenure.attachment.as_ref());
        attachment.is_some_and(|attachment| {
            attachment.session == self.me && Some(attachment.fence) == self.session_fence()
        })
    }

    /// Notes who is to have each of the own units, and which of them have to go.
    fn revise_told(&mut self, tasks: &BTreeMap<Key, (Shows, Task)>) {
        let any = self.has_bug(Bug::StateIgnored);
        for (unit, own) in self.own.iter_mut() {
            if matches!(own.goes, Some(Reason::Asked | Reason::Revoked)) {
                continue;
            }
            let shows = own.tenure.map(Shows::of_tenure);
            let task = tasks.get(unit).filter(|(planned_for, _)| any || shows == Some(*planned_for));
            let task = task.map(|(_, task)| task);
            let session = |who: &HolderId| self.options.fleet.worker(who).ok();
            (own.transferee, own.goes) = match task {
                Some(Task::Pass(who)) if self.leaving => (session(who), Some(Reason::Leaving)),
                Some(Task::Pass(who)) => (session(who), Some(Reason::Moved(who.clone()))),
                Some(Task::Close(status)) => (None, Some(Reason::Closed(*status))),
                Some(Task::Drop(_)) if self.leaving => (None, Some(Reason::Leaving)),
                Some(Task::Drop(why)) => (None, Some(Reason::Uncovered(*why))),
                Some(Task::Take | Task::TakeMissing | Task::Await(_)) | None => (Some(self.me.clone()), None),
            };
        }
    }

    /// How units that rest here failed last may have been changed by somebody.
    fn revise_resting(&mut self, now: Now, found: &BTreeMap<Key, Stored>) {
        for unit in self.retries.resting().cloned().collect::<Vec<_>>() {
            let (Some(own), Some(stored)) = (self.own.get_mut(&unit), found.get(&unit)) else { continue };
            if own.since < self.planned_from
                && let Ok((spec, _)) = UnitSpec::parse(stored.record.metadata.clone())
            {
                own.spec = spec;
            }
        }
        self.revise_retry(now);
    }

    /// What the last plan came to for this worker.
    fn tell_summary(&mut self, planner: &Key, incoming: usize) {
        let counts =
            self.board.as_ref().and_then(|board| board::marked(&board.record)).map(|mark| mark.counts);
        let (workers, units) = counts.unwrap_or_default();
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let held = self.own.values().filter(|own| own.stage != Stage::Going);
        let outgoing = self.own.values().filter(|own| own.stage == Stage::Held && own.goes.is_some()).count();
        let incoming = incoming.max(self.awaited.len());
        let summary = Summary {
            generation: board::generation(self.board.as_ref()),
            planner: Some(planner.clone()),
            workers: count(workers),
            units: count(units),
            planned: (held.count() + incoming).saturating_sub(outgoing),
            outgoing,
            incoming,
            ..Summary::default()
        };
        self.tell(FleetNotice::Planned(Box::new(summary)));
    }
}

impl Peer {
    /// One of whom no more is known than a plan says.
    fn new(holder: HolderId, fence: Fence, ttl: crate::values::time::Ttl) -> Peer {
        let about = crate::fleet::about::About::default();
        let heartbeat = Nonce(0);
        Peer { holder, fence, ttl, about, has: None, heartbeat, planned: 0, letters: true, attested: false }
    }
}

#[cfg(test)]
mod tests;
