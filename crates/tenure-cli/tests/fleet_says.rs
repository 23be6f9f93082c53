//! What `tenure work --forever` says, and how it weighs, by the real binary on real files.
//!
//! Plan: weights are evened out, and limited, when asked for; units that no worker can have, damaged records and a store that
//! can't be asked are said once each; the last worker leaves without alarm; quiet workers tell only what goes wrong, and verbose ones each start and end; two TERMs at about the same time are one; a unit pinned to a worker that is full.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, OBEYS, Process, wait_until};
use nix::sys::signal::Signal;
use std::fs::File;

/// A worker whose notes go to a file.
fn worker(bench: &Bench, notes: &str, more: &[&str]) -> Process {
    let base = ["work", "--forever", "--name", "f", "--ttl", "6s", "--grace", "1s", "--join"];
    let mut command = bench.tenure(&[&base, more, &["--", "sh", "-c", OBEYS]].concat());
    command.stdout(std::process::Stdio::null()).stderr(File::create(bench.path(notes)).unwrap());
    Process::from(command.spawn().unwrap())
}

fn weight(bench: &Bench, worker: &Process) -> u64 {
    let name = bench.name_of(worker);
    let units = bench.units();
    units.iter().filter(|unit| unit["owner"] == *name).map(|unit| unit["weight"].as_u64().unwrap()).sum()
}

#[test]
fn weights_are_evened_out_and_limited() {
    let bench = Bench::new();
    for (unit, weight) in [("a", "6"), ("b", "3"), ("c", "2"), ("d", "1")] {
        assert_eq!(bench.run(&["fleet", "add", "f", unit, "--weight", weight]).code, 0);
    }
    let by_weight = ["--balance", "weight"];
    let (one, other) = (worker(&bench, "one", &by_weight), worker(&bench, "other", &by_weight));
    wait_until("equal weights", || weight(&bench, &one) == 6 && weight(&bench, &other) == 6);
    drop((one, other));
    let limited = worker(&bench, "limited", &["--balance", "weight", "--most-weight", "5"]);
    wait_until("what fits", || (4..=5).contains(&weight(&bench, &limited)));
    let named = bench.workers().into_iter().find(|worker| worker["fields"]["pid"] == limited.id()).unwrap();
    assert_eq!(named["most_weight"], 5);
    wait_until("a word", || bench.read("limited").contains("fleet/f/unit/a: no worker can have this unit: "));
    let ran = bench.run(&["work", "--forever", "--name", "f", "--most-weight", "0", "--join", "--", "true"]);
    assert_eq!((ran.code, ran.err.contains("--most-weight 0")), (64, true), "{ran:?}");
    let ran = bench.run(&["work", "u", "--balance", "weight", "--", "true"]);
    assert_eq!((ran.code, ran.err.contains("--forever")), (64, true), "{ran:?}");
}

#[test]
fn the_last_worker_that_leaves_says_nothing_of_units_that_nobody_has_then() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "a", "b"]).code, 0);
    let mut worker = worker(&bench, "notes", &[]);
    wait_until("both units", || bench.read("notes").matches(": owned").count() == 2);
    worker.signal(Signal::SIGTERM);
    worker.wait();
    let notes = bench.read("notes");
    let told = "a: is to be given back, since this worker leaves; CMD is stopped\n";
    assert!(notes.contains(told), "it is not given back yet: {notes}");
    assert!(!notes.contains("no worker can have"), "{notes}");
}

