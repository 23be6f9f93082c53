//! What the store asks of the service, request by request.
//!
//! Plan: to acquire, renew, release, lose and read is one request each, also right after another's release; only a contender
//! whose clock is behind, and that did not release it itself, needs two; listings of any size are complete, in as few pages as the service makes; everything that
//! a store does is covered by the example policies, and the policies name nothing else.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use std::collections::BTreeSet;
use tenure_core::op::Outcome;
use tenure_core::{Fence, Metadata, Record, Value, section};
use tenure_dynamodb::DynamoStore;
use tenure_dynamodb_testkit::{Actions, client, endpoint, key, store_by, wins};
use tenure_store::{Freshness, Store, StoreExt};
use tenure_testkit::{RecordFactory, unique};

const TABLE: &str = "tenure-requests";

async fn watched(namespace: &str) -> (DynamoStore, Actions) {
    let actions = Actions::default();
    let store = store_by(client(&endpoint()).interceptor(actions.clone()), TABLE, namespace).await;
    assert_eq!(
        actions.take(),
        ["DescribeTable", "GetItem"],
        "opening looks at the table, and at the number of shards"
    );
    (store, actions)
}

#[tokio::test]
async fn each_step_of_a_lease_is_one_request() {
    let namespace = unique("cost");
    let (store, actions) = watched(&namespace).await;
    let (factory, name) = (RecordFactory::new(), key("a"));
    let update = ["UpdateItem"];
    assert!(wins(&store, factory.absent(&key("first"), factory.held(1))).await);
    assert_eq!(
        actions.take(),
        ["UpdateItem", "UpdateItem"],
        "the first write of all fixes the number of shards"
    );
    for fence in [100, 200] {
        let held = factory.held(fence);
        assert!(wins(&store, factory.if_vacant(&name, held.clone())).await);
        assert_eq!(actions.take(), update, "acquired");
        let renewed = factory.held(fence);
        assert!(wins(&store, factory.unchanged(&name, held.version(), renewed.clone())).await);
        assert_eq!(actions.take(), update, "renewed");
        assert!(!wins(&store, factory.if_vacant(&name, factory.held(fence + 50))).await);
        assert_eq!(actions.take(), update, "lost to a holder, whose record comes with the refusal");
        assert!(!wins(&store, factory.unchanged(&name, held.version(), factory.held(fence))).await);
        assert_eq!(actions.take(), update, "lost to a newer version");
        assert!(wins(&store, factory.unchanged(&name, renewed.version(), factory.vacant(fence))).await);
        assert_eq!(actions.take(), update, "released");
    }
    store.read(&name).await.unwrap();
    store.read_many(&[name.clone(), key("b")], Freshness::Latest).await.unwrap();
    assert_eq!(actions.take(), ["GetItem", "BatchGetItem"]);

    // A clock that shows no more than the fence that stands there: its own releases are known, those of others are not.
    let wins_at = async |store: &DynamoStore, expected| {
        let held = factory.held(150);
        let outcome = store.write(factory.if_vacant(&name, held)).await.unwrap();
        assert!(matches!(outcome, Outcome::Won { fence, .. } if fence == expected), "{outcome:?}");
        outcome
    };
    let Outcome::Won { version, .. } = wins_at(&store, Fence(201)).await else { unreachable!() };
    assert_eq!(actions.take(), update, "acquired again at once, or by a clock that is behind");
    assert!(wins(&store, factory.unchanged(&name, version, factory.vacant(201))).await);
    let (other, others) = watched(&namespace).await;
    wins_at(&other, Fence(202)).await;
    assert_eq!(others.take(), ["UpdateItem", "UpdateItem"], "a contender whose clock is behind counts on");
}

/// A record of almost the greatest size.
fn large(factory: &RecordFactory) -> Record {
    let metadata: Metadata = [(section::FIELD.to_owned(), Value::Bytes(vec![7; 190_000]))].into();
    Record { metadata, ..factory.vacant(5) }
}

#[tokio::test]
async fn answers_of_any_size_are_complete() {
    // More than the 16 MB of one BatchGetItem, and many times the 1 MB of a page.
    const COUNT: usize = 90;
    let (store, actions) = watched(&unique("large")).await;
    let factory = RecordFactory::new();
    let keys: Vec<_> = (0..COUNT).map(|n| section::key(&format!("{n:03}")).unwrap()).collect();
    let writes = keys.iter().map(|key| factory.absent(key, large(&factory))).collect();
    store.write_all(writes).await.unwrap();
    assert_eq!(actions.take().len(), COUNT + 1);
    let listed = store.list_all("").await.unwrap();
    assert_eq!(listed.iter().map(|listed| &listed.key).collect::<Vec<_>>(), keys.iter().collect::<Vec<_>>());
    let pages = actions.take();
    assert!(pages.len() > COUNT / 10 && pages.iter().all(|action| action == "Query"), "{pages:?}");
    let mut read = store.read_many(&keys, Freshness::Latest).await.unwrap();
    read.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(read.len(), COUNT);
    assert!(actions.take().len() > 1, "one answer can't hold them all");
    let stored = |listed: &[tenure_store::Listed]| -> Vec<Record> {
        listed.iter().map(|listed| listed.stored.clone().unwrap().record).collect()
    };
    assert_eq!(stored(&read), stored(&listed));
}

/// The actions that a policy allows.
fn allowed(policy: &str) -> BTreeSet<String> {
    let policy: serde_json::Value = serde_json::from_str(policy).expect("a policy is JSON");
    let statements = policy["Statement"].as_array().expect("statements");
    let actions = statements.iter().flat_map(|statement| {
        assert_eq!(statement["Effect"], "Allow");
        statement["Action"].as_array().expect("actions")
    });
    actions.map(|action| action.as_str().unwrap().strip_prefix("dynamodb:").unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_example_policies_allow_all_that_is_asked_and_nothing_else() {
    let namespace = unique("policy");
    let actions = Actions::default();
    let watched = || client(&endpoint()).interceptor(actions.clone());
    let store = store_by(watched(), TABLE, &namespace).await;
    let (factory, name) = (RecordFactory::new(), key("a"));
    let version = match store.write(factory.if_vacant(&name, factory.vacant(5))).await.unwrap() {
        Outcome::Won { version, .. } => version,
        lost => panic!("{lost:?}"),
    };
    store.write_many(vec![factory.absent(&key("b"), factory.held(5))]).await.unwrap();
    store.read(&name).await.unwrap();
    store.read_many(std::slice::from_ref(&name), Freshness::Latest).await.unwrap();
    store.list_all("").await.unwrap();
    store.guard(&name, Fence(5)).await.unwrap();
    let used: BTreeSet<String> = actions.take().into_iter().collect();
    assert_eq!(used, allowed(include_str!("../docs/iam-policy.json")), "what a program with leases needs");

    assert!(store.remove(&name, version).await.unwrap());
    let used: BTreeSet<String> = actions.take().into_iter().collect();
    let operator = allowed(include_str!("../docs/iam-policy-operator.json"));
    // Making the table is the other thing that operators do; see the tests of opening.
    assert_eq!(used.into_iter().chain(["CreateTable".to_owned()]).collect::<BTreeSet<_>>(), operator);
}
