//! A thousand workers of a fleet on a service with DynamoDB's items, prices and limits, in simulated time, with the machines that run in
//! production: what all of them ask at rest, after a change, and when many start at once, and how soon all is where it should be.
//!
//! What one shard is asked for in a second stands beside what the service does for it, 3,000 read units and 1,000 write units. Nothing is
//! throttled before the last rows: where that is exceeded, the service would have refused calls. In the last rows it does, with and without the
//! credit for capacity that was not used before. A change is over once all units are held, and evenly.
//!
//! `cargo xtask bench fleet_table`; some minutes. `cargo bench -p tenure-bench --bench fleet_table -- 100 10000` for other sizes.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench may fail")]

#[path = "../../crates/tenure-core/tests/harness/mod.rs"]
mod harness;

use harness::service::Limits;
use harness::{Harness, Store, TTL, Turns};
use std::collections::BTreeSet;
use std::time::Duration;
use tenure_bench::{cpu_time, is_bench, stopwatch};
use tenure_core::fleet::plan::{Load, Room, plan};
use tenure_core::fleet::{About, Balance, FleetCommand};
use tenure_core::{Key, Record};

const INTERVAL: Duration = TTL.checked_div(3).unwrap();
const SHARDS: u64 = 16;
/// What an item has besides its key and its record.
const BESIDE: u64 = 100;

fn weigh(key: &Key, record: &Record) -> u64 {
    let encoded = tenure_store::codec::encode(record).expect("what a fleet writes can be encoded");
    key.as_str().len() as u64 + encoded.len() as u64 + BESIDE
}

