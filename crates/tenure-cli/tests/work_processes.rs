//! The processes of `tenure work`, by the real binary on real files.
//!
//! Plan: two processes share a job, and each waits for the other's units; one without units joins in; signals, one and two; units handed back; units that
//! are withdrawn or released by force; a unit that kills its workers; a process that is suspended. What happens when workers are killed is in
//! `kill.rs` and `watchdog.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Ran, is_alive, wait_until};
use crate::work::sorted;
use nix::sys::signal::Signal;
use std::process::Stdio;

#[test]
fn two_processes_share_a_job_and_wait_for_each_other() {
    let bench = Bench::new();
    let list: String = (0..300).map(|n| format!("{n}\n")).collect();
    bench.write("list", &list);
    let arguments =
        ["work", "--name", "j", "-p", "3", "--from", "list", "--json", "--", "sh", "-c", "echo {} >> log"];
    let start = || bench.tenure(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (one, other) = (start(), start());
    let summaries = [one, other].map(|child| Ran::of(child.wait_with_output().unwrap()));
    let mut here = 0;
    for ran in &summaries {
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(ran.json()["done"], 300);
        here += ran.json()["here"]["done"].as_i64().unwrap();
    }
    assert_eq!(here, 300);
    let log = bench.read("log");
    let mut lines = sorted(&log);
    lines.dedup();
    assert_eq!((log.lines().count(), lines.len()), (300, 300), "each unit was run once");
}

#[test]
fn a_process_without_units_of_its_own_joins_in() {
    let bench = Bench::new();
    let script = "echo {} >> log; while [ ! -e go ]; do sleep 0.01; done";
    let mut first = bench.start(&["work", "--name", "j", "-p", "1", "a", "b", "--", "sh", "-c", script]);
    wait_until("the first to begin", || bench.read("log").lines().count() == 1);
    let mut second = bench.start(&["work", "--name", "j", "-p", "1", "--", "sh", "-c", script]);
    wait_until("the second to begin", || bench.read("log").lines().count() == 2);
    bench.write("go", "");
    assert_eq!((first.wait(), second.wait()), (0, 0));
    assert_eq!(sorted(&bench.read("log")), ["a", "b"]);
}

#[test]
fn the_first_signal_hands_everything_back_unharmed() {
    let bench = Bench::new();
    let script = "echo $$ > pid; sleep 1000 & wait";
    let mut work = bench
        .start(&["work", "--name", "j", "-p", "1", "--ttl", "60s", "a", "b", "c", "--", "sh", "-c", script]);
    let pid = bench.await_number("pid");
    work.signal(Signal::SIGINT);
    assert_eq!(work.wait(), 130);
    assert!(!is_alive(pid));
    for unit in ["a", "b", "c"] {
        let record = bench.show(&format!("work/j/{unit}"));
        assert_eq!((&record["state"], &record["metadata"]["status"]), (&"vacant".into(), &"pending".into()));
        assert_eq!(record["metadata"]["attempts"], serde_json::Value::Null, "that was no failure");
    }
    assert_eq!(
        bench.run(&["work", "--name", "j", "--ttl", "60s", "--", "true"]).code,
        0,
        "another goes on at once"
    );
}

#[test]
fn what_ends_well_within_its_grace_is_done() {
    let bench = Bench::new();
    let script = "trap 'exit 0' TERM; echo $$ > pid; while :; do sleep 0.01; done";
    let mut work = bench.start(&["work", "--name", "j", "u", "--", "sh", "-c", script]);
    bench.await_number("pid");
    work.signal(Signal::SIGTERM);
    assert_eq!(work.wait(), 143);
    assert_eq!(bench.show("work/j/u")["metadata"]["status"], "done");
}

#[test]
fn the_second_signal_does_not_wait() {
    let bench = Bench::new();
    let script = "trap 'touch told' TERM; echo $$ > pid; while :; do sleep 0.01; done";
    let mut work =
        bench.start(&["work", "--name", "j", "--grace", "1h", "--ttl", "60s", "u", "--", "sh", "-c", script]);
    let pid = bench.await_number("pid");
    work.signal(Signal::SIGTERM);
    wait_until("the first signal to be passed on", || bench.path("told").exists());
    assert!(work.is_running());
    work.signal_again(Signal::SIGTERM);
    assert_eq!(work.wait(), 143);
    wait_until("the command to be dead", || !is_alive(pid));
    // Nobody has died with it: the next one counts no takeover.
    let record = bench.show("work/j/u");
    assert_eq!(
        (&record["state"], &record["metadata"]["takeovers"]),
        (&"vacant".into(), &serde_json::Value::Null)
    );
}

#[test]
fn a_withdrawn_unit_counts_as_a_failed_attempt() {
    let bench = Bench::new();
    let script = "if mkdir first; then echo $$ > pid; sleep 1000 & wait; fi";
    let mut work = bench.start(&[
        "work",
        "--name",
        "j",
        "--ttl",
        "6s",
        "--backoff",
        "1ms",
        "u",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let pid = bench.await_number("pid");
    assert_eq!(bench.run(&["revoke", "work/j/u", "--yes"]).code, 0);
    assert_eq!(work.wait(), 0);
    assert!(!is_alive(pid));
    assert_eq!(bench.show("work/j/u")["metadata"]["attempts"], 1);
}

#[test]
fn a_unit_that_kills_its_workers_fails_in_the_end_and_takes_no_other_with_it() {
    let bench = Bench::new();
    let script = "case {} in bad) echo $PPID >> killed; kill -9 $PPID;; *) sleep 0.05;; esac";
    let work = || {
        bench.run(&[
            "work",
            "--name",
            "j",
            "-p",
            "4",
            "--ttl",
            "500ms",
            "--max-takeovers",
            "2",
            "bad",
            "a",
            "b",
            "c",
            "--",
            "sh",
            "-c",
            script,
        ])
    };
    let mut died = 0;
    let ran = loop {
        let ran = work();
        if ran.code != 128 + Signal::SIGKILL as i32 {
            break ran;
        }
        died += 1;
        assert!(died <= 3, "it goes on killing workers");
    };
    assert_eq!((ran.code, died), (1, 3), "{ran:?}");
    assert!(ran.err.contains("tenure: bad: failed: 3 workers died while they had it"), "{ran:?}");
    let record = |unit: &str| bench.show(&format!("work/j/{unit}"))["metadata"].clone();
    assert_eq!(record("bad")["status"], "failed");
    assert!(record("bad")["reason"].as_str().unwrap().contains("3 workers died"));
    let failed = &bench.run(&["work", "status", "j", "--json"]).json()["failed_units"][0];
    assert!(
        failed["host"].is_string() && failed["finished"].is_string() && failed["exit"].is_null(),
        "{failed}"
    );
    for unit in ["a", "b", "c"] {
        assert_eq!(record(unit)["status"], "done", "{unit}");
    }
}

#[test]
fn a_process_that_is_suspended_does_not_hold_up_others_on_the_file() {
    use std::os::unix::process::CommandExt;
    let bench = Bench::new();
    let list: String = (0..5_000).map(|n| format!("u{n}\n")).collect();
    bench.write("list", list);
    let mut command = bench.tenure(&["work", "--name", "j", "-p", "4", "--from", "list", "--", "true"]);
    // In a group of its own, as a shell does it: a group that nobody could continue is not stopped by TSTP.
    let work = command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap();
    let work = crate::common::Process::from(work);
    wait_until("the first units to be registered", || {
        bench.store().exists() && bench.run(&["ls", "--all", "work/j/"]).out.lines().count() > 1
    });
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", work.id())).unwrap_or_default();
        stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next()).unwrap_or('?')
    };
    let file = rusqlite::Connection::open(bench.store()).unwrap();
    file.busy_timeout(std::time::Duration::from_millis(500)).unwrap();
    for round in 0..30_u64 {
        // Nothing tells from outside where it is in its transactions: at some time in one, and at another between two.
        std::thread::sleep(std::time::Duration::from_millis(3 + round * 7 % 20));
        work.signal(Signal::SIGTSTP);
        wait_until("it to stop", || state() == 'T');
        file.execute_batch("BEGIN IMMEDIATE; ROLLBACK").unwrap();
        work.signal(Signal::SIGCONT);
    }
}

#[test]
fn a_unit_that_is_released_by_force_never_runs_twice_at_a_time() {
    let bench = Bench::new();
    // One run at a time has the directory; a second one would find it and say so.
    let script = "mkdir busy || echo overlap >> overlaps; echo run >> runs; \
                  trap 'sleep 0.5; rmdir busy; exit 1' TERM; n=0; \
                  while [ $n -lt 40 ]; do sleep 0.1; n=$((n+1)); done; rmdir busy";
    let work = || {
        let mut command = bench.tenure(&[
            "work",
            "--name",
            "j",
            "--ttl",
            "6s",
            "--retries",
            "3",
            "u",
            "--",
            "sh",
            "-c",
            script,
        ]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut workers = [work(), work()];
    wait_until("the unit to run", || bench.path("runs").exists());
    let listed = bench.run(&["ls", "work/", "--json"]).json();
    let units = listed["leases"].as_array().unwrap();
    let held = units.iter().find(|lease| lease["state"] == "held").unwrap_or_else(|| panic!("{listed}"));
    let ran = bench.run(&["release", held["key"].as_str().unwrap(), "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for worker in &mut workers {
        worker.wait().unwrap();
    }
    assert!(!bench.path("overlaps").exists(), "{}", bench.read("runs"));
    assert!(bench.read("runs").lines().count() >= 2, "it was taken away, and run again");
}
