//! Units that their workers give up without success. One worker after the other tries them, ever more seldom.
//!
//! The number of failures in a row is in the unit's record ([`Retry`]), which outlives its writers. At first such a unit
//! goes from worker to worker at once, in the order of their sessions, so that a worker that can do it has it soon. Then it rests where
//! it is, is tried there, goes on to the next worker, and rests there for twice as long. Only two workers know of it: the one that passes it
//! on, and the next one, which gets a letter. No worker lists anything.

use super::FleetWorker;
use super::asked::Asked;
use super::listed::Peer;
use super::own::Stage;
use crate::bugs::Bug;
use crate::fleet::talk::{FleetNotice, Taken};
use crate::fleet::unit::{Retry, Status, UnitSpec};
use crate::holder::command::Command;
use crate::holder::lease_id::LeaseId;
use crate::values::key::Key;
use crate::values::time::{Now, Tick};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// So many workers at the most are tried at once, before the unit rests for the first time.
const QUICK: usize = 8;
/// The longest rest is two to this power of ttls, and the first one is a ttl.
const DOUBLED: u32 = 5;
/// A unit that was worked on for so many ttls does not fail any more.
const FORGOTTEN: u32 = 4;

/// What this worker has to do with units that fail.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Retries {
    /// Units that rest here, until when.
    rests: BTreeMap<Key, Tick>,
    /// Units whose rest is to be written into their records, and whether that is under way.
    notes: BTreeMap<Key, (Retry, bool)>,
    /// Units that are worked on here and failed before: when that is to be forgotten.
    forgets: BTreeMap<Key, Tick>,
    /// Units that are being passed on, to the worker with this session, who is to be told by a letter.
    passed: BTreeMap<Key, Key>,
    /// Units that were passed on to this worker before it knew what had become of its own giving up.
    again: BTreeSet<Key>,
}

impl Retries {
    /// Units that rest here.
    pub(super) fn resting(&self) -> impl Iterator<Item = &Key> {
        self.rests.keys()
    }

    pub(super) fn forget(&mut self, unit: &Key) {
        self.passed.remove(unit);
        self.rests.remove(unit);
        self.notes.remove(unit);
        self.forgets.remove(unit);
    }

    /// Who is to be told that the unit was passed on.
    pub(super) fn passed(&mut self, unit: &Key) -> Option<Key> {
        self.passed.remove(unit)
    }

    fn wake_at(&self, is_valid: bool) -> Option<Tick> {
        let rests = self.rests.values().filter(|_| is_valid);
        rests.chain(self.forgets.values()).copied().min()
    }
}

/// How many ttls a unit rests that has failed so often in a row, where so many workers may have it; none: the next one has it. Whether it has rested since the
/// failure before, its record tells. The number does not, since workers may know of more or fewer others.
fn rest(failures: u32, workers: usize, has_rested: bool) -> Option<u32> {
    let quick = u32::try_from(workers.min(QUICK)).unwrap_or(1);
    let later = failures.checked_sub(quick)?;
    (!has_rested || workers == 1).then(|| 1 << (later / 2).min(DOUBLED))
}

/// Whether a unit may rest under the tenure that it has. Its next body here has the same fence then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MayStay {
    Yes,
    No,
}

