//! Operators' actions while others are at work on the same key, in process, on a store that holds calls up.
//!
//! Plan: whichever of an action's calls to the store another tenure begins before, that tenure is neither told nor taken anything, also if it is the same
//! process's; and a unit that another has by then is not moved.

use super::router;
use crate::access::{Access, guard};
use crate::agent::Agent;
use crate::config::Limits;
use crate::peer::ClientIdentity;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use futures_util::FutureExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tenure::fleet::{Fleet, NewUnit};
use tenure::store::{Nonce, Record, Stored};
use tenure::{AnyStore, Fence, Guard, HolderId, Key, Leases, Store};
use tenure_store::{Expect, Fault, FaultyStore, Write};
use tokio::task::JoinHandle;
use tower_service::Service;

/// More than any action makes before its answer.
const CALLS: usize = 8;

/// An agent whose calls to the store are held up, and the store itself.
struct SlowStoreFixture {
    store: AnyStore,
    slow: FaultyStore<AnyStore>,
    router: Router,
    _agent: Agent,
}

impl SlowStoreFixture {
    fn new() -> SlowStoreFixture {
        let store = tenure::memory();
        let slow = FaultyStore::new(store.clone());
        let agent = Agent::new(Leases::new(slow.clone()).unwrap(), Limits::default(), None);
        let access = Access { is_open: true, ..Access::default() };
        let router = router(&agent.shared).layer(axum::middleware::from_fn_with_state(access, guard));
        SlowStoreFixture { store, slow, router, _agent: agent }
    }

    /// An action that is held up before its call of this number, or has been answered by then.
    async fn held_up(&self, path: &str, body: Value, call: usize) -> JoinHandle<u16> {
        self.slow.inject(std::iter::repeat_n(Fault::None, call).chain([Fault::Held]));
        let request = Request::post(path).header("content-type", "application/json");
        let request =
            request.extension(Arc::new(ClientIdentity::unknown())).body(Body::from(body.to_string()));
        let mut router = self.router.clone();
        let answer =
            tokio::spawn(async move { router.call(request.unwrap()).await.unwrap().status().as_u16() });
        // The store is in memory, and this is the only thread that asks it for the agent.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        answer
    }

    async fn goes_on(&self, answer: JoinHandle<u16>) -> u16 {
        self.slow.go_on();
        answer.await.unwrap()
    }

    async fn read(&self, key: &Key) -> Stored {
        self.store.read(key).await.unwrap().unwrap()
    }

    fn process(&self) -> Leases {
        Leases::builder(self.store.clone()).session_ttl(Duration::from_millis(300)).start().unwrap()
    }

    /// What was written to the process has been read.
    async fn has_read(&self, process: &Leases) {
        let mail = async || self.read(process.session_key()).await.record.tenure.unwrap().mail;
        while !mail().await.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn tells_nothing(guard: &Guard) -> bool {
    guard.is_held() && !guard.is_revoked() && guard.asked().now_or_never().is_none()
}

#[tokio::test]
async fn a_tenure_that_begins_between_is_not_touched() {
    for action in ["revoke", "drain", "release"] {
        for (call, is_same) in (0..CALLS).flat_map(|call| [(call, true), (call, false)]) {
            let (scene, what) =
                (SlowStoreFixture::new(), format!("{action} at call {call}, the same process: {is_same}"));
            let (one, two) = (scene.process(), scene.process());
            let first = one.try_acquire("k").await.unwrap();
            let path = format!("/v1/records/k/{action}");
            let answer = scene.held_up(&path, json!({ "fence": first.fence().0 }), call).await;
            first.release().await;
            let next = if is_same { &one } else { &two };
            let second = next.try_acquire("k").await.unwrap();
            let status = scene.goes_on(answer).await;
            assert!([202, 404, 409].contains(&status), "{what}: {status}");
            scene.has_read(next).await;
            // What the agent goes on with by itself has had its time, too.
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
            assert!(tells_nothing(&second), "{what}");
            let record = scene.read(second.key()).await.record;
            assert!(record.fence == second.fence() && record.tenure.is_some(), "{what}: {record:?}");
        }
    }
}

#[tokio::test]
async fn a_unit_that_another_has_by_then_is_not_moved() {
    for call in 0..3 {
        let scene = SlowStoreFixture::new();
        let fleet = Fleet::new(scene.store.clone(), "f").unwrap();
        fleet.create(NewUnit::named("u")).await.unwrap();
        fleet.pin("u", Some(&HolderId::new("w").unwrap())).await.unwrap();
        let key = fleet.key("u").unwrap();
        let seen = scene.read(&key).await;
        let body = json!({ "fence": seen.record.fence.0, "worker": null });
        let answer = scene.held_up("/v1/records/fleet%2Ff%2Funit%2Fu/move", body, call).await;
        let fence = Fence(seen.record.fence.0 + 1);
        let record = Record { fence, nonce: Nonce(7), ..seen.record };
        let write = Write { key, expect: Expect::Unchanged(seen.version), record };
        scene.store.write(write).await.unwrap();
        assert_eq!(scene.goes_on(answer).await, 409, "at call {call}");
        let view = fleet.get("u").await.unwrap().unwrap();
        assert_eq!(view.spec.pin.unwrap().as_str(), "w", "at call {call}");
    }
}
