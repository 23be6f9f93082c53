//! The command line on a store behind a service: DynamoDB Local, which `cargo xtask services up` starts.
//!
//! Plan: the table is made by doctor and by nothing else; run, ls, show and release on it; two at once, of which one waits its
//! turn; what is wrong with the URL, the table or the credentials is said without secrets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

mod common;

use common::{Bench, Ran};

struct Table {
    bench: Bench,
    url: String,
}

/// A table that does not exist yet.
fn table(name: &str) -> Table {
    let endpoint = std::env::var("TENURE_TEST_DYNAMODB").expect(
        "TENURE_TEST_DYNAMODB does not say where DynamoDB Local listens: `cargo xtask services up` starts it and prints that",
    );
    let name = format!("cli-{name}-{}", std::process::id());
    let url = format!("dynamodb://{name}?region=eu-west-1&endpoint={endpoint}&namespace=tests");
    Table { bench: Bench::new(), url }
}

impl Table {
    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.bench.tenure(arguments).env("TENURE_STORE", &self.url).output().unwrap())
    }

    fn make(&self) {
        let ran = self.run(&["doctor", "--create-table", "--json"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}

#[test]
fn the_table_is_made_by_doctor_and_by_nothing_else() {
    let table = table("made");
    let ran = table.run(&["run", "k", "--", "true"]);
    assert_eq!(ran.code, 69, "{ran:?}");
    assert!(ran.err.contains("no such table") && ran.err.contains("doctor --create-table"), "{ran:?}");
    let ran = table.run(&["doctor"]);
    assert_eq!(ran.code, 69, "{ran:?}");
    for _ in 0..2 {
        let ran = table.run(&["doctor", "--create-table"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(
            ran.out.contains("written, read back and removed") && !ran.out.contains("endpoint"),
            "{ran:?}"
        );
    }
    let ran = table.run(&["doctor"]);
    assert!(ran.code == 0 && ran.out.contains("a ttl of 12s or more keeps looks small"), "{ran:?}");
    assert!(
        !table.bench.run(&["doctor"]).out.contains("keeps looks small"),
        "any ttl is long enough for SQLite"
    );
    let ran = table.bench.run(&["doctor", "--create-table"]);
    assert!(ran.code == 64 && ran.err.contains("made when it is first used"), "{ran:?}");
}

#[test]
fn a_command_runs_under_a_lease() {
    let table = table("run");
    table.make();
    let fence = |ran: &Ran| ran.out.trim().parse::<u64>().unwrap_or_else(|_| panic!("{ran:?}"));
    let first = table.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE"]);
    let second = table.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE; exit 7"]);
    assert_eq!((first.code, second.code), (0, 7), "{first:?} {second:?}");
    assert!(fence(&second) > fence(&first));
    // The command looks at its own lease, and finds it held.
    let looking = format!("{} show k --json", env!("CARGO_BIN_EXE_tenure"));
    let held = table.run(&["run", "k", "--", "sh", "-c", &looking]);
    assert_eq!(held.json()["state"], "held", "{held:?}");
    assert_eq!(table.run(&["show", "k", "--json"]).json()["state"], "vacant");
    let listing = table.run(&["ls", "--all", "--json"]).json();
    assert!(listing["leases"].as_array().unwrap().iter().any(|lease| lease["key"] == "k"), "{listing}");
    let tried = format!("{} run k --try -- true; echo $?", env!("CARGO_BIN_EXE_tenure"));
    let ran = table.run(&["run", "k", "--", "sh", "-c", &tried]);
    assert_eq!(ran.out, "75\n", "held by another: {ran:?}");
}

#[test]
fn what_is_wrong_is_said_without_secrets() {
    let table = table("wrong");
    let failing = |url: &str, code: i32, says: &str| {
        let ran = Ran::of(table.bench.tenure(&["ls", "-s", url]).output().unwrap());
        assert_eq!(ran.code, code, "{url}: {ran:?}");
        assert!(ran.err.contains(says) && !ran.err.contains("hidden"), "{url}: {ran:?}");
    };
    failing("dynamodb://key:hidden@jobs", 64, "AWS_PROFILE");
    failing("dynamodb://jobs?password=hidden", 64, "no option \"password\"");
    failing("dynamodb://jobs?region=eu-west-1&endpoint=http://127.0.0.1:9", 69, "can't be reached");
    failing("dynamodb://jobs?region=eu-west-1&endpoint=http://10.1.2.3", 64, "plain_text=yes");
}
