//! Lease tables as the KCL and a8m have them, and rows in them as those programs write them.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::Arc;
use tenure_dynamodb::DynamoConfig;
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::config::Builder;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
pub(crate) use tenure_dynamodb::service::{number, text};
use tenure_dynamodb_testkit::{client, endpoint, plain};
use tenure_kcl::{Format, Table};
use tenure_testkit::{RealClock, unique};

/// A new table.
pub(crate) async fn lease_table(what: &str, format: Format) -> Table {
    let name = unique(what);
    // DynamoDB Local has only just been started, perhaps on a busy machine.
    let config = tenure_dynamodb_testkit::config(&name).timeout(DynamoConfig::MAX_TIMEOUT);
    Table::create_table(&config).await.unwrap();
    open(client(&endpoint()), &name, format).await
}

/// The table of that name, by a client of these settings.
pub(crate) async fn open(client: Builder, name: &str, format: Format) -> Table {
    let client = Client::from_conf(client.build());
    let clock = Arc::new(RealClock::new());
    Table::with_client(&client, DynamoConfig::new(name), format, clock).await.unwrap()
}

/// Writes a row as another program may.
pub(crate) async fn put(table: &str, row: &[(&str, AttributeValue)]) {
    let item = row.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    plain().put_item().table_name(table).set_item(Some(item)).send().await.unwrap();
}

/// A row as it stands there.
pub(crate) async fn item(table: &str, key: &str) -> Option<BTreeMap<String, AttributeValue>> {
    let request = plain().get_item().table_name(table).key("leaseKey", text(key)).consistent_read(true);
    request.send().await.unwrap().item.map(|item| item.into_iter().collect())
}

/// What the table is called.
pub(crate) fn name_of(table: &Table) -> String {
    let shown = format!("{table:?}");
    shown.split("table: \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned()
}
