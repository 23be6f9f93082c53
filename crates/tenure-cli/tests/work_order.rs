//! What `work --keep-order` waits for, and what not, by the real binary on real files.
//!
//! Plan: of two processes with lists in crossed orders, each keeps what the other one's order waits for: both end, and each unit is run to its
//! end once; a unit whose record is gone; units that others run. What waits for its turn when it can't be written, or tenure ends; a failure that waits.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, Ran, full_pipe, shell_status, wait_until, work};
use nix::sys::signal::Signal;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

#[test]
fn two_that_wait_for_each_others_outputs_both_end() {
    let bench = Bench::new();
    // The first attempt at a fails where all three begin. The other process may have it sooner again than that one.
    let script = "touch began.{}; until [ -e go ]; do sleep 0.01; done; \
                  if [ {} = a ] && mkdir tried 2> /dev/null; then exit 1; fi; echo {} >> runs; echo {}";
    let start = |list: [&str; 3], name: &str| -> Process {
        let to = |end: &str| File::create(bench.path(&format!("{name}.{end}"))).unwrap();
        let base = ["work", "--name", "j", "-k", "-p", "3", "--ttl", "3s", "--backoff", "2s"];
        let words = [&base[..], &list, &["--", "sh", "-c", script]].concat();
        bench.tenure(&words).stdout(to("out")).stderr(to("err")).spawn().unwrap().into()
    };
    let mut one = start(["a", "b", "c"], "one");
    let all = ["began.a", "began.b", "began.c"];
    wait_until("all three to begin", || all.iter().all(|name| bench.path(name).exists()));
    let mut other = start(["c", "b", "a"], "other");
    wait_until("the other one to join", || bench.read("other.err").contains("3 units (0 new"));
    bench.write("go", "");
    let read =
        |name: &str| format!("{}{}", bench.read(&format!("{name}.out")), bench.read(&format!("{name}.err")));
    assert_eq!((one.wait(), other.wait()), (0, 0), "{}\n{}", read("one"), read("other"));
    let lines = |name: &str| -> Vec<String> { bench.read(name).lines().map(str::to_owned).collect() };
    let mut runs = lines("runs");
    runs.sort();
    assert_eq!(runs, ["a", "b", "c"], "{}\n{}", read("one"), read("other"));
    let (one, other) = (lines("one.out"), lines("other.out"));
    assert!(one.is_sorted() && other.iter().rev().is_sorted(), "{one:?} {other:?}");
    let mut outputs = [one, other].concat();
    outputs.sort();
    assert_eq!(outputs, runs);
}

#[test]
fn a_unit_that_is_gone_as_soon_as_it_is_made_is_not_waited_for() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["work", "--name", "before", "u", "--", "true"]).code, 0);
    // It is said to be made, and is not there, as after an older copy of the file.
    bench.sql(
        "CREATE TRIGGER gone AFTER INSERT ON tenure_record WHEN NEW.key = 'work/j/b' \
         BEGIN DELETE FROM tenure_record WHERE key = NEW.key; END",
    );
    let to = |name: &str| File::create(bench.path(name)).unwrap();
    let mut command =
        bench.tenure(&["work", "--name", "j", "-k", "-p", "1", "--", "sh", "-c", "touch {}; echo {}"]);
    let mut child = command.stdin(Stdio::piped()).stdout(to("out")).stderr(to("err")).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut process: Process = child.into();
    input.write_all(b"a\n").unwrap();
    wait_until("the first unit to be run", || bench.path("a").exists());
    input.write_all(b"b\nc\n").unwrap();
    drop(input);
    let code = process.wait();
    let told = bench.read("err");
    assert_eq!((code, bench.read("out").as_str()), (1, "a\nc\n"), "{told}");
    assert!(told.contains("  removed: b\n"), "{told}");
}

/// The first one ends when it is told to; the others end at once, and wait for their turns.
const FIRST_IS_LAST: [&str; 4] = [
    "sh",
    "-c",
    "[ $1 = a ] && { touch begun; until [ -e go ]; do sleep 0.01; done; }; echo out $1; touch ran.$1",
    "x",
];

/// All but the first one have ended, and would be done if they were recorded at once.
fn others_wait(bench: &Bench) {
    wait_until("all to begin", || ["begun", "ran.b", "ran.c"].iter().all(|file| bench.path(file).exists()));
    std::thread::sleep(std::time::Duration::from_millis(500));
}

#[test]
fn what_waits_for_its_turn_is_not_done_if_it_can_not_be_written() {
    let bench = Bench::new();
    let command = work(&["-k", "-p", "3", "a", "b", "c"], &FIRST_IS_LAST);
    let mut full = bench.tenure(&command);
    full.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap()).stderr(Stdio::piped());
    let child = full.spawn().unwrap();
    others_wait(&bench);
    let status = bench.run(&["work", "status", "j", "--json"]).json();
    assert_eq!((status["done"].as_u64(), status["running"].as_u64()), (Some(0), Some(3)), "{status}");
    bench.write("go", "");
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert!(ran.code == 70 && ran.err.contains("standard output can't be written"), "{ran:?}");
    let again = bench.run(&command);
    assert_eq!((again.code, again.out.as_str()), (0, "out a\nout b\nout c\n"), "{again:?}");
}

