//! The agent's description of itself, against what it answers.
//!
//! Plan: what is described is there, with parameters where they are looked for; what is answered is described, to what is wrong, to what is right and to what is over,
//! and so are the events; each answer to what is right is given; what nobody knows of an end that was not answered is told; the copy in the docs is the same.

use super::tests::RouterFixture;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Those of the path are the ones in its braces. All others are of the query, where none is needed.
fn check_parameters(path: &str, operation: &Value) {
    let in_braces: Vec<&str> = path.split('{').skip(1).filter_map(|part| part.split('}').next()).collect();
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    let (of_path, others): (Vec<_>, Vec<_>) =
        parameters.iter().partition(|parameter| parameter["in"] == "path");
    let names: Vec<&str> = of_path.iter().filter_map(|parameter| parameter["name"].as_str()).collect();
    assert_eq!(names, in_braces, "{path}");
    for parameter in others {
        assert!(parameter["in"] == "query" && parameter["required"] != true, "{path}: {parameter}");
    }
}

/// `TENURE_UPDATE_DOCS=1 cargo test -p tenure-agent` writes the copy in docs/api.
#[test]
fn what_is_described_is_there_and_the_copy_in_the_docs_is_the_same() {
    let served = RouterFixture::new();
    let (status, document) = served.ask("GET", "/openapi.json", Vec::new());
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
    // Who comes by the Unix socket needs none.
    assert_eq!(document["security"], json!([{}, {"token": []}]));
    let mut ids = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            // Generated clients name their functions so.
            assert!(ids.insert(operation["operationId"].to_string()), "{operation}");
            check_parameters(path, operation);
            let path = path
                .replace("{id}", "x")
                .replace("{key}", "k")
                .replace("{fleet}", "f")
                .replace("{section}", "s");
            if path == "/v1/events" {
                continue;
            }
            let (status, answer) = served.ask(&method.to_uppercase(), &path, b"{}".to_vec());
            assert!(
                status != 405 && !answer["message"].as_str().unwrap_or_default().contains("at this path"),
                "{method} {path}"
            );
        }
    }
    let copy = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api/agent.openapi.json");
    let made = crate::document();
    if std::env::var_os("TENURE_UPDATE_DOCS").is_some() {
        std::fs::write(&copy, &made).unwrap();
    }
    let there = std::fs::read_to_string(&copy).unwrap_or_default();
    assert!(there == made, "{} is stale: TENURE_UPDATE_DOCS=1 cargo test -p tenure-agent", copy.display());
}

/// What is answered to what is wrong is among the responses of its operation.
#[track_caller]
fn check_answer(document: &Value, (method, described): (&str, &str), status: u16) {
    let responses = &document["paths"][described][method.to_lowercase()]["responses"];
    assert!(responses[status.to_string()].is_object(), "{method} {described} answers {status}: {responses}");
}

#[test]
fn what_is_answered_is_described() {
    let served = RouterFixture::new();
    let (_, document) = served.ask("GET", "/openapi.json", Vec::new());
    let fit = |path: &str| {
        let names = ["{id}", "{key}", "{fleet}", "{section}"];
        names.iter().fold(path.to_owned(), |path, name| path.replace(name, "x"))
    };
    let bodies = [
        "",
        "{}",
        "[",
        r#"{"key":"k","units":[""],"range":"0_8","for_ms":0,"ids":[],"says":"x","is_well":true}"#,
        r#"{"fence":1}"#,
        r#"{"id":"x"}"#,
        r#"{"value":"x"}"#,
        r#"{"ids":["x"]}"#,
        r#"{"name":"s","permits":1}"#,
        r#"{"wait_ms":99999999999}"#,
        r#"{"key":"k"}"#,
        r#"{"key":"k2","every_ms":1000}"#,
        r#"{"key":"session/x","range":"0_80","for_ms":10000}"#,
        r#"{"range":"0_80","for_ms":10000}"#,
    ];
    for is_stopping in [false, true] {
        if is_stopping {
            // Not waited for: what clients have keeps it.
            let stopping = served.agent.stop();
            served.runtime.block_on(async {
                let _ = tokio::time::timeout(std::time::Duration::from_millis(50), stopping).await;
            });
        }
        for (described, methods) in document["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys().filter(|_| described != "/v1/events") {
                let large = " ".repeat(70_000);
                for body in bodies.iter().copied().chain([large.as_str()]) {
                    let (status, _) = served.ask(&method.to_uppercase(), &fit(described), body.to_owned());
                    check_answer(&document, (method, described), status);
                }
                if described.contains('{') {
                    // A key that is none.
                    let path = fit(described).replacen("/x", &format!("/{}", "x".repeat(600)), 1);
                    let (status, _) = served.ask(&method.to_uppercase(), &path, b"{\"fence\":1}".to_vec());
                    check_answer(&document, (method, described), status);
                }
            }
        }
    }
    // Whatever is asked with no token, with the wrong one or one that may look, or too slowly.
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let mut all = vec!["401", "403"];
            if operation["requestBody"].is_object() {
                all.extend(["400", "408", "413"]);
            }
            for status in all.into_iter().filter(|_| path != "/healthz") {
                assert!(operation["responses"][status].is_object(), "{method} {path}: {status}");
            }
        }
    }
}