#[test]
fn a_quiet_worker_tells_what_goes_wrong_and_a_verbose_one_each_start_and_end() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "a"]).code, 0);
    let mut quiet = worker(&bench, "quiet", &["-q"]);
    wait_until("it to run", || !bench.ticks("a").is_empty());
    bench.sql("ALTER TABLE tenure_record RENAME TO away");
    wait_until("the trouble", || bench.read("quiet").contains("the fleet can't be looked at: "));
    bench.sql("ALTER TABLE away RENAME TO tenure_record");
    quiet.signal(Signal::SIGTERM);
    quiet.wait();
    let said = bench.read("quiet");
    assert!(!said.contains("working on") && !said.contains("a: owned") && !said.contains("leaves"), "{said}");

    let mut verbose = worker(&bench, "verbose", &["--verbose"]);
    wait_until("its start", || bench.read("verbose").contains("a: starts"));
    let fence = bench.unit("a")["fence"].as_u64().unwrap();
    bench.await_tick("a", fence - 1);
    verbose.signal(Signal::SIGTERM);
    verbose.wait();
    let said = bench.read("verbose");
    assert!(said.contains("a: owned") && said.contains("a: CMD exited with "), "{said}");
    // How far it is has no meaning where units never end.
    let ran = bench.run(&["work", "--forever", "--name", "f", "--progress", "auto", "--", "true"]);
    assert!(ran.code == 64 && ran.err.contains("'--progress <WHEN>'"), "{ran:?}");
}

#[test]
fn what_does_not_go_as_it_should_is_said_once() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "plain", "bad"]).code, 0);
    assert_eq!(bench.run(&["fleet", "add", "f", "picky", "--needs", "gpu"]).code, 0);
    bench.sql("UPDATE tenure_record SET record = x'54ff00' WHERE key LIKE '%bad'");
    let mut worker = worker(&bench, "notes", &[]);
    let uncovered = "fleet/f/unit/picky: no worker can have this unit: no worker has its labels";
    let said = |text: &str| bench.read("notes").matches(text).count();
    wait_until("both to be said", || said(uncovered) == 1 && said("fleet/f/unit/bad: ") == 1);
    // It is planned anew, and finds the same.
    assert_eq!(bench.run(&["fleet", "add", "f", "more"]).code, 0);
    wait_until("the new one", || said("more: owned") == 1);
    bench.sql("ALTER TABLE tenure_record RENAME TO away");
    wait_until("the trouble", || said("the fleet can't be looked at: ") >= 1);
    bench.sql("ALTER TABLE away RENAME TO tenure_record");
    wait_until("it to be well again", || {
        bench.units().iter().filter(|unit| unit["stage"] == "held").count() == 2
    });
    worker.signal(Signal::SIGTERM);
    worker.wait();
    assert_eq!((said(uncovered), said("fleet/f/unit/bad: ")), (1, 1), "{}", bench.read("notes"));
    let notes = bench.read("notes");
    let mut troubles: Vec<&str> = notes.lines().filter(|line| line.contains("can't be looked at")).collect();
    let all = troubles.len();
    troubles.sort_unstable();
    troubles.dedup();
    assert_eq!(troubles.len(), all, "{notes}");
}

#[test]
fn two_signals_at_about_the_same_time_are_one() {
    // Nobody can tell two that come at the same time from two when the machine stands still in between; it won't do so each time.
    let is_one = || {
        let bench = Bench::new();
        assert_eq!(bench.run(&["fleet", "add", "f", "u"]).code, 0);
        let mut worker = worker(&bench, "notes", &[]);
        wait_until("it to run", || !bench.ticks("u").is_empty());
        worker.signal(Signal::SIGTERM);
        // As `timeout` does: to the process, and then to its group.
        worker.signal(Signal::SIGTERM);
        worker.wait();
        // Its command could end by itself, and it left, and did not just stop.
        bench.read("told") == "u\n" && bench.workers().is_empty()
    };
    assert!((0..5).any(|_| is_one()), "it just stops");
}

#[test]
fn a_unit_is_pinned_to_a_worker_that_is_full() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "a", "b"]).code, 0);
    let small = worker(&bench, "notes", &["-p", "1"]);
    let name = bench.name_of(&small);
    let first = bench.run(&["fleet", "move", "f", "a", &name]);
    assert_eq!((first.code, first.err.contains("full")), (0, false), "{first:?}");
    wait_until("it to have it", || bench.unit("a")["owner"] == *name);
    let second = bench.run(&["fleet", "move", "f", "b", &name]);
    assert_eq!(
        (second.code, second.err.contains("which is full of what is pinned to it")),
        (0, true),
        "{second:?}"
    );
}
