//! The scene of sections: processes that lease ranges of one key space. A section has no session, no mail and no waiting.

mod gc;
mod hands;
mod scenario;
mod users;

use crate::invariants::answered_sections::OpenRequests;
use crate::invariants::l1_ranges::StandingRanges;
use crate::invariants::s7::{BelievedRanges, Entries};
use crate::invariants::{Rule, s5, s7};
use crate::kernel::clock::{MILLI, SECOND, True};
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::{Landed, StoreSpec};
use crate::kernel::rng::Rng;
use crate::kernel::{self, Envelope, Frame, NewProcess, Scene};
pub(crate) use scenario::SCENARIOS;
use scenario::SectionScenario;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure_core::op::{Answer, Op, Outcome, Step};
use tenure_core::section::{
    self, Entry, SectionCommand, SectionLedger, SectionMachine, SectionNotice, SectionSetup,
};
use tenure_core::{Fence, HolderId, Key, LeaseId, Nonce, Now, Rules, StoreError, Tick, Ttl};
use users::{SectionActivity, SectionView};

/// How soon after the heal a lease is free that was given up when the store refused that: time for a call that is lost, and for the pause
/// after four refusals in a row.
const FREED: True = 20 * SECOND;

type World = kernel::World<SectionsScene>;
type What = kernel::What<SectionsScene>;
type Node = kernel::Node<SectionsScene>;

/// What a world of sections has of its own.
pub(crate) struct SectionsScene {
    key: Key,
    /// Since when, by true time, what stands in the section can be told to be old.
    standing: StandingRanges,
    /// Until then nobody wants anything anew.
    rest_until: True,
    last_lease: u64,
    entries: Entries,
    /// When each entry was sent, in true time.
    posted: BTreeMap<Nonce, True>,
    /// Processes that have stopped in good order, and when.
    stopped: BTreeMap<HolderId, True>,
    /// Leases whose record was changed by hand: their holders may believe in them for a while, beside others.
    behind: BTreeSet<Fence>,
    /// At the end, the first node must obtain everything.
    last_asked: Option<(LeaseId, u32)>,
}

/// What is known of a process and its users.
#[derive(Default)]
pub(crate) struct SectionNodeState {
    tasks: Vec<(SectionActivity, u32)>,
    views: BTreeMap<LeaseId, SectionView>,
    /// When each entry of ours was sent.
    sent: BTreeMap<Nonce, Tick>,
    /// Commands that are not answered yet.
    asked: OpenRequests,
    /// Entries of ours that were given up, and were told to have been left.
    left: Vec<Nonce>,
    /// How old the record that was last shown said that they are, if the last answer showed one.
    shown: BTreeMap<Nonce, Duration>,
}

/// What is due in a world of sections.
pub(crate) enum SectionDue {
    Collect,
    /// The store has refused nothing for some time: nothing stands any more that was given up.
    Freed,
    /// All leases that there were are over: one process must obtain everything.
    End,
}

/// What reaches a process from its users.
pub(crate) enum SectionCall {
    /// A task's turn.
    Turn(u8, u32),
    /// It ends, having done what it was started for.
    Exit,
}

impl Scene for SectionsScene {
    type Scenario = SectionScenario;
    type Machine = SectionMachine;
    type Own = SectionNodeState;
    type Input = SectionCall;
    type Due = SectionDue;

    const LETTER: char = 'n';

    fn frame(scenario: &SectionScenario) -> Frame {
        let SectionScenario { name, about, nodes, duration_ms, wall_off_ms, .. } = *scenario;
        let SectionScenario { faults, calls, excused, .. } = *scenario;
        Frame {
            name,
            about,
            source: "",
            nodes,
            least_nodes: 1,
            ttl: Ttl::clamped(duration_ms),
            rate: 100_000,
            wall_off_ms,
            faults,
            calls,
            chaos: 60,
            calm: 40,
            rounds: 1,
            excused,
        }
    }

    fn store(scenario: &SectionScenario, rng: &mut Rng) -> StoreSpec {
        let ages = scenario.ages[rng.index(scenario.ages.len())];
        StoreSpec { ages, push: false, lags: false }
    }

    fn new(_: &SectionScenario, _nodes: usize) -> SectionsScene {
        SectionsScene {
            key: section::key("s").unwrap_or_else(|_| unreachable!("short and not empty")),
            standing: StandingRanges::default(),
            rest_until: 0,
            last_lease: 0,
            entries: Entries::default(),
            posted: BTreeMap::new(),
            stopped: BTreeMap::new(),
            behind: BTreeSet::new(),
            last_asked: None,
        }
    }

    fn own(_: &SectionScenario, _index: usize) -> SectionNodeState {
        SectionNodeState::default()
    }

