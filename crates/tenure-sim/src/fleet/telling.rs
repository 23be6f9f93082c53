//! The planner's end in the midst of telling. It dies when it has sent what the others are to do, and that reaches the store when the
//! next planner has told something else.

use super::{FleetDue, FleetScene, What, World};
use crate::invariants::Rule;
use crate::kernel::Envelope;
use crate::kernel::clock::{MILLI, True};
use tenure_core::fleet::planner;
use tenure_core::{Key, Record};

/// How far the planner's end is.
pub(crate) enum Doom {
    None,
    /// It dies when it next tells somebody something.
    Next,
    /// This process of this worker has told others so much, which has not arrived.
    Sent(usize, u32, Vec<Envelope>),
}

impl FleetScene {
    /// Whether `key` is some worker's part of a plan.
    pub(super) fn is_part(&self, key: &Key) -> bool {
        key.as_str().starts_with(&self.fleet.plan_prefix())
    }
}

impl World {
    /// How much longer it takes to tell a worker its part. What a planner that is to die has sent arrives later.
    pub(super) fn delay_part(&mut self, envelope: &Envelope) -> True {
        let (index, life) = (envelope.node, envelope.life);
        let late = envelope.late();
        match &mut self.scene.doom {
            Doom::Next => {
                self.scene.doom = Doom::Sent(index, life, vec![late]);
                self.at(self.t, What::Own(FleetDue::Dies(index as u8, life)));
            }
            Doom::Sent(sender, its, sent) if (*sender, *its) == (index, life) => sent.push(late),
            _ => return self.rng.below(self.scenario.part_ms * MILLI),
        }
        self.per_mille(20_000)
    }

    /// Somebody writes to the board: if it is another planner, which tells its plan, what the one before has sent arrives just then.
    pub(super) fn release_parts(&mut self, index: usize) -> True {
        let is_told = self.planner() == Some(index);
        match std::mem::replace(&mut self.scene.doom, Doom::None) {
            Doom::Sent(sender, _, sent) if sender != index && is_told => {
                for envelope in sent {
                    self.at(self.t + MILLI / 100, What::Request(Box::new(envelope)));
                }
            }
            doom => self.scene.doom = doom,
        }
        0
    }

    /// The board was written: whoever planned by it before, and does not by now, plans no more.
    pub(super) fn depose(&mut self, before: Option<&Record>, after: &Record) {
        let (before, after) = (before.and_then(planner), planner(after));
        let (before, after) = (before.map(|who| who.session), after.map(|who| who.session));
        if before != after && self.scene.unfit.is_some() {
            // Whoever can't plan gives that up, and another takes its place.
            self.disturb_by_plan();
        }
        if let Some(before) = before.filter(|before| after.as_ref() != Some(before)) {
            self.scene.deposed.insert(before, self.t);
        }
        after.map(|after| self.scene.deposed.remove(&after));
    }

    /// A worker follows the plan of the worker with this session. All have looked at the board since that one was deposed, if it was so
    /// for some more than an interval.
    pub(super) fn obeys(&mut self, index: usize, planner: Option<&Key>) {
        let others = planner.filter(|planner| **planner != self.nodes[index].session);
        let deposed = others.and_then(|planner| self.scene.deposed.get(planner).copied());
        let late = deposed.map(|deposed| deposed.max(self.healed.unwrap_or(self.t)) + self.bound(400));
        if late.is_some_and(|late| self.t > late) && self.board_is_sound() {
            let text = format!("w{index} obeys {planner:?}, who does not plan any more");
            self.check(Rule::L2, Err(text));
        }
    }

    pub(super) fn dies(&mut self, index: usize, life: u32) {
        if self.nodes[index].life == life && self.nodes[index].acts() {
            self.kill(index);
            self.deaths_settle();
            // What it was to have told of those who died before, the next planner tells.
            let (t, bound) = (self.t, self.deaths_bound(self.ttl));
            for idle in self.scene.units.values_mut().filter_map(|truth| truth.idle.as_mut()) {
                idle.bound = idle.bound.max(t + bound - idle.since);
            }
        }
    }
}
