//! The world: time, the table, the network between it and the workers, and what is checked.

mod adoption;
mod faults;
mod network;
mod process;

use super::peers::PeerWorker;
use super::time::{FAILOVER, Micros};
use crate::change::RowChange;
use crate::format::Format;
use crate::held::Held;
use crate::options::Options;
use crate::row::{Fields, Row};
use crate::settling::{ChangeAnswer, Settled};
use crate::table::RowListing;
use crate::worker::{self, WorkerMachine, WorkerNotice, WorkerOutput, WorkerRequest};
use adoption::Adoption;
use process::{OurProcess, PAUSE, ProcessClock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tenure_core::{Clock, StoreError};
use tenure_store::parts::SplitMix64;

const FAULTS_UNTIL: Micros = 12 * FAILOVER;
/// By then, every lease is held again: what is stolen or silent is told after a failover time, what is left over is taken after three,
/// and a look takes half of one.
const HEALED_BY: Micros = FAULTS_UNTIL + 6 * FAILOVER;

pub(super) struct WalkTerms {
    pub(super) seed: u64,
    pub(super) format: Format,
    /// A fleet of this many units and four workers without faults and peers, which is moved away.
    pub(super) moves: Option<usize>,
    /// Leases are updated, and left to expire.
    pub(super) lapses: bool,
    /// All workers but one may take no more than one lease.
    pub(super) unequal: bool,
}

impl WalkTerms {
    pub(super) fn usual(seed: u64, format: Format) -> WalkTerms {
        WalkTerms { seed, format, moves: None, lapses: false, unequal: false }
    }
}

/// What happens to somebody at a time.
enum Happens {
    Wake,
    /// A request reaches the table. Whether its answer comes back.
    Look {
        is_answered: bool,
    },
    Change {
        attempt: u64,
        change: Box<RowChange>,
        is_answered: bool,
    },
    /// What the machine is told.
    Looked(Result<RowListing, StoreError>),
    Answered {
        attempt: u64,
        answer: Box<Result<ChangeAnswer, StoreError>>,
    },
    Again {
        attempt: u64,
    },
    Peer(usize),
    Fault,
    /// The adopter goes on with this row.
    Adopt(String),
}

pub(super) struct KclWorld {
    terms: WalkTerms,
    rng: SplitMix64,
    now: Micros,
    order: u64,
    queue: BTreeMap<(Micros, u64), (u64, Happens)>,
    rows: BTreeMap<String, Row>,
    ours: BTreeMap<u64, OurProcess>,
    peers: Vec<PeerWorker>,
    ids: u64,
    fences: BTreeMap<String, u64>,
    told: u64,
    /// The lease that a request has won whose answer is being dealt with.
    just_won: Option<String>,
    /// Nobody begins before that: a newcomer can't know that a row has had a past.
    closed_until: Micros,
    pub(super) remade: u64,
    pub(super) lapses: u64,
    adoption: Option<Adoption>,
}

impl KclWorld {
    pub(super) fn new(terms: WalkTerms) -> KclWorld {
        let mut rng = SplitMix64::new(terms.seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
        let (keys, most_peers, workers) = match terms.moves {
            Some(units) => (units, 1, 4),
            None => (1 + usize::try_from(rng.below(4)).unwrap(), 3, 2 + rng.below(3)),
        };
        let rows = (0..keys).map(|n| {
            let key = format!("k{n:03}");
            let row = Row::new(terms.format, &key, Fields::new()).unwrap();
            (key, row)
        });
        let rows = rows.collect();
        let peers: Vec<PeerWorker> =
            (0..rng.below(most_peers)).map(|n| PeerWorker::new(format!("peer-{n}"))).collect();
        let mut world = KclWorld {
            terms,
            now: 0,
            order: 0,
            queue: BTreeMap::new(),
            rows,
            ours: BTreeMap::new(),
            ids: 0,
            fences: BTreeMap::new(),
            told: 0,
            just_won: None,
            closed_until: 0,
            remade: 0,
            lapses: 0,
            adoption: None,
            peers,
            rng,
        };
        for n in 0..workers {
            world.start(if n > 0 && world.terms.unequal { 1 } else { usize::MAX });
        }
        for n in 0..world.peers.len() {
            let at = world.rng.below(FAILOVER);
            world.at(at, 0, Happens::Peer(n));
        }
        world.at(FAILOVER / 4, 0, Happens::Fault);
        world
    }

    /// Whether each row is had by one of ours.
    fn is_all_had(&self) -> bool {
        self.rows.keys().all(|key| self.ours.values().any(|ours| ours.believes_in(key)))
    }

    /// How many each of ours has.
    fn shares(&self) -> Vec<usize> {
        self.ours.values().map(|ours| ours.believes.iter().filter(|held| held.is_held()).count()).collect()
    }

    pub(super) fn table(&self) -> Vec<Row> {
        self.rows.values().cloned().collect()
    }

    /// Runs to its end. How many leases were told; or what went wrong.
    pub(super) fn run(&mut self) -> Result<u64, String> {
        while let Some(((now, _), (who, happens))) = self.queue.pop_first() {
            self.now = now;
            if now > HEALED_BY {
                break;
            }
            self.happens(who, happens)?;
        }
        for key in self.rows.keys() {
            if !self.ours.values().any(|ours| ours.believes_in(key)) {
                return Err(format!("nobody holds {key} long after all is well: {:?}", self.rows));
            }
        }
        Ok(self.told)
    }

    /// Runs until nobody is left who does anything by then.
    fn run_until(&mut self, end: Micros) -> Result<(), String> {
        while let Some(next) = self.queue.first_entry().filter(|next| next.key().0 <= end) {
            let ((now, _), (who, happens)) = next.remove_entry();
            self.now = now;
            self.happens(who, happens)?;
        }
        self.now = end;
        Ok(())
    }

    fn is_faulty(&self) -> bool {
        self.now < FAULTS_UNTIL && self.terms.moves.is_none()
    }

    fn at(&mut self, at: Micros, who: u64, happens: Happens) {
        self.order += 1;
        self.queue.insert((at, self.order), (who, happens));
    }

    /// Starts one that takes no more than that.
    fn start(&mut self, most: usize) {
        self.ids += 1;
        let clock = Arc::new(ProcessClock::new(self.now, 91 + self.rng.below(19)));
        let options = Options::new(format!("ours-{}", self.ids))
            .failover(Duration::from_micros(FAILOVER))
            .max_leases(most)
            .leases_to_steal(if self.terms.moves.is_some() {
                8
            } else {
                1 + usize::try_from(self.rng.below(3)).unwrap()
            })
            .seed(self.rng.draw());
        let machine = WorkerMachine::new(self.terms.format, Arc::new(options));
        let ours = OurProcess {
            machine,
            clock,
            most,
            stalled_until: 0,
            under_way: BTreeMap::new(),
            believes: Vec::new(),
            lapsed: BTreeMap::new(),
        };
        self.ours.insert(self.ids, ours);
        self.at(self.now, self.ids, Happens::Wake);
    }

    fn happens(&mut self, who: u64, happens: Happens) -> Result<(), String> {
        match happens {
            Happens::Look { is_answered } => {
                let rows = self.rows.values().cloned().collect();
                let listing = Ok(RowListing { rows, ..RowListing::default() });
                self.answer(who, is_answered, Happens::Looked(listing));
                return Ok(());
            }
            Happens::Change { attempt, change, is_answered } => {
                let answer = Box::new(Ok(self.perform(&change)));
                self.answer(who, is_answered, Happens::Answered { attempt, answer });
                return Ok(());
            }
            Happens::Peer(n) => return self.peer(n),
            Happens::Fault => return self.fault(),
            Happens::Adopt(key) => {
                self.adopt(key);
                return Ok(());
            }
            _ => {}
        }
        let Some(ours) = self.ours.get_mut(&who) else { return Ok(()) };
        if ours.stalled_until > self.now {
            let until = ours.stalled_until;
            self.at(until, who, happens);
            return Ok(());
        }
        ours.clock.now.fetch_max(self.now, Ordering::SeqCst);
        match happens {
            Happens::Looked(listing) => {
                ours.machine.on_answer(ours.clock.now(), worker::WorkerAnswer::Looked(listing));
            }
            Happens::Answered { attempt, answer } => {
                let Some((mut settling, purpose, sent)) = ours.under_way.remove(&attempt) else {
                    return Ok(());
                };
                match settling.on(sent, *answer) {
                    Err(error) if error.is_passing() && ours.may_repeat(&settling) => {
                        ours.under_way.insert(attempt, (settling, purpose, sent));
                        self.at(self.now + PAUSE, who, Happens::Again { attempt });
                        return Ok(());
                    }
                    settled => {
                        let key = settling.change.before.key().to_owned();
                        self.just_won = matches!(settled, Ok(Settled::Made(..))).then_some(key);
                        let answer = worker::WorkerAnswer::Settled(purpose, Box::new(settled));
                        ours.machine.on_answer(ours.clock.now(), answer);
                    }
                }
            }
            Happens::Again { attempt } => {
                if let Some((settling, purpose, _)) = ours.under_way.remove(&attempt) {
                    self.request(who, self.now, settling, purpose);
                }
                return Ok(());
            }
            _ => {}
        }
        let stepped = self.step(who);
        self.just_won = None;
        stepped
    }

    /// One step of a worker, which may stand still in the midst of it.
    fn step(&mut self, who: u64) -> Result<(), String> {
        let stalls = self.is_faulty() && self.rng.one_in(60);
        let (early, stall) = (self.rng.one_in(2), self.rng.below(FAILOVER));
        let Some(ours) = self.ours.get_mut(&who) else { return Ok(()) };
        let stand_still = |is_due: bool| {
            if stalls && is_due {
                ours.clock.now.fetch_add(stall, Ordering::SeqCst);
            }
        };
        stand_still(early);
        let outputs = ours.machine.step(ours.clock.now());
        stand_still(!early);
        let pause = u64::try_from(ours.machine.pause(ours.clock.now()).as_micros()).unwrap();
        let is_over = ours.machine.is_over(ours.clock.now());
        // What was done after it had stood still, was done then.
        let now = ours.clock.now.load(Ordering::SeqCst).max(self.now);
        ours.stalled_until = now;
        let mut notices = Vec::new();
        for output in outputs {
            match output {
                WorkerOutput::Request(WorkerRequest::Look) => {
                    let arrives = now + self.delay();
                    let is_answered = !self.is_lost();
                    self.at(arrives, who, Happens::Look { is_answered });
                }
                WorkerOutput::Request(WorkerRequest::Settle(settling, purpose)) => {
                    self.check_lapsed(who, now, &settling.change, &purpose)?;
                    self.request(who, now, *settling, purpose);
                }
                WorkerOutput::Notice(notice) => notices.push(notice),
                WorkerOutput::Hide(_) | WorkerOutput::Reply(_) => {}
            }
        }
        if is_over {
            self.ours.remove(&who);
            return Ok(());
        }
        self.at(now + pause.max(1), who, Happens::Wake);
        for notice in notices {
            self.hear(who, now, notice)?;
        }
        self.check(who, now)
    }

    /// What users hear, and whether they may believe it.
    fn hear(&mut self, who: u64, now: Micros, notice: WorkerNotice) -> Result<(), String> {
        let Some(ours) = self.ours.get_mut(&who) else { return Ok(()) };
        match notice {
            WorkerNotice::Taken(cell) => {
                let held = Held { cell, clock: Arc::clone(&ours.clock) as Arc<dyn Clock> };
                let (key, fence) = (held.key().to_owned(), held.counter_at_take());
                if self.just_won.as_ref() != Some(&key) {
                    return Err(format!("at {now}, {key} is told, but its loss may be known by now"));
                }
                if held.is_held() {
                    let last = self.fences.insert(key.clone(), fence).unwrap_or(0);
                    if last >= fence {
                        return Err(format!("at {now}, {key} is told with fence {fence} after {last}"));
                    }
                }
                self.told += 1;
                if let Some(adoption) = &mut self.adoption {
                    adoption.is_had(&key);
                }
                ours.believes.push(held);
            }
            WorkerNotice::Lost(cell, _) => {
                let before = ours.believes.len();
                ours.believes.retain(|held| !Arc::ptr_eq(&held.cell, &cell));
                if ours.believes.len() == before {
                    return Err(format!("at {now}, {cell:?} is told as lost, and never was as taken"));
                }
                if let Some(adoption) = &mut self.adoption {
                    adoption.is_left(cell.key(), now);
                }
            }
            WorkerNotice::Wanted(..)
            | WorkerNotice::Finished(_)
            | WorkerNotice::LookFailed(_)
            | WorkerNotice::TakeFailed(..)
            | WorkerNotice::Foreign(_)
            | WorkerNotice::Skipped(_)
            | WorkerNotice::Revived(_) => {}
        }
        Ok(())
    }

    fn check(&self, who: u64, now: Micros) -> Result<(), String> {
        if self.terms.moves.is_some() {
            // Each with each would take long, and the other worlds see to it.
            return Ok(());
        }
        let Some(ours) = self.ours.get(&who) else { return Ok(()) };
        for held in ours.believes.iter().filter(|held| held.is_held()) {
            for (other, them) in self.ours.iter().filter(|(other, _)| **other != who) {
                // Where that one is, its clock has gone on although it was not stepped.
                let past = them.clock.now.fetch_max(now, Ordering::SeqCst);
                let both = them.believes_in(held.key());
                them.clock.now.store(past, Ordering::SeqCst);
                if both {
                    return Err(format!(
                        "at {now}, {other} and {who} believe in {} at once: {:?}, {:?}; its row is {:?}",
                        held.key(),
                        them.believes,
                        ours.believes,
                        self.rows.get(held.key())
                    ));
                }
            }
        }
        Ok(())
    }

    fn peer(&mut self, n: usize) -> Result<(), String> {
        let Some(peer) = self.peers.get_mut(n) else { return Ok(()) };
        if self.now >= FAULTS_UNTIL {
            // It is dead from here on, and what it has becomes silent.
            return Ok(());
        }
        let next = peer.acts(self.now, self.terms.format, &mut self.rows, &mut self.rng);
        self.at(next, 0, Happens::Peer(n));
        Ok(())
    }
}
