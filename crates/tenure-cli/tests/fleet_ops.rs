//! `tenure fleet`, and what the other verbs know of fleets, by the real binary on real files.
//!
//! Plan: ls, units and workers, as tables and as JSON; add, rm, move and drain, and what they refuse; names that would steer a
//! terminal; damaged units, and boards; gc never removes an open unit, nor the board of a fleet that has units, and does remove
//! what is closed or dead; doctor; help, manual pages and completions.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, OBEYS, wait_until};

#[track_caller]
fn refused(bench: &Bench, arguments: &[&str], code: i32, text: &str) {
    let ran = bench.run(&[&["fleet"], arguments].concat());
    assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
    assert!(ran.err.contains(text), "{arguments:?}: {ran:?}");
    assert_eq!(ran.out, "");
}

fn keys(bench: &Bench) -> Vec<String> {
    let listing = bench.run(&["ls", "--all", "--json"]).json();
    listing["leases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lease| lease["key"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn fleets_units_and_workers_are_listed() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "other", "x", "y", "--weight", "7", "--needs", "gpu"]).code, 0);
    let worker = bench.worker(&["a", "b", "--label", "ssd"], OBEYS);
    bench.await_shares(&[(&worker, 2)]);
    let name = bench.name_of(&worker);
    let ran = bench.run(&["fleet", "ls"]);
    assert!(
        ran.out.starts_with("FLEET  WORKERS  UNITS  HELD") && ran.out.contains("f      1        2"),
        "{ran:?}"
    );
    let listing = bench.run(&["fleet", "ls", "--json"]).json();
    let [f, other] = &listing["fleets"].as_array().unwrap()[..] else { panic!("{listing}") };
    assert_eq!((&f["fleet"], &f["held"], &f["workers"]), (&"f".into(), &2.into(), &1.into()));
    assert_eq!((&other["units"], &other["uncovered"], &other["held"]), (&2.into(), &2.into(), &0.into()));
    assert_eq!((&f["planner"], &other["planner"]), (&name.as_str().into(), &serde_json::Value::Null));
    assert!(f["plan"].as_u64().is_some() && f["changed"].as_str().unwrap().ends_with('Z'), "{f}");
    let ran = bench.run(&["fleet", "top", "f", "--once"]);
    assert!(ran.out.contains(&format!("{name} plans, plan ")) && ran.out.contains("live, plans"), "{ran:?}");
    assert_eq!(bench.workers()[0]["plans"], true);
    assert!(ran.out.contains(" was told ") && f["plan_age_ms"].as_u64().is_some(), "{ran:?} {f}");
    let told = bench.run(&["fleet", "workers", "f"]);
    assert!(told.err.contains(&format!("{name} plans, plan ")), "{told:?}");
    let ran = bench.run(&["fleet", "units", "other"]);
    for text in ["UNIT", "x     uncovered  -       (no worker)", "7", "gpu"] {
        assert!(ran.out.contains(text), "{text}: {ran:?}");
    }
    let unit = bench.unit("a");
    assert_eq!(
        (&unit["stage"], &unit["owner"], &unit["weight"]),
        (&"held".into(), &name.as_str().into(), &1.into())
    );
    assert!(unit["fence"].as_u64().unwrap() > 0 && unit["since"].as_str().unwrap().ends_with('Z'));
    let ran = bench.run(&["fleet", "workers", "f"]);
    assert!(ran.out.contains(&name) && ran.out.contains("ssd") && ran.out.contains(" ago "), "{ran:?}");
    let ran = bench.run(&["fleet", "workers", "other"]);
    assert!(ran.code == 0 && ran.err.contains("no workers, and 2 units"), "{ran:?}");
    worker.die_with_its_host();
    wait_until("it to be silent", || bench.workers()[0]["state"] == "silent");
    let ran = bench.run(&["fleet", "units", "f"]);
    assert!(ran.out.contains("(dead)") && ran.out.contains("(no worker)"), "{ran:?}");
    let ran = bench.run(&["fleet", "top", "f", "--once"]);
    assert!(ran.code == 0 && ran.out.contains("0 workers, 2 units") && ran.out.contains("silent"), "{ran:?}");
    assert!(ran.out.contains("nobody plans"), "{ran:?}");
    refused(&bench, &["drain", "f", &name, "--yes"], 66, "is dead");
    refused(&bench, &["move", "f", "a", &name], 66, "is dead, and can't be given anything");
}

#[test]
fn what_is_not_there_or_makes_no_sense_is_refused() {
    let bench = Bench::new();
    for verb in [&["ls"][..], &["units", "f"], &["rm", "f", "u", "--yes"], &["top", "f", "--once"]] {
        refused(&bench, verb, 69, "there is no store at leases.db");
    }
    refused(&bench, &["add", "f", "u", "--weight", "0"], 64, "can't weigh 0");
    refused(&bench, &["add", "f", "u", ""], 64, "a unit's name can't be empty");
    refused(&bench, &["add", "f", &"x".repeat(512)], 64, "limit is 512");
    refused(&bench, &["add", "a/b", "u"], 64, "can't be named \"a/b\"");
    refused(&bench, &["add", "f"], 64, "UNIT");
    refused(&bench, &["move", "f", "u"], 64, "WORKER");
    refused(&bench, &["move", "f", "u", "w", "--anywhere"], 64, "cannot be used with");
    refused(&bench, &["drain", "f", "", "--yes"], 64, "a worker's name can't be empty");
    refused(&bench, &["fly"], 64, "unrecognized subcommand");
    refused(&bench, &["top", "f"], 64, "top needs a terminal");
    refused(&bench, &["top", "f", "--once", "--interval", "1ms"], 64, "below 100ms");
    assert!(!bench.store().exists(), "nothing was touched");
    assert_eq!(bench.run(&["fleet", "add", "f", "u"]).code, 0);
    refused(&bench, &["units", "g"], 66, "there is no fleet g");
    refused(&bench, &["workers", "g"], 66, "there is no fleet g");
    refused(&bench, &["top", "g", "--once"], 66, "there is no fleet g");
    refused(&bench, &["move", "f", "v", "--anywhere"], 66, "has no unit v");
    refused(&bench, &["move", "f", "u", "w"], 66, "has no worker w");
    refused(&bench, &["drain", "f", "w", "--yes"], 66, "has no worker w");
    refused(&bench, &["rm", "f", "v", "--yes"], 66, "has no unit v");
    refused(&bench, &["rm", "f", "u"], 64, "--yes");
    assert_eq!(bench.unit("u")["stage"], "uncovered", "it is there still");
}

#[test]
fn a_worker_may_be_called_by_the_beginning_of_its_name() {
    let bench = Bench::new();
    let (one, other) = (bench.worker(&["a", "b"], OBEYS), bench.worker(&["--join"], OBEYS));
    bench.await_shares(&[(&one, 1), (&other, 1)]);
    let (one, other) = (bench.name_of(&one), bench.name_of(&other));
    let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    refused(&bench, &["move", "f", "a", &one[..same.max(1)]], 64, "may be any of");
    assert_eq!(bench.run(&["fleet", "move", "f", "a", &one[..=same]]).code, 0);
    assert_eq!(bench.unit("a")["pin"], *one);
    refused(&bench, &["drain", "f", &one], 64, "--yes");
    assert_eq!(bench.workers().len(), 2);
}

#[test]
fn names_cannot_steer_the_terminal() {
    let bench = Bench::new();
    let evil = "evil\u{1b}]0;x\u{7}\n\u{202e}";
    assert_eq!(bench.run(&["fleet", "add", evil, evil, "--needs", evil]).code, 0);
    for arguments in [&["ls"][..], &["units", evil], &["top", evil, "--once"], &["rm", evil, evil, "--yes"]] {
        let ran = bench.run(&[&["fleet"], arguments].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        let said = format!("{}{}", ran.out, ran.err);
        assert!(said.contains("evil") && said.chars().all(|c| c == '\n' || !c.is_control()), "{said:?}");
    }
}

#[test]
fn damaged_units_are_named_and_left_alone() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "good", "bad"]).code, 0);
    bench.sql("UPDATE tenure_record SET record = x'5401ff' WHERE key LIKE '%bad'");
    let ran = bench.run(&["fleet", "units", "f"]);
    assert!(ran.code == 0 && ran.out.contains("good") && ran.err.contains("fleet/f/unit/bad"), "{ran:?}");
    assert_eq!(bench.run(&["fleet", "ls", "--json"]).json()["fleets"][0]["damaged"], 1);
    refused(&bench, &["move", "f", "bad", "--anywhere"], 65, "bad");
    refused(&bench, &["rm", "f", "bad", "--yes"], 65, "bad");
    // What was done before that is told.
    assert_eq!(bench.run(&["fleet", "add", "f", "before", "after"]).code, 0);
    let ran = bench.run(&["fleet", "rm", "f", "before", "bad", "nothing", "after", "--yes"]);
    assert_eq!(ran.code, 65, "{ran:?}");
    for told in
        ["2 units removed from fleet f", "has no unit nothing", "`tenure rm --damaged fleet/f/unit/bad`"]
    {
        assert!(ran.err.contains(told), "{told}: {ran:?}");
    }
    let worker = bench.worker(&["--join"], OBEYS);
    bench.await_shares(&[(&worker, 1)]);
    assert_eq!(bench.run(&["gc", "--older-than", "0s", "--yes"]).code, 0);
    assert!(keys(&bench).contains(&"fleet/f/unit/bad".to_owned()));
}

