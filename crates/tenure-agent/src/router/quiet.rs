//! Others' code that panics where the agent tells of what happens.
//!
//! Plan: a recorder of metrics and a subscriber of `tracing` that panic cost no answer, and no connection its place.

use super::tests::RouterFixture;
use crate::room::ConnectionRoom;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use serde_json::json;
use tenure_testkit::listens_by;
use tracing::Level;

/// Panics at whatever it is told.
struct PanickingRecorder;

impl Recorder for PanickingRecorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        panic!("on purpose");
    }
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        panic!("on purpose");
    }
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        panic!("on purpose");
    }
    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        panic!("on purpose");
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        panic!("on purpose");
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        panic!("on purpose");
    }
}

#[test]
fn a_recorder_and_a_subscriber_that_panic_cost_no_answer() {
    let _listens = listens_by(Level::DEBUG, |_| panic!("on purpose"));
    metrics::with_local_recorder(&PanickingRecorder, || {
        let served = RouterFixture::new();
        let post = |path: &str, body: serde_json::Value| {
            let (status, answer) = served.ask("POST", path, body.to_string().into_bytes());
            assert!([201, 202].contains(&status), "{path}: {status} {answer}");
            answer
        };
        let given = post("/v1/leases", json!({"key": "given"}));
        let path = format!("/v1/leases/{}", given["id"].as_str().unwrap());
        let (status, answer) = served.ask("DELETE", &path, Vec::new());
        assert_eq!((status, &answer["released"]), (200, &json!(true)), "{answer}");
        let taken = post("/v1/leases", json!({"key": "taken"}));
        post("/v1/records/taken/revoke", json!({"fence": taken["fence"]}));
    });
}

#[test]
fn a_recorder_that_panics_keeps_no_connection_out_and_none_of_their_places() {
    metrics::with_local_recorder(&PanickingRecorder, || {
        let room = ConnectionRoom::of_clients(1, 0, 0);
        let place = room.enter(true);
        assert!(place.is_some() && room.enter(true).is_none());
        drop(place);
        assert!(room.enter(true).is_some());
    });
}
