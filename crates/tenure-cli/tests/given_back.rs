//! What a tenure that is killed held is given back as soon as nothing of its command is alive, and never before.
//!
//! Plan: the next one has the key, one of many long ones too, or the permits, long before the ttl is over, after `run`, `elect`, `range`, `work` and
//! `work --forever`; whoever stands
//! still keeps what it has; what can't be killed keeps it, too, and so does `--min`; a successor keeps its own. Who has run away is in
//! `crate::runaway`, and what holds on every store in `crate::common::every_store`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::successor::{TICKS, TTL, await_next, holder, next, watchdogs_of};
use crate::common::{Bench, Process, is_alive, now_ms, toothless, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

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

/// Their names are more than a pipe takes in one piece.
#[test]
fn the_next_one_has_a_killed_holders_key_however_many_and_long_they_were() {
    let bench = Bench::new();
    let long: Vec<String> = (0..90).map(|n| format!("{n:0480}")).collect();
    let keys = long.iter().map(String::as_str).chain(["k"]);
    let command = ["--ttl", TTL, "--", "sh", "-c", "echo $$ > pid; exec sleep 600"];
    let killed = bench.start(&["run"].into_iter().chain(keys).chain(command).collect::<Vec<_>>());
    let pid = bench.await_number("pid");
    let _next = next(&bench);
    let killed_at = now_ms();
    killed.signal(Signal::SIGKILL);
    let began = await_next(&bench);
    assert!(began - killed_at < 60_000, "{} ms", began - killed_at);
    assert!(!is_alive(pid));
}

/// Those who wait look at others' sessions a few times in a ttl only, so what is given back has to wake them.
#[test]
fn the_next_one_has_a_killed_holders_permits_long_before_its_ttl() {
    for how in [&["--permits", "1"][..], &["--exclusive"]] {
        let bench = Bench::new();
        let run = |script: &str| {
            bench.start(&[&["run", "s", "--ttl", TTL], how, &["--", "sh", "-c", script]].concat())
        };
        let killed = run("echo $$ > pid; exec sleep 600");
        bench.await_number("pid");
        let mut waits = run("date +%s%3N > next; echo >> next");
        wait_until("it to wait", || !bench.show("semaphore/s")["semaphore"]["queue"][0].is_null());
        let killed_at = now_ms();
        killed.signal(Signal::SIGKILL);
        let began = await_next(&bench);
        assert!(began - killed_at < 60_000, "{how:?}: {} ms", began - killed_at);
        assert_eq!(waits.wait(), 0, "{how:?}");
    }
}

/// The second is started while the lease is asked for: it must know of all that the first was told.
#[test]
fn either_watchdog_gives_the_key_back_by_itself() {
    for other in 0..2 {
        let bench = Bench::new();
        let killed =
            bench.start(&["run", "k", "--ttl", TTL, "--", "sh", "-c", "echo $$ > pid; exec sleep 600"]);
        let pid = bench.await_number("pid");
        let _next = next(&bench);
        let watchdogs = watchdogs_of(&killed);
        let killed_at = now_ms();
        killed.signal(Signal::SIGKILL);
        kill(Pid::from_raw(watchdogs[other]), Signal::SIGKILL).unwrap();
        let began = await_next(&bench);
        assert!(began - killed_at < 60_000, "without {other}: {} ms", began - killed_at);
        assert!(!is_alive(pid));
    }
}

/// As in a container whose program is the first process.
#[test]
fn the_next_one_has_a_killed_holders_key_also_where_nobody_takes_the_dead_off() {
    const ADOPTS: &str = r#"
import ctypes, os, sys, time
assert ctypes.CDLL(None).prctl(36, 1) == 0  # PR_SET_CHILD_SUBREAPER
killed = os.fork()
if killed == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
print(killed, file=open("killed", "w"))
time.sleep(600)
"#;
    let bench = Bench::new();
    let script = ["run", "k", "--ttl", TTL, "--", "sh", "-c", "sleep 600 & echo $$ > pid; exec sleep 600"];
    let tenure = bench.tenure(&script);
    let mut command = std::process::Command::new("python3");
    command.args(["-c", ADOPTS]).arg(tenure.get_program()).args(tenure.get_args());
    let _adopts: Process =
        bench.settle(&mut command).env("TENURE_STORE", "sqlite:leases.db").spawn().unwrap().into();
    let (killed, pid) = (bench.await_number("killed"), bench.await_number("pid"));
    let _next = next(&bench);
    kill(Pid::from_raw(killed), Signal::SIGKILL).unwrap();
    await_next(&bench);
    assert!(!is_alive(pid));
    // It has seen them all die, and they are there still.
    let dead = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ");
    assert!(dead(killed) && dead(pid));
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
    // A write by anybody has a worker on SQLite look a 32nd of a ttl later.
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
