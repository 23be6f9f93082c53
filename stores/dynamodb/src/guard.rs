//! A tenure as a condition of the caller's own transaction.

use crate::item;
use crate::read;
use crate::store::Inner;
use aws_sdk_dynamodb::types::{ConditionCheck, TransactWriteItem};
use tenure_core::{Fence, Key, Ride, StoreError};

pub(crate) async fn checks(
    inner: &Inner,
    key: &Key,
    fence: Fence,
) -> Result<Vec<TransactWriteItem>, StoreError> {
    let standing = read::one(inner, key).await?;
    let ride = standing.and_then(|standing| standing.record.tenure).and_then(|tenure| tenure.ride);
    let lease = check(inner, key, fence, ride.as_ref())?;
    match ride {
        None => Ok(vec![lease]),
        Some(ride) => Ok(vec![lease, beats(inner, &ride)?]),
    }
}

/// The claim itself: a fence is that of one tenure alone, so key and fence say which is meant.
fn check(
    inner: &Inner,
    key: &Key,
    fence: Fence,
    ride: Option<&Ride>,
) -> Result<TransactWriteItem, StoreError> {
    // It must ride on the session that the other condition is about, or on none.
    let check = ConditionCheck::builder()
        .condition_expression(item::HELD_SO)
        .expression_attribute_values(":held", item::held(fence))
        .expression_attribute_values(":ride", item::ride(ride));
    in_transaction(inner, key, check)
}

/// The session of a claim that rides.
fn beats(inner: &Inner, ride: &Ride) -> Result<TransactWriteItem, StoreError> {
    let check = ConditionCheck::builder()
        .condition_expression(item::HELD)
        .expression_attribute_values(":held", item::held(ride.fence));
    in_transaction(inner, &ride.session, check)
}

fn in_transaction(
    inner: &Inner,
    key: &Key,
    check: aws_sdk_dynamodb::types::builders::ConditionCheckBuilder,
) -> Result<TransactWriteItem, StoreError> {
    let check = check.table_name(&inner.place.table).set_key(Some(inner.keys(key))).build();
    let check = check.map_err(|error| StoreError::invalid(format!("{}: {error}", inner.place)))?;
    Ok(TransactWriteItem::builder().condition_check(check).build())
}
