//! `tenure work --forever` on a lease table of the KCL's or a8m's layout, in DynamoDB Local, which `cargo xtask services up`
//! starts.
//!
//! Plan: units that a worker brings are run at once; units are created in the peers' layout and spread evenly; a command never runs twice at a time, while workers join, are
//! killed and leave; who leaves gives everything back after its commands have ended, and others' attributes stay; what means
//! nothing on such a table is refused, naming what works; shards are worked on between their parents' end and their own, and are adopted in that order, unless the URL says that they are none; `fleet adopt` moves all of it to a native fleet while it runs, also when
//! it is killed half way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, OBEYS, Process, Ran, TICKS, service, wait_for, wait_until};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::process::Stdio;
use tenure::dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_kcl::{Edit, Fields, Place, Row, Table};
use tokio::runtime::Runtime;

struct Fleet {
    bench: Bench,
    url: String,
    table: Table,
    runtime: Runtime,
}

/// A table of its own.
fn fleet(name: &str, peers: &str) -> Fleet {
    let endpoint = service::endpoint();
    let name = format!("cli-{name}-{}", std::process::id());
    let rest = format!("//{name}?region=eu-west-1&endpoint={endpoint}&dialect=kcl&peers={peers}&steal=2");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let table = runtime.block_on(async {
        let patient = Place::from_url(&format!("{rest}&timeout_ms=60000")).unwrap();
        Table::create_at(&patient).await.unwrap();
        let place = Place::from_url(&rest).unwrap();
        Table::at(place, tenure::clock::system()).await.unwrap()
    });
    Fleet { bench: Bench::new(), url: format!("dynamodb:{rest}"), table, runtime }
}

impl Fleet {
    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.bench.tenure(arguments).env("TENURE_STORE", &self.url).output().unwrap())
    }

    fn worker(&self, name: &str, more: &[&str], script: &str) -> Process {
        let base = ["work", "--forever", "--name", name, "--ttl", "6s", "--grace", "1s", "--backoff", "50ms"];
        let mut command = self.bench.tenure(&[&base, more, &["--", "sh", "-c", script]].concat());
        let path = self.bench.path("notes");
        let notes = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        command.env("TENURE_STORE", &self.url).stdout(Stdio::null()).stderr(notes).spawn().unwrap().into()
    }

    fn rows(&self) -> Vec<Row> {
        // The service ends connections that were idle for long, and nobody notices while nothing runs here.
        wait_for("an answer of the service", || self.runtime.block_on(self.table.list()).ok()).rows
    }

    /// How many leases each worker has, by the beginning of its name.
    fn shares(&self) -> BTreeMap<String, usize> {
        let mut shares = BTreeMap::new();
        for row in self.rows() {
            let owner = row.owner().map_or("", |owner| owner.split('/').next().unwrap_or(owner));
            *shares.entry(owner.to_owned()).or_default() += 1;
        }
        shares
    }

    fn await_shares(&self, wanted: &[(&str, usize)]) {
        let wanted = wanted.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect();
        wait_until("the shares", || self.shares() == wanted);
    }
}

const UNITS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[test]
fn units_that_a_worker_brings_are_taken_at_its_first_look() {
    let fleet = fleet("first", "kcl");
    // Between two looks half of this passes: whoever looks before the units are there is not waited for.
    let arguments =
        ["work", "--forever", "--name", "one", "--ttl", "1h", "--units", "a", "b", "--", "sh", "-c", TICKS];
    let mut command = fleet.bench.tenure(&arguments);
    command.env("TENURE_STORE", &fleet.url).stdout(Stdio::null()).stderr(Stdio::null());
    let mut only: Process = command.spawn().unwrap().into();
    wait_until("both to run", || fleet.bench.ticks("a").len() > 1 && fleet.bench.ticks("b").len() > 1);
    only.signal(Signal::SIGTERM);
    assert_eq!(only.wait(), 128 + 15);
}

