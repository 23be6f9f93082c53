//! `tenure cron`, by the real binary on real files, with ticks of a second.
//!
//! Plan: of three processes one runs each tick, and what it was run with is true; what ran is in the record, and its status; each run is shown in a
//! line; a tick whose host is killed is over, or run again elsewhere; one that is left out tells who runs; a missed tick is left out, or run; ends by a
//! signal, with the command; what can't be is refused with the remedy; a command that is missing for one tick.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, is_alive, now_ms, wait_until};
use nix::sys::signal::Signal;
use std::os::unix::fs::PermissionsExt as _;

const EACH_SECOND: &str = "* * * * * *";
/// A tick that was long ago, whenever this is run: midnight of the first of January or, in the days after that, of the first of July.
const LONG_AGO: &str = "0 0 1 1,7 *";

/// The lines of a file that commands append to.
fn lines(bench: &Bench, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(bench.path(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn of_three_processes_one_runs_each_tick() {
    let bench = Bench::new();
    let script = "echo $TENURE_TICK $TENURE_FENCE $TENURE_KEY >> ran";
    let arguments = ["cron", EACH_SECOND, "job", "--", "sh", "-c", script];
    let mut all: Vec<_> = (0..3).map(|_| bench.start(&arguments)).collect();
    wait_until("four ticks have run", || lines(&bench, "ran").len() >= 4);
    for process in &all {
        process.signal(Signal::SIGTERM);
    }
    for process in &mut all {
        assert_eq!(process.wait(), 143);
    }
    let ran: Vec<(u64, u64)> = lines(&bench, "ran")
        .iter()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words[2], "once/job");
            (words[0].parse().unwrap(), words[1].parse().unwrap())
        })
        .collect();
    assert!(ran.iter().all(|(tick, _)| tick % 1000 == 0));
    assert!(ran.is_sorted_by(|(tick, fence), (next, greater)| tick < next && fence < greater), "{ran:?}");
    let last = &bench.show("once/job")["metadata"]["once"];
    let tick = chrono::DateTime::parse_from_rfc3339(last["tick"].as_str().unwrap()).unwrap();
    assert_eq!(u64::try_from(tick.timestamp_millis()), Ok(ran.last().unwrap().0), "{last}");
    assert!(last["by"].is_string() && last["earlier"].is_array(), "{last}");
    let shown = bench.run(&["show", "once/job"]).out;
    let by = shown.lines().find(|line| line.starts_with("by ")).unwrap_or_else(|| panic!("{shown}"));
    assert!(by.contains(" on ") && by.ends_with(", for sh"), "{shown}");
    // A line for each run, the last one first.
    let runs: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("tick     ")).collect();
    let begins = |run: &serde_json::Value| {
        format!("{}  {}", run["tick"].as_str().unwrap(), run["state"].as_str().unwrap())
    };
    let earlier = last["earlier"].as_array().unwrap();
    assert_eq!((runs.len(), shown.contains("once =")), (1 + earlier.len(), false), "{shown}");
    let mut each = [last].into_iter().chain(earlier).zip(&runs);
    assert!(each.all(|(run, line)| line.starts_with(&begins(run))), "{shown}");
    assert!(runs[0].ends_with(&format!(", by {}", last["by"].as_str().unwrap())), "{shown}");
}

#[test]
fn a_tick_that_is_left_out_says_who_runs_the_earlier_one() {
    let bench = Bench::new();
    let stays = "echo $$ > pid; exec sleep 600";
    let mut first = bench.start(&["cron", EACH_SECOND, "job", "--", "sh", "-c", stays]);
    bench.await_number("pid");
    // Of two ticks one is not the one that runs.
    let other = bench.run(&["cron", EACH_SECOND, "job", "--ticks", "2", "--", "true"]);
    let told = "as an earlier one still runs: it is held by ";
    assert!(other.code == 0 && other.err.contains(told), "{other:?}");
    assert!(other.err.contains(", for sh) since 20"), "user, host and program are told: {other:?}");
    first.signal(Signal::SIGTERM);
    assert_eq!(first.wait(), 143);
}

#[test]
fn how_it_ended_is_told_and_kept() {
    let bench = Bench::new();
    let ran = bench.run(&["cron", EACH_SECOND, "job", "--ticks", "1", "--", "sh", "-c", "exit 3"]);
    assert!(ran.code == 0 && ran.err.contains("job: the tick") && ran.err.contains("status 3"), "{ran:?}");
    let last = &bench.show("once/job")["metadata"]["once"];
    assert_eq!((&last["state"], &last["says"]), (&"failed".into(), &"status 3".into()));
    let long = ["cron", EACH_SECOND, "long", "--ticks", "1", "--max", "50ms", "--", "sleep", "1000"];
    let ran = bench.run(&long);
    assert!(ran.code == 0 && ran.err.contains("longer than the 50ms of --max"), "{ran:?}");
    assert_eq!(bench.show("once/long")["metadata"]["once"]["says"], "it ran for too long");
    // Some host may still come with these ticks, and would run them again.
    let dry = bench.run(&["gc", "--older-than", "0s", "--dry-run"]);
    assert!(dry.err.contains("2 records kept: they say what ran at ticks"), "{dry:?}");
    let gc = bench.run(&["gc", "--older-than", "0s", "--yes", "--json"]).json();
    assert_eq!((&gc["kept_for_ticks"], bench.state("once/job").as_str()), (&2.into(), "vacant"), "{gc}");
}

