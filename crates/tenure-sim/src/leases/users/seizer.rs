//! Those who take leases away by force, or by hand: an operator who steps the real machine for it, and dies half-way now and
//! then; and somebody who deletes records, or puts older copies in their place.

use crate::invariants::Rule;
use crate::kernel::clock::{MILLI, NodeClock, SECOND, True};
use crate::kernel::rng::Rng;
use crate::kernel::trace::{Story, describe};
use crate::leases::{LeaseDue, What, World};
use tenure_core::op::{Answer, Event, Machine, Op, OpId, Step};
use tenure_core::{Ask, Fence, HolderId, Key, Rules, Seized, Seizure, StoreError};

/// Who takes a lease away.
#[derive(Debug)]
pub(crate) struct Seizer {
    machine: Seizure,
    clock: NodeClock,
    /// As many as there are: a session's.
    key: usize,
    /// The tenure that stood there at first.
    fence: Option<Fence>,
    under_way: Option<(OpId, Op)>,
    turn: u32,
    began: True,
}

/// However slow everything is, it ends within so many thousandths of a ttl.
const ENDS: u64 = 6000;

impl World {
    /// Somebody begins to take a lease away.
    pub(crate) fn seize_some(&mut self) {
        let key = self.rng.index(self.scene.keys.len());
        let instance = self.rng.bits();
        let rules = Rules { bugs: self.setup.bugs, ..Rules::default() };
        let machine = Seizure::new(self.scene.keys[key].clone(), false, rules, instance);
        self.tell(|_| Story::Store(format!("somebody begins to release k{key} by force")));
        self.seize_by(machine, key);
    }

    /// Somebody gives back what a process that is dead held on one key: the key of this number, or its session.
    pub(crate) fn seize_of_dead(&mut self, key: usize, at: Key, who: &HolderId) {
        let rules = Rules { bugs: self.setup.bugs, ..Rules::default() };
        let machine = Seizure::of_dead(at, who.clone(), rules, self.rng.bits());
        self.seize_by(machine, key);
    }

    fn seize_by(&mut self, machine: Seizure, key: usize) {
        let clock = any_clock(&mut self.rng, self.t, self.scenario.rate, self.scenario.wall_off_ms);
        let fence = self
            .scene
            .keys
            .get(key)
            .and_then(|key| self.store.get(key))
            .filter(|record| record.tenure.is_some())
            .map(|record| record.fence);
        let seizer = Seizer { machine, clock, key, fence, under_way: None, turn: 0, began: self.t };
        let slot = match self.scene.seizers.iter().position(Option::is_none) {
            Some(slot) => {
                self.scene.seizers[slot] = Some(seizer);
                slot
            }
            None => {
                self.scene.seizers.push(Some(seizer));
                self.scene.seizers.len() - 1
            }
        };
        self.seize(slot, Event::Wake);
    }

    /// What a seizer waited for has come: its time, or the end of its call.
    pub(crate) fn seizer_goes_on(&mut self, slot: usize, turn: u32) {
        let Some(Some(seizer)) = self.scene.seizers.get_mut(slot) else { return };
        if seizer.turn != turn {
            return;
        }
        let event = match seizer.under_way.take() {
            None => Event::Wake,
            Some((id, op)) => {
                if self.rng.chance(0.03) {
                    self.tell(|_| Story::Store("who releases by force dies".to_owned()));
                    self.scene.seizers[slot] = None;
                    return;
                }
                Event::Answer(id, self.perform_for_seizer(slot, op))
            }
        };
        self.seize(slot, event);
    }

    fn perform_for_seizer(&mut self, slot: usize, op: Op) -> Result<Answer, StoreError> {
        let writes = matches!(op, Op::Write(_));
        let error = if writes { self.errors.unknown.clone() } else { self.errors.unavailable.clone() };
        let healed = self.healed.is_some();
        if self.store_down || self.throttled || (!healed && self.rng.chance(0.05)) {
            return Err(error);
        }
        self.tell(|_| Story::Store(format!("by force: {}", describe(&op))));
        let (result, landed) = self.store.perform(self.t, &op, None, 0);
        if let (Some((at, landed)), Some(Some(seizer))) = (landed, self.scene.seizers.get(slot)) {
            let (key, meant) = (seizer.key, seizer.fence);
            let after = &landed.after;
            let letter = after.tenure.as_ref().is_some_and(|tenure| {
                tenure
                    .mail
                    .iter()
                    .any(|letter| letter.ask == Ask::Revoke && Some(&letter.key) == self.scene.keys.get(key))
            });
            if let Some(fence) = meant.filter(|_| letter) {
                let due = self.t + self.ttl_ns();
                self.scene.acts.told(key, fence, self.t, due);
                self.at(due, What::Own(LeaseDue::Acts));
            }
            if letter {
                let letters = after.tenure.as_ref().map(|tenure| tenure.mail.clone());
                self.note_letters(&at, letters.unwrap_or_default());
                self.mail_landed();
                if !self.scene.mailed.iter().any(|(mailed, _)| *mailed == at) {
                    self.scene.mailed.push((at.clone(), self.t));
                }
            }
            self.hint(&at);
        }
        if !healed && self.rng.chance(0.05) { Err(error) } else { result }
    }

