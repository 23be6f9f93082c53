//! What goes wrong in a world of sections.

use super::world::{Input, What, World};
use crate::clock::{Pace, SECOND, True};
use crate::fault::Fault;
use tenure_core::op::Event;

impl World {
    /// Whether a fault befalls a call.
    pub(super) fn befalls(&mut self, fault: Fault) -> bool {
        let chance =
            self.spec.calls.iter().find(|(kind, _)| *kind == fault).map_or(0.0, |(_, chance)| *chance);
        let befalls = !self.calm && self.rng.chance(chance) && !self.without.has(fault);
        self.faults[fault as usize] += u64::from(befalls);
        befalls
    }

    pub(super) fn schedule_strike(&mut self, kind: usize) {
        let (_, in_a_hundred) = self.spec.faults[kind];
        let mean = self.spans(100) as f64 / in_a_hundred;
        self.later(mean as True, What::Strike(kind));
    }

    pub(super) fn strike(&mut self, kind: usize) {
        if self.calm {
            return;
        }
        self.schedule_strike(kind);
        let (fault, _) = self.spec.faults[kind];
        if self.without.has(fault) {
            return;
        }
        self.faults[fault as usize] += 1;
        let (t, index) = (self.t, self.rng.index(self.nodes.len()));
        let span = self.rng.span(self.spans(1));
        self.tell(|| format!("n{index} ** {}", fault.about()));
        match fault {
            Fault::Crash if self.spec.asks && self.rng.chance(0.4) => self.stop(index),
            Fault::Crash => self.kill(index),
            Fault::Pause => self.pause(index, span),
            Fault::Suspend => {
                if self.nodes[index].machine.is_some() && self.nodes[index].held_back.is_none() {
                    self.nodes[index].clock.set_pace(t, Pace::Suspended);
                    if self.rng.chance(0.4) {
                        let leap = self.rng.below(self.spans(3));
                        self.nodes[index].clock.leap(t, leap);
                    }
                    self.pause(index, span * 3);
                }
            }
            Fault::Rate => {
                let rate = self.rng.between(900_000, 1_100_000);
                let node = &mut self.nodes[index];
                node.clock.set_rate(t, rate);
                if let Some(at) = node.wake_at {
                    let (when, life) = (node.clock.when(at), node.life);
                    self.at(when, What::Wake(index, life));
                }
            }
            Fault::WallJump | Fault::WallDecade => {
                let most: i64 = if fault == Fault::WallJump { 3_600_000 } else { 315_360_000_000 };
                let off = self.rng.between(0, 2 * most as u64) as i64 - most;
                self.nodes[index].clock.set_wall_offset(off);
            }
            Fault::StoreClock => {
                let by = self.rng.between(0, 7200 * SECOND) as i64 - 3600 * SECOND as i64;
                self.store.jump_clock(by);
                self.anchor.clock_was_set();
            }
            _ => self.deliver(index, Input::Event(Event::Wake)),
        }
    }
}
