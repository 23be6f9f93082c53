//! Worlds of candidates on one row: ours, and less's as their source describes them.
//!
//! Plan: calls take time, are lost before or after they took effect, and land late; leaders resign; processes stall; clocks run at different
//! rates; the storage's clock jumps. At every event at most one of ours believes that it leads. Where nothing stalls and no call is lost, at most one of
//! all does, theirs included. Once all is calm, somebody leads in bounded time. Each world is one seed, and repeats exactly.

use crate::machine::{LeadershipMachine, LeadershipNotice, MachineStep, StorageAnswer, StorageCall};
use crate::options::CandidateOptions;
use crate::storage::{LeaderRow, Micros, Seen};
use std::collections::BTreeMap;
use tenure_core::{Now, StoreError, Tick, Wall};

const TTL: u64 = 10_000_000;
const SKEW: u64 = 500_000;
const RATE: u64 = 2_000_000;
/// How long a call of ours is waited for.
const PATIENCE: u64 = 2_500_000;
/// When the wall clocks start, in microseconds.
const EPOCH: u64 = 1_790_000_000_000_000;

/// Numbers that look random (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
struct WalkRng(u64);

impl WalkRng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What may go wrong in a world.
#[derive(Debug, Clone, Copy)]
struct WalkFaults {
    stalls: bool,
    losses: bool,
    jumps: bool,
    resigns: bool,
    theirs: usize,
}

/// A call of less's: it knows the deadline before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Their {
    SetNx { deadline: u64, now: u64 },
    Renew { deadline: u64 },
    Get,
}

#[derive(Debug, Clone)]
enum WalkEvent {
    /// One of ours is due, if this is still its last wake-up.
    Wake(usize, u64),
    Lands(usize, u64, StorageCall),
    Answered(usize, u64, Result<StorageAnswer, StoreError>),
    TheyTick(usize),
    TheirsLands(usize, Their),
    TheyHear(usize, Their, Option<bool>),
    Resigns,
    Stalls,
    Jumps,
}

struct OurCandidate {
    machine: LeadershipMachine,
    /// Its clock's rate, in thousandths.
    rate: u64,
    frozen: u64,
    wake: u64,
    /// The number of its last call: answers to earlier ones are not waited for any more.
    call: u64,
}

/// A candidate of less: it follows, or it is the leader until it hears otherwise.
struct Theirs {
    leads: bool,
    errors: u32,
    /// How far its clock is ahead, in microseconds; less than nothing is not needed, as the others may be behind.
    ahead: u64,
    frozen: u64,
}

struct LessWorld {
    rng: WalkRng,
    faults: WalkFaults,
    at: u64,
    /// Until then there are faults.
    rough: u64,
    queue: BTreeMap<(u64, u64), WalkEvent>,
    sequence: u64,
    row: Option<(String, u64)>,
    jumped: i64,
    ours: Vec<OurCandidate>,
    theirs: Vec<Theirs>,
    terms: usize,
}

