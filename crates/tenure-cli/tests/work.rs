//! `tenure work`, by the real binary on real files.
//!
//! Plan: units from every source; duplicates; what is put into the command; done units are never run again; failures are
//! retried, with
//! a pause, and then recorded; failed units tried again on demand; two processes share a job, and each waits for the other's
//! units; a unit that kills its workers; a process that is suspended; signals, one and two; units handed back; a command that can't be run; damaged and foreign
//! records; the summary. What happens when workers are killed is in `kill.rs` and `watchdog.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Ran, is_alive, wait_until};
use nix::sys::signal::Signal;
use std::io::Write;
use std::process::{Command, Stdio};

fn with_input(mut command: Command, input: &[u8]) -> Ran {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    Ran::of(child.wait_with_output().unwrap())
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn units_come_from_arguments_lines_items_and_files() {
    let bench = Bench::new();
    let ran = bench.run(&["work", "b", "a c", "--", "echo"]);
    assert_eq!((ran.code, sorted(&ran.out)), (0, vec!["a c", "b"]), "{ran:?}");
    let ran = with_input(bench.tenure(&["work", "--name", "1", "--", "echo"]), b"x\n\ny z\n");
    assert_eq!((ran.code, sorted(&ran.out)), (0, vec!["x", "y z"]), "{ran:?}");
    let ran = with_input(bench.tenure(&["work", "--name", "2", "-0", "--", "printf", "%s;"]), b"x\ny\0z\0");
    assert_eq!((ran.code, ran.out.len()), (0, "x\ny;z;".len()), "{ran:?}");
    bench.write("list", "one\ntwo");
    let ran = bench.run(&["work", "--name", "3", "--from", "list", "--", "echo"]);
    assert_eq!((ran.code, sorted(&ran.out)), (0, vec!["one", "two"]), "{ran:?}");
    let ran = with_input(bench.tenure(&["work", "--name", "4", "--from", "-", "--", "echo"]), b"p\n");
    assert_eq!((ran.code, ran.out.as_str()), (0, "p\n"), "{ran:?}");
}

#[test]
fn duplicates_are_said_and_run_once() {
    let bench = Bench::new();
    let ran = bench.run(&["work", "a", "b", "a", "--", "echo"]);
    assert_eq!((ran.code, sorted(&ran.out)), (0, vec!["a", "b"]), "{ran:?}");
    assert!(ran.err.contains("1 duplicate, run once: \"a\" (arguments 1 and 3)"), "{ran:?}");
}

#[test]
fn the_unit_goes_where_the_braces_are_and_into_the_environment() {
    let bench = Bench::new();
    let ran = bench.run(&[
        "work",
        "--name",
        "j",
        "u v",
        "--",
        "sh",
        "-c",
        "echo \"<{}>\" \"$1\" \"$TENURE_UNIT\" \"$TENURE_KEY\"",
        "sh",
        "[{}]",
    ]);
    assert_eq!(ran.out, "<u v> [u v] u v work/j/u v\n");
}

#[test]
fn what_is_done_is_not_run_again() {
    let bench = Bench::new();
    let script = "echo {} >> log";
    assert_eq!(bench.run(&["work", "--name", "j", "a", "b", "--", "sh", "-c", script]).code, 0);
    let ran = bench.run(&["work", "--name", "j", "a", "b", "c", "--", "sh", "-c", script]);
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains("3 units (1 new, 2 settled already)"), "{ran:?}");
    assert_eq!(sorted(&bench.read("log")), ["a", "b", "c"]);
    let ran = bench.run(&["work", "--name", "j", "--join", "--", "sh", "-c", script]);
    assert_eq!((ran.code, sorted(&bench.read("log")).len()), (0, 3), "{ran:?}");
    assert_eq!(bench.run(&["work", "a", "--", "sh", "-c", "echo again {} >> log"]).code, 0);
    assert!(bench.read("log").contains("again a"), "another command is another job");
}

