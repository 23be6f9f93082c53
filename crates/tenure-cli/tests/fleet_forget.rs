//! `tenure fleet rm --all` and `--unknown-status`, by the real binary on real files: the ways out for a fleet that is over, and for a unit that nothing reads.
//!
//! Plan: a fleet goes with all that its workers have left, and not while one lives or may live; what would go is shown before, and nothing is removed then; what is
//! held from outside or can't be read stays, and is told with what helps; what a worker without a session holds goes after its ttl, for which nobody waits
//! who can't answer then; a unit of an unknown status is removed if somebody says so, not while it is held, and keeps its fence, and with its fleet it is told;
//! a list of units that is empty forgets no fleet.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, OBEYS, Ran, wait_until};
use tenure::store::{Attachment, Nonce, Tenure};
use tenure::{Fence, HolderId, Key, Metadata, Ttl, Value};

fn keys(bench: &Bench) -> Vec<String> {
    let listing = bench.run(&["ls", "--all", "fleet/", "--json"]).json();
    let leases = listing["leases"].as_array().unwrap().iter();
    leases.map(|lease| lease["key"].as_str().unwrap().to_owned()).collect()
}

fn forget(bench: &Bench, more: &[&str]) -> Ran {
    bench.run(&[&["fleet", "rm", "--all", "f"], more].concat())
}

fn numbers(ran: &Ran) -> [Option<u64>; 4] {
    let told = ran.json();
    ["removed", "left", "damaged", "newer"].map(|field| told[field].as_u64())
}

/// Somebody outside the fleet has it.
fn hold(bench: &Bench, key: &str, metadata: Metadata) {
    let (holder, since) = (HolderId::new("who").unwrap(), tenure::Wall(0));
    bench.plant(key, Some(Tenure::new(Nonce(7), holder, Ttl::clamped(600_000), since)), metadata);
}

/// A worker of the fleet has it, by this session.
fn hold_by(bench: &Bench, key: &str, session: &str, ttl_ms: u64) {
    let (holder, since) = (HolderId::new("w").unwrap(), tenure::Wall(0));
    let on = Attachment { session: Key::new(session).unwrap(), fence: Fence(1) };
    let tenure = Tenure::new(Nonce(7), holder, Ttl::clamped(ttl_ms), since);
    bench.plant(key, Some(Tenure { attachment: Some(on), ..tenure }), Metadata::new());
}

fn asleep() -> Metadata {
    let own = Metadata::from([("status".to_owned(), Value::from("asleep"))]);
    Metadata::from([("tenure".to_owned(), Value::Map(own))])
}

#[test]
fn a_fleet_that_is_over_goes_with_all_that_its_workers_have_left() {
    let bench = Bench::new();
    let mut worker = bench.worker_with("4s", &["a", "b"], OBEYS);
    bench.await_shares(&[(&worker, 2)]);
    let name = bench.name_of(&worker);
    for more in [&["--yes"][..], &["--dry-run"]] {
        let ran = forget(&bench, more);
        let told = format!("fleet f has a worker that lives, {name}");
        assert!(ran.code == 75 && ran.err.contains(&told) && ran.out.is_empty(), "{ran:?}");
    }
    bench.await_shares(&[(&worker, 2)]);
    let fence = bench.unit("a")["fence"].as_u64().unwrap();
    worker.die_with_its_host();
    worker.wait();
    wait_until("it to be dead", || forget(&bench, &["--dry-run"]).code == 0);
    let before = keys(&bench);
    for key in ["fleet/f/board", "fleet/f/unit/a", "fleet/f/unit/b", &format!("fleet/f/worker/{name}")] {
        assert!(before.iter().any(|it| it == key), "{key}: {before:?}");
    }
    let shown = forget(&bench, &["--dry-run"]);
    let mut listed: Vec<&str> = shown.out.lines().collect();
    listed.sort_unstable();
    assert_eq!(listed, before, "{shown:?}");
    assert!(shown.err.contains(&format!("{} records would be removed", before.len())), "{shown:?}");
    let told = forget(&bench, &["--dry-run", "--json"]).json();
    assert_eq!((&told["removed"], told["removable"].as_array().unwrap().len()), (&0.into(), before.len()));
    let asked = forget(&bench, &[]);
    let question = "Remove fleet f with 2 units, 2 of them not done? ";
    assert!(asked.code == 64 && asked.err.contains(question), "{asked:?}");
    assert_eq!(keys(&bench), before, "nothing is gone yet");

    let gone = forget(&bench, &["--yes", "--json"]);
    let all = Some(before.len() as u64);
    assert_eq!((gone.code, numbers(&gone)), (0, [all, Some(0), Some(0), Some(0)]), "{gone:?}");
    assert_eq!(keys(&bench), Vec::<String>::new());
    let again = forget(&bench, &["--yes"]);
    assert!(again.code == 66 && again.err.contains("there is no fleet f"), "{again:?}");
    // Given again, they are new, and their fences go on.
    let next = bench.worker(&["a"], OBEYS);
    bench.await_shares(&[(&next, 1)]);
    assert!(bench.unit("a")["fence"].as_u64().unwrap() > fence);
}

