//! `tenure work --forever`, by the real binary on real files.
//!
//! Plan: units shared evenly, and followed as workers come and go; what CMD is given; CMD that exits is started again, later
//! each time; workers killed, stopped, told to leave (once, twice; then nothing starts any more), asked to leave, and revoked; units added and removed,
//! finished, limited in
//! number and to labels; many of them, and how often they are looked at; CMD that is deaf to TERM; CMD that can't be started; bad input. In all of it, no unit's command
//! runs while an older one does: each writes its fence again and again, and these must never go down.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, OBEYS, Ran, TICKS, now_ms, takes_at_most, wait_until};
use nix::sys::signal::Signal;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

const UNITS: [&str; 4] = ["a", "b", "c", "d"];
/// More than it takes a busy machine to start a process.
const MARGIN_MS: i64 = 1500;

#[test]
fn units_are_shared_evenly_and_follow_those_who_come_and_go() {
    let bench = Bench::new();
    let mut first = bench.worker(&UNITS, OBEYS);
    bench.await_shares(&[(&first, 4)]);
    let second = bench.worker(&["--join"], OBEYS);
    bench.await_shares(&[(&first, 2), (&second, 2)]);
    first.signal(Signal::SIGINT);
    assert_eq!(first.wait(), 130);
    bench.await_shares(&[(&second, 4)]);
    for unit in bench.units() {
        // Each runs where it is owned.
        bench.await_tick(unit["unit"].as_str().unwrap(), unit["fence"].as_u64().unwrap() - 1);
    }
    bench.no_overlaps(&UNITS);
    let told = bench.read("told");
    assert_eq!(told.lines().count(), 4, "commands are told to end, not killed: {told}");
}

/// Hundreds of units are no reason to wake up hundreds of times: one loop sees to all of them.
#[test]
fn a_worker_of_many_units_wakes_up_no_oftener_for_each() {
    const UNITS: u64 = 30;
    let bench = Bench::new();
    let units: Vec<String> = (0..UNITS).map(|n| format!("u{n}")).collect();
    let units: Vec<&str> = units.iter().map(String::as_str).collect();
    let worker = bench.worker(&units, "touch begun.{}; sleep 1000");
    let begun = |unit: &&str| bench.path(&format!("begun.{unit}")).exists();
    wait_until("all commands", || units.iter().all(begun));
    let wakes = || -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", worker.id())).unwrap().flatten();
        let status = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
        let counted = |status: String| {
            status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
        };
        status.filter_map(counted).sum::<u64>()
    };
    let (before, began) = (wakes(), now_ms());
    std::thread::sleep(std::time::Duration::from_secs(2));
    let (woken, took) = (wakes() - before, (now_ms() - began) as u64);
    // One that looked after each by itself would wake up more than six times a second for it.
    assert!(woken * 1000 < 3 * UNITS * took, "{woken} in {took} ms");
}

#[test]
fn units_come_by_option_and_from_files_and_given_again_they_are_the_same() {
    let bench = Bench::new();
    bench.write("list", "c\nd\n");
    let _by_option = bench.worker(&["--units", "a", "b"], OBEYS);
    let _from_file = bench.worker(&["--from", "list"], OBEYS);
    let _again = bench.worker(&["a", "b"], OBEYS);
    wait_until("all units to be held", || {
        let units = bench.units();
        units.len() == 4 && units.iter().all(|unit| unit["stage"] == "held")
    });
    bench.no_overlaps(&UNITS);
}

#[test]
fn a_command_finds_its_unit_in_its_arguments_and_environment() {
    let bench = Bench::new();
    let script = "echo \"<{}> $TENURE_UNIT $TENURE_KEY $TENURE_FENCE $TENURE_DEADLINE\" > out.new; mv out.new out; sleep 1000 & wait";
    let _worker = bench.worker(&["u/v"], script);
    wait_until("the command", || bench.path("out").exists());
    let text = bench.read("out");
    let [braces, unit, key, fence, deadline] = text.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{text}");
    };
    assert_eq!((braces, unit, key), ("<u/v>", "u/v", "fleet/f/unit/u/v"));
    assert_eq!(bench.unit("u/v")["fence"], fence.parse::<u64>().unwrap());
    let left = deadline.parse::<i64>().unwrap() - now_ms();
    assert!(left > -60_000 && left <= 6000, "{left}");
    let record = bench.show("fleet/f/unit/u/v");
    assert_eq!((&record["state"], &record["fleet"]["unit"]), (&"held".into(), &"u/v".into()));
}

