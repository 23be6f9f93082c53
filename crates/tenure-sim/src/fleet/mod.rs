//! The scene of fleets: workers, units and those who change them from outside. Users are bodies that work on units.

mod ahead;
pub(crate) mod aim;
mod bodies;
mod calm;
mod chaos;
mod force;
mod hands;
mod heard;
mod invariants;
mod net;
mod node;
mod outside;
mod process;
mod scenario;
mod spoil;
mod telling;
mod unfit;
mod world;

use crate::invariants::Rule;
use crate::kernel::clock::{MILLI, SECOND, True};
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::{Ages, Landed, StoreSpec};
use crate::kernel::rng::Rng;
use crate::kernel::{self, Envelope, Frame, NewProcess, Scene};
use aim::{AimedFault, Blow, PlannedChange};
use node::{FleetCall, FleetNodeState};
use scenario::FleetScenario;
pub(crate) use scenario::all as scenarios;
use spoil::Spoil;
use std::collections::BTreeMap;
use telling::Doom;
use tenure_core::fleet::{FleetName, FleetNotice, FleetWorker};
use tenure_core::op::{Answer, Op};
use tenure_core::{Fence, Key, Now, Record, StoreError, Tick, Ttl};
use unfit::WorkerRefusal;
use world::Truth;

pub(crate) type World = kernel::World<FleetScene>;
pub(crate) type What = kernel::What<FleetScene>;
pub(crate) type Node = kernel::Node<FleetScene>;

/// What a fleet's world has of its own.
pub(crate) struct FleetScene {
    pub(crate) fleet: FleetName,
    pub(crate) board: Key,
    pub(crate) units: BTreeMap<Key, Truth>,
    pub(crate) next_unit: usize,
    pub(crate) next_point: i64,
    /// A claim of a process that is gone took effect late: for a ttl, it counts as a worker for whoever lists.
    pub(crate) haunted: bool,
    /// The planner is to die when it tells its next plan.
    pub(crate) doom: Doom,
    /// What is aimed at a step of the planner.
    pub(crate) aim: Option<AimedFault>,
    /// One whose wall clock was set ahead, which dies once the planner has renewed.
    ahead: Option<(usize, u32)>,
    /// What, if that is chosen and not drawn.
    pub(crate) aimed: Option<(PlannedChange, u64, Blow)>,
    /// How the next parts are spoilt, and how many.
    pub(crate) spoil: Option<(Spoil, u64)>,
    /// The next unit that is moved is withdrawn or asked for meanwhile.
    pub(crate) catches: bool,
    /// Until when letters get lost.
    pub(crate) letters_lost_until: True,
    /// When the store will have done what it has taken on, at the rate of its capacity.
    pub(crate) booked: True,
    /// Which worker the store does not let plan.
    pub(crate) unfit: Option<WorkerRefusal>,
    /// Who planned once and does not by now, by their sessions, and since when.
    pub(crate) deposed: BTreeMap<Key, True>,
    /// When somebody last began to list the units.
    pub(crate) listed: True,
    /// Somebody outside has changed something, and could not raise the board: it is raised once it is mended.
    pub(crate) untold: bool,
    /// When the board was raised last.
    pub(crate) raised: True,
    /// By then everything must be as planned, and stay so.
    pub(crate) settled_by: True,
    /// How long units of the dead lay idle, in hundredths of a ttl.
    pub(crate) takeovers: Vec<u32>,
    /// Pages that were listed while all was settled, and for how long it was.
    pub(crate) settled_lists: u64,
    /// How often the board was raised then, where there is a unit that nobody can write.
    pub(crate) settled_raises: u64,
    /// Requests that were refused then, and not for a moment, but for what those write who have the unit: as forbidden, and as the
    /// record is damaged.
    pub(crate) settled_refusals: [u64; 2],
    pub(crate) settled_time: True,
}

/// What is due in a fleet's world.
pub(crate) enum FleetDue {
    /// A body's write reaches the resource.
    Effect {
        unit: u32,
        fence: u64,
        order: u64,
    },
    /// This process of a worker dies.
    Dies(u8, u32),
    /// The same, whose wall clock was set ahead, once the planner renews, which dies with it.
    DiesAhead(u8, u32),
    /// A ttl after the holder of a unit under this fence was told to stop, by force.
    Seize(u32, u64),
    /// Somebody writes the record of a unit that nobody has, once more, and so many times after that.
    Produce(u32, u32),
    Churn,
    Disturbance,
    Look,
}

impl Scene for FleetScene {
    type Scenario = FleetScenario;
    type Machine = FleetWorker;
    type Own = FleetNodeState;
    type Input = FleetCall;
    type Due = FleetDue;

    const LETTER: char = 'w';

    fn frame(scenario: &FleetScenario) -> Frame {
        let FleetScenario { name, about, nodes, rate, wall_off_ms, faults, calls, .. } = *scenario;
        let FleetScenario { chaos, calm, rounds, excused, .. } = *scenario;
        Frame {
            name,
            about,
            source: "",
            nodes,
            least_nodes: 2,
            ttl: Ttl::clamped(10_000),
            rate,
            wall_off_ms,
            faults,
            calls,
            chaos,
            calm,
            rounds,
            excused,
        }
    }

    fn store(scenario: &FleetScenario, rng: &mut Rng) -> StoreSpec {
        let any = StoreSpec { ages: Ages::any(rng), push: rng.chance(0.5), lags: rng.chance(0.5) };
        scenario.store.unwrap_or(any)
    }

