//! The command line on PostgreSQL, which `cargo xtask services up` starts.
//!
//! Plan: the schema is made by doctor and by nothing else; run, ls, show, a fence that grows; a job shared by two processes; what is
//! wrong with the URL is said without secrets.

mod common;

use common::remote::{Remote, is_refused_without_secrets, told};

/// A schema that does not exist yet.
fn schema(name: &str) -> Remote {
    Remote::at(format!("{}?schema=cli_{name}_{}", told("TENURE_TEST_POSTGRES"), std::process::id()))
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
    schema.runs_commands_under_a_lease();
}

#[test]
fn a_job_is_shared() {
    let schema = schema("work");
    schema.make();
    schema.shares_a_job();
}

#[test]
fn what_is_wrong_is_said_without_secrets() {
    for (url, says) in [
        ("postgres://u:hush@127.0.0.1:1/d", "is a PostgreSQL server listening there"),
        ("postgres://u:hush@h/d?shcema=x", "shcema"),
        ("postgresql://u:hush@h/d?schema=public", "of tenure's own"),
    ] {
        is_refused_without_secrets(url, says);
    }
}
