//! The world: time, the row, the network between it and the candidates.

mod checks;
mod theirs;
mod troubles;

use super::{EPOCH, SKEW, TTL};
use crate::machine::{LeadershipMachine, LeadershipNotice, MachineStep, StorageAnswer, StorageCall};
use crate::options::CandidateOptions;
use crate::storage::{LeaderRow, Micros, Seen};
use checks::WalkChecks;
use std::collections::BTreeMap;
use tenure_core::{Now, StoreError, Tick, Wall};
use tenure_store::parts::SplitMix64;
use theirs::{Their, Theirs};

/// How long a call of ours is waited for.
const PATIENCE: u64 = 2_500_000;

/// What may go wrong in a world.
#[derive(Debug, Clone, Copy)]
pub(super) struct WalkFaults {
    pub(super) stalls: bool,
    pub(super) losses: bool,
    pub(super) jumps: bool,
    pub(super) resigns: bool,
    /// The storage refuses calls at once, for a while.
    pub(super) refuses: bool,
    /// Leaders lapse, or stop, and begin anew as other candidates.
    pub(super) ends: bool,
    pub(super) theirs: usize,
}

#[derive(Debug, Clone)]
enum WalkEvent {
    /// One of ours is due, if this is still its last wake-up.
    Wake(usize, u64),
    /// A call reaches the storage, from a candidate of that id.
    Lands(usize, String, u64, StorageCall),
    Answered(usize, u64, Result<StorageAnswer, StoreError>),
    TheyTick(usize),
    TheirsLands(usize, Their),
    TheyHear(usize, Their, Option<bool>),
    Resigns,
    Stalls,
    Jumps,
    Refuses,
    Ends,
}

pub(super) struct OurCandidate {
    machine: LeadershipMachine,
    id: String,
    /// Its clock's rate, in thousandths.
    rate: u64,
    pub(super) frozen: u64,
    wake: u64,
    /// The number of its last call: answers to earlier ones are not waited for any more.
    call: u64,
}

pub(super) struct LessWorld {
    rng: SplitMix64,
    faults: WalkFaults,
    pub(super) at: u64,
    /// Until then there are faults.
    rough: u64,
    queue: BTreeMap<(u64, u64), WalkEvent>,
    sequence: u64,
    pub(super) row: Option<(String, u64)>,
    jumped: i64,
    /// Until then the storage refuses all calls.
    refuses_until: u64,
    pub(super) checks: WalkChecks,
    pub(super) ours: Vec<OurCandidate>,
    theirs: Vec<Theirs>,
    pub(super) terms: usize,
}

impl LessWorld {
    pub(super) fn new(seed: u64, faults: WalkFaults) -> LessWorld {
        let mut rng = SplitMix64::new(seed);
        let ours = (0..3)
            .map(|n| OurCandidate {
                machine: LeadershipMachine::new(CandidateOptions::new(), format!("ours-{n}")),
                id: format!("ours-{n}"),
                rate: 900 + rng.below(201),
                frozen: 0,
                wake: 0,
                call: 0,
            })
            .collect();
        let theirs = (0..faults.theirs)
            .map(|_| Theirs { leads: false, errors: 0, ahead: rng.below(SKEW / 2), frozen: 0 })
            .collect();
        let mut world = LessWorld {
            rng,
            faults,
            at: 0,
            rough: 300_000_000,
            queue: BTreeMap::new(),
            sequence: 0,
            row: None,
            jumped: 0,
            refuses_until: 0,
            checks: WalkChecks::default(),
            ours,
            theirs,
            terms: 0,
        };
        for n in 0..world.ours.len() {
            let start = world.rng.below(5_000_000);
            world.push(start, WalkEvent::Wake(n, 0));
        }
        for n in 0..world.theirs.len() {
            let start = world.rng.below(5_000_000);
            world.push(start, WalkEvent::TheyTick(n));
        }
        world.push(1_000_000, WalkEvent::Resigns);
        world.push(1_000_000, WalkEvent::Stalls);
        world.push(1_000_000, WalkEvent::Jumps);
        world.push(1_000_000, WalkEvent::Refuses);
        world.push(1_000_000, WalkEvent::Ends);
        world
    }

    fn push(&mut self, after: u64, event: WalkEvent) {
        self.sequence += 1;
        self.queue.insert((self.at + after, self.sequence), event);
    }

    fn is_rough(&self) -> bool {
        self.at < self.rough
    }

    fn now_of(&self, n: usize) -> Now {
        let nanos = self.at * self.ours[n].rate;
        Now { held: Tick(nanos), waited: Tick(nanos), wall: Wall((EPOCH + self.at) / 1000) }
    }

    /// The clock that our deadlines are written by.
    fn server(&self) -> u64 {
        (EPOCH + self.at).saturating_add_signed(self.jumped)
    }

    fn flight(&mut self) -> u64 {
        let late = self.faults.losses && self.is_rough() && self.rng.one_in(20);
        if late { self.rng.below(15_000_000) } else { 1 + self.rng.below(20_000) }
    }

    fn is_lost(&mut self) -> bool {
        self.faults.losses && self.is_rough() && self.rng.one_in(8)
    }

