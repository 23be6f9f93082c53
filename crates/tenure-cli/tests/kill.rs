//! Workers killed at random: nothing is lost, and no unit whose record is done is run again.
//!
//! Plan: each round starts three `work` processes on a job of its own, kills them with SIGKILL at random instants, replacing
//! each, and
//! ends when the job is finished. Commands append a line with their unit and fence as they begin, and one as they end. After each
//! kill the store is listed and what is done is noted with its fence. At the end: every unit is done; its record carries the
//! highest fence that ran it; and no run has a fence above the one under which its unit was first seen to be done. A unit's runs
//! do not overlap: all of a run's lines come before the first of the next.
//!
//! TENURE_KILLS sets the number of kills in all (20 by default). The seed is printed, and set by TENURE_SEED.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]
#![allow(clippy::disallowed_methods, reason = "real processes are killed at real times")]

use crate::common::{Bench, Process, Random};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const UNITS: usize = 90;
const KILLS_A_ROUND: usize = 10;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn killed_workers_lose_nothing_and_repeat_nothing_that_was_done() {
    let kills = setting("TENURE_KILLS").unwrap_or(20) as usize;
    let seed = setting("TENURE_SEED").unwrap_or_else(|| crate::common::now_ms() as u64);
    println!("TENURE_KILLS={kills} TENURE_SEED={seed}");
    let mut random = Random(seed);
    let mut made = 0;
    for round in 0..kills.div_ceil(KILLS_A_ROUND) {
        let n = KILLS_A_ROUND.min(kills - round * KILLS_A_ROUND);
        made += one_round(&mut random, n);
    }
    println!("{made} kills of running processes");
    assert_eq!(made, kills);
}

fn one_round(random: &mut Random, kills: usize) -> usize {
    let bench = Bench::new();
    let list: String = (0..UNITS).map(|n| format!("u{n}\n")).collect();
    bench.write("list", &list);
    // Some run for longer than the ttl: those would overlap with their next run if they outlived their worker.
    let script = "echo \"begin {} $TENURE_FENCE\" >> log; case {} in *0) sleep 2.6;; *) sleep 0.12;; esac; \
                  echo \"end {} $TENURE_FENCE\" >> log";
    let start = || {
        bench.start(&[
            "work", "--name", "j", "-p", "2", "--ttl", "2s", "--from", "list", "--", "sh", "-c", script,
        ])
    };
    let mut workers: Vec<Process> = (0..3).map(|_| start()).collect();
    let mut first_done = BTreeMap::new();
    let mut made = 0;
    while made < kills {
        std::thread::sleep(Duration::from_millis(random.below(250)));
        let victim = random.below(3) as usize;
        if workers[victim].is_running() {
            workers[victim].signal(Signal::SIGKILL);
            made += 1;
        } else if made < kills {
            // The job was finished early: its kills are made up for on a job that is done, where there is as much to break.
            workers[victim] = start();
            continue;
        }
        note_done(&bench, &mut first_done);
        workers[victim].wait();
        workers[victim] = start();
    }
    let began = Instant::now();
    for worker in &mut workers {
        assert_eq!(worker.wait(), 0, "after {:?}", began.elapsed());
    }
    check(&bench, &first_done);
    made
}

/// Unit and fence of every record that says "done".
fn done(bench: &Bench) -> BTreeMap<String, u64> {
    let listing = bench.run(&["ls", "--all", "work/j/", "--json"]);
    if listing.code != 0 {
        // Before the first worker has made the store.
        return BTreeMap::new();
    }
    let listing = listing.json();
    let records =
        listing["leases"].as_array().unwrap().iter().filter(|record| record["metadata"]["status"] == "done");
    records
        .map(|record| {
            (record["key"].as_str().unwrap()["work/j/".len()..].to_owned(), record["fence"].as_u64().unwrap())
        })
        .collect()
}

fn note_done(bench: &Bench, first_done: &mut BTreeMap<String, u64>) {
    for (unit, fence) in done(bench) {
        first_done.entry(unit).or_insert(fence);
    }
}

fn check(bench: &Bench, first_done: &BTreeMap<String, u64>) {
    let done = done(bench);
    assert_eq!(done.len(), UNITS, "a unit was lost");
    let log = bench.read("log");
    let mut runs: BTreeMap<&str, Vec<(&str, u64)>> = BTreeMap::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, unit, fence] = words[..] else { panic!("a torn line: {line:?}") };
        runs.entry(unit).or_default().push((what, fence.parse().unwrap()));
    }
    for (unit, fence) in &done {
        let runs = &runs[unit.as_str()];
        let highest = runs.iter().map(|(_, fence)| *fence).max().unwrap();
        assert!(*fence >= highest, "{unit} is done with fence {fence}, but was run with {highest}: {runs:?}");
        assert!(runs.contains(&("end", highest)), "{unit} is done, but its last run did not end: {runs:?}");
        assert!(runs.is_sorted_by_key(|(_, fence)| *fence), "runs of {unit} overlap: {runs:?}");
        if let Some(seen) = first_done.get(unit) {
            assert!(
                highest <= *seen,
                "{unit} was seen to be done with fence {seen}, and run again with {highest}"
            );
        }
    }
}