#[test]
fn units_are_removed_though_their_workers_cannot_be_told() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "a", "b", "stays"]).code, 0);
    bench.sql("UPDATE tenure_record SET record = x'54ff00' WHERE key LIKE '%board'");
    let ran = bench.run(&["fleet", "rm", "f", "a", "b", "--yes"]);
    assert!(ran.code == 65 && ran.err.contains("2 units removed from fleet f"), "{ran:?}");
    assert!(ran.err.contains("could not be told") && ran.err.contains("fleet/f/board"), "{ran:?}");
    assert!(!ran.err.contains("left as they are"), "{ran:?}");
    let units = bench.run(&["fleet", "units", "f"]);
    assert!(units.out.contains("stays") && units.out.lines().count() == 2, "{units:?}");
}

#[test]
fn gc_keeps_what_fleets_need_and_removes_the_rest() {
    let bench = Bench::new();
    let mut worker = bench.worker(&["held", "closed"], OBEYS);
    bench.await_shares(&[(&worker, 2)]);
    assert_eq!(bench.run(&["fleet", "add", "idle", "open", "gone"]).code, 0);
    assert_eq!(bench.run(&["fleet", "add", "empty", "gone"]).code, 0);
    assert_eq!(bench.run(&["fleet", "rm", "idle", "gone", "--yes"]).code, 0);
    assert_eq!(bench.run(&["fleet", "rm", "empty", "gone", "--yes"]).code, 0);
    assert_eq!(bench.run(&["fleet", "rm", "f", "closed", "--yes"]).code, 0);
    wait_until("it to be let go of", || bench.state("fleet/f/unit/closed") == "vacant");
    let before = keys(&bench);
    assert_eq!(bench.run(&["gc", "--yes"]).code, 0);
    assert_eq!(keys(&bench), before, "nothing is a day old");
    let gc = || bench.run(&["gc", "--older-than", "0s", "--yes", "--json"]);
    let ran = gc();
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut removed: Vec<_> = ran.json()["removable"].as_array().unwrap().clone();
    removed.retain(|key| !key.as_str().unwrap().contains("doctor"));
    let closed = ["fleet/empty/unit/gone", "fleet/f/unit/closed", "fleet/idle/unit/gone"];
    assert_eq!(removed, closed, "{ran:?}");
    // The boards of f, idle, and empty (which had a unit until now), and an open unit that nobody holds.
    assert_eq!(ran.json()["kept_for_fleets"], 4, "{ran:?}");
    assert_eq!(gc().json()["removable"], serde_json::json!(["fleet/empty/board"]));
    bench.await_shares(&[(&worker, 1)]);
    assert!(worker.is_running());
    worker.die_with_its_host();
    worker.wait();
    wait_until("it to be dead for long", || gc().json()["sessions_ended"] == 1);
    gc();
    let left = ["fleet/f/board", "fleet/f/unit/held", "fleet/idle/board", "fleet/idle/unit/open"];
    assert_eq!(keys(&bench), left);
    let next = bench.worker(&["--join"], OBEYS);
    bench.await_shares(&[(&next, 1)]);
}

