//! Acting on the plan for this worker's units. It claims free units planned for it, waits for units that another worker still has, and
//! drains and passes on units planned for others.

use super::Worker;
use super::asked::Asked;
use super::claims::Claim;
use super::listed::{Owner, Peer, Unit};
use super::own::{Own, Stage};
use crate::bugs::Bug;
use crate::fleet::plan::Uncovered;
use crate::fleet::sorted::Sorted;
use crate::fleet::talk::{FleetNotice, Reason, RequestId, Summary, Taken};
use crate::fleet::unit::{Status, UnitSpec};
use crate::holder::acquisition::{MetadataPolicy, WaitPolicy};
use crate::holder::command::{Command, KeepAlive, Want};
use crate::holder::lease_id::LeaseId;
use crate::holder::renewal::Loss;
use crate::holder::update::Transferee;
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::key::{HolderId, Key};
use crate::values::metadata::Metadata;
use crate::values::record::{Attachment, Stored};
use crate::values::time::{Now, Tick};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

type Target = Result<Key, Uncovered>;

impl Worker {
    /// Sets to work on a new plan.
    pub(super) fn follow_plan(
        &mut self,
        now: Now,
        units: Sorted<Unit>,
        targets: Sorted<Target>,
        mut summary: Summary,
    ) {
        let awaited = std::mem::take(&mut self.awaited);
        let damaged = summary.damaged.iter().map(|(key, _)| key.clone()).collect();
        self.examine_own(now, &units, &damaged);
        self.revise_own(&units, &targets, &damaged);
        self.revise_retry(now);
        let me = self.me.clone();
        let planned = |unit: &Key| targets.get(unit).is_some_and(|target| target.as_ref() == Ok(&me));
        let at_rest = |unit: &Key| match (units.get(unit), targets.get(unit)) {
            (Some(Unit { owner: Owner::Worker(session), .. }), Some(Ok(target))) => session == target,
            (Some(Unit { owner: Owner::Outsider | Owner::Behind(_), .. }), _) => true,
            (Some(_), Some(Ok(_))) => false,
            _ => true,
        };
        self.doubt_hinted(planned);
        self.doubts.keep(planned, at_rest);
        self.doubts.keep_refused(|unit| match units.get(unit).map(|unit| &unit.owner) {
            Some(Owner::Worker(session)) => *session == me,
            found => found.is_some(),
        });
        summary.outgoing = self.drain_what_goes(now);
        let (mut free, mut missing) = (VecDeque::new(), 0);
        for (key, unit) in units {
            let target = targets.get(&key).and_then(|target| target.as_ref().ok());
            let mine = target == Some(&self.me);
            match unit.owner {
                _ if self.own.contains_key(&key) => {}
                Owner::Nobody(stored) | Owner::LongMissing(stored) if mine => {
                    free.push_back(Claim { key, seen: Some(stored), target: target.cloned() });
                }
                Owner::Missing(_) if mine => missing += 1,
                Owner::Missing(_) | Owner::LongMissing(_) | Owner::Nobody(_) => {}
                // Passed on to us, or claimed and forgotten: to be had even if only to be passed on.
                Owner::Worker(session) if session == self.me => {
                    free.push_back(Claim { key, seen: None, target: target.cloned() });
                }
                Owner::Worker(_) if self.has_bug(Bug::AwaitedForgotten) => {}
                Owner::Worker(_) if mine => drop(self.awaited.insert(key)),
                Owner::Worker(_) | Owner::Outsider | Owner::Behind(_) => {}
            }
        }
        if !self.awaited.is_subset(&awaited) {
            self.awaited_from = now.held;
        }
        summary.incoming = self.awaited.len() + free.len() + missing;
        self.tell(FleetNotice::Planned(Box::new(summary)));
        self.claims.plan(free);
        self.wake_claims(now);
        if !self.awaited.is_empty() {
            self.look_now(now);
        }
    }

