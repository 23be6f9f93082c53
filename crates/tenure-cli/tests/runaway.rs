//! What has run away from a tenure that is killed: without its environment, its group and its parent, it stands among the children of
//! the system's first process, as does what others have left there.
//!
//! Plan: what the watchdogs know of is dead before the next one has the key; what they may not know of keeps the lease.
//!
//! A runaway keeps other watchdogs of this machine from giving back, too, since they can't tell whose it is. So one test has its runaway
//! at a time, and `cargo xtask test` runs nothing beside them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::successor::{TICKS, TTL, await_next, holder, next, watchdogs_of};
use crate::common::{Bench, Process, children_of, is_alive, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn last_tick(bench: &Bench) -> i64 {
    bench.read("ticks").lines().filter_map(|line| line.parse().ok()).next_back().unwrap()
}

#[test]
fn s6_all_that_a_killed_tenure_has_started_is_dead_when_the_next_one_has_its_key() {
    let _alone = one_at_a_time();
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
fn s6_a_runaway_that_nobody_was_told_of_keeps_the_lease_of_a_killed_tenure() {
    let _alone = one_at_a_time();
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
    let _alone = one_at_a_time();
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
