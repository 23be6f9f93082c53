//! What tenure has started does not outlive its lease, also when tenure itself can't see to that.
//!
//! Plan: tenure killed with SIGKILL, `run` and `work`, with commands that listen to TERM and such that don't; tenure stopped with
//! SIGSTOP for longer than the ttl, and then continued; a watchdog killed or stopped, alone, and with tenure; both killed, and
//! tenure after them; a tenure within a command; what has left its group; any two of the three killed or stopped at
//! random (TENURE_SEED); tenure killed at many moments of its start; a command whose group
//! the watchdog was never told of, because tenure stood still while it was starting it. Each command writes the time again and again:
//! the last time written must lie within the ttl.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Random, children_of, is_alive, now_ms, wait_for, wait_until};
use nix::sys::signal::Signal;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

/// Deaf to TERM; ticks until it is killed.
const TICKS: &str = "trap '' TERM; (trap '' TERM; while :; do date +%s%3N >> ticks; sleep 0.01; done) & echo $! > child; echo $$ > pid; while :; do sleep 0.1; done";
/// Says so when it is told to stop, and stops.
const OBEYS: &str = "trap 'echo told > told; exit' TERM; echo $$ > pid; while :; do sleep 0.01; done";

/// The command and its child, which has ticked.
fn ticking(bench: &Bench) -> (i32, i32) {
    let both = (bench.await_number("pid"), bench.await_number("child"));
    wait_until("the first tick", || bench.read("ticks").contains('\n'));
    both
}

fn last_tick(bench: &Bench) -> i64 {
    bench.read("ticks").lines().filter_map(|line| line.parse().ok()).next_back().unwrap()
}

#[test]
fn a_command_dies_when_tenure_is_killed() {
    let bench = Bench::new();
    let mut run = bench.start(&["run", "k", "--ttl", "3s", "--", "sh", "-c", TICKS]);
    let (pid, child) = ticking(&bench);
    let killed_at = now_ms();
    run.signal(Signal::SIGKILL);
    run.wait();
    wait_until("the group to be dead", || !is_alive(pid) && !is_alive(child));
    assert!(last_tick(&bench) < killed_at + 3000);
    assert_eq!(
        bench.run(&["run", "k", "--wait", "30s", "--", "true"]).code,
        0,
        "others have it after the ttl"
    );
}

#[test]
fn whoever_is_killed_at_any_moment_of_its_start_leaves_nothing_running() {
    let bench = Bench::new();
    let is_of = |pid: i32, whose: &str| {
        let has_it = |file: &str| {
            let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).contains(whose)
        };
        // Watchdogs have the mark among their arguments, commands in their environment.
        is_alive(pid) && (has_it("cmdline") || has_it("environ"))
    };
    let (mut began, mut had_watchdogs) = (0, 0);
    for round in 0..16 {
        let mut run = bench.start(&["run", "k", "--wait", "60s", "--ttl", "60s", "--", "sh", "-c", OBEYS]);
        let holder = format!("-{}-", run.id());
        std::thread::sleep(std::time::Duration::from_millis(6 * round));
        had_watchdogs += u32::from(!children_of(run.id().cast_signed()).is_empty());
        run.signal(Signal::SIGKILL);
        run.wait();
        let left = || {
            let all = std::fs::read_dir("/proc").unwrap().flatten();
            let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
            pids.any(|pid| is_of(pid, &holder))
        };
        wait_until("all of it to be dead", || !left());
        began += u32::from(std::fs::remove_file(bench.path("pid")).is_ok());
    }
    assert!(had_watchdogs > 0, "{began} of 16 had begun");
    assert_eq!(bench.run(&["run", "k", "--try", "--", "true"]).code, 0, "and the key is free");
}

#[test]
fn both_watchdogs_are_there_before_the_command_is() {
    let bench = Bench::new();
    // The first thing that it does.
    let counts = "cat /proc/$PPID/task/$PPID/children > children; for child in $(cat children); do tr '\\0' ' ' < /proc/$child/cmdline; done > names";
    assert_eq!(bench.run(&["run", "--try", "k", "--", "sh", "-c", counts]).code, 0);
    let names = bench.read("names");
    assert_eq!(names.matches("__watchdog").count(), 2, "{names} {}", bench.read("children"));
}

