//! Faults that are aimed at one step of the planner: each request by which it lists, or writes a part, the board or another worker's session.
//! It dies before the request is sent or as soon as the store has done it, or is cut off from the store with that very request.

use super::node::FleetCall;
use super::scenario::{FleetScenario, STEPS};
use super::{FleetDue, What, World};
use crate::invariants::Violation;
use crate::kernel::clock::{MILLI, True};
use crate::kernel::coverage::Coverage;
use crate::kernel::registers::{Ages, StoreSpec};
use crate::kernel::trace::Story;
use crate::kernel::{Envelope, NodeInput, WorldSetup};
use tenure_core::op::{Op, OpId};

/// What the planner is to plan for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedChange {
    /// Units that come.
    Units,
    /// The death of a worker.
    Death,
    /// A worker that leaves.
    Leave,
}

/// What happens at the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blow {
    DiesBefore,
    DiesAfter,
    /// After this request, so much does not pass for so many thousandths of a ttl.
    Cut {
        requests_pass: bool,
        answers_pass: bool,
        per_mille: u64,
    },
}

/// A fault that waits for its step.
#[derive(Debug)]
pub(crate) struct AimedFault {
    node: usize,
    life: u32,
    /// So many steps come before.
    left: u64,
    blow: Blow,
    /// The request of the step, once it was sent.
    pub(crate) fell: Option<OpId>,
}

impl World {
    /// Something changes, and the planner meets `blow` at so many steps from now.
    pub(super) fn strike_planner(&mut self, up: &[usize], change: PlannedChange, left: u64, blow: Blow) {
        let Some(node) = self.planner() else { return };
        let others: Vec<usize> = up.iter().copied().filter(|index| *index != node).collect();
        let life = self.nodes[node].life;
        self.scene.aim = Some(AimedFault { node, life, left, blow, fell: None });
        let other = self.rng.index(others.len());
        match (change, others.get(other)) {
            (PlannedChange::Death, Some(index)) => {
                self.kill(*index);
                self.deaths_settle();
            }
            (PlannedChange::Leave, Some(index)) => self.deliver(*index, NodeInput::Own(FleetCall::Leave)),
            _ => {
                // So many that some are for others.
                (0..4).for_each(|_| self.create_unit());
                self.change_units();
            }
        }
    }

    /// The planner dies at some step, or at the one that is chosen.
    pub(super) fn kill_at_step(&mut self, up: &[usize]) {
        let change = [PlannedChange::Units, PlannedChange::Death, PlannedChange::Leave][self.rng.index(3)];
        let blow = [Blow::DiesBefore, Blow::DiesAfter][self.rng.index(2)];
        let drawn = (change, self.rng.below(16), blow);
        let (change, left, blow) = self.scene.aimed.unwrap_or(drawn);
        self.strike_planner(up, change, left, blow);
    }

    /// The planner lives, and is cut off from the store in the midst of planning: for a moment, or for so long that others take its place.
    pub(super) fn cut_planner_off(&mut self, up: &[usize]) {
        let (requests_pass, answers_pass) = [(false, false), (true, false), (false, true)][self.rng.index(3)];
        let per_mille = [400, 1300, 2500][self.rng.index(3)];
        let left = self.rng.below(12);
        let blow = Blow::Cut { requests_pass, answers_pass, per_mille };
        self.strike_planner(up, PlannedChange::Units, left, blow);
    }

    /// A request is sent: if it is the step that is aimed at, or one of a planner that died before it, how much later it arrives.
    pub(super) fn meet_aim(&mut self, envelope: &Envelope) -> True {
        let is_step = self.is_planners_step(envelope);
        let Some(aim) = &mut self.scene.aim else { return 0 };
        let (node, life, blow) = (aim.node, aim.life, aim.blow);
        if (node, life) != (envelope.node, envelope.life) {
            return 0;
        }
        // Of a process that is dead by then, nothing is sent.
        let never = self.ttl.millis() * MILLI * 10_000;
        if aim.fell.is_some() {
            return if blow == Blow::DiesBefore { never } else { 0 };
        }
        if !is_step {
            return 0;
        }
        if let Some(left) = aim.left.checked_sub(1) {
            aim.left = left;
            return 0;
        }
        aim.fell = Some(envelope.id);
        self.tally.coverage(Coverage::PlannerStruck);
        match blow {
            Blow::DiesBefore => {
                self.at(self.t, What::Own(FleetDue::Dies(node as u8, life)));
                never
            }
            Blow::DiesAfter => 0,
            Blow::Cut { requests_pass, answers_pass, per_mille } => {
                self.cut_for(node, (requests_pass, answers_pass), per_mille);
                0
            }
        }
    }

    /// The store has done what was asked: if that was the step, whoever asked dies.
    pub(super) fn outlive_aim(&mut self, envelope: &Envelope) {
        let Some(AimedFault { node, life, blow: Blow::DiesAfter, fell: Some(id), .. }) = self.scene.aim
        else {
            return;
        };
        if (node, life, id) == (envelope.node, envelope.life, envelope.id) {
            self.dies(node, life);
        }
    }

    fn is_planners_step(&self, envelope: &Envelope) -> bool {
        match &envelope.op {
            Op::List { .. } => !envelope.urgent,
            Op::Write(write) => {
                let own = write.key == self.nodes[envelope.node].session;
                !own && !self.scene.units.contains_key(&write.key)
            }
            Op::Read(_) | Op::ReadMany(..) => false,
        }
    }

    fn cut_for(&mut self, index: usize, (requests_pass, answers_pass): (bool, bool), per_mille: u64) {
        let span = self.per_mille(per_mille);
        let node = &mut self.nodes[index];
        (node.requests_pass, node.answers_pass) = (requests_pass, answers_pass);
        node.link_turn += 1;
        let turn = node.link_turn;
        self.at(self.t + span, What::HealLink(index as u8, turn));
        self.tell(|world| {
            let what = format!("is cut off ({requests_pass}, {answers_pass}) for {per_mille} ‰");
            Story::Fault(Some(world.name(index)), what)
        });
        // Its session ends for it and for the others, and it comes back as whoever joins.
        let noticed = self.deaths_bound(self.ttl).max(self.bound(1400));
        self.disturb(span + noticed + self.plan_bound());
    }
}

/// The planner dies before, or else after, each step of planning for `change` and telling of it, one after the other, as long as there is one: in the
/// same world each time, up to that step. Says how many there are. So many `lookers` are told of a plan by the board, and the others by letters.
///
/// # Errors
/// The promise that was broken.
pub fn deaths_at_each_step(
    lookers: usize,
    push: bool,
    change: PlannedChange,
    before: bool,
) -> Result<u64, Violation> {
    let store = Some(StoreSpec { ages: Ages::Fine, push, lags: true });
    let scenario = FleetScenario { store, lookers, calm: 20, ..STEPS };
    let blow = if before { Blow::DiesBefore } else { Blow::DiesAfter };
    let mut left = 0;
    loop {
        let mut world = World::new(scenario, WorldSetup { seed: 7, ..WorldSetup::default() });
        world.scene.aimed = Some((change, left, blow));
        world.run(u64::MAX);
        if let Some(broken) = world.checks.broken {
            return Err(broken);
        }
        if world.tally.coverage[Coverage::PlannerStruck as usize] == 0 {
            return Ok(left);
        }
        left += 1;
    }
}