#[test]
fn a_command_that_exits_is_started_again_later_each_time() {
    let bench = Bench::new();
    let script = "date +%s%3N >> runs; exit 3";
    let worker = bench
        .tenure(&["work", "--forever", "--name", "f", "--backoff", "200ms", "u", "--", "sh", "-c", script])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = nix::unistd::Pid::from_raw(worker.id() as i32);
    wait_until("four runs", || bench.read("runs").lines().count() >= 4);
    nix::sys::signal::kill(pid, Signal::SIGTERM).unwrap();
    let ran = Ran::of(worker.wait_with_output().unwrap());
    assert_eq!(ran.code, 143, "{ran:?}");
    let runs: Vec<i64> = bench.read("runs").lines().map(|line| line.parse().unwrap()).collect();
    for (n, pause) in [200, 400, 800].into_iter().enumerate() {
        let gap = runs[n + 1] - runs[n];
        assert!(gap >= pause, "{gap} ms after run {n}: {runs:?}");
    }
    for text in ["u: CMD exited with 3", "again in 200ms", "again in 400ms", "u: owned, with fence"] {
        assert!(ran.err.contains(text), "{text}: {}", ran.err);
    }
    assert_eq!(bench.unit("u")["stage"], "uncovered", "the unit is open, and has no worker now");
}

/// Its unit goes only seconds later, and its command ends until then.
#[test]
fn who_is_told_to_leave_starts_nothing_any_more() {
    let bench = Bench::new();
    let script = "echo x >> starts; sleep 0.5; exit 3";
    let base = ["work", "--forever", "--name", "f", "--ttl", "30s", "--backoff", "100ms", "u"];
    let mut command = bench.tenure(&[&base[..], &["--", "sh", "-c", script]].concat());
    command.stdout(Stdio::null()).stderr(std::fs::File::create(bench.path("notes")).unwrap());
    let mut worker = crate::common::Process::from(command.spawn().unwrap());
    wait_until("the first start", || bench.path("starts").exists());
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), 143);
    let notes = bench.read("notes");
    assert_eq!(bench.read("starts"), "x\n", "{notes}");
    let (_, after) = notes.split_once("SIGTERM: giving back 1 unit").unwrap();
    assert!(after.contains("u: CMD exited with 3") && !after.contains("again in"), "{notes}");
    let given_back = "u: is to be given back, since this worker leaves\n";
    assert!(after.contains(given_back), "nothing runs that could be stopped: {notes}");
}

#[test]
fn a_killed_workers_units_run_elsewhere_within_its_ttl_and_a_bit() {
    takes_at_most(3450 + MARGIN_MS, || {
        let bench = Bench::new();
        let mut first = bench.worker_with("3s", &UNITS, TICKS);
        let second = bench.worker_with("3s", &["--join"], TICKS);
        bench.await_shares(&[(&first, 2), (&second, 2)]);
        let name = bench.name_of(&first);
        let lost: Vec<_> = bench.units().into_iter().filter(|unit| unit["owner"] == *name).collect();
        let lost: Vec<(&str, u64)> = lost
            .iter()
            .map(|unit| (unit["unit"].as_str().unwrap(), unit["fence"].as_u64().unwrap()))
            .collect();
        if lost.len() != 2 {
            // It stood still for a ttl just now, and has lost them already.
            return i64::MAX;
        }
        for (unit, fence) in &lost {
            bench.await_tick(unit, fence - 1);
        }
        let killed_at = now_ms();
        first.signal(Signal::SIGKILL);
        first.wait();
        let mut longest = 0;
        for (unit, fence) in lost {
            longest = longest.max(bench.await_tick(unit, fence).1 - killed_at);
            let last = bench.ticks(unit).into_iter().rfind(|(of, _)| *of == fence).unwrap().1;
            assert!(last - killed_at < 3000, "{unit}: the dead one's ran for {} ms", last - killed_at);
        }
        bench.await_shares(&[(&second, 4)]);
        bench.no_overlaps(&UNITS);
        longest
    });
}

