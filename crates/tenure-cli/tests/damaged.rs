//! `tenure rm --damaged`, by the real binary on real files: the way out for a key whose record can't be read.
//!
//! Plan: records of every kind, damaged, are removed, and their keys can be had again; the copy that is printed puts back what
//! was there; what is whole, held, of a newer version or absent is refused and left alone, also where only the status is of a newer one, which all verbs tell that count records; nobody is there to ask; fences never go
//! back, also where the clock is behind the last one. One of any size takes no memory. What is attached to a session that can't be read is neither held nor free. That only what was seen is removed is a check of every store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Ran, wait_until};
use tenure::{Metadata, Value};

const YEAR: u64 = 365 * 86_400_000;

fn row(bench: &Bench, key: &str) -> String {
    let connection = rusqlite::Connection::open(bench.store()).unwrap();
    let sql = "SELECT quote(version) || quote(fence) || quote(tenure) || quote(record) || quote(boot) FROM tenure_record WHERE key = ?1";
    connection.query_row(sql, [key], |row| row.get(0)).unwrap()
}

fn break_it(bench: &Bench, key: &str) {
    bench.sql(&format!("UPDATE tenure_record SET record = substr(record, 1, 9) WHERE key = '{key}'"));
}

#[test]
fn a_key_whose_record_is_damaged_can_be_had_again() {
    let bench = Bench::new();
    let first: u64 =
        bench.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE"]).out.trim().parse().unwrap();
    break_it(&bench, "k");
    let before = row(&bench, "k");
    assert_eq!(bench.run(&["run", "k", "--", "true"]).code, 65);
    assert_eq!(bench.run(&["wait", "k"]).code, 65, "nobody knows who holds it");
    let asked = bench.run(&["rm", "--damaged", "k"]);
    assert_eq!((asked.code, asked.err.contains("--yes")), (64, true), "{asked:?}");
    assert_eq!(row(&bench, "k"), before, "nobody was there to say yes");

    let removed = bench.run(&["rm", "--damaged", "k", "--yes"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    assert!(removed.err.contains(&format!("k is removed; its fence was {first}")), "{removed:?}");
    assert_eq!(bench.run(&["show", "k"]).code, 66);
    let next: u64 =
        bench.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE"]).out.trim().parse().unwrap();
    assert!(next > first, "{next} after {first}");
    // What was printed puts back what was there.
    bench.sql(&removed.out);
    assert_eq!((row(&bench, "k"), bench.run(&["show", "k"]).code), (before, 65));
    // Without a reader of the copy there is none.
    for form in [&[][..], &["--json"]] {
        let mut command = bench.tenure(&[&["rm", "--damaged", "k", "--yes"], form].concat());
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        assert_eq!(Ran::of(command.stdout(full).output().unwrap()).code, 70);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let unread = Ran::of(command.stdout(writer).output().unwrap());
        assert!(unread.code == 70 && unread.err.contains("was left as it is"), "{unread:?}");
        assert_eq!(bench.run(&["show", "k"]).code, 65);
    }
    let again = bench.run(&["rm", "--damaged", "k", "--yes", "--json"]);
    assert_eq!((again.code, &again.json()["copy"]), (0, &removed.out.trim_end().into()), "{again:?}");
}

/// Whoever writes around tenure may write values of any size.
#[test]
fn a_record_of_any_size_is_removed_without_reading_it() {
    const BYTES: usize = 60_000_000;
    let bench = Bench::new();
    assert_eq!(bench.run(&["run", "k", "--", "true"]).code, 0);
    bench.sql(&format!("UPDATE tenure_record SET record = zeroblob({BYTES})"));
    // The program alone needs a third of this.
    let bounded = |arguments: &[&str]| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -v 700000 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tenure")]);
        bench.settle(command.args(arguments).stdin(std::process::Stdio::null()));
        command.env("TENURE_STORE", "sqlite:leases.db").env("MALLOC_ARENA_MAX", "1");
        Ran::of(command.output().unwrap())
    };
    let shown = bounded(&["show", "k"]);
    assert!(shown.code == 65 && shown.out.contains(&format!("it has {BYTES} bytes")), "{shown:?}");
    let removed = bounded(&["rm", "--damaged", "k", "--yes"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    // Of what can't be a record the copy has the length.
    assert!(removed.out.len() < 1000 && removed.out.contains(&format!("zeroblob({BYTES})")), "{removed:?}");
    bench.sql(&removed.out);
    assert_eq!(bench.run(&["show", "k"]).code, 65);
}

#[test]
fn every_kind_of_record_has_this_way_out() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["work", "--name", "j", "u", "--", "true"]).code, 0);
    assert_eq!(bench.run(&["range", "s", "00..ff", "--", "true"]).code, 0);
    assert_eq!(bench.run(&["fleet", "add", "f", "u"]).code, 0);
    let keys = ["work/j/u", "section/s", "fleet/f/unit/u", "fleet/f/board"];
    for key in keys {
        break_it(&bench, key);
        let removed = bench.run(&["rm", "--damaged", key, "--yes"]);
        assert_eq!(removed.code, 0, "{key}: {removed:?}");
    }
    let session = bench.run(&["ls", "session/", "--all", "--json"]).json()["leases"][0]["key"]
        .as_str()
        .unwrap()
        .to_owned();
    break_it(&bench, &session);
    assert_eq!(bench.run(&["rm", "--damaged", &session, "--yes"]).code, 0);
    assert_ne!(bench.run(&["doctor"]).code, 1, "nothing is damaged any more");
    assert_eq!(bench.run(&["work", "--name", "j", "u", "--", "true"]).code, 0);
    assert_eq!(bench.run(&["range", "s", "00..ff", "--", "true"]).code, 0);
    assert_eq!(bench.run(&["fleet", "add", "f", "u"]).code, 0);
    // Read well, but no unit, and no section.
    assert_eq!(bench.run(&["run", "mine", "--", "true"]).code, 0);
    for key in ["work/j/odd", "section/odd"] {
        bench.sql(&format!("INSERT INTO tenure_record SELECT '{key}', version, fence, tenure, ride_key, ride_fence, record, boot, written_ns FROM tenure_record WHERE key = 'mine'"));
        assert_eq!(bench.run(&["rm", "--damaged", key, "--yes"]).code, 0, "{key}");
    }
}

