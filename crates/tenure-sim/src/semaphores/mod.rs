//! The scene of semaphores: processes whose users hold permits, wait for them in queues, and give them up.

mod calm;
mod hands;
mod room;
mod scenario;
mod users;

use crate::invariants::answered_once::AnswerLedger;
use crate::invariants::l5::{self, Overdue};
use crate::invariants::s8::{self, BelievedPermits, Grants};
use crate::invariants::{Rule, l6};
use crate::kernel::clock::True;
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::{Ages, Landed, StoreSpec};
use crate::kernel::rng::Rng;
use crate::kernel::{self, Envelope, Frame, NewProcess, NodeInput, Scene};
use crate::leases::node::Heartbeat;
use room::RecordRoom;
pub(crate) use scenario::SCENARIOS;
use scenario::SemaphoreScenario;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tenure_core::op::{Hint, Op};
use tenure_core::semaphore::{self, SemaphoreLedger};
use tenure_core::{
    Command, Fence, Holder, HolderId, Host, Identity, Key, LeaseId, Metadata, Nonce, Notice, Now, Record,
    Rules, Tick, Ttl,
};
use users::{PermitActivity, PermitLapse, PermitView};

type World = kernel::World<SemaphoresScene>;
type What = kernel::What<SemaphoresScene>;
type Node = kernel::Node<SemaphoresScene>;

const TTL_MS: u64 = 10_000;

/// What a world of semaphores has of its own.
pub(crate) struct SemaphoresScene {
    keys: Vec<Key>,
    grants: Vec<Grants>,
    room: Vec<RecordRoom>,
    last_lease: u64,
    /// Grants whose records were changed by hand: their holders may believe in them for a while.
    behind: BTreeSet<(usize, Fence)>,
    /// Claims that somebody has put back, granted or not: their processes may not know of them.
    put_back: BTreeSet<Nonce>,
    /// Claims that were granted, and whose processes have not told their users.
    untold: Overdue<Nonce>,
    /// Claims of the dead, each with one who lives and waits behind it.
    dead: Overdue<(Nonce, Nonce)>,
    /// The same of claims that their living processes don't know of: somebody has put them back.
    strays: Overdue<(Nonce, Nonce)>,
    /// Users who wait for an answer that must come soon.
    late: BTreeMap<LeaseId, True>,
    /// For each node, what its users asked for and have no answer to.
    asked: Vec<AnswerLedger>,
}

/// What is known of a process and its users.
#[derive(Default)]
pub(crate) struct SemaphoreNodeState {
    tasks: Vec<(PermitActivity, u32)>,
    views: BTreeMap<LeaseId, PermitView>,
    session_until: Tick,
    /// The fence of the process's last session.
    session_fence: Fence,
    /// It has asked for another one since.
    session_claimed: bool,
    /// Somebody has put an older copy of its session's record back then, and no write of the process over that has shown what became of it.
    session_restored: Option<True>,
    /// That session of it was ended by others, and then put back as it was before: they take out its claims, whatever it writes there.
    session_revived: Option<Fence>,
    session_deadline: Option<Tick>,
    /// The last writes of its session that took effect.
    heartbeats: VecDeque<Heartbeat>,
    /// Fences that users were told of.
    told: BTreeSet<(usize, Fence)>,
    lapses: Vec<PermitLapse>,
}

/// What is due in a world of semaphores.
pub(crate) enum SemaphoreDue {
    Look,
    Death,
    Collect,
}

/// What reaches a process from its users.
pub(crate) enum SemaphoreCall {
    /// A task's turn.
    Turn(u8, u32),
}

impl Scene for SemaphoresScene {
    type Scenario = SemaphoreScenario;
    type Machine = Holder;
    type Own = SemaphoreNodeState;
    type Input = SemaphoreCall;
    type Due = SemaphoreDue;

    const LETTER: char = 'n';

