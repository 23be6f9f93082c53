//! What a kind of world has of its own: the machines in it, their users, what goes wrong for them alone, and what must hold.

use super::World;
use crate::invariants::Rule;
use crate::kernel::clock::True;
use crate::kernel::envelope::Envelope;
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::{Landed, StoreSpec};
use crate::kernel::rng::Rng;
use std::collections::BTreeMap;
use std::fmt::Debug;
use tenure_core::op::{Answer, Machine, Op, Step};
use tenure_core::{HolderId, Key, Now, Record, StoreError, Tick, Ttl};

/// The commands that users give in a scene.
pub(crate) type Command<S> = <<S as Scene>::Machine as Machine>::Command;

/// What users are told in a scene.
pub(crate) type Notice<S> = <<S as Scene>::Machine as Machine>::Notice;

/// What the kernel has to know of a scenario.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Where it was published, if it was.
    pub(crate) source: &'static str,
    pub(crate) nodes: usize,
    /// The fewest that make sense.
    pub(crate) least_nodes: usize,
    pub(crate) ttl: Ttl,
    /// Clock rates lie within ± this many millionths.
    pub(crate) rate: u64,
    pub(crate) wall_off_ms: u64,
    /// The mean number of faults of a kind that strike in 100 ttls.
    pub(crate) faults: &'static [(FaultKind, f64)],
    /// The probability that a fault befalls a call.
    pub(crate) calls: &'static [(FaultKind, f64)],
    /// How long faults go on, and how long it then stays healed, in ttls.
    pub(crate) chaos: u64,
    pub(crate) calm: u64,
    /// How often that is repeated.
    pub(crate) rounds: u64,
    pub(crate) excused: &'static [Rule],
}

impl Frame {
    /// Whether it strikes in its worlds now and then, or befalls calls in them.
    pub(crate) fn has(&self, fault: FaultKind) -> bool {
        self.faults.iter().chain(self.calls).any(|(kind, _)| *kind == fault)
    }
}

/// A process that is about to run.
pub(crate) struct NewProcess<S: Scene> {
    pub(crate) who: HolderId,
    /// The key of its session, where there are sessions.
    pub(crate) session: Key,
    pub(crate) machine: S::Machine,
}