#[test]
fn a_removed_unit_whose_worker_died_with_it_is_collected_too() {
    let bench = Bench::new();
    let worker = bench.worker(&["u"], OBEYS);
    bench.await_shares(&[(&worker, 1)]);
    worker.die_with_its_host();
    assert_eq!(bench.run(&["fleet", "rm", "f", "u", "--yes"]).code, 0);
    let gc = || bench.run(&["gc", "--older-than", "0s", "--yes", "--json"]).json();
    wait_until("the dead one to be buried", || gc()["sessions_ended"] == 1);
    wait_until("all to be gone", || {
        gc();
        keys(&bench).is_empty()
    });
}

#[test]
fn doctor_knows_fleets() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "idle", "u"]).code, 0);
    assert_eq!(bench.run(&["fleet", "add", "f", "picky", "--needs", "gpu"]).code, 0);
    let worker = bench.worker(&["plain"], OBEYS);
    bench.await_shares(&[(&worker, 1)]);
    let ran = bench.run(&["doctor"]);
    for text in [
        "warn  fleet        f: 1 worker, 2 units, 1 held; 1 unit that no worker can have: see `tenure fleet units f`",
        "warn  fleet        idle: 0 workers, 1 unit, 0 held; 1 open unit and no worker",
    ] {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
    assert_eq!(bench.run(&["fleet", "rm", "f", "picky", "--yes"]).code, 0);
    assert!(bench.run(&["doctor"]).out.contains("ok    fleet        f: 1 worker, 1 unit, 1 held\n"));
}

#[test]
fn help_manual_pages_and_completions_know_fleets() {
    let bench = Bench::new();
    let help = bench.run(&["fleet", "--help"]);
    for verb in ["ls", "units", "workers", "add", "rm", "move", "drain", "top"] {
        assert!(help.out.contains(&format!("\n  {verb} ")), "{verb}: {help:?}");
        let of_verb = bench.run(&["fleet", verb, "--help"]);
        assert!(of_verb.code == 0 && of_verb.out.contains(&format!("tenure fleet {verb}")), "{of_verb:?}");
    }
    assert!(bench.run(&["work", "--help"]).out.contains("--forever"));
    let page = bench.run(&["man", "fleet"]);
    assert!(page.code == 0 && page.out.contains("drain"), "{page:?}");
    for shell in ["bash", "zsh", "fish"] {
        let ran = bench.run(&["completions", shell]);
        assert!(ran.out.contains("anywhere") && ran.out.contains("forever"), "{shell}");
    }
}
