//! Faults that strike nodes, links and the store now and then, whatever the scene; those of a scene's own are in its `strike`. And by which chance one
//! befalls a call.

use super::node::NodeInput;
use super::scene::Scene;
use super::{What, World};
use crate::kernel::clock::{ClockPace, MILLI, SECOND, True};
use crate::kernel::fault::FaultKind;
use crate::kernel::trace::Story;

impl<S: Scene> World<S> {
    /// Whether a fault of calls befalls this one. It draws, and counts what it answers with yes: so it is asked last of all conditions.
    pub(crate) fn befalls(&mut self, fault: FaultKind) -> bool {
        if self.healed.is_some() || self.setup.without.has(fault) {
            return false;
        }
        let Some((_, probability)) = self.frame.calls.iter().find(|(kind, _)| *kind == fault) else {
            return false;
        };
        let befalls = self.rng.chance(*probability);
        if befalls {
            self.tally.faults[fault as usize] += 1;
        }
        befalls
    }

    pub(super) fn schedule_strike(&mut self, kind: usize) {
        let Some((_, in_100_ttls)) = self.frame.faults.get(kind) else { return };
        let mean = (self.per_mille(100_000) as f64 / in_100_ttls) as True;
        self.later(mean, What::Strike(kind as u8));
    }

    /// A fault of the scenario's `kind`-th kind is due.
    pub(super) fn strike(&mut self, kind: usize) {
        if self.healed.is_some() {
            return;
        }
        let Some((fault, _)) = self.frame.faults.get(kind).copied() else { return };
        self.schedule_strike(kind);
        if self.setup.without.has(fault) {
            return;
        }
        let index = self.rng.index(self.nodes.len());
        self.tally.faults[fault as usize] += 1;
        self.trace.fold(fault as u64);
        let of_node = fault.is_of_node();
        self.tell(|world| Story::Fault(of_node.then(|| world.name(index)), fault.about().to_owned()));
        if S::strike(self, fault, index) {
            return;
        }
        match fault {
            FaultKind::Pause => {
                let span = self.rng.span(self.per_mille(1500));
                self.pause(index, span);
            }
            FaultKind::Suspend => self.suspend(index, ClockPace::Suspended),
            FaultKind::Hidden => self.suspend(index, ClockPace::Hidden),
            FaultKind::Frozen => self.suspend(index, ClockPace::Frozen),
            FaultKind::Crash => S::crash(self, index),
            FaultKind::Rate => self.change_rate(index),
            FaultKind::WallJump => self.jump_wall(index, 3_600_000),
            FaultKind::WallDecade => self.jump_wall(index, 315_360_000_000),
            FaultKind::Cut => self.cut(index, false, false, 3000),
            FaultKind::CutRequests => self.cut(index, false, true, 3000),
            FaultKind::CutAnswers => self.cut(index, true, false, 3000),
            FaultKind::Flap => self.cut(index, false, false, 150),
            FaultKind::StoreDown => {
                self.store_down = true;
                self.later(self.per_mille(500), What::StoreUp);
            }
            FaultKind::Stall => {
                self.store_down = true;
                self.at(self.t + self.per_mille(1500), What::StoreUp);
            }
            FaultKind::Throttle => {
                self.throttled = true;
                let span = self.rng.below(self.per_mille(3000));
                self.at(self.t + span, What::StoreUp);
            }
            FaultKind::WritesHang if self.hanging.is_none() => {
                self.hanging = Some(self.t);
                self.at(self.t + self.per_mille(6000), What::WritesGoOn);
            }
            FaultKind::StoreClock => {
                let by = self.rng.below(7200 * SECOND) as i64 - (3600 * SECOND) as i64;
                self.store.jump_clock(by);
            }
            FaultKind::SharedClock => {
                let by_ms = self.rng.below(3_600_000) as i64;
                self.store.jump_clock(by_ms * MILLI as i64);
                self.nodes[0].clock.shift_wall(by_ms);
            }
            FaultKind::Failover => self.fail_over(),
            FaultKind::SpuriousWake => self.deliver(index, NodeInput::Wake),
            // It goes on already.
            FaultKind::WritesHang => {}
            // These befall calls, hints and steps, each by a chance of its own, and never strike.
            FaultKind::RequestLost
            | FaultKind::AnswerLost
            | FaultKind::Slow
            | FaultKind::Zombie
            | FaultKind::Duplicated
            | FaultKind::Refused
            | FaultKind::Denied
            | FaultKind::HintLost
            | FaultKind::HintLate
            | FaultKind::PauseMidStep
            | FaultKind::PauseBeforeEffect
            | FaultKind::LateClaim => {}
            // These are a scene's own: one that makes them has just done so.
            FaultKind::SpuriousHint
            | FaultKind::Deleted
            | FaultKind::RecordDeleted
            | FaultKind::RecordRestored
            | FaultKind::ForcedRelease
            | FaultKind::SameId
            | FaultKind::RecordDamaged
            | FaultKind::Forbidden
            | FaultKind::Reboot
            | FaultKind::Buried
            | FaultKind::Unfit => {}
        }
    }