#[test]
fn a_command_is_told_before_it_is_killed() {
    let bench = Bench::new();
    let run = bench.start(&["run", "k", "--ttl", "60s", "--", "sh", "-c", OBEYS]);
    let pid = bench.await_number("pid");
    run.signal(Signal::SIGKILL);
    wait_until("the command to end", || !is_alive(pid));
    assert_eq!(bench.read("told"), "told\n");
}

#[test]
fn a_command_dies_before_the_deadline_when_tenure_is_stopped() {
    let bench = Bench::new();
    let mut run = bench.start(&["run", "k", "--ttl", "6s", "--", "sh", "-c", TICKS]);
    let (pid, child) = ticking(&bench);
    let stopped_at = now_ms();
    bench.stop(&[run.id()]);
    assert_eq!(bench.run(&["run", "k", "--wait", "30s", "--", "date", "+%s%3N"]).code, 0);
    let taken_at = now_ms();
    assert!(!is_alive(pid) && !is_alive(child), "nothing runs when another has the lease");
    let last = last_tick(&bench);
    assert!(last < stopped_at + 6000 && last < taken_at, "{stopped_at} {last} {taken_at}");
    run.signal(Signal::SIGCONT);
    assert_eq!(run.wait(), 76, "it finds out that it has lost the lease");
}

#[test]
fn the_commands_of_work_die_with_it_and_their_units_are_taken_over() {
    let bench = Bench::new();
    let script = format!("if mkdir first; then {TICKS}; fi");
    let start = ["work", "--name", "j", "--ttl", "3s", "u", "--", "sh", "-c", &script];
    let run = bench.start(&start);
    let (pid, child) = ticking(&bench);
    let killed_at = now_ms();
    run.signal(Signal::SIGKILL);
    let ran =
        bench.run(&["work", "--name", "j", "--ttl", "3s", "--join", "--json", "--", "sh", "-c", &script]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.json()["here"]["taken_over"], 1, "{ran:?}");
    assert!(!is_alive(pid) && !is_alive(child));
    assert!(last_tick(&bench) < killed_at + 3000);
}

#[test]
fn work_that_was_stopped_too_long_goes_on_afterwards() {
    let bench = Bench::new();
    let script = format!("if mkdir first; then {TICKS}; fi");
    // Who has lost its lease has not died, so that nothing is counted against the unit.
    let options = ["work", "--name", "j", "--max-takeovers", "0", "--ttl", "6s", "u"];
    let mut run = bench.start(&[&options[..], &["--", "sh", "-c", &script]].concat());
    let (pid, child) = ticking(&bench);
    let stopped_at = now_ms();
    bench.stop(&[run.id()]);
    wait_until("the watchdog to kill the group", || !is_alive(pid) && !is_alive(child));
    assert!(last_tick(&bench) < stopped_at + 6000);
    run.signal(Signal::SIGCONT);
    assert_eq!(run.wait(), 0, "the unit is run again, and the job is finished");
}

#[test]
fn a_watchdog_that_dies_is_replaced() {
    let bench = Bench::new();
    let script = format!("if mkdir first; then while [ ! -e go ]; do sleep 0.01; done; else {TICKS}; fi");
    let run =
        bench.start(&["work", "--name", "j", "-p", "1", "--ttl", "6s", "a", "b", "--", "sh", "-c", &script]);
    let watchdog = wait_for("the watchdog", || watchdog_of(run.id()));
    wait_until("the first command", || bench.path("first").exists());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(watchdog), Signal::SIGKILL).unwrap();
    bench.write("go", "");
    let (pid, child) = ticking(&bench);
    wait_until("another watchdog", || {
        let watchdogs = watchdogs_of(run.id());
        watchdogs.len() == 2 && !watchdogs.contains(&watchdog)
    });
    run.signal(Signal::SIGKILL);
    wait_until("the group to be dead", || !is_alive(pid) && !is_alive(child));
}

/// Kills both watchdogs of a process, or sends them another signal. There are two as soon as the second is there.
fn signal_watchdogs(parent: u32, signal: Signal) -> Vec<i32> {
    let watchdogs =
        wait_for("both watchdogs", || Some(watchdogs_of(parent)).filter(|watchdogs| watchdogs.len() == 2));
    for watchdog in &watchdogs {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(*watchdog), signal).unwrap();
    }
    watchdogs
}

