//! A few workers on one store without faults: every call takes a millisecond each way, and what is done for a unit takes
//! 20 ms to end, unless a test has it take longer.
#![allow(unreachable_pub, dead_code, reason = "a bench uses a part of it, too")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod bill;
mod hands;
pub mod service;
mod store;
mod turns;
mod units;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure_core::fleet::{
    About, FleetCommand, FleetName, FleetNotice, FleetWorker, Options, Summary, UnitSpec, advance,
};
use tenure_core::op::{Answer, Event, Hint, Machine, Op, OpId};
use tenure_core::{
    Fence, HolderId, Identity, Key, LeaseId, Metadata, Nonce, Now, Record, Rules, StoreError, Tick, Ttl, Wall,
};

pub use bill::Bill;
pub use service::Service;
pub use turns::Turns;

pub const TTL: Duration = Duration::from_secs(10);
const WAY: Duration = Duration::from_millis(1);
const BODY_ENDS: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy)]
pub struct Store {
    pub age: bool,
    pub push: bool,
}

#[derive(Debug, Default, Clone, Copy)]
pub struct Calls {
    pub reads: u64,
    pub lists: u64,
    pub writes: u64,
    /// Those of these that no fleet makes which is at rest: reads of one record, writes of a unit, letters, and renewals that meet one.
    pub extra: u64,
}

impl Calls {
    pub fn since(self, before: Calls) -> Calls {
        Calls {
            reads: self.reads - before.reads,
            lists: self.lists - before.lists,
            writes: self.writes - before.writes,
            extra: self.extra - before.extra,
        }
    }
}

#[allow(clippy::large_enum_variant, reason = "most are answers")]
enum Happens {
    Arrives(usize, OpId, Op),
    Returns(usize, OpId, Result<Answer, StoreError>),
    Hint(usize, Hint),
    Wakes(usize),
    BodyEnds(usize, LeaseId),
    /// A worker may ask for one more at a time.
    PlaceFree(usize),
}

struct Post {
    machine: FleetWorker,
    up: bool,
    valid: Tick,
    works: BTreeMap<LeaseId, Key>,
    /// The one wake-up that it has.
    wakes_at: Tick,
}

impl Post {
    fn has(&self, unit: &Key) -> bool {
        self.works.values().any(|works| works == unit)
    }
}

pub struct Harness {
    pub store: Store,
    pub calls: Calls,
    /// How often a unit was assigned.
    pub moves: usize,
    /// The longest that a unit which had been worked on lay idle.
    pub longest_idle: Duration,
    pub last_plan: Summary,
    /// Nothing that is asked of the store takes effect, and after a while the asker knows.
    pub away: bool,
    /// Records that can't be read.
    pub damaged: BTreeSet<Key>,
    /// Records that can't be written.
    pub forbidden: BTreeSet<Key>,
    /// What users were told that they should not have been, in such a world.
    pub troubles: Vec<String>,
    /// What requests about units were answered, in order.
    pub answers: Vec<(u64, &'static str)>,
    /// What a unit's record has, as was told last.
    pub told_fields: Metadata,
    /// How long what is done for a unit takes to end.
    pub body_ends: Duration,
    /// How often a unit's record was left to nobody.
    pub vacated: usize,
    pub turns: Option<Turns>,
    pub bill: Option<Bill>,
    pub service: Option<Service>,
    name: FleetName,
    t: Tick,
    records: BTreeMap<Key, (Record, Tick)>,
    queue: BTreeMap<(Tick, u64), Happens>,
    last: u64,
    posts: Vec<Post>,
    idle_since: BTreeMap<Key, Tick>,
    units: BTreeSet<Key>,
    fences: BTreeMap<Key, Fence>,
    /// Who was assigned each unit last.
    workers: BTreeMap<Key, usize>,
}

impl Harness {
    pub fn new(store: Store) -> Harness {
        Harness {
            store,
            calls: Calls::default(),
            moves: 0,
            longest_idle: Duration::ZERO,
            last_plan: Summary::default(),
            away: false,
            damaged: BTreeSet::new(),
            forbidden: BTreeSet::new(),
            troubles: Vec::new(),
            answers: Vec::new(),
            told_fields: Metadata::new(),
            body_ends: BODY_ENDS,
            vacated: 0,
            turns: None,
            bill: None,
            service: None,
            name: FleetName::new("test").unwrap(),
            t: Tick(1_000_000_000),
            records: BTreeMap::new(),
            queue: BTreeMap::new(),
            last: 0,
            posts: Vec::new(),
            idle_since: BTreeMap::new(),
            units: BTreeSet::new(),
            fences: BTreeMap::new(),
            workers: BTreeMap::new(),
        }
    }

    fn now(&self) -> Now {
        Now { held: self.t, waited: self.t, wall: Wall(1_700_000_000_000 + self.t.0 / 1_000_000) }
    }

    pub fn create(&mut self, count: usize) {
        for n in 0..count {
            self.put(&format!("{n:06}"), &UnitSpec::default());
        }
        self.tell();
    }

