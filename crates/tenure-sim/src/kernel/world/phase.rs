//! Chaos and calm by turns: faults go on for a while, everything is healed, and then everything must go on as it should.

use super::scene::Scene;
use super::{What, World};
use crate::kernel::trace::Story;

impl<S: Scene> World<S> {
    pub(super) fn begin_chaos(&mut self) {
        self.healed = None;
        for kind in 0..self.frame.faults.len() {
            self.schedule_strike(kind);
        }
        S::chaos_begins(self);
        self.at(self.t + self.per_mille(self.frame.chaos * 1000), What::Phase);
    }

    pub(super) fn turn_phase(&mut self) {
        if self.healed.is_none() {
            return self.begin_calm();
        }
        self.rounds_left -= 1;
        S::calm_ends(self);
        if self.rounds_left == 0 {
            self.over = true;
        } else {
            self.begin_chaos();
        }
    }

    /// Everything works from now on; only what is under way already may still arrive late.
    fn begin_calm(&mut self) {
        let text = format!("everything is healed; the store is {:?}", self.spec);
        self.tell(|_| Story::Fault(None, text));
        S::heals(self);
        (self.store_down, self.throttled, self.hanging) = (false, false, None);
        S::mend(self);
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            (node.requests_pass, node.answers_pass) = (true, true);
            node.link_turn += 1;
            self.resume(index);
            if self.nodes[index].machine.is_none() {
                self.boot(index);
            }
        }
        self.healed = Some(self.t);
        // A process that was let go on may have met a last fault in that very step.
        for index in 0..self.nodes.len() {
            self.resume(index);
        }
        S::calm_begins(self);
        self.at(self.t + self.per_mille(self.frame.calm * 1000), What::Phase);
    }
}
