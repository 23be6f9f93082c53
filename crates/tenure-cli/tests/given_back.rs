//! What a tenure that is killed held is given back as soon as nothing of its command is alive, and never before.
//!
//! Plan: the next one has the key long before the ttl is over, after `run`, `elect`, `range`, `work` and `work --forever`; what has left its group, its
//! environment and its parent is dead by then; whoever stands still keeps what it has; what can't be killed keeps it, too, and so does
//! `--min`; a runaway that nobody was told of keeps it; a successor keeps its own. What holds on every store is in
//! `crate::common::every_store`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, children_of, is_alive, now_ms, toothless, wait_for, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::Duration;

/// Longer than any of this takes: whatever is had before it was given back.
const TTL: &str = "10m";
const TICKS: &str = "trap '' TERM; echo $$ > ticking; while :; do date +%s%3N >> ticks; sleep 0.01; done";

fn last_tick(bench: &Bench) -> i64 {
    bench.read("ticks").lines().filter_map(|line| line.parse().ok()).next_back().unwrap()
}

/// Waits for the key `k`, and notes when it has it.
fn next(bench: &Bench) -> Process {
    let next = bench.start(&["run", "k", "--ttl", TTL, "--", "sh", "-c", "date +%s%3N > next; echo >> next"]);
    next.await_signals();
    next
}

fn await_next(bench: &Bench) -> i64 {
    wait_for("the next one", || bench.read("next").strip_suffix("\n\n").and_then(|text| text.parse().ok()))
}

fn holder(bench: &Bench) -> serde_json::Value {
    bench.show("k")["holder"].clone()
}

#[test]
fn the_next_one_has_a_killed_holders_key_long_before_its_ttl() {
    for verb in ["run", "elect"] {
        let bench = Bench::new();
        let killed =
            bench.start(&[verb, "k", "--ttl", TTL, "--", "sh", "-c", "echo $$ > pid; exec sleep 600"]);
        let pid = bench.await_number("pid");
        let _next = next(&bench);
        let killed_at = now_ms();
        killed.signal(Signal::SIGKILL);
        let began = await_next(&bench);
        // A thousandth of the ttl where the machine is not busy.
        assert!(began - killed_at < 60_000, "{verb}: {} ms", began - killed_at);
        assert!(!is_alive(pid), "{verb}");
    }
}

#[test]
fn another_takes_the_units_of_a_killed_work_over_long_before_their_ttl() {
    let bench = Bench::new();
    let script = "mkdir first || exit 0; echo $$ > pid; exec sleep 600";
    let work = ["work", "--name", "j", "--ttl", TTL, "u", "--", "sh", "-c", script];
    let killed = bench.start(&work);
    bench.await_number("pid");
    let killed_at = now_ms();
    killed.signal(Signal::SIGKILL);
    let ran = bench.run(&["work", "--name", "j", "--ttl", TTL, "--join", "--json", "--", "sh", "-c", script]);
    assert_eq!((ran.code, &ran.json()["here"]["taken_over"]), (0, &1.into()), "{ran:?}");
    assert!(now_ms() - killed_at < 60_000);
}

#[test]
fn another_worker_has_the_units_of_a_killed_one_long_before_their_ttl() {
    // Whoever comes in the very moment in which they are given back may notice at its next look only, after a third of a ttl.
    const TTL: &str = "2m";
    let bench = Bench::new();
    let units = ["--units", "a", "b"];
    let script = "echo $$ > pid.{}.$TENURE_FENCE; exec sleep 600";
    let killed = bench.worker_with(TTL, &units, script);
    bench.await_shares(&[(&killed, 2)]);
    let fence = |name: &str| bench.unit(name)["fence"].as_u64().unwrap();
    let first = ["a", "b"].map(|name| bench.await_number(&format!("pid.{name}.{}", fence(name))));
    killed.signal(Signal::SIGKILL);
    let killed_at = now_ms();
    let other = bench.worker_with(TTL, &units, script);
    bench.await_shares(&[(&other, 2)]);
    assert!(now_ms() - killed_at < 60_000);
    assert!(first.into_iter().all(|pid| !is_alive(pid)));
}