    /// How many units have to go, as soon as those who are to have them could hear of it, so that nothing lies idle.
    pub(super) fn drain_what_goes(&mut self, now: Now) -> usize {
        let goes = self.own.values().filter(|own| own.stage == Stage::Held && own.goes.is_some()).count();
        if goes > 0 && self.drain_at.is_none() {
            // Without a push the others hear of it only when they next look. All that a leaver has goes, so it is worth the wait.
            let hear = self.leaving && !self.options.push;
            let heard = if hear { self.heard_within() } else { Duration::ZERO };
            self.drain_at = Some(now.held.after(heard + self.part(16)));
        }
        goes
    }

    /// Has each own unit looked at whose record does not show it: somebody has taken it behind the protocol's back, or it was
    /// claimed after that page of the listing.
    fn examine_own(&mut self, now: Now, units: &Sorted<Unit>, damaged: &BTreeSet<Key>) {
        if self.has_bug(Bug::ForeignTenureIgnored) {
            return;
        }
        let doubtful = |(key, own): (&Key, &Own)| {
            let shown = units.get(key).and_then(|unit| unit.held).map(Into::into);
            let held = self.holder.tenure_of(own.lease).filter(|_| own.stage != Stage::Acquiring);
            (held.is_some() && held != shown && !damaged.contains(key)).then_some(own.lease)
        };
        for lease in self.own.iter().filter_map(doubtful).collect::<Vec<_>>() {
            self.order(now, Command::Examine(lease));
        }
    }

    /// Notes who is to have each of the own units, and which of them have to go.
    fn revise_own(&mut self, units: &Sorted<Unit>, targets: &Sorted<Target>, damaged: &BTreeSet<Key>) {
        for (key, own) in self.own.iter_mut() {
            let unit = units.get(key);
            if let Some(unit) = unit {
                // How it failed last may have been written after it was listed.
                let retry = if own.since < self.planned_from { unit.spec.retry } else { own.spec.retry };
                own.spec = UnitSpec { retry, ..(*unit.spec).clone() };
            }
            // What can't be read can't be had by anybody else either, so it may as well go on here.
            let unread = if damaged.contains(key) { own.spec.status } else { Status::Deleted };
            let closed = unit.map_or(unread, |unit| unit.spec.status);
            if matches!(own.goes, Some(Reason::Asked | Reason::Revoked)) {
                continue;
            }
            own.transferee = targets.get(key).and_then(|target| target.as_ref().ok()).cloned();
            own.goes = match (targets.get(key), &own.transferee) {
                _ if closed != Status::Open => Some(Reason::Closed(closed)),
                (_, Some(session)) if *session == self.me => None,
                _ if self.leaving => Some(Reason::Leaving),
                (_, Some(session)) => self.peers.get(session).map(|peer| Reason::Moved(peer.holder.clone())),
                (Some(Err(why)), None) => Some(Reason::Uncovered(*why)),
                (_, None) => None,
            };
        }
    }

    /// The drains that are due. The plan they come from must still be the newest: a unit that is passed on by an old one comes
    /// to somebody who does not expect it.
    pub(super) fn wake_drains(&mut self, now: Now) {
        let Some(at) = self.drains_from().filter(|at| now.held >= *at) else { return };
        if !std::mem::replace(&mut self.drain_due, true) {
            self.look_now(now);
        }
        // Whoever is to have what the planner passes on has been told to wait for it: nobody tells a worker of what it does not wait for.
        if self.is_planner() && self.telling.is_under_way() && now.held < at.after(self.part(1)) {
            return;
        }
        // Where something changes all the time, it is enough that the plan was made since.
        let is_stale =
            if self.is_planner() { self.is_behind() } else { self.has_news() || self.hearing.is_reading() };
        let is_newest = self.look.seen_from >= at && !is_stale && self.listing.is_none();
        if !is_newest && self.planned_from < at {
            return;
        }
        self.drain_at = None;
        self.drain_due = false;
        let goes =
            |own: &Own| own.goes.clone().filter(|_| own.stage == Stage::Held).map(|why| (own.lease, why));
        for (lease, reason) in self.own.values().filter_map(goes).collect::<Vec<_>>() {
            self.drain(now, lease, reason);
        }
    }

    /// When the next drains are due. A worker that leaves has told the others before.
    fn drains_from(&self) -> Option<Tick> {
        let at = self.drain_at?;
        if self.leaving { self.leave_from.map(|from| from.max(at)) } else { Some(at) }
    }