/// A pipe shows what a terminal would get.
#[test]
fn what_is_removed_does_not_steer_a_terminal() {
    let bench = Bench::new();
    let key = "it's\u{1b}]0;pwn\u{7}\u{9b}2J\u{202e}rev";
    assert_eq!(bench.run(&["run", key, "--", "true"]).code, 0);
    bench.sql("UPDATE tenure_record SET record = substr(record, 1, 9)");
    let removed = bench.run(&["rm", "--damaged", key, "--yes"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    for text in [&removed.out, &removed.err] {
        let bad = text.chars().find(|c| *c != '\n' && tenure_core::steers_terminals(*c));
        assert_eq!(bad, None, "{removed:?}");
    }
    assert_eq!(bench.run(&["show", key]).code, 66);
    bench.sql(&removed.out);
    assert_eq!(bench.run(&["show", key]).code, 65, "it is back as it was");
}

#[test]
fn what_is_not_damaged_is_refused() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["run", "k", "--", "true"]).code, 0);
    let mut holder = bench.start(&["run", "held", "--", "sleep", "1000"]);
    wait_until("it to hold", || bench.run(&["show", "held"]).code == 0);
    assert_eq!(bench.run(&["work", "--name", "j", "u", "--", "true"]).code, 0);
    assert_eq!(bench.run(&["range", "s", "00..ff", "--", "true"]).code, 0);
    for key in ["k", "held", "work/j/u", "section/s"] {
        let refused = bench.run(&["rm", "--damaged", key, "--yes"]);
        assert_eq!((refused.code, refused.err.contains("not damaged")), (64, true), "{refused:?}");
        assert_eq!(bench.run(&["show", key]).code, 0);
    }
    assert!(holder.is_running());
    bench.sql("UPDATE tenure_record SET record = x'5402a0' WHERE key = 'k'");
    let refused = bench.run(&["rm", "--damaged", "k", "--yes"]);
    assert_eq!(
        (refused.code, refused.err.contains("upgrade")),
        (65, true),
        "of a newer version: {refused:?}"
    );
    let shown = bench.run(&["show", "k"]);
    assert_eq!(
        (shown.code, shown.out.contains("newer tenure"), shown.out.contains("rm --damaged")),
        (65, true, false),
        "{shown:?}"
    );
    assert!(shown.out.contains("\nstate    newer\nproblem  the record has layout "), "{shown:?}");
    assert!(!refused.err.contains("foreign or damaged") && !shown.out.contains("damaged"), "{shown:?}");
    let listed = bench.run(&["ls", "--json"]).json();
    let record = bench.run(&["show", "k", "--json"]).json();
    assert_eq!(record["state"], "newer");
    assert!(listed["leases"].as_array().unwrap().contains(&record), "{listed}");
    assert_eq!(bench.run(&["rm", "--damaged", "nothing", "--yes"]).code, 66);
    let bare = bench.run(&["rm", "k", "--yes"]);
    assert_eq!((bare.code, bare.err.contains("--damaged")), (64, true), "{bare:?}");
}

