//! The command line on a store behind a service: DynamoDB Local, which `cargo xtask services up` starts.
//!
//! Plan: the table is made by doctor and by nothing else; run, ls, show on it, a fence that grows, and
//! a try that is refused; what is wrong with the URL, the table or the credentials is said without secrets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

mod common;

use common::Ran;
use common::remote::{Remote, told};

/// A table that does not exist yet.
fn table(name: &str) -> Remote {
    let (endpoint, name) = (told("TENURE_TEST_DYNAMODB"), format!("cli-{name}-{}", std::process::id()));
    Remote::at(format!("dynamodb://{name}?region=eu-west-1&endpoint={endpoint}&namespace=tests"))
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
    table.runs_commands_under_a_lease();
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