#[test]
fn a_command_that_can_not_be_started_ends_its_tick_and_no_daemon() {
    let bench = Bench::new();
    let write = |name: &str, script: &str| {
        bench.write(name, format!("#!/bin/sh\n{script}; rm \"$0\"\n"));
        std::fs::set_permissions(bench.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    write("job", "echo >> ran");
    let ran = bench.run(&["cron", EACH_SECOND, "job", "--ticks", "2", "--", "./job"]);
    assert!(ran.code == 0 && ran.err.matches("did not run: ").count() == 1, "{ran:?}");
    assert_eq!(lines(&bench, "ran").len(), 1);
    let last = &bench.show("once/job")["metadata"]["once"];
    assert!(last["state"] == "failed" && last["says"].as_str().unwrap().contains("./job"), "{last}");
    // One that is to run at least once is left to other hosts.
    write("more", ":");
    let more = ["cron", EACH_SECOND, "more", "--at-least-once", "--ticks", "2", "--", "./more"];
    assert_eq!(bench.run(&more).code, 0);
    assert_eq!(bench.show("once/more")["metadata"]["once"]["state"], "begun");
}

#[test]
fn a_tick_whose_lease_was_lost_says_so_and_the_next_one_runs() {
    let bench = Bench::new();
    let script = "[ -e lost ] || { touch lost; \"$0\" release once/job --now --yes; }";
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let ran = bench.run(&["cron", EACH_SECOND, "job", "--ticks", "2", "--", "sh", "-c", script, tenure]);
    let told = "once/job: the lease was lost while the command ran";
    assert!(ran.code == 0 && ran.err.matches(told).count() == 1, "{ran:?}");
}

#[test]
fn a_missed_tick_is_left_out_or_run() {
    let bench = Bench::new();
    // Nobody has run it, and it was long ago.
    let missed = [
        "cron",
        LONG_AGO,
        "job",
        "--missed",
        "run",
        "--ticks",
        "1",
        "--",
        "sh",
        "-c",
        "echo $TENURE_TICK >> ran",
    ];
    assert_eq!(bench.run(&missed).code, 0);
    let ran: Vec<u64> = lines(&bench, "ran").iter().map(|tick| tick.parse().unwrap()).collect();
    assert!(ran.len() == 1 && ran[0] < u64::try_from(now_ms()).unwrap(), "{ran:?}");
    // It has run now.
    assert_eq!(bench.run(&missed).code, 0);
    assert_eq!(lines(&bench, "ran").len(), 1);
    let said = std::fs::File::create(bench.path("said")).unwrap();
    let mut skips = bench.tenure(&["cron", LONG_AGO, "other", "--", "touch", "skipped"]);
    let mut skips: Process = skips.stderr(said).spawn().unwrap().into();
    // Midnight is that of UTC, whatever the host's own time is.
    wait_until("it says when it runs", || bench.read("said").contains("other: the next tick is 2"));
    assert!(bench.read("said").contains("-01T00:00:00Z\n"), "{}", bench.read("said"));
    skips.signal(Signal::SIGTERM);
    skips.wait();
    assert!(!bench.path("skipped").exists());
}

#[test]
fn a_tick_whose_host_is_killed_is_over_unless_it_is_to_run_at_least_once() {
    let bench = Bench::new();
    // A tick that two processes agree on, however long all this takes.
    let script = "echo $TENURE_TICK >> ran; [ -e second ] || { echo $$ > pid; exec sleep 1000; }";
    let often = [
        "cron",
        LONG_AGO,
        "job",
        "--missed",
        "run",
        "--at-least-once",
        "--ticks",
        "1",
        "--ttl",
        "1s",
        "--",
        "sh",
        "-c",
        script,
    ];
    let mut first = bench.start(&often);
    let pid = bench.await_number("pid");
    bench.write("second", "");
    let mut second = bench.start(&often);
    first.signal(Signal::SIGKILL);
    assert_eq!(second.wait(), 0);
    let ran = lines(&bench, "ran");
    assert!(ran.len() == 2 && ran[0] == ran[1], "{ran:?}");
    assert!(!is_alive(pid));
    let _killed = first.wait();
    // At most once: the second finds that it has begun.
    let once = [
        "cron",
        LONG_AGO,
        "once",
        "--missed",
        "run",
        "--ticks",
        "1",
        "--ttl",
        "1s",
        "--",
        "sh",
        "-c",
        "echo $$ > begun; exec sleep 1000",
    ];
    let mut first = bench.start(&once);
    let pid = bench.await_number("begun");
    first.signal(Signal::SIGKILL);
    let _killed = first.wait();
    wait_until("its command is killed", || !is_alive(pid));
    assert_eq!(bench.run(&once).code, 0);
    assert_eq!(bench.show("once/once")["metadata"]["once"]["state"], "begun");
}

#[test]
fn what_can_not_be_is_refused_with_the_remedy() {
    let bench = Bench::new();
    for (arguments, says) in [
        (["cron", "every day", "k", "--", "true"].as_slice(), "can't be understood"),
        (&["cron", "*/5 * * *", "k", "--", "true"], "fields; write '*/5 * * * *'"),
        (&["cron", "0 25 * * *", "k", "--", "true"], "its hour is \"25\"; write a number from 0 to 23"),
        (&["cron", "0 0 30 2 *", "k", "--", "true"], "no tick at all"),
        (&["cron", "* * * * *", "k", "--max", "0s", "--", "true"], "no time at all"),
        (&["cron", "* * * * *", &"k".repeat(510), "--", "true"], "bytes"),
        (&["run", "once/k", "--", "true"], "once per tick"),
    ] {
        let ran = bench.run(arguments);
        assert!(ran.code == 64 && ran.err.contains(says), "{ran:?}");
    }
    assert!(!bench.path("leases.db").exists(), "before anything is made");
}