    /// Raises the generation, from outside.
    pub fn tell(&mut self) {
        let board = self.name.board().unwrap();
        self.last += 1;
        let seen = self.stored(&board);
        let write = advance(board, seen.as_ref(), Nonce(self.last.into()), self.now().wall).unwrap();
        self.write(write);
    }

    pub fn join(&mut self, about: About) -> usize {
        self.join_for(about, TTL)
    }

    /// A worker whose session has a ttl of its own.
    pub fn join_for(&mut self, about: About, ttl: Duration) -> usize {
        let index = self.add(about, ttl);
        // Nobody starts in step.
        self.run(Duration::from_millis(137));
        index
    }

    /// A worker that has just been told to join.
    pub fn add(&mut self, about: About, ttl: Duration) -> usize {
        let index = self.posts.len();
        let holder = HolderId::new(format!("w{index:03}")).unwrap();
        let identity = Identity {
            session: Key::new("to be chosen").unwrap(),
            holder,
            ttl: Ttl::new(ttl).unwrap(),
            about: Metadata::new(),
            instance: 1000 + index as u64,
        };
        let options = Options {
            fleet: self.name.clone(),
            about,
            drain: Duration::from_secs(5),
            push: self.store.push,
            age_error: self.store.age.then_some(Duration::from_millis(1)),
            page: Options::PAGE,
            lookers: Options::LOOKERS,
        };
        let machine = FleetWorker::new(identity, Rules::default(), options).unwrap();
        self.posts.push(Post {
            machine,
            up: true,
            valid: Tick(0),
            works: BTreeMap::new(),
            wakes_at: Tick::NEVER,
        });
        self.order(index, FleetCommand::Join);
        index
    }

    pub fn order(&mut self, index: usize, command: FleetCommand) {
        self.step(index, Event::Command(command));
    }

    pub fn kill(&mut self, index: usize) {
        self.posts[index].up = false;
        let had = std::mem::take(&mut self.posts[index].works);
        self.idle_since.extend(had.into_values().map(|unit| (unit, self.t)));
    }

    /// What is done for a unit ends by itself.
    pub fn end_work(&mut self, index: usize, lease: LeaseId) {
        if let Some(unit) = self.posts[index].works.remove(&lease) {
            self.idle_since.insert(unit, self.t);
        }
    }

    pub fn is_up(&self, index: usize) -> bool {
        self.posts[index].up
    }

    pub fn held(&self, index: usize) -> usize {
        self.posts[index].works.len()
    }

    pub fn lease_on(&self, index: usize, unit: &str) -> Option<LeaseId> {
        let key = self.name.unit(unit).unwrap();
        self.posts[index].works.iter().find(|(_, works)| **works == key).map(|(lease, _)| *lease)
    }

    pub fn who_has(&self, unit: &str) -> Option<usize> {
        (0..self.posts.len()).find(|&index| self.lease_on(index, unit).is_some())
    }

    /// How many units each live worker works on, in order.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts: Vec<usize> =
            self.posts.iter().filter(|post| post.up).map(|post| post.works.len()).collect();
        counts.sort_unstable();
        counts
    }

    /// The key of the fleet's board.
    pub fn board(&self) -> Key {
        self.name.board().unwrap()
    }

    /// The key of a unit.
    pub fn unit(&self, unit: &str) -> Key {
        self.name.unit(unit).unwrap()
    }

    /// The key of a worker's session.
    pub fn session(&self, index: usize) -> Key {
        self.name.worker(&HolderId::new(format!("w{index:03}")).unwrap()).unwrap()
    }

    /// The board's fence.
    pub fn generation(&self) -> Fence {
        tenure_core::fleet::generation(self.stored(&self.board()).as_ref())
    }

    /// Somebody writes other fields into a record, and nothing else.
    pub fn deface(&mut self, key: &Key, metadata: Metadata) {
        self.last += 1;
        let nonce = Nonce(u128::from(self.last) << 32);
        let (record, _) = self.records.get_mut(key).unwrap();
        (record.metadata, record.nonce) = (metadata, nonce);
    }

    /// The store says to all that something has changed, and not what.
    pub fn hint_vaguely(&mut self) {
        for index in 0..self.posts.len() {
            self.at(self.t.after(WAY), Happens::Hint(index, Hint::Any));
        }
    }

    /// How many units nobody works on.
    pub fn idle(&self) -> usize {
        self.units.len() - self.posts.iter().map(|post| post.works.len()).sum::<usize>()
    }

