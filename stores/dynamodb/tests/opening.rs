//! Opening a store, and making its table.
//!
//! Plan: a missing table, one of another region, one with other keys; a table is made once, on demand, and only when asked for;
//! its replacement of the same name is another store; namespaces are apart, and each has one number of shards; a promise about the region is kept; a client's
//! own settings are not contradicted; nothing that is shown holds a secret.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tenure_core::{ErrorKind, StoreError};
use tenure_dynamodb::aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use tenure_dynamodb::{DynamoConfig, DynamoStore};
use tenure_dynamodb_testkit::{REGION, config, key, make, plain, store, wins};
use tenure_store::{Outcome, Store, StoreExt};
use tenure_testkit::{RealClock, RecordFactory, unique};

async fn open(config: DynamoConfig) -> Result<DynamoStore, StoreError> {
    DynamoStore::open(config, Arc::new(RealClock::new())).await
}

async fn refusal(config: DynamoConfig) -> (ErrorKind, String) {
    let error = open(config).await.unwrap_err();
    (error.kind(), error.to_string())
}

#[tokio::test]
async fn a_table_is_made_when_asked_for_and_once() {
    let table = unique("made");
    let (kind, text) = refusal(config(&table)).await;
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(text.contains(&table) && text.contains(REGION) && text.contains("--create-table"), "{text}");
    assert_eq!(DynamoStore::create_table(&config(&table)).await, Ok(true));
    assert_eq!(DynamoStore::create_table(&config(&table)).await, Ok(false));
    let store = open(config(&table)).await.unwrap();
    let factory = RecordFactory::new();
    assert!(wins(&store, factory.absent(&key("a"), factory.held(5))).await);
    assert_eq!(DynamoStore::create_table(&config(&table)).await, Ok(false));
    assert!(store.read(&key("a")).await.unwrap().is_some(), "a table that is there is left as it is");
    let made = plain().describe_table().table_name(&table).send().await.unwrap();
    let billing = made.table().unwrap().billing_mode_summary().unwrap().billing_mode();
    assert_eq!(billing, Some(&BillingMode::PayPerRequest));
}

#[tokio::test]
async fn a_table_of_another_region_is_missing_here() {
    let table = unique("region");
    make(&table).await;
    let (kind, text) = refusal(config(&table).region("us-east-1")).await;
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(text.contains("us-east-1") && text.contains("its region"), "{text}");
    assert!(open(config(&table).one_region(REGION)).await.is_ok());
    let (kind, text) = refusal(config(&table).one_region("us-east-1")).await;
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(text.contains("\"us-east-1\", but this is \"eu-west-1\""), "{text}");
}

#[tokio::test]
async fn a_table_with_other_keys_is_refused() {
    let table = unique("keys");
    let part =
        KeySchemaElement::builder().attribute_name("leaseKey").key_type(KeyType::Hash).build().unwrap();
    let kind =
        AttributeDefinition::builder().attribute_name("leaseKey").attribute_type(ScalarAttributeType::S);
    let request = plain().create_table().table_name(&table).billing_mode(BillingMode::PayPerRequest);
    request.key_schema(part).attribute_definitions(kind.build().unwrap()).send().await.unwrap();
    let (kind, text) = refusal(config(&table)).await;
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(text.contains("HASH key \"leaseKey\"") && text.contains("RANGE key \"key\""), "{text}");
}

#[tokio::test]
async fn a_table_that_is_replaced_while_in_use_is_noticed() {
    let table = unique("replaced");
    make(&table).await;
    let before = open(config(&table)).await.unwrap();
    let factory = RecordFactory::new();
    plain().delete_table().table_name(&table).send().await.unwrap();
    let error = before.write(factory.absent(&key("a"), factory.held(5))).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("no such table"), "{error}");
    make(&table).await;
    let after = open(config(&table)).await.unwrap();
    assert_ne!(before.id(), after.id(), "a token of the old table is not good for the new one");
}

#[tokio::test]
async fn namespaces_are_apart() {
    let table = unique("namespaces");
    let (one, other) = (store(&table, "one").await, store(&table, "one/a").await);
    let factory = RecordFactory::new();
    assert!(wins(&one, factory.absent(&key("a"), factory.held(5))).await);
    assert!(wins(&other, factory.absent(&key("a"), factory.held(6))).await);
    for (store, fence) in [(&one, 5), (&other, 6)] {
        let all = store.list_all("").await.unwrap();
        assert_eq!((all.len(), all[0].stored.as_ref().unwrap().record.fence.0), (1, fence));
    }
    assert_ne!(one.id(), other.id());
}

