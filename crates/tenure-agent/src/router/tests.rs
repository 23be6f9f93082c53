//! What hostile and careless clients send, in process, on a store in memory.
//!
//! Plan: any bytes as a body, any JSON of nearly the right shape, any path and query: an answer below 500, no panic, and no lease but by what is right. A worker stays while its client asks for a unit, whatever else that client has asked for.

use super::router;
use crate::access::{Access, Secret, guard};
use crate::agent::Agent;
use crate::config::Limits;
use crate::peer::ClientIdentity;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use tenure::{AnyStore, Leases};
use tokio::runtime::Runtime;
use tower_service::Service;

pub(super) struct RouterFixture {
    pub(super) runtime: Runtime,
    pub(super) agent: Agent,
    router: Router,
}

impl RouterFixture {
    pub(super) fn new() -> RouterFixture {
        RouterFixture::on(tenure::memory())
    }

    pub(super) fn on(store: AnyStore) -> RouterFixture {
        RouterFixture::limited(store, Limits::default())
    }

    pub(super) fn limited(store: AnyStore, limits: Limits) -> RouterFixture {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let entered = runtime.enter();
        let agent = Agent::new(Leases::new(store).unwrap(), limits, None);
        drop(entered);
        let access = Access { is_open: true, ..Access::default() };
        let router = router(&agent.shared).layer(axum::middleware::from_fn_with_state(access, guard));
        RouterFixture { runtime, agent, router }
    }

    pub(super) fn ask(&self, method: &str, path: &str, body: impl Into<Body>) -> (u16, Value) {
        self.runtime.block_on(self.asked(method, path, body))
    }

    pub(super) async fn asked(&self, method: &str, path: &str, body: impl Into<Body>) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        // What is no request at all does not get here.
        let Ok(request) = request.extension(Arc::new(ClientIdentity::unknown())).body(body.into()) else {
            return (400, Value::Null);
        };
        let answer = self.router.clone().call(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    pub(super) fn join(&self, wish: &Value) -> Value {
        let (status, joined) = self.ask("POST", "/v1/fleets/f/workers", wish.to_string().into_bytes());
        assert_eq!(status, 201, "{joined}");
        joined
    }
}

const POSTS: [&str; 19] = [
    "/v1/records/fleet%2Ff%2Funit%2Fu/move",
    "/v1/records/k/revoke",
    "/v1/records/k/drain",
    "/v1/records/k/release",
    "/v1/leases",
    "/v1/semaphores",
    "/v1/beats",
    "/v1/leases/x/beat",
    "/v1/elections/k/campaign",
    "/v1/elections/k/resign",
    "/v1/nothing",
    "/v1/once",
    "/v1/once/x/end",
    "/v1/fleets/f/workers",
    "/v1/workers/x/next",
    "/v1/sections/s/leases",
    "/v1/units/x/done",
    "/v1/units/x/failed",
    "/v1/units/x/checkpoint",
];

/// Values of every kind, and the ones that programs trip over.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        Just(Value::from("session/x")),
        Just(Value::from("\u{0}\u{202e}\r\n")),
        Just(Value::from("k".repeat(600))),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("\\PC{0,8}", inner), 0..4).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

