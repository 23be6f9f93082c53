//! What stands between what the commands of `work` write and what tenure writes itself, and which of it comes at all, by the real binary on
//! real files.
//!
//! Plan: a summary and tenure's own lines behind outputs without a newline; outputs of attempts that fail, and of runs that are stopped.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, Ran, wait_until, work};
use nix::sys::signal::Signal;

#[test]
fn a_summary_is_the_last_line_behind_what_commands_have_written() {
    let bench = Bench::new();
    let ran = bench.run(&work(&["--json", "-k", "-p", "2", "a", "b"], &["echo"]));
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(matches!(lines[..], ["a", "b", summary] if summary.starts_with('{')), "{ran:?}");
    let summary: serde_json::Value = serde_json::from_str(lines[2]).unwrap();
    assert_eq!(summary["done"], 2);
}

#[test]
fn a_summary_that_can_not_be_written_is_a_failure() {
    let bench = Bench::new();
    let mut work = bench.tenure(&["work", "--name", "j", "--json", "a", "--", "true"]);
    work.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let ran = Ran::of(work.output().unwrap());
    assert!(ran.code == 70 && ran.err.contains("can't be written"), "{ran:?}");
}

#[test]
fn a_summary_and_what_tenure_tells_are_lines_by_themselves_whatever_commands_have_written() {
    for order in [&["-p", "1"][..], &["-p", "2"], &["-k", "-p", "2"], &["--tag"]] {
        let bench = Bench::new();
        let more = [order, &["--json", "a", "b"]].concat();
        let ran = bench.run(&work(&more, &["sh", "-c", "printf x{}; printf y{} >&2"]));
        let last: Result<serde_json::Value, _> = serde_json::from_str(ran.out.lines().last().unwrap());
        assert!(ran.code == 0 && last.is_ok_and(|summary| summary["done"] == 2), "{order:?}: {ran:?}");
        if order[1..].contains(&"2") {
            let own = ran.err.lines().filter(|line| line.contains("tenure: "));
            assert!(
                own.clone().count() > 1 && own.clone().all(|line| line.starts_with("tenure: ")),
                "{ran:?}"
            );
            assert!(ran.out.starts_with("xaxb\n{") || ran.out.starts_with("xbxa\n{"), "{ran:?}");
        }
    }
}

#[test]
fn what_a_failed_attempt_has_written_comes_once_the_unit_is_tried_no_more() {
    let script =
        "echo out $1; echo err $1 >&2; [ -e tried.$1 ] && [ $1 != bad ] || { touch tried.$1; exit 1; }";
    for order in [&[][..], &["-k"]] {
        let bench = Bench::new();
        let base = ["work", "--name", "j", "--retries", "1", "--backoff", "10ms", "-p", "2", "a", "bad", "c"];
        let ran = bench.run(&[&base[..], order, &["--", "sh", "-c", script, "x"]].concat());
        let mut lines: Vec<&str> = ran.out.lines().collect();
        if order.is_empty() {
            lines.sort_unstable();
        }
        assert_eq!((ran.code, lines), (1, vec!["out a", "out bad", "out c"]), "{ran:?}");
        let errors = ["a", "bad", "c"].map(|unit| ran.err.matches(&format!("err {unit}\n")).count());
        assert_eq!(errors, [2, 2, 2], "why each attempt has failed: {ran:?}");
    }
}

#[test]
fn what_a_stopped_run_has_written_comes_once_with_the_run_that_ends_the_unit() {
    let bench = Bench::new();
    let script =
        "echo out $1; echo err $1 >&2; [ -e stopped ] || { touch begun.$1; while :; do sleep 0.01; done; }";
    let job = ["work", "--name", "j", "-p", "2", "a", "b", "--", "sh", "-c", script, "x"];
    let mut command = bench.tenure(&job);
    command.stdout(std::fs::File::create(bench.path("first")).unwrap());
    let mut work = Process::from(command.spawn().unwrap());
    wait_until("both to run", || ["begun.a", "begun.b"].iter().all(|begun| bench.path(begun).exists()));
    work.signal(Signal::SIGTERM);
    assert_eq!((work.wait(), bench.read("first").as_str()), (143, ""));
    bench.write("stopped", "");
    let ran = bench.run(&job);
    let mut lines: Vec<&str> = ran.out.lines().collect();
    lines.sort_unstable();
    assert_eq!((ran.code, lines), (0, vec!["out a", "out b"]), "{ran:?}");
}