impl FleetWorker {
    /// The unit's body has ended without success: another worker has a go, or this one does after a while.
    pub(super) fn decline(&mut self, now: Now, lease: LeaseId, may_stay: MayStay) {
        let forgotten = self.env.ttl.duration() * FORGOTTEN;
        let Some((key, own)) = self.own_of(lease) else { return };
        let spec = own.spec.clone();
        let before = spec.retry.filter(|_| spec.fails() && now.held.since(own.since) < forgotten);
        let failures = before.map_or(0, |retry| retry.failures).saturating_add(1);
        if spec.status != Status::Open {
            return self.give_away(now, lease);
        }
        let next = self.next_in_turn(&key, &spec);
        let has_rested = before.is_some_and(|retry| !retry.rest.is_zero());
        let rests = rest(failures, next.len() + 1, has_rested).filter(|_| !self.life.leaving);
        let rest = rests.map_or(Duration::ZERO, |ttls| self.env.ttl.duration() * ttls);
        let retry = Retry { failures, since: now.wall, rest };
        self.retries.forgets.remove(&key);
        self.going(lease);
        if let Some((_, own)) = self.own_of(lease) {
            own.spec.retry = Some(retry);
        }
        if before.is_none() {
            self.tell_evenness(now);
        }
        if rests.is_some() && may_stay == MayStay::Yes {
            self.retries.notes.insert(key, (retry, false));
            return self.write_note(now, lease);
        }
        // What has to rest and may not stay rests with the next one, by what its record says.
        let transferee = next.into_iter().next();
        let letter = transferee
            .as_ref()
            .and_then(|transferee| self.roster.get(transferee))
            .is_some_and(|peer| peer.letters);
        let letter = letter && !self.env.has_bug(Bug::DeclineTellsAll);
        if let Some((_, own)) = self.own_of(lease) {
            (own.transferee, own.chosen) = (transferee.clone(), true);
        }
        if let Some(transferee) = transferee.filter(|_| letter) {
            self.retries.passed.insert(key, transferee);
        }
        self.pass_on(now, lease, UnitSpec::retry_field(retry));
    }

    /// The others who may have a unit, in the order of their turns. One that is pinned to this worker is nobody else's.
    fn next_in_turn(&self, unit: &Key, spec: &UnitSpec) -> Vec<Key> {
        if spec.pin.as_ref() == Some(&self.env.id) {
            return Vec::new();
        }
        let name = self.env.fleet().unit_of(unit);
        let fits = |peer: &Peer| {
            let about = &peer.about;
            let wants = name.is_none_or(|name| !about.declines.contains(name));
            let has_room = peer.planned < about.units && spec.weight <= about.weight;
            wants && !about.leaving && has_room && spec.needs.is_subset(&about.labels)
        };
        let all = self.roster.in_turn(&self.env);
        all.filter(|(_, peer)| fits(peer)).map(|(session, _)| session.clone()).collect()
    }

    /// A unit that begins to fail is not counted any more, and one that does not fail any more is: so this worker may have more or fewer
    /// than others now.
    fn tell_evenness(&mut self, now: Now) {
        self.want_advance(now.held.after(self.env.part(16)));
    }

    /// Writes that a unit rests; once a change of its fields that is under way has come to an end.
    pub(super) fn write_note(&mut self, now: Now, lease: LeaseId) {
        let Some((key, own)) = self.own_of(lease) else { return };
        let is_busy = own.asked.is_busy();
        let Some((retry, sent)) = self.retries.notes.get_mut(&key).filter(|_| !is_busy) else { return };
        let retry = *retry;
        if !std::mem::replace(sent, true) {
            self.command_holder(now, Command::Note(lease, UnitSpec::retry_field(retry)));
        }
    }

    /// What was sent about a unit was answered: if that was its rest, the rest begins, written or not.
    pub(super) fn noted(&mut self, now: Now, lease: LeaseId) -> bool {
        let Some((key, _)) = self.own_of(lease) else { return false };
        let Some((retry, true)) = self.retries.notes.get(&key).copied() else { return false };
        let Some((_, own)) = self.own_of(lease) else { return false };
        let asker = own.asked.end.take();
        own.stage = Stage::Held;
        own.told = false;
        own.how = Taken::Rested;
        own.since = now.held;
        own.asked = Asked::default();
        let has_to_go = own.goes.is_some();
        self.retries.notes.remove(&key);
        self.tell(FleetNotice::Released(lease, asker, true));
        if has_to_go || self.life.leaving {
            self.give_away(now, lease);
        } else {
            self.begin_rest(now, key, retry.failures, retry.rest);
        }
        true
    }

    fn begin_rest(&mut self, now: Now, unit: Key, failures: u32, rest: Duration) {
        self.tell(FleetNotice::Rests { unit: unit.clone(), failures, rest });
        self.retries.rests.insert(unit, now.held.after(rest));
    }