    pub(super) fn run(&mut self, until: u64) {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            if at > until {
                self.queue.insert((at, 0), event);
                break;
            }
            self.at = at;
            self.handle(event);
            self.checks.is_free(self.at, self.is_free());
            let believers = self.believers();
            assert!(believers.len() <= 1, "at {} µs {believers:?} lead", self.at);
            if !self.faults.stalls && !self.faults.losses && !self.faults.jumps {
                let leaders = self.leaders();
                assert!(leaders <= 1, "at {} µs {leaders} lead", self.at);
            }
        }
        self.at = until;
    }

    pub(super) fn believers(&self) -> Vec<usize> {
        (0..self.ours.len()).filter(|n| self.ours[*n].machine.believes(self.now_of(*n).held)).collect()
    }

    /// How many lead, theirs included.
    pub(super) fn leaders(&self) -> usize {
        self.believers().len() + self.theirs.iter().filter(|theirs| theirs.leads).count()
    }

    fn handle(&mut self, event: WalkEvent) {
        let frozen = match &event {
            WalkEvent::Wake(n, _) | WalkEvent::Answered(n, ..) => self.ours[*n].frozen,
            WalkEvent::TheyTick(n) | WalkEvent::TheyHear(n, ..) => self.theirs[*n].frozen,
            _ => 0,
        };
        if frozen > self.at {
            return self.push(frozen - self.at, event);
        }
        match event {
            WalkEvent::Wake(n, wake) if wake == self.ours[n].wake => self.step(n),
            WalkEvent::Wake(..) => {}
            WalkEvent::Lands(n, me, call, ask) => {
                let is_refused = self.at < self.refuses_until;
                let refused = || Err(StoreError::unavailable("refused"));
                let answer = if is_refused { refused() } else { Ok(self.land(n, me, &ask)) };
                if !self.is_lost() {
                    let back = self.flight();
                    self.push(back, WalkEvent::Answered(n, call, answer));
                }
            }
            WalkEvent::Answered(n, call, told) if call == self.ours[n].call => {
                self.ours[n].call += 1;
                let now = self.now_of(n);
                self.ours[n].machine.told(told, now);
                self.step(n);
            }
            WalkEvent::Answered(..) => {}
            WalkEvent::TheyTick(n) => self.they_tick(n),
            WalkEvent::TheirsLands(n, their) => {
                let heard = self.land_theirs(n, their);
                if self.is_lost() {
                    // Their driver has no time limit, but connections end.
                    self.push(3_000_000, WalkEvent::TheyHear(n, their, None));
                } else {
                    let back = self.flight();
                    self.push(back, WalkEvent::TheyHear(n, their, Some(heard)));
                }
            }
            WalkEvent::TheyHear(n, their, heard) => self.they_hear(n, their, heard),
            WalkEvent::Resigns => self.resign(),
            WalkEvent::Stalls => self.stall(),
            WalkEvent::Jumps => self.jump(),
            WalkEvent::Refuses => self.refuse(),
            WalkEvent::Ends => self.end(),
        }
    }

    fn step(&mut self, n: usize) {
        loop {
            let (now, random) = (self.now_of(n), self.rng.draw());
            let ours = &mut self.ours[n];
            let step = ours.machine.step(now, random);
            for notice in ours.machine.notices() {
                if let LeadershipNotice::Elected(_) = notice {
                    self.terms += 1;
                    self.checks.elected(self.at, n);
                }
            }
            let until = match step {
                MachineStep::Over => return self.begin_anew(n),
                MachineStep::Wait(until) => until,
                MachineStep::Ask(ask) => {
                    let (call, me) = (ours.call, ours.id.clone());
                    if !self.is_lost() {
                        let there = self.flight();
                        self.push(there, WalkEvent::Lands(n, me, call, ask));
                    }
                    let unknown = StoreError::unknown("no answer");
                    self.push(PATIENCE, WalkEvent::Answered(n, call, Err(unknown)));
                    continue;
                }
            };
            let ours = &mut self.ours[n];
            ours.wake += 1;
            let wake = ours.wake;
            if until != Tick::NEVER {
                let after = (until.0 / ours.rate).saturating_sub(self.at) + 1;
                self.push(after, WalkEvent::Wake(n, wake));
            }
            return;
        }
    }

    /// What our statements do.
    fn land(&mut self, n: usize, me: String, ask: &StorageCall) -> StorageAnswer {
        let now = self.server();
        let done = |is_done| if is_done { StorageAnswer::Done } else { StorageAnswer::Refused };
        let micros = |at: u64| Micros(i64::try_from(at).unwrap());
        match ask {
            StorageCall::Look => {
                let row =
                    self.row.clone().map(|(value, deadline)| LeaderRow { value, deadline: micros(deadline) });
                StorageAnswer::Seen(Seen { row, now: micros(now) })
            }
            StorageCall::Take { over } => {
                let may = match (&self.row, over) {
                    (None, None) => true,
                    (Some((value, deadline)), Some(over)) => {
                        *value == over.value && micros(*deadline) == over.deadline && deadline + SKEW < now
                    }
                    _ => false,
                };
                if may {
                    self.row = Some((me, now + TTL));
                    self.checks.took(self.at, Some(n));
                }
                done(may)
            }
            StorageCall::Renew => {
                let may = self.row.as_ref().is_some_and(|(value, deadline)| *value == me && *deadline >= now);
                if may {
                    self.row = Some((me, now + TTL));
                }
                done(may)
            }
            StorageCall::Release { row } => {
                let is_it = |own: &mut (String, u64)| own.0 == row.value && micros(own.1) == row.deadline;
                done(self.row.take_if(is_it).is_some())
            }
        }
    }

    /// Whether anybody may take the row.
    fn is_free(&self) -> bool {
        self.row.as_ref().is_none_or(|(_, deadline)| deadline + SKEW < self.server())
    }
}