    fn fail_over(&mut self) {
        let lag = self.rng.below(400 * MILLI);
        let (lost, count) = self.store.fail_over(self.t, lag);
        // What is on its way to the old primary never reaches the new one.
        self.store_term += 1;
        self.store_down = true;
        let span = 10 * MILLI + self.rng.below(self.per_mille(50));
        self.at(self.t + span, What::StoreUp);
        self.tell(|_| Story::Store(format!("{count} writes are lost")));
        S::failed_over(self, lost);
    }

    fn suspend(&mut self, index: usize, pace: ClockPace) {
        let span = self.rng.span(self.per_mille(3000));
        let node = &mut self.nodes[index];
        if node.machine.is_none() || node.held_back.is_some() {
            return;
        }
        node.clock.set_pace(self.t, pace);
        if pace == ClockPace::Frozen {
            node.dim = node.clock.held(self.t);
        }
        if pace == ClockPace::Suspended && self.rng.chance(0.4) {
            let leap = self.rng.below(self.per_mille(3000));
            self.nodes[index].clock.leap(self.t, leap);
        }
        self.pause(index, span);
    }

    /// A machine is paused as a renewal of one of its processes is under way.
    pub(super) fn hide(&mut self, index: usize, life: u32) {
        let node = &self.nodes[index];
        if node.life == life && !node.paused && self.healed.is_none() {
            self.tell(|world| Story::Fault(Some(world.name(index)), FaultKind::Hidden.about().to_owned()));
            self.suspend(index, ClockPace::Hidden);
        }
    }

    fn change_rate(&mut self, index: usize) {
        let off = self.frame.rate;
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
        let offset = S::wall_jump(self, most_ms);
        self.nodes[index].clock.set_wall_offset(offset);
    }

    fn cut(&mut self, index: usize, requests_pass: bool, answers_pass: bool, per_mille: u64) {
        let span = self.rng.span(self.per_mille(per_mille));
        let node = &mut self.nodes[index];
        (node.requests_pass, node.answers_pass) = (requests_pass, answers_pass);
        node.link_turn += 1;
        let turn = node.link_turn;
        self.at(self.t + span, What::HealLink(index as u8, turn));
    }

    pub(super) fn heal_link(&mut self, index: usize, turn: u32) {
        let node = &mut self.nodes[index];
        if node.link_turn != turn {
            return;
        }
        (node.requests_pass, node.answers_pass) = (true, true);
        // A flapping link fails again soon.
        let flaps = self.healed.is_none() && !self.setup.without.has(FaultKind::Flap);
        if flaps && self.frame.has(FaultKind::Flap) && self.rng.chance(0.6) {
            self.tally.faults[FaultKind::Flap as usize] += 1;
            let gap = self.rng.span(self.per_mille(100));
            let down = self.rng.chance(0.5);
            let node = &mut self.nodes[index];
            node.link_turn += 1;
            let turn = node.link_turn;
            self.at(self.t + gap, What::HealLink(index as u8, turn));
            if down {
                let node = &mut self.nodes[index];
                (node.requests_pass, node.answers_pass) = (false, false);
            }
        }
    }
}
