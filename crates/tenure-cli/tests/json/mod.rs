//! What `--json` prints is what docs/json.md and docs/json say it is.
//!
//! Plan: each verb's document is read strictly: no field that is not documented, none that is missing, all of the right kind; dates are RFC 3339. The
//! page and the schemas are made of the same types, and are up to date: `TENURE_UPDATE_DOCS=1 cargo test -p tenure-cli --test cli json::` makes them anew.
//! No verb with `--json` is forgotten, and no field is without a description, which is the comment of the field in `documents`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]
#![allow(dead_code, unreachable_pub, reason = "the documents' fields are read by their names")]

mod documents;

use crate::common::{Bench, Ran, TICKS, wait_for, wait_until};
use documents as is;
use nix::sys::signal::Signal;
use schemars::{JsonSchema, Schema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

const STAYS: &str = "echo $$ > pid; exec sleep 600";

/// The document of this kind, with what each of its dates is.
#[track_caller]
fn document<T: DeserializeOwned>(text: &str) -> T {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    dates(&value);
    serde_json::from_value(value).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What is called as a date is has the form of one.
#[track_caller]
fn dates(value: &Value) {
    const NAMES: [&str; 8] =
        ["at", "since", "written", "began", "finished", "last_result", "deadline", "until"];
    match value {
        Value::Array(all) => all.iter().for_each(dates),
        Value::Object(fields) => {
            for (name, value) in fields {
                if NAMES.contains(&name.as_str()) && !value.is_null() {
                    let date = value.as_str().unwrap_or_else(|| panic!("{name}: {value}"));
                    assert!(
                        chrono::DateTime::parse_from_rfc3339(date).is_ok() && date.ends_with('Z'),
                        "{name}: {date}"
                    );
                }
                dates(value);
            }
        }
        _ => {}
    }
}

#[track_caller]
fn ok<T: DeserializeOwned>(bench: &Bench, arguments: &[&str]) -> T {
    let ran = bench.run(arguments);
    assert!([0, 2].contains(&ran.code), "{arguments:?}: {ran:?}");
    document(&ran.out)
}

#[test]
fn records_and_what_is_done_to_them() {
    let bench = Bench::new();
    let mut run = bench.start(&["run", "k", "--ttl", "4s", "--note", "why", "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    let shown: is::Record = ok(&bench, &["show", "k", "--json"]);
    assert_eq!((shown.state.as_str(), shown.metadata.unwrap()["note"].as_str()), ("held", Some("why")));
    let listed: is::Ls = ok(&bench, &["ls", "--json"]);
    assert!(listed.leases.iter().any(|lease| lease.key == "k" && lease.ttl_ms == Some(4000)));
    let asked: is::Revoke = ok(&bench, &["revoke", "k", "--yes", "--json"]);
    assert_eq!(asked.ttl_ms, 4000);
    run.wait();
    let mut run = bench.start(&["elect", "k", "--ttl", "4s", "--", "sh", "-c", STAYS]);
    wait_until("a leader", || bench.run(&["leader", "k"]).code == 0);
    let leads: is::Leader = ok(&bench, &["leader", "k", "--json"]);
    let leading = leads.leader.unwrap();
    assert!(leading.fence.is_some() && leading.since.is_some() && leading.until.is_none());
    assert_eq!(leading.labels.unwrap()["program"], "sh");
    let released: is::Release = ok(&bench, &["release", "k", "--now", "--yes", "--json"]);
    assert!(released.released && released.vacated);
    run.signal(Signal::SIGTERM);
    run.wait();
    let absent = bench.run(&["leader", "never", "--json"]);
    assert!(document::<is::Leader>(&absent.out).leader.is_none());
    let failed = bench.run(&["show", "never", "--json"]);
    assert_eq!(document::<is::Failed>(failed.err.trim()).error.code, 66);
    bench.sql("UPDATE tenure_record SET record = substr(record, 1, 9) WHERE key = 'k'");
    let damaged = bench.run(&["show", "k", "--json"]);
    assert!(document::<is::Record>(&damaged.out).problem.is_some());
    let removed: is::Rm = ok(&bench, &["rm", "--damaged", "k", "--yes", "--json"]);
    assert!(removed.removed && !removed.copy.is_empty());
    let _: is::Gc = ok(&bench, &["gc", "--older-than", "0s", "--dry-run", "--json"]);
    let doctor: is::Doctor = ok(&bench, &["doctor", "--json"]);
    assert!(!doctor.checks.is_empty());
    let _: is::Config = ok(&bench, &["config", "--json"]);
    let measured: is::Bench = ok(&bench, &["bench", "--seconds", "0.2", "--tasks", "1", "--json"]);
    assert!(measured.acquire.count > 0);
}

#[cfg(feature = "less")]
#[test]
fn who_leads_on_the_table_of_less() {
    let bench = Bench::new();
    let table = "sqlite:jobs.db?dialect=less&skew_ms=100";
    let made = bench.run(&["doctor", "--create-table", "--store", table]);
    assert_eq!(made.code, 0, "{made:?}");
    let _elect = bench.start(&["elect", "k", "--store", table, "--ttl", "2s", "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    let leads: is::Leader = ok(&bench, &["leader", "k", "--store", table, "--json"]);
    let leading = leads.leader.unwrap();
    assert!(leading.until.is_some() && leading.fence.is_none() && leading.since.is_none(), "{leading:?}");
}

#[test]
fn sections_and_semaphores() {
    let bench = Bench::new();
    let inner = format!("{} show section/s --json", env!("CARGO_BIN_EXE_tenure"));
    let shown = bench.run(&["range", "s", "0..30", "--", "sh", "-c", &inner]);
    assert_eq!(document::<is::Record>(&shown.out).leases.unwrap().len(), 1);
    let freed: is::Reclaim = ok(&bench, &["reclaim", "s", "--yes", "--json"]);
    assert_eq!(freed.section, "section/s");
    let inner = format!("{} show semaphore/s --json", env!("CARGO_BIN_EXE_tenure"));
    let shown = bench.run(&["run", "s", "--permits", "3", "--", "sh", "-c", &inner]);
    assert_eq!(document::<is::Record>(&shown.out).semaphore.unwrap().permits, Some(3));
}

#[test]
fn a_lease_for_a_program() {
    let bench = Bench::new();
    let mut hold = bench.tenure(&["hold", "k", "--json", "--max", "600ms"]);
    let mut hold = hold.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // It would give the lease back at the end of this.
    let _input = hold.stdin.take();
    let ran = Ran::of(hold.wait_with_output().unwrap());
    let events: Vec<is::Event> = ran.out.lines().map(document).collect();
    assert_eq!(events.first().map(|event| event.event.as_str()), Some("acquired"), "{ran:?}");
    assert!(events.first().is_some_and(|event| event.deadline.is_some()), "{ran:?}");
}

#[test]
fn jobs() {
    let bench = Bench::new();
    let work = bench.run(&[
        "work",
        "--name",
        "j",
        "--retries",
        "0",
        "--json",
        "a",
        "b",
        "--",
        "test",
        "{}",
        "=",
        "a",
    ]);
    let summary: is::Work = document(&work.out);
    assert_eq!((work.code, summary.done), (1, 1));
    let failed: Vec<_> =
        summary.failed_units.iter().map(|unit| (unit.unit.as_str(), unit.exit, unit.attempts)).collect();
    assert_eq!(failed, [("b", Some(1), Some(1))]);
    let record: is::Record = ok(&bench, &["show", "work/j/b", "--json"]);
    assert_eq!(record.job.and_then(|job| job.status).as_deref(), Some("failed"));
    let listed: is::Jobs = ok(&bench, &["work", "ls", "--json"]);
    assert_eq!(listed.jobs.len(), 1);
    let status: is::JobStatus = ok(&bench, &["work", "status", "j", "--json"]);
    assert_eq!(status.failed_units.first().map(|unit| unit.exit), Some(Some(1)));
    assert_eq!(ok::<is::Retried>(&bench, &["work", "retry", "j", "--json"]).retried, 1);
    let mut work = bench.start(&["work", "--name", "j", "--join", "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    let status: is::JobStatus = ok(&bench, &["work", "status", "j", "--json"]);
    assert_eq!((status.workers.len(), status.running_units.len()), (1, 1));
    work.signal(Signal::SIGTERM);
    work.wait();
    let again = ["work", "--name", "k", "-p", "2", "--backoff", "1h", "c", "--", "sh", "-c", "exit 7"];
    let _again = bench.start(&again);
    let waiting = wait_for("it to fail", || {
        let ran = bench.run(&["work", "status", "k", "--json"]);
        (ran.code == 0).then(|| document::<is::JobStatus>(&ran.out).retrying_units.pop()).flatten()
    });
    assert_eq!((waiting.unit.as_str(), waiting.exit, waiting.due.is_some()), ("c", Some(7), true));
    assert_eq!(ok::<is::Forgotten>(&bench, &["work", "rm", "j", "--yes", "--json"]).left, 0);
}

#[test]
fn fleets() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "u0", "u1", "--needs", "gpu"]).code, 0);
    let worker = bench.worker(&["--join"], TICKS);
    bench.name_of(&worker);
    let fleets: is::Fleets = ok(&bench, &["fleet", "ls", "--json"]);
    assert_eq!(fleets.fleets.first().map(|fleet| fleet.units), Some(2));
    let units: is::Units = ok(&bench, &["fleet", "units", "f", "--json"]);
    assert!(units.units.iter().all(|unit| unit.needs == ["gpu"]));
    let workers: is::Workers = ok(&bench, &["fleet", "workers", "f", "--json"]);
    assert_eq!(workers.workers.len(), 1);
    let told = || {
        let fleets: is::Fleets = ok(&bench, &["fleet", "ls", "--json"]);
        fleets.fleets.into_iter().find(|fleet| fleet.plan_age_ms.is_some() && fleet.plan_told.is_some())
    };
    assert!(wait_for("the plan to be told", told).moves.is_empty());
    bench.sql("UPDATE tenure_record SET record = x'00' WHERE key = 'fleet/f/unit/u1'");
    let units: is::Units = ok(&bench, &["fleet", "units", "f", "--json"]);
    let damaged: Vec<_> = units.damaged.iter().map(|record| (record.key.as_str(), record.newer)).collect();
    assert_eq!(damaged, [("fleet/f/unit/u1", false)]);
    assert_eq!(bench.run(&["fleet", "add", "g", "u"]).code, 0);
    let shown: is::FleetForgotten = ok(&bench, &["fleet", "rm", "--all", "g", "--dry-run", "--json"]);
    assert!(shown.dry_run && shown.removed == 0 && shown.removable == ["fleet/g/unit/u", "fleet/g/board"]);
    let gone: is::FleetForgotten = ok(&bench, &["fleet", "rm", "--all", "g", "--yes", "--json"]);
    assert_eq!((gone.dry_run, gone.removed, gone.left), (false, 2, 0));
}

#[test]
fn simulations() {
    let bench = Bench::new();
    let report: is::Sim = ok(&bench, &["sim", "--hours", "1", "--json"]);
    assert!(report.worlds > 0 && report.broken.is_none());
    let list: is::SimList = ok(&bench, &["sim", "--list", "--json"]);
    assert!(!list.promises.is_empty());
}

/// The verbs with what they print. `fleet add` and such print nothing, and `fleet rm` does with `--all`.
fn all() -> Vec<(&'static str, Schema)> {
    fn of<T: JsonSchema>(verb: &'static str) -> (&'static str, Schema) {
        (verb, schema_for!(T))
    }
    vec![
        of::<is::Ls>("ls"),
        of::<is::Record>("show"),
        of::<is::Leader>("leader"),
        of::<is::Event>("hold"),
        of::<is::Release>("release"),
        of::<is::Revoke>("revoke"),
        of::<is::Rm>("rm"),
        of::<is::Reclaim>("reclaim"),
        of::<is::Gc>("gc"),
        of::<is::Doctor>("doctor"),
        of::<is::Config>("config"),
        of::<is::Bench>("bench"),
        of::<is::Work>("work"),
        of::<is::Jobs>("work-ls"),
        of::<is::JobStatus>("work-status"),
        of::<is::Retried>("work-retry"),
        of::<is::Forgotten>("work-rm"),
        of::<is::Fleets>("fleet-ls"),
        of::<is::Units>("fleet-units"),
        of::<is::Workers>("fleet-workers"),
        of::<is::FleetForgotten>("fleet-rm"),
        of::<is::Sim>("sim"),
        of::<is::SimList>("sim-list"),
        of::<is::Failed>("error"),
    ]
}

#[test]
fn no_verb_that_prints_json_is_forgotten() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["man", "--install", "man"]).code, 0);
    let known: Vec<&str> = all().iter().map(|(verb, _)| *verb).collect();
    for page in std::fs::read_dir(bench.path("man/man1")).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        let verb = name.trim_start_matches("tenure-").trim_end_matches(".1");
        if bench.read(&format!("man/man1/{name}")).contains("\\-\\-json\\fR") {
            assert!(known.contains(&verb), "what {verb} --json prints is documented nowhere");
        }
    }
}

