//! Acting on the plan for this worker's units. It claims free units planned for it, waits for units that another worker still has, and
//! notes which of its own have to go. `on_drain` ends what is done for those, and `release` gives them up.

use super::FleetWorker;
use super::asked::Asked;
use super::claims::Claim;
use super::listed::{Owner, Unit};
use super::own::{Own, Stage};
use crate::bugs::Bug;
use crate::fleet::plan::Uncovered;
use crate::fleet::sorted::Sorted;
use crate::fleet::talk::{FleetNotice, Reason, Summary, Taken};
use crate::fleet::unit::{Status, UnitSpec};
use crate::holder::acquisition::{MetadataPolicy, WaitPolicy};
use crate::holder::command::{Command, KeepAlive, Want};
use crate::holder::lease_id::LeaseId;
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::metadata::Metadata;
use crate::values::record::Stored;
use crate::values::time::Now;
use std::collections::{BTreeSet, VecDeque};

type Target = Result<Key, Uncovered>;

impl FleetWorker {
    /// Sets to work on a new plan.
    pub(super) fn follow_plan(
        &mut self,
        now: Now,
        units: Sorted<Unit>,
        targets: Sorted<Target>,
        mut summary: Summary,
    ) {
        let awaited = self.awaited.begin_plan();
        let damaged = summary.damaged.iter().map(|(key, _)| key.clone()).collect();
        self.examine_own(now, &units, &damaged);
        self.revise_own(&units, &targets, &damaged);
        self.revise_retry(now);
        let me = self.env.me.clone();
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
            let mine = target == Some(&self.env.me);
            match unit.owner {
                _ if self.own.contains_key(&key) => {}
                Owner::Nobody(stored) | Owner::LongMissing(stored) if mine => {
                    free.push_back(Claim { key, seen: Some(stored), target: target.cloned() });
                }
                Owner::Missing(_) if mine => missing += 1,
                Owner::Missing(_) | Owner::LongMissing(_) | Owner::Nobody(_) => {}
                // Passed on to us, or claimed and forgotten: to be had even if only to be passed on.
                Owner::Worker(session) if session == self.env.me => {
                    free.push_back(Claim { key, seen: None, target: target.cloned() });
                }
                Owner::Worker(_) if self.env.has_bug(Bug::AwaitedForgotten) => {}
                Owner::Worker(_) if mine => self.awaited.insert(key),
                Owner::Worker(_) | Owner::Outsider | Owner::Behind(_) => {}
            }
        }
        self.awaited.end_plan(now, &awaited);
        summary.incoming = self.awaited.len() + free.len() + missing;
        self.tell(FleetNotice::Planned(Box::new(summary)));
        self.plan_claims(now, free);
        self.wake_claims(now);
        if !self.awaited.is_empty() {
            self.look.now(now);
        }
    }

    /// Has each own unit looked at whose record does not show it: somebody has taken it behind the protocol's back, or it was
    /// claimed after that page of the listing.
    fn examine_own(&mut self, now: Now, units: &Sorted<Unit>, damaged: &BTreeSet<Key>) {
        if self.env.has_bug(Bug::ForeignTenureIgnored) {
            return;
        }
        let doubtful = |(key, own): (&Key, &Own)| {
            let shown = units.get(key).and_then(|unit| unit.held).map(Into::into);
            let held = self.holder.tenure_of(own.lease).filter(|_| own.stage != Stage::Acquiring);
            (held.is_some() && held != shown && !damaged.contains(key)).then_some(own.lease)
        };
        for lease in self.own.iter().filter_map(doubtful).collect::<Vec<_>>() {
            self.command_holder(now, Command::Examine(lease));
        }
    }

    /// Notes who is to have each of the own units, and which of them have to go.
    fn revise_own(&mut self, units: &Sorted<Unit>, targets: &Sorted<Target>, damaged: &BTreeSet<Key>) {
        let planned_from = self.own.planned_from();
        for (key, own) in self.own.iter_mut() {
            let unit = units.get(key);
            if let Some(unit) = unit {
                // How it failed last may have been written after it was listed.
                let retry = if own.since < planned_from { unit.spec.retry } else { own.spec.retry };
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
                (_, Some(session)) if *session == self.env.me => None,
                _ if self.life.leaving => Some(Reason::Leaving),
                (_, Some(session)) => self.roster.moved_to(session),
                (Some(Err(why)), None) => Some(Reason::Uncovered(*why)),
                (_, None) => None,
            };
        }
    }

    /// Claims a unit that should be free for this worker, or held by nobody else who lives.
    pub(super) fn try_unit(&mut self, now: Now, key: Key, seen: Option<Box<Stored>>) {
        if self.own.contains_key(&key) || self.is_stopping() {
            return;
        }
        self.awaited.remove(&key);
        let lease = self.own.new_lease();
        let own = Own {
            lease,
            stage: Stage::Acquiring,
            fence: Fence(0),
            tenure: None,
            spec: UnitSpec::default(),
            asked: Asked::default(),
            transferee: Some(self.env.me.clone()),
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
        self.claims.begun(lease);
        let (keep_alive, metadata_policy) = (KeepAlive::Session, MetadataPolicy::Keep(seen));
        self.command_holder(
            now,
            Command::Acquire(lease, Want { key, keep_alive, metadata_policy, wait_policy: WaitPolicy::Try }),
        );
    }

    pub(super) fn saw_awaited(&mut self, now: Now, key: Key, stored: Stored) {
        let waits = match stored.record.tenure.as_ref().map(|tenure| &tenure.attachment) {
            None => false,
            Some(None) => true,
            Some(Some(_)) if self.env.has_bug(Bug::DeadTransfereeTrusted) => true,
            Some(Some(attachment)) => self.roster.has(&attachment.session, attachment.fence),
        };
        match UnitSpec::parse(stored.record.metadata.clone()) {
            Ok((spec, _)) if spec.status != Status::Open => drop(self.awaited.remove(&key)),
            Ok(_) if !waits => self.try_unit(now, key, Some(Box::new(stored))),
            Ok(_) | Err(_) => {}
        }
    }

    pub(super) fn acquired(&mut self, now: Now, lease: LeaseId, fence: Fence, metadata: Metadata) {
        self.claims.answered(lease);
        let Some((key, _)) = self.own_of(lease) else { return };
        let parsed = UnitSpec::parse(metadata);
        let Ok((spec, _)) = parsed else { return self.give_away(now, lease) };
        self.doubts.settle(&key);
        let tenure = self.holder.tenure_of(lease).map(|(id, _)| id);
        let Some((_, own)) = self.own_of(lease) else { return };
        (own.fence, own.tenure) = (fence, tenure);
        own.spec = spec;
        own.stage = Stage::Held;
        let (given, by_letter, goes, weight) =
            (own.given, own.letter, own.goes.is_some(), own.spec.weight.max(1));
        let stays = own.spec.status == Status::Open && own.transferee.is_some() && !self.life.leaving;
        // Whoever passes it on may not know how much this worker has by now. What it could bear by itself stays, and the next plan moves something else.
        let is_full = by_letter
            && (self.held() as u64 > self.env.options.about.units || weight > self.env.options.about.weight);
        let stays = stays && !is_full && (given || self.transferee(lease).is_none());
        if stays || self.env.has_bug(Bug::DeletedTaken) {
            if goes {
                self.drains.got_for_another(now, &self.env);
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
        // By the time of another attempt, a hint or a letter may be out of date.
        let is_lasting = !own.hinted && !own.letter;
        if own.stage == Stage::Acquiring {
            let lasts = !error.is_passing() && !self.env.has_bug(Bug::RefusalIsMiss);
            let is_put_off = is_lasting && self.env.finds_busy(&error);
            self.tell(FleetNotice::Trouble(error));
            match () {
                () if lasts => self.refused(now, lease),
                () if is_put_off => self.put_off(now, lease),
                () => self.missed(now, lease),
            }
        } else {
            self.not_updated(now, lease, &error);
        }
    }

    /// Somebody else has a unit that was to be claimed.
    pub(super) fn occupied(&mut self, now: Now, lease: LeaseId) {
        self.claims.answered(lease);
        if self.own_of(lease).is_some_and(|(_, own)| own.letter) {
            // It went on before the letter was read: whoever has it knows that.
            self.forget(lease);
        } else {
            self.missed(now, lease);
        }
    }
}

#[cfg(test)]
mod tests;