    pub fn run(&mut self, span: Duration) {
        let end = self.t.after(span);
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((t, _), happens) = entry.remove_entry();
            self.t = self.t.max(t);
            self.happen(happens);
        }
        self.t = end;
    }

    /// Runs until `done`, and says how long that took; None if it is not done within `limit`.
    pub fn run_until(&mut self, limit: Duration, done: impl Fn(&Harness) -> bool) -> Option<Duration> {
        let start = self.t;
        while self.t.since(start) < limit {
            if done(self) {
                return Some(self.t.since(start));
            }
            self.run(Duration::from_millis(5));
        }
        None
    }

    fn at(&mut self, t: Tick, happens: Happens) {
        self.last += 1;
        self.queue.insert((t, self.last), happens);
    }

    fn happen(&mut self, happens: Happens) {
        match happens {
            Happens::Arrives(index, id, _) if self.away => {
                let error = StoreError::unavailable("away");
                self.at(self.t.after(WAY * 500), Happens::Returns(index, id, Err(error)));
            }
            Happens::Arrives(index, id, op) => {
                let answer = self.perform(op);
                self.at(self.t.after(WAY), Happens::Returns(index, id, answer));
            }
            Happens::PlaceFree(index) => self.free_place(index),
            Happens::Returns(index, id, result) => {
                self.land(index, id, &result);
                self.step(index, Event::Answer(id, result));
                self.end_turn(index, id);
                self.launch_waiting(index);
            }
            Happens::Hint(index, hint) => self.step(index, Event::Changed(hint)),
            Happens::Wakes(index) if self.posts[index].wakes_at <= self.t => {
                self.posts[index].wakes_at = Tick::NEVER;
                self.step(index, Event::Wake);
            }
            // An earlier one has taken its place.
            Happens::Wakes(_) => {}
            Happens::BodyEnds(index, lease) => {
                if let Some(unit) = self.posts[index].works.remove(&lease) {
                    self.idle_since.insert(unit, self.t);
                    self.step(index, Event::Command(FleetCommand::Drained(lease)));
                }
            }
        }
    }

    fn step(&mut self, index: usize, event: Event<FleetCommand>) {
        if !self.posts[index].up {
            return;
        }
        let now = self.now();
        let step = self.posts[index].machine.step(now, event);
        for notice in step.notices {
            self.on_notice(index, notice);
        }
        for request in step.requests {
            // A look must not wait behind others' listings.
            let is_look = request.id.0 >> 63 == 1 && matches!(request.op, Op::ReadMany(..));
            assert!(!is_look || request.urgent);
            let lists_units =
                matches!(&request.op, Op::List { prefix, .. } if *prefix == self.name.unit_prefix());
            assert!(!lists_units || !request.urgent);
            self.ask(index, request);
        }
        if let Some(at) = step.wake_at {
            // Orphaned claims are looked at in a step of their own, at once.
            assert!(at >= self.t, "a wake-up for the past makes no progress");
            let at = at.max(self.t.after(Duration::from_micros(1)));
            if at < self.posts[index].wakes_at {
                self.posts[index].wakes_at = at;
                self.at(at, Happens::Wakes(index));
            }
        }
    }

    fn on_notice(&mut self, index: usize, notice: FleetNotice) {
        if let FleetNotice::Planned(summary) = notice {
            // Only whoever plans knows what nobody can have.
            if index == self.planner() {
                self.last_plan = *summary;
            }
            return;
        }
        let post = &mut self.posts[index];
        match notice {
            FleetNotice::Valid(until) => post.valid = until,
            FleetNotice::Assigned { unit, lease, fence, .. } => {
                assert!(post.valid > self.t, "assigned by a worker that is not valid");
                let before = self.fences.insert(unit.clone(), fence).unwrap_or_default();
                assert!(
                    fence > before || self.idle_since.contains_key(&unit),
                    "{unit}: {fence} after {before}"
                );
                post.works.insert(lease, unit.clone());
                self.moves += 1;
                if let Some(since) = self.idle_since.remove(&unit) {
                    self.longest_idle = self.longest_idle.max(self.t.since(since));
                }
                let before = self.workers.insert(unit.clone(), index);
                let before = before.filter(|before| *before != index && self.posts[*before].up);
                let works = before.is_some_and(|before| self.posts[before].has(&unit));
                assert!(!works, "{unit}: {before:?} and {index}");
            }
            FleetNotice::Withdrawn(..) | FleetNotice::Rests { .. } => {}
            FleetNotice::Draining(lease, ..) => {
                self.at(self.t.after(self.body_ends), Happens::BodyEnds(index, lease));
            }
            FleetNotice::Lost(lease, loss) => {
                self.troubles.push(format!("{index} lost {lease:?}: {loss:?}"));
                if let Some(unit) = post.works.remove(&lease) {
                    self.idle_since.insert(unit, self.t);
                }
            }
            FleetNotice::Failed(_, request, _) => self.answers.push((request.0, "failed")),
            FleetNotice::Trouble(error) => self.troubles.push(format!("{index}: {error}")),
            FleetNotice::Planned(_) | FleetNotice::Planning(..) => {}
            FleetNotice::Stopped => {
                assert!(post.works.is_empty(), "{index} stopped with {:?}", post.works);
                post.up = false;
            }
            FleetNotice::Updated { request, fields, .. } => {
                self.answers.push((request.0, "updated"));
                self.told_fields = fields;
            }
            FleetNotice::Released(_, request, ours) => {
                let answer = if ours { "released" } else { "not ours" };
                self.answers.extend(request.map(|request| (request.0, answer)));
            }
        }
    }
}