#[test]
fn each_field_is_described() {
    let mut bare = Vec::new();
    let mut count = 0;
    for (verb, schema) in all() {
        let value = schema.to_value();
        let inner = value["$defs"].as_object().into_iter().flatten();
        for (name, kind) in inner.map(|(name, kind)| (name.as_str(), kind)).chain([("", &value)]) {
            for (field, is) in kind["properties"].as_object().into_iter().flatten() {
                count += 1;
                if is["description"].as_str().is_none_or(|about| about.trim().is_empty()) {
                    bare.push(format!("{verb} {name} {field}"));
                }
            }
        }
    }
    assert!(count > 250, "{count}");
    assert!(bare.is_empty(), "give these a comment in tests/json/documents:\n{}", bare.join("\n"));
}

#[test]
fn the_page_and_the_schemas_are_up_to_date() {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut files = BTreeMap::from([(docs.join("json.md"), page())]);
    for (verb, schema) in all() {
        let text = format!("{:#}\n", schema.to_value());
        files.insert(docs.join(format!("json/{verb}.schema.json")), text);
    }
    if std::env::var_os("TENURE_UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(docs.join("json")).unwrap();
        for (path, text) in &files {
            std::fs::write(path, text).unwrap();
        }
    }
    for (path, text) in files {
        let is = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(is == text, "{} is old: TENURE_UPDATE_DOCS=1 makes it anew", path.display());
    }
}