#[test]
fn a_stopped_workers_commands_are_dead_before_others_run_and_it_comes_back() {
    let bench = Bench::new();
    let first = bench.worker(&UNITS, TICKS);
    let second = bench.worker(&["--join"], TICKS);
    bench.await_shares(&[(&first, 2), (&second, 2)]);
    let stopped_at = now_ms();
    bench.stop(&[first.id()]);
    bench.await_shares(&[(&second, 4)]);
    for unit in bench.units() {
        let (unit, fence) = (unit["unit"].as_str().unwrap(), unit["fence"].as_u64().unwrap());
        bench.await_tick(unit, fence - 1);
        let before = bench.ticks(unit).into_iter().rfind(|(of, _)| *of < fence);
        assert!(before.is_none_or(|(_, at)| at < stopped_at + 6000 + MARGIN_MS), "{unit} {before:?}");
    }
    bench.no_overlaps(&UNITS);
    first.signal(Signal::SIGCONT);
    bench.await_shares(&[(&first, 2), (&second, 2)]);
    for unit in bench.units() {
        bench.await_tick(unit["unit"].as_str().unwrap(), unit["fence"].as_u64().unwrap() - 1);
    }
    bench.no_overlaps(&UNITS);
}

#[test]
fn a_worker_leaves_when_it_is_asked_to() {
    let bench = Bench::new();
    let mut first = bench.worker(&["a", "b"], OBEYS);
    bench.await_shares(&[(&first, 2)]);
    let second = bench.worker(&["--join"], OBEYS);
    bench.await_shares(&[(&first, 1), (&second, 1)]);
    let name = bench.name_of(&first);
    let ran = bench.run(&["fleet", "drain", "f", &name, "--yes"]);
    assert_eq!((ran.code, ran.err.contains("passes on 1 unit, and stops")), (0, true), "{ran:?}");
    assert_eq!(first.wait(), 0);
    bench.await_shares(&[(&second, 2)]);
    bench.no_overlaps(&["a", "b"]);
}

#[test]
fn a_revoked_workers_commands_end_before_others_run() {
    let bench = Bench::new();
    let mut first = bench.worker(&["a", "b"], OBEYS);
    bench.await_shares(&[(&first, 2)]);
    let second = bench.worker(&["--join"], TICKS);
    bench.await_shares(&[(&first, 1), (&second, 1)]);
    let told = bench.read("told").lines().count();
    let session = format!("fleet/f/worker/{}", bench.name_of(&first));
    assert_eq!(bench.run(&["revoke", &session, "--yes"]).code, 0);
    assert_eq!(first.wait(), 0);
    let says = bench.read("told");
    assert_eq!(says.lines().count(), told + 1, "it could end by itself: {says}{}", bench.read("notes"));
    bench.await_shares(&[(&second, 2)]);
    for unit in bench.units() {
        bench.await_tick(unit["unit"].as_str().unwrap(), unit["fence"].as_u64().unwrap() - 1);
    }
    bench.no_overlaps(&["a", "b"]);
}

