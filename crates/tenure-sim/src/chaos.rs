//! Faults that befall nodes and the store now and then, and deaths in the calm.

use crate::clock::{MILLI, Pace, SECOND, True};
use crate::coverage::Coverage;
use crate::fault::Fault;
use crate::invariants::l1::Vacancy;
use crate::node::{Input, Node, Stage};
use crate::registers::Ages;
use crate::trace::Story;
use crate::world::{What, World};
use tenure_core::op::Hint;

impl World {
    pub(crate) fn schedule_strike(&mut self, kind: usize) {
        let Some((_, in_100_ttls)) = self.scenario.faults.get(kind) else { return };
        let mean = (self.per_mille(100_000) as f64 / in_100_ttls) as True;
        self.later(mean, What::Strike(kind as u8));
    }

    /// A fault of the scenario's `kind`-th kind is due.
    pub(crate) fn strike(&mut self, kind: usize) {
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
        let of_node = !matches!(
            fault,
            Fault::StoreDown
                | Fault::Stall
                | Fault::Throttle
                | Fault::StoreClock
                | Fault::Failover
                | Fault::RecordDeleted
                | Fault::RecordRestored
                | Fault::ForcedRelease
                | Fault::RecordDamaged
                | Fault::Forbidden
        );
        self.trace.tell(self.t, || Story::Fault(of_node.then_some(index), fault.about().to_owned()));
        match fault {
            Fault::Pause => {
                let span = self.rng.span(self.per_mille(1500));
                self.pause(index, span);
            }
            Fault::Suspend => self.suspend(index, Pace::Suspended),
            Fault::Hidden => self.suspend(index, Pace::Hidden),
            Fault::Frozen => self.suspend(index, Pace::Frozen),
            Fault::Crash => self.crash_or_stop(index),
            Fault::Rate => self.change_rate(index),
            Fault::WallJump => self.jump_wall(index, 3_600_000),
            Fault::WallDecade => self.jump_wall(index, 315_360_000_000),
            Fault::Cut => self.cut(index, false, false, 3000),
            Fault::CutRequests => self.cut(index, false, true, 3000),
            Fault::CutAnswers => self.cut(index, true, false, 3000),
            Fault::Flap => self.cut(index, false, false, 150),
            Fault::StoreDown => {
                self.store_down = true;
                let span = self.rng.span(self.per_mille(500));
                self.at(self.t + span, What::StoreUp);
            }
            Fault::Stall => {
                self.store_down = true;
                self.at(self.t + self.per_mille(1500), What::StoreUp);
            }
            Fault::Throttle => {
                self.throttled = true;
                let span = self.rng.below(self.per_mille(3000));
                self.at(self.t + span, What::StoreUp);
            }
            Fault::StoreClock => {
                let by = self.rng.below(7200 * SECOND) as i64 - (3600 * SECOND) as i64;
                self.store.jump_clock(by);
            }
            Fault::Failover => {
                let lag = self.rng.below(400 * MILLI);
                let lost = self.store.fail_over(self.t, lag);
                // What is on its way to the old primary never reaches the new one.
                self.store_term += 1;
                self.store_down = true;
                let span = 10 * MILLI + self.rng.below(self.per_mille(50));
                self.at(self.t + span, What::StoreUp);
                self.trace.tell(self.t, || Story::Store(format!("{lost} writes are lost")));
            }
            Fault::Deleted => self.delete_session(index),
            Fault::RecordDeleted => self.delete_lease(),
            Fault::RecordRestored => self.restore_lease(),
            Fault::RecordDamaged => self.damage_some(index),
            Fault::Forbidden => self.store.forbid(self.keys[0].clone()),
            Fault::ForcedRelease => self.seize_some(),
            Fault::SameId => self.take_id(index),
            Fault::Reboot => self.reboot(index),
            Fault::SpuriousWake => self.deliver(index, Input::Wake),
            Fault::SpuriousHint => {
                let key = self.rng.chance(0.5).then(|| self.keys[0].clone());
                self.deliver(index, Input::Hint(key.map_or(Hint::Any, Hint::Key)));
            }
            _ => {}
        }
    }

    /// Stops a process for so long. What it did last may show only afterwards.
    pub(crate) fn pause(&mut self, index: usize, span: True) {
        let node = &mut self.nodes[index];
        if node.holder.is_none() {
            return;
        }
        node.paused = true;
        node.pause_turn += 1;
        let turn = node.pause_turn;
        self.at(self.t + span, What::Resume(index as u8, turn));
    }

    fn suspend(&mut self, index: usize, pace: Pace) {
        let span = self.rng.span(self.per_mille(3000));
        if self.nodes[index].holder.is_none() || self.nodes[index].held_back.is_some() {
            return;
        }
        self.nodes[index].clock.set_pace(self.t, pace);
        if pace == Pace::Frozen {
            self.nodes[index].dim = self.nodes[index].clock.held(self.t);
        }
        if pace == Pace::Suspended && self.rng.chance(0.4) {
            let leap = self.rng.below(self.per_mille(3000));
            self.nodes[index].clock.leap(self.t, leap);
        }
        self.pause(index, span);
    }