const HEAD: &str = "\
# What `--json` prints

One document on standard output, but for `hold` and `leader --follow`, which print one in each line. Dates are RFC 3339 in UTC; fields whose names end in `_ms`
are milliseconds. *or null* also means that the field may be missing. Fields are added in later versions, and none changes its meaning. The same as JSON Schema, made of
the same source, is in [json](json); a test reads what each verb prints by it, and refuses fields that are not here.

`work` prints its document as one line, the last one: what its commands write to standard output stands before it (`tail -n 1`), and perhaps an empty line. Let them write elsewhere if a program is to read standard output
whole. After a second signal there is no document.

When a verb fails with `--json`, the last line of standard error is an object `error`. Four verbs tell of their failure in their document instead: `work` (what failed), `leader` (nobody
leads), `show` (the record is damaged) and `doctor` (its checks). Other lines there begin with `tenure:` and are for people.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (verb, schema) in all() {
        let title = if verb == "error" { "Errors".to_owned() } else { format!("`{}`", title(verb)) };
        let value = schema.to_value();
        page.push_str(&format!("\n## {title}\n"));
        let about = value["description"].as_str().unwrap_or_default();
        page.push_str(&format!("\n{about}\n\n{}", fields(&value)));
        for (name, inner) in value["$defs"].as_object().into_iter().flatten() {
            // That of `show` is told there.
            if verb != "ls" {
                let about =
                    inner["description"].as_str().map_or_else(String::new, |about| format!(": {about}"));
                page.push_str(&format!("\n{name}{about}\n\n{}", fields(inner)));
            }
        }
    }
    page
}