    fn frame(scenario: &SemaphoreScenario) -> Frame {
        let SemaphoreScenario { name, about, nodes, wall_off_ms, faults, calls, excused, .. } = *scenario;
        let (source, least_nodes, ttl, rate) = ("", 1, Ttl::clamped(TTL_MS), 100_000);
        let (chaos, calm, rounds) = (40, 20, 2);
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

    fn store(scenario: &SemaphoreScenario, rng: &mut Rng) -> StoreSpec {
        let any = StoreSpec { ages: Ages::any(rng), push: rng.chance(0.5), lags: false };
        scenario.store.unwrap_or(any)
    }

    fn new(scenario: &SemaphoreScenario, nodes: usize) -> SemaphoresScene {
        let name = |n: usize| {
            semaphore::key(&format!("k{n}")).unwrap_or_else(|_| unreachable!("short and not empty"))
        };
        let keys = scenario.keys.len();
        SemaphoresScene {
            keys: (0..keys).map(name).collect(),
            grants: (0..keys).map(|_| Grants::default()).collect(),
            room: vec![RecordRoom::default(); keys],
            last_lease: 0,
            behind: BTreeSet::new(),
            put_back: BTreeSet::new(),
            untold: Overdue::default(),
            dead: Overdue::default(),
            strays: Overdue::default(),
            late: BTreeMap::new(),
            asked: (0..nodes).map(|_| AnswerLedger::default()).collect(),
        }
    }

    fn own(_: &SemaphoreScenario, _index: usize) -> SemaphoreNodeState {
        SemaphoreNodeState::default()
    }

    fn begun(world: &mut World) {
        if world.scenario.gc {
            world.at(world.per_mille(6000), What::Own(SemaphoreDue::Collect));
        }
    }

    fn process(
        world: &mut World,
        index: usize,
        life: u32,
        instance: u64,
    ) -> Option<NewProcess<SemaphoresScene>> {
        let who = HolderId::new(format!("n{index}.{life}")).ok()?;
        let session = Key::new(format!("session/{who}")).ok()?;
        let (ttl, about) = (world.ttl, Metadata::new());
        let identity = Identity { holder: who.clone(), session: session.clone(), ttl, about, instance };
        let host = Host { boot: index as u64, held: Tick(0), waited: Tick(0) };
        let (bugs, poll) = (world.setup.bugs, ttl.duration());
        let semaphore_bytes = world.scenario.most_bytes;
        let rules = Rules { bugs, poll, host: Some(host), semaphore_bytes, ..Rules::default() };
        Some(NewProcess { who, session, machine: Holder::new(identity, rules) })
    }

    fn booted(world: &mut World, index: usize) {
        let tasks = world.scenario.tasks;
        world.nodes[index].own.tasks = vec![(PermitActivity::Idle, 0); tasks];
        for task in 0..tasks {
            world.think(index, task);
        }
    }

    fn ended(world: &mut World, index: usize) {
        for lease in world.nodes[index].own.views.keys() {
            world.scene.late.remove(lease);
        }
        world.nodes[index].own = SemaphoreNodeState::default();
        world.scene.asked[index] = AnswerLedger::default();
    }

    fn commanded(world: &mut World, index: usize, command: &Command) {
        world.scene.asked[index].asks(command);
    }

    fn input(world: &mut World, index: usize, input: SemaphoreCall) {
        let SemaphoreCall::Turn(task, turn) = input;
        world.user(index, usize::from(task), turn);
    }

    fn told(world: &mut World, index: usize, now: Now, notice: Notice) {
        let found = world.scene.asked[index].told(index, &notice);
        world.check(Rule::Answered, found);
        world.told(index, now, notice);
    }

    fn acted(world: &mut World, index: usize, now: Tick, wake_at: Option<Tick>) {
        let found = users::told_in_time(&world.nodes[index], now, wake_at);
        world.check(Rule::S5, found);
    }

    fn sent(world: &mut World, index: usize, now: Now, op: &Op) {
        let node = &mut world.nodes[index];
        node.own.session_claimed |= users::begins(&node.session, op);
        world.check_lapses(index, now.held, op);
    }

    fn landed(world: &mut World, envelope: &Envelope, key: &Key, landed: &Landed, _begins: bool) {
        world.hint(key);
        let Some(index) = world.key_index(key) else {
            if world.nodes[envelope.node].life != envelope.life {
                // A renewal that comes late of one that is dead: its silence begins anew.
                world.scene.dead.clear();
            } else {
                world.session_written(envelope, key, &landed.after);
            }
            return;
        };
        let who = world.nodes[envelope.node].name_of(envelope.life).clone();
        world.changed(
            index,
            landed.before.as_ref().and_then(|record| SemaphoreLedger::of(record).ok()),
            &landed.after,
            &who,
        );
    }

    fn listens(world: &World, index: usize, key: &Key) -> bool {
        let ours = world.key_index(key);
        let waits = |view: &PermitView| view.waits() && ours.is_none_or(|key| view.key == key);
        world.nodes[index].own.views.values().any(waits)
    }

    fn failed_over(world: &mut World, lost: BTreeMap<Key, Option<Record>>) {
        world.unlearn(lost);
    }

    fn strike(world: &mut World, fault: FaultKind, index: usize) -> bool {
        match fault {
            FaultKind::RecordDeleted => world.delete_record(),
            FaultKind::RecordRestored if world.scenario.restores_sessions => world.restore_session(),
            FaultKind::RecordRestored => world.restore_record(),
            FaultKind::RecordDamaged => world.damage_some(index),
            FaultKind::Forbidden => world.store.forbid(world.scene.keys[0].clone()),
            FaultKind::Deleted => world.delete_session(index),
            FaultKind::SpuriousHint => {
                let key = world.rng.chance(0.5).then(|| world.scene.keys[0].clone());
                world.deliver(index, NodeInput::Hint(key.map_or(Hint::Any, Hint::Key)));
            }
            _ => return false,
        }
        true
    }

    fn crash(world: &mut World, index: usize) {
        if world.rng.chance(0.3) { world.stop(index) } else { world.kill(index) }
    }

    fn wall_jump(world: &mut World, most_ms: u64) -> i64 {
        world.rng.between(0, 2 * most_ms) as i64 - most_ms as i64
    }

    fn mend(world: &mut World) {
        world.mend_records();
    }

    fn calm_begins(world: &mut World) {
        world.scene.untold.clear();
        world.scene.dead.clear();
        world.scene.strays.clear();
        world.scene.late.clear();
        world.at(world.t + world.per_mille(100), What::Own(SemaphoreDue::Look));
        world.later(world.per_mille(4000), What::Own(SemaphoreDue::Death));
    }

    fn due(world: &mut World, due: SemaphoreDue) {
        match due {
            SemaphoreDue::Look => world.look(),
            SemaphoreDue::Death => world.death(),
            SemaphoreDue::Collect => world.collect(),
        }
    }

    fn tenures(world: &World) -> u64 {
        world.scene.grants.iter().map(|grants| grants.count).sum()
    }
}

impl World {
    /// Which of the world's keys it is, if it is one.
    fn key_index(&self, key: &Key) -> Option<usize> {
        self.scene.keys.iter().position(|known| known == key)
    }