#[test]
fn the_ranges_of_a_killed_process_are_free_long_before_their_time_is_over() {
    let bench = Bench::new();
    let start = |range: &str, name: &str| {
        let script = format!("cat > ranges.{name}; echo $$ > pid.{name}; exec sleep 600");
        bench.start(&["range", "mail", range, "--for", TTL, "--", "sh", "-c", &script])
    };
    let killed = start("0..80", "killed");
    let _beside = start("80..c0", "beside");
    let pid = bench.await_number("pid.killed");
    bench.await_number("pid.beside");
    killed.signal(Signal::SIGKILL);
    let killed_at = now_ms();
    // All of it at once, without what another has.
    wait_until("the ranges to be free", || {
        let run = ["range", "mail", "0..80", "--all", "--for", TTL, "--", "true"];
        bench.run(&run).code == 0
    });
    assert!(now_ms() - killed_at < 60_000 && !is_alive(pid));
    let over = bench.run(&["range", "mail", "80..c0", "--all", "--for", TTL, "--", "true"]);
    assert_eq!(over.code, 75, "{over:?}");
}

#[test]
fn s6_all_that_a_killed_tenure_has_started_is_dead_when_the_next_one_has_its_key() {
    let bench = Bench::new();
    // A daemon as `service` starts one: in a session of its own, with an empty environment, its parent gone.
    let daemon = "(setsid env -i sh -c \"$TICKS\" &) ; echo $$ > pid; exec sleep 600";
    let mut command = bench.tenure(&["run", "k", "--ttl", TTL, "--grace", "500ms", "--", "sh", "-c", daemon]);
    let killed: Process = command.env("TICKS", TICKS).spawn().unwrap().into();
    let (ticking, pid) = (bench.await_number("ticking"), bench.await_number("pid"));
    let _next = next(&bench);
    // The watchdogs hear of it within a moment: one that is younger is left alone, and keeps the key from being given back.
    wait_until("it to be there for a while", || bench.read("ticks").lines().count() > 100);
    killed.signal(Signal::SIGKILL);
    let began = await_next(&bench);
    assert!(!is_alive(ticking) && !is_alive(pid));
    assert!(last_tick(&bench) <= began, "it ran {} ms into its successor's lease", last_tick(&bench) - began);
}

#[test]
fn s6_who_stands_still_keeps_its_lease_until_it_is_dead() {
    let bench = Bench::new();
    let mut stopped = bench.start(&["run", "k", "--ttl", "9s", "--", "sh", "-c", TICKS]);
    let ticking = bench.await_number("ticking");
    let held = holder(&bench);
    bench.stop(&[stopped.id()]);
    wait_until("its command to be ended before the deadline", || !is_alive(ticking));
    // The watchdogs have done what they have to do, and have nothing to give back: it may go on.
    assert_eq!(holder(&bench), held);
    stopped.signal(Signal::SIGCONT);
    let status = stopped.wait();
    assert!(status == 76 || status == 137, "it has found out what happened: {status}");
}

#[test]
fn s6_what_can_not_be_killed_keeps_the_lease_of_a_killed_tenure() {
    let bench = Bench::new();
    // Whatever the watchdogs send is swallowed, too.
    let killed = toothless::start(
        &bench,
        &["run", "k", "--ttl", TTL, "--grace", "10ms", "--", "sh", "-c", TICKS],
        true,
    );
    let ticking = bench.await_number("ticking");
    let held = holder(&bench);
    let watchdogs = watchdogs_of(&killed);
    killed.signal(Signal::SIGKILL);
    wait_until("the watchdogs to give it up", || watchdogs.iter().all(|watchdog| !is_alive(*watchdog)));
    assert!(is_alive(ticking) && holder(&bench) == held);
    kill(Pid::from_raw(ticking), Signal::SIGKILL).unwrap();
}

