//! `tenure run`, by the real binary on real files.
//!
//! Plan: the command's status, environment, arguments and standard input and output; what happens when the key is held
//! (--try, --wait, waiting); the longest and the least time; fences grow; signals to tenure, one and two; what a command leaves behind, or has started elsewhere; withdrawal and release by
//! force while it runs; a store that goes away while it runs, or is waited for; what the watchdog stopped; a terminal. What happens when tenure
//! itself is killed or stopped is in
//! `watchdog.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, is_alive, now_ms, wait_for, wait_until};
use nix::sys::signal::Signal;
use std::io::Write;
use std::process::{Command, Stdio};

/// Writes its process id, then those of a child, and stays.
const STAYS: &str = "sleep 1000 & echo $! > child; echo $$ > pid; wait";
/// The same, deaf to TERM.
const STUBBORN: &str = "trap '' TERM; (trap '' TERM; while :; do sleep 0.1; done) & echo $! > child; echo $$ > pid; while :; do sleep 0.1; done";

#[test]
fn the_commands_status_is_passed_on() {
    let bench = Bench::new();
    for (script, code) in
        [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
    {
        let ran = bench.run(&["run", "k", "--", "sh", "-c", script]);
        assert_eq!(ran.code, code, "{script}: {ran:?}");
        assert_eq!(ran.err, "", "{script}");
    }
    assert_eq!(bench.state("k"), "vacant");
}

#[test]
fn a_command_that_cannot_be_run_says_why() {
    let bench = Bench::new();
    let ran = bench.run(&["run", "k", "--", "no-such-command-anywhere"]);
    assert_eq!(
        (ran.code, ran.err.contains("no-such-command-anywhere: command not found")),
        (127, true),
        "{ran:?}"
    );
    bench.write("plain", "not a program");
    let ran = bench.run(&["run", "k", "--", "./plain"]);
    assert_eq!((ran.code, ran.err.contains("can't be executed")), (126, true), "{ran:?}");
    assert_eq!(bench.state("k"), "vacant", "what was acquired is handed back");
    let ran = bench.run(&["run", "k", "--", "./missing"]);
    assert_eq!(ran.code, 127);
}

/// As by a shell, flock, xargs and all who use execvp(3).
#[test]
fn a_script_that_does_not_say_whose_it_is_is_read_by_a_shell() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    bench.write("script", "echo \"$TENURE_KEY $1\"\nexit 7\n");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(bench.path("script"), executable.clone()).unwrap();
    let ran = bench.run(&["run", "k", "--", "./script", "a b"]);
    assert_eq!((ran.code, ran.out.as_str()), (7, "k a b\n"), "{ran:?}");
    let ran = bench.run(&["elect", "k", "--", "./script", "a b"]);
    assert_eq!((ran.code, ran.out.as_str()), (7, "k a b\n"), "{ran:?}");
    let ran = bench.run(&["work", "--name", "j", "--retries", "0", "u", "--", "./script"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, "work/j/u u\n"), "{ran:?}");
    bench.write("binary", b"\x7fELF\0 of nobody's\n");
    std::fs::set_permissions(bench.path("binary"), executable).unwrap();
    let ran = bench.run(&["run", "k", "--", "./binary"]);
    assert_eq!((ran.code, ran.err.contains("can't be executed")), (126, true), "{ran:?}");
}

#[test]
fn the_command_knows_its_key_fence_and_deadline() {
    let bench = Bench::new();
    let before = now_ms();
    let ran = bench.run(&[
        "run",
        "a key",
        "--ttl",
        "20s",
        "--",
        "sh",
        "-c",
        "echo \"$TENURE_KEY|$TENURE_FENCE|$TENURE_DEADLINE\"",
    ]);
    let parts: Vec<&str> = ran.out.trim().split('|').collect();
    assert_eq!(parts[0], "a key");
    assert_eq!(parts[1].parse::<u64>().unwrap(), bench.show("a key")["fence"].as_u64().unwrap());
    let deadline: i64 = parts[2].parse().unwrap();
    assert!(deadline > before + 10_000 && deadline < now_ms() + 20_000, "{deadline}");
}

