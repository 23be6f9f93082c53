//! The command line on PostgreSQL, which `cargo xtask services up` starts.
//!
//! Plan: the schema is made by doctor and by nothing else, and every check of `crate::common::every_store` holds on it; doctor tells what can
//! lose commits, what a role lacks, and that a pooler stands between.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::remote::{Remote, told, well};

fn url(server: &str, name: &str) -> String {
    let name: String = name.chars().take(20).collect();
    format!("{}?schema=cli_{name}_{}&timeout-ms=60000", told(server), std::process::id())
}

fn schema(name: &str) -> Remote {
    Remote::made(url("TENURE_TEST_POSTGRES", name))
}

crate::every_store!(super::schema);

#[test]
fn the_schema_is_made_by_doctor_and_by_nothing_else() {
    let schema = Remote::at(url("TENURE_TEST_POSTGRES", "made"));
    let ran = schema.run(&["run", "k", "--", "true"]);
    assert!(ran.code == 64 && ran.err.contains("doctor --create-table"), "{ran:?}");
    let ran = schema.run(&["doctor"]);
    assert!(ran.code == 64 && ran.err.contains("doctor --create-table"), "{ran:?}");
    for _ in 0..2 {
        let ran = schema.run(&["doctor", "--create-table"]);
        assert!(well(&ran) && ran.out.contains("written, read back and removed"), "{ran:?}");
    }
}

#[test]
fn doctor_tells_what_can_lose_commits_and_what_stands_between() {
    let schema = schema("hazards");
    let ran = schema.run(&["doctor"]);
    // The tests' server is one that must not wait for its disk.
    for told in
        ["fsync off", "no standby is connected", "clock offset", "waiters are woken", "a change is told of"]
    {
        assert!(ran.code == 2 && ran.out.contains(told), "{told}: {ran:?}");
    }
    assert!(!ran.out.contains("pooler"), "{ran:?}");
    let pooled = schema.url.replace(&told("TENURE_TEST_POSTGRES"), &told("TENURE_TEST_PGBOUNCER"));
    let ran = Remote::at(pooled.clone()).run(&["doctor"]);
    for told in ["so waiters poll; with push=off in the URL", "no change was told of", "one winner each"] {
        assert!(ran.code == 2 && ran.out.contains(told), "{told}: {ran:?}");
    }
    let ran = Remote::at(format!("{pooled}&push=off")).run(&["doctor"]);
    assert!(
        well(&ran) && ran.out.contains("so waiters poll") && !ran.out.contains("no change was told"),
        "{ran:?}"
    );
}
