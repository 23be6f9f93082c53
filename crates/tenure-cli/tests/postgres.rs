//! The command line on PostgreSQL, which `cargo xtask services up` starts.
//!
//! Plan: the schema is made by doctor and by nothing else; run, ls, show, a fence that grows; two at once, of which one waits and is
//! woken; a job shared by two processes; a killed holder's key is taken over; what is wrong with the URL is said without secrets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

mod common;

use common::{Bench, Ran};

struct Schema {
    bench: Bench,
    url: String,
}

/// A schema that does not exist yet.
fn schema(name: &str) -> Schema {
    let server = std::env::var("TENURE_TEST_POSTGRES").expect(
        "TENURE_TEST_POSTGRES does not say where PostgreSQL listens: `cargo xtask services up` starts it and prints that",
    );
    let url = format!("{server}?schema=cli_{name}_{}", std::process::id());
    Schema { bench: Bench::new(), url }
}

impl Schema {
    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.bench.tenure(arguments).env("TENURE_STORE", &self.url).output().unwrap())
    }

    fn make(&self) {
        let ran = self.run(&["doctor", "--create-table"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}

#[test]
fn the_schema_is_made_by_doctor_and_by_nothing_else() {
    let schema = schema("made");
    let ran = schema.run(&["run", "k", "--", "true"]);
    assert!(ran.code != 0 && ran.err.contains("doctor --create-table"), "{ran:?}");
    for _ in 0..2 {
        let ran = schema.run(&["doctor", "--create-table"]);
        assert!(ran.code == 0 && ran.out.contains("written, read back and removed"), "{ran:?}");
    }
    assert_eq!(schema.run(&["doctor"]).code, 0);
}

#[test]
fn a_command_runs_under_a_lease() {
    let schema = schema("run");
    schema.make();
    let fence = |ran: &Ran| ran.out.trim().parse::<u64>().unwrap_or_else(|_| panic!("{ran:?}"));
    let first = schema.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE"]);
    let second = schema.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE; exit 7"]);
    assert_eq!((first.code, second.code), (0, 7), "{first:?} {second:?}");
    assert!(fence(&second) > fence(&first));
    let looking = format!("{} show k --json", env!("CARGO_BIN_EXE_tenure"));
    let held = schema.run(&["run", "k", "--", "sh", "-c", &looking]);
    assert_eq!(held.json()["state"], "held", "{held:?}");
    let tried = format!("{} run k --try -- true; echo $?", env!("CARGO_BIN_EXE_tenure"));
    let ran = schema.run(&["run", "k", "--", "sh", "-c", &tried]);
    assert_eq!(ran.out, "75\n", "held by another: {ran:?}");
}

#[test]
fn a_job_is_shared() {
    let schema = schema("work");
    schema.make();
    let start = || {
        let arguments =
            ["work", "--name", "j", "--parallel", "4", "--", "sh", "-c", "echo $1 >> done.txt", "x", "{}"];
        let mut command = schema.bench.tenure(&arguments);
        command.env("TENURE_STORE", &schema.url).stdin(std::process::Stdio::piped());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let units: String = (0..40).map(|n| format!("u{n}\n")).collect();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), units.as_bytes()).unwrap();
        child
    };
    for child in [start(), start()] {
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let listing = schema.run(&["ls", "--all", "--json"]).json();
    assert!(listing["leases"].as_array().is_some(), "{listing}");
    let text = std::fs::read_to_string(schema.bench.path("done.txt")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!((text.lines().count(), lines.len()), (40, 40), "each unit was run once");
}

#[test]
fn what_is_wrong_is_said_without_secrets() {
    let bench = Bench::new();
    for (url, says) in [
        ("postgres://u:hush@127.0.0.1:1/d", "is a PostgreSQL server listening there"),
        ("postgres://u:hush@h/d?shcema=x", "shcema"),
        ("postgresql://u:hush@h/d?schema=public", "of tenure's own"),
    ] {
        let ran = Ran::of(bench.tenure(&["ls"]).env("TENURE_STORE", url).output().unwrap());
        assert!(ran.code != 0 && ran.err.contains(says) && !ran.err.contains("hush"), "{ran:?}");
    }
}
