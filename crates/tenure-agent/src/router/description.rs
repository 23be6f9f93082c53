//! The agent's description of itself, against what it answers.
//!
//! Plan: what is described is there, with parameters where they are looked for; what is answered is described, and so are the events; the copy in the docs is
//! the same.

use super::tests::RouterFixture;
use serde_json::{Value, json};

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
    let mut ids = std::collections::BTreeSet::new();
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
