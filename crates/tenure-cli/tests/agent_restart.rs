//! An agent that is started anew tells the clients of the former one that it knows nothing of what they have. One that outlives an outage of its store has
//! a session again before anybody asks for a lease.
//!
//! Plan: a lease, a unit with its worker, a range and a tick of an agent that is killed, or told to end: who listens or waits hears that it has ended, and each
//! request for the old ids is answered by what has happened, and ends nothing. Nobody else has any of it before its deadline: that is S9, in the tests of each.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::agent::Agent;
use crate::common::{Bench, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn a_new_agent_says_of_all_that_was_told_before_that_it_knows_nothing_of_it() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let bench = Bench::new();
        let mut agent = Agent::start(&bench, &["--ttl", "2s"]);
        let mut client = agent.client();
        let mut id = |path: &str, wish: Value| -> String {
            let answer = client.post(path, &wish);
            assert!(answer.status == 200 || answer.status == 201, "{path}: {answer:?}");
            answer.body["id"].as_str().unwrap().to_owned()
        };
        let lease = id("/v1/leases", json!({"key": "k"}));
        let range = id("/v1/sections/mail/leases", json!({"range": "0_80", "for_ms": 2000}));
        let tick = id("/v1/once", json!({"key": "t", "every_ms": 3_600_000}));
        let worker = id("/v1/fleets/f/workers", json!({"units": ["u"], "ttl_ms": 2000}));
        let next = format!("/v1/workers/{worker}/next");
        let unit = id(&next, json!({"wait_ms": 60_000}));
        let events = agent.client().listen();
        agent.process.signal(signal);
        events.end();
        agent.process.wait();
        drop(agent);

        let agent = Agent::start(&bench, &["--ttl", "2s"]);
        let mut client = agent.client();
        for (method, path, body) in [
            ("POST", format!("/v1/leases/{lease}/beat"), json!({})),
            ("DELETE", format!("/v1/leases/{lease}"), json!({})),
            ("POST", format!("/v1/leases/{range}/beat"), json!({})),
            ("DELETE", format!("/v1/leases/{range}"), json!({})),
            ("POST", format!("/v1/once/{tick}/end"), json!({"is_well": true})),
            ("POST", next, json!({})),
            ("DELETE", format!("/v1/workers/{worker}"), json!({})),
            ("POST", format!("/v1/units/{unit}/done"), json!({})),
            ("POST", format!("/v1/units/{unit}/failed"), json!({})),
            ("POST", format!("/v1/units/{unit}/checkpoint"), json!({"value": "half"})),
        ] {
            let told = client.ask(method, &path, Some(&body));
            assert_eq!((told.status, &told.body["code"]), (404, &json!("not_found")), "{path}: {told:?}");
            assert!(told.body["message"].as_str().unwrap().contains("started anew"), "{path}: {told:?}");
        }
        let beaten = client.post("/v1/beats", &json!({"ids": [lease, unit, range, tick]})).body;
        let beaten = beaten["leases"].as_array().unwrap();
        assert_eq!(beaten.len(), 4);
        for told in beaten {
            assert!(told["over"].as_str().unwrap().contains("started anew"), "{told}");
        }
        assert_ne!(bench.unit("u")["stage"], "done", "its word on an old unit counts for nothing");
    }
}

#[test]
fn an_outage_leaves_no_agent_without_a_session() {
    let bench = Bench::new();
    let mut agent = Agent::start(&bench, &["--ttl", "1s"]);
    let mut client = agent.client();
    let mut left = || client.get("/v1/overview").body["session_left_ms"].as_u64().unwrap();
    wait_until("a session", || left() > 0);
    let writer = rusqlite::Connection::open(bench.store()).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    wait_until("its end", || left() == 0);
    // Nobody believes in it any more; it ends a fifth of the ttl later.
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(left(), 0);
    writer.execute_batch("ROLLBACK").unwrap();
    wait_until("another one", || left() > 0);
    agent.process.signal(Signal::SIGTERM);
    assert_eq!(agent.process.wait(), 143);
}
