//! `tenure range`, by the real binary on real files.
//!
//! Plan: the parts on standard input and in the environment; what others hold is left out, and status 75 when that is all; the
//! command's status; stopped before the deadline, also when it is deaf, with status 76; signals; tenure killed; bad input; gc keeps
//! a section in which something is held.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

mod common;

use common::{Bench, is_alive, now_ms, wait_until};
use nix::sys::signal::Signal;

/// Writes its process id and stays, deaf to TERM.
const STUBBORN: &str = "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done";

#[test]
fn the_command_has_its_ranges_its_fence_and_its_deadline() {
    let bench = Bench::new();
    let script = "echo \"$TENURE_RANGES|$TENURE_KEY|$TENURE_FENCE|$TENURE_DEADLINE\"; cat; exit 3";
    let before = now_ms();
    let ran = bench.run(&["range", "s", "00F..ff", "--for", "20s", "--", "sh", "-c", script]);
    assert_eq!((ran.code, ran.err.as_str()), (3, ""), "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    let fields: Vec<&str> = lines[0].split('|').collect();
    assert_eq!((fields[0], fields[1], lines[1]), ("f_ff", "section/s", "f_ff"));
    assert!(fields[2].parse::<i64>().unwrap() >= before);
    let deadline = fields[3].parse::<i64>().unwrap() - before;
    assert!((10_000..17_000).contains(&deadline), "{deadline}");
}

#[test]
fn what_others_hold_is_left_out_and_all_of_it_is_status_75() {
    let bench = Bench::new();
    let _other = bench.start(&["range", "s", "10..20", "--", "sh", "-c", "echo $$ > pid; sleep 1000"]);
    bench.await_number("pid");
    let ran = bench.run(&["range", "s", "0..30", "--", "cat"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "0_10\n20_30\n"), "{ran:?}");
    let ran = bench.run(&["range", "s", "12..14", "--", "touch", "never"]);
    assert_eq!((ran.code, ran.err.contains("held by others")), (75, true), "{ran:?}");
    assert!(!bench.path("never").exists());
    assert_eq!(bench.run(&["range", "other", "12..14", "--", "cat"]).code, 0, "sections are independent");
    // Held: gc keeps it, however old it is said to be.
    assert_eq!(bench.run(&["gc", "--older-than", "0s", "--yes"]).code, 0);
    assert_eq!(bench.run(&["range", "s", "12..14", "--", "true"]).code, 75);
}

#[test]
fn a_deaf_command_is_killed_before_the_time_is_over() {
    let bench = Bench::new();
    let began = now_ms();
    let ran = bench.run(&["range", "s", "0..10", "--for", "2s", "--", "sh", "-c", STUBBORN]);
    let took = now_ms() - began;
    assert_eq!((ran.code, ran.err.contains("the time was over")), (76, true), "{ran:?}");
    assert!((1000..2000).contains(&took), "{took} ms");
    assert!(!is_alive(bench.number("pid").unwrap()));
    assert_eq!(bench.run(&["range", "s", "0..10", "--", "cat"]).out, "0_10\n", "handed back");
}

#[test]
fn a_signal_stops_the_command_and_hands_the_ranges_back() {
    let bench = Bench::new();
    let mut range = bench.start(&["range", "s", "0..10", "--", "sh", "-c", "echo $$ > pid; sleep 1000"]);
    let pid = bench.await_number("pid");
    range.signal(Signal::SIGINT);
    assert_eq!(range.wait(), 130);
    assert!(!is_alive(pid));
    assert_eq!(bench.run(&["range", "s", "0..10", "--", "cat"]).out, "0_10\n");
}

#[test]
fn what_a_killed_tenure_ran_is_stopped_and_its_ranges_are_free_when_their_time_is_over() {
    let bench = Bench::new();
    let mut range =
        bench.start(&["range", "s", "0..10", "--for", "2s", "--grace", "100ms", "--", "sh", "-c", STUBBORN]);
    let pid = bench.await_number("pid");
    range.signal(Signal::SIGKILL);
    range.wait();
    let mut freed_after_end = true;
    wait_until("the ranges to be free", || {
        let ran = bench.run(&["range", "s", "0..10", "--", "true"]);
        freed_after_end &= ran.code == 75 || !is_alive(pid);
        ran.code == 0
    });
    assert!(freed_after_end, "nobody else had them while the command still ran");
}

#[test]
fn bad_input_is_told_before_anything_is_made() {
    let bench = Bench::new();
    for (range, says) in
        [("5..4", "ends before it begins"), ("5..5", "no key"), ("5", "not a range"), ("x..y", "hexadecimal")]
    {
        let ran = bench.run(&["range", "s", range, "--", "true"]);
        assert_eq!((ran.code, ran.err.contains(says)), (64, true), "{ran:?}");
    }
    assert_eq!(bench.run(&["range", "", "0..1", "--", "true"]).code, 64);
    assert_eq!(bench.run(&["range", "s", "0..1", "--for", "1ms", "--", "true"]).code, 64);
    assert_eq!(bench.run(&["range", "s", "0..1", "--", "no-such-command-anywhere"]).code, 127);
    assert!(!bench.store().exists());
}
