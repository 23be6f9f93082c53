//! How a command of `tenure run` is ended, and all that it has started.
//!
//! Plan: signals to tenure, one and two; the grace period; what a command leaves behind in its group, or has started elsewhere, by each way out of
//! the group; what was there before it; a command that is stopped itself; the signal by which tenure ends, in a container too.

use super::{STAYS, STUBBORN};
use crate::common::{Bench, Process, children_of, is_alive, wait_until};
use nix::sys::signal::Signal;
use std::process::{Command, Stdio};

#[test]
fn the_first_signal_stops_all_of_the_command_and_hands_the_lease_back() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let bench = Bench::new();
        let mut run = bench.start(&["run", "k", "--ttl", "60s", "--", "sh", "-c", STAYS]);
        let (pid, child) = (bench.await_number("pid"), bench.await_number("child"));
        run.signal(signal);
        assert_eq!(run.wait(), code);
        assert!(!is_alive(pid) && !is_alive(child), "the group is dead before the lease is given back");
        assert_eq!(bench.state("k"), "vacant");
        assert_eq!(bench.run(&["run", "k", "--try", "--", "true"]).code, 0);
    }
}

/// As systemd does with SendSIGHUP=yes, which sessions of users have.
#[test]
fn term_and_hup_at_once_are_one_signal() {
    let bench = Bench::new();
    let script = "trap 'sleep 0.3; echo > saved; exit' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let mut run = bench.start(&["run", "k", "--ttl", "60s", "--", "sh", "-c", script]);
    bench.await_number("pid");
    run.signal(Signal::SIGTERM);
    run.signal(Signal::SIGHUP);
    let status = run.wait();
    assert!(bench.path("saved").exists() && [143, 129].contains(&status), "{status}");
}

/// A hook has the time of --max for itself, and the command is not blamed for it.
#[test]
fn a_hook_that_takes_longer_than_max_is_named() {
    let bench = Bench::new();
    let hook = ["--max", "300ms", "--on-acquire", "exec sleep 600"];
    let ran = bench.run(&[&["run", "k"], &hook[..], &["--", "touch", "ran"]].concat());
    let told = "--on-acquire ran for longer than the 300ms of --max; the command was not run";
    assert!(ran.code == 76 && ran.err.contains(told) && !bench.path("ran").exists(), "{ran:?}");
}

#[test]
fn a_command_that_ignores_term_is_killed_after_its_grace() {
    let bench = Bench::new();
    let mut run = bench.start(&["run", "k", "--ttl", "60s", "--grace", "100ms", "--", "sh", "-c", STUBBORN]);
    let (pid, child) = (bench.await_number("pid"), bench.await_number("child"));
    run.signal(Signal::SIGTERM);
    assert_eq!(run.wait(), 143);
    assert!(!is_alive(pid) && !is_alive(child));
    assert_eq!(bench.state("k"), "vacant");
}

/// The usual script around a server. A shell dies of TERM at once, and what it has started needs longer.
#[test]
fn what_a_command_has_started_has_the_whole_grace_period_too() {
    let bench = Bench::new();
    bench
        .write("server", "trap 'sleep 1; touch clean; exit' TERM; touch ready; while :; do sleep 0.02; done");
    let line = "sh server & wait";
    let mut run = bench.start(&["run", "k", "--ttl", "2s", "--grace", "20s", "--", "sh", "-c", line]);
    wait_until("the server to be ready", || bench.path("ready").exists());
    run.signal(Signal::SIGTERM);
    assert_eq!(run.wait(), 143);
    assert!(bench.path("clean").exists(), "it was killed after an eighth of the ttl");
    assert_eq!(bench.state("k"), "vacant");
}

#[test]
fn the_second_signal_does_not_wait_for_the_grace() {
    let bench = Bench::new();
    let mut run = bench.start(&[
        "run",
        "k",
        // The watchdogs, too, would wait for longer than this test does.
        "--ttl",
        "1h",
        "--grace",
        "1h",
        "--",
        "sh",
        "-c",
        &STUBBORN.replace("trap '' TERM;", "trap 'touch told' TERM;"),
    ]);
    let (pid, child) = (bench.await_number("pid"), bench.await_number("child"));
    run.signal(Signal::SIGTERM);
    wait_until("the first signal to be passed on", || bench.path("told").exists());
    assert!(run.is_running());
    run.signal_again(Signal::SIGTERM);
    assert_eq!(run.wait(), 143);
    wait_until("the group to be dead", || !is_alive(pid) && !is_alive(child));
    // Nothing was waited for, so the watchdogs give it back.
    wait_until("the key to be free", || bench.state("k") == "vacant");
}

#[test]
fn what_a_command_leaves_running_in_its_group_ends_with_it() {
    let bench = Bench::new();
    let ran = bench.run(&["run", "k", "--", "sh", "-c", "sleep 1000 & echo $! > child; exit 5"]);
    assert_eq!(ran.code, 5);
    assert!(!is_alive(bench.await_number("child")));
    assert!(ran.err.contains("CMD left sleep (") && ran.err.contains("it was ended"), "{ran:?}");
}

/// Ways out of a command's process group, each with a process in the end that writes its number into `away`, and ticks.
const AWAY: [(&str, &str); 6] = [
    ("timeout", "timeout 1000 ./away & $WAIT"),
    ("job control", "set -m; ./away & $WAIT"),
    ("a session of its own", "setsid ./away & $WAIT"),
    ("a daemon", "(setsid sh -c './away & exit' & exit) & $WAIT"),
    ("an empty environment", "env -i ./away & $WAIT"),
    ("a daemon with an empty environment", "(setsid env -i sh -c './away & exit' & exit) & $WAIT"),
];
/// Deaf to TERM; ticks until it is killed.
const AWAY_SCRIPT: &str =
    "#!/bin/sh\ntrap '' TERM; echo $$ > away; while :; do /bin/date +%s%3N >> ticks; /bin/sleep 0.02; done\n";