#[test]
fn what_is_held_from_outside_stays_and_the_board_with_it() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "a", "b"]).code, 0);
    hold(&bench, "fleet/f/unit/a", Metadata::new());
    let ran = forget(&bench, &["--yes", "--json"]);
    assert_eq!((ran.code, numbers(&ran)), (75, [1, 2, 0, 0].map(Some)), "{ran:?}");
    for told in ["1 unit held from outside the fleet", "`tenure release KEY`", "1 record of the board"] {
        assert!(ran.err.contains(told), "{told}: {ran:?}");
    }
    assert_eq!(keys(&bench), ["fleet/f/board", "fleet/f/unit/a"]);
    // As it is advised.
    assert_eq!(bench.run(&["release", "--now", "--yes", "fleet/f/unit/a"]).code, 0);
    let ran = forget(&bench, &["--yes"]);
    assert!(ran.code == 0 && ran.err.contains("fleet f: 2 records removed"), "{ran:?}");
    assert_eq!(keys(&bench), Vec::<String>::new());
}

#[test]
fn what_can_not_be_read_stays_and_is_told_with_what_helps() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "bad", "good", "newer"]).code, 0);
    bench.sql("UPDATE tenure_record SET record = x'00' WHERE key = 'fleet/f/unit/bad'");
    bench.sql("UPDATE tenure_record SET record = x'5402a0' WHERE key = 'fleet/f/unit/newer'");
    let shown = forget(&bench, &["--dry-run"]);
    assert_eq!((shown.code, shown.out.as_str()), (0, "fleet/f/unit/good\n"), "{shown:?}");
    assert!(shown.err.contains("would stay: 1 damaged record"), "{shown:?}");
    let ran = forget(&bench, &["--yes", "--json"]);
    assert_eq!((ran.code, numbers(&ran)), (65, [1, 3, 1, 1].map(Some)), "{ran:?}");
    for told in ["1 damaged record", "rm --damaged KEY", "1 record that this version can't read"] {
        assert!(ran.err.contains(told), "{told}: {ran:?}");
    }
    assert_eq!(bench.run(&["rm", "--damaged", "fleet/f/unit/bad", "--yes"]).code, 0);
    let ran = forget(&bench, &["--yes"]);
    assert!(ran.code == 65 && !ran.err.contains("damaged") && ran.err.contains("newer tenure"), "{ran:?}");
}

#[test]
fn a_worker_whose_session_can_not_be_read_may_live() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "u"]).code, 0);
    let session = "fleet/f/worker/w";
    bench.plant(session, None, Metadata::new());
    hold_by(&bench, "fleet/f/unit/u", session, 200);
    let break_it = |record: &str| {
        bench.sql(&format!("UPDATE tenure_record SET record = x'{record}' WHERE key = '{session}'"));
    };
    break_it("5402a0");
    let before = keys(&bench);
    let newer = forget(&bench, &["--yes"]);
    assert!(newer.code == 65 && newer.err.contains("use the newer tenure"), "{newer:?}");
    break_it("00");
    let damaged = forget(&bench, &["--yes"]);
    let remedy = format!("`tenure rm --damaged {session}`");
    assert!(damaged.code == 65 && damaged.err.contains(&remedy), "{damaged:?}");
    assert_eq!(keys(&bench), before);
    // As it is advised.
    assert_eq!(bench.run(&["rm", "--damaged", session, "--yes"]).code, 0);
    let gone = forget(&bench, &["--yes"]);
    let told = "1 unit held by workers whose sessions are gone, who may live: watching for 200ms";
    assert!(gone.code == 0 && gone.err.contains(told), "{gone:?}");
    assert_eq!(keys(&bench), Vec::<String>::new());
}