#[test]
fn what_waits_for_its_turn_is_not_done_if_who_reads_goes_away() {
    let bench = Bench::new();
    let command = work(&["-k", "-p", "3", "0", "a", "b", "c"], &FIRST_IS_LAST);
    let mut child = bench.tenure(&command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "out 0\n");
    others_wait(&bench);
    drop(reader);
    bench.write("go", "");
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 128 + 13, "{ran:?}");
    let again = bench.run(&command);
    assert_eq!((again.code, again.out.as_str()), (0, "out a\nout b\nout c\n"), "{again:?}");
}

#[test]
fn what_waits_for_its_turn_is_run_again_if_tenure_is_killed() {
    let bench = Bench::new();
    let command = work(&["-k", "-p", "3", "a", "b", "c"], &FIRST_IS_LAST);
    for _ in 0..3 {
        let mut child = bench.start(&command);
        others_wait(&bench);
        child.signal(Signal::SIGKILL);
        child.wait();
        ["begun", "ran.b", "ran.c"].iter().for_each(|file| std::fs::remove_file(bench.path(file)).unwrap());
    }
    bench.write("go", "");
    let again = bench.run(&command);
    assert_eq!((again.code, again.out.as_str()), (0, "out a\nout b\nout c\n"), "{again:?}");
}

#[test]
fn what_waits_for_its_turn_is_written_and_done_when_tenure_is_told_to_stop() {
    let bench = Bench::new();
    let command = work(&["-k", "-p", "3", "a", "b", "c"], &FIRST_IS_LAST);
    let mut child = bench.tenure(&command).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut child = Process::from(child);
    others_wait(&bench);
    child.signal(Signal::SIGTERM);
    assert_eq!(child.wait(), 143);
    let mut told = String::new();
    out.read_to_string(&mut told).unwrap();
    let status = bench.run(&["work", "status", "j", "--json"]).json();
    assert_eq!((told.as_str(), status["done"].as_u64()), ("out b\nout c\n", Some(2)), "{status}");
    // Who does not read is not waited for, and what is not read is not done.
    let bench = Bench::new();
    let (_unread, full) = full_pipe();
    let mut command = bench.tenure(&command);
    let mut child: Process = command.stdout(full).stderr(Stdio::null()).spawn().unwrap().into();
    others_wait(&bench);
    child.signal(Signal::SIGTERM);
    assert_eq!(child.wait(), 143);
    let status = bench.run(&["work", "status", "j", "--json"]).json();
    assert_eq!((status["done"].as_u64(), status["running"].as_u64()), (Some(0), Some(0)), "{status}");
}

#[test]
fn a_failure_counts_at_once_though_its_output_waits_for_its_turn() {
    let bench = Bench::new();
    let script = "[ $1 = b ] && { echo bad; exit 3; }; sleep 100";
    let ran =
        bench.run(&work(&["-k", "-p", "2", "--halt", "now,fail=1", "a", "b"], &["sh", "-c", script, "x"]));
    assert_eq!((ran.code, ran.out.as_str()), (1, "bad\n"), "{ran:?}");
    let status = bench.run(&["work", "status", "j", "--json"]).json();
    assert_eq!((status["failed"].as_u64(), status["waiting"].as_u64()), (Some(1), Some(1)), "{status}");
}

#[test]
fn what_is_saved_first_is_written_in_its_order_when_it_stops_early() {
    let bench = Bench::new();
    let script = "[ $1 = b ] || { until [ -e kept/b/status ]; do sleep 0.01; done; sleep 0.2; }; echo $1";
    let more = ["-k", "-p", "2", "--results", "kept", "--halt", "soon,success=1", "a", "b"];
    let ran = bench.run(&work(&more, &["sh", "-c", script, "x", "{}"]));
    assert_eq!((ran.code, ran.out.as_str()), (0, "a\nb\n"), "{ran:?}");
}

#[test]
fn what_is_run_again_as_its_lease_was_withdrawn_while_it_waited_counts_once() {
    let bench = Bench::new();
    let script =
        "if [ $1 = a ]; then until [ -e go ]; do sleep 0.01; done; fi; echo $1 >> ran.$1; echo out $1";
    let more = ["-k", "-p", "2", "--halt", "soon,success=3", "a", "b"];
    let command = bench
        .tenure(&work(&more, &["sh", "-c", script, "x", "{}"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for runs in 1..=2 {
        wait_until("a run", || bench.read("ran.b").lines().count() == runs);
        if runs == 1 {
            // Its result has been kept by then, or is recorded wrongly.
            std::thread::sleep(std::time::Duration::from_millis(500));
            assert_eq!(bench.run(&["release", "--yes", "work/j/b"]).code, 0);
        }
    }
    bench.write("go", "");
    let ran = Ran::of(command.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (0, "out a\nout b\n"), "{ran:?}");
    assert!(ran.err.contains("withdrawn or lost") && !ran.err.contains("--halt"), "{ran:?}");
}

#[test]
fn units_that_others_run_hold_back_no_output_for_ever() {
    let bench = Bench::new();
    let mut other = bench.start(&work(&["--ttl", "2s", "a"], &FIRST_IS_LAST));
    wait_until("it to begin", || bench.path("begun").exists());
    let command = work(&["-k", "-p", "1", "--ttl", "2s", "a", "b", "c"], &FIRST_IS_LAST);
    let mut child = bench.tenure(&command).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Others may wait for these in turn, each in its own order.
    assert_eq!([0, 1].map(|_| lines.next().unwrap().unwrap()), ["out b", "out c"]);
    assert!(other.is_running());
    bench.write("go", "");
    assert_eq!((other.wait(), shell_status(child.wait().unwrap()), lines.count()), (0, 0, 0));
}
