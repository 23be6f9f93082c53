//! `tenure run` with permits, shared and exclusive, in turn, and with several keys, by the real binary on real files.
//!
//! Plan: as many run at a time as there are permits, which the kernel's own locks check; also while they are killed at random; what is held is
//! shown; with several keys, all are held or none; a least time; what makes no sense is refused. `TENURE_KILLS` and `TENURE_SEED` make the run longer, and
//! the same; `TENURE_PLACE` has it on another store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, is_alive, now_ms, wait_until};
use nix::sys::signal::Signal;
use std::time::Duration;

/// Runs as one of three at the most, which the kernel counts by locks that go with a process.
const ONE_OF_THREE: &str = "for slot in 1 2 3; do exec 9>slot$slot; if flock -n 9; then echo $TENURE_FENCE >> runs; sleep 0.1; \
                            exit 0; fi; done; echo over >> broken";
const READS: &str =
    "exec 9>file; flock -n -s 9 || echo beside a writer >> broken; echo $TENURE_FENCE >> runs; sleep 0.1";
const WRITES: &str =
    "exec 9>file; flock -n 9 || echo beside others >> broken; echo $TENURE_FENCE >> runs; sleep 0.1";

/// As many as ask for them, and what each of them runs.
const CROWD: [(&[&str], &str); 4] = [
    (&["counted", "--permits", "3"], ONE_OF_THREE),
    (&["counted", "--permits", "3"], ONE_OF_THREE),
    (&["file", "--shared"], READS),
    (&["file", "--exclusive"], WRITES),
];

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn start(bench: &Bench, kind: usize) -> Process {
    let (ask, script) = CROWD[kind];
    let mut arguments = vec!["run"];
    let place = std::env::var("TENURE_PLACE").ok();
    if let Some(place) = &place {
        arguments.extend(["--store", place]);
    }
    arguments.extend(ask);
    arguments.extend(["--ttl", "1s", "--", "sh", "-c", script]);
    bench.start(&arguments)
}

#[test]
fn s8_no_more_run_than_there_are_permits_whoever_is_killed() {
    let kills = setting("TENURE_KILLS").unwrap_or(12);
    let seed = setting("TENURE_SEED").unwrap_or_else(|| crate::common::now_ms() as u64);
    println!("TENURE_KILLS={kills} TENURE_SEED={seed}");
    let (bench, mut random) = (Bench::new(), Random(seed));
    let kind = |random: &mut Random| random.below(CROWD.len() as u64) as usize;
    let mut crowd: Vec<Process> = (0..8).map(|_| start(&bench, kind(&mut random))).collect();
    let mut made = 0;
    while made < kills {
        std::thread::sleep(Duration::from_millis(random.below(60)));
        for process in &mut crowd {
            if !process.is_running() {
                *process = start(&bench, kind(&mut random));
            }
        }
        let victim = random.below(8) as usize;
        if random.below(3) == 0 {
            crowd[victim].signal(Signal::SIGKILL);
            crowd[victim].wait();
            made += 1;
        }
    }
    // Whoever is left has its turn, though the dead held or waited for what it wants.
    let before = bench.read("runs").lines().count();
    for process in &mut crowd {
        process.wait();
    }
    assert!(bench.read("runs").lines().count() > before || before > 8, "nobody ran");
    assert_eq!(bench.read("broken"), "", "after {made} kills and {before} runs");
    let mut fences: Vec<u64> = bench.read("runs").lines().map(|line| line.parse().unwrap()).collect();
    let runs = fences.len();
    fences.sort_unstable();
    println!("{made} kills, {runs} runs");
}

#[test]
fn what_is_held_is_shown_and_others_are_refused_with_the_status_that_was_asked_for() {
    let bench = Bench::new();
    let _two = bench.start(&["run", "s", "--permits", "3", "--take", "2", "--", "sleep", "600"]);
    wait_until("permits to be held", || bench.run(&["show", "semaphore/s"]).code == 0);
    let shown = bench.show("semaphore/s");
    assert_eq!(
        (shown["state"].as_str(), shown["semaphore"]["holders"][0]["permits"].as_u64()),
        (Some("held"), Some(2)),
        "{shown}"
    );
    let listed = bench.run(&["ls"]).out;
    assert!(listed.contains("held (2 of 3)"), "{listed}");
    assert!(bench.run(&["show", "semaphore/s"]).out.contains("2 shared"));
    // A plain lease of that name is another record, which nobody has.
    for (code, verb) in [(0, &["wait", "s"][..]), (66, &["show", "s"]), (66, &["revoke", "s", "--yes"])] {
        let ran = bench.run(verb);
        let told = "there is no record of s; the semaphore of that name is semaphore/s";
        assert!(ran.code == code && ran.err.contains(told), "{ran:?}");
    }
    assert_eq!(bench.run(&["show", "t"]).err, "tenure: there is no record of t\n");
    for (code, arguments) in [(75, &["--take", "2"][..]), (9, &["--take", "2", "-E", "9"])] {
        let asked = [&["run", "s", "--permits", "3", "--try"], arguments, &["--", "true"]].concat();
        let ran = bench.run(&asked);
        assert!(ran.code == code && ran.err.contains("is held by"), "{ran:?}");
    }
    assert_eq!(bench.run(&["run", "s", "--permits", "3", "--try", "--", "true"]).code, 0, "one is free");
    let other = bench.run(&["run", "s", "--permits", "4", "--try", "--", "true"]);
    assert!(other.code == 64 && other.err.contains("has 3 permits"), "{other:?}");
    let plain = bench.run(&["release", "semaphore/s", "--yes"]);
    assert!(plain.err.contains("is a semaphore"), "{plain:?}");
    assert_eq!(bench.run(&["gc", "--older-than", "0s", "--yes", "--json"]).json()["kept_semaphores"], 1);
}

