//! Opening a store, and making its table.
//!
//! Plan: a missing table, one of another region, one with other keys; a table is made once, on demand, and only when asked for;
//! its replacement of the same name is another store; namespaces are apart; a promise about the region is kept; a client's
//! own settings are not contradicted; nothing that is shown holds a secret.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use std::sync::Arc;
use tenure_core::{ErrorKind, StoreError};
use tenure_dynamodb::aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use tenure_dynamodb::{DynamoConfig, DynamoStore};
use tenure_dynamodb_testkit::{REGION, config, key, make, plain, store, wins};
use tenure_store::{Store, StoreExt};
use tenure_testkit::{RealClock, Scribe, unique};

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
    let scribe = Scribe::new();
    assert!(wins(&store, scribe.absent(&key("a"), scribe.held(5))).await);
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
    let scribe = Scribe::new();
    plain().delete_table().table_name(&table).send().await.unwrap();
    let error = before.write(scribe.absent(&key("a"), scribe.held(5))).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("no such table"), "{error}");
    make(&table).await;
    let after = open(config(&table)).await.unwrap();
    assert_ne!(before.id(), after.id(), "a token of the old table is not good for the new one");
}

#[tokio::test]
async fn namespaces_are_apart() {
    let table = unique("namespaces");
    let (one, other) = (store(&table, "one").await, store(&table, "one/a").await);
    let scribe = Scribe::new();
    assert!(wins(&one, scribe.absent(&key("a"), scribe.held(5))).await);
    assert!(wins(&other, scribe.absent(&key("a"), scribe.held(6))).await);
    for (store, fence) in [(&one, 5), (&other, 6)] {
        let all = store.list_all("").await.unwrap();
        assert_eq!((all.len(), all[0].stored.as_ref().unwrap().record.fence.0), (1, fence));
    }
    assert_ne!(one.id(), other.id());
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