#[test]
fn a_damaged_row_that_a_worker_brings_is_named_and_the_others_are_worked_on() {
    let fleet = fleet("odd", "kcl");
    let table = format!("cli-odd-{}", std::process::id());
    let item = serde_json::json!({
        "leaseKey": {"S": "odd"}, "leaseCounter": {"N": "0"}, "ownerSwitchesSinceCheckpoint": {"N": "0"}, "checkpointOwner": {"NS": ["1"]},
    });
    service::ask(&service::endpoint(), "PutItem", &serde_json::json!({"TableName": table, "Item": item}));
    let mut worker = fleet.worker("one", &["--units", "odd", "a"], TICKS);
    wait_until("the sound one to run", || fleet.bench.ticks("a").len() > 1);
    let notes = fleet.bench.read("notes");
    assert!(notes.contains("odd"), "{notes}");
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), 128 + 15);
    // It stays, so the fleet has not moved as a whole, also where there is nothing else.
    let sound = fleet.rows().into_iter().find(|row| row.key() == "a").unwrap();
    fleet.runtime.block_on(fleet.table.delete(&sound)).unwrap();
    let adopt =
        ["fleet", "adopt", "f", "--from", &fleet.url, "--failover", "6s", "--store", "sqlite:leases.db"];
    for more in ["--yes", "--dry-run"] {
        let ran = fleet.bench.run(&[&adopt[..], &[more]].concat());
        assert!(ran.code == 1 && ran.err.contains("it is not moved"), "{ran:?}");
    }
}

#[test]
fn beside_the_shards_of_several_streams_a_new_row_says_which_stream_it_is_of() {
    let fleet = fleet("streams", "kcl");
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let theirs = [("streamName", "1:x:7"), ("shardId", "s1")];
    let theirs = theirs.map(|(name, value)| (name.to_owned(), text(value))).into();
    fleet.runtime.block_on(fleet.table.create("1:x:7:s1", theirs)).unwrap();
    let forever = ["work", "--forever", "--name", "one", "--units", "1:x:7:s3", "plain", "--", "true"];
    let refused = fleet.run(&forever);
    assert!(refused.code == 64 && refused.err.contains("plain: the table has the shards"), "{refused:?}");
    assert_eq!(fleet.rows().len(), 1, "none of them is made");
    let mut worker = fleet.worker("one", &["--units", "1:x:7:s2"], OBEYS);
    fleet.await_shares(&[("one", 2)]);
    let made = fleet.rows().into_iter().find(|row| row.key() == "1:x:7:s2").unwrap();
    let field = |name: &str| made.fields().get(name).cloned();
    assert_eq!((field("streamName"), field("shardId")), (Some(text("1:x:7")), Some(text("s2"))));
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), 128 + 15);
}

#[test]
fn units_follow_workers_that_come_die_and_go_and_never_run_twice() {
    let fleet = fleet("units", "kcl");
    let units = [&["--units"][..], &UNITS[..]].concat();
    let mut first = fleet.worker("one", &units, TICKS);
    fleet.await_shares(&[("one", 6)]);
    for row in fleet.rows() {
        assert!(row.fields().contains_key("checkpoint"), "a KCL process can read it: {row:?}");
    }
    let second = fleet.worker("two", &["--join"], TICKS);
    fleet.await_shares(&[("one", 3), ("two", 3)]);
    let fence = |unit: &str| fleet.bench.ticks(unit).last().map_or(0, |(fence, _)| *fence);
    let of_two = |row: &Row| row.owner().is_some_and(|owner| owner.starts_with("two/"));
    let stolen: Vec<String> =
        fleet.rows().iter().filter(|row| of_two(row)).map(|row| row.key().to_owned()).collect();
    wait_until("the stolen ones to run", || stolen.iter().all(|unit| fence(unit) > 2));

    // It has no time for a word.
    let on_two: Vec<u64> = stolen.iter().map(|unit| fence(unit)).collect();
    second.signal(Signal::SIGKILL);
    fleet.await_shares(&[("one", 6)]);
    let is_again = || stolen.iter().zip(&on_two).all(|(unit, before)| fence(unit) > *before);
    wait_until("them to run again", is_again);
    let before = UNITS.map(fence);
    first.signal(Signal::SIGTERM);
    assert_eq!(first.wait(), 128 + 15);
    let rows = fleet.rows();
    let notes = fleet.bench.read("notes");
    assert!(rows.iter().all(|row| row.owner().is_none()), "everything is given back: {rows:?} {notes}");
    let third = fleet.worker("three", &["--join", "--parallel", "4"], TICKS);
    fleet.await_shares(&[("", 2), ("three", 4)]);
    let newer = || UNITS.map(fence).iter().zip(before).filter(|(now, then)| **now > *then).count();
    wait_until("four to run", || newer() >= 4);
    drop(third);
    fleet.bench.no_overlaps(&UNITS);
}

