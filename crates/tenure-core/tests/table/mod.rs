//! A few processes at a table, on one store that answers each call after a millisecond; and what can happen to a call or a record.
#![allow(
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses its part, and a test may fail"
)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tenure_core::op::{Answer, Event, Expect, Hint, Listed, Machine, Op, OpId, Outcome, Write};
use tenure_core::semaphore::{SemaphoreLedger, Wish};
use tenure_core::{
    Command, ErrorKind, Fence, Holder, HolderId, Identity, Key, LeaseId, Metadata, Nonce, Notice, Now,
    Record, Rules, StoreError, Stored, Tick, Ttl, Wall,
};

pub const KEY: &str = "semaphore/s";
const TTL: Duration = Duration::from_secs(10);
const WAY: Duration = Duration::from_millis(1);

/// So many tenths of a ttl.
pub fn tenths(n: u32) -> Duration {
    TTL / 10 * n
}

#[derive(Debug, Default, Clone, Copy)]
pub struct Calls {
    pub reads: u64,
    pub writes: u64,
}

enum Happens {
    Arrives(usize, OpId, Op),
    Returns(usize, OpId, Result<Answer, StoreError>),
    Hint(usize, Hint),
}

struct Seat {
    machine: Holder,
    is_up: bool,
    is_cut: bool,
    wake_at: Option<Tick>,
    told: Vec<Notice>,
    held: BTreeSet<u64>,
}

/// What becomes of the next write.
#[derive(Clone, Copy)]
enum Fate {
    Lost { lands: bool },
    HeldBack,
    Copied,
}

pub struct Table {
    pub calls: Calls,
    /// How often sessions were read beside the semaphore.
    pub session_looks: u64,
    pub push: bool,
    t: Tick,
    seats: Vec<Seat>,
    records: BTreeMap<Key, (Record, Tick)>,
    queue: BTreeMap<(Tick, u64), Happens>,
    last: u64,
    fate: Option<Fate>,
    /// The next write that ends somebody else's session never arrives.
    fencing_is_lost: bool,
    /// A record that is damaged for whoever reads it.
    damaged: Option<Key>,
    /// How calls about the semaphore are refused.
    refused: Option<ErrorKind>,
    /// Looks go well all the same.
    refuses_writes_only: bool,
    held_back: VecDeque<Op>,
    /// Which lease each claim is.
    leases: BTreeMap<Nonce, u64>,
}

impl Table {
    pub fn new(seats: usize) -> Table {
        Table::with_bytes(seats, SemaphoreLedger::MAX_BYTES)
    }

    /// On a store that takes ledgers of so many bytes. Sessions are up, and their renewals are not counted.
    pub fn with_bytes(seats: usize, most: usize) -> Table {
        Table::with(vec![TTL; seats], most)
    }

    /// Of processes whose sessions have these ttls.
    pub fn with_ttls(ttls: Vec<Duration>) -> Table {
        Table::with(ttls, SemaphoreLedger::MAX_BYTES)
    }

    fn with(ttls: Vec<Duration>, most: usize) -> Table {
        let mut table = Table {
            calls: Calls::default(),
            session_looks: 0,
            push: false,
            t: Tick(1_000_000_000),
            seats: Vec::new(),
            records: BTreeMap::new(),
            queue: BTreeMap::new(),
            last: 0,
            fate: None,
            fencing_is_lost: false,
            damaged: None,
            refused: None,
            refuses_writes_only: false,
            held_back: VecDeque::new(),
            leases: BTreeMap::new(),
        };
        for (index, ttl) in ttls.into_iter().enumerate() {
            let holder = HolderId::new(format!("p{index}")).unwrap();
            let session = Key::new(format!("session/p{index}")).unwrap();
            let (ttl, about, instance) = (Ttl::new(ttl).unwrap(), Metadata::new(), index as u64 + 1);
            let rules = Rules { semaphore_bytes: most, ..Rules::default() };
            let machine = Holder::new(Identity { holder, session, ttl, about, instance }, rules);
            let (told, held) = (Vec::new(), BTreeSet::new());
            table.seats.push(Seat { machine, is_up: true, is_cut: false, wake_at: None, told, held });
            table.command(index, Command::Start);
        }
        table
    }

