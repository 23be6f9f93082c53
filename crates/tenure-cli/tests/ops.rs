//! The operator's verbs, by the real binary on real files.
//!
//! Plan: ls and show of every state, as table and JSON, with names that would steer a terminal; release and revoke, and what
//! they refuse; gc: what goes, what stays, what is only said; doctor; sim; completions and manual pages; output that nobody reads.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, wait_for, wait_until};
use nix::sys::signal::Signal;
use std::process::Stdio;
use tenure::sqlite::{SqliteConfig, SqliteStore};
use tenure::store::{Attachment, Expect, Nonce, Outcome, Record, Tenure, Write};
use tenure::{Clock, Fence, HolderId, Key, Metadata, Store, Ttl, Wall};

const STAYS: &str = "echo $$ > pid; sleep 1000 & wait";

#[test]
fn ls_tells_what_is_held_and_by_whom() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["run", "free", "--", "true"]).code, 0);
    let _run = bench.start(&["run", "taken", "--ttl", "60s", "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    let ran = bench.run(&["ls"]);
    assert!(ran.out.starts_with("KEY") && ran.out.contains("taken  held"), "{ran:?}");
    assert!(!ran.out.contains("free") && ran.err.contains("1 record that nobody holds"), "{ran:?}");
    let listing = bench.run(&["ls", "--json", "--all"]).json();
    let [free, taken] = &listing["leases"].as_array().unwrap()[..] else { panic!("{listing}") };
    assert_eq!((&free["key"], &free["state"]), (&"free".into(), &"vacant".into()));
    assert_eq!(
        (&taken["key"], &taken["state"], &taken["ttl_ms"]),
        (&"taken".into(), &"held".into(), &60_000.into())
    );
    let left = taken["left_ms"].as_u64().unwrap();
    assert!(left > 30_000 && left <= 60_000, "{left}");
    assert!(taken["fence"].as_u64().unwrap() > 0 && taken["since"].as_str().unwrap().ends_with('Z'));
    assert_eq!(bench.run(&["ls", "--json", "tak"]).json()["leases"].as_array().unwrap().len(), 1);
    assert_eq!(bench.run(&["ls", "--json", "nothing"]).json()["leases"], serde_json::json!([]));
}

#[test]
fn units_are_shown_with_the_session_that_they_are_attached_to() {
    let bench = Bench::new();
    let mut work = bench.start(&["work", "--name", "j", "--ttl", "60s", "u", "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    let unit = bench.show("work/j/u");
    assert_eq!(unit["state"], "held");
    let session = unit["session"]["key"].as_str().unwrap();
    assert!(session.starts_with("session/"));
    let session = bench.show(session);
    assert_eq!((&session["state"], &session["fence"]), (&"held".into(), &unit["session"]["fence"]));
    assert_eq!(session["metadata"]["work"], "j");
    work.signal(Signal::SIGTERM);
    work.wait();
    assert_eq!(bench.state("work/j/u"), "vacant");
}

#[test]
fn a_dead_holders_lease_is_shown_as_expired() {
    let bench = Bench::new();
    let run = bench.start(&["run", "k", "--ttl", "3s", "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    run.die_with_its_host();
    let ran = bench.run(&["revoke", "k", "--yes"]);
    assert!(ran.code == 0 && ran.err.contains("if it lives; if it has died, k is free within "), "{ran:?}");
    wait_until("the lease to expire", || bench.state("k") == "expired");
    let ran = bench.run(&["revoke", "k", "--yes"]);
    assert_eq!((ran.code, ran.err.contains("dead")), (66, true), "{ran:?}");
    let ran = bench.run(&["release", "k", "--yes", "--json"]);
    assert_eq!((ran.code, &ran.json()["released"]), (0, &true.into()));
    assert_eq!(bench.state("k"), "vacant");
}

#[test]
fn a_released_lease_is_given_away_when_its_holder_is_done_and_no_sooner() {
    let bench = Bench::new();
    // It takes a while to stop, and says when it has.
    let script = "trap 'sleep 1; date +%s%N > ended; exit' TERM; echo $$ > pid; while :; do sleep 0.1; done";
    let mut run = bench.start(&["run", "k", "--ttl", "12s", "--", "sh", "-c", script]);
    bench.await_number("pid");
    let mut next = bench.start(&["run", "k", "--", "sh", "-c", "date +%s%N > began"]);
    let ran = bench.run(&["release", "k", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.err.contains("is told to stop; k is free within") && ran.err.contains("given k up"),
        "{ran:?}"
    );
    assert_eq!((run.wait(), next.wait()), (76, 0));
    let at = |name: &str| bench.read(name).trim().parse::<i64>().unwrap();
    assert!(at("ended") < at("began"), "{} {}", at("ended"), at("began"));
}

#[test]
fn a_lease_is_taken_at_once_only_if_that_is_asked_for() {
    let bench = Bench::new();
    let mut run = bench.start(&["run", "k", "--ttl", "3s", "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    let ran = bench.run(&["release", "k", "--yes", "--now", "--json"]);
    assert_eq!((ran.code, &ran.json()["vacated"]), (0, &true.into()), "{ran:?}");
    assert_eq!(run.wait(), 76, "its next renewal finds out");
}

#[test]
fn names_cannot_steer_the_terminal() {
    let bench = Bench::new();
    let key = "evil\u{1b}]0;x\u{7}\n\u{202e}\u{9b}2J\u{7f}";
    assert_eq!(bench.run(&["run", key, "--", "true"]).code, 0);
    for arguments in [
        ["ls", "--all"].as_slice(),
        &["show", key],
        &["show", key, "--json"],
        &["ls", "--all", "--json"],
        &["work", "--name", "j", key, "--json", "--", "false"],
        &["work", "status", "j", "--json"],
    ] {
        let ran = bench.run(arguments);
        assert_eq!(ran.code, i32::from(arguments.contains(&"false")), "{ran:?}");
        let is_clean = |c: char| c == '\n' || !c.is_control() && c != '\u{202e}';
        assert!(ran.out.chars().all(is_clean) && ran.out.contains("evil"), "{ran:?}");
    }
    assert_eq!(bench.show(key)["key"], key, "it stays the same text");
    assert_eq!(bench.run(&["ls", "--all", "evil"]).out.lines().count(), 2, "one line for one record");
    let nobody = bench.run(&["revoke", key, "--yes"]);
    assert!(nobody.err.contains("\\u{202e}") && !nobody.err.contains('\u{202e}'), "{nobody:?}");
}

#[test]
fn what_is_not_there_or_not_held_is_said() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["run", "k", "--", "true"]).code, 0);
    for verb in ["show", "release", "revoke"] {
        let more: &[&str] = if verb == "show" { &[] } else { &["--yes"] };
        let ran = bench.run(&[&[verb, "other"], more].concat());
        assert_eq!((ran.code, ran.err.contains("no record of other")), (66, true), "{ran:?}");
    }
    for verb in ["release", "revoke"] {
        let ran = bench.run(&[verb, "k", "--yes"]);
        assert_eq!((ran.code, ran.err.contains("nobody holds k")), (66, true), "{ran:?}");
    }
}

#[test]
fn what_can_hurt_needs_a_yes() {
    let bench = Bench::new();
    let mut run = bench.start(&["run", "k", "--ttl", "60s", "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    for verb in ["release", "revoke"] {
        let ran = bench.run(&[verb, "k"]);
        assert_eq!((ran.code, ran.err.contains("--yes")), (64, true), "{ran:?}");
    }
    assert_eq!(bench.state("k"), "held");
    assert!(run.is_running());
}

#[test]
fn a_listing_of_many_pages_is_shown_page_by_page() {
    let bench = Bench::new();
    let units: Vec<String> = (0..2100).map(|n| format!("u{n:04}")).collect();
    let arguments: Vec<&str> =
        ["fleet", "add", "f"].into_iter().chain(units.iter().map(String::as_str)).collect();
    assert_eq!(bench.run(&arguments).code, 0);
    // The board is one more.
    let shown = bench.run(&["ls", "--all"]);
    assert_eq!((shown.code, shown.out.lines().count()), (0, 1 + 1 + units.len()), "{}", shown.err);
    assert_eq!(shown.out.matches("HOLDER").count(), 1, "one heading");
    assert!(units.iter().all(|unit| shown.out.contains(&format!("fleet/f/unit/{unit} "))));
    let listed = bench.run(&["ls", "--all", "--json"]).json();
    assert_eq!(listed["leases"].as_array().unwrap().len(), 1 + units.len());
    assert_eq!(listed["vacant_not_listed"], 0);
    let none = bench.run(&["ls", "--json"]).json();
    assert_eq!(
        (none["leases"].as_array().unwrap().len(), &none["vacant_not_listed"]),
        (0, &serde_json::json!(1 + units.len()))
    );
}

#[test]
fn gc_removes_what_is_old_and_vacant_and_nothing_else() {
    let bench = Bench::new();
    let mut run = bench.start(&["run", "held", "--ttl", "60s", "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    assert_eq!(bench.run(&["run", "vacant", "--", "true"]).code, 0);
    assert_eq!(bench.run(&["work", "--name", "finished", "a", "--", "true"]).code, 0);
    let ran = bench.run(&[
        "work",
        "--name",
        "unfinished",
        "--retries",
        "5",
        "--backoff",
        "1h",
        "a",
        "b",
        "--",
        "sh",
        "-c",
        "[ {} = a ] && kill -INT $PPID",
    ]);
    assert_eq!(ran.code, 130, "{ran:?}");
    let keys = || {
        let listing = bench.run(&["ls", "--all", "--json"]).json();
        let keys = listing["leases"]
            .as_array()
            .unwrap()
            .iter()
            .map(|lease| lease["key"].as_str().unwrap().to_owned());
        keys.filter(|key| !key.starts_with("session/")).collect::<Vec<_>>()
    };
    let before = keys();
    assert_eq!(before, ["held", "vacant", "work/finished/a", "work/unfinished/a", "work/unfinished/b"]);
    assert_eq!(bench.run(&["gc", "--yes"]).code, 0);
    assert_eq!(keys(), before, "nothing is a day old");
    let ran = bench.run(&["gc", "--older-than", "0s", "--dry-run"]);
    assert!(
        ran.out.contains("vacant\n")
            && ran.out.contains("work/finished/a\n")
            && !ran.out.contains("unfinished"),
        "{ran:?}"
    );
    assert_eq!(keys(), before, "that was a dry run");
    let ran = bench.run(&["gc", "--older-than", "0s"]);
    assert_eq!((ran.code, ran.err.contains("--yes")), (64, true), "{ran:?}");
    let ran = bench.run(&["gc", "--older-than", "0s", "--yes", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.json()["kept_for_unfinished_jobs"], 2, "{ran:?}");
    assert_eq!(keys(), ["held", "work/unfinished/a", "work/unfinished/b"]);
    assert!(run.is_running());
}

#[test]
fn fences_grow_past_a_removal() {
    let bench = Bench::new();
    let fence = || {
        bench.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE"]).out.trim().parse::<u64>().unwrap()
    };
    let before = fence();
    assert_eq!(bench.run(&["gc", "--older-than", "0s", "--yes"]).code, 0);
    assert_eq!(bench.run(&["show", "k"]).code, 66);
    assert!(fence() > before);
}

#[test]
fn doctor_finds_a_healthy_store_healthy_and_leaves_nothing() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["run", "k", "--", "true"]).code, 0);
    let grade_in = |report: &serde_json::Value, check: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks
            .iter()
            .find(|found| found["check"] == check)
            .map(|found| found["grade"].as_str().unwrap().to_owned())
    };
    // A disk that is slow just then is told as that.
    let ran = wait_for("a moment in which the disk is quick", || {
        let ran = bench.run(&["doctor", "--json"]);
        // A directory for temporary files may well be in memory, which is a hazard.
        let is_tmpfs = grade_in(&ran.json(), "file system").as_deref() == Some("warn");
        assert_eq!(ran.code, if is_tmpfs { 2 } else { 0 }, "{ran:?}");
        Some(ran).filter(|ran| grade_in(&ran.json(), "round trip").as_deref() != Some("note"))
    });
    let report = ran.json();
    let grade = |check: &str| grade_in(&report, check);
    for check in
        ["reach", "file", "clock", "durability", "round trip", "push", "races", "write", "records", "journal"]
    {
        assert_eq!(grade(check).as_deref(), Some("ok"), "{check}: {ran:?}");
    }
    assert!(report["not_promised"].as_array().unwrap().len() >= 3);
    assert_eq!(
        bench.run(&["ls", "--all", "--json"]).json()["leases"].as_array().unwrap().len(),
        1,
        "its probes are gone"
    );
    let set_mode = |path: &std::path::Path, mode: u32| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    // Where nobody gets at the file, its mode lets nobody in.
    let directory = bench.store().parent().unwrap().to_owned();
    set_mode(&bench.store(), 0o644);
    for (mode, is_told) in [(0o700, false), (0o755, true)] {
        set_mode(&directory, mode);
        let ran = bench.run(&["doctor"]);
        assert_eq!(ran.out.contains("chmod o-r"), is_told, "{mode:o}: {ran:?}");
        assert!(!is_told || ran.code == 2, "{ran:?}");
    }
    set_mode(&bench.store(), 0o666);
    let ran = bench.run(&["doctor"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(
        ran.out.contains("warn") && ran.out.contains("chmod o-w") && !ran.out.contains('\u{1b}'),
        "{ran:?}"
    );
}

#[test]
fn sim_keeps_every_promise_and_repeats_itself() {
    let bench = Bench::new();
    let run = || {
        let ran = bench.run(&["sim", "--seed", "7", "--hours", "1", "--json"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.json()
    };
    let (one, other) = (run(), run());
    assert!(one["simulated_seconds"].as_f64().unwrap() >= 3600.0 && one["tenures"].as_u64().unwrap() > 0);
    assert_eq!((&one["history"], &one["broken"]), (&other["history"], &serde_json::Value::Null));
    assert!(bench.run(&["sim", "--list"]).out.contains("scenarios:"));
    // A line that runs a history again may look so.
    let again =
        ["sim", "--scenario", "usual", "--seed", "3", "--worlds", "1", "--nodes", "2", "--only", "S1"];
    assert_eq!(bench.run(&again).code, 0);
    for (arguments, text) in [
        (["sim", "--scenario", "nowhere"], "nowhere"),
        (["sim", "--without", "gravity"], "no fault \"gravity\""),
        (["sim", "--bug", "Heisen"], "no bug \"Heisen\""),
        (["sim", "--hours", "NaN"], "--hours NaN"),
        (["sim", "--only", "S77"], "no promise \"S77\""),
    ] {
        let ran = bench.run(&arguments);
        assert!(ran.code == 64 && ran.err.contains(text), "{ran:?}");
    }
    assert!(!bench.store().exists(), "no store is needed");
}

#[test]
fn completions_and_manual_pages_are_printed() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = bench.run(&["completions", shell]);
        assert!(ran.code == 0 && ran.out.contains("tenure") && ran.out.contains("doctor"), "{shell}");
        assert!(!ran.out.contains("__watchdog"));
    }
    let page = bench.run(&["man"]).out;
    assert!(
        page.contains(".TH tenure 1")
            && page.contains(".SH \"EXIT STATUS\"")
            && page.contains("TENURE_STORE")
            && page.contains("sqlite:PATH"),
        "{page}"
    );
    let page = bench.run(&["man", "run"]).out;
    assert!(page.contains(".TH tenure\\-run 1") || page.contains(".TH tenure-run 1"), "{page}");
    assert!(page.contains("\" \" \"tenure "), "its date would be what comes next: {page}");
    assert!(page.contains("TENURE_FENCE") && page.contains("TENURE_NAMESPACE"));
    assert!(page.contains(".SH EXAMPLES") && !page.contains("EXTRA"), "{page}");
    let help = bench.run(&["--help"]);
    assert!(help.code == 0 && help.out.contains("held by another"), "{help:?}");
}

#[test]
fn output_that_nobody_reads_is_no_failure() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["run", "k", "--", "true"]).code, 0);
    let mut child = bench
        .tenure(&["ls", "--all", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ran = crate::common::Ran::of(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

/// Writes a record as a process left it, straight into the store.
fn plant(bench: &Bench, key: &str, fence: u64, tenure: Option<Tenure>) {
    let store = SqliteStore::open(SqliteConfig::new(bench.store())).unwrap();
    let nonce = tenure.as_ref().map_or(Nonce(1), |tenure| tenure.id);
    let stamp = tenure::clock::system().now().wall;
    let record = Record { fence: Fence(fence), nonce, stamp, tenure, metadata: Metadata::new() };
    let write = Write { key: Key::new(key).unwrap(), expect: Expect::Vacant, record };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(matches!(runtime.block_on(store.write(write)).unwrap(), Outcome::Won { .. }));
}

#[test]
fn s2_gc_keeps_a_record_whose_fence_is_ahead_of_the_clock() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["run", "k", "--", "true"]).code, 0);
    // Its last holder's clock was a year ahead.
    let fence = tenure::clock::system().now().wall.0 + 365 * 86_400_000;
    plant(&bench, "k", fence, None);
    plant(&bench, "other", 1, None);
    wait_until("the other one to go", || {
        let ran = bench.run(&["gc", "--older-than", "0s", "--yes", "--json"]).json();
        assert_eq!(ran["kept_for_fences"], 1, "{ran}");
        bench.run(&["show", "other"]).code == 66
    });
    let next = bench.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE"]).out;
    assert!(next.trim().parse::<u64>().unwrap() > fence);
}

#[test]
fn l1_gc_gives_up_what_the_dead_held_before_it_removes_their_sessions() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["run", "other", "--", "true"]).code, 0);
    let tenure = |id, attachment| Tenure {
        attachment,
        ..Tenure::new(Nonce(id), HolderId::new("gone").unwrap(), Ttl::clamped(10), Wall(1))
    };
    let session = Key::new("session/gone").unwrap();
    plant(&bench, "session/gone", 7, Some(tenure(7, None)));
    plant(&bench, "k", 8, Some(tenure(8, Some(Attachment { session, fence: Fence(7) }))));
    let gc = |prefix: &str| bench.run(&["gc", prefix, "--older-than", "0s", "--yes", "--json"]).json();
    wait_until("the session to be ended", || gc("session/")["sessions_ended"] == 1);
    gc("session/");
    assert_eq!(bench.run(&["show", "session/gone"]).code, 0, "k is attached to it");
    assert_eq!(gc("")["leases_vacated"], 1);
    assert_eq!(bench.state("k"), "vacant");
    wait_until("all to be gone", || {
        gc("");
        bench.run(&["show", "session/gone"]).code == 66
    });
    assert_eq!(bench.run(&["run", "--try", "k", "--", "true"]).code, 0);
}