    fn ledger(&self, key: usize) -> SemaphoreLedger {
        let record = self.store.get(&self.scene.keys[key]);
        record.and_then(|record| SemaphoreLedger::of(record).ok()).unwrap_or_default()
    }

    /// What is believed in of a key at this instant.
    fn believed(&self, key: usize) -> impl Iterator<Item = BelievedPermits<'_>> {
        let t = self.t;
        let behind = &self.scene.behind;
        self.nodes
            .iter()
            .flat_map(move |node| {
                let views = node.own.views.values().filter(move |view| view.key == key);
                let believes =
                    node.clock.held(t) < node.own.session_until && node.own.session_restored.is_none();
                let session = node.machine.as_ref().and_then(tenure_core::Holder::session_fence);
                let is_revived = node.own.session_revived.is_some() && node.own.session_revived == session;
                let believed = views.filter(move |_| believes && !is_revived);
                believed.filter_map(|view| view.believed(&node.who))
            })
            .filter(move |one| !behind.contains(&(key, one.fence)))
    }

    fn check_permits(&mut self, key: usize) {
        let found = s8::no_more_than_there_are(key, self.scenario.keys[key].permits, self.believed(key));
        self.check(Rule::S8, found);
    }

    /// `who` has written the record of a key.
    fn changed(
        &mut self,
        key: usize,
        before: Option<SemaphoreLedger>,
        after: &tenure_core::Record,
        who: &HolderId,
    ) {
        let before = before.unwrap_or_default();
        let after = match SemaphoreLedger::of(after) {
            Ok(after) => after,
            Err(error) => {
                return self.check(Rule::S8, Err(format!("{who} writes a record of which {error}")));
            }
        };
        let found = self.scene.grants[key].landed(&before, &after);
        self.check(Rule::S2, found);
        let found = s8::taken_out(&before, &after, who, self.believed(key));
        self.check(Rule::S3, found);
        self.check(Rule::L5, l5::nothing_is_left_free(&after));
        self.check(Rule::L6, l6::nobody_is_overtaken(&before, &after));
        self.note_room(key);
    }

    fn lease(&mut self) -> LeaseId {
        self.scene.last_lease += 1;
        LeaseId(self.scene.last_lease)
    }

    fn kill(&mut self, index: usize) {
        self.end_process(index);
        self.restart(index, self.per_mille(1000));
    }

    /// A process stops in good order.
    fn stop(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if node.machine.is_none() || node.paused || node.stopping {
            return;
        }
        node.stopping = true;
        node.own.views.clear();
        for slot in &mut node.own.tasks {
            *slot = (PermitActivity::Idle, slot.1 + 1);
        }
        self.command(index, Command::Stop);
    }
}
