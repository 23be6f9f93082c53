//! Tables and managers of TableTheory's leases, and ways to spoil them.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

pub(crate) mod script;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_core::{Clock, Wall};
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextRef;
use tenure_dynamodb::aws_sdk_dynamodb::config::{Builder, ConfigBag, Intercept, RuntimeComponents};
use tenure_dynamodb::aws_sdk_dynamodb::error::BoxError;
use tenure_dynamodb::aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use tenure_dynamodb_testkit::action;
pub(crate) use tenure_dynamodb_testkit::plain;
use tenure_tabletheory::{Manager, TableTheoryOptions};
use tenure_testkit::ManualClock;

pub(crate) const TABLE: &str = "tenure-tabletheory";

/// A second in 2023 at which nothing is rounded.
pub(crate) const START: u64 = 1_700_000_000;

/// Makes a table with these keys if it isn't there.
pub(crate) async fn make_table(table: &str, keys: [&str; 2]) {
    let mut request = plain().create_table().table_name(table).billing_mode(BillingMode::PayPerRequest);
    for (name, role) in keys.into_iter().zip([KeyType::Hash, KeyType::Range]) {
        let kind = AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S);
        let part = KeySchemaElement::builder().attribute_name(name).key_type(role);
        request = request.attribute_definitions(kind.build().unwrap()).key_schema(part.build().unwrap());
    }
    if let Err(error) = request.send().await {
        let error = error.into_service_error();
        assert!(error.is_resource_in_use_exception(), "{error:?}");
    }
}

/// Waits for a condition, for as long as any machine may take.
pub(crate) async fn until(condition: impl AsyncFn() -> bool) {
    for _ in 0..1500 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(condition().await, "after half a minute");
}

/// A clock at [`START`].
pub(crate) fn clock() -> Arc<ManualClock> {
    let clock = Arc::new(ManualClock::new());
    clock.set_wall(Wall(START * 1000));
    clock
}

/// Tokens that no other test of this run has: "…-1", "…-2" and so on, in the shape of UUIDs.
pub(crate) fn token() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let (process, last) = (std::process::id(), LAST.fetch_add(1, Ordering::SeqCst));
    format!("{process:08x}-0000-4000-8000-{last:012x}")
}

/// A manager by that client.
pub(crate) fn manager(client: Builder, options: TableTheoryOptions, clock: Arc<dyn Clock>) -> Manager {
    Manager::with_client(&Client::from_conf(client.build()), options, clock, token).unwrap()
}

/// The item's keys.
pub(crate) fn keys(pk: &str, sk: &str) -> Vec<(String, AttributeValue)> {
    [("pk", pk), ("sk", sk)].map(|(name, text)| (name.to_owned(), AttributeValue::S(text.to_owned()))).into()
}

/// The item as it is, in order.
pub(crate) async fn item(pk: &str, sk: &str) -> Option<BTreeMap<String, AttributeValue>> {
    let request = plain().get_item().table_name(TABLE).consistent_read(true);
    let answer = request.set_key(Some(keys(pk, sk).into_iter().collect())).send().await.unwrap();
    answer.item.map(|item| item.into_iter().collect())
}

/// Puts attributes of the item to what a hand would: none removes one.
pub(crate) async fn spoil(pk: &str, sk: &str, attributes: &[(&str, Option<AttributeValue>)]) {
    for (name, value) in attributes {
        let request = plain().update_item().table_name(TABLE);
        let request = request.set_key(Some(keys(pk, sk).into_iter().collect()));
        let request = request.expression_attribute_names("#a", *name);
        let request = match value {
            Some(value) => {
                request.update_expression("SET #a = :a").expression_attribute_values(":a", value.clone())
            }
            None => request.update_expression("REMOVE #a"),
        };
        request.send().await.unwrap();
    }
}

/// Notes what is asked for: the action, and the body without what is the same in all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bodies(Arc<Mutex<Vec<(String, serde_json::Value)>>>);

impl Bodies {
    /// Those since the last call.
    pub(crate) fn take(&self) -> Vec<(String, serde_json::Value)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Intercept for Bodies {
    fn name(&self) -> &'static str {
        "bodies"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let body = context.request().body().bytes().unwrap_or_default();
        self.0.lock().unwrap().push((action(context), serde_json::from_slice(body)?));
        Ok(())
    }
}
