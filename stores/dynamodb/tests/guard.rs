//! The guard: a transaction of the caller's own goes through while the tenure stands, and not after.
//!
//! Plan: a lease that renews itself, through renewal, release and takeover; one that is attached, through the end of its session
//! and onto another; one below a prefix, which must not be taken for another.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use tenure_core::{Attachment, Fence, Key, Record};
use tenure_dynamodb::DynamoStore;
use tenure_dynamodb::aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem, Update};
use tenure_dynamodb_testkit::{key, plain, store, wins};
use tenure_store::PrefixedStore;
use tenure_testkit::{RecordFactory, unique};

const TABLE: &str = "tenure-guard";

/// An application's own write under these conditions, to an item of its own that it keeps in the same table; whether it went
/// through.
async fn writes(guard: Vec<TransactWriteItem>, namespace: &str) -> bool {
    let client = plain();
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let update = Update::builder()
        .table_name(TABLE)
        .key("namespace", text(&format!("{namespace}-application")))
        .key("key", text("account"))
        .update_expression("ADD balance :one")
        .expression_attribute_values(":one", AttributeValue::N("1".into()))
        .build()
        .unwrap();
    let items = [guard, vec![TransactWriteItem::builder().update(update).build()]].concat();
    match client.transact_write_items().set_transact_items(Some(items)).send().await {
        Ok(_) => true,
        Err(error) => {
            let error = error.into_service_error();
            assert!(error.is_transaction_canceled_exception(), "{error:?}");
            false
        }
    }
}

async fn holds(store: &DynamoStore, key: &Key, fence: u64) -> bool {
    writes(store.guard(key, Fence(fence)).await.unwrap(), "a").await
}

#[tokio::test]
async fn a_guarded_write_does_not_land_after_the_loss() {
    let (store, factory, name) =
        (store(TABLE, &unique("own")).await, RecordFactory::new(), key("it's #1 :n"));
    let first = factory.held(5);
    assert!(!holds(&store, &name, 5).await, "before the tenure");
    assert!(wins(&store, factory.absent(&name, first.clone())).await);
    let kept = store.guard(&name, Fence(5)).await.unwrap();
    assert!(writes(kept.clone(), "a").await, "while it is held");

    let mut renewed = Record { nonce: factory.nonce(), ..first.clone() };
    renewed.tenure.as_mut().unwrap().heartbeat = renewed.nonce;
    assert!(wins(&store, factory.unchanged(&name, first.version(), renewed.clone())).await);
    assert!(writes(kept.clone(), "a").await, "after a renewal");
    assert!(!holds(&store, &name, 6).await, "another fence");
    assert!(!holds(&store, &key("other"), 5).await, "another key");

    assert!(wins(&store, factory.unchanged(&name, renewed.version(), factory.vacant(5))).await);
    assert!(!writes(kept.clone(), "a").await, "after the release");
    assert!(wins(&store, factory.if_vacant(&name, factory.held(1))).await);
    assert!(!writes(kept, "a").await, "after a takeover");
    assert!(holds(&store, &name, 6).await, "the next tenure's own");
}

#[tokio::test]
async fn an_attached_lease_ends_with_its_session() {
    let (store, factory) = (store(TABLE, &unique("attached")).await, RecordFactory::new());
    let (session, name) = (key("session"), key("a"));
    let mut attached = factory.held(5);
    attached.tenure.as_mut().unwrap().attachment =
        Some(Attachment { session: session.clone(), fence: Fence(70) });
    assert!(wins(&store, factory.absent(&name, attached.clone())).await);
    let kept = store.guard(&name, Fence(5)).await.unwrap();
    assert_eq!(kept.len(), 2);
    assert!(!writes(kept.clone(), "a").await, "a session that isn't there");

    let beating = factory.held(70);
    assert!(wins(&store, factory.absent(&session, beating.clone())).await);
    assert!(writes(kept.clone(), "a").await, "while the session stands");
    let bumped = factory.held(71);
    assert!(wins(&store, factory.unchanged(&session, beating.version(), bumped.clone())).await);
    assert!(!writes(kept.clone(), "a").await, "a session that was fenced");
    let back = factory.held(70);
    assert!(wins(&store, factory.unchanged(&session, bumped.version(), back.clone())).await);
    assert!(writes(kept.clone(), "a").await);
    assert!(wins(&store, factory.unchanged(&session, back.version(), factory.vacant(70))).await);
    assert!(!writes(kept.clone(), "a").await, "a session that was left");

    // The claim goes on without a session: what was looked up before says no, not yes.
    let mut alone = Record { nonce: factory.nonce(), ..attached.clone() };
    alone.tenure.as_mut().unwrap().attachment = None;
    assert!(wins(&store, factory.unchanged(&name, attached.version(), alone.clone())).await);
    assert!(!writes(kept, "a").await);
    let kept = store.guard(&name, Fence(5)).await.unwrap();
    assert!(writes(kept.clone(), "a").await);
    let mut again = Record { nonce: factory.nonce(), ..attached };
    again.tenure.as_mut().unwrap().heartbeat = again.nonce;
    assert!(wins(&store, factory.unchanged(&name, alone.version(), again)).await);
    assert!(!writes(kept, "a").await, "it is attached again, to a session that is left");
}

#[tokio::test]
async fn below_a_prefix_a_guard_takes_the_whole_key_and_fails_closed_for_attached_leases() {
    let (store, factory) = (store(TABLE, &unique("prefix")).await, RecordFactory::new());
    let below = PrefixedStore::new(store.clone(), "team/").unwrap();
    let (own, attached_key, session) = (key("own"), key("attached"), key("session"));
    assert!(wins(&below, factory.absent(&own, factory.held(5))).await);
    assert!(wins(&below, factory.absent(&session, factory.held(70))).await);
    let mut attached = factory.held(5);
    attached.tenure.as_mut().unwrap().attachment = Some(Attachment { session, fence: Fence(70) });
    assert!(wins(&below, factory.absent(&attached_key, attached)).await);

    assert!(!holds(&store, &own, 5).await, "without its prefix");
    assert!(holds(&store, &key("team/own"), 5).await);
    assert!(!holds(&store, &key("team/attached"), 5).await);
}