#[test]
fn a_unit_with_a_status_of_a_newer_version_is_left_to_that_version() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "u", "bad"]).code, 0);
    assert_eq!(bench.run(&["work", "--name", "j", "u", "--", "true"]).code, 0);
    let asleep = Metadata::from([("status".to_owned(), Value::from("asleep"))]);
    bench.plant("work/j/u", None, asleep.clone());
    bench.plant("fleet/f/unit/u", None, Metadata::from([("tenure".to_owned(), Value::Map(asleep))]));
    for key in ["work/j/u", "fleet/f/unit/u"] {
        let before = row(&bench, key);
        let refused = bench.run(&["rm", "--damaged", key, "--yes"]);
        let is_told = ["\"asleep\"", "upgrade it", "not damaged"].iter().all(|it| refused.err.contains(it));
        assert_eq!((refused.code, is_told), (65, true), "{key}: {refused:?}");
        assert_eq!(row(&bench, key), before, "{key}");
    }
    let gc = bench.run(&["gc", "work/", "--older-than", "0s", "--yes", "--json"]).json();
    assert_eq!((gc["removed"].as_u64(), gc["kept_for_unfinished_jobs"].as_u64()), (Some(0), Some(1)));
    let doctor = bench.run(&["doctor"]);
    assert_eq!((doctor.code, doctor.out.contains("\n  fail  ")), (2, false), "{doctor:?}");
    for key in ["work/j/u", "fleet/f/unit/u"] {
        assert!(doctor.out.contains(&format!("\n  warn  newer        {key}: ")), "{doctor:?}");
    }
    // No other verb advises to remove it, either.
    break_it(&bench, "fleet/f/unit/bad");
    let removed = bench.run(&["fleet", "rm", "f", "u", "bad", "--yes"]);
    let advised = ["bad", "u"].map(|unit| removed.err.contains(&format!("--damaged fleet/f/unit/{unit}`")));
    assert_eq!((removed.code, advised), (65, [true, false]), "{removed:?}");
}

#[test]
fn where_records_are_counted_those_of_a_newer_version_are_told_apart() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "u", "bad"]).code, 0);
    let asleep = Metadata::from([("status".to_owned(), Value::from("asleep"))]);
    bench.plant("fleet/f/unit/u", None, Metadata::from([("tenure".to_owned(), Value::Map(asleep))]));
    break_it(&bench, "fleet/f/unit/bad");
    let counted = |told: &serde_json::Value| (told["damaged"].as_u64(), told["newer"].as_u64());
    let fleets = bench.run(&["fleet", "ls", "--json"]).json();
    assert_eq!(counted(&fleets["fleets"][0]), (Some(2), Some(1)), "{fleets}");
    let units = bench.run(&["fleet", "units", "f", "--json"]).json();
    let told = |record: &serde_json::Value| {
        let key = record["key"].as_str().unwrap().to_owned();
        (key, record["newer"].as_bool())
    };
    let told: Vec<_> = units["damaged"].as_array().unwrap().iter().map(told).collect();
    let of = |unit: &str, is_newer| (format!("fleet/f/unit/{unit}"), Some(is_newer));
    assert_eq!(told, [of("bad", false), of("u", true)]);
    for verb in [&["fleet", "ls"][..], &["fleet", "units", "f"]] {
        let ran = bench.run(verb);
        let line =
            |unit: &str| ran.err.lines().find(|line| line.contains(&format!("/unit/{unit}: "))).unwrap();
        let is_no_damage = ["bad", "u"].map(|unit| line(unit).ends_with("; it is not damaged"));
        assert_eq!(is_no_damage, [false, true], "{ran:?}");
    }
    let top = bench.run(&["fleet", "top", "f", "--once"]);
    assert!(top.out.contains(", 1 damaged, 1 of a newer version "), "{top:?}");
    let gc = ["gc", "--older-than", "0s", "--dry-run"];
    let found = bench.run(&[&gc[..], &["--json"]].concat()).json();
    assert_eq!(counted(&found), (Some(2), Some(1)), "{found}");
    let found = bench.run(&gc);
    for line in ["1 damaged record left as they are", "1 record kept: a newer version has written them"] {
        assert!(found.err.contains(line), "{found:?}");
    }
}