    pub fn t(&self) -> Tick {
        self.t
    }

    fn now(&self) -> Now {
        Now { held: self.t, waited: self.t, wall: Wall(1_700_000_000_000 + self.t.0 / 1_000_000) }
    }

    pub fn want(&mut self, seat: usize, lease: u64, wish: Wish) {
        let before: BTreeSet<Nonce> = self.ledger().tickets().map(|ticket| ticket.id).collect();
        self.command(seat, Command::Permits(LeaseId(lease), Box::new(wish)));
        for ticket in self.ledger().tickets().filter(|ticket| !before.contains(&ticket.id)) {
            self.leases.insert(ticket.id, lease);
        }
    }

    pub fn give(&mut self, seat: usize, lease: u64) {
        self.seats[seat].held.remove(&lease);
        self.command(seat, Command::Release(LeaseId(lease), None));
    }

    /// Gives a command, and lets what follows at once come about.
    pub fn command(&mut self, seat: usize, command: Command) {
        self.step(seat, Event::Command(command));
        self.run(WAY * 9);
    }

    pub fn told(&self, seat: usize) -> &[Notice] {
        &self.seats[seat].told
    }

    pub fn held(&self, seat: usize) -> Vec<u64> {
        self.seats[seat].held.iter().copied().collect()
    }

    /// How many leases a process has, wants, or is giving up.
    pub fn leases(&self, seat: usize) -> usize {
        self.seats[seat].machine.leases()
    }

    pub fn kill(&mut self, seat: usize) {
        self.seats[seat].is_up = false;
    }

    pub fn cut(&mut self, seat: usize) {
        self.seats[seat].is_cut = true;
    }

    pub fn mend(&mut self, seat: usize) {
        self.seats[seat].is_cut = false;
    }

    /// The next write of a semaphore has its answer lost, or never arrives.
    pub fn lose_next_write(&mut self, lands: bool) {
        self.fate = Some(Fate::Lost { lands });
    }

    /// The next write that ends somebody else's session never arrives.
    pub fn lose_next_fencing(&mut self) {
        self.fencing_is_lost = true;
    }

    /// Whoever reads this record finds it damaged; or nobody does any more.
    pub fn damage(&mut self, key: Option<&str>) {
        self.damaged = key.map(|key| Key::new(key).unwrap());
    }

    /// The next write of a semaphore arrives when it is let go.
    pub fn hold_back_next_write(&mut self) {
        self.fate = Some(Fate::HeldBack);
    }

    /// The next write of a semaphore is refused, and a copy of it arrives when it is let go.
    pub fn refuse_next_write_and_copy_it(&mut self) {
        self.fate = Some(Fate::Copied);
    }

    pub fn let_go(&mut self) {
        for op in std::mem::take(&mut self.held_back) {
            let _late = self.perform(op);
        }
    }

    /// From now on calls about the semaphore are refused like that; or not any more.
    pub fn refuse(&mut self, how: Option<ErrorKind>) {
        self.refused = how;
    }

    /// The same of writes alone.
    pub fn refuse_writes(&mut self, how: Option<ErrorKind>) {
        (self.refused, self.refuses_writes_only) = (how, true);
    }

    pub fn delete(&mut self, key: &str) {
        self.records.remove(&Key::new(key).unwrap());
    }

    pub fn copy(&self, key: &str) -> Option<Record> {
        self.records.get(&Key::new(key).unwrap()).map(|(record, _)| record.clone())
    }

    pub fn put_back(&mut self, key: &str, record: Option<Record>) {
        self.records.insert(Key::new(key).unwrap(), (record.unwrap(), self.t));
    }