fn main() {
    let asked: Vec<usize> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let (workers, units) = match asked[..] {
        [workers, units] => (workers, units),
        _ if is_bench() => (1_000, 100_000),
        _ => (10, 100),
    };
    println!(
        "simulated time, ttl {TTL:?}, {workers} workers, {units} units, {SHARDS} shards; ages are told, no push\n"
    );
    println!(
        "| what | over after | moves | pages listed | read units | write units | the most of a shard in 1 s: reads, writes | calls refused | real, CPU |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let store = Store { age: true, push: false };
    let mut fleet = Harness::large(store, workers, units);
    at_rest(&mut fleet);
    let mut here = workers;
    let mut changed = |what: &str, more: isize, change: fn(&mut Harness)| {
        fleet.run(TTL * 3);
        here = here.saturating_add_signed(more);
        measure(what, &mut fleet, here, change);
    };
    changed("one worker joins", 1, |fleet| join(fleet, 1));
    changed("one leaves", -1, |fleet| fleet.order(3, FleetCommand::Leave));
    changed("one is killed", -1, |fleet| fleet.kill(5));
    changed("who plans is killed", -1, |fleet| {
        let planner = fleet.planner();
        fleet.kill(planner);
    });
    restarts(&mut fleet, here);
    drop(fleet);
    for (what, limits) in [
        ("all start at once", None),
        ("the same where what is too much is refused", Some(Limits::of_dynamodb(false))),
        ("the same with credit for 300 s", Some(Limits::of_dynamodb(true))),
    ] {
        let mut fleet = Harness::new(store);
        fleet.turns = Some(Turns::default());
        fleet.create(units);
        if let Some(limits) = limits {
            fleet.limit(weigh, SHARDS, limits);
        }
        measure(what, &mut fleet, workers, |fleet| join(fleet, workers));
    }
    plan_alone(workers * 10, units * 10);
}

fn join(fleet: &mut Harness, workers: usize) {
    (0..workers).for_each(|_| {
        fleet.add(About::default(), TTL);
    });
}

/// All units are held, and evenly, by so many workers.
fn is_over(fleet: &Harness, workers: usize) -> bool {
    let counts = fleet.counts();
    if counts.len() != workers {
        return false;
    }
    let is_even = counts.first().zip(counts.last()).is_some_and(|(least, most)| most - least <= 1);
    is_even && fleet.idle() == 0
}

fn at_rest(fleet: &mut Harness) {
    const INTERVALS: u32 = 20;
    let workers = fleet.counts().len() as f64;
    fleet.bill(weigh, SHARDS);
    let before = fleet.calls;
    fleet.run(INTERVAL * INTERVALS);
    let (calls, bill) = (fleet.calls.since(before), fleet.bill.take().unwrap());
    let each = |units: f64| units / f64::from(INTERVALS);
    let (reads, writes) = (each(bill.sum.reads()), each(bill.sum.writes as f64));
    println!(
        "| at rest, in a third of a ttl | | | {:.1} | {reads:.0} ({:.2} a worker) | {writes:.0} ({:.2} a worker) | {} | | |",
        each(calls.lists as f64),
        reads / workers,
        writes / workers,
        peak(&bill)
    );
}

fn peak(bill: &harness::Bill) -> String {
    let peak = bill.peak();
    format!("{:.0} of 3,000, {} of 1,000", peak.reads(), peak.writes)
}

/// Until so many workers have all of it.
fn measure(what: &str, fleet: &mut Harness, workers: usize, change: impl Fn(&mut Harness)) {
    let (real, cpu) = (stopwatch(), cpu_time());
    fleet.bill(weigh, SHARDS);
    let (calls, moves) = (fleet.calls, fleet.moves);
    change(fleet);
    fleet.run(Duration::from_millis(5));
    let took = fleet.run_until(TTL * 100, |fleet| is_over(fleet, workers)).expect("it is over in time");
    let (calls, bill) = (fleet.calls.since(calls), fleet.bill.take().unwrap());
    let refused = fleet.service.as_ref().map_or(0, |service| service.refused);
    println!(
        "| {what} | {:.2} thirds of a ttl | {} | {} | {:.0} | {} | {} | {refused} | {:.0} s, {:.0} s |",
        took.as_secs_f64() / INTERVAL.as_secs_f64(),
        fleet.moves - moves,
        calls.lists,
        bill.sum.reads(),
        bill.sum.writes,
        peak(&bill),
        real().as_secs_f64(),
        (cpu_time() - cpu).as_secs_f64()
    );
}

/// A tenth of them, one in a second: each leaves, and another one comes.
fn restarts(fleet: &mut Harness, workers: usize) {
    fleet.longest_idle = Duration::ZERO;
    // Listings side by side: in turn, they would be the bottleneck.
    fleet.turns = None;
    let what = "a tenth is restarted, one a second";
    measure(what, fleet, workers, |fleet| {
        for index in 10..10 + workers.div_ceil(10).min(workers.saturating_sub(10)) {
            fleet.order(index, FleetCommand::Leave);
            fleet.run(Duration::from_millis(500));
            fleet.add(About::default(), TTL);
            fleet.run(Duration::from_millis(500));
        }
    });
    println!("\nthe longest that a unit lay idle meanwhile: {:?}", fleet.longest_idle);
}

/// The plan of ten times as many.
fn plan_alone(workers: usize, units: usize) {
    let loads: Vec<Load> = (0..units)
        .map(|n| Load {
            weight: 1,
            needs: BTreeSet::new(),
            owner: Some(n % (workers - workers / 100)),
            pin: None,
            stays: false,
            settled: false,
            declined_by: BTreeSet::new(),
        })
        .collect();
    let room = Room { units: u64::MAX, weight: u64::MAX, labels: BTreeSet::new(), leaving: false };
    let rooms = vec![room; workers];
    let real = stopwatch();
    let plan = plan(&loads, &rooms, Balance::Count);
    let took = real();
    let moves = plan.iter().zip(&loads).filter(|(to, load)| to.as_ref().ok() != load.owner.as_ref()).count();
    println!("plan of {units} units over {workers} workers, of whom 1 % are new: {took:?}, {moves} moves");
}
