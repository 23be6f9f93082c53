//! What `work --keep-order` waits for, and what not, by the real binary on real files.
//!
//! Plan: of two processes with lists in crossed orders, each keeps what the other one's order waits for: both end, and each unit is run to its
//! end once; a unit whose record is gone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, wait_until};
use std::fs::File;
use std::io::Write;
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
        "CREATE TRIGGER gone BEFORE INSERT ON tenure_record WHEN NEW.key = 'work/j/b' BEGIN SELECT RAISE(IGNORE); END",
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
