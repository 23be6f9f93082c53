//! Those outside the fleet: they create, delete and revise units, ask for them, and collect old records.

use super::bodies::fields;
use super::process::LABEL;
use super::world::Truth;
use super::{FleetDue, What, World};
use crate::invariants::Rule;
use crate::kernel::clock::{MILLI, True};
use crate::kernel::coverage::Coverage;
use crate::kernel::trace::Story;
use tenure_core::fleet::{Status, UnitSpec, advance};
use tenure_core::op::{Answer, Expect, Op, Outcome, Write};
use tenure_core::{Ask, Fence, Key, LeaseId, Letter, MAILBOX, RESERVED, Record, Value};

/// So often somebody writes what there is to do for a unit that nobody has.
const PRODUCED: True = 50 * MILLI;

impl World {
    /// A write of somebody whose clock is right and whose network works.
    pub(super) fn write(&mut self, write: Write) -> bool {
        let key = write.key.clone();
        self.tell(|_| {
            Story::Store(format!(
                "outside: {}",
                crate::kernel::trace::describe(&Op::Write(Box::new(write.clone())))
            ))
        });
        let (result, landed) = self.store.perform(self.t, &Op::Write(Box::new(write)), None, 0);
        if let Some((key, landed)) = landed {
            let found = self.checks.tenures.landed(&key, landed.before.as_ref(), &landed.after).map(|_| ());
            self.check(Rule::S2, found);
        }
        if key == self.scene.board {
            self.scene.raised = self.t;
        }
        self.hint(&key);
        matches!(result, Ok(Answer::Write(Outcome::Won { .. })))
    }

    pub(super) fn create_unit(&mut self) {
        let index = self.scene.next_unit;
        self.scene.next_unit += 1;
        let Ok(key) = self.scene.fleet.unit(&format!("{index:04}")) else { return };
        let needs_label = self.scenario.labels && index.is_multiple_of(5);
        let spec = UnitSpec::default().weight(self.first_weight());
        let spec = if needs_label { spec.needs(LABEL) } else { spec };
        let Ok(metadata) = spec.compose(fields(0)) else { return };
        let wall = self.true_wall();
        let record = Record {
            fence: Fence::floor(wall),
            nonce: self.admin.draw(),
            stamp: wall,
            tenure: None,
            metadata,
        };
        let nobody = (Fence(0), (usize::MAX, 0, LeaseId(0)));
        let truth = Truth {
            index,
            status: Status::Open,
            needs_label,
            fails: index < self.scenario.failing,
            tries: (0, 0),
            idle: None,
            claims: Vec::new(),
            assigned: nobody,
            abandoned: Fence(0),
            behind: Vec::new(),
            points: vec![0],
        };
        if self.write(Write { key: key.clone(), expect: Expect::Absent, record }) {
            self.scene.units.insert(key.clone(), truth);
            self.idles(&key, None);
        }
    }

    /// Somebody keeps in the record of a unit, for as long as nobody has it, how much there is to do.
    pub(super) fn produce(&mut self, index: u32, left: u32) {
        if !self.scenario.produces || left == 0 {
            return;
        }
        let unit = self.scene.units.iter().find(|(_, truth)| truth.index == index as usize);
        if let Some(key) = unit.map(|(key, _)| key.clone()) {
            let is_vacant = self.store.get(&key).is_some_and(|record| record.tenure.is_none());
            if is_vacant {
                self.revise(&key, |_| ());
            }
        }
        self.at(self.t + PRODUCED, What::Own(FleetDue::Produce(index, left - 1)));
    }

    /// Tells the workers to look.
    pub(super) fn tell_workers(&mut self) {
        let seen = self.store.stored_at(&self.scene.board, self.t);
        let nonce = self.admin.draw();
        if let Ok(write) = advance(self.scene.board.clone(), seen.as_ref(), nonce, self.true_wall()) {
            self.scene.untold = !self.write(write);
        }
    }

    pub(super) fn any_open(&mut self) -> Option<Key> {
        let open: Vec<&Key> = self
            .scene
            .units
            .iter()
            .filter(|(_, truth)| truth.status == Status::Open)
            .map(|(key, _)| key)
            .collect();
        let at = self.rng.index(open.len());
        open.get(at).map(|key| (*key).clone())
    }

    /// Changes what a unit's record says about it, and nothing else in it.
    pub(super) fn revise(&mut self, key: &Key, change: impl FnOnce(&mut UnitSpec)) -> bool {
        let Some(mut stored) = self.store.stored_at(key, self.t) else { return false };
        let Ok((mut spec, fields)) = UnitSpec::parse(stored.record.metadata.clone()) else { return false };
        change(&mut spec);
        let Ok(metadata) = spec.compose(fields) else { return false };
        stored.record.metadata = metadata;
        stored.record.nonce = self.admin.draw();
        self.write(Write {
            key: key.clone(),
            expect: Expect::Unchanged(stored.version),
            record: stored.record,
        })
    }

    /// Something about the units changes, now and then.
    pub(super) fn churn(&mut self) {
        if self.healed.is_some() {
            return;
        }
        self.later(self.per_mille(self.scenario.churn), What::Own(FleetDue::Churn));
        self.change_units();
    }

    pub(super) fn change_units(&mut self) {
        self.revise_units();
        self.disturb_by_plan();
        self.tell_workers();
    }