    /// A unit was got that is to stay here: it is worked on, at once or after its rest.
    pub(super) fn assign(&mut self, now: Now, lease: LeaseId) {
        let longest = self.env.ttl.duration() * (1 << DOUBLED);
        let forgets = self.env.has_bug(Bug::RetryForgotten);
        let Some((key, own)) = self.own_of(lease) else { return };
        if forgets {
            own.spec.retry = None;
        }
        let retry = own.spec.retry.filter(|retry| !retry.left(now.wall).is_zero());
        let Some(retry) = retry else { return self.begin_work(now, lease) };
        own.since = now.held;
        self.begin_rest(now, key, retry.failures, retry.left(now.wall).min(longest));
    }

    pub(super) fn begin_work(&mut self, now: Now, lease: LeaseId) {
        let forgotten = now.held.after(self.env.ttl.duration() * FORGOTTEN);
        let fields = self.users_fields(lease);
        let Some((unit, own)) = self.own_of(lease) else { return };
        (own.told, own.since) = (true, now.held);
        let (fence, how, spec) = (own.fence, own.how, own.spec.clone());
        if spec.fails() {
            self.retries.forgets.insert(unit.clone(), forgotten);
        }
        self.tell(FleetNotice::Assigned { unit, lease, fence, how, spec, fields });
    }

    /// What a listing shows of a unit that is this worker's: somebody may have ended its rest.
    pub(super) fn revise_retry(&mut self, now: Now) {
        let seen = self.own.planned_from();
        let ended =
            |unit: &&Key| self.own.get(*unit).is_some_and(|own| !own.spec.fails() && own.since < seen);
        for unit in self.retries.rests.keys().filter(ended).cloned().collect::<Vec<_>>() {
            self.retries.rests.insert(unit, now.held);
        }
    }

    pub(super) fn wake_retries(&mut self, now: Now) {
        let is_valid = now.held < self.life.valid;
        let due = |at: &Tick| now.held >= *at;
        if self.retries.wake_at(is_valid).is_none_or(|at| now.held < at) {
            return;
        }
        let rested = self.retries.rests.iter().filter(|(_, at)| is_valid && due(at));
        for unit in rested.map(|(unit, _)| unit.clone()).collect::<Vec<_>>() {
            self.retries.rests.remove(&unit);
            // What is being given up meanwhile is nobody's work any more.
            let stays = self.own.get(&unit).filter(|own| own.stage == Stage::Held);
            if let Some(lease) = stays.map(|own| own.lease) {
                self.begin_work(now, lease);
            }
        }
        let forgotten = self.retries.forgets.iter().filter(|(_, at)| due(at));
        for unit in forgotten.map(|(unit, _)| unit.clone()).collect::<Vec<_>>() {
            self.forget_failures(now, &unit);
        }
    }

    pub(super) fn retries_wake_at(&self, now: Now) -> Option<Tick> {
        self.retries.wake_at(now.held < self.life.valid)
    }

    /// It has been worked on for so long that it does not fail any more.
    fn forget_failures(&mut self, now: Now, unit: &Key) {
        self.retries.forgets.remove(unit);
        let later = now.held.after(self.env.interval());
        let Some(own) = self.own.get_mut(unit).filter(|own| own.stage == Stage::Held && own.told) else {
            return;
        };
        let lease = own.lease;
        if !own.asked.begin() {
            self.retries.forgets.insert(unit.clone(), later);
            return;
        }
        let retry = Retry { failures: 0, since: now.wall, rest: Duration::ZERO };
        own.spec.retry = Some(retry);
        self.command_holder(now, Command::Note(lease, UnitSpec::retry_field(retry)));
        self.tell_evenness(now);
    }

    /// A unit was passed on to this worker.
    pub(super) fn given(&mut self, now: Now, unit: Key) {
        match self.own.get(&unit) {
            Some(own) if own.stage == Stage::Going => drop(self.retries.again.insert(unit)),
            Some(_) => {}
            None => {
                self.try_unit(now, unit.clone(), None);
                if let Some(own) = self.own.get_mut(&unit) {
                    (own.given, own.letter) = (true, true);
                }
            }
        }
    }

    /// What became of giving a unit up is known: it may have come back meanwhile.
    pub(super) fn given_again(&mut self, now: Now, unit: Key) {
        if self.retries.again.remove(&unit) {
            self.given(now, unit);
        }
    }
}

#[cfg(test)]
mod tests;