#[test]
fn s6_a_runaway_that_nobody_was_told_of_keeps_the_lease_of_a_killed_tenure() {
    let bench = Bench::new();
    let runaway = "until [ -e go ]; do sleep 0.01; done; (setsid env -i sh -c 'echo $$ > bare; exec sleep 600' &) ; exec sleep 600";
    let killed = bench.start(&["run", "k", "--ttl", TTL, "--grace", "500ms", "--", "sh", "-c", runaway]);
    wait_until("the lease", || bench.run(&["show", "k"]).code == 0);
    let (held, watchdogs) = (holder(&bench), watchdogs_of(&killed));
    // It can't tell of what comes to it now.
    bench.stop(&[killed.id()]);
    bench.write("go", "");
    let bare = bench.await_number("bare");
    wait_until("it to be tenure's", || children_of(killed.id().cast_signed()).contains(&bare));
    killed.signal(Signal::SIGKILL);
    wait_until("the watchdogs to give it up", || watchdogs.iter().all(|watchdog| !is_alive(*watchdog)));
    assert!(is_alive(bare) && holder(&bench) == held);
    kill(Pid::from_raw(bare), Signal::SIGKILL).unwrap();
}

/// It starts another and ends, again and again, each a stranger to the one before: no look meets it twice.
#[test]
fn s6_a_runaway_that_is_never_the_same_process_keeps_the_lease_of_a_killed_tenure() {
    let bench = Bench::new();
    bench.write("flee", "echo >> ticks\nsleep 0.002\n[ -e enough ] || setsid sh ./flee &\n");
    let script = "env -i PATH=$PATH setsid sh ./flee & exec sleep 600";
    let killed = bench.start(&["run", "k", "--ttl", TTL, "--grace", "500ms", "--", "sh", "-c", script]);
    let flees = || {
        let before = bench.read("ticks").len();
        std::thread::sleep(Duration::from_millis(200));
        bench.read("ticks").len() > before
    };
    wait_until("it to flee", flees);
    let (held, watchdogs) = (holder(&bench), watchdogs_of(&killed));
    killed.signal(Signal::SIGKILL);
    wait_until("the watchdogs to end", || watchdogs.iter().all(|watchdog| !is_alive(*watchdog)));
    let is_kept = holder(&bench) == held;
    assert!(is_kept || !flees());
    bench.write("enough", "");
}

#[test]
fn what_is_kept_for_a_least_time_is_not_given_back_before() {
    let bench = Bench::new();
    let script = "echo $$ > pid; exec sleep 600";
    let killed = bench.start(&["run", "k", "--ttl", TTL, "--min", "10m", "--", "sh", "-c", script]);
    let pid = bench.await_number("pid");
    let (held, watchdogs) = (holder(&bench), watchdogs_of(&killed));
    killed.signal(Signal::SIGKILL);
    wait_until("the watchdogs to end", || watchdogs.iter().all(|watchdog| !is_alive(*watchdog)));
    assert!(!is_alive(pid) && holder(&bench) == held);
}

#[test]
fn a_successor_keeps_its_own_lease_when_its_predecessor_is_killed() {
    let bench = Bench::new();
    let script = "echo $$ > pid; exec sleep 600";
    let killed = bench.start(&["run", "k", "--ttl", TTL, "--", "sh", "-c", script]);
    bench.await_number("pid");
    let watchdogs = watchdogs_of(&killed);
    bench.stop(&[killed.id()]);
    assert_eq!(bench.run(&["release", "k", "--yes", "--now"]).code, 0);
    let script = "echo $$ > successor; exec sleep 600";
    let _successor = bench.start(&["run", "k", "--ttl", TTL, "--", "sh", "-c", script]);
    bench.await_number("successor");
    let held = bench.show("k");
    killed.signal(Signal::SIGKILL);
    wait_until("the watchdogs to end", || watchdogs.iter().all(|watchdog| !is_alive(*watchdog)));
    let shown = bench.show("k");
    assert_eq!(
        (&shown["holder"], &shown["fence"], &shown["state"]),
        (&held["holder"], &held["fence"], &"held".into())
    );
}

fn watchdogs_of(process: &Process) -> Vec<i32> {
    wait_for("both watchdogs", || {
        let mut all = children_of(process.id().cast_signed());
        all.retain(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "tenure-watchdog\n")
        });
        Some(all).filter(|all| all.len() == 2)
    })
}
