//! `work ls`, `status`, `retry` and `rm`, by the real binary on real files.
//!
//! Plan: what is told of a job while it runs, after units have failed, and of one that isn't there; failed units tried again, all
//! of them and some; a job that is removed is run again, and not while somebody works on it; a unit that is called as a verb.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Ran, wait_until};
use std::process::Command;

/// A job of three units, of which those fail that are in the file `bad`.
const NIGHT: [&str; 12] =
    ["work", "--name", "night", "--retries", "1", "--backoff", "1ms", "a", "b", "c", "--", "sh"];
const SCRIPT: [&str; 2] = ["-c", "echo {} >> log; ! grep -q {} bad || exit 7"];

fn night(bench: &Bench, bad: &str) -> i32 {
    bench.write("bad", bad);
    bench.run(&[&NIGHT[..], &SCRIPT].concat()).code
}

#[test]
fn a_job_is_listed_and_its_failed_units_are_told_with_their_exit_codes() {
    let bench = Bench::new();
    assert_eq!(night(&bench, "b"), 1);
    let jobs = bench.run(&["work", "ls", "--json"]).json()["jobs"].clone();
    assert_eq!((jobs[0]["job"].as_str(), jobs[0]["units"].as_u64()), (Some("night"), Some(3)));
    let status = bench.run(&["work", "status", "night", "--json"]).json();
    let told = |field: &str| status[field].as_u64().unwrap();
    assert_eq!((told("done"), told("failed"), told("waiting"), told("running")), (2, 1, 0, 0), "{status}");
    let failed = &status["failed_units"][0];
    assert_eq!((failed["unit"].as_str(), failed["exit"].as_i64()), (Some("b"), Some(7)), "{status}");
    assert_eq!(failed["attempts"], 2);
    assert!(failed["host"].is_string() && failed["finished"].is_string(), "{status}");
    let ran = bench.run(&["work", "status", "night"]);
    assert!(ran.code == 0 && ran.out.contains("units    3: 2 done (66%), 1 failed"), "{ran:?}");
    assert!(ran.out.contains("b: exit 7, on "), "{ran:?}");
    for listed in
        [vec!["work", "ls", "--store", "sqlite:leases.db"], vec!["work", "--store", "sqlite:leases.db", "ls"]]
    {
        assert!(bench.run(&listed).out.contains("night"), "{listed:?}");
    }
    for verb in ["status", "retry", "rm"] {
        let ran = bench.run(&["work", verb, "day"]);
        assert!(ran.code == 66 && ran.err.contains("there is no job \"day\""), "{ran:?}");
    }
}

#[test]
fn what_is_said_to_try_failed_units_again_can_be_typed_so() {
    let bench = Bench::new();
    for name in ["plain", "my job", "it's $HOME"] {
        assert_eq!(bench.run(&["work", "--name", name, "--retries", "0", "a", "--", "false"]).code, 1);
        let told = bench.run(&["work", "status", name]).out;
        let hint = told.lines().find_map(|line| line.strip_prefix("try them again: tenure ")).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("\"$0\" {hint}"), env!("CARGO_BIN_EXE_tenure")]);
        let ran = Ran::of(bench.settle(&mut shell).env("TENURE_STORE", "sqlite:leases.db").output().unwrap());
        assert_eq!(ran.code, 0, "{hint}: {ran:?}");
        assert_eq!(bench.run(&["work", "status", name, "--json"]).json()["failed"], 0, "{hint}");
    }
}

#[test]
fn who_works_on_a_job_and_what_runs_is_told_and_such_a_job_is_not_removed() {
    let bench = Bench::new();
    bench.write("go", "");
    let mut worker = bench.start(&[
        "work",
        "--name",
        "j",
        "--parallel",
        "2",
        "x",
        "y",
        "z",
        "--",
        "sh",
        "-c",
        "while [ -e go ]; do sleep 0.05; done; :",
    ]);
    wait_until("two to run", || {
        bench.store().exists() && bench.run(&["work", "status", "j", "--json"]).out.contains("\"running\": 2")
    });
    let status = bench.run(&["work", "status", "j", "--json"]).json();
    assert_eq!(
        (status["waiting"].as_u64(), status["workers"][0]["pid"].as_u64()),
        (Some(1), Some(worker.id().into()))
    );
    assert_eq!(status["workers"][0]["units"], 2, "{status}");
    let ran = bench.run(&["work", "rm", "j", "--yes"]);
    assert!(ran.code == 75 && ran.err.contains(&format!("pid {}", worker.id())), "{ran:?}");
    std::fs::remove_file(bench.path("go")).unwrap();
    assert_eq!(worker.wait(), 0);
    assert_eq!(bench.run(&["work", "status", "j", "--json"]).json()["done"], 3);
}