/// An object with some of the fields that are known, and values of any kind.
fn nearly() -> impl Strategy<Value = Value> {
    let names = [
        "key",
        "name",
        "wait_ms",
        "ttl_ms",
        "at_most_ms",
        "about",
        "on_exit",
        "permits",
        "take",
        "mode",
        "labels",
        "fence",
        "worker",
        "tick_ms",
        "every_ms",
        "units",
        "most_units",
        "says",
        "range",
        "for_ms",
        "ids",
        "id",
        "other",
    ];
    prop::collection::vec((prop::sample::select(names.to_vec()), value()), 0..6)
        .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

#[test]
fn any_body_is_answered_and_what_is_wrong_takes_nothing() {
    let served = RouterFixture::new();
    let path = || prop::sample::select(POSTS.to_vec());
    proptest!(ProptestConfig::with_cases(400), |(path in path(), body in prop::collection::vec(any::<u8>(), 0..200))| {
        let (status, answer) = served.ask("POST", path, body);
        prop_assert!(status == 400 || status == 404, "{} {}", status, answer);
    });
    proptest!(ProptestConfig::with_cases(600), |(path in path(), body in nearly())| {
        // A wait that is right would be one.
        prop_assume!(body["wait_ms"].as_u64().is_none_or(|wait| wait == 0 || wait > 86_400_000));
        let (status, answer) = served.ask("POST", path, body.to_string().into_bytes());
        prop_assert!(status < 500, "{} {} of {}", status, answer, body);
        let has_name = body["key"].is_string() || body["name"].is_string() || path.contains("elections") || path.contains("fleets") || body["range"].is_string();
        prop_assert!(status != 201 || has_name, "{} of {}", answer, body);
    });
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    assert_eq!(served.ask("POST", "/v1/leases", deep.into_bytes()).0, 400);
    assert_eq!(served.ask("POST", "/v1/leases", vec![b' '; 70_000]).0, 413);
    // As a length of a chunk that is no number.
    let broken = futures_util::stream::iter([Err::<Vec<u8>, _>(std::io::Error::other("broken"))]);
    let (status, problem) = served.ask("POST", "/v1/leases", Body::from_stream(broken));
    assert!(status == 400 && problem["message"].to_string().contains("broken"), "{problem}");
}

#[test]
fn any_path_and_query_is_answered() {
    let served = RouterFixture::new();
    let part = || {
        prop_oneof![
            Just("v1".to_owned()),
            Just("leases".to_owned()),
            Just("events".to_owned()),
            Just("tenures".to_owned()),
            Just("elections".to_owned()),
            "[!-~]{0,12}"
        ]
    };
    proptest!(ProptestConfig::with_cases(600), |(method in prop::sample::select(vec!["GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS"]),
        parts in prop::collection::vec(part(), 0..5), query in prop_oneof!["[!-~]{0,30}", "(key|limit|records)=[!-~]{0,10}"])| {
        // What is right is answered for ever.
        prop_assume!(!(method == "GET" && parts == ["v1", "events"] && ["", "records=true", "records=false"].contains(&query.as_str())));
        let path = format!("/{}?{query}", parts.join("/"));
        let (status, answer) = served.ask(method, &path, Vec::new());
        prop_assert!(status < 500, "{} {} {}: {}", method, path, status, answer);
    });
    assert_eq!(served.agent.held(), 0);
}

#[test]
fn a_name_in_the_path_that_is_no_text_is_refused_as_json() {
    let served = RouterFixture::new();
    let (_, document) = served.ask("GET", "/openapi.json", Vec::new());
    let mut count = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let Some((before, rest)) = path.split_once('{') else { continue };
        let wrong = format!("{before}%ff{}", rest.split_once('}').unwrap().1);
        for method in methods.as_object().unwrap().keys() {
            let (status, answer) = served.ask(&method.to_uppercase(), &wrong, b"{}".to_vec());
            assert_eq!((status, &answer["code"]), (400, &json!("bad_request")), "{method} {wrong}: {answer}");
            assert!(answer["message"].as_str().unwrap().contains("UTF-8"), "{answer}");
            count += 1;
        }
    }
    assert!(count >= 15, "{count}");
}