#[test]
fn units_can_be_moved_added_removed_and_withdrawn() {
    let bench = Bench::new();
    let first = bench.worker(&["a", "b"], OBEYS);
    bench.await_shares(&[(&first, 2)]);
    let second = bench.worker(&["--join"], TICKS);
    bench.await_shares(&[(&first, 1), (&second, 1)]);
    let (one, other) = (bench.name_of(&first), bench.name_of(&second));
    for (to, shares) in [(&one, [2, 0]), (&other, [0, 2])] {
        for unit in ["a", "b"] {
            assert_eq!(bench.run(&["fleet", "move", "f", unit, to]).code, 0);
        }
        bench.await_shares(&[(&first, shares[0]), (&second, shares[1])]);
    }
    assert_eq!(bench.unit("a")["pin"], *other);
    for unit in ["a", "b"] {
        assert_eq!(bench.run(&["fleet", "move", "f", unit, "--anywhere"]).code, 0);
    }
    bench.await_shares(&[(&first, 1), (&second, 1)]);
    let ran = bench.run(&["fleet", "add", "f", "b", "c", "d"]);
    assert!(
        ran.code == 0
            && ran
                .err
                .contains("2 units added to fleet f; 1 there already, left as they are (one that is done: "),
        "{ran:?}"
    );
    bench.await_shares(&[(&first, 2), (&second, 2)]);
    let withdrawn = bench.unit("c")["fence"].as_u64().unwrap();
    assert_eq!(bench.run(&["revoke", "fleet/f/unit/c", "--yes"]).code, 0);
    bench.await_tick("c", withdrawn);
    bench.await_tick("d", 0);
    let ran = bench.run(&["fleet", "rm", "f", "d", "nothing", "--yes"]);
    assert!(ran.code == 66 && ran.err.contains("no unit nothing"), "{ran:?}");
    wait_until("nobody to hold it", || bench.state("fleet/f/unit/d") == "vacant");
    let ticks = bench.ticks("d").len();
    bench.run(&["fleet", "add", "f", "d"]);
    let last = bench.ticks("d")[ticks - 1].0;
    bench.await_tick("d", last);
    assert_eq!(bench.ticks("d").iter().filter(|(fence, _)| *fence <= last).count(), ticks, "it had ended");
    bench.no_overlaps(&UNITS);
}

#[test]
fn a_command_that_is_deaf_is_killed_after_the_grace_period() {
    let bench = Bench::new();
    let mut first = bench.worker(&["a"], TICKS);
    let fence = bench.await_tick("a", 0).0;
    let _second = bench.worker(&["--join"], TICKS);
    wait_until("two workers", || bench.workers().len() == 2);
    let told_at = now_ms();
    first.signal(Signal::SIGHUP);
    assert_eq!(first.wait(), 129);
    let (_, at) = bench.await_tick("a", fence);
    assert!(at - told_at >= 1000, "it had a second to end, and was passed on after {} ms", at - told_at);
    bench.no_overlaps(&["a"]);
}

#[test]
fn a_second_signal_stops_at_once() {
    let bench = Bench::new();
    let base =
        ["work", "--forever", "--name", "f", "--ttl", "60s", "--grace", "60s", "a", "--", "sh", "-c", TICKS];
    let mut worker = bench.start(&base);
    bench.await_tick("a", 0);
    let began = now_ms();
    worker.signal(Signal::SIGTERM);
    wait_until("it to leave", || bench.workers().first().is_some_and(|worker| worker["state"] == "leaving"));
    worker.signal_again(Signal::SIGTERM);
    assert_eq!(worker.wait(), 143);
    assert!(now_ms() - began < 30_000);
    wait_until("nothing to be left of it", || {
        let before = bench.ticks("a").len();
        std::thread::sleep(std::time::Duration::from_millis(200));
        bench.ticks("a").len() == before
    });
}

