//! Real processes that contend for one key on DynamoDB Local, while something is done to the processes, to their clocks, or to
//! the service.
//!
//! Plan: holders are stopped (SIGSTOP) for half a ttl to four, and go on; they are killed (SIGKILL) at many moments, and others
//! come in their place; a holder's machine is suspended, so that its monotonic clock stands still meanwhile, or paused
//! from outside, so that it notices nothing; clocks run at wrong rates; wall clocks are hours and years off; the service is
//! killed and restarted from its disk, and stands still. Each process says when it believes. Fences grow throughout, and no two
//! believe at the same time, but where time is hidden or rates are beyond the bound: there, fences are all that is promised.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

mod clocks;
mod contender;
mod server;

use contender::{Place, start};
use rustix::process::Signal;
use server::Server;
use std::collections::BTreeSet;
use std::time::Duration;
use tenure_core::Clock as _;
use tenure_dynamodb::DynamoStore;
use tenure_dynamodb_testkit::{Beliefs, Party, ProcessReport, endpoint, make};
use tenure_testkit::{RealClock, unique};

const TABLE: &str = "tenure-processes";
const TTL: Duration = Duration::from_millis(1500);
/// By when everything goes on, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

async fn place(name: &str) -> Place {
    make(TABLE).await;
    Place { endpoint: endpoint(), table: TABLE.to_owned(), namespace: unique(name), ttl: TTL }
}

/// What is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Promise {
    /// No two believe at the same time.
    OneHolder,
    /// Each fence is greater than the one before, and that is all.
    Fences,
}

/// Processes that contend, and what those said that are gone.
struct Contest {
    place: Place,
    parties: Vec<Party>,
    beliefs: Beliefs,
    started: usize,
}

impl Contest {
    /// One process for each of these clocks.
    fn start(place: Place, clocks: &[&str]) -> Contest {
        let mut contest = Contest { place, parties: Vec::new(), beliefs: Beliefs::default(), started: 0 };
        clocks.iter().for_each(|clock| contest.join(clock));
        contest.parties.iter().for_each(Party::await_ready);
        contest
    }

    fn join(&mut self, clock: &str) {
        let id = format!("p{}", self.started);
        self.started += 1;
        self.parties.push(start(&id, clock, &self.place));
    }

    /// How often each process has had the key.
    fn turns(&self) -> Vec<usize> {
        let turns = |party: &Party| {
            party.said().iter().filter(|said| matches!(said, ProcessReport::Taken { .. })).count()
        };
        self.parties.iter().map(turns).collect()
    }