    fn begun(world: &mut World) {
        if world.scenario.gc {
            world.at(world.spans(6), What::Own(SectionDue::Collect));
        }
    }

    fn process(
        world: &mut World,
        index: usize,
        life: u32,
        instance: u64,
    ) -> Option<NewProcess<SectionsScene>> {
        let who = HolderId::new(format!("n{index}.{life}")).ok()?;
        let key = world.scene.key.clone();
        let machine = SectionMachine::new(SectionSetup {
            key: key.clone(),
            holder: who.clone(),
            instance,
            rules: Rules { bugs: world.setup.bugs, ..Rules::default() },
            most_parts: world.scenario.most_parts,
            most_bytes: SectionLedger::MAX_BYTES,
        });
        Some(NewProcess { who, session: key, machine })
    }

    fn booted(world: &mut World, index: usize) {
        let tasks = world.scenario.tasks;
        world.nodes[index].own.tasks = vec![(SectionActivity::Idle, 0); tasks];
        for task in 0..tasks {
            world.think(index, task);
        }
    }

    fn ended(world: &mut World, index: usize) {
        world.nodes[index].own = SectionNodeState::default();
    }

    fn input(world: &mut World, index: usize, input: SectionCall) {
        match input {
            SectionCall::Turn(task, turn) => world.user(index, usize::from(task), turn),
            SectionCall::Exit => world.kill(index),
        }
    }

    fn commanded(world: &mut World, index: usize, command: &SectionCommand) {
        world.nodes[index].own.asked.ask(command);
    }

    fn stepped(world: &mut World, index: usize, now: Now, step: &Step<SectionNotice>) {
        // What a machine sends, it sends at its own time, whenever that leaves the process.
        let node = &mut world.nodes[index];
        for request in &step.requests {
            let Op::Write(write) = &request.op else { continue };
            let ledger = SectionLedger::of(&write.record).unwrap_or_default();
            for entry in ledger.entries.iter().filter(|entry| entry.holder == node.who) {
                node.own.sent.entry(entry.id).or_insert(now.held);
                world.scene.posted.entry(entry.id).or_insert(world.t);
            }
        }
        let found = told_in_time(node, now.held, step);
        world.check(Rule::S5, found);
    }

    fn told(world: &mut World, index: usize, now: Now, notice: SectionNotice) {
        world.told(index, now, notice);
    }

    fn answered(world: &mut World, index: usize, _: &Envelope, result: &Result<Answer, StoreError>) {
        let own = &mut world.nodes[index].own;
        own.shown.clear();
        if let Ok(Answer::Read(Some(stored)) | Answer::Write(Outcome::Lost(Some(stored)))) = result {
            let entries = SectionLedger::seen_in(stored).unwrap_or_default().entries;
            let ages = entries.iter().filter_map(|entry| Some((entry.id, entry.stood(stored.times?)?)));
            own.shown.extend(ages);
        }
    }

    fn sent(world: &mut World, index: usize, _now: Now, op: &Op) {
        if let Op::Write(write) = op {
            world.check_lapses(index, write);
        }
    }

    fn landed(world: &mut World, envelope: &Envelope, _: &Key, landed: &Landed, _begins: bool) {
        let before =
            landed.before.as_ref().and_then(|record| SectionLedger::of(record).ok()).unwrap_or_default();
        let after = SectionLedger::of(&landed.after).unwrap_or_default();
        let who = world.nodes[envelope.node].name_of(envelope.life).clone();
        world.scene.standing.written(world.t, &after);
        let found = world.scene.entries.landed(&before, &after);
        world.check(Rule::S2, found);
        let SectionsScene { stopped, posted, .. } = &world.scene;
        let found = s7::nothing_of_who_stopped(&before, &after, stopped, posted);
        world.check(Rule::S4, found);
        world.left_out(&before, &after, &who);
    }

    fn strike(world: &mut World, fault: FaultKind, _index: usize) -> bool {
        match fault {
            FaultKind::StoreClock | FaultKind::SharedClock => {
                world.scene.standing.clock_was_set();
                return false;
            }
            FaultKind::RecordDeleted => world.delete_record(),
            FaultKind::RecordRestored => world.restore_record(),
            FaultKind::RecordDamaged => world.damage_record(),
            _ => return false,
        }
        true
    }

    fn crash(world: &mut World, index: usize) {
        if world.scenario.asks && world.rng.chance(0.4) { world.stop(index) } else { world.kill(index) }
    }

    fn wall_jump(world: &mut World, most_ms: u64) -> i64 {
        world.rng.between(0, 2 * most_ms) as i64 - most_ms as i64
    }

