//! Requests that wait leave connections to those that don't.
//!
//! Plan: of each kind, one wait more than there may be is refused, and what is asked for without a wait, a beat and a release are answered all the same; a wait that ends
//! makes room for another. A worker whose client can't wait has what there is, and stays.

use super::tests::RouterFixture;
use crate::config::Limits;
use futures_util::FutureExt;
use serde_json::{Value, json};
use std::pin::Pin;
use std::time::Duration;

/// Of six connections, five may wait.
fn full() -> RouterFixture {
    RouterFixture::limited(tenure::memory(), Limits { connections: 6, ..Limits::default() })
}

async fn post(served: &RouterFixture, path: &str, body: Value) -> (u16, Value) {
    served.asked("POST", path, body.to_string().into_bytes()).await
}

type Waiter<'a> = Pin<Box<dyn Future<Output = (u16, Value)> + 'a>>;

/// One that has begun to wait.
async fn waiter(served: &RouterFixture) -> Waiter<'_> {
    let mut waits: Waiter<'_> = Box::pin(post(served, "/v1/leases", json!({"key": "k", "wait_ms": 60_000})));
    assert!(waits.as_mut().now_or_never().is_none());
    tokio::time::sleep(Duration::from_millis(1)).await;
    waits
}

#[test]
fn a_wait_more_than_there_may_be_is_refused_and_short_requests_are_answered() {
    let served = full();
    served.runtime.block_on(async {
        let (status, held) = post(&served, "/v1/leases", json!({"key": "k"})).await;
        assert_eq!(status, 201, "{held}");
        let mut waiting = Vec::new();
        for _ in 0..5 {
            waiting.push(waiter(&served).await);
        }
        for (path, wish) in [
            ("/v1/leases", json!({"key": "k"})),
            ("/v1/semaphores", json!({"name": "s", "permits": 1})),
            ("/v1/elections/e/campaign", json!({})),
            ("/v1/once", json!({"key": "o", "every_ms": 1000})),
            ("/v1/sections/s/leases", json!({"range": "0_80", "for_ms": 10_000})),
        ] {
            let mut patient = wish.clone();
            patient["wait_ms"] = json!(1);
            let (status, answer) = post(&served, path, patient).await;
            assert_eq!((status, &answer["code"]), (429, &json!("too_many")), "{path}: {answer}");
            let (status, answer) = post(&served, path, wish).await;
            assert!([201, 409].contains(&status), "{path}: {answer}");
        }
        let (status, answer) = served.asked("GET", "/v1/events", Vec::new()).await;
        assert_eq!((status, &answer["code"]), (429, &json!("too_many")), "{answer}");
        let (_, beaten) = post(&served, "/v1/beats", json!({"ids": [held["id"]]})).await;
        assert!(beaten["leases"][0]["beat_in_ms"].is_u64(), "{beaten}");
        let path = format!("/v1/leases/{}", held["id"].as_str().unwrap());
        assert_eq!(served.asked("DELETE", &path, Vec::new()).await.0, 200);
        let (first, ..) = futures_util::future::select_all(waiting).await;
        assert_eq!(first.0, 201, "{}", first.1);
        // All the others have gone.
        drop(waiter(&served).await);
    });
}

#[test]
fn a_worker_whose_client_can_not_wait_has_what_there_is_and_stays() {
    let served = full();
    let joined = served.join(&json!({"units": ["u"], "ttl_ms": 600}));
    let path = format!("/v1/workers/{}/next", joined["id"].as_str().unwrap());
    served.runtime.block_on(async {
        assert_eq!(post(&served, "/v1/leases", json!({"key": "k"})).await.0, 201);
        let mut waiting = Vec::new();
        for _ in 0..5 {
            waiting.push(waiter(&served).await);
        }
        let (mut refused, mut given) = (0, 0);
        // For far longer than a worker stays whose client asks for nothing. The unit lapses meanwhile, as nobody beats, and is given again.
        for _ in 0..40 {
            let (status, answer) = post(&served, &path, json!({"wait_ms": 1000})).await;
            match status {
                200 => given += 1,
                _ => {
                    assert_eq!((status, &answer["code"]), (429, &json!("too_many")), "{answer}");
                    refused += 1;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(refused > 0 && given > 0, "{refused} {given}");
    });
}
