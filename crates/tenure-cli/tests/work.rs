//! `tenure work`, by the real binary on real files.
//!
//! Plan: units from every source; duplicates; what is put into the command; done units are never run again; failures are
//! retried, with a pause, and then recorded; failed units tried again on demand; a command that can't be run; damaged and foreign
//! records; the summary. The processes that share a job are in `work_processes.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Ran};
use std::io::Write;
use std::process::{Command, Stdio};

fn with_input(mut command: Command, input: &[u8]) -> Ran {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    Ran::of(child.wait_with_output().unwrap())
}

pub(crate) fn sorted(text: &str) -> Vec<&str> {
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
fn a_job_without_units_is_an_error() {
    let bench = Bench::new();
    let ran = bench.run(&["work", "--name", "empty", "--", "true"]);
    assert_eq!(ran.code, 64, "{ran:?}");
    assert!(ran.err.contains("the job \"empty\" has no units"), "{ran:?}");
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
