//! Workers of another layout of fleets, by the real binary on SQLite.
//!
//! Plan: whoever comes to a fleet of an older version is told who works there and what to do, and writes nothing; once that one is gone, or
//! has been silent for long, it works.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::agent::Agent;
use crate::common::{Bench, wait_until};
use serde_json::json;
use std::time::Duration;
use tenure::store::{Nonce, Tenure};
use tenure::{Clock, HolderId, Metadata, Ttl, Value};

/// A worker of the version before, as it stood in the store, and the board that it had raised.
fn older(bench: &Bench, ttl: Duration) {
    let (holder, since) = (HolderId::new("old").unwrap(), tenure::clock::system().now().wall);
    let tenure = Tenure::new(Nonce(7), holder, Ttl::new(ttl).unwrap(), since);
    let said = Metadata::from([("letters".to_owned(), Value::Bool(true))]);
    bench.plant(
        "fleet/f/worker/old",
        Some(tenure),
        Metadata::from([("tenure".to_owned(), Value::Map(said))]),
    );
    bench.plant("fleet/f/board", None, Metadata::new());
}

#[test]
fn a_fleet_whose_workers_are_of_an_older_version_is_refused() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "u"]).code, 0);
    older(&bench, Duration::from_secs(600));
    let before = bench.run(&["ls", "--all", "--json"]).json()["leases"].clone();
    let ran = bench.run(&["work", "--forever", "--name", "f", "--", "sleep", "60"]);
    assert_eq!(ran.code, 65, "{ran:?}");
    for told in [
        "the worker old of the fleet f",
        "another version",
        "stop all workers",
        "tenure release fleet/f/worker/old",
    ] {
        assert!(ran.err.contains(told), "{told}: {ran:?}");
    }
    let after = bench.run(&["ls", "--all", "--json"]).json()["leases"].clone();
    assert_eq!(before.as_array().unwrap().len(), after.as_array().unwrap().len(), "nothing was written");
    assert_eq!(bench.run(&["release", "--now", "--yes", "fleet/f/worker/old"]).code, 0);
    let worker = bench.worker(&[], "exec sleep 60");
    wait_until("it to have the unit", || bench.units().iter().any(|unit| unit["owner"].is_string()));
    drop(worker);
}

#[test]
fn a_worker_by_the_agent_is_refused_likewise() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "u"]).code, 0);
    older(&bench, Duration::from_secs(600));
    let agent = Agent::start(&bench, &[]);
    let refused = agent.client().post("/v1/fleets/f/workers", &json!({"units": ["v"]}));
    let told = refused.body.to_string();
    assert!(refused.status == 409 && told.contains("another version"), "{refused:?}");
    assert!(bench.units().iter().all(|unit| unit["unit"] != "v"), "nothing was written");
    assert_eq!(bench.run(&["release", "--now", "--yes", "fleet/f/worker/old"]).code, 0);
    assert_eq!(agent.client().post("/v1/fleets/f/workers", &json!({})).status, 201);
}

#[test]
fn one_that_has_been_silent_for_long_stops_nobody() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "u"]).code, 0);
    older(&bench, Duration::from_millis(300));
    let mut worker = None;
    wait_until("a worker to be let in", || {
        let started = worker.get_or_insert_with(|| bench.worker(&[], "exec sleep 60"));
        if !started.is_running() {
            worker = None;
        }
        bench.units().iter().any(|unit| unit["owner"].is_string())
    });
}