#[test]
fn who_can_not_be_asked_is_told_so_before_anything_is_watched() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "u"]).code, 0);
    // It would be watched for ten minutes.
    hold_by(&bench, "fleet/f/unit/u", "fleet/f/worker/w", 600_000);
    let asked = forget(&bench, &[]);
    let told = "Remove fleet f with 1 unit, 1 of them not done? ";
    assert!(asked.code == 64 && asked.err.contains(told) && !asked.err.contains("watching"), "{asked:?}");
}

#[test]
fn a_unit_of_an_unknown_status_is_removed_if_somebody_says_that_nothing_newer_has_written_that() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "u", "plain"]).code, 0);
    let (key, rm) = ("fleet/f/unit/u", ["fleet", "rm", "f", "u", "plain"]);
    let removed = |more: &[&str]| bench.run(&[&rm[..], more].concat());
    // Somebody has it, who may know it.
    hold(&bench, key, asleep());
    let held = removed(&["--unknown-status", "--yes"]);
    assert!(held.code == 75 && held.err.contains("1 unit removed from fleet f"), "{held:?}");
    assert!(held.err.contains(&format!("{key} is held by who")), "{held:?}");
    assert!(held.err.contains(&format!("`tenure release {key}` takes it")), "{held:?}");
    assert_eq!(bench.run(&["release", "--now", "--yes", key]).code, 0);
    let fence = bench.show(key)["fence"].clone();
    // Without the word it is left to what has written it, and the word is told.
    assert_eq!(bench.run(&["fleet", "add", "f", "plain"]).code, 0);
    let refused = removed(&["--yes"]);
    let advice = "if nothing newer has written that, remove the unit (`tenure fleet rm --unknown-status`)";
    assert!(refused.code == 65 && refused.err.contains(advice), "{refused:?}");
    let asked = removed(&["--unknown-status"]);
    assert!(asked.code == 64 && asked.err.contains(&format!("{key}: a unit has the status")), "{asked:?}");
    assert!(asked.err.contains("only if no newer tenure has written that"), "{asked:?}");
    assert_eq!(bench.show(key)["fence"], fence);
    let ran = bench.run(&["fleet", "rm", "f", "u", "--unknown-status", "--yes"]);
    assert!(ran.code == 0 && ran.err.contains("1 unit removed from fleet f"), "{ran:?}");
    // It is a removed unit as any other: its fence stays, and goes on.
    assert_eq!(bench.run(&["fleet", "units", "f", "--json"]).json()["damaged"], serde_json::json!([]));
    assert_eq!(bench.show(key)["fence"], fence);
    assert_eq!(bench.run(&["fleet", "add", "f", "u"]).code, 0);
    assert!(bench.show(key)["fence"].as_u64() > fence.as_u64());
}

#[test]
fn with_its_fleet_a_unit_of_an_unknown_status_goes_and_whoever_is_asked_knows() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "u"]).code, 0);
    bench.plant("fleet/f/unit/u", None, asleep());
    let asked = forget(&bench, &[]);
    assert!(asked.err.contains("with 1 unit, 1 of a status that this version does not know? "), "{asked:?}");
    let told = "1 unit of a status that this version does not know, which a newer tenure may have written";
    let shown = forget(&bench, &["--dry-run"]);
    assert!(shown.out.contains("fleet/f/unit/u\n") && shown.err.contains(told), "{shown:?}");
    assert_eq!(forget(&bench, &["--dry-run", "--json"]).json()["unknown"], 1);
    let gone = forget(&bench, &["--yes"]);
    assert!(gone.code == 0 && gone.err.contains(told), "{gone:?}");
    assert_eq!(keys(&bench), Vec::<String>::new());
}

#[test]
fn a_list_of_units_that_is_empty_forgets_no_fleet() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "u"]).code, 0);
    let before = keys(&bench);
    for (arguments, told) in [
        (&["f", "--yes"][..], "UNIT"),
        (&["f", "u", "--all", "--yes"], "cannot be used with"),
        (&["f", "--all", "--unknown-status", "--yes"], "cannot be used with"),
        (&["f", "u", "--dry-run"], "cannot be used with"),
        (&["f", "--dry-run"], "--all"),
        (&["f", "u", "--json", "--yes"], "cannot be used with"),
    ] {
        let ran = bench.run(&[&["fleet", "rm"], arguments].concat());
        assert!(ran.code == 64 && ran.err.contains(told), "{arguments:?}: {ran:?}");
    }
    assert_eq!(keys(&bench), before);
}
