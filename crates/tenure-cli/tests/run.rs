//! `tenure run`, by the real binary on real files.
//!
//! Plan: the command's status, environment, arguments and standard input and output; what happens when the key is held
//! (--try, --wait, waiting); the longest and the least time; fences grow; withdrawal and release by
//! force while it runs; a store that goes away while it runs, or is waited for; what the watchdog stopped. How a command is ended is in
//! `run/stopping.rs`, and what it does on a terminal in `run/terminal.rs`. What happens when tenure itself is killed or stopped is in `watchdog.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

mod stopping;
mod terminal;

use crate::common::{Bench, is_alive, now_ms, wait_for, wait_until};
use nix::sys::signal::Signal;
use std::io::Write;
use std::process::Stdio;

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
    // Without a command there is nothing to wait for.
    bench.write("text", "no program");
    let ran = bench.run(&["run", "m", "--min", "10m", "--", "./text"]);
    assert!(ran.code == 126 && now_ms() < before + 300_000, "{ran:?}");
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
fn a_command_runs_for_longer_than_a_ttl() {
    let bench = Bench::new();
    let ran = bench.run(&["run", "k", "--ttl", "3s", "--", "sh", "-c", "sleep 5; echo done"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "done\n"), "{ran:?}");
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

/// A command that is over before any renewal could tell of the loss.
#[test]
fn a_loss_that_only_the_release_finds_is_told_with_status_76() {
    let bench = Bench::new();
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let by_force = |key: &str| format!("\"$0\" release {key} --now --yes 2> forced || exit 9");
    for (keys, script, ended) in [
        (&["k"][..], by_force("k"), ""),
        (&["k"], by_force("k") + "; exit 3", "; CMD ended with 3"),
        (&["a", "b"], by_force("a"), ""),
        (&["--on-lost", "printf %s \"$TENURE_REASON\" > reason", "k"], by_force("k"), ""),
    ] {
        let words = [&["run", "--ttl", "60s"], keys, &["--", "sh", "-c", &script, tenure]].concat();
        let ran = bench.run(&words);
        let says = format!(
            ": the lease was lost while the command ran, as was found when it was to be given up{ended}\n"
        );
        assert!(ran.code == 76 && ran.err.ends_with(&says), "{keys:?} {script}: {ran:?}");
    }
    assert!(bench.read("reason").contains("k: the lease was lost"), "{}", bench.read("reason"));
    // What is kept for its least time may be lost while nothing runs.
    let mut run =
        bench.start(&["run", "kept", "--ttl", "60s", "--min", "2s", "--", "sh", "-c", "echo 1 > began"]);
    bench.await_number("began");
    assert_eq!(bench.run(&["release", "kept", "--now", "--yes"]).code, 0);
    assert_eq!(run.wait(), 0);
    // What is not known is no loss.
    let away = ["run", "k", "--ttl", "2s", "--", "sh", "-c", "mv leases.db away"];
    let ran = bench.run(&away);
    assert!(ran.code == 0 && !ran.err.contains("lost"), "{ran:?}");
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
    wait_until("a second word", || bench.read("notes").contains("; trying on, for "));
    // A call that was under way when the file went may have found that its disk fails.
    assert!(bench.read("notes").contains("leases.db was removed"), "{}", bench.read("notes"));
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