#[test]
fn a_key_of_tenures_own_and_one_that_is_too_long_are_refused_by_name() {
    let served = RouterFixture::new();
    let post = |path: &str, body: Value| served.ask("POST", path, body.to_string().into_bytes());
    for (path, body, says) in [
        ("/v1/leases", json!({"key": "session/x"}), "session/"),
        ("/v1/leases", json!({"key": ""}), "key"),
        ("/v1/leases", json!({"key": "k".repeat(513)}), "512"),
        ("/v1/leases", json!({"key": "k", "ttl_ms": 1}), "ttl_ms"),
        ("/v1/leases", json!({"key": "k", "at_most_ms": 0}), "at_most_ms"),
        ("/v1/leases", json!({"key": "k", "wait_ms": u64::MAX}), "wait_ms"),
        ("/v1/leases", json!({"key": "k", "on_exit": "never"}), "lapse"),
        ("/v1/semaphores", json!({"name": "s"}), "permits"),
        ("/v1/semaphores", json!({"name": "s", "permits": 1, "mode": "shared"}), "either"),
        ("/v1/semaphores", json!({"name": "s", "permits": 1, "take": 2}), "2"),
        ("/v1/elections/work%2Fx/campaign", json!({}), "work/"),
        ("/v1/once", json!({"key": "k"}), "tick_ms"),
        ("/v1/once", json!({"key": "k", "tick_ms": 1, "every_ms": 1}), "either"),
        ("/v1/once", json!({"key": "k", "every_ms": 0}), "every_ms"),
        ("/v1/once", json!({"key": "k", "tick_ms": u64::MAX}), "ahead"),
        ("/v1/once", json!({"key": "", "every_ms": 1000}), "name"),
        ("/v1/fleets/a%2Fb/workers", json!({}), "/"),
        ("/v1/sections/s/leases", json!({"range": "0..80", "for_ms": 10_000}), "low_high"),
        ("/v1/sections/s/leases", json!({"range": "0_80", "for_ms": 0}), "0"),
        ("/v1/fleets/f/workers", json!({"ttl_ms": 1}), "ttl_ms"),
        ("/v1/fleets/f/workers", json!({"units": [""]}), "name"),
        ("/v1/fleets/f/workers", json!({"drain_ms": u64::MAX}), "drain_ms"),
    ] {
        let (status, answer) = post(path, body.clone());
        assert!(status == 400 && answer["message"].as_str().unwrap().contains(says), "{body}: {answer}");
    }
    assert_eq!(served.agent.held(), 0);
    assert_eq!(served.ask("GET", "/v1/leases?limit=0", Vec::new()).0, 400);
    assert_eq!(served.ask("GET", "/v1/leases?nonsense=1", Vec::new()).0, 400);
    for (query, says) in [
        ("tenures?limit=0", "1 to 1000"),
        ("tenures?limit=1001", "1 to 1000"),
        ("tenures?limit=x", "limit"),
        ("tenures?key=", "empty"),
        ("tenures?holder=h", "holder"),
        ("events?records=maybe", "records"),
        ("events?keys=k", "keys"),
    ] {
        let (status, answer) = served.ask("GET", &format!("/v1/{query}"), Vec::new());
        assert!(status == 400 && answer["message"].as_str().unwrap().contains(says), "{query}: {answer}");
    }
}

#[test]
fn who_listens_leaves_most_connections_to_others() {
    let served = RouterFixture::new();
    let most = Limits::default().connections / 4;
    let listen = || {
        let request = Request::builder().uri("/v1/events").extension(Arc::new(ClientIdentity::unknown()));
        let request = request.body(Body::empty()).unwrap();
        served.runtime.block_on(async { served.router.clone().call(request).await.unwrap() })
    };
    let mut listeners: Vec<_> = (0..most).map(|_| listen()).collect();
    assert!(listeners.iter().all(|answer| answer.status() == 200));
    assert_eq!(listen().status(), 429);
    listeners.pop();
    assert_eq!(listen().status(), 200, "one has left");
}

#[test]
fn a_read_token_changes_nothing_whatever_the_path() {
    let served = RouterFixture::new();
    let read = Secret::new("read-token-0123456789").unwrap();
    let access = Access { is_open: false, read: Some(read), ..Access::default() };
    let router = router(&served.agent.shared).layer(axum::middleware::from_fn_with_state(access, guard));
    let (_, document) = served.ask("GET", "/openapi.json", Vec::new());
    let paths = document["paths"].as_object().unwrap().iter();
    let described = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().keys().map(|method| method.to_uppercase());
        // What is in braces is in any path a text like others.
        methods.map(|method| (method, path.replace(['{', '}'], "")))
    });
    let mut all: Vec<(String, String)> = described.collect();
    all.retain(|(_, path)| path != "/v1/events");
    assert!(all.iter().filter(|(method, _)| method != "GET").count() >= 18, "{all:?}");
    for (method, path) in [("PUT", "/nothing"), ("PATCH", "/v1/leases"), ("DELETE", "/v1/records/k")] {
        all.push((method.to_owned(), path.to_owned()));
    }
    for (method, path) in &all {
        let request = Request::builder()
            .method(method.as_str())
            .uri(path)
            .header("authorization", "Bearer read-token-0123456789");
        let request = request.extension(Arc::new(ClientIdentity::unknown())).body(Body::empty()).unwrap();
        let answer = served.runtime.block_on(async { router.clone().call(request).await.unwrap() });
        let is_forbidden = answer.status().as_u16() == 403;
        assert_eq!(is_forbidden, method != "GET", "{method} {path}: {}", answer.status());
    }
}