#[test]
fn that_events_were_missed_is_described() {
    let served = RouterFixture::new();
    let (_, document) = served.ask("GET", "/openapi.json", Vec::new());
    let event = &document["components"]["schemas"]["Event"]["properties"];
    assert!(event["event"]["description"].as_str().unwrap().contains("`missed`"), "{event}");
    assert_eq!(event["count"]["format"], "int64", "{event}");
}

/// Asks for what is right, and notes which answers were given.
struct DescribedRouter {
    served: RouterFixture,
    document: Value,
    answered: RefCell<BTreeSet<(String, String)>>,
}

impl DescribedRouter {
    fn new() -> DescribedRouter {
        let served = RouterFixture::new();
        let (_, document) = served.ask("GET", "/openapi.json", Vec::new());
        DescribedRouter { served, document, answered: RefCell::default() }
    }

    /// The answer, which has this status. `name` stands in the place of what is in braces.
    #[track_caller]
    fn told(&self, (method, described): (&str, &str), name: &str, body: &Value, expected: u16) -> Value {
        let path = match (described.split_once('{'), described.split_once('}')) {
            (Some((before, _)), Some((_, after))) => format!("{before}{name}{after}"),
            _ => described.to_owned(),
        };
        let (status, answer) = self.served.ask(method, &path, body.to_string().into_bytes());
        check_answer(&self.document, (method, described), status);
        assert_eq!(status, expected, "{method} {path}: {answer}");
        let operation = format!("{} {described}", method.to_lowercase());
        self.answered.borrow_mut().insert((operation, status.to_string()));
        answer
    }

    #[track_caller]
    fn posted(&self, described: &str, name: &str, body: &Value, expected: u16) -> Value {
        self.told(("POST", described), name, body, expected)
    }

    #[track_caller]
    fn got(&self, described: &str, name: &str, expected: u16) -> Value {
        self.told(("GET", described), name, &Value::Null, expected)
    }

    fn leases(&self) {
        let told = self.posted("/v1/leases", "", &json!({"key": "a"}), 201);
        let id = text(&told["id"]);
        self.posted("/v1/leases/{id}/beat", id, &Value::Null, 200);
        self.posted("/v1/beats", "", &json!({"ids": [id]}), 200);
        self.got("/v1/leases", "", 200);
        for expected in [200, 410] {
            self.told(("DELETE", "/v1/leases/{id}"), id, &Value::Null, expected);
        }
        self.posted("/v1/leases/{id}/beat", id, &Value::Null, 410);
        self.posted("/v1/semaphores", "", &json!({"name": "s", "permits": 1}), 201);
        self.posted("/v1/semaphores", "", &json!({"name": "s", "permits": 1}), 409);
        let range = json!({"range": "0000_8000", "for_ms": 60_000});
        self.posted("/v1/sections/{section}/leases", "s", &range, 201);
        let told = self.posted("/v1/elections/{key}/campaign", "e", &json!({}), 201);
        self.got("/v1/elections/{key}/leader", "e", 200);
        for expected in [200, 410] {
            self.posted("/v1/elections/{key}/resign", "e", &json!({"id": told["id"]}), expected);
        }
        self.got("/v1/elections/{key}/leader", "e", 404);
        let tick = json!({"key": "o", "every_ms": 86_400_000});
        let told = self.posted("/v1/once", "", &tick, 201);
        self.posted("/v1/once", "", &tick, 409);
        for expected in [200, 410] {
            self.posted("/v1/once/{id}/end", text(&told["id"]), &json!({"is_well": true}), expected);
        }
    }