#[test]
fn others_attributes_stay_and_commands_end_before_the_lease_does() {
    let fleet = fleet("theirs", "a8m");
    let theirs = AttributeValue::Ss(vec!["x".to_owned(), "y".to_owned()]);
    fleet.runtime.block_on(async {
        let fields = [("theirs".to_owned(), theirs.clone())].into();
        fleet.table.create("a", fields).await.unwrap();
    });
    let mut worker = fleet.worker("one", &["--units", "a", "b"], OBEYS);
    wait_until("both to run", || ["a", "b"].iter().all(|unit| !fleet.bench.ticks(unit).is_empty()));
    let row = |key: &str| fleet.rows().into_iter().find(|row| row.key() == key).unwrap();
    // Somebody takes one away: its command is told, and killed at the latest when it doesn't obey.
    let taken = fleet.runtime.block_on(async {
        loop {
            let Ok(Some(row)) = fleet.table.read("a").await else { continue };
            if let Ok(row) = fleet.table.take(&row, "thief").await {
                break row;
            }
        }
    });
    wait_until("the loss to be told", || {
        fleet.bench.read("notes").contains("a: the lease is lost: taken: thief")
    });
    let ticks = |unit: &str| fleet.bench.ticks(unit).len();
    wait_until("the command to end", || {
        let before = ticks("a");
        std::thread::sleep(std::time::Duration::from_millis(100));
        ticks("a") == before
    });
    assert_eq!(row("a"), taken, "the deposed writes nothing");
    fleet
        .runtime
        .block_on(fleet.table.force_update("b", &Edit::new().set("p", AttributeValue::Bool(true))))
        .unwrap();
    worker.signal(Signal::SIGINT);
    assert_eq!(worker.wait(), 128 + 2);
    assert!(fleet.bench.read("told").contains('b'), "it was told before the lease was given back");
    assert_eq!((row("a").fields().get("theirs"), row("a").owner()), (Some(&theirs), Some("thief")));
    assert_eq!((row("b").fields().get("p"), row("b").owner()), (Some(&AttributeValue::Bool(true)), None));
}