    pub(super) fn drains_at(&self) -> Option<Tick> {
        // Once they are due, it is a look that is waited for.
        self.drains_from().filter(|_| !self.drain_due)
    }

    /// Claims a unit that should be free for this worker, or held by nobody else who lives.
    pub(super) fn try_unit(&mut self, now: Now, key: Key, seen: Option<Box<Stored>>) {
        if self.own.contains_key(&key) || self.is_stopping() {
            return;
        }
        self.awaited.remove(&key);
        let lease = self.new_lease();
        let own = Own {
            lease,
            stage: Stage::Acquiring,
            fence: Fence(0),
            tenure: None,
            spec: UnitSpec::default(),
            asked: Asked::default(),
            transferee: Some(self.me.clone()),
            chosen: false,
            given: false,
            how: match seen.as_ref().map(|seen| &seen.record.tenure) {
                None => Taken::Passed,
                Some(None) => Taken::Vacant,
                Some(Some(_)) => Taken::Gone,
            },
            hinted: false,
            letter: false,
            goes: None,
            told: false,
            since: now.held,
        };
        self.own.insert(key.clone(), own);
        self.units.insert(lease, key.clone());
        self.claims.begun(lease);
        let (keep_alive, metadata_policy) = (KeepAlive::Session, MetadataPolicy::Keep(seen));
        self.order(
            now,
            Command::Acquire(lease, Want { key, keep_alive, metadata_policy, wait_policy: WaitPolicy::Try }),
        );
    }

    pub(super) fn saw_awaited(&mut self, now: Now, key: Key, stored: Stored) {
        let waits = match stored.record.tenure.as_ref().map(|tenure| &tenure.attachment) {
            None => false,
            Some(None) => true,
            Some(Some(_)) if self.has_bug(Bug::DeadTransfereeTrusted) => true,
            Some(Some(attachment)) => {
                self.peers.get(&attachment.session).is_some_and(|peer| peer.fence == attachment.fence)
            }
        };
        match UnitSpec::parse(stored.record.metadata.clone()) {
            Ok((spec, _)) if spec.status != Status::Open => drop(self.awaited.remove(&key)),
            Ok(_) if !waits => self.try_unit(now, key, Some(Box::new(stored))),
            Ok(_) | Err(_) => {}
        }
    }

    pub(super) fn acquired(&mut self, now: Now, lease: LeaseId, fence: Fence, metadata: Metadata) {
        self.claims.ended(lease);
        let Some((key, _)) = self.own_of(lease) else { return };
        let parsed = UnitSpec::parse(metadata);
        let Ok((spec, _)) = parsed else { return self.give_away(now, lease) };
        self.doubts.settle(&key);
        let tenure = self.holder.tenure_of(lease).map(|(id, _)| id);
        let Some((_, own)) = self.own_of(lease) else { return };
        (own.fence, own.tenure) = (fence, tenure);
        own.spec = spec;
        own.stage = Stage::Held;
        let (given, by_letter, goes) = (own.given, own.letter, own.goes.is_some());
        let stays = own.spec.status == Status::Open && own.transferee.is_some() && !self.leaving;
        // Whoever passes it on may not know how much this worker has by now.
        let is_full = by_letter && self.held() as u64 > self.options.about.units;
        let stays = stays && !is_full && (given || self.transferee(lease).is_none());
        if stays || self.has_bug(Bug::DeletedTaken) {
            if goes && self.drain_at.is_none() {
                self.drain_at = Some(now.held.after(self.part(16)));
            }
            self.assign(now, lease);
        } else {
            // Nothing has been done for it yet, so there is nothing to end.
            self.give_away(now, lease);
        }
    }

    pub(super) fn vanished(&mut self, lease: LeaseId) {
        if let Some(key) = self.forget(lease) {
            self.doubts.settle(&key);
        }
    }

    pub(super) fn failed(&mut self, now: Now, lease: LeaseId, error: StoreError) {
        let Some((_, own)) = self.own_of(lease) else { return };
        if own.stage == Stage::Acquiring {
            let lasts = !error.is_passing() && !self.has_bug(Bug::RefusalIsMiss);
            self.tell(FleetNotice::Trouble(error));
            if lasts {
                self.refused(now, lease);
            } else {
                self.missed(now, lease);
            }
        } else {
            self.not_updated(now, lease, &error);
        }
    }