#[test]
fn no_answer_lets_other_sites_read_it() {
    let served = RouterFixture::new();
    let full = Secret::new("full-token-0123456789").unwrap();
    let access = Access { is_open: false, full: Some(full), ..Access::default() };
    let router = router(&served.agent.shared).layer(axum::middleware::from_fn_with_state(access, guard));
    let token = ("authorization", "Bearer full-token-0123456789");
    let asks_first = ("access-control-request-method", "POST");
    for (method, path) in [
        ("GET", "/v1/leases"),
        ("POST", "/v1/leases"),
        ("OPTIONS", "/v1/leases"),
        ("GET", "/v1/events?records=true"),
        ("GET", "/v1/tenures"),
        ("GET", "/dashboard/"),
        ("OPTIONS", "/dashboard/main.js"),
        ("GET", "/healthz"),
        ("GET", "/openapi.json"),
        ("GET", "/nothing"),
    ] {
        for headers in [
            vec![],
            vec![("origin", "http://evil.example"), asks_first],
            vec![("origin", "null"), token],
            vec![token],
        ] {
            let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
            for (name, value) in &headers {
                request = request.header(*name, *value);
            }
            let request = request.extension(Arc::new(ClientIdentity::unknown())).body(Body::empty()).unwrap();
            let answer = served.runtime.block_on(async { router.clone().call(request).await.unwrap() });
            let allows = answer.headers().keys().find(|name| name.as_str().starts_with("access-control"));
            assert!(allows.is_none(), "{method} {path} with {headers:?}: {allows:?}");
        }
    }
}

#[test]
fn a_fleets_board_tells_who_plans_and_no_other_record_does() {
    let served = RouterFixture::new();
    let joined = served.join(&json!({"units": ["u"]}));
    let mut planning = Value::Null;
    for _ in 0..2_000 {
        let (_, rows) = served.ask("GET", "/v1/leases?prefix=fleet%2F", Vec::new());
        let rows = rows["leases"].as_array().unwrap().clone();
        let is_board = |row: &&Value| row["key"] == "fleet/f/board";
        assert!(rows.iter().filter(|row| !is_board(row)).all(|row| row["planning"].is_null()), "{rows:?}");
        planning = rows.iter().find(is_board).map(|row| row["planning"].clone()).unwrap_or_default();
        if planning["plan"].is_u64() {
            break;
        }
        served.runtime.block_on(async { tokio::time::sleep(std::time::Duration::from_millis(5)).await });
    }
    assert_eq!((&planning["planner"], &planning["standbys"]), (&joined["holder"], &json!([])));
    assert!(planning["told"].as_str().is_some_and(|told| told.ends_with('Z')), "{planning}");
}

#[test]
fn a_worker_stays_while_its_client_asks_for_a_unit() {
    let served = RouterFixture::new();
    let joined = served.join(&json!({"ttl_ms": 300}));
    let path = format!("/v1/workers/{}/next", joined["id"].as_str().unwrap());
    let next = |wait: u64| served.asked("POST", &path, json!({ "wait_ms": wait }).to_string().into_bytes());
    served.runtime.block_on(async {
        // A second request ends long before the first.
        let (patient, hasty) = tokio::join!(next(1500), next(0));
        assert_eq!((patient.0, hasty.0), (204, 204), "{} {}", patient.1, hasty.1);
        assert_eq!(next(0).await.0, 204);
        // Nobody asks any more.
        tokio::time::sleep(std::time::Duration::from_millis(900)).await;
        assert_eq!(next(0).await.0, 404);
    });
}

#[test]
fn how_soon_to_ask_for_a_unit_is_a_wait_that_is_taken() {
    let served = RouterFixture::new();
    for (ttl, soon) in [(10_000, 5_000), (150_000, 60_000)] {
        let joined = served.join(&json!({ "ttl_ms": ttl }));
        assert_eq!(joined["ask_in_ms"], soon, "{joined}");
    }
}