#[test]
fn a_command_dies_when_tenure_and_a_watchdog_are_killed_at_once() {
    for victim in 0..2 {
        let bench = Bench::new();
        let run = bench.start(&["elect", "k", "--ttl", "3s", "--", "sh", "-c", TICKS]);
        let (pid, child) = ticking(&bench);
        let watchdogs = wait_for("both watchdogs", || {
            Some(watchdogs_of(run.id())).filter(|watchdogs| watchdogs.len() == 2)
        });
        let killed_at = now_ms();
        // The other way round tenure might replace the watchdog in between.
        run.signal(Signal::SIGKILL);
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(watchdogs[victim]), Signal::SIGKILL).unwrap();
        wait_until("the group to be dead", || !is_alive(pid) && !is_alive(child));
        assert!(last_tick(&bench) < killed_at + 3000);
    }
}

#[test]
fn a_command_dies_when_tenure_is_killed_right_after_its_watchdogs() {
    let bench = Bench::new();
    let run = bench.start(&["run", "k", "--ttl", "6s", "--", "sh", "-c", TICKS]);
    let (pid, child) = ticking(&bench);
    let dead = signal_watchdogs(run.id(), Signal::SIGKILL);
    // Nothing but the death of the watchdogs makes tenure start others: no command begins or ends meanwhile.
    wait_until("others", || {
        watchdogs_of(run.id()).iter().filter(|watchdog| !dead.contains(watchdog)).count() == 2
    });
    let killed_at = now_ms();
    run.signal(Signal::SIGKILL);
    wait_until("the group to be dead", || !is_alive(pid) && !is_alive(child));
    assert!(last_tick(&bench) < killed_at + 6000);
}

#[test]
fn a_command_dies_before_the_deadline_when_tenure_and_a_watchdog_are_stopped() {
    for victim in 0..2 {
        let bench = Bench::new();
        let mut run = bench.start(&["run", "k", "--ttl", "6s", "--", "sh", "-c", TICKS]);
        let (pid, child) = ticking(&bench);
        let watchdogs = wait_for("both watchdogs", || {
            Some(watchdogs_of(run.id())).filter(|watchdogs| watchdogs.len() == 2)
        });
        let watchdog = watchdogs[victim];
        let stopped_at = now_ms();
        bench.stop(&[run.id(), watchdog.cast_unsigned()]);
        wait_until("the group to be dead", || !is_alive(pid) && !is_alive(child));
        assert!(last_tick(&bench) < stopped_at + 6000);
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(watchdog), Signal::SIGCONT).unwrap();
        run.signal(Signal::SIGCONT);
        assert_eq!(run.wait(), 76);
    }
}

#[test]
fn a_command_within_a_command_dies_when_the_outer_tenure_is_killed() {
    let bench = Bench::new();
    let inner = format!("echo $PPID > inner; {TICKS}");
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let run = bench.start(&[
        "run", "outer", "--ttl", "60s", "--", tenure, "run", "inner", "--ttl", "6s", "--", "sh", "-c", &inner,
    ]);
    let (pid, child) = ticking(&bench);
    let killed_at = now_ms();
    run.signal(Signal::SIGKILL);
    wait_until("the innermost command to be dead", || !is_alive(pid) && !is_alive(child));
    // By the inner lease, though the outer one has a minute.
    assert!(last_tick(&bench) < killed_at + 6000 + 60_000 / 8);
    wait_until("the inner tenure to be dead", || !is_alive(bench.await_number("inner")));
}

#[test]
fn a_command_within_a_command_dies_with_the_inner_tenure_whatever_became_of_the_outer() {
    let bench = Bench::new();
    let inner = format!("echo $PPID > inner; {TICKS}");
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let run = bench.start(&[
        "run", "outer", "--ttl", "60s", "--grace", "1h", "--", tenure, "run", "inner", "--ttl", "6s", "--",
        "sh", "-c", &inner,
    ]);
    let (pid, child) = ticking(&bench);
    let inner = bench.await_number("inner");
    let watchdogs = watchdogs_of(inner.cast_unsigned());
    assert_eq!(watchdogs.len(), 2);
    run.signal(Signal::SIGKILL);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(inner), Signal::SIGKILL).unwrap();
    let killed_at = now_ms();
    wait_until("the innermost command to be dead", || !is_alive(pid) && !is_alive(child));
    assert!(last_tick(&bench) < killed_at + 6000, "the inner watchdog outlives the outer one's work");
}

