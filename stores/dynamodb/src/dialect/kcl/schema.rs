//! The table's own shape: one HASH key, `leaseKey`.

use super::row::LEASE_KEY;
use crate::error::{Call, failed};
use crate::layout::Layout;
use crate::table::{Place, await_active, check_regions, check_status};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use tenure_core::StoreError;

/// What the table is like, and what a remedy names.
pub(crate) fn layout() -> Layout {
    Layout {
        whose: "those of the KCL's leases",
        hash: LEASE_KEY.to_owned(),
        range: None,
        actions: "the actions GetItem, PutItem, UpdateItem, DeleteItem, Scan and DescribeTable",
        creation: "create one as your other programs with these leases do",
        removal: "old rows",
    }
}

/// Looks at the table.
pub(crate) async fn examine(
    client: &Client,
    place: &Place,
    one_region: Option<&str>,
) -> Result<(), StoreError> {
    let answer = client.describe_table().table_name(&place.table).send().await;
    let answer = answer.map_err(|error| failed(place, Call::Read, &error))?;
    let table =
        answer.table().ok_or_else(|| StoreError::unavailable(format!("{place}: no description came")))?;
    let keys = table.key_schema();
    let kinds = table.attribute_definitions();
    let is_text = kinds
        .iter()
        .any(|kind| kind.attribute_name() == LEASE_KEY && *kind.attribute_type() == ScalarAttributeType::S);
    let fits = matches!(keys, [key] if key.attribute_name() == LEASE_KEY) && is_text;
    if !fits {
        let found: Vec<&str> = keys.iter().map(KeySchemaElement::attribute_name).collect();
        return Err(StoreError::invalid(format!(
            "{place}: a lease table of the KCL or of a8m/lease has the HASH key {LEASE_KEY:?} of type S and no other, this \
             one has {found:?}; name another table, or leave dialect=kcl out if it is one of tenure's own"
        )));
    }
    check_status(place, table)?;
    check_regions(place, table, one_region)
}

/// Makes the table, and waits until it can be used. False if it was there already.
pub(crate) async fn create(client: &Client, place: &Place) -> Result<bool, StoreError> {
    let missing =
        |error| StoreError::invalid(format!("{place}: the request to create it can't be made ({error})"));
    let key = KeySchemaElement::builder().attribute_name(LEASE_KEY).key_type(KeyType::Hash).build();
    let kind =
        AttributeDefinition::builder().attribute_name(LEASE_KEY).attribute_type(ScalarAttributeType::S);
    let request = client.create_table().table_name(&place.table).billing_mode(BillingMode::PayPerRequest);
    let request =
        request.key_schema(key.map_err(missing)?).attribute_definitions(kind.build().map_err(missing)?);
    let created = match request.send().await {
        Ok(_) => true,
        Err(error) if error.as_service_error().is_some_and(|error| error.is_resource_in_use_exception()) => {
            false
        }
        Err(error) => return Err(failed(place, Call::Write, &error)),
    };
    await_active(client, place).await?;
    Ok(created)
}