    /// Somebody else has a unit that was to be claimed.
    pub(super) fn occupied(&mut self, now: Now, lease: LeaseId) {
        if self.own_of(lease).is_some_and(|(_, own)| own.letter) {
            // It went on before the letter was read: whoever has it knows that.
            self.forget(lease);
        } else {
            self.missed(now, lease);
        }
    }

    pub(super) fn lost(&mut self, now: Now, lease: LeaseId, loss: Loss) {
        let Some((key, own)) = self.own_of(lease) else { return };
        let asker = own.asked.end;
        let (told, held) = (own.told, asker.is_none() && matches!(own.stage, Stage::Held | Stage::Draining));
        self.await_vacancy(lease);
        self.forget(lease);
        match (told, held) {
            (true, true) => self.tell(FleetNotice::Lost(lease, loss)),
            (true, false) => self.tell(FleetNotice::Released(lease, asker, false)),
            (false, _) => {}
        }
        self.given_again(now, key);
        self.want_bump(now.held);
        // What was planned for this worker before may be so again.
        self.list_again(now.held);
    }

    pub(super) fn released(&mut self, now: Now, lease: LeaseId, ours: bool) {
        let Some((key, own)) = self.own_of(lease) else { return };
        let (told, is_done) = (own.told, own.spec.status == Status::Done);
        let (transferee, chosen, asker) = (own.transferee.take(), own.chosen, own.asked.end);
        let told_by_letter = self.retries.passed(&key).filter(|_| ours);
        if transferee.as_ref().is_none_or(|transferee| *transferee == self.me) {
            self.await_vacancy(lease);
        }
        self.forget(lease);
        if told {
            self.tell(FleetNotice::Released(lease, asker, ours));
        }
        self.given_again(now, key.clone());
        if let Some(session) = told_by_letter {
            return self.tell_of_unit(now, key, session);
        }
        // The others are told once it is so: before that, they would find nothing.
        if is_done {
            // Many units may be finished at about the same time: the others need to hear of it once.
            self.want_bump(now.held.after(self.interval()));
        } else if transferee.is_none_or(|transferee| transferee == self.me) {
            self.want_bump(now.held.after(self.interval() / 2));
        } else if chosen {
            // No plan tells its transferee to expect it.
            self.want_bump(now.held);
        } else if !self.has_bug(Bug::AwaitedForgotten) {
            // All look once more whether what was passed on has arrived: at once when that was the last for now.
            let goes = |own: &Own| matches!(own.stage, Stage::Draining | Stage::Going);
            let parts = if self.own.values().any(goes) { 1 } else { 4 };
            self.want_bump(now.held.after(self.interval() / parts));
        }
    }

    /// It is over for its users, and its record may still show it. Nobody else waits for it.
    fn await_vacancy(&mut self, lease: LeaseId) {
        if self.holder.is_given_up(lease) {
            self.lapsing.insert(lease);
        }
    }

    /// What was withdrawn or could not be ended is vacated after its time. A plan that was made before that left it here.
    pub(super) fn tell_vacated(&mut self, now: Now) {
        let (before, holder) = (self.lapsing.len(), &self.holder);
        self.lapsing.retain(|lease| holder.is_given_up(*lease));
        if self.lapsing.len() < before && !self.has_bug(Bug::LapseUntold) {
            self.want_bump(now.held);
        }
    }

    pub(super) fn asked(&mut self, now: Now, lease: LeaseId, reason: Reason) {
        let Some((_, own)) = self.own_of(lease) else { return };
        let is_held = own.stage == Stage::Held;
        if is_held || own.stage == Stage::Draining {
            // No plan has it stay from now on: what was withdrawn has its own deadline, also where it drains already.
            own.transferee = None;
            own.goes = Some(reason.clone());
        }
        if is_held {
            self.drain(now, lease, reason);
        }
    }