    /// Waits until each has had the key so many times more.
    async fn goes_on(&self, times: usize) {
        let (before, clock) = (self.turns(), RealClock::new());
        loop {
            let turns = self.turns();
            if before.iter().zip(&turns).all(|(before, now)| now - before >= times) {
                return;
            }
            assert!(clock.held().0 < SOON.as_nanos() as u64, "{before:?} turns, and then only {turns:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until one of these holds the key, and tells which.
    async fn holder(&self, among: &[usize]) -> usize {
        let clock = RealClock::new();
        loop {
            if let Some(place) = among.iter().find(|place| !self.parties[**place].held().is_empty()) {
                return *place;
            }
            assert!(clock.held().0 < SOON.as_nanos() as u64, "none of {among:?} gets it");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Stops a process for as long as this.
    async fn stop_for(&self, place: usize, span: Duration) {
        let party = &self.parties[place];
        party.signal(Signal::STOP);
        tokio::time::sleep(span).await;
        party.signal(Signal::CONT);
    }

    /// Kills a process, and starts another in its place.
    fn replace(&mut self, place: usize) {
        let (said, dead) = self.parties.remove(place).kill();
        self.beliefs.add(&said, dead);
        self.join("right");
    }

    /// Ends it, and checks what was promised.
    fn check(mut self, name: &str, promise: Promise) {
        for party in self.parties.drain(..) {
            let (said, gone) = party.stop();
            self.beliefs.add(&said, gone);
        }
        let (tenures, overlap) = (self.beliefs.tenures(), self.beliefs.longest_overlap());
        println!("{name}: {tenures} tenures of {} processes, the longest overlap {overlap:?}", self.started);
        let allowed = if promise == Promise::OneHolder { Duration::ZERO } else { Duration::MAX };
        assert_eq!(self.beliefs.violations(allowed), "", "{name}");
    }
}

#[tokio::test]
async fn holders_are_stopped() {
    if contender::contended().await {
        return;
    }
    let contest = Contest::start(place("stopped").await, &["right"; 3]);
    contest.goes_on(1).await;
    for span in [TTL / 2, TTL, TTL * 2, TTL * 4] {
        let holder = contest.holder(&[0, 1, 2]).await;
        contest.stop_for(holder, span).await;
        contest.goes_on(1).await;
    }
    contest.check("stopped", Promise::OneHolder);
}

#[tokio::test]
async fn holders_are_killed() {
    let mut contest = Contest::start(place("killed").await, &["right"; 3]);
    let mut replaced = BTreeSet::new();
    for n in 0..10 {
        let holder = contest.holder(&[0, 1, 2]).await;
        // In the middle of a tenure, at a renewal, at the release, and between two tenures.
        tokio::time::sleep(TTL / 7 * n).await;
        contest.replace(holder);
        replaced.insert(holder);
    }
    contest.parties.iter().for_each(Party::await_ready);
    contest.goes_on(1).await;
    contest.check("killed", Promise::OneHolder);
}

#[tokio::test]
async fn machines_are_suspended() {
    let contest = Contest::start(place("suspended").await, &["suspends", "suspends", "right"]);
    for span in [TTL / 2, TTL * 2, TTL * 3] {
        let holder = contest.holder(&[0, 1]).await;
        contest.stop_for(holder, span).await;
        contest.goes_on(1).await;
    }
    contest.check("suspended", Promise::OneHolder);
}

#[tokio::test]
async fn machines_are_paused_and_do_not_notice() {
    let contest = Contest::start(place("paused").await, &["hides", "hides", "right"]);
    for span in [TTL * 2, TTL * 3, TTL * 2] {
        let holder = contest.holder(&[0, 1]).await;
        contest.stop_for(holder, span).await;
        contest.goes_on(1).await;
    }
    contest.check("paused", Promise::Fences);
}

#[tokio::test]
async fn clocks_run_at_other_rates() {
    let within = Contest::start(place("rates").await, &["rate:910", "right", "rate:1090"]);
    let beyond = Contest::start(place("rates").await, &["rate:500", "right", "rate:1500"]);
    for _ in 0..2 {
        for contest in [&within, &beyond] {
            let holder = contest.holder(&[0]).await;
            contest.stop_for(holder, TTL * 2).await;
            contest.goes_on(2).await;
        }
    }
    within.check("rates within 10 %", Promise::OneHolder);
    beyond.check("rates of half and one and a half", Promise::Fences);
}

#[tokio::test]
async fn wall_clocks_are_wrong() {
    const HOUR: i64 = 3600;
    const YEARS: i64 = 10 * 365 * 24 * HOUR;
    for off in [HOUR, YEARS] {
        let clocks = [format!("wall:{off}"), "right".to_owned(), format!("wall:-{off}")];
        let contest = Contest::start(place("wall").await, &clocks.each_ref().map(String::as_str));
        for place in 0..3 {
            let holder = contest.holder(&[place]).await;
            contest.stop_for(holder, TTL * 2).await;
            contest.goes_on(1).await;
        }
        contest.check("wall clocks", Promise::OneHolder);
    }
}

#[tokio::test]
async fn the_service_is_killed_and_restarts_from_its_disk() {
    let disk = std::env::temp_dir().join(unique("tenure-processes"));
    std::fs::create_dir_all(&disk).unwrap();
    let mut server = Server::start(&disk).await;
    let config = tenure_dynamodb_testkit::config(TABLE).endpoint(server.endpoint());
    DynamoStore::create_table(&config.timeout(tenure_dynamodb::DynamoConfig::MAX_TIMEOUT)).await.unwrap();
    let place =
        Place { endpoint: server.endpoint(), table: TABLE.to_owned(), namespace: unique("disk"), ttl: TTL };
    let contest = Contest::start(place, &["right"; 3]);
    contest.goes_on(1).await;
    for away in [Duration::ZERO, TTL * 2] {
        contest.holder(&[0, 1, 2]).await;
        server.crash(away).await;
        contest.goes_on(1).await;
    }
    contest.holder(&[0, 1, 2]).await;
    server.pause(TTL * 2).await;
    contest.goes_on(1).await;
    contest.check("disk", Promise::OneHolder);
    drop(server);
    std::fs::remove_dir_all(&disk).unwrap();
}
