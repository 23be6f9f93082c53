//! The scene of leases and elections: nodes whose users want keys, hold them, pass them on and give them up.

mod chaos;
mod coverage;
mod net;
pub(crate) mod node;
mod phase;
mod process;
pub mod scenario;
mod seat;
mod tick_job;
pub(crate) mod users;

use crate::invariants::answered_once::AnswerLedger;
use crate::invariants::c1::{ClaimQuestions, KeyRequests};
use crate::invariants::l1::Takeovers;
use crate::invariants::l1_tries::RefusedTries;
use crate::invariants::s4::SentClaim;
use crate::invariants::s6::LeaseLapse;
use crate::invariants::s10::OthersActs;
use crate::invariants::ticks::Ticks;
use crate::invariants::turns::Streaks;
use crate::invariants::{self, Rule};
use crate::kernel::clock::True;
use crate::kernel::coverage::Coverage;
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::{Ages, Landed, StoreSpec};
use crate::kernel::rng::Rng;
use crate::kernel::{self, Envelope, Frame, NewProcess, Scene};
use node::{LeaseCall, LeaseNodeState, LeaseStage};
use scenario::LeaseScenario;
use tenure_core::op::{Answer, Op};
use tenure_core::{Command, Fence, Holder, Key, LeaseId, Letter, Notice, Now, StoreError, Tick, Token, Ttl};
use users::seizer::Seizer;

pub(crate) type World = kernel::World<LeasesScene>;
pub(crate) type What = kernel::What<LeasesScene>;

/// What a world of leases has of its own.
pub(crate) struct LeasesScene {
    pub(crate) keys: Vec<Key>,
    pub(crate) seizers: Vec<Option<Seizer>>,
    pub(crate) next_lease: u64,
    /// When mail was written that its holder has not emptied yet, by record.
    pub(crate) mailed: Vec<(Key, True)>,
    /// Letters that were written to holders, by the record that they were written into.
    pub(crate) letters: Vec<(Key, Letter)>,
    /// For each key, what updates wrote lately.
    pub(crate) updates: Vec<Vec<(Fence, i64)>>,
    /// For each node, what its users asked for and have no answer to.
    pub(crate) asked: Vec<AnswerLedger>,
    /// When something was last left to expire.
    pub(crate) lapsed: Option<True>,
    /// For each node, how often it asked the store about what lately.
    pub(crate) key_requests: Vec<KeyRequests>,
    /// For each node, what it has claimed and let lapse.
    pub(crate) claims: Vec<Vec<SentClaim>>,
    pub(crate) lapses: Vec<Vec<LeaseLapse>>,
    /// For each key, when it was last claimed without a record.
    pub(crate) fresh: Vec<True>,
    /// For each key, since when nobody believes in it though someone waits.
    pub(crate) free_since: Vec<Option<True>>,
    /// For each key, since when a claim stands that its process knows of and nobody there wants.
    pub(crate) left_since: Vec<Option<True>>,
    /// For each key, the tries that were refused by its dead holder's claim.
    pub(crate) tried: Vec<RefusedTries>,
    pub(crate) takeovers: Takeovers,
    pub(crate) acts: OthersActs,
    pub(crate) questions: ClaimQuestions,
    pub(crate) turns: Streaks,
    pub(crate) ticks: Ticks,
}

/// What is due in a world of leases.
pub(crate) enum LeaseDue {
    /// A user's write reaches the resource.
    Effect {
        node: u8,
        life: u32,
        task: u8,
        turn: u32,
        key: u8,
        fence: u64,
        order: u64,
    },
    /// A lease that became plain data reaches another node.
    Token(u8, Box<Token>),
    /// Something waits in a process's inbox.
    Inbox(u8, u32),
    Letter,
    Collect,
    /// Someone dies in the calm.
    Death,
    Look,
    /// Who takes a lease away by force goes on.
    Seizer(u16, u32),
    /// By now, someone must not believe any more.
    Acts,
    /// By now, a process has noticed that time was hidden from it.
    Gap(u8, u32),
}

impl Scene for LeasesScene {
    type Scenario = LeaseScenario;
    type Machine = Holder;
    type Own = LeaseNodeState;
    type Input = LeaseCall;
    type Due = LeaseDue;