#[test]
fn workers_take_what_they_have_room_and_labels_for() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "plain"]).code, 0);
    assert_eq!(bench.run(&["fleet", "add", "f", "fast", "--needs", "gpu", "--weight", "3"]).code, 0);
    let small = bench.worker(&["-p", "1"], OBEYS);
    bench.await_shares(&[(&small, 1)]);
    let fast = bench.unit("fast");
    assert_eq!(
        (&fast["stage"], &fast["uncovered"]),
        (&"uncovered".into(), &"no worker has its labels".into())
    );
    let ran = bench.run(&["fleet", "move", "f", "fast", &bench.name_of(&small)]);
    assert!(ran.code == 64 && ran.err.contains("lacks what the unit needs: gpu"), "{ran:?}");
    assert_eq!(bench.run(&["fleet", "add", "f", "more"]).code, 0);
    assert_eq!(bench.unit("more")["uncovered"], "all workers are full");
    let labelled = bench.worker(&["--label", "gpu", "--label", "x"], OBEYS);
    wait_until("all to be held", || bench.units().iter().all(|unit| unit["stage"] == "held"));
    assert_eq!(bench.unit("fast")["owner"], *bench.name_of(&labelled));
    let worker = bench.workers().into_iter().find(|worker| worker["fields"]["pid"] == small.id()).unwrap();
    assert_eq!((&worker["held"], &worker["most_units"]), (&1.into(), &1.into()));
}

#[test]
fn a_command_that_cannot_be_started() {
    let bench = Bench::new();
    let base = ["work", "--forever", "--name", "f", "u", "--ttl", "6s", "--"];
    let ran = bench.run(&[&base[..], &["no-such-command"]].concat());
    assert_eq!((ran.code, ran.err.contains("command not found")), (127, true), "{ran:?}");
    assert!(!bench.store().exists(), "nothing was touched");
    bench.write("plain", "no program");
    std::fs::set_permissions(bench.path("plain"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = bench.run(&[&base[..], &["./plain"]].concat());
    assert_eq!((ran.code, ran.err.contains("can't be executed")), (126, true), "{ran:?}");
    assert_eq!(bench.state("fleet/f/unit/u"), "vacant", "the unit is there for others");
}

#[test]
fn bad_input_is_named_before_anything_is_touched() {
    let bench = Bench::new();
    for (arguments, text) in [
        (&["--forever", "u"][..], "--name"),
        (&["--forever", "--name", "f", "--retries", "3"], "cannot be used with"),
        (&["--forever", "--name", "f", "--json"], "cannot be used with"),
        (&["--forever", "--name", "f", "a", "--units", "b"], "cannot be used with"),
        (&["--forever", "--name", "f", "-p", "0"], "--parallel 0"),
        (&["--forever", "--name", "f", "--label", ""], "is empty"),
        (&["--forever", "--name", "f", "-0"], "--null"),
        (&["--forever", "--name", "f", "--ttl", "2d"], "10 ms to 1 day"),
        (&["--forever", "--name", "a/b"], "can't be named \"a/b\""),
        (&["--forever", "--name", ""], "can't be named \"\""),
        (&["--forever", "--name", "f", ""], "argument 1: a unit can't be empty"),
        (&["--forever", "--name", "f", "--from", "nowhere"], "can't be read from nowhere"),
        (&["u", "--label", "x"], "--forever"),
    ] {
        let ran = bench.run(&[&["work"], arguments, &["--", "true"]].concat());
        assert_eq!(ran.code, 64, "{arguments:?}: {ran:?}");
        assert!(ran.err.contains(text), "{arguments:?}: {ran:?}");
    }
    for token in ["{#}", "{%}"] {
        let ran = bench.run(&["work", "--forever", "--name", "f", "u", "--", "echo", token]);
        let why = format!("{token} stands for nothing with --forever");
        assert!(ran.code == 64 && ran.err.contains(&why), "{ran:?}");
    }
    assert!(!bench.store().exists());
    let ran = bench.run(&["work", "--forever", "--name", "f", "--ttl", "50ms", "u", "--", "true"]);
    assert_eq!((ran.code, ran.err.contains("below this store's minimum")), (64, true), "{ran:?}");
    assert!(!bench.store().exists(), "the scheme of its URL tells the minimum");
    bench.write(
        "text",
        "this is no database, whatever it may be called, and is long enough to be taken for one",
    );
    let ran =
        bench.run(&["work", "--forever", "--name", "f", "-s", "sqlite:text", "u", "--", "touch", "ran"]);
    assert!([65, 69].contains(&ran.code) && ran.err.contains("text"), "{ran:?}");
    assert!(!bench.path("ran").exists());
}
