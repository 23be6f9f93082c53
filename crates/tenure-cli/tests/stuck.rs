//! Commands that can't be killed: units of work, and what a command leaves running.
//!
//! Plan: after KILL and a few seconds nobody waits for such a command any more; its unit is left to expire and is not given back,
//! so that nobody runs it beside the command before that; other units are run meanwhile, in its slot, too; a process that is asked
//! to stop ends, with a status of its own. The same with --forever, and where a second signal asks to stop at once. A command whose
//! leftovers can't be killed has not ended.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, is_alive, now_ms, toothless, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The unit `bad` ignores all there is at its first run.
const SCRIPT: &str = "echo $TENURE_UNIT >> runs; [ $TENURE_UNIT = bad ] && mkdir once || exit 0; trap '' TERM; echo $$ > pid; \
                      while :; do sleep 0.1; done";

fn arguments<'a>(units: &[&'a str]) -> Vec<&'a str> {
    let options = ["work", "--name", "j", "--ttl", "4s", "--grace", "100ms", "--parallel", "1"];
    [&options[..], units, &["--", "sh", "-c", SCRIPT]].concat()
}

#[test]
fn s6_a_unit_whose_command_can_not_be_killed_is_left_to_expire_and_nobody_waits_for_it() {
    let bench = Bench::new();
    let mut work = toothless::start(&bench, &arguments(&["bad"]), true);
    let pid = bench.await_number("pid");
    work.signal(Signal::SIGTERM);
    let said = || bench.read("errors").contains("can't be killed; the unit is left to expire");
    wait_until("it to be told", said);
    assert_eq!(bench.state("work/j/bad"), "held", "not given back");
    assert_eq!(work.wait(), 76);
    assert!(is_alive(pid));
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    let ran = bench.run(&["work", "--join", "--name", "j", "--", "true"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn s6_other_units_are_run_beside_a_command_that_can_not_be_killed() {
    let bench = Bench::new();
    let mut work = toothless::start(&bench, &arguments(&["bad", "a", "b"]), true);
    let pid = bench.await_number("pid");
    let began = now_ms();
    assert_eq!(bench.run(&["revoke", "work/j/bad", "--yes"]).code, 0);
    // Its slot is the only one.
    wait_until("the others to be run", || {
        let runs = bench.read("runs");
        ["a", "b"].iter().all(|unit| runs.lines().any(|run| run == *unit))
    });
    assert_eq!(work.wait(), 0, "{}", bench.read("errors"));
    let runs = bench.read("runs");
    assert_eq!(runs.lines().filter(|run| *run == "bad").count(), 2, "it is run again after its time");
    assert!(now_ms() - began >= 4_000 || !is_alive(pid), "not before that");
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}

#[test]
fn s6_a_fleets_unit_whose_command_can_not_be_killed_is_left_to_expire_and_nobody_waits_for_it() {
    let bench = Bench::new();
    let options = ["work", "--forever", "--name", "f", "--ttl", "4s", "--grace", "100ms", "bad", "--"];
    let mut work = toothless::start(&bench, &[&options[..], &["sh", "-c", SCRIPT]].concat(), true);
    let pid = bench.await_number("pid");
    work.signal(Signal::SIGTERM);
    let said = || bench.read("errors").contains("bad: CMD can't be killed; the unit is left to expire");
    wait_until("it to be told", said);
    assert_eq!(work.wait(), 76);
    assert_eq!(bench.state("fleet/f/unit/bad"), "held", "not given back");
    assert!(is_alive(pid));
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}

#[test]
fn s6_a_fleets_units_whose_commands_are_not_waited_for_are_not_given_away() {
    let bench = Bench::new();
    let deaf = "trap '' TERM; echo $$ >> pids; while :; do sleep 0.1; done";
    let options = ["work", "--forever", "--name", "f", "--ttl", "60s", "--grace", "30s"];
    let units: Vec<String> = (0..24).map(|n| format!("u{n}")).collect();
    let units: Vec<&str> = units.iter().map(String::as_str).collect();
    let arguments = [&options[..], &units, &["--", "sh", "-c", deaf]].concat();
    let mut work = toothless::start(&bench, &arguments, true);
    wait_until("all to run", || bench.read("pids").lines().count() == units.len());
    work.signal(Signal::SIGTERM);
    wait_until("it to leave", || bench.read("errors").contains("once more to stop at once"));
    work.signal_again(Signal::SIGTERM);
    assert_eq!(work.wait(), 143);
    let listed = bench.run(&["ls", "--all", "--json", "fleet/f/unit/"]).json();
    let states: Vec<_> = listed["leases"].as_array().unwrap().iter().map(|unit| &unit["state"]).collect();
    assert!(states.len() == units.len() && states.iter().all(|state| *state == "held"), "{states:?}");
    for pid in bench.read("pids").lines() {
        kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGKILL).unwrap();
    }
}

#[test]
fn s6_a_command_is_not_over_while_what_it_has_left_running_can_not_be_killed() {
    let bench = Bench::new();
    let script = "trap '' TERM; while :; do sleep 0.1; done & echo $! > pid";
    let arguments = ["run", "k", "--ttl", "30s", "--grace", "100ms", "--", "sh", "-c", script];
    let mut run = toothless::start(&bench, &arguments, true);
    let pid = bench.await_number("pid");
    assert_eq!(run.wait(), 76, "{}", bench.read("errors"));
    assert!(bench.read("errors").contains("can't be killed; its lease is left to expire"));
    assert_eq!(bench.state("k"), "held", "not given back");
    assert!(is_alive(pid));
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}