#[test]
fn several_keys_are_held_together_or_not_at_all() {
    let bench = Bench::new();
    let script = "echo \"$TENURE_KEY|$TENURE_FENCE|$TENURE_FENCES\"; for key in a b; do $0 run $key --try -- true; echo $?; done";
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let ran = bench.run(&["run", "b", "a", "--", "sh", "-c", script, tenure]);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("a b||") && lines[0].ends_with(" a") && lines[1].ends_with(" b"), "{ran:?}");
    assert_eq!(&lines[3..], ["75", "75"], "{ran:?}");
    let inner = "$0 run a b c --try -- true; echo $?; $0 run a c --try -- true; echo $?";
    let ran = bench.run(&["run", "b", "--", "sh", "-c", inner, tenure]);
    assert_eq!(ran.out, "75\n0\n", "{ran:?}");
    assert_eq!((bench.state("a"), bench.state("b")), ("vacant".to_owned(), "vacant".to_owned()));
}

#[test]
fn permits_and_several_keys_are_held_for_their_least_time_by_whoever_ends_sooner() {
    let bench = Bench::new();
    for what in [&["k", "--permits", "1"][..], &["a", "b"]] {
        let before = now_ms();
        let asked = [&["run"], what, &["--min", "500ms", "--", "true"]].concat();
        assert_eq!(bench.run(&asked).code, 0);
        assert!(now_ms() >= before + 500, "{what:?}");
        let tried = [&["run"], what, &["--try", "--", "true"]].concat();
        assert_eq!(bench.run(&tried).code, 0, "{what:?}");
        // Who is told not to wait for it leaves it to expire.
        let asked = [&["run"], what, &["--min", "10m", "--", "sh", "-c", "echo $$ > pid"]].concat();
        let mut waits = bench.start(&asked);
        let command = bench.await_number("pid");
        wait_until("the command has run", || !is_alive(command));
        waits.signal(Signal::SIGTERM);
        // The signal may come before tenure knows that the command has ended.
        assert!([0, 143].contains(&waits.wait()), "{what:?}");
        assert_eq!(bench.run(&tried).code, 75, "{what:?}");
        std::fs::remove_file(bench.path("pid")).unwrap();
    }
}

#[test]
fn permits_that_are_found_to_be_gone_when_they_are_given_up_are_told_with_status_76() {
    let bench = Bench::new();
    let script = "touch began; until [ -e go ]; do sleep 0.02; done";
    let notes = std::fs::File::create(bench.path("notes")).unwrap();
    let words = ["run", "--permits", "1", "q", "--ttl", "60s", "--", "sh", "-c", script];
    let mut run = Process::from(bench.tenure(&words).stderr(notes).spawn().unwrap());
    wait_until("the command to begin", || bench.path("began").exists());
    bench.sql("DELETE FROM tenure_record WHERE key = 'semaphore/q'");
    bench.write("go", "");
    assert_eq!(run.wait(), 76);
    let notes = bench.read("notes");
    assert!(notes.contains("semaphore/q: the lease was lost while the command ran"), "{notes}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let bench = Bench::new();
    for (arguments, says) in [
        (&["k", "--permits", "0"][..], "0"),
        (&["k", "--take", "2"], "--permits"),
        (&["k", "--permits", "2", "--take", "3"], "it has 2"),
        (&["k", "--shared", "--fair"], "--fair"),
        (&["k", "l", "--shared"], "several KEYs"),
        (&["k", "k"], "named twice"),
    ] {
        let ran = bench.run(&[&["run"], arguments, &["--", "true"]].concat());
        assert!(ran.code == 64 && ran.err.contains(says), "{arguments:?}: {ran:?}");
    }
    assert!(!bench.store().exists(), "what is wrong by itself is told before a store is made");
}