    fn fleets(&self) {
        let joined = self.posted("/v1/fleets/{fleet}/workers", "f", &json!({"units": ["u", "v"]}), 201);
        let worker = text(&joined["id"]);
        let next = |wait: u64, expected| {
            self.posted("/v1/workers/{id}/next", worker, &json!({ "wait_ms": wait }), expected)
        };
        let (one, other) = (next(60_000, 200), next(60_000, 200));
        next(0, 204);
        let key = format!("fleet%2Ff%2Funit%2F{}", text(&one["unit"]));
        let pin = json!({"fence": one["fence"], "worker": joined["holder"]});
        self.posted("/v1/records/{key}/move", &key, &pin, 200);
        let (one, other) = (text(&one["id"]), text(&other["id"]));
        self.posted("/v1/units/{id}/checkpoint", one, &json!({"value": "x"}), 204);
        for expected in [200, 410] {
            self.posted("/v1/units/{id}/done", one, &json!({}), expected);
            self.posted("/v1/units/{id}/failed", other, &json!({"says": "x"}), expected);
        }
        self.posted("/v1/units/{id}/checkpoint", one, &json!({"value": "x"}), 410);
        for expected in [200, 404] {
            self.told(("DELETE", "/v1/workers/{id}"), worker, &Value::Null, expected);
        }
        next(0, 404);
    }

    fn operators(&self) {
        for action in ["revoke", "drain", "release"] {
            let described = format!("/v1/records/{{key}}/{action}");
            let told = self.posted("/v1/leases", "", &json!({ "key": action }), 201);
            self.posted(&described, action, &json!({"fence": 1}), 409);
            self.posted(&described, action, &json!({"fence": told["fence"]}), 202);
            self.posted(&described, "nothing", &json!({"fence": 1}), 404);
        }
        for path in ["/healthz", "/readyz", "/v1/overview", "/v1/tenures"] {
            self.got(path, "", 200);
        }
        // Nothing records metrics here.
        self.got("/metrics", "", 404);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

#[test]
fn what_is_answered_to_what_is_right_and_to_what_is_over_is_described() {
    let router = DescribedRouter::new();
    router.leases();
    router.fleets();
    router.operators();
    let answered = router.answered.borrow();
    for (path, methods) in router.document["paths"].as_object().unwrap() {
        // Events have no end.
        for (method, operation) in methods.as_object().unwrap().iter().filter(|_| path != "/v1/events") {
            let described = operation["responses"].as_object().unwrap().keys();
            for status in described.filter(|status| status.starts_with('2') && path != "/metrics") {
                let answer = (format!("{method} {path}"), status.clone());
                assert!(answered.contains(&answer), "{answer:?} is described, and nothing is answered so");
            }
        }
    }
}

#[test]
fn that_nobody_knows_of_an_end_whether_it_is_written_is_described() {
    let document: Value = serde_json::from_str(&crate::document()).unwrap();
    let all = document["paths"].as_object().unwrap().values();
    let operations = all.flat_map(|methods| methods.as_object().unwrap().values());
    let mut ends = 0;
    for operation in operations {
        let answer = &operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"];
        // A worker that leaves has told of its units before.
        if *answer == "#/components/schemas/Released" && operation["operationId"] != "leave_fleet" {
            let told = text(&operation["responses"]["503"]["description"]);
            assert!(told.contains("nobody knows whether this end is written"), "{operation}");
            ends += 1;
        }
    }
    assert_eq!(ends, 5);
}