impl LessWorld {
    fn new(seed: u64, faults: WalkFaults) -> LessWorld {
        let mut rng = WalkRng(seed);
        let ours = (0..3)
            .map(|n| OurCandidate {
                machine: LeadershipMachine::new(CandidateOptions::new(), format!("ours-{n}")),
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

    fn run(&mut self, until: u64) {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            if at > until {
                self.queue.insert((at, 0), event);
                break;
            }
            self.at = at;
            self.handle(event);
            let believers = self.believers();
            assert!(believers.len() <= 1, "at {} µs {believers:?} lead", self.at);
            if !self.faults.stalls && !self.faults.losses && !self.faults.jumps {
                let leaders = believers.len() + self.theirs.iter().filter(|theirs| theirs.leads).count();
                assert!(leaders <= 1, "at {} µs {leaders} lead", self.at);
            }
        }
        self.at = until;
    }

    fn believers(&self) -> Vec<usize> {
        (0..self.ours.len()).filter(|n| self.ours[*n].machine.believes(self.now_of(*n).held)).collect()
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
            WalkEvent::Lands(n, call, ask) => {
                let answer = self.land(n, &ask);
                if !self.is_lost() {
                    let back = self.flight();
                    self.push(back, WalkEvent::Answered(n, call, Ok(answer)));
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
        }
    }

    fn step(&mut self, n: usize) {
        loop {
            let (now, random) = (self.now_of(n), self.rng.next());
            let ours = &mut self.ours[n];
            let step = ours.machine.step(now, random);
            self.terms += ours
                .machine
                .notices()
                .iter()
                .filter(|notice| matches!(notice, LeadershipNotice::Elected(_)))
                .count();
            let until = match step {
                MachineStep::Over => return,
                MachineStep::Wait(until) => until,
                MachineStep::Ask(ask) => {
                    let call = ours.call;
                    if !self.is_lost() {
                        let there = self.flight();
                        self.push(there, WalkEvent::Lands(n, call, ask));
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
    fn land(&mut self, n: usize, ask: &StorageCall) -> StorageAnswer {
        let now = self.server();
        let me = format!("ours-{n}");
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

    fn clock_of_theirs(&self, n: usize) -> u64 {
        EPOCH + self.at + self.theirs[n].ahead
    }

    fn they_tick(&mut self, n: usize) {
        let now = self.clock_of_theirs(n);
        let their = if self.theirs[n].leads {
            Their::Renew { deadline: now + TTL }
        } else {
            Their::SetNx { deadline: now + TTL, now }
        };
        let there = self.flight();
        self.push(there, WalkEvent::TheirsLands(n, their));
    }

    /// What their statements do.
    fn land_theirs(&mut self, n: usize, their: Their) -> bool {
        let me = format!("theirs-{n}");
        match their {
            Their::SetNx { deadline, now } => {
                let may = self.row.as_ref().is_none_or(|(_, until)| *until < now);
                if may {
                    self.row = Some((me, deadline));
                }
                may
            }
            // Whoever's it is.
            Their::Renew { deadline } => {
                if let Some((_, until)) = &mut self.row {
                    *until = deadline;
                }
                true
            }
            Their::Get => {
                let now = self.clock_of_theirs(n);
                self.row.as_ref().is_some_and(|(value, until)| *value == me && *until >= now)
            }
        }
    }

    fn they_hear(&mut self, n: usize, their: Their, heard: Option<bool>) {
        let theirs = &mut self.theirs[n];
        match (their, heard) {
            (Their::SetNx { .. }, Some(true)) => {
                (theirs.leads, theirs.errors) = (true, 0);
                return self.they_tick(n);
            }
            (Their::SetNx { .. }, _) => {}
            (Their::Renew { .. }, Some(_)) => {
                let there = self.flight();
                return self.push(there, WalkEvent::TheirsLands(n, Their::Get));
            }
            (Their::Get, Some(true)) => theirs.errors = 0,
            (Their::Get, Some(false)) => theirs.leads = false,
            (_, None) => {
                theirs.errors += 1;
                theirs.leads &= theirs.errors < 3;
            }
        }
        self.push(RATE, WalkEvent::TheyTick(n));
    }

    /// Whoever leads is asked to lead no more, from time to time.
    fn resign(&mut self) {
        if !self.is_rough() || !self.faults.resigns {
            return;
        }
        if let [leader] = *self.believers() {
            self.ours[leader].machine.resign();
            if self.ours[leader].frozen <= self.at {
                self.step(leader);
            }
        }
        let next = 1 + self.rng.below(30_000_000);
        self.push(next, WalkEvent::Resigns);
    }

    fn stall(&mut self) {
        if !self.is_rough() {
            return;
        }
        if self.faults.stalls {
            let span = self.rng.below(25_000_000);
            let who = self.rng.below((self.ours.len() + self.theirs.len()) as u64) as usize;
            let until = self.at + span;
            match self.ours.get_mut(who) {
                Some(ours) => ours.frozen = until,
                None => self.theirs[who - self.ours.len()].frozen = until,
            }
        }
        let next = 1 + self.rng.below(10_000_000);
        self.push(next, WalkEvent::Stalls);
    }

    fn jump(&mut self) {
        if !self.is_rough() || !self.faults.jumps {
            return;
        }
        // Forwards, far enough for any deadline to be past. A clock that went back would only make deadlines longer.
        self.jumped += i64::try_from(self.rng.below(60_000_000)).unwrap();
        let next = 10_000_000 + self.rng.below(40_000_000);
        self.push(next, WalkEvent::Jumps);
    }
}

/// Runs worlds of a kind through rough times and calm ones.
fn worlds(faults: WalkFaults) {
    let mut terms = 0;
    for seed in 0..150 {
        let mut world = LessWorld::new(seed, faults);
        world.run(300_000_000);
        let healed = world.at + 25_000_000 + 15_000_000;
        world.run(healed);
        let bound = 2 * (TTL + SKEW) + 2 * RATE;
        world.run(healed + bound);
        let leads = !world.believers().is_empty() || world.theirs.iter().any(|theirs| theirs.leads);
        assert!(leads, "seed {seed}: nobody leads {bound} µs after all is well: {:?}", world.row);
        terms += world.terms;
    }
    assert!(terms > 150, "only {terms} terms: these worlds show nothing");
}

const CALM: WalkFaults = WalkFaults { stalls: false, losses: false, jumps: false, resigns: false, theirs: 0 };

#[test]
fn s1_one_of_ours_leads_whatever_stalls_or_is_lost() {
    worlds(WalkFaults { stalls: true, losses: true, resigns: true, ..CALM });
}

#[test]
fn s1_one_of_ours_leads_beside_candidates_that_renew_whatever_is_there() {
    worlds(WalkFaults { stalls: true, losses: true, resigns: true, theirs: 3, ..CALM });
}

#[test]
fn s1_one_of_ours_leads_though_the_storage_s_clock_jumps_ahead() {
    worlds(WalkFaults { stalls: true, losses: true, jumps: true, resigns: true, theirs: 0 });
}

#[test]
fn s1_one_of_all_leads_where_nothing_stalls_and_clocks_are_within_the_margin() {
    for seed in 0..100 {
        LessWorld::new(seed, WalkFaults { theirs: 3, ..CALM }).run(120_000_000);
    }
}

#[test]
fn l1_a_dead_leader_s_row_is_taken_a_ttl_after_it_was_seen() {
    for seed in 0..50 {
        let mut world = LessWorld::new(seed, CALM);
        world.run(30_000_000);
        let leader = world.believers()[0];
        let died = world.at;
        world.ours[leader].frozen = u64::MAX;
        let deadline = world.row.clone().unwrap().1 - EPOCH;
        while world.believers().iter().all(|n| *n == leader) {
            let next = world.at + 10_000;
            world.run(next);
        }
        // Seen a follower's rate after it was written, at the latest. A clock that is slow by a tenth waits longer by that.
        let took = world.at - died;
        let bound = (deadline - TTL + RATE).saturating_sub(died) + (TTL - SKEW) * 10 / 9 + 3 * SKEW;
        assert!(took <= bound, "seed {seed}: {took} µs, where {bound} are allowed");
    }
}