#[test]
fn the_list_of_records_tells_how_units_ended() {
    let bench = Bench::new();
    let job = ["work", "--name", "j", "--retries", "0", "good", "bad", "--", "test", "{}", "=", "good"];
    let ran = bench.run(&job);
    assert!(ran.code == 1 && ran.err.contains("failed: bad: exit 1, 1 attempt"), "{ran:?}");
    let states = || {
        let listing = bench.run(&["ls", "--all", "work/"]).out;
        let row = |line: &str| {
            line.split("  ").map(str::trim).filter(|it| !it.is_empty()).nth(1).map(str::to_owned)
        };
        listing.lines().skip(1).filter_map(row).collect::<Vec<_>>()
    };
    assert_eq!(states(), ["vacant (failed)", "vacant (done)"]);
    assert_eq!(bench.run(&["work", "retry", "j"]).code, 0);
    assert_eq!(states(), ["vacant (pending)", "vacant (done)"]);
    assert_eq!(bench.show("work/j/good")["job"]["status"], "done");
}

#[test]
fn a_unit_that_is_withdrawn_is_said_to_be_and_has_failed() {
    let bench = Bench::new();
    let job = [
        "work",
        "--name",
        "j",
        "--ttl",
        "3s",
        "--retries",
        "0",
        "u",
        "--",
        "sh",
        "-c",
        "echo $$ > pid; exec sleep 600",
    ];
    let mut command = bench.tenure(&job);
    let work =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    bench.await_number("pid");
    assert_eq!(bench.run(&["revoke", "work/j/u", "--yes"]).code, 0);
    let ran = crate::common::Ran::of(work.wait_with_output().unwrap());
    assert!(ran.code == 1 && ran.err.contains("u: the lease was withdrawn"), "{ran:?}");
    assert!(ran.err.contains("failed: u: exit 76, 1 attempt"), "{ran:?}");
}

#[test]
fn failed_units_are_tried_again_all_of_them_or_some() {
    let bench = Bench::new();
    assert_eq!(night(&bench, "b\nc"), 1);
    let ran = bench.run(&["work", "retry", "night", "a"]);
    assert!(ran.code == 66 && ran.err.contains("none of these units"), "{ran:?}");
    let ran = bench.run(&["work", "retry", "night", "q"]);
    assert!(ran.code == 66 && ran.err.contains("no unit \"q\""), "{ran:?}");
    assert_eq!(bench.run(&["work", "retry", "night", "b", "--json"]).json()["retried"], 1);
    bench.write("log", "");
    assert_eq!(night(&bench, "c"), 1, "c has failed as before");
    assert_eq!(bench.read("log"), "b\n");
    assert_eq!(bench.run(&["work", "retry", "night"]).code, 0);
    bench.write("log", "");
    assert_eq!((night(&bench, ""), bench.read("log").as_str()), (0, "c\n"));
}

#[test]
fn a_job_that_was_removed_is_run_again() {
    let bench = Bench::new();
    assert_eq!(night(&bench, ""), 0);
    let ran = bench.run(&["work", "rm", "night"]);
    assert!(ran.code == 64 && ran.err.contains("--yes"), "{ran:?}");
    assert_eq!(bench.run(&["work", "rm", "night", "--yes", "--json"]).json()["removed"], 3);
    assert!(bench.run(&["work", "ls"]).err.contains("there are no jobs"));
    bench.write("log", "");
    assert_eq!((night(&bench, ""), bench.read("log").lines().count()), (0, 3));
}

#[test]
fn a_word_before_a_command_is_a_unit_though_it_is_called_as_a_verb() {
    let bench = Bench::new();
    for unit in ["ls", "status", "rm", "retry"] {
        let ran = bench.run(&["work", unit, "--", "echo"]);
        assert_eq!((ran.code, ran.out), (0, format!("{unit}\n")), "{}", ran.err);
    }
}