#[test]
fn what_a_record_says_makes_it_none_of_a_newer_version() {
    let (bench, key) = (Bench::new(), "fleet/f/unit/u");
    assert_eq!(bench.run(&["fleet", "add", "f", "u"]).code, 0);
    let own = Metadata::from([("needs".to_owned(), Value::from("upgrade it"))]);
    bench.plant(key, None, Metadata::from([("tenure".to_owned(), Value::Map(own))]));
    let doctor = bench.run(&["doctor"]);
    assert!(
        doctor.code == 1 && doctor.out.contains(&format!("\n  fail  damaged      {key}: ")),
        "{doctor:?}"
    );
    let removed = bench.run(&["rm", "--damaged", key, "--yes"]);
    assert_eq!((removed.code, bench.run(&["show", key]).code), (0, 66), "{removed:?}");
}

#[test]
fn a_unit_whose_name_nothing_tells_is_damaged_for_each_verb() {
    let bench = Bench::new();
    let unit = "part".repeat(300);
    let run = || bench.run(&["work", "--name", "j", &unit, "--", "true"]);
    assert_eq!(run().code, 0);
    let listed = bench.run(&["ls", "--all", "work/", "--json"]).json();
    let key = listed["leases"][0]["key"].as_str().unwrap().to_owned();
    bench.plant(&key, None, Metadata::from([("status".to_owned(), Value::from("pending"))]));
    let problem = "the record does not tell the unit's name";
    let status = bench.run(&["work", "status", "j"]);
    assert!(status.out.contains(&format!("\ndamaged\n  {key}: {problem}\n")), "{status:?}");
    let doctor = bench.run(&["doctor"]);
    assert!(doctor.code == 1 && doctor.out.contains(&format!("{key}: {problem}\n")), "{doctor:?}");
    let removed = bench.run(&["rm", "--damaged", &key, "--yes", "--json"]);
    assert_eq!((removed.code, &removed.json()["problem"]), (0, &problem.into()), "{removed:?}");
    assert_eq!(run().code, 0, "it can be had again");
}

#[test]
fn s2_a_fence_ahead_of_the_clock_is_kept() {
    let bench = Bench::new();
    let fence = || {
        bench.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE"]).out.trim().parse::<u64>().unwrap()
    };
    let ahead = fence() + YEAR;
    // As the last holder's clock was a year ahead; the record itself is gone, a column beside it tells.
    bench.sql(&format!("UPDATE tenure_record SET record = x'54', fence = {ahead} WHERE key = 'k'"));
    let removed = bench.run(&["rm", "--damaged", "k", "--yes"]);
    assert!(removed.err.contains("keeps its fence"), "{removed:?}");
    assert_eq!(bench.state("k"), "vacant");
    assert!(fence() > ahead);
    // Where none can follow, none is kept.
    bench.sql("UPDATE tenure_record SET record = x'54', fence = 9223372036854775807 WHERE key = 'k'");
    assert_eq!(bench.run(&["rm", "--damaged", "k", "--yes"]).code, 0);
    assert_eq!(bench.run(&["run", "k", "--", "true"]).code, 0);
}

#[test]
fn whoever_is_attached_to_a_session_that_can_not_be_read_is_not_taken_for_dead() {
    let bench = Bench::new();
    let command = "echo $$ > pid; sleep 1000";
    let mut work = bench.start(&["work", "--name", "j", "--ttl", "600s", "u", "--", "sh", "-c", command]);
    bench.await_number("pid");
    let key = "work/j/u";
    let session = bench.show(key)["session"]["key"].as_str().unwrap().to_owned();
    break_it(&bench, &session);
    assert_eq!(bench.state(key), "unknown");
    for verb in [&["wait", key][..], &["wait", "--held", key], &["revoke", "--yes", key], &["leader", key]] {
        let ran = bench.run(verb);
        assert_eq!((ran.code, ran.err.contains("can't be read")), (65, true), "{ran:?}");
    }
    let listed = bench.run(&["ls", "--json"]).json();
    let of =
        |key: &str| listed["leases"].as_array().unwrap().iter().find(|lease| lease["key"] == key).cloned();
    assert_eq!(of(key).unwrap()["state"], "unknown");
    let ran = bench.run(&["work", "rm", "j", "--yes"]);
    assert_eq!((ran.code, bench.show(key)["state"].as_str()), (75, Some("unknown")), "{ran:?}");
    assert!(work.is_running());
    // Where the operator knows better, it can be taken away.
    let ran = bench.run(&["release", "--now", "--yes", key]);
    assert_eq!((ran.code, bench.state(key)), (0, "vacant".to_owned()), "{ran:?}");
}