#[test]
fn a_shard_that_was_read_to_its_end_is_given_back_and_its_children_come_after_it() {
    let fleet = fleet("shards", "kcl");
    let child_of = |key: &str, parent: &str| {
        let parents = AttributeValue::Ss(vec![parent.to_owned()]);
        let fields = [("parentShardId".to_owned(), parents)].into();
        fleet.runtime.block_on(fleet.table.create(key, fields)).unwrap();
    };
    child_of("c", "b");
    child_of("b", "a");
    let mut worker = fleet.worker("one", &["--units", "a"], TICKS);
    wait_until("the parent to run", || fleet.bench.ticks("a").len() > 1);
    let end = Edit::new().set("checkpoint", AttributeValue::S("SHARD_END".to_owned()));
    fleet.runtime.block_on(fleet.table.force_update("a", &end)).unwrap();
    wait_until("its child to run", || !fleet.bench.ticks("b").is_empty());
    let row = |key: &str| fleet.rows().into_iter().find(|row| row.key() == key).unwrap();
    wait_until("the parent to be given back", || row("a").owner().is_none());
    assert!(fleet.bench.read("notes").contains("SHARD_END"), "{}", fleet.bench.read("notes"));
    let (at_end, of_child) = (fleet.bench.ticks("a").len(), fleet.bench.ticks("b").len());
    wait_until("the child to go on", || fleet.bench.ticks("b").len() > of_child + 20);
    assert!(row("a").owner().is_none() && fleet.bench.ticks("a").len() == at_end);
    assert!(row("c").owner().is_none() && fleet.bench.ticks("c").is_empty(), "its parent is not at its end");
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), 128 + 15);
    let moves = |more: &str| {
        let from = format!("{}{more}", fleet.url);
        let adopt = ["fleet", "adopt", "f", "--from", &from, "--store", "sqlite:none.db", "--dry-run"];
        let ran = fleet.bench.run(&adopt);
        (ran.code, ran.out.lines().count())
    };
    assert_eq!((moves(""), moves("&shards=no")), ((1, 0), (0, 3)), "all rows alike");
}

#[test]
fn what_means_nothing_on_such_a_table_is_refused() {
    let fleet = fleet("refused", "kcl");
    let forever = ["work", "--forever", "--name", "f", "--join"];
    let refused = |arguments: &[&str], says: &str| {
        let ran = fleet.run(arguments);
        assert!(ran.code == 64 && ran.err.contains(says), "{arguments:?}: {ran:?}");
    };
    for (option, says) in [
        (&["--label", "x"][..], "--label means nothing"),
        (&["--most-weight", "3"], "--most-weight means nothing"),
        (&["--balance", "weight"], "--balance weight means nothing"),
        (&["--ttl", "100ms"], "failover"),
        (&["--metrics", "127.0.0.1:0"], "--metrics: nothing is measured on a table with dialect=kcl"),
    ] {
        refused(&[&forever[..], option, &["--", "true"]].concat(), says);
    }
    for verb in [
        &["run", "k", "--", "true"][..],
        &["ls"],
        &["work", "--name", "f", "a", "--", "true"],
        &["fleet", "ls"],
    ] {
        refused(verb, "`tenure work --forever`");
    }
    assert!(fleet.rows().is_empty());
    let elsewhere = fleet.url.replace("cli-refused", "cli-nowhere");
    let ran = fleet.bench.tenure(&[&forever[..], &["--", "true"]].concat());
    let ran = Ran::of({ ran }.env("TENURE_STORE", elsewhere).output().unwrap());
    assert!(ran.code == 69 && ran.err.contains("no such table"), "{ran:?}");
}