/// What a namespace that two would spread differently would do: each would find every key free.
#[tokio::test]
async fn a_namespace_has_one_number_of_shards_for_good() {
    let table = unique("shards");
    make(&table).await;
    let (spread, flat) =
        (|name: &str| config(&table).namespace(name).shards(16), |name: &str| config(&table).namespace(name));
    let factory = RecordFactory::new();
    let held = || factory.absent(&key("a"), factory.held(5));
    // Both are open before either has written: the second is refused, whichever that is, and writes nothing.
    for (name, first, second, says) in [
        ("one", spread("one"), flat("one"), "begun with shards=16, and this says shards=1; say shards=16"),
        (
            "other",
            flat("other"),
            spread("other"),
            "begun with shards=1, and this says shards=16; say shards=1,",
        ),
    ] {
        let (winner, loser) = (open(first).await.unwrap(), open(second.clone()).await.unwrap());
        assert!(wins(&winner, held()).await);
        for _ in 0..2 {
            let error = loser.write(held()).await.unwrap_err();
            assert!(
                error.kind() == ErrorKind::Invalid && error.to_string().contains(says),
                "{name}: {error}"
            );
            assert!(loser.write_many(vec![held()]).await.is_err(), "{name}");
        }
        assert_eq!(loser.list_all("").await.unwrap(), [], "{name}");
        let (kind, text) = refusal(second).await;
        assert!(kind == ErrorKind::Invalid && text.contains(says), "{name}: {text}");
    }
    assert!(open(spread("one").shards(8)).await.is_err());
    let again = open(spread("one")).await.unwrap();
    assert!(again.read(&key("a")).await.unwrap().is_some());
    assert!(!wins(&again, held()).await);
}

#[tokio::test]
async fn a_namespace_with_records_of_an_earlier_version_is_not_spread() {
    let table = unique("earlier");
    let store = store(&table, "n").await;
    let factory = RecordFactory::new();
    assert!(wins(&store, factory.absent(&key("a"), factory.held(5))).await);
    // An earlier version fixed no number.
    let own = [("namespace", "n#shards"), ("key", "shards")]
        .map(|(name, text)| (name.to_owned(), AttributeValue::S(text.to_owned())));
    let deleted = plain().delete_item().table_name(&table).set_key(Some(own.clone().into()));
    deleted.send().await.unwrap();
    let spread = open(config(&table).namespace("n").shards(4)).await.unwrap();
    let error = spread.write(factory.absent(&key("a"), factory.held(6))).await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Invalid && error.to_string().contains("has records in one shard"),
        "{error}"
    );
    // As before, and fixed by its next write.
    let flat = open(config(&table).namespace("n")).await.unwrap();
    assert!(wins(&flat, factory.absent(&key("b"), factory.held(5))).await);
    assert!(open(config(&table).namespace("n").shards(4)).await.is_err());
    // Something else wrote it.
    let update = plain().update_item().table_name(&table).set_key(Some(own.into()));
    let update = update.update_expression("SET shards = :s");
    update.expression_attribute_values(":s", AttributeValue::S("four".into())).send().await.unwrap();
    let (kind, text) = refusal(config(&table).namespace("n")).await;
    assert!(kind == ErrorKind::Foreign && text.contains("no number of shards"), "{text}");
}

#[tokio::test]
async fn l4_who_writes_first_and_looks_elsewhere_holds_nobody_up() {
    let table = unique("first");
    assert_eq!(DynamoStore::create_table(&config(&table)).await, Ok(true));
    let store = open(config(&table)).await.unwrap();
    let factory = RecordFactory::new();
    let (a, b) = (key("a"), key("b"));
    // The first write of all fixes the number of shards before that. Nobody polls it, as in a `select!` whose other branch takes long.
    let mut first = Box::pin(store.write(factory.absent(&a, factory.held(5))));
    let begun = std::future::poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending()));
    assert!(begun.await, "the service is asked");
    let other = wins(&store, factory.absent(&b, factory.held(5)));
    let other = tokio::time::timeout(Duration::from_secs(60), other).await;
    assert!(other.expect("it waits for another's future"));
    assert!(matches!(first.await.unwrap(), Outcome::Won { .. }));
}

#[tokio::test]
async fn listings_over_shards_are_whole_and_in_order() {
    let table = unique("listed");
    make(&table).await;
    let store = open(config(&table).namespace("n").shards(7)).await.unwrap();
    let factory = RecordFactory::new();
    let mut keys: Vec<_> = (0..120).map(|n| key(&format!("{}/{n:03}", ["a", "b"][n % 2]))).collect();
    store.write_all(keys.iter().map(|key| factory.absent(key, factory.vacant(5))).collect()).await.unwrap();
    keys.sort();
    for limit in [1, 2, 7, 50, 60, 1000] {
        for prefix in ["", "a", "b/", "b/1", "c"] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let page = store.list(prefix, after.as_ref(), limit).await.unwrap();
                let is_last = page.len() < limit;
                found.extend(page.into_iter().map(|listed| listed.key));
                after = found.last().cloned();
                if is_last {
                    break;
                }
            }
            let meant: Vec<_> = keys.iter().filter(|key| key.as_str().starts_with(prefix)).cloned().collect();
            assert_eq!(found, meant, "{prefix:?} by {limit}");
        }
    }
    assert_eq!(store.list("", None, 0).await.unwrap(), []);
}

#[tokio::test]
async fn a_client_s_own_settings_are_not_contradicted() {
    let table = unique("own");
    make(&table).await;
    let with = async |config: DynamoConfig| {
        DynamoStore::with_client(&plain(), config, Arc::new(RealClock::new())).await
    };
    for config in [
        DynamoConfig::new(&table).region("us-east-1"),
        DynamoConfig::new(&table).endpoint("http://localhost:1"),
        DynamoConfig::new(&table).profile("ops"),
        DynamoConfig::new("x"),
    ] {
        assert_eq!(with(config).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    let store = with(DynamoConfig::new(&table)).await.unwrap();
    let shown = format!("{store:?} {:?}", DynamoConfig::new(&table).endpoint("http://hidden"));
    assert!(shown.contains(&table) && !shown.contains("hidden"), "{shown}");
}