    pub fn deface(&mut self, key: &str, metadata: Metadata) {
        let record =
            Record { fence: Fence(1), nonce: Nonce(1), stamp: self.now().wall, tenure: None, metadata };
        self.put_back(key, Some(record));
    }

    pub fn session_fence(&self, seat: usize) -> Fence {
        self.copy(&format!("session/p{seat}")).unwrap().fence
    }

    pub fn ledger(&self) -> SemaphoreLedger {
        self.copy(KEY).and_then(|record| SemaphoreLedger::of(&record).ok()).unwrap_or_default()
    }

    pub fn run(&mut self, span: Duration) {
        let end = self.t.after(span);
        loop {
            let queued = self.queue.first_key_value().map(|((t, _), _)| *t);
            let wakes = self.seats.iter().enumerate().filter(|(_, seat)| seat.is_up);
            let wake = wakes.filter_map(|(index, seat)| Some((seat.wake_at?, index))).min();
            match (queued, wake) {
                (queued, Some((at, index))) if at <= end && queued.is_none_or(|queued| at < queued) => {
                    self.t = self.t.max(at);
                    self.step(index, Event::Wake);
                }
                (Some(at), _) if at <= end => {
                    self.t = self.t.max(at);
                    let Some((_, happens)) = self.queue.pop_first() else { break };
                    self.happen(happens);
                }
                _ => break,
            }
        }
        self.t = end;
    }

    fn at(&mut self, t: Tick, happens: Happens) {
        self.last += 1;
        self.queue.insert((t, self.last), happens);
    }

    fn happen(&mut self, happens: Happens) {
        match happens {
            Happens::Arrives(index, id, op) => {
                let is_write = matches!(&op, Op::Write(write) if write.key.as_str() == KEY);
                let fate = if is_write { self.fate.take() } else { None };
                if let Some(how) =
                    self.refused.filter(|_| concerns(&op) && (is_write || !self.refuses_writes_only))
                {
                    let error = match how {
                        ErrorKind::Foreign => StoreError::foreign("damaged"),
                        ErrorKind::Unavailable => StoreError::unavailable("away"),
                        _ => StoreError::unsupported("access denied"),
                    };
                    return self.at(self.t.after(WAY), Happens::Returns(index, id, Err(error)));
                }
                let unknown = Err(StoreError::unknown("no answer"));
                let ends = |write: &Write| write.record.tenure.is_none() && !concerns(&op);
                if matches!(&op, Op::Write(write) if ends(write)) && std::mem::take(&mut self.fencing_is_lost)
                {
                    return self.at(self.t.after(WAY), Happens::Returns(index, id, unknown));
                }
                let answer = match fate {
                    _ if self.seats[index].is_cut => {
                        let error = if matches!(op, Op::Write(_)) {
                            unknown
                        } else {
                            Err(StoreError::unavailable("cut"))
                        };
                        return self.at(self.t.after(WAY * 500), Happens::Returns(index, id, error));
                    }
                    None => self.perform(op),
                    Some(Fate::Lost { lands }) => {
                        if lands {
                            let _unheard = self.perform(op);
                        }
                        unknown
                    }
                    Some(Fate::HeldBack) => {
                        self.held_back.push_back(op);
                        unknown
                    }
                    Some(Fate::Copied) => {
                        self.held_back.push_back(op);
                        Err(StoreError::unsupported("access denied"))
                    }
                };
                self.at(self.t.after(WAY), Happens::Returns(index, id, answer));
            }
            Happens::Returns(index, id, result) => self.step(index, Event::Answer(id, result)),
            Happens::Hint(index, hint) if self.seats[index].machine.listens() => {
                self.step(index, Event::Changed(hint));
            }
            Happens::Hint(..) => {}
        }
    }

