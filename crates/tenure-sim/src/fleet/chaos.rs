//! Faults that befall nodes and the store now and then.

use super::node::Input;
use super::world::{What, World};
use crate::clock::{MILLI, Pace, SECOND, True};
use crate::fault::Fault;
use crate::trace::Story;
use tenure_core::op::Hint;

impl World {
    pub(super) fn schedule_strike(&mut self, kind: usize) {
        let Some((_, in_100_ttls)) = self.scenario.faults.get(kind) else { return };
        let mean = (self.per_mille(100_000) as f64 / in_100_ttls) as True;
        self.later(mean, What::Strike(kind as u8));
    }

    /// A fault of the scenario's `kind`-th kind is due.
    pub(super) fn strike(&mut self, kind: usize) {
        if self.healed.is_some() {
            return;
        }
        let Some((fault, _)) = self.scenario.faults.get(kind).copied() else { return };
        self.schedule_strike(kind);
        if self.setup.without.has(fault) {
            return;
        }
        let index = self.rng.index(self.nodes.len());
        self.tally.faults[fault as usize] += 1;
        self.trace.fold(fault as u64);
        self.trace.tell(self.t, || Story::Fault(Some(index), fault.about().to_owned()));
        match fault {
            Fault::Pause => {
                let span = self.rng.span(self.per_mille(1500));
                self.pause(index, span);
            }
            Fault::Suspend => self.suspend(index, Pace::Suspended),
            Fault::Hidden => self.suspend(index, Pace::Hidden),
            Fault::Crash => self.crash_or_leave(index),
            Fault::Rate => self.change_rate(index),
            Fault::WallJump => self.jump_wall(index),
            Fault::Cut => self.cut(index, false, false, 3000),
            Fault::CutRequests => self.cut(index, false, true, 3000),
            Fault::CutAnswers => self.cut(index, true, false, 3000),
            Fault::Flap => self.cut(index, false, false, 150),
            Fault::StoreDown => {
                self.store_down = true;
                let span = self.rng.span(self.per_mille(500));
                self.at(self.t + span, What::StoreUp);
            }
            Fault::Throttle => {
                self.throttled = true;
                let span = self.rng.below(self.per_mille(3000));
                self.at(self.t + span, What::StoreUp);
            }
            Fault::Deleted if self.rng.chance(0.4) => self.damage_by_hand(),
            Fault::Deleted => self.delete_by_hand(),
            Fault::RecordDeleted => self.delete_unit(),
            Fault::RecordRestored => self.restore_unit(),
            Fault::ForcedRelease => self.take_by_force(),
            Fault::Forbidden => self.forbid_unit(),
            Fault::SpuriousWake => self.deliver(index, Input::Wake),
            Fault::SpuriousHint => {
                let some = self.rng.index(self.units.len());
                let key = self.units.keys().nth(some).cloned().filter(|_| self.rng.chance(0.7));
                self.deliver(index, Input::Hint(key.map_or(Hint::Any, Hint::Key)));
            }
            _ => {}
        }
    }

    fn suspend(&mut self, index: usize, pace: Pace) {
        let span = self.rng.span(self.per_mille(3000));
        let node = &mut self.nodes[index];
        if node.machine.is_none() || node.held_back.is_some() {
            return;
        }
        node.clock.set_pace(self.t, pace);
        if pace == Pace::Suspended && self.rng.chance(0.4) {
            let leap = self.rng.below(self.per_mille(3000));
            self.nodes[index].clock.leap(self.t, leap);
        }
        self.pause(index, span);
    }

    fn crash_or_leave(&mut self, index: usize) {
        match self.rng.below(10) {
            0 | 1 => self.deliver(index, Input::Leave),
            2 => self.deliver(index, Input::Stop),
            3 => self.lose_zone(index),
            _ => self.kill(index),
        }
    }

    /// A third of all dies at once.
    pub(super) fn lose_zone(&mut self, index: usize) {
        let zone: Vec<usize> = (0..self.nodes.len()).filter(|other| other % 3 == index % 3).collect();
        self.kill_all(&zone);
    }

    /// They die together: what one of them had may be planned for another, until that one is known to be dead too.
    pub(super) fn kill_all(&mut self, indices: &[usize]) {
        let ttls = indices.iter().map(|index| &self.nodes[*index]).filter(|node| node.machine.is_some());
        let longest = ttls.map(|node| node.ttl).max().unwrap_or(self.ttl);
        for index in indices {
            self.kill(*index);
        }
        let (t, bound) = (self.t, self.death_bound(longest));
        let died = self.units.values_mut().filter_map(|truth| truth.idle.as_mut());
        for idle in died.filter(|idle| idle.by_death && idle.since == t) {
            idle.bound = idle.bound.max(bound);
        }
    }

    pub(super) fn kill(&mut self, index: usize) {
        if self.nodes[index].machine.is_none() {
            return;
        }
        self.trace.tell(self.t, || Story::Fault(Some(index), "dies".to_owned()));
        self.end_process(index);
        // In the calm it stays away until the others have taken over.
        let mean = if self.healed.is_some() { 12_000 } else { 1000 };
        let (life, span) = (self.nodes[index].life, self.rng.span(self.per_mille(mean)));
        self.at(self.t + span, What::Boot(index as u8, life));
    }

    fn change_rate(&mut self, index: usize) {
        let off = self.scenario.rate;
        let rate = match self.rng.below(4) {
            0 => 1_000_000 - off,
            1 => 1_000_000 + off,
            _ => self.rng.between(1_000_000 - off, 1_000_000 + off),
        };
        self.nodes[index].clock.set_rate(self.t, rate);
        self.nodes[index].scheduled = True::MAX;
        self.schedule_wake(index);
    }

    fn jump_wall(&mut self, index: usize) {
        let off = (self.scenario.wall_off_ms * MILLI).min(3600 * SECOND) / MILLI;
        let offset = self.rng.between(0, 2 * off) as i64 - off as i64;
        self.nodes[index].clock.set_wall_offset(offset);
    }

    fn cut(&mut self, index: usize, requests_pass: bool, answers_pass: bool, per_mille: u64) {
        let span = self.rng.span(self.per_mille(per_mille));
        let node = &mut self.nodes[index];
        node.requests_pass = requests_pass;
        node.answers_pass = answers_pass;
        node.link_turn += 1;
        let turn = node.link_turn;
        self.at(self.t + span, What::HealLink(index as u8, turn));
    }

    pub(super) fn heal_link(&mut self, index: usize, turn: u32) {
        let node = &mut self.nodes[index];
        if node.link_turn == turn {
            node.requests_pass = true;
            node.answers_pass = true;
        }
    }
}