    pub(super) fn revise_units(&mut self) {
        let open = self.scene.units.values().filter(|truth| truth.status == Status::Open).count();
        let grows = open < self.scenario.units;
        if self.scenario.pins && self.rng.chance(0.3) {
            return self.pin_some();
        }
        match self.rng.below(if self.healed.is_some() { 7 } else { 10 }) {
            0..=2 if grows => {
                self.produce(self.scene.next_unit as u32, 400);
                self.create_unit();
            }
            0..=3 => {
                if let Some(key) = self.any_open()
                    && self.revise(&key, |spec| spec.status = Status::Deleted)
                {
                    self.closed(&key, Status::Deleted);
                }
            }
            4 | 5 => {
                let weight = if self.rng.chance(0.4) { 1 } else { self.rng.between(2, 9) };
                if let Some(key) = self.any_open() {
                    self.revise(&key, |spec| spec.weight = weight);
                }
            }
            6 => {
                let open = self.any_open().filter(|_| self.scenario.labels);
                let needs_label = self.rng.chance(0.5);
                let needs = if needs_label { [LABEL.to_owned()].into() } else { Default::default() };
                if let Some(key) = open
                    && self.revise(&key, |spec| spec.needs = needs)
                    && let Some(truth) = self.scene.units.get_mut(&key)
                {
                    truth.needs_label = needs_label;
                }
            }
            7 => self.collect(),
            _ if self.scenario.mail => self.letter(),
            _ => {}
        }
    }

    pub(super) fn closed(&mut self, key: &Key, status: Status) {
        if let Some(truth) = self.scene.units.get_mut(key) {
            truth.status = status;
            truth.idle = None;
        }
    }

    /// Somebody asks for a unit, or withdraws it.
    fn letter(&mut self) {
        let Some(key) = self.any_open() else { return };
        let ask = if self.rng.chance(0.5) { Ask::HandOver } else { Ask::Revoke };
        // Now and then it is all of a worker's units that are asked for, or withdrawn.
        let all = self.rng.chance(0.2);
        self.write_letter(&key, ask, all);
    }

    /// The same for one unit, while all else is calm.
    pub(super) fn withdraw(&mut self) {
        let Some(key) = self.any_open() else { return };
        let ask = if self.rng.chance(0.5) { Ask::HandOver } else { Ask::Revoke };
        self.write_letter(&key, ask, false);
        // The letter is read with the next renewal.
        self.disturb(self.bound(340) + self.plan_bound());
    }

    /// A unit is being moved to another worker. Somebody asks for it or withdraws it meanwhile, and the plan is to have it stay after all.
    pub(super) fn catch(&mut self, index: usize, lease: LeaseId) {
        if !std::mem::take(&mut self.scene.catches) {
            return;
        }
        let Some(unit) = self.nodes[index].own.works.get(&lease).map(|work| work.unit.clone()) else {
            return;
        };
        let ask = if self.rng.chance(0.5) { Ask::HandOver } else { Ask::Revoke };
        let pin = self.nodes[index].who.clone();
        self.write_letter(&unit, ask, false);
        self.revise(&unit, |spec| spec.pin = Some(pin));
        self.tell_workers();
        self.tally.coverage(Coverage::Caught);
        self.disturb(self.bound(340) + 2 * self.plan_bound());
    }

    /// Leaves a letter in the session that a unit is attached to. Under which fence it is held, if that was possible.
    pub(super) fn write_letter(&mut self, key: &Key, ask: Ask, all: bool) -> Option<Fence> {
        let record = self.store.get(key)?;
        let (attachment, fence) = (record.tenure.as_ref()?.attachment.clone()?, record.fence);
        let mut stored = self.store.stored_at(&attachment.session, self.t)?;
        if stored.record.fence != attachment.fence {
            return None;
        }
        let tenure = stored.record.tenure.as_mut()?;
        if tenure.mail.len() >= MAILBOX {
            return None;
        }
        tenure.mail.push(Letter::new(if all { attachment.session.clone() } else { key.clone() }, ask));
        stored.record.nonce = self.admin.draw();
        let expect = Expect::Unchanged(stored.version);
        self.write(Write { key: attachment.session, expect, record: stored.record }).then_some(fence)
    }

    /// `gc` of closed units and dead sessions, by somebody whose clock is right.
    fn collect(&mut self) {
        let retention = self.scenario.wall_off_ms * 2 + self.ttl.millis() * 20;
        let wall = self.true_wall();
        let is_open = |record: &Record| match record.metadata.get(RESERVED) {
            Some(Value::Map(own)) => !own.contains_key("status"),
            _ => true,
        };
        let old: Vec<Key> = self
            .store
            .keys()
            .filter(|(key, record)| {
                record.tenure.is_none()
                    && **key != self.scene.board
                    && !(self.scene.units.contains_key(*key) && is_open(record))
            })
            .filter(|(_, record)| record.stamp.0.max(record.fence.0) + retention < wall.0)
            .map(|(key, _)| key.clone())
            .collect();
        for key in old {
            self.tell(|_| Story::Store(format!("gc removes {key}")));
            self.store.remove(self.t, &key);
        }
    }

    /// Somebody deletes the board or a session by hand.
    pub(super) fn delete_by_hand(&mut self) {
        let keys: Vec<Key> = self
            .store
            .keys()
            .map(|(key, _)| key.clone())
            .filter(|key| !self.scene.units.contains_key(key))
            .collect();
        let at = self.rng.index(keys.len());
        let Some(key) = keys.get(at).filter(|_| !keys.is_empty()) else { return };
        let key = if self.rng.chance(0.3) { self.scene.board.clone() } else { key.clone() };
        self.tell(|_| Story::Store(format!("somebody deletes {key}")));
        self.store.remove(self.t, &key);
        // Who writes it anew may have read his clock long before.
        self.checks.tenures.forget(&key);
        self.hint(&key);
    }
}