    fn step(&mut self, index: usize, event: Event<Command>) {
        let now = self.now();
        let seat = &mut self.seats[index];
        if !seat.is_up {
            return;
        }
        let step = seat.machine.step(now, event);
        assert!(
            step.wake_at.is_none_or(|at| at > now.held) || !step.requests.is_empty(),
            "a wake-up makes no progress"
        );
        seat.wake_at = step.wake_at;
        for notice in step.notices {
            match &notice {
                Notice::Acquired { lease, .. } => drop(seat.held.insert(lease.0)),
                Notice::Lost(lease, _) => drop(seat.held.remove(&lease.0)),
                Notice::SessionValid(_) => continue,
                _ => {}
            }
            seat.told.push(notice);
        }
        seat.told.retain(|notice| !matches!(notice, Notice::Acquired { .. }));
        for request in step.requests {
            let about = concerns(&request.op);
            self.session_looks += u64::from(matches!(request.op, Op::ReadMany(..)));
            match &request.op {
                Op::Write(_) => self.calls.writes += u64::from(about),
                _ => self.calls.reads += u64::from(about),
            }
            self.at(self.t.after(WAY), Happens::Arrives(index, request.id, request.op));
        }
    }

    fn stored(&self, key: &Key) -> Option<Stored> {
        let (record, written) = self.records.get(key)?;
        Some(Stored::new(record.clone()).aged(Some(self.t.since(*written))))
    }

    pub fn perform(&mut self, op: Op) -> Result<Answer, StoreError> {
        Ok(match op {
            Op::Read(key) => Answer::Read(self.stored(&key)),
            Op::ReadMany(keys, _) => {
                let found = keys.into_iter().filter_map(|key| {
                    let stored = self.stored(&key)?;
                    let is_damaged = self.damaged.as_ref() == Some(&key);
                    let stored = if is_damaged { Err(StoreError::foreign("damaged")) } else { Ok(stored) };
                    Some(Listed { key, stored })
                });
                Answer::Listed(found.collect())
            }
            Op::List { .. } => Answer::Listed(Vec::new()),
            Op::Write(write) => Answer::Write(self.write(*write)),
        })
    }

    fn write(&mut self, write: Write) -> Outcome {
        let Write { key, expect, mut record } = write;
        let standing = self.records.get(&key).map(|(record, _)| record);
        let holds = match expect {
            Expect::Absent => standing.is_none(),
            Expect::Vacant => standing.is_none_or(|record| record.tenure.is_none()),
            Expect::Unchanged(version) => standing.is_some_and(|record| record.version() == version),
        };
        if !holds {
            return Outcome::Lost(self.stored(&key));
        }
        if let (Expect::Vacant, Some(standing)) = (expect, standing) {
            record.fence = standing.fence.next(record.fence).unwrap();
        }
        let (version, fence) = (record.version(), record.fence);
        self.records.insert(key.clone(), (record, self.t));
        if self.push {
            for index in 0..self.seats.len() {
                self.at(self.t.after(WAY), Happens::Hint(index, Hint::Written(key.clone(), version)));
            }
        }
        Outcome::Won { version, fence }
    }
}

/// Whether it is about the semaphore.
fn concerns(op: &Op) -> bool {
    match op {
        Op::Read(key) => key.as_str() == KEY,
        Op::Write(write) => write.key.as_str() == KEY,
        Op::ReadMany(keys, _) => keys.iter().any(|key| key.as_str() == KEY),
        Op::List { .. } => true,
    }
}

fn named(table: &Table, id: Nonce) -> u64 {
    table.leases.get(&id).copied().unwrap_or(0)
}

/// Who holds permits, by lease.
pub fn grants(table: &Table) -> Vec<u64> {
    table.ledger().holders.iter().map(|grant| named(table, grant.ticket.id)).collect()
}

/// Who waits, by lease, in order.
pub fn queued(table: &Table) -> Vec<u64> {
    table.ledger().queue.iter().map(|ticket| named(table, ticket.id)).collect()
}