fn title(verb: &str) -> String {
    if verb == "sim-list" { "sim --list".to_owned() } else { verb.replace('-', " ") }
}

fn fields(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> =
            words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return format!("One of {}.\n", words.join(", "));
    }
    let mut text = "| field | is | |\n|---|---|---|\n".to_owned();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        // A row of a table is one line.
        let about = field["description"].as_str().unwrap_or_default().replace('\n', " ");
        text.push_str(&format!("| `{name}` | {} | {about} |\n", kind(field)));
    }
    text
}

fn kind(field: &Value) -> String {
    let simple = |kind: &str| match kind {
        "string" => "text".to_owned(),
        "array" => format!("list of {}", kind_of_many(&field["items"])),
        "object" => match &field["additionalProperties"] {
            Value::Object(_) => format!("object of {}", kind_of_many(&field["additionalProperties"])),
            _ => "object".to_owned(),
        },
        other => other.to_owned(),
    };
    if let Some(named) = field["$ref"].as_str() {
        return named.rsplit('/').next().unwrap_or_default().to_owned();
    }
    match (&field["type"], field["anyOf"].as_array()) {
        (Value::String(kind), _) => simple(kind),
        (Value::Array(kinds), _) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            kinds.iter().map(|kind| simple(kind)).collect::<Vec<_>>().join(" or ")
        }
        (_, Some(any)) => any.iter().map(kind).collect::<Vec<_>>().join(" or "),
        _ => "anything".to_owned(),
    }
}

fn kind_of_many(items: &Value) -> String {
    let kind = kind(items);
    if kind == "text" { "texts".to_owned() } else { kind }
}