#[test]
fn what_has_left_its_group_dies_when_tenure_is_killed() {
    let bench = Bench::new();
    let script =
        "setsid sh -c \"$TICKS\" & setsid env -i sh -c 'echo $$ > bare; exec /bin/sleep 1000' & wait";
    let mut command = bench.tenure(&["run", "k", "--ttl", "3s", "--", "sh", "-c", script]);
    let mut run: crate::common::Process =
        command.env("TICKS", TICKS).stdout(Stdio::null()).spawn().unwrap().into();
    let ((pid, child), bare) = (ticking(&bench), bench.await_number("bare"));
    let killed_at = now_ms();
    run.signal(Signal::SIGKILL);
    run.wait();
    wait_until("all of it to be dead", || !is_alive(pid) && !is_alive(child) && !is_alive(bare));
    assert!(last_tick(&bench) < killed_at + 3000);
}

fn watchdog_of(parent: u32) -> Option<i32> {
    watchdogs_of(parent).first().copied()
}

fn watchdogs_of(parent: u32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let is_one = |entry: std::fs::DirEntry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let of: u32 = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
        let words = std::fs::read(entry.path().join("cmdline")).ok()?;
        let is_watchdog = words.split(|byte| *byte == 0).any(|word| word == b"__watchdog");
        (of == parent && is_watchdog && is_alive(pid)).then_some(pid)
    };
    processes.filter_map(is_one).collect()
}

#[test]
fn a_command_that_was_being_started_when_tenure_stood_still_dies_before_the_deadline() {
    let bench = Bench::new();
    // The watchdog alone, which is to kill two seconds before the deadline, told what tenure tells it up to the start of a
    // command and nothing after that.
    let mut watchdog = bench
        .tenure(&["__watchdog", "100", "2000", "a-mark-of-this-test"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = watchdog.stdin.take().unwrap();
    let mut command = std::process::Command::new("sh");
    let mut child = command
        .args(["-c", TICKS])
        .current_dir(bench.path("."))
        .env("TENURE_MARK", "a-mark-of-this-test")
        .process_group(0)
        .spawn()
        .unwrap();
    let boottime = tenure::clock::boottime();
    let deadline = now_ms() + 3000;
    let line = format!("?\ndeadline {}\n", (boottime + std::time::Duration::from_millis(3000)).as_nanos());
    pipe.write_all(line.as_bytes()).unwrap();
    wait_for("the command to be killed", || child.try_wait().unwrap());
    assert!(last_tick(&bench) < deadline);
    pipe.write_all(b"bye\n").unwrap();
    assert!(watchdog.wait().unwrap().success());
}

#[test]
fn no_command_is_at_work_beside_its_successor_whoever_is_killed_or_stopped() {
    const ROUNDS: u64 = 8;
    let seed = std::env::var("TENURE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| now_ms().cast_unsigned());
    println!("TENURE_SEED={seed}");
    // Side by side, since they mostly wait.
    std::thread::scope(|scope| {
        for round in 0..ROUNDS {
            scope.spawn(move || one_at_random(&mut Random(seed.wrapping_add(round))));
        }
    });
}

/// Tenure and one of its watchdogs, or tenure alone, in either order.
fn one_at_random(random: &mut Random) {
    let bench = Bench::new();
    let run = bench.start(&["run", "k", "--ttl", "8s", "--", "sh", "-c", TICKS]);
    let (pid, child) = ticking(&bench);
    let watchdogs =
        wait_for("both watchdogs", || Some(watchdogs_of(run.id())).filter(|watchdogs| watchdogs.len() == 2));
    let mut victims = vec![run.id().cast_signed()];
    if random.below(4) > 0 {
        victims.insert(random.below(2) as usize, watchdogs[random.below(2) as usize]);
    }
    std::thread::sleep(std::time::Duration::from_millis(random.below(1500)));
    let how: Vec<(i32, Signal)> = victims
        .into_iter()
        .map(|victim| (victim, if random.below(2) == 0 { Signal::SIGKILL } else { Signal::SIGSTOP }))
        .collect();
    bench.signal_between_writes(how.iter().map(|(victim, signal)| (victim.cast_unsigned(), *signal)));
    let next = bench.run(&["run", "k", "--wait", "60s", "--", "date", "+%s%3N"]);
    let (began, last): (i64, i64) =
        (next.out.trim().parse().unwrap_or_else(|_| panic!("{next:?}")), last_tick(&bench));
    assert!(last <= began, "{how:?}: it ran {} ms into its successor's lease", last - began);
    assert!(!is_alive(pid) && !is_alive(child), "{how:?}");
    for (victim, _) in how {
        let _gone = nix::sys::signal::kill(nix::unistd::Pid::from_raw(victim), Signal::SIGCONT);
    }
}