    const LETTER: char = 'n';

    fn frame(scenario: &LeaseScenario) -> Frame {
        let LeaseScenario { name, about, source, nodes, ttl_ms, rate, wall_off_ms, faults, calls, .. } =
            *scenario;
        let LeaseScenario { chaos, calm, rounds, excused, .. } = *scenario;
        let (ttl, least_nodes) = (Ttl::clamped(ttl_ms), 1);
        Frame {
            name,
            about,
            source,
            nodes,
            least_nodes,
            ttl,
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

    fn store(scenario: &LeaseScenario, rng: &mut Rng) -> StoreSpec {
        let any = StoreSpec { ages: Ages::any(rng), push: rng.chance(0.5), lags: false };
        scenario.store.unwrap_or(any)
    }

    fn new(scenario: &LeaseScenario, nodes: usize) -> LeasesScene {
        let name =
            |n: usize| Key::new(format!("k{n}")).unwrap_or_else(|_| unreachable!("short and not empty"));
        let keys = scenario.keys;
        LeasesScene {
            keys: (0..keys).map(name).collect(),
            seizers: Vec::new(),
            next_lease: 0,
            mailed: Vec::new(),
            letters: Vec::new(),
            updates: vec![Vec::new(); keys],
            asked: vec![AnswerLedger::default(); nodes],
            lapsed: None,
            key_requests: vec![KeyRequests::default(); nodes],
            claims: vec![Vec::new(); nodes],
            lapses: vec![Vec::new(); nodes],
            fresh: vec![0; keys],
            free_since: vec![None; keys],
            left_since: vec![None; keys],
            tried: vec![RefusedTries::default(); keys],
            takeovers: Takeovers::default(),
            acts: OthersActs::default(),
            questions: ClaimQuestions::default(),
            turns: Streaks::default(),
            ticks: Ticks::default(),
        }
    }

    fn own(scenario: &LeaseScenario, index: usize) -> LeaseNodeState {
        LeaseNodeState { boot: if scenario.clones { 0 } else { index as u64 }, ..LeaseNodeState::default() }
    }

    fn set_up(world: &mut World) {
        world.store.limit(String::new(), users::LIMIT);
    }

    fn begun(world: &mut World) {
        let users = world.scenario.users;
        if users.mail > 0 {
            world.later(world.per_mille(users.mail), What::Own(LeaseDue::Letter));
        }
        if users.gc > 0 {
            world.later(world.per_mille(users.gc), What::Own(LeaseDue::Collect));
        }
    }

    fn process(world: &mut World, index: usize, life: u32, instance: u64) -> Option<NewProcess<LeasesScene>> {
        world.new_process(index, life, instance)
    }

    fn booted(world: &mut World, index: usize) {
        world.booted(index);
    }

    fn ended(world: &mut World, index: usize) {
        world.ended(index);
    }

    fn input(world: &mut World, index: usize, input: LeaseCall) {
        match input {
            LeaseCall::User(task, turn) => world.user(index, usize::from(task), turn),
            LeaseCall::Token(token) => world.token_came(index, *token),
            LeaseCall::Stop => world.stop_process(index),
            LeaseCall::Lead(key) => world.lead(index, usize::from(key)),
            LeaseCall::Candidate(key, turn) => world.wake_candidate(index, usize::from(key), turn),
            LeaseCall::Command(command) => {
                if let Command::Lapse(lease) = *command {
                    world.note_lapse(index, lease);
                }
                world.command(index, *command);
            }
        }
    }

    fn commanded(world: &mut World, index: usize, command: &Command) {
        world.scene.asked[index].asks(command);
        if matches!(command, Command::Lapse(_)) {
            world.scene.lapsed = Some(world.t);
        }
    }

    fn told(world: &mut World, index: usize, now: Now, notice: Notice) {
        world.told(index, now, notice);
    }

    fn acted(world: &mut World, index: usize, now: Tick, wake_at: Option<Tick>) {
        world.check(Rule::S5, invariants::s5::told_in_time(&world.nodes[index], now, wake_at));
    }

    fn missed_time(world: &mut World, index: usize) {
        let node = &mut world.nodes[index];
        node.own.gap = Some(node.clock.held(world.t));
        let due = LeaseDue::Gap(index as u8, node.life);
        world.later(world.per_mille(300), What::Own(due));
    }

    fn sent(world: &mut World, index: usize, now: Now, op: &Op) {
        world.check_sent(index, now, op);
        world.check_key_requests(index, op);
    }

    fn delay(world: &mut World, envelope: &mut Envelope) -> True {
        world.delay(envelope)
    }

    fn landed(world: &mut World, envelope: &Envelope, key: &Key, landed: &Landed, begins: bool) {
        world.tenure_landed(envelope, key, landed, begins);
    }

    fn performed(world: &mut World, envelope: &Envelope, result: &Result<Answer, StoreError>) {
        world.note_refusal(envelope, result);
    }

    fn answered(world: &mut World, index: usize, envelope: &Envelope, result: &Result<Answer, StoreError>) {
        world.note_answer(index, envelope, result);
    }

    fn listens(world: &World, index: usize, key: &Key) -> bool {
        let ours = world.key_index(key);
        // Whatever holders are attached to concerns everyone.
        let waits = |view: &node::LeaseView| {
            view.stage == LeaseStage::Wanted && ours.is_none_or(|key| view.key == key)
        };
        world.nodes[index].own.views.iter().any(waits)
    }

    fn strike(world: &mut World, fault: FaultKind, index: usize) -> bool {
        world.strike_leases(fault, index)
    }

    fn crash(world: &mut World, index: usize) {
        world.crash_or_stop(index);
    }

    fn wall_jump(world: &mut World, most_ms: u64) -> i64 {
        let off = if world.rng.chance(0.3) { world.scenario.wall_off_ms } else { most_ms };
        let offset = world.rng.between(0, 2 * off) as i64 - off as i64;
        if world.scenario.ahead { offset.abs() } else { offset }
    }

    fn writes_hung(world: &mut World, since: True) {
        world.check_tries(since);
    }

    fn chaos_begins(world: &mut World) {
        world.scene.takeovers.clear();
        world.scene.turns.clear();
        world.scene.tried.iter_mut().for_each(RefusedTries::clear);
    }

    fn calm_begins(world: &mut World) {
        world.scene.free_since.fill(None);
        world.at(world.t + world.per_mille(100), What::Own(LeaseDue::Look));
        if world.scenario.deaths {
            world.later(world.per_mille(3000), What::Own(LeaseDue::Death));
        }
    }

    fn calm_ends(world: &mut World) {
        if world.rounds_left == 0 {
            world.check_someone_leads();
        }
    }

    fn due(world: &mut World, due: LeaseDue) {
        match due {
            LeaseDue::Effect { node, life, task, turn, key, fence, order } => {
                let refused = world.checks.resource.refused;
                let found = world.checks.resource.write(usize::from(key), Fence(fence), order);
                if world.checks.resource.refused > refused {
                    world.tally.coverage(Coverage::RefusedByResource);
                }
                world.check(Rule::P2, found);
                if world.nodes[usize::from(node)].life == life {
                    world.effect_is_over(usize::from(node), usize::from(task), turn);
                }
            }
            LeaseDue::Token(index, token) => {
                world.deliver(usize::from(index), kernel::NodeInput::Own(LeaseCall::Token(token)));
            }
            LeaseDue::Inbox(index, life) => world.look_into_inbox(usize::from(index), life),
            LeaseDue::Letter => world.letter(),
            LeaseDue::Collect => world.collect(),
            LeaseDue::Death => world.death(),
            LeaseDue::Look => world.look(),
            LeaseDue::Seizer(slot, turn) => world.seizer_goes_on(usize::from(slot), turn),
            LeaseDue::Acts => world.check_acts(),
            LeaseDue::Gap(index, life) => world.look_for_gap(usize::from(index), life),
        }
    }

    fn takeovers(self) -> Vec<u32> {
        self.takeovers.taken
    }
}

impl World {
    pub(crate) fn new_lease(&mut self) -> LeaseId {
        self.scene.next_lease += 1;
        LeaseId(self.scene.next_lease)
    }

    /// Which of the world's keys it is, if it is one.
    pub(crate) fn key_index(&self, key: &Key) -> Option<usize> {
        self.scene.keys.iter().position(|known| known == key)
    }
}