fn away(bench: &Bench, script: &str, then: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    bench.write("away.tmp", AWAY_SCRIPT);
    std::fs::set_permissions(bench.path("away.tmp"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let _old = std::fs::remove_file(bench.path("away"));
    // The script's name is free for what it writes.
    std::fs::rename(bench.path("away.tmp"), bench.path("going")).unwrap();
    script
        .replace("./away", "./going")
        .replace("$WAIT", &format!("while [ ! -s away ]; do sleep 0.01; done; {then}"))
}

#[test]
fn what_a_command_leaves_running_anywhere_ends_with_it() {
    for (name, script) in AWAY {
        let bench = Bench::new();
        let script = away(&bench, script, "exit 5");
        let ran = bench.run(&["run", "k", "--ttl", "60s", "--grace", "100ms", "--", "sh", "-c", &script]);
        assert_eq!(ran.code, 5, "{name}: {ran:?}");
        assert!(ran.err.contains("CMD left "), "{name}: {ran:?}");
        assert!(!is_alive(bench.await_number("away")), "{name}: it has outlived the lease");
    }
}

#[test]
fn what_a_command_has_started_anywhere_is_over_before_another_has_the_lease() {
    for (name, script) in AWAY {
        for revoked in [false, true] {
            let bench = Bench::new();
            let script = away(&bench, script, "sleep 1000");
            let mut run =
                bench.start(&["run", "k", "--ttl", "6s", "--grace", "200ms", "--", "sh", "-c", &script]);
            let pid = bench.await_number("away");
            if revoked {
                assert_eq!(bench.run(&["revoke", "k", "--yes"]).code, 0);
            } else {
                run.signal(Signal::SIGTERM);
            }
            let next = bench.run(&["run", "k", "--wait", "30s", "--", "date", "+%s%3N"]);
            assert_eq!(next.code, 0, "{name}: {next:?}");
            let last: i64 =
                bench.read("ticks").lines().filter_map(|line| line.parse().ok()).next_back().unwrap();
            let began: i64 = next.out.trim().parse().unwrap();
            assert!(last <= began, "{name}: it was still at work {} ms after the next began", last - began);
            assert!(!is_alive(pid), "{name}");
            run.wait();
        }
    }
}

#[test]
fn what_was_there_before_the_command_is_left_alone() {
    // `exec` makes what the shell has started tenure's children.
    let bench = Bench::new();
    let script = "sleep 1000 & echo $! > before; exec $TENURE run k -- sh -c 'sleep 1000 & exit 3'";
    let mut shell = Command::new("sh");
    bench.settle(shell.args(["-c", script])).env("TENURE", env!("CARGO_BIN_EXE_tenure"));
    assert_eq!(shell.status().unwrap().code(), Some(3));
    let before = bench.await_number("before");
    assert!(is_alive(before));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(before), Signal::SIGKILL).unwrap();
}

#[test]
fn a_stopped_command_is_made_to_hear_that_it_is_to_end() {
    let bench = Bench::new();
    let script = "trap 'echo told > told; exit 0' TERM; echo $$ > pid; while :; do sleep 0.01; done";
    let mut run = bench.start(&["run", "k", "--ttl", "60s", "--grace", "1h", "--", "sh", "-c", script]);
    let pid = bench.await_number("pid");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
    run.signal(Signal::SIGTERM);
    assert_eq!(run.wait(), 143);
    assert_eq!(bench.read("told"), "told\n");
}

#[test]
fn tenure_ends_by_the_signal_that_ended_it() {
    use std::os::unix::process::ExitStatusExt;
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let bench = Bench::new();
        let mut run = bench.start(&["run", "k", "--ttl", "60s", "--", "sh", "-c", STAYS]);
        bench.await_number("pid");
        run.signal(signal);
        assert_eq!(run.wait_status().signal(), Some(signal as i32));
        assert_eq!(bench.state("k"), "vacant", "and has given the lease back before");
    }
}

/// The kernel spares it the signals that it doesn't handle: to be ended by one is not to be had there.
#[test]
fn the_first_process_of_a_container_ends_with_the_status_of_the_signal() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let bench = Bench::new();
        let run = bench.tenure(&["run", "k", "--ttl", "60s", "--", "sh", "-c", "touch runs; sleep 1000"]);
        let mut command = Command::new("unshare");
        // As root, or where users may have namespaces of their own.
        let is_root =
            Command::new("unshare").args(["--pid", "--fork", "true"]).stderr(Stdio::null()).status();
        if !is_root.unwrap().success() {
            command.args(["--user", "--map-root-user"]);
        }
        command
            .args(["--mount-proc", "--pid", "--fork", "--kill-child"])
            .arg(run.get_program())
            .args(run.get_args());
        let command = bench.settle(&mut command).env("TENURE_STORE", "sqlite:leases.db").stdin(Stdio::null());
        let mut container = Process::from(command.spawn().unwrap());
        wait_until("the command", || bench.path("runs").exists());
        let first = children_of(container.id() as i32).pop().unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(first), signal).unwrap();
        assert_eq!(container.wait(), code, "{signal}");
        assert_eq!(bench.state("k"), "vacant");
    }
}