    fn calm_begins(world: &mut World) {
        world.at(world.t + FREED, What::Own(SectionDue::Freed));
        world.at(world.t + world.spans(16), What::Own(SectionDue::End));
    }

    fn due(world: &mut World, due: SectionDue) {
        match due {
            SectionDue::Collect => world.collect(),
            SectionDue::Freed => world.check_freed(),
            SectionDue::End => world.over = world.end(),
        }
    }

    fn tenures(world: &World) -> u64 {
        world.scene.entries.count
    }
}

impl World {
    /// So many durations.
    fn spans(&self, n: u64) -> True {
        self.scenario.duration_ms * MILLI * n
    }

    fn kill(&mut self, index: usize) {
        self.end_process(index);
        self.restart(index, if self.scenario.brief { self.spans(1) / 20 } else { self.spans(1) });
    }

    /// What a write takes out, nobody may believe in.
    fn left_out(&mut self, before: &SectionLedger, after: &SectionLedger, who: &HolderId) {
        self.check(Rule::S3, s7::taken_out(before, after, who, self.believed()));
    }

    fn ledger(&self) -> SectionLedger {
        self.store.get(&self.scene.key).and_then(|record| SectionLedger::of(record).ok()).unwrap_or_default()
    }

    fn lease(&mut self) -> LeaseId {
        self.scene.last_lease += 1;
        LeaseId(self.scene.last_lease)
    }

    /// What is believed in at this instant.
    fn believed(&self) -> impl Iterator<Item = &BelievedRanges> {
        let t = self.t;
        self.nodes.iter().flat_map(move |node| {
            node.own
                .views
                .values()
                .filter(move |view| node.clock.held(t) < view.until)
                .filter_map(|view| view.held.as_ref())
        })
    }

    /// Answered: what was given up when the store refused that is free soon after the heal, as long as its process lives.
    fn check_freed(&mut self) {
        let ledger = self.ledger();
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            let now = node.clock.held(self.t);
            // Whoever gave it up has no reason to go on when its time is over.
            let over = |entry: &Entry| {
                node.own.sent.get(&entry.id).is_none_or(|sent| now >= sent.after(entry.duration.duration()))
            };
            let stands = |entry: &&Entry| node.own.left.contains(&entry.id) && !over(entry);
            let found = match ledger.entries.iter().find(stands) {
                Some(entry) => {
                    Err(format!("{} gave up fence {}, and it still stands", node.who, entry.fence))
                }
                None => Ok(()),
            };
            self.check(Rule::Answered, found);
        }
    }

    /// True when nothing is left to find out.
    fn end(&mut self) -> bool {
        match self.scene.last_asked {
            None => {
                // Every command of a user has been answered by now.
                let open = self
                    .nodes
                    .iter()
                    .flat_map(|node| node.own.views.iter().map(move |(id, view)| (node, id, view)));
                let open = open
                    .filter(|(_, _, view)| view.is_open())
                    .map(|(node, id, _)| format!("{} {}", node.who, id.0));
                if let Some(open) = open.min() {
                    self.check(Rule::Answered, Err(format!("a command was never answered: {open}")));
                }
                for index in 0..self.nodes.len() {
                    let found = self.nodes[index].own.asked.nothing_is_open();
                    self.check(Rule::Answered, found);
                }
                self.ask_for_all(0);
            }
            // The first look was to begin watching what the dead have left.
            Some((_, 0)) => self.ask_for_all(1),
            Some((_, 1)) => {
                self.check(Rule::Answered, Err("the last wish was never answered".to_owned()));
                return true;
            }
            Some(_) => return true,
        }
        self.at(self.t + self.spans(2), What::Own(SectionDue::End));
        false
    }
}

/// S5, after a step and before anybody hears what came of it.
fn told_in_time(node: &mut Node, now: Tick, step: &Step<SectionNotice>) -> Result<(), String> {
    let answered = |notice: &SectionNotice| match notice {
        SectionNotice::Obtained { lease, .. }
        | SectionNotice::Failed(lease, _)
        | SectionNotice::Listed(lease, _)
        | SectionNotice::Reclaimed(lease, _) => Some(*lease),
        _ => None,
    };
    for lease in step.notices.iter().filter_map(answered) {
        if let Some(view) = node.own.views.get_mut(&lease) {
            view.answer_by = None;
        }
    }
    let obtained = step.notices.iter().filter_map(|notice| match notice {
        SectionNotice::Obtained { fence: Some(_), until, .. } => Some(*until),
        _ => None,
    });
    let open = node.own.views.iter().filter_map(|(lease, view)| Some((*lease, view.answer_by?)));
    s5::ranges_told_in_time(&node.who, now, step.wake_at, obtained, open)
}