/// A kind of world. Its state is one value of the type, in [`World::scene`]; what it knows of each process is in [`Node::own`](super::node::Node::own).
///
/// A method that has a body may be left out: most scenes don't need it.
pub(crate) trait Scene: Sized + 'static {
    /// What a world is like, as data.
    type Scenario: Copy + Send + Sync;
    /// The machine that each process runs.
    type Machine: Machine<Command: Debug, Notice: Debug>;
    /// What the scene knows of a node and of the process on it.
    type Own;
    /// What reaches a process from its users.
    type Input;
    /// What is due at some time and reaches no process.
    type Due;

    /// Begins the names of its processes.
    const LETTER: char;

    // Before anything happens.

    fn frame(scenario: &Self::Scenario) -> Frame;
    /// What the store of this world can do.
    fn store(scenario: &Self::Scenario, rng: &mut Rng) -> StoreSpec;
    fn new(scenario: &Self::Scenario, nodes: usize) -> Self;
    /// What it knows of a node on which nothing has run.
    fn own(scenario: &Self::Scenario, index: usize) -> Self::Own;
    /// The store is there, and nobody else.
    fn set_up(_world: &mut World<Self>) {}
    /// A node is there.
    fn start(world: &mut World<Self>, index: usize) {
        world.boot(index);
    }
    /// All are there, and faults go on.
    fn begun(_world: &mut World<Self>) {}

    // What processes do.

    /// The process that begins on a node, as its `life`-th.
    fn process(world: &mut World<Self>, index: usize, life: u32, instance: u64) -> Option<NewProcess<Self>>;
    /// It runs.
    fn booted(world: &mut World<Self>, index: usize);
    /// It is gone, and all that anyone on it believed.
    fn ended(world: &mut World<Self>, index: usize);
    /// Something from its users reaches it.
    fn input(world: &mut World<Self>, index: usize, input: Self::Input);
    /// Its users are about to give it a command.
    fn commanded(_world: &mut World<Self>, _index: usize, _command: &Command<Self>) {}
    /// The machine has taken a step, of which nothing shows yet.
    fn stepped(_world: &mut World<Self>, _index: usize, _now: Now, _step: &Step<Notice<Self>>) {}
    /// It tells its users something.
    fn told(world: &mut World<Self>, index: usize, now: Now, notice: Notice<Self>);
    /// All of a step has been told and sent.
    fn acted(_world: &mut World<Self>, _index: usize, _now: Tick, _wake_at: Option<Tick>) {}
    /// It goes on after its time was hidden from it for so long that its wall clock shows that.
    fn missed_time(_world: &mut World<Self>, _index: usize) {}

    // Requests, answers and hints.

    /// A process is about to send a request.
    fn sent(_world: &mut World<Self>, _index: usize, _now: Now, _op: &Op) {}
    /// How much longer than others it is under way.
    fn delay(_world: &mut World<Self>, _envelope: &mut Envelope) -> True {
        0
    }
    /// It reaches the store: how far reads of a recent state lag behind.
    fn lag(_world: &mut World<Self>, _envelope: &Envelope) -> True {
        0
    }
    /// It reaches the store, which may have no capacity left for it. False: it is refused.
    fn has_capacity(_world: &mut World<Self>, _envelope: &Envelope) -> bool {
        true
    }
    /// It reaches the store, which does not let this process do such things.
    fn denies(_world: &World<Self>, _envelope: &Envelope) -> bool {
        false
    }
    /// A write took effect; `begins`: and began a tenure.
    fn landed(world: &mut World<Self>, envelope: &Envelope, key: &Key, landed: &Landed, begins: bool);
    /// The store has done or refused what was asked.
    fn performed(_world: &mut World<Self>, _envelope: &Envelope, _result: &Result<Answer, StoreError>) {}
    /// An answer reaches its node.
    fn answered(_: &mut World<Self>, _index: usize, _: &Envelope, _: &Result<Answer, StoreError>) {}
    /// Whether the process on a node hears of changes of a key, where the store pushes them.
    fn listens(_world: &World<Self>, _index: usize, _key: &Key) -> bool {
        false
    }

    // Chaos and calm.

    /// A fault strikes that may be of this scene's own. False: it is one that the kernel makes.
    fn strike(world: &mut World<Self>, fault: FaultKind, index: usize) -> bool;
    /// A process crashes.
    fn crash(world: &mut World<Self>, index: usize);
    /// By how much a wall clock is wrong that jumps by at most so much.
    fn wall_jump(world: &mut World<Self>, most_ms: u64) -> i64;
    /// What was damaged is mended.
    fn mend(world: &mut World<Self>) {
        drop(world.store.mend());
    }
    /// The store has lost what these records were; some of them are gone.
    fn failed_over(_world: &mut World<Self>, _lost: BTreeMap<Key, Option<Record>>) {}
    /// The store does writes again, as it did not since then.
    fn writes_hung(_world: &mut World<Self>, _since: True) {}
    /// Faults begin.
    fn chaos_begins(_world: &mut World<Self>) {}
    /// All faults end.
    fn heals(_world: &mut World<Self>) {}
    /// Everything works from now on; only what is under way already may still arrive late.
    fn calm_begins(world: &mut World<Self>);
    /// It was calm for long enough.
    fn calm_ends(_world: &mut World<Self>) {}
    /// Something of the scene's own is due.
    fn due(world: &mut World<Self>, due: Self::Due);

    // The report.

    /// How many tenures began.
    fn tenures(world: &World<Self>) -> u64 {
        world.checks.tenures.count
    }
    /// How long takeovers from the dead took, in hundredths of a ttl.
    fn takeovers(self) -> Vec<u32> {
        Vec::new()
    }
}