#[test]
fn fences_grow_from_one_run_to_the_next() {
    let bench = Bench::new();
    let fences: Vec<u64> = (0..5)
        .map(|_| bench.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE"]).out.trim().parse().unwrap())
        .collect();
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

#[test]
fn standard_input_and_output_are_the_commands_own() {
    let bench = Bench::new();
    let mut command = bench.tenure(&["run", "k", "--", "tr", "a-z", "A-Z"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"through and through\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"THROUGH AND THROUGH\n");
}

#[test]
fn a_held_key_is_refused_waited_for_or_had_in_the_end() {
    let bench = Bench::new();
    let mut holder = bench.start(&["run", "k", "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    for arguments in
        [["run", "k", "--try", "--", "true"].as_slice(), &["run", "k", "--wait", "300ms", "--", "true"]]
    {
        // A store that has not answered in time, which a busy machine's may not have, is told as that.
        let ran = wait_for("an answer in time", || Some(bench.run(arguments)).filter(|ran| ran.code != 69));
        assert_eq!(ran.code, 75, "{ran:?}");
        assert!(ran.err.contains("k is held by ") && ran.err.contains("fence"), "{ran:?}");
    }
    let mut patient = bench.start(&["run", "k", "--wait", "50s", "--", "true"]);
    let mut endless = bench.start(&["run", "k", "--", "true"]);
    holder.signal(Signal::SIGTERM);
    assert_eq!(holder.wait(), 143);
    assert_eq!((patient.wait(), endless.wait()), (0, 0));
}

#[test]
fn a_command_that_runs_for_longer_than_its_longest_time_is_stopped_and_named() {
    let bench = Bench::new();
    let mut running = bench.start(&["run", "k", "--max", "300ms", "--", "sh", "-c", STAYS]);
    let (pid, child) = (bench.await_number("pid"), bench.await_number("child"));
    assert_eq!(running.wait(), 76);
    assert!(!is_alive(pid) && !is_alive(child));
    assert_eq!(bench.state("k"), "vacant");
    let ran = bench.run(&[
        "run",
        "k",
        "--max",
        "1ms",
        "--grace",
        "100ms",
        "--",
        "sh",
        "-c",
        "trap '' TERM; sleep 1000",
    ]);
    assert!(ran.code == 76 && ran.err.contains("k: it ran for longer than the 1ms of --max"), "{ran:?}");
    assert_eq!(bench.run(&["run", "k", "--max", "1m", "--", "sh", "-c", "exit 3"]).code, 3);
}

#[test]
fn a_lease_is_held_for_its_least_time_by_whoever_ends_sooner() {
    let bench = Bench::new();
    let before = now_ms();
    assert_eq!(bench.run(&["run", "k", "--min", "1s", "--", "sh", "-c", "exit 3"]).code, 3);
    assert!(now_ms() >= before + 1000);
    assert_eq!(bench.state("k"), "vacant");
    let mut waits = bench.start(&["run", "k", "--min", "10m", "--", "sh", "-c", "echo $$ > ended"]);
    let command = bench.await_number("ended");
    wait_until("the command has run", || !is_alive(command));
    assert_eq!(bench.run(&["run", "k", "--try", "--", "true"]).code, 75);
    // Who does not wait for it leaves it to expire. The signal may come before tenure knows that the command has ended.
    waits.signal(Signal::SIGTERM);
    assert!([0, 143].contains(&waits.wait()));
    // One that the command is ended by does the same.
    let mut waits =
        bench.start(&["run", "l", "--min", "10m", "--", "sh", "-c", "echo $$ > pid; exec sleep 1000"]);
    bench.await_number("pid");
    waits.signal(Signal::SIGTERM);
    assert_eq!(waits.wait(), 143);
    assert_eq!(bench.run(&["run", "l", "--try", "--", "true"]).code, 75);
    assert_eq!(bench.run(&["run", "k", "--try", "--", "true"]).code, 75);
    for (limits, says) in [
        (["--max", "0s"].as_slice(), "no time at all"),
        (&["--max", "1s", "--min", "2s"], "shorter"),
        (&["--min", "3d"], "--min 3d: a lease is kept for 24h"),
        (&["--exclusive", "--min", "20h"], "--min 20h: a lease is kept for 16h"),
    ] {
        let ran = bench.run(&[&["run", "k"], limits, &["--", "true"]].concat());
        assert!(ran.code == 64 && ran.err.contains(says), "{ran:?}");
    }
}

#[test]
fn who_waits_can_be_interrupted_and_leaves_nothing() {
    let bench = Bench::new();
    let _holder = bench.start(&["run", "k", "--", "sh", "-c", STAYS]);
    let fence = {
        bench.await_number("pid");
        bench.show("k")["fence"].clone()
    };
    let mut waiter = bench.start(&["run", "k", "--", "touch", "ran"]);
    // That it stands in line can't be seen from outside.
    waiter.await_signals();
    waiter.signal(Signal::SIGINT);
    assert_eq!(waiter.wait(), 130);
    assert_eq!(bench.show("k")["fence"], fence);
    assert!(!bench.path("ran").exists());
}

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
fn a_command_runs_for_longer_than_a_ttl() {
    let bench = Bench::new();
    let ran = bench.run(&["run", "k", "--ttl", "3s", "--", "sh", "-c", "sleep 5; echo done"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "done\n"), "{ran:?}");
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
fn a_withdrawn_lease_stops_the_command() {
    let bench = Bench::new();
    let mut run = bench.start(&["run", "k", "--ttl", "6s", "--", "sh", "-c", STAYS]);
    let (pid, child) = (bench.await_number("pid"), bench.await_number("child"));
    assert_eq!(bench.run(&["revoke", "k", "--yes"]).code, 0);
    assert_eq!(run.wait(), 76);
    assert!(!is_alive(pid) && !is_alive(child));
    wait_until("the key to be free", || bench.state("k") == "vacant");
}

#[test]
fn a_lease_taken_by_force_stops_the_command_at_the_next_renewal() {
    let bench = Bench::new();
    let mut run = bench.start(&["run", "k", "--ttl", "6s", "--", "sh", "-c", STUBBORN]);
    let (pid, child) = (bench.await_number("pid"), bench.await_number("child"));
    assert_eq!(bench.run(&["release", "k", "--yes"]).code, 0);
    assert_eq!(bench.run(&["run", "k", "--try", "--", "true"]).code, 0, "it is free at once");
    assert_eq!(run.wait(), 76);
    assert!(!is_alive(pid) && !is_alive(child));
}

#[test]
fn a_store_that_goes_away_stops_the_command_before_the_deadline() {
    let bench = Bench::new();
    // Each tick of the command is written with its time; the last of them must lie before the end of the ttl.
    let script = "trap '' TERM; echo $$ > pid; while :; do date +%s%3N >> ticks; sleep 0.01; done";
    let mut command = bench.tenure(&["run", "k", "--ttl", "5s", "--", "sh", "-c", script]);
    let mut run =
        crate::common::Process::from(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    bench.await_number("pid");
    let lost_at = now_ms();
    std::fs::rename(bench.store(), bench.path("elsewhere")).unwrap();
    assert_eq!(run.wait(), 76);
    let last: i64 = bench.read("ticks").lines().last().unwrap().parse().unwrap();
    assert!(last < lost_at + 5000, "it ran for {} ms after the store was gone", last - lost_at);
}

#[test]
fn a_command_that_obeys_the_watchdog_did_not_end_by_itself() {
    // The watchdog is as quick as tenure: what was stopped by it was stopped, and its own status says nothing.
    for script in ["exec sleep 1000", "trap 'exit 0' TERM; while :; do sleep 0.01; done"] {
        let bench = Bench::new();
        let script = format!("echo $$ > pid; {script}");
        let mut run = bench.start(&["run", "k", "--ttl", "2s", "--", "sh", "-c", &script]);
        bench.await_number("pid");
        std::fs::rename(bench.store(), bench.path("elsewhere")).unwrap();
        assert_eq!(run.wait(), 76, "{script}");
    }
    let bench = Bench::new();
    let mut run =
        bench.start(&["run", "k", "--ttl", "4s", "--", "sh", "-c", "echo $$ > pid; exec sleep 1000"]);
    let pid = bench.await_number("pid");
    bench.stop(&[run.id()]);
    wait_until("the watchdog to stop the command", || !is_alive(pid));
    run.signal(Signal::SIGCONT);
    assert_eq!(run.wait(), 76, "it stood still for as long");
}

/// What a command on a terminal does first: it waits until the terminal is lent to it, which is just after it has started. What is
/// typed before that is for `tenure`.
const IN_FRONT: &str = "until [ $(cut -d\" \" -f8 /proc/$$/stat) = $$ ]; do sleep 0.01; done; touch ready";

/// Runs a shell command on a terminal of its own, types into it, and returns what the terminal shows.
fn on_a_terminal(bench: &Bench, command: &str, typed: &[u8]) -> String {
    typing(bench, command, |keyboard, _| keyboard.write_all(typed).unwrap())
}

/// The same with somebody at the keyboard who is told whether the command has ended.
fn typing(
    bench: &Bench,
    command: &str,
    person: impl FnOnce(&mut std::process::ChildStdin, &mut dyn FnMut() -> bool),
) -> String {
    let mut script = Command::new("script");
    bench.settle(script.args(["-qec", command, "/dev/null"]));
    script.env("TENURE", env!("CARGO_BIN_EXE_tenure")).env("TENURE_STORE", "sqlite:leases.db");
    let mut child =
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut keyboard = child.stdin.take().unwrap();
    wait_until("the command to be ready", || bench.path("ready").exists());
    person(&mut keyboard, &mut || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    drop(keyboard);
    format!("{} status {}", String::from_utf8_lossy(&output.stdout), output.status.code().unwrap())
}

#[test]
fn a_command_can_read_the_terminal_and_the_shell_has_it_back_afterwards() {
    let bench = Bench::new();
    let command = format!(
        "$TENURE run k -- sh -c '{IN_FRONT}; read x; echo got $x'; echo tenure ended with $?; read y; echo shell got $y"
    );
    let shown = on_a_terminal(&bench, &command, b"one\ntwo\n");
    assert!(
        shown.contains("got one") && shown.contains("tenure ended with 0") && shown.contains("shell got two"),
        "{shown}"
    );
}

#[test]
fn the_terminals_interrupt_goes_to_the_command() {
    let bench = Bench::new();
    let command = format!(
        "$TENURE run k -- sh -c 'trap \"echo cleaning up; exit 9\" INT; {IN_FRONT}; while :; do sleep 0.01; done'"
    );
    let shown = on_a_terminal(&bench, &command, b"\x03");
    assert!(shown.contains("cleaning up") && shown.ends_with("status 9"), "{shown}");
}

#[test]
fn a_command_is_not_suspended_since_its_lease_goes_on() {
    let bench = Bench::new();
    let command = format!("$TENURE run k -- sh -c '{IN_FRONT}; read x; echo got $x'");
    let shown = on_a_terminal(&bench, &command, b"\x1aafter\n");
    assert!(shown.contains("got after") && shown.ends_with("status 0"), "{shown}");
}

/// As the terminal does, and sooner than anybody types: before tenure has heard of it, or is ready to.
#[test]
fn an_interrupt_that_ends_the_command_at_once_ends_the_script_that_called_tenure() {
    let bench = Bench::new();
    let command = format!("$TENURE run k -- sh -c '{IN_FRONT}; kill -INT 0'; echo went on");
    let shown = on_a_terminal(&bench, &command, b"");
    assert!(!shown.contains("went on") && shown.ends_with("status 130"), "{shown}");
    assert_eq!(bench.state("k"), "vacant");
}

#[test]
fn a_command_that_is_interrupted_ends_the_script_that_called_tenure() {
    let bench = Bench::new();
    let command = format!("$TENURE run k -- sh -c '{IN_FRONT}; exec sleep 1000'; echo went on");
    let shown = on_a_terminal(&bench, &command, b"\x03");
    assert!(!shown.contains("went on") && shown.ends_with("status 130"), "{shown}");
    assert_eq!(bench.state("k"), "vacant");
}

#[test]
fn who_insists_ends_a_command_that_ignores_interrupts() {
    let bench = Bench::new();
    let command = format!(
        "$TENURE run k -- sh -c 'trap \"\" INT; {IN_FRONT}; while :; do sleep 0.01; done'; echo went on"
    );
    let shown = typing(&bench, &command, |keyboard, is_over| {
        // A person, who presses the keys again until it helps.
        wait_until("it to end", || {
            std::thread::sleep(std::time::Duration::from_millis(200));
            is_over() || keyboard.write_all(b"\x03").is_err()
        });
    });
    assert!(!shown.contains("went on") && shown.ends_with("status 130"), "{shown}");
    assert!(shown.contains("SIGINT: stopping the command"), "{shown}");
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

/// Starts tenure with what it says in the file `notes`.
fn noted(bench: &Bench, arguments: &[&str]) -> crate::common::Process {
    let notes = std::fs::File::create(bench.path("notes")).unwrap();
    bench.tenure(arguments).stdout(Stdio::null()).stderr(notes).spawn().unwrap().into()
}

#[test]
fn who_waits_for_a_store_that_fails_is_told_so_and_when_it_is_over() {
    let bench = Bench::new();
    let mut holder = bench.start(&["run", "k", "--ttl", "60s", "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    let mut waiter = noted(&bench, &["run", "k", "--ttl", "2s", "--", "true"]);
    // It listens for changes once it has found the key held: a file that is gone before that would be made anew.
    let listens = |fd: std::fs::DirEntry| {
        std::fs::read_link(fd.path()).is_ok_and(|to| to.ends_with("anon_inode:inotify"))
    };
    let fds = format!("/proc/{}/fd", waiter.id());
    wait_until("it to wait", || std::fs::read_dir(&fds).unwrap().flatten().any(listens));
    std::fs::rename(bench.store(), bench.path("elsewhere")).unwrap();
    wait_until("the first word of it", || bench.read("notes").contains("; trying on\n"));
    assert!(bench.read("notes").contains("leases.db was removed"), "{}", bench.read("notes"));
    wait_until("a second word", || bench.read("notes").contains("; trying on, for "));
    std::fs::rename(bench.path("elsewhere"), bench.store()).unwrap();
    holder.signal(Signal::SIGTERM);
    holder.wait();
    assert_eq!(waiter.wait(), 0);
    assert!(bench.read("notes").contains(" again, after "), "{}", bench.read("notes"));
}

#[test]
fn a_command_is_called_as_it_was_typed_wherever_it_was_found() {
    let bench = Bench::new();
    let called = "tr '\\0' ' ' < /proc/$$/cmdline | cut -d ' ' -f 1,2";
    for (typed, is) in [("sh", "sh -c\n"), ("/bin/sh", "/bin/sh -c\n")] {
        let ran = bench.run(&["run", "k", "--", typed, "-c", called]);
        assert_eq!((ran.code, ran.out.as_str()), (0, is), "{ran:?}");
    }
}

#[test]
fn the_status_of_a_conflict_is_the_one_that_was_asked_for() {
    let bench = Bench::new();
    let holding = bench.start(&["run", "k", "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    for wanted in [
        &["-E", "9", "--try", "k"][..],
        &["--conflict-exit-code", "9", "--try", "other", "k"],
        &["-E", "9", "--wait", "1s", "k"],
    ] {
        let ran = bench.run(&[&["run"], wanted, &["--", "true"]].concat());
        assert!(ran.code == 9 && ran.err.contains("held"), "{wanted:?}: {ran:?}");
    }
    assert_eq!(bench.run(&["run", "-E", "9", "--try", "free", "--", "sh", "-c", "exit 3"]).code, 3);
    drop(holding);
}

#[test]
fn who_loses_a_lease_is_told_of_the_first_renewal_that_failed_and_why_it_was_lost() {
    let bench = Bench::new();
    let mut run = noted(&bench, &["run", "k", "--ttl", "4s", "--", "sh", "-c", STAYS]);
    let pid = bench.await_number("pid");
    std::fs::rename(bench.store(), bench.path("elsewhere")).unwrap();
    wait_until("the first renewal that fails", || bench.read("notes").contains("; trying on"));
    assert!(is_alive(pid), "long before the lease is over");
    assert_eq!(run.wait(), 76);
    let notes = bench.read("notes");
    let last = notes.lines().last().unwrap();
    assert!(last.contains("k: the lease ") && last.contains("leases.db"), "{notes}");
    assert!(last.contains("a longer --ttl") && last.contains("tenure doctor"), "what can be done: {notes}");
}
