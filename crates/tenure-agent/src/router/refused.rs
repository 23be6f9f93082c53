//! What is refused has done nothing, and what is given up is told.
//!
//! Plan: a join that is refused has made no units; a forced release of an agent that stops is refused, and one that is under way ends with the agent.

use super::tests::RouterFixture;
use serde_json::{Value, json};

#[test]
fn a_join_that_is_refused_has_made_no_units() {
    let served = RouterFixture::new();
    for wish in [
        json!({"units": ["u"], "about": {"tenure": "x"}}),
        json!({"units": ["u"], "about": {"what": "x".repeat(60_000)}}),
        json!({"units": ["u"], "ttl_ms": u64::MAX}),
        json!({"units": ["u"], "labels": (0..400).map(|n| format!("{n:0>100}")).collect::<Vec<_>>()}),
    ] {
        let (status, answer) = served.ask("POST", "/v1/fleets/f/workers", wish.to_string().into_bytes());
        assert_eq!(status, 400, "{answer}");
        let (_, listed) = served.ask("GET", "/v1/leases?prefix=fleet%2F", Vec::new());
        assert_eq!(listed["leases"], json!([]), "{answer}");
    }
}

#[test]
fn a_forced_release_ends_with_the_agent_and_none_begins_after_that() {
    let served = RouterFixture::new();
    let acquire = |key: &str| {
        let (status, told) = served.ask("POST", "/v1/leases", json!({ "key": key }).to_string().into_bytes());
        assert_eq!(status, 201, "{told}");
        told["fence"].clone()
    };
    let release = |key: &str, fence: &Value| {
        let path = format!("/v1/records/{key}/release");
        served.ask("POST", &path, json!({ "fence": fence }).to_string().into_bytes())
    };
    let (first, second) = (acquire("first"), acquire("second"));
    assert_eq!(release("first", &first).0, 202);
    let seizures = &served.agent.shared.seizures;
    assert_eq!(seizures.count(), 1);
    served.runtime.block_on(seizures.stop());
    assert_eq!(seizures.count(), 0);
    let (status, answer) = release("second", &second);
    assert_eq!((status, &answer["code"]), (503, &json!("stopping")), "{answer}");
}
