//! `run` within the command of another `run`, by the real binary on real files.
//!
//! Plan: who waits for the lease under which it was started is told so, also through another one, and so is `work` in a unit of its own job; others are
//! not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::Bench;

#[test]
fn who_waits_for_the_lease_that_it_runs_under_is_told_so() {
    let bench = Bench::new();
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let told = "a is held for the command by which this one was started (TENURE_HELD)";
    let inner = |keys: &[&str], prefix: &str| {
        let words = [&["run"], keys, &["--", "sh", "-c", prefix, tenure]].concat();
        bench.run(&words)
    };
    let waits = "exec \"$0\" run a --wait 1500ms -- true";
    let through = "exec \"$0\" run c -- sh -c 'exec \"$0\" run a --wait 1500ms -- true' \"$0\"";
    for (keys, script) in [(&["a"][..], waits), (&["b", "a"], waits), (&["a"], through)] {
        let ran = inner(keys, script);
        assert!(ran.code == 75 && ran.err.matches(told).count() == 1, "{script}: {ran:?}");
    }
    // The variable outlives the lease, and tells nothing of a later one.
    let held = bench.run(&["run", "a", "--", "sh", "-c", "printf %s \"$TENURE_HELD\""]).out;
    let mut holder = bench.start(&["run", "a", "--", "sh", "-c", "touch began; exec sleep 600"]);
    crate::common::wait_until("the command to begin", || bench.path("began").exists());
    let mut later = bench.tenure(&["run", "a", "--wait", "1500ms", "--", "true"]);
    let ran = crate::common::Ran::of(later.env("TENURE_HELD", &held).output().unwrap());
    assert!(
        ran.code == 75 && ran.err.contains("waiting for a") && !ran.err.contains("TENURE_HELD"),
        "{ran:?}"
    );
    assert!(held.ends_with(" a\n"), "{held}");
    holder.signal(nix::sys::signal::Signal::SIGTERM);
    holder.wait();
    // Another key stays as it was.
    let ran = inner(&["a"], "exec \"$0\" run b -- true");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
}

#[test]
fn who_waits_for_the_permits_that_it_runs_under_is_told_so() {
    let bench = Bench::new();
    let told = "semaphore/a is held for the command by which this one was started (TENURE_HELD)";
    for (outer, inner, waits) in [
        ("--fair", "--fair", true),
        ("--shared", "--exclusive", true),
        ("--shared", "--shared", false),
        ("--permits=2", "--permits=2", false),
    ] {
        let script = format!("exec \"$0\" run {inner} a --wait 1500ms -- true");
        let ran = bench.run(&["run", outer, "a", "--", "sh", "-c", &script, env!("CARGO_BIN_EXE_tenure")]);
        let code = if waits { 75 } else { 0 };
        assert!(ran.code == code && ran.err.contains(told) == waits, "{outer} {inner}: {ran:?}");
    }
}

#[test]
fn the_record_of_a_semaphore_is_no_name_of_one() {
    let bench = Bench::new();
    let ran = bench.run(&["run", "--fair", "semaphore/printer", "--", "touch", "ran"]);
    assert!(ran.code == 64 && ran.err.contains("write printer") && !bench.path("ran").exists(), "{ran:?}");
}

#[test]
fn work_in_a_unit_of_its_own_job_is_told_so() {
    let bench = Bench::new();
    let told = "work/j/a is held for the command by which this one was started (TENURE_HELD)";
    let inner = |job: &str| {
        // Each has a file of its own: what the one before has said is there still when this one begins.
        let said = format!("told-{job}");
        let until = format!(
            "n=0; until grep -q 'TENURE_HELD\\|done' {said} || [ $n = 1000 ]; do sleep 0.02; n=$((n + 1)); done"
        );
        let within = format!("\"$0\" work --name {job} a -- true 2> {said} & {until}; kill $!; wait");
        let words =
            ["work", "--name", "j", "--fresh", "a", "--", "sh", "-c", &within, env!("CARGO_BIN_EXE_tenure")];
        let outer = bench.run(&words);
        assert_eq!(outer.code, 0, "{outer:?}");
        (bench.read(&said), outer)
    };
    let (heard, outer) = inner("j");
    assert!(heard.matches(told).count() == 1, "{heard:?} within {outer:?}");
    let (heard, outer) = inner("k");
    assert!(
        !heard.contains("TENURE_HELD") && heard.contains("1 of 1 unit done"),
        "{heard:?} within {outer:?}"
    );
}