#[test]
fn a_failure_is_retried_after_a_pause_and_then_recorded() {
    let bench = Bench::new();
    let script = "date +%s%3N >> times-{}; [ {} = good ] || [ $(wc -l < times-{}) -ge $NEEDED ]";
    let arguments = [
        "work",
        "--name",
        "j",
        "--retries",
        "2",
        "--backoff",
        "300ms",
        "good",
        "late",
        "--",
        "sh",
        "-c",
        script,
    ];
    let ran = Ran::of(bench.tenure(&arguments).env("NEEDED", "3").output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(bench.read("times-good").lines().count(), 1);
    let times: Vec<i64> = bench.read("times-late").lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(times.len(), 3);
    assert!(times[1] - times[0] >= 300 && times[2] - times[1] >= 600, "{times:?}");
    assert_eq!(bench.show("work/j/late")["metadata"]["attempts"], 2);

    let ran = bench.run(&[
        "work",
        "--name",
        "k",
        "--retries",
        "1",
        "--backoff",
        "1ms",
        "--json",
        "bad",
        "good",
        "--",
        "sh",
        "-c",
        "echo {} >> log; [ {} = good ] || exit 9",
    ]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let summary = ran.json();
    assert_eq!(
        (&summary["done"], &summary["failed"], &summary["failed_units"][0]["unit"]),
        (&1.into(), &1.into(), &"bad".into())
    );
    assert_eq!(sorted(&bench.read("log")), ["bad", "bad", "good"]);
    let record = &bench.show("work/k/bad")["metadata"];
    assert_eq!(
        (&record["status"], &record["exit"], &record["attempts"]),
        (&"failed".into(), &9.into(), &2.into())
    );
}

#[test]
fn failed_units_are_tried_again_when_that_is_asked_for() {
    let bench = Bench::new();
    let work = |more: &[&str]| {
        let arguments = [
            &["work", "--name", "j", "--retries", "0", "u"],
            more,
            &["--", "sh", "-c", "echo x >> log; [ -e fixed ]"],
        ]
        .concat();
        bench.run(&arguments).code
    };
    assert_eq!((work(&[]), work(&[])), (1, 1));
    assert_eq!(bench.read("log").lines().count(), 1, "failed for good");
    bench.write("fixed", "");
    assert_eq!(work(&["--retry-failed"]), 0);
    assert_eq!(bench.read("log").lines().count(), 2);
}

#[test]
fn what_is_recorded_tells_who_when_and_how() {
    let bench = Bench::new();
    let ran = bench.run(&["work", "--name", "j", "u", "--", "sh", "-c", "echo $TENURE_FENCE"]);
    let unit = bench.show("work/j/u");
    assert_eq!(
        unit["fence"].as_u64().unwrap(),
        ran.out.trim().parse::<u64>().unwrap(),
        "recorded under the fence of the run"
    );
    let record = &unit["metadata"];
    assert_eq!(
        (&record["status"], &record["exit"], &record["attempts"]),
        (&"done".into(), &0.into(), &0.into())
    );
    assert!(record["started"].as_str().unwrap() <= record["finished"].as_str().unwrap());
    assert!(record["host"].is_string() && record["worker"].is_string());
}

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
fn a_job_without_units_is_an_error() {
    let bench = Bench::new();
    let ran = bench.run(&["work", "--name", "empty", "--", "true"]);
    assert_eq!(ran.code, 64, "{ran:?}");
    assert!(ran.err.contains("the job \"empty\" has no units"), "{ran:?}");
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
fn a_command_that_cannot_be_run_fails_no_unit() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["work", "--name", "j", "u", "--", "no-such-command-anywhere"]).code, 127);
    bench.write("plain", "not a program");
    let ran = bench.run(&["work", "--name", "j", "u", "--", "./plain"]);
    assert_eq!((ran.code, ran.err.contains("can't be executed")), (126, true), "{ran:?}");
    let record = bench.show("work/j/u");
    assert_eq!((&record["state"], &record["metadata"]["status"]), (&"vacant".into(), &"pending".into()));
}

#[test]
fn damaged_and_foreign_records_are_told_and_left_alone() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["work", "--name", "j", "broken", "--", "true"]).code, 0);
    assert_eq!(bench.run(&["run", "mine", "--", "true"]).code, 0);
    bench.sql("UPDATE tenure_record SET key = 'work/j/mine' WHERE key = 'mine'");
    bench.sql("UPDATE tenure_record SET record = x'00' WHERE key = 'work/j/broken'");
    let ran = bench.run(&[
        "work",
        "--name",
        "j",
        "--json",
        "mine",
        "broken",
        "good",
        "--",
        "sh",
        "-c",
        "echo {} >> log",
    ]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(bench.read("log"), "good\n");
    let damaged = ran.json()["damaged_units"].as_array().unwrap().clone();
    let units: Vec<&str> = damaged.iter().map(|unit| unit["unit"].as_str().unwrap()).collect();
    assert_eq!(units, ["broken", "mine"], "{ran:?}");
    // As `work status` tells them.
    let status = bench.run(&["work", "status", "j", "--json"]).json();
    assert_eq!(status["damaged_units"].as_array(), Some(&damaged), "{status}");
    assert_eq!(damaged[1]["problem"], "the record is not one of a job's unit", "{ran:?}");
    assert!(ran.err.contains("work/j/broken: "), "{ran:?}");
    let left = &bench.show("work/j/mine")["metadata"];
    assert_eq!((&left["program"], &left["status"]), (&"true".into(), &serde_json::Value::Null), "{left}");
    assert_eq!(bench.run(&["show", "work/j/broken"]).code, 65);
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
    assert!(ran.err.contains("work/j/bad: failed: 3 workers died while they had it"), "{ran:?}");
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
