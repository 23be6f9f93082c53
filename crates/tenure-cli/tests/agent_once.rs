//! Ticks that run once, by the agent.
//!
//! Plan: of two agents one runs a tick, and the other is told so, also how it ended; a tick whose client is silent has run, or is run again after the deadline
//! where it is to run at least once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::agent::{Agent, Told};
use crate::common::{Bench, now_ms};
use serde_json::json;
use std::time::Duration;
use tenure::clock::boottime;

/// The write that wins may have been on its way when the key became free.
const ON_ITS_WAY: Duration = Duration::from_millis(60);

#[test]
fn a_tick_runs_once_over_all_agents_and_how_it_ended_is_told() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--ttl", "20s"]);
    let socket = bench.path("second.sock");
    let second =
        Agent::of(bench.tenure(&["serve", "--listen", &format!("unix:{}", socket.display())]), socket);
    let (mut one, mut two) = (agent.client(), second.client());
    let tick = |late: i64| json!({"key": "report", "tick_ms": now_ms() / 60_000 * 60_000 - late * 60_000});
    let earlier = tick(2);
    let begun = one.post("/v1/once", &earlier);
    assert_eq!((begun.status, &begun.body["key"]), (201, &json!("once/report")), "{begun:?}");
    let busy = two.post("/v1/once", &earlier);
    assert!(busy.status == 409 && ["held", "ran"].contains(&busy.body["code"].as_str().unwrap()), "{busy:?}");
    let told = Told(begun.body);
    assert_eq!(one.beat(&told).status, 200);
    let wrong = one.post(&format!("/v1/units/{}/done", told.id()), &json!({}));
    assert_eq!(wrong.status, 400, "{wrong:?}");
    let ended = one.post(&format!("/v1/once/{}/end", told.id()), &json!({"is_well": false, "says": "oh no"}));
    assert_eq!(ended.body, json!({"released": true}), "{ended:?}");
    for client in [&mut one, &mut two] {
        let ran = client.post("/v1/once", &earlier);
        assert_eq!((ran.status, &ran.body["code"]), (409, &json!("ran")), "{ran:?}");
        assert!(ran.body["message"].as_str().unwrap().contains("oh no"), "{ran:?}");
        assert_eq!(ran.body["fence"], told.0["fence"]);
    }
    // The next one is due, and the one before has run.
    let begun = two.post("/v1/once", &tick(1));
    assert!(begun.status == 201 && begun.body["fence"].as_u64() > told.0["fence"].as_u64(), "{begun:?}");
    let told = Told(begun.body);
    two.post(&format!("/v1/once/{}/end", told.id()), &json!({"is_well": true}));
    assert_eq!(one.post("/v1/once", &earlier).body["code"], "ran");
    // By its period: the last one that is due.
    let hourly = json!({"key": "hourly", "every_ms": 3_600_000});
    let begun = one.post("/v1/once", &hourly);
    assert_eq!(begun.status, 201, "{begun:?}");
}

#[test]
fn a_tick_whose_client_is_silent_has_run_unless_it_is_to_run_at_least_once() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--ttl", "60s"]);
    let mut client = agent.client();
    let wish = |key: &str, again: bool, wait: u64| json!({"key": key, "tick_ms": 60_000 * (now_ms() / 60_000), "at_least_once": again, "wait_ms": wait, "ttl_ms": 2000});
    let (most, least) = (wish("most", false, 60_000), wish("least", true, 60_000));
    let told = Told(client.post("/v1/once", &most).body);
    let told_again = Told(client.post("/v1/once", &least).body);
    let again = client.post("/v1/once", &least);
    assert_eq!(again.status, 201, "{again:?}");
    assert!(boottime() + ON_ITS_WAY > told_again.deadline(), "too soon");
    assert!(again.body["fence"].as_u64() > told_again.0["fence"].as_u64());
    // By now the other is over, too.
    let late = client.beat(&told);
    assert_eq!(late.status, 410, "{late:?}");
    let ran = client.post("/v1/once", &most);
    assert_eq!((ran.status, &ran.body["code"]), (409, &json!("ran")), "{ran:?}");
}