#[test]
fn a_running_fleet_is_adopted_though_the_adopter_is_killed() {
    let fleet = fleet("adopted", "kcl");
    let units = [&["--units"][..], &UNITS[..]].concat();
    let mut theirs = fleet.worker("theirs", &units, TICKS);
    fleet.await_shares(&[("theirs", 6)]);
    // A native worker, in the file of this bench, that waits for units.
    let ours = fleet.bench.worker(&["--join"], TICKS);
    fleet.bench.name_of(&ours);
    let adopt = ["fleet", "adopt", "f", "--from", &fleet.url, "--failover", "6s", "--watch", "1s"];
    let nowhere = Ran::of(fleet.bench.tenure(&adopt).env_remove("TENURE_STORE").output().unwrap());
    assert!(nowhere.code == 64 && nowhere.err.contains("--store"), "{nowhere:?}");
    let elsewhere = fleet.bench.run(&[&adopt[..], &["--store", "sqlite:none.db", "--dry-run"]].concat());
    assert!(
        elsewhere.code == 0 && !fleet.bench.path("none.db").exists(),
        "a look makes nothing: {elsewhere:?}"
    );
    let adopt = [&adopt[..], &["--store", "sqlite:leases.db"]].concat();
    let with = |more: &[&str]| fleet.bench.run(&[&adopt[..], more].concat());
    let dry = with(&["--dry-run"]);
    assert!(dry.code == 0 && dry.out.lines().count() == 6 && dry.out.contains("theirs/"), "{dry:?}");
    let asked = with(&[]);
    assert!(asked.code == 64 && asked.err.contains("--yes"), "{asked:?}");
    assert!(asked.err.contains("to fleet f in sqlite:leases.db"), "{asked:?}");
    let missing = with(&["--yes", "--only", "a", "zz"]);
    assert!(missing.code == 66 && missing.err.contains("zz"), "{missing:?}");
    let wrong = ["fleet", "adopt", "f", "--store", "sqlite:leases.db", "--from", "sqlite:leases.db", "--yes"];
    let wrong = fleet.bench.run(&[&wrong[..], &["--ttl", "6s"]].concat());
    assert!(wrong.code == 64 && wrong.err.contains("dialect=kcl"), "{wrong:?}");
    assert!(fleet.bench.units().is_empty() && fleet.shares() == [("theirs".to_owned(), 6)].into());

    let mut turn = fleet.bench.start(&["run", "adopt/f", "--", "sleep", "600"]);
    wait_until("another's turn", || fleet.bench.run(&["show", "adopt/f"]).code == 0);
    let second = with(&["--yes"]);
    assert!(second.code == 75 && second.err.contains("adopts already"), "{second:?}");
    assert!(fleet.bench.units().is_empty(), "it has done nothing");
    turn.signal(Signal::SIGTERM);
    turn.wait();
    let killed = fleet.bench.start(&[&adopt[..], &["--yes"]].concat());
    wait_until("a row to be taken", || fleet.shares().keys().any(|owner| owner.starts_with("tenure-adopt")));
    killed.signal(Signal::SIGKILL);
    let moved = with(&["--yes"]);
    assert!(moved.code == 0, "{moved:?}");
    let said_at = |text: &str| moved.err.find(text);
    let end = said_at("end the KCL's processes now, within that time");
    assert!(end.is_some() && end < said_at("units moved"), "as the watch begins: {moved:?}");
    assert!(fleet.rows().is_empty(), "{moved:?}");
    fleet.bench.await_shares(&[(&ours, 6)]);
    let is_native = |unit: &str| fleet.bench.ticks(unit).last().is_some_and(|(fence, _)| *fence > 1 << 40);
    wait_until("all to run in the native fleet", || UNITS.iter().all(|unit| is_native(unit)));
    for unit in fleet.bench.units() {
        assert_eq!(unit["fields"]["checkpoint"], "TRIM_HORIZON", "{unit}");
    }
    theirs.signal(Signal::SIGTERM);
    assert_eq!(theirs.wait(), 128 + 15);
    drop(ours);
    fleet.bench.no_overlaps(&UNITS);
    assert_eq!(with(&["--yes"]).code, 0, "there is nothing left to move");

    // As an adoption leaves it that is killed before it deletes the row, which somebody else has deleted since.
    let closed =
        ["fleet", "add", "f", "late", "--needs", "tenure/adoption-ready", "--store", "sqlite:leases.db"];
    assert_eq!(fleet.bench.run(&closed).code, 0);
    for more in ["--dry-run", "--yes"] {
        let doubtful = with(&[more]);
        assert!(doubtful.code == 1 && doubtful.err.contains("late: not opened"), "{doubtful:?}");
    }
    let opened = with(&["--yes", "--only", "late"]);
    assert!(opened.code == 0 && opened.err.contains("late: opened"), "{opened:?}");
    assert_eq!(with(&["--yes"]).code, 0, "it is as any other");

    // As the KCL's leader does later.
    fleet.runtime.block_on(fleet.table.create("a", Fields::new())).unwrap();
    let dry = with(&["--dry-run"]);
    assert!(dry.code == 1 && dry.out.contains("a: nobody works on it, beside the fleet"), "{dry:?}");
}
