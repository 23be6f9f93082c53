//! A tenure as a condition of the caller's own transaction.

use crate::client::TableClient;
use crate::item;
use crate::read;
use aws_sdk_dynamodb::types::{ConditionCheck, TransactWriteItem};
use tenure_core::{Attachment, Fence, Key, StoreError};

pub(crate) async fn checks(
    inner: &TableClient,
    key: &Key,
    fence: Fence,
) -> Result<Vec<TransactWriteItem>, StoreError> {
    let standing = read::one(inner, key).await?;
    let attachment =
        standing.and_then(|standing| standing.record.tenure).and_then(|tenure| tenure.attachment);
    let lease = check(inner, key, fence, attachment.as_ref())?;
    match attachment {
        None => Ok(vec![lease]),
        Some(attachment) => Ok(vec![lease, beats(inner, &attachment)?]),
    }
}

/// The claim itself: a fence is that of one tenure alone, so key and fence say which is meant.
fn check(
    inner: &TableClient,
    key: &Key,
    fence: Fence,
    attachment: Option<&Attachment>,
) -> Result<TransactWriteItem, StoreError> {
    // It must be attached to the session that the other condition is about, or to none.
    let check = ConditionCheck::builder()
        .condition_expression(item::HELD_SO)
        .expression_attribute_values(":held", item::held(fence))
        .expression_attribute_values(":attachment", item::attachment(attachment));
    in_transaction(inner, key, check)
}

/// The session of a claim that is attached.
fn beats(inner: &TableClient, attachment: &Attachment) -> Result<TransactWriteItem, StoreError> {
    let check = ConditionCheck::builder()
        .condition_expression(item::HELD)
        .expression_attribute_values(":held", item::held(attachment.fence));
    in_transaction(inner, &attachment.session, check)
}

fn in_transaction(
    inner: &TableClient,
    key: &Key,
    check: aws_sdk_dynamodb::types::builders::ConditionCheckBuilder,
) -> Result<TransactWriteItem, StoreError> {
    let check = check.table_name(&inner.place.table).set_key(Some(inner.keys(key))).build();
    let check = check.map_err(|error| StoreError::invalid(format!("{}: {error}", inner.place)))?;
    Ok(TransactWriteItem::builder().condition_check(check).build())
}