    /// A machine is paused as a renewal of one of its processes is under way.
    pub(crate) fn hide(&mut self, index: usize, life: u32) {
        let node = &self.nodes[index];
        if node.life == life && !node.paused && self.healed.is_none() {
            self.trace.tell(self.t, || Story::Fault(Some(index), Fault::Hidden.about().to_owned()));
            self.suspend(index, Pace::Hidden);
        }
    }

    /// A process ends, and the next one on its node goes by its id, or by that of another node's process.
    fn take_id(&mut self, index: usize) {
        if self.nodes[index].holder.is_none() {
            return;
        }
        let other = if self.rng.chance(0.5) { index } else { self.rng.index(self.nodes.len()) };
        self.nodes[index].goes_by = Some(self.nodes[other].who.clone());
        self.end_process(index);
        let (life, span) = (self.nodes[index].life, self.rng.span(self.per_mille(100)));
        self.at(self.t + span, What::Restart(index as u8, life));
    }

    /// A machine restarts: another boot, on a time line of its own.
    fn reboot(&mut self, index: usize) {
        if self.nodes[index].holder.is_none() {
            return;
        }
        self.kill(index);
        let held = self.rng.below(1000 * SECOND);
        let (t, machines) = (self.t, self.nodes.len() as u64);
        let node = &mut self.nodes[index];
        node.clock.restart(t, held);
        node.boot += if self.scenario.clones { 0 } else { machines };
    }

    fn crash_or_stop(&mut self, index: usize) {
        if self.nodes[index].holder.is_none() {
            return;
        }
        if self.rng.chance(0.25) {
            return self.deliver(index, Input::Stop);
        }
        self.kill(index);
    }

    pub(crate) fn kill(&mut self, index: usize) {
        let node = &self.nodes[index];
        if node.views.iter().any(|view| node.believes(view, self.t)) {
            self.tally.coverage(Coverage::DiedHolding);
        }
        self.end_process(index);
        let (life, span) = (self.nodes[index].life, self.rng.span(self.per_mille(1000)));
        self.at(self.t + span, What::Restart(index as u8, life));
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

    /// The wall clock is wrong anew, by at most so much.
    fn jump_wall(&mut self, index: usize, most_ms: u64) {
        let off = if self.rng.chance(0.3) { self.scenario.wall_off_ms } else { most_ms };
        let offset = self.rng.between(0, 2 * off) as i64 - off as i64;
        let offset = if self.scenario.ahead { offset.abs() } else { offset };
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

    pub(crate) fn heal_link(&mut self, index: usize, turn: u32) {
        let node = &mut self.nodes[index];
        if node.link_turn != turn {
            return;
        }
        node.requests_pass = true;
        node.answers_pass = true;
        // A flapping link fails again soon.
        let flaps = self.healed.is_none()
            && !self.setup.without.has(Fault::Flap)
            && self.scenario.faults.iter().any(|(fault, _)| *fault == Fault::Flap)
            && self.rng.chance(0.6);
        if flaps {
            self.tally.faults[Fault::Flap as usize] += 1;
            let gap = self.rng.span(self.per_mille(100));
            let node = &mut self.nodes[index];
            node.link_turn += 1;
            let turn = node.link_turn;
            self.at(self.t + gap, What::HealLink(index as u8, turn));
            if self.rng.chance(0.5) {
                let node = &mut self.nodes[index];
                (node.requests_pass, node.answers_pass) = (false, false);
            }
        }
    }

    /// In the calm, someone who holds a key dies, and those who wait must have it in time.
    pub(crate) fn death(&mut self) {
        if self.healed.is_none() {
            return;
        }
        self.later(self.per_mille(3000), What::Death);
        // Those who came back from the last death need a moment before they wait for anything.
        let index = self.rng.index(self.nodes.len());
        let node = &self.nodes[index];
        let held: Vec<usize> = node
            .views
            .iter()
            .filter(|view| matches!(view.stage, Stage::Held(_)) && node.believes(view, self.t))
            .map(|view| view.key)
            .collect();
        if held.is_empty() {
            return;
        }
        self.tally.faults[Fault::Crash as usize] += 1;
        self.trace.tell(self.t, || Story::Fault(Some(index), "dies in the calm".to_owned()));
        // A walls' disagreement takes the second witness away.
        let jumps = self.scenario.faults.iter().any(|(fault, _)| *fault == Fault::StoreClock);
        let agree = self.scenario.wall_off_ms <= 100 && !jumps;
        for key in held {
            // After a failover that lost its claim, another may hold it too: then nothing became free.
            let others = self.nodes.iter().filter(|other| other.index != index);
            let believed =
                |other: &Node| other.views.iter().any(|view| view.key == key && other.believes(view, self.t));
            if others.into_iter().any(believed) {
                continue;
            }
            let Some(waiter) = self.eager_waiter(key, Some(index)) else { continue };
            let quick = (self.spec.ages == Ages::Fine && agree) || self.spec.push;
            let bound = self.per_mille(if quick { 1150 } else { 1400 }) + self.slowness();
            self.checks.takeovers.cancel(key);
            self.checks.takeovers.begin(key, Vacancy { since: self.t, bound, by_death: true, waiter });
        }
        self.kill(index);
    }
}
