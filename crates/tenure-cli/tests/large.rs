//! How much memory is needed for many records and units: what is listed is gone through page by page, and of a unit of a job its name is kept.
//!
//! Plan: the most that a process had in memory, as it is in the midst of 50,000 and of 10,000, tells what one of them takes: `ls`, `gc`, `work`, and `work --forever` that plans.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::Bench;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const FEW: u64 = 10_000;
const MANY: u64 = 50_000;

/// The most that a process has had in memory, in bytes.
fn peak(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap().trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// What each of many takes, where so much is needed for so many.
fn bytes_of_one(needs: impl Fn(u64) -> u64) -> u64 {
    let (few, many) = (needs(FEW), needs(MANY));
    println!("{few} bytes for {FEW}, {many} for {MANY}");
    many.saturating_sub(few) / (MANY - FEW)
}

/// Makes so many records as the one of this key, of keys in this format.
fn copy(bench: &Bench, key: &str, format: &str, records: u64) {
    bench.sql(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {records})
         INSERT INTO tenure_record SELECT printf('{format}', i), version, fence, tenure, ride_key, ride_fence, record, boot, written_ns
         FROM n, tenure_record WHERE key = '{key}'"
    ));
}

/// What a listing of so many records needs, when most of it is written.
fn listing(verb: &[&str], records: u64) -> u64 {
    let bench = Bench::new();
    assert_eq!(bench.run(&["run", "k", "--", "true"]).code, 0);
    copy(&bench, "k", "k%060d", records);
    let mut lists = bench.tenure(verb).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(lists.stdout.take().unwrap()).lines();
    // It waits for whoever reads: what is left is more than a pipe holds.
    let mut lines = lines.skip(usize::try_from(records * 4 / 5).unwrap());
    assert!(lines.next().unwrap().unwrap().starts_with('k'));
    let needs = peak(&lists.id().to_string());
    assert!(lines.count() as u64 > records / 10);
    assert!(lists.wait().unwrap().success());
    needs
}

#[test]
fn ls_needs_no_more_memory_for_more_records() {
    let bytes = bytes_of_one(|records| listing(&["ls", "--all"], records));
    assert!(bytes < 100, "{bytes} bytes a record");
}

#[test]
fn gc_needs_no_more_memory_for_more_records() {
    let bytes = bytes_of_one(|records| listing(&["gc", "--dry-run", "--older-than", "0s"], records));
    assert!(bytes < 100, "{bytes} bytes a record");
}

#[test]
fn work_keeps_of_a_unit_little_more_than_its_name() {
    let needs = |units: u64| {
        let bench = Bench::new();
        let list: String = (0..units).map(|unit| format!("unit-{unit:09}\n")).collect();
        bench.write("list", list);
        // All are registered when the first one is run.
        let script = "cp /proc/$PPID/status . && kill -INT $PPID && sleep 60";
        let ran = bench.run(&[
            "work",
            "--name",
            "j",
            "--from",
            "list",
            "--parallel",
            "1",
            "--",
            "sh",
            "-c",
            script,
        ]);
        assert!(ran.err.contains(&format!("0 of {units} units done")), "{ran:?}");
        let status = bench.read("status");
        assert!(status.starts_with("Name:\ttenure\n"), "{status}");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    };
    let bytes = bytes_of_one(needs);
    assert!(bytes < 1_300, "{bytes} bytes a unit");
}

#[test]
fn a_worker_that_plans_keeps_of_a_unit_little_more_than_its_name() {
    let needs = |units: u64| {
        let bench = Bench::new();
        assert_eq!(bench.run(&["fleet", "add", "f", "u"]).code, 0);
        copy(&bench, "fleet/f/unit/u", "fleet/f/unit/u%09d", units);
        let plans = ["work", "--forever", "--name", "f", "--parallel", "1", "--", "sleep", "600"];
        let mut worker = bench.tenure(&plans).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(worker.stderr.take().unwrap()).lines().map(Result::unwrap);
        // It is told once the plan is made, and all that it does not take is known.
        let more = format!("{} more", units - 5);
        assert!(lines.any(|line| line.contains(&more)), "none of the lines tells of {more}");
        let needs = peak(&worker.id().to_string());
        kill(Pid::from_raw(worker.id().try_into().unwrap()), Signal::SIGINT).unwrap();
        lines.for_each(drop);
        assert!(worker.wait().is_ok());
        needs
    };
    let bytes = bytes_of_one(needs);
    assert!(bytes < 350, "{bytes} bytes a unit");
}