    fn seize(&mut self, slot: usize, event: Event<()>) {
        let t = self.t;
        let Some(Some(seizer)) = self.scene.seizers.get_mut(slot) else { return };
        let Step { requests, notices, wake_at } = seizer.machine.step(seizer.clock.read(t), event);
        self.tally.steps += 1;
        seizer.turn += 1;
        let turn = seizer.turn;
        if notices.iter().any(|notice| !matches!(notice, Seized::Told { .. })) {
            self.tell(|_| Story::Store(format!("by force: {notices:?}")));
            self.scene.seizers[slot] = None;
            return;
        }
        if let Some(request) = requests.into_iter().next() {
            seizer.under_way = Some((request.id, request.op));
            let span = self.rng.between(MILLI / 10, MILLI);
            self.at(t + span, What::Own(LeaseDue::Seizer(slot as u16, turn)));
        } else if let Some(at) = wake_at {
            let due = seizer.clock.when(at).max(t);
            self.at(due, What::Own(LeaseDue::Seizer(slot as u16, turn)));
        }
    }

    /// Everyone who takes a lease away comes to an end.
    pub(crate) fn check_seizers(&mut self, healed: True) {
        let bound = self.per_mille(ENDS);
        let late =
            self.scene.seizers.iter().flatten().find(|seizer| self.t > seizer.began.max(healed) + bound);
        let found = late.map_or(Ok(()), |late| {
            Err(format!("k{} is still being released by force: {:?}", late.key, late.machine))
        });
        self.check(Rule::S10, found);
    }

    /// Somebody deletes a lease's record.
    pub(crate) fn delete_lease(&mut self) {
        let Some((index, key)) = self.some_record() else { return };
        self.note_behind(index, &key);
        self.tell(|_| Story::Store(format!("somebody deletes {key}")));
        self.store.remove(self.t, &key);
        self.hint(&key);
    }

    /// Somebody puts a lease's record back to what it was some time ago.
    pub(crate) fn restore_lease(&mut self) {
        let Some((index, key)) = self.some_record() else { return };
        let back = self.rng.index(8);
        self.note_behind(index, &key);
        if self.store.put_back(self.t, &key, back) {
            self.tell(|_| Story::Store(format!("somebody restores an older copy of {key}")));
            self.note_behind(index, &key);
        }
        self.hint(&key);
    }

    /// Somebody writes into a lease's record, or a session's, what isn't one; and some time later takes it away again.
    pub(crate) fn damage_some(&mut self, index: usize) {
        let at = self.rng.index(self.scene.keys.len() + 1);
        let key = self.scene.keys.get(at).cloned().unwrap_or_else(|| self.nodes[index].session.clone());
        self.tell(|_| Story::Store(format!("somebody damages {key}")));
        self.store.damage(key);
        self.later(self.per_mille(1500), What::Mend);
    }

    fn some_record(&mut self) -> Option<(usize, Key)> {
        let index = self.rng.index(self.scene.keys.len());
        let key = self.scene.keys[index].clone();
        self.store.get(&key).is_some().then_some((index, key))
    }

    fn note_behind(&mut self, index: usize, key: &Key) {
        if let Some(record) = self.store.get(key) {
            self.scene.acts.behind(index, record.fence, self.t);
            if record.tenure.as_ref().is_some_and(|tenure| tenure.attachment.is_none()) {
                self.scene.acts.untold(index, record.fence);
            }
        }
    }
}

fn any_clock(rng: &mut Rng, t: True, off: u64, wall_off_ms: u64) -> NodeClock {
    let rate = rng.between(1_000_000 - off, 1_000_000 + off);
    let offset = rng.between(0, 2 * wall_off_ms) as i64 - wall_off_ms as i64;
    let held = rng.below(1000 * SECOND);
    NodeClock::new(t, held, rate, offset)
}