    fn drain(&mut self, now: Now, lease: LeaseId, reason: Reason) {
        let until = now.held.after(self.options.drain);
        if self.own_of(lease).is_some_and(|(_, own)| own.asked.end.is_some()) {
            // What was done for it has ended.
            return;
        }
        if self.own_of(lease).is_some_and(|(_, own)| !own.told) {
            // It rests: nothing is done for it.
            return self.give_away(now, lease);
        }
        if let Some((_, own)) = self.own_of(lease) {
            own.stage = Stage::Draining;
            self.drained_from = now.held;
            self.tell(FleetNotice::Draining(lease, reason, until));
        }
        if self.has_bug(Bug::DrainNotAwaited) {
            self.give_away(now, lease);
        }
    }

    /// What was done for it has ended.
    pub(super) fn drained(&mut self, now: Now, lease: LeaseId) {
        let me = self.me.clone();
        let leaving = self.leaving;
        let Some((_, own)) = self.own_of(lease) else {
            return self.tell(FleetNotice::Released(lease, None, false));
        };
        match own.stage {
            Stage::Draining if own.transferee.as_ref() == Some(&me) && !leaving => {
                // The plan has changed its mind.
                own.stage = Stage::Held;
                self.begin_work(now, lease);
            }
            Stage::Held | Stage::Draining => self.give_away(now, lease),
            Stage::Acquiring | Stage::Going => {}
        }
    }

    /// Passes it to whom it is planned for, or to nobody.
    pub(super) fn give_away(&mut self, now: Now, lease: LeaseId) {
        self.pass_on(now, lease, Metadata::new());
    }

    /// The same, with these names in the reserved field of its record.
    pub(super) fn pass_on(&mut self, now: Now, lease: LeaseId, own: Metadata) {
        let transferee = self.transferee(lease);
        self.going(lease);
        match transferee {
            Some(transferee) => self.order(now, Command::Pass(lease, Box::new(transferee), own)),
            None if own.is_empty() => self.order(now, Command::Release(lease, None)),
            None => self.order(now, Command::ReleaseNoted(lease, own)),
        }
    }

    /// Who else is to have it.
    fn transferee(&self, lease: LeaseId) -> Option<Transferee> {
        let own = self.own.get(self.units.get(&lease)?)?;
        let session = own.transferee.as_ref().filter(|session| **session != self.me)?;
        self.peers.get(session).filter(|peer| !peer.about.leaving).map(|peer| transferee_of(session, peer))
    }

    /// Hands it to a worker that is on the roster, once that was listed.
    pub(super) fn hand_to(&mut self, now: Now, lease: LeaseId, request: RequestId, to: &HolderId) {
        let session = self.peers.iter().find(|(_, peer)| peer.holder == *to && !peer.about.leaving);
        let session = session.map(|(session, _)| session.clone());
        match (self.own_of(lease), session) {
            (Some((_, own)), session @ Some(_)) => {
                own.transferee = session;
                own.chosen = true;
                self.give_away(now, lease);
            }
            (Some((_, own)), None) => {
                own.asked.end = None;
                let text = format!("there is no worker {to} in the fleet; see its roster");
                self.tell(FleetNotice::Failed(lease, request, StoreError::invalid(text)));
            }
            (None, _) => {}
        }
    }

    pub(super) fn going(&mut self, lease: LeaseId) {
        if let Some((_, own)) = self.own_of(lease) {
            own.stage = Stage::Going;
        }
    }

    pub(super) fn own_of(&mut self, lease: LeaseId) -> Option<(Key, &mut Own)> {
        let key = self.units.get(&lease)?.clone();
        let own = self.own.get_mut(&key)?;
        Some((key, own))
    }

    pub(super) fn forget(&mut self, lease: LeaseId) -> Option<Key> {
        self.claims.ended(lease);
        let key = self.units.remove(&lease)?;
        self.choices.retain(|choice| choice.lease != lease);
        self.own.remove(&key);
        self.retries.forget(&key);
        Some(key)
    }
}

fn transferee_of(session: &Key, peer: &Peer) -> Transferee {
    let attachment = Attachment { session: session.clone(), fence: peer.fence };
    Transferee { holder: peer.holder.clone(), attachment, ttl: peer.ttl }
}

#[cfg(test)]
mod tests;