    fn new(_: &FleetScenario, _nodes: usize) -> FleetScene {
        let fleet = FleetName::new("f").unwrap_or_else(|_| unreachable!("short and not empty"));
        let board = fleet.board().unwrap_or_else(|_| unreachable!("the name was checked"));
        FleetScene {
            fleet,
            board,
            units: BTreeMap::new(),
            next_unit: 0,
            next_point: 0,
            haunted: false,
            doom: Doom::None,
            aim: None,
            ahead: None,
            aimed: None,
            spoil: None,
            catches: false,
            letters_lost_until: 0,
            booked: 0,
            unfit: None,
            deposed: BTreeMap::new(),
            listed: 0,
            untold: false,
            raised: 0,
            settled_by: True::MAX,
            takeovers: Vec::new(),
            settled_lists: 0,
            settled_raises: 0,
            settled_refusals: [0, 0],
            settled_time: 0,
        }
    }

    fn own(scenario: &FleetScenario, _index: usize) -> FleetNodeState {
        FleetNodeState::new(FleetScene::frame(scenario).ttl)
    }

    fn set_up(world: &mut World) {
        for _ in 0..world.scenario.units {
            world.create_unit();
        }
    }

    fn start(world: &mut World, index: usize) {
        let span = world.rng.below(world.per_mille(200));
        world.at(span, What::Restart(index as u8, 0));
    }

    fn process(world: &mut World, index: usize, life: u32, instance: u64) -> Option<NewProcess<FleetScene>> {
        world.new_process(index, life, instance)
    }

    fn booted(world: &mut World, index: usize) {
        world.disturb_by_plan();
        world.command(index, tenure_core::fleet::FleetCommand::Join);
    }

    fn ended(world: &mut World, index: usize) {
        world.ended(index);
    }

    fn input(world: &mut World, index: usize, input: FleetCall) {
        match input {
            FleetCall::Turn(lease, turn) => world.turn(index, lease, turn),
            FleetCall::Ends(lease) => world.ends(index, lease),
            FleetCall::Leave => world.leave(index),
            FleetCall::Stop => world.stop(index),
        }
    }

    fn told(world: &mut World, index: usize, now: Now, notice: FleetNotice) {
        world.heard(index, now, notice);
    }

    fn acted(world: &mut World, index: usize, now: Tick, wake_at: Option<Tick>) {
        world.check(Rule::S5, invariants::s5::told_in_time(&world.nodes[index], now, wake_at));
    }

    fn sent(world: &mut World, index: usize, now: Now, op: &Op) {
        world.check(Rule::S6, invariants::s6::sent(&world.nodes[index], now.held, op));
        if world.t > world.scene.settled_by {
            world.count_settled(index, op);
        }
    }

    fn delay(world: &mut World, envelope: &mut Envelope) -> True {
        world.delay(envelope)
    }

    fn lag(world: &mut World, _: &Envelope) -> True {
        world.lag()
    }

    fn has_capacity(world: &mut World, envelope: &Envelope) -> bool {
        world.has_capacity(envelope)
    }

    fn denies(world: &World, envelope: &Envelope) -> bool {
        world.is_denied(envelope)
    }

    fn landed(world: &mut World, envelope: &Envelope, key: &Key, landed: &Landed, begins: bool) {
        world.write_landed(envelope, key, landed, begins);
    }

    fn performed(world: &mut World, envelope: &Envelope, result: &Result<Answer, StoreError>) {
        world.note_listing(envelope, result);
        world.count_refused(envelope, result);
        world.outlive_aim(envelope);
    }

    fn listens(world: &World, index: usize, _key: &Key) -> bool {
        world.nodes[index].machine.is_some()
    }

    fn strike(world: &mut World, fault: FaultKind, index: usize) -> bool {
        world.strike_fleet(fault, index)
    }

    fn crash(world: &mut World, index: usize) {
        world.crash_or_leave(index);
    }

    fn wall_jump(world: &mut World, _most_ms: u64) -> i64 {
        let off = (world.scenario.wall_off_ms * MILLI).min(3600 * SECOND) / MILLI;
        world.rng.between(0, 2 * off) as i64 - off as i64
    }

    fn mend(world: &mut World) {
        world.mend();
    }

    fn failed_over(world: &mut World, lost: BTreeMap<Key, Option<Record>>) {
        world.unlearn(lost);
    }

    fn chaos_begins(world: &mut World) {
        world.scene.settled_by = True::MAX;
        if world.scenario.churn > 0 {
            world.later(world.per_mille(world.scenario.churn), What::Own(FleetDue::Churn));
        }
    }

    fn heals(world: &mut World) {
        world.healed = Some(world.t);
        world.scene.units.values_mut().for_each(|truth| truth.tries = (0, 0));
    }

    fn calm_begins(world: &mut World) {
        world.begin_to_settle();
        world.at(world.t + world.per_mille(100), What::Own(FleetDue::Look));
        world.at(world.t + world.per_mille(12_000), What::Own(FleetDue::Disturbance));
    }

    fn calm_ends(world: &mut World) {
        world.check_calm();
    }

    fn due(world: &mut World, due: FleetDue) {
        match due {
            FleetDue::Effect { unit, fence, order } => {
                let found = world.checks.resource.write(unit as usize, Fence(fence), order);
                world.check(Rule::P2, found);
            }
            FleetDue::Seize(unit, fence) => world.vacate_by_force(unit as usize, Fence(fence)),
            FleetDue::Dies(index, life) => world.dies(usize::from(index), life),
            FleetDue::DiesAhead(index, life) => world.scene.ahead = Some((usize::from(index), life)),
            FleetDue::Produce(unit, left) => world.produce(unit, left),
            FleetDue::Churn => world.churn(),
            FleetDue::Disturbance => world.disturbance(),
            FleetDue::Look => world.look(),
        }
    }

    fn takeovers(self) -> Vec<u32> {
        self.takeovers
    }
}
