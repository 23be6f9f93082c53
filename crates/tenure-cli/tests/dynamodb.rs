//! The command line on a store behind a service: DynamoDB Local, which `cargo xtask services up` starts.
//!
//! Plan: the table is made by doctor and by nothing else, and every check of `crate::common::every_store` holds on it; what a role may not do is
//! told, and doctor goes on with what it may; a fleet runs in shards.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::remote::{Remote, told};
use crate::common::{Bench, service};

fn url(name: &str) -> String {
    let table = format!("cli-{name}-{}", std::process::id());
    let endpoint = told("TENURE_TEST_DYNAMODB");
    // An emulator that was just started takes its time.
    format!("dynamodb://{table}?region=eu-west-1&endpoint={endpoint}&namespace=tests&timeout_ms=60000")
}

/// A namespace of one table that all share.
fn namespace(name: &str) -> Remote {
    static TABLE: std::sync::Once = std::sync::Once::new();
    TABLE.call_once(|| drop(Remote::made(url("shared"))));
    Remote::at(url("shared").replace("=tests", &format!("={name}")))
}

crate::every_store!(super::namespace);

#[test]
fn the_table_is_made_by_doctor_and_by_nothing_else() {
    let table = Remote::at(url("made"));
    let ran = table.run(&["run", "k", "--", "true"]);
    assert_eq!(ran.code, 69, "{ran:?}");
    assert!(ran.err.contains("no such table") && ran.err.contains("doctor --create-table"), "{ran:?}");
    let ran = table.run(&["doctor"]);
    assert_eq!(ran.code, 69, "{ran:?}");
    let ran = table.run(&["doctor", "--json"]);
    assert!(ran.code == 69 && ran.json()["checks"][0]["check"] == "reach", "{ran:?}");
    for _ in 0..2 {
        let ran = table.run(&["doctor", "--create-table"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let told = [
            "written, read back and removed",
            "billed on demand",
            "clock offset",
            "a ttl of 12s or more suits fleets",
        ];
        assert!(told.iter().all(|told| ran.out.contains(told)) && !ran.out.contains("endpoint"), "{ran:?}");
    }
    let bench = Bench::new();
    assert_eq!(bench.run(&["run", "k", "--", "true"]).code, 0);
    assert!(
        !bench.run(&["doctor"]).out.contains("or more suits fleets"),
        "any ttl is long enough for SQLite"
    );
    let ran = bench.run(&["doctor", "--create-table"]);
    assert!(ran.code == 64 && ran.err.contains("made when it is first used"), "{ran:?}");
}

#[test]
fn what_a_role_may_not_do_is_told_and_the_rest_is_done() {
    let table = namespace("rights");
    assert_eq!(table.run(&["run", "k", "--", "true"]).code, 0);
    let with = |refused: &'static str| {
        let between = service::that_refuses(&told("TENURE_TEST_DYNAMODB"), refused);
        Remote::at(table.url.replace(&told("TENURE_TEST_DYNAMODB"), &between)).run(&["doctor"])
    };
    let ran = with("UpdateItem");
    for told in ["this user may not write", "access denied", "a read takes", "0 held, "] {
        assert!(ran.code == 2 && ran.out.contains(told), "{told}: {ran:?}");
    }
    let ran = with("DeleteItem");
    assert!(
        ran.code == 0 && ran.out.contains("may not remove records") && ran.out.contains("one winner each"),
        "{ran:?}"
    );
    let ran = with("Query");
    assert!(
        ran.code == 2 && ran.out.contains("may not list") && ran.out.contains("one winner each"),
        "{ran:?}"
    );
}

#[test]
fn a_fleet_runs_in_a_namespace_of_shards_and_whoever_says_another_number_is_refused() {
    let flat = namespace("spread");
    let spread = Remote::at(format!("{}&shards=4", flat.url));
    crate::common::every_store::a_fleet_is_run_and_changed(&spread);
    let ran = spread.run(&["doctor"]);
    for told in ["the namespace is spread over 4", "of 4000 write units", "of 12000 read units"] {
        assert!(ran.out.contains(told), "{told}: {ran:?}");
    }
    for verb in [&["ls"][..], &["run", "k", "--", "true"]] {
        let ran = flat.run(verb);
        assert!(ran.code == 64 && ran.err.contains("say shards=4"), "{ran:?}");
    }
}
