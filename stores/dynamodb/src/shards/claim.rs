//! The number of a namespace's shards, as the first write fixes it for good.

use crate::client::TableClient;
use crate::conditional::{Ended, ended};
use crate::{item, list, read};
use std::sync::Arc;
use tenure_core::{ErrorKind, StoreError};

/// Before the first write: fixes the number, or finds that it is fixed.
///
/// Nothing that was to be written has been sent when this fails.
pub(crate) async fn fix(inner: &Arc<TableClient>) -> Result<(), StoreError> {
    let shards = &inner.shards;
    if shards.is_fixed.get().is_some() {
        return Ok(());
    }
    let fixed = shards.fixing.join(|| {
        let inner = Arc::clone(inner);
        async move {
            claim(&inner).await?;
            let _is_known = inner.shards.is_fixed.set(());
            Ok(())
        }
    });
    let fixed = fixed.await.unwrap_or_else(|| Err(StoreError::unavailable("what fixes it has panicked")));
    fixed.map_err(|error| match error.kind() {
        ErrorKind::Unknown => {
            StoreError::unavailable(format!("the number of shards is not known to be fixed: {error}"))
        }
        _ => error,
    })
}

async fn claim(inner: &TableClient) -> Result<(), StoreError> {
    let TableClient { shards, place, client, .. } = inner;
    if shards.count > 1 && list::has_any(inner, &shards.namespace).await? {
        find(inner).await?;
        return Err(StoreError::invalid(format!(
            "{place}: the namespace {:?} has records in one shard already; leave shards={} out, or take another namespace",
            shards.namespace, shards.count
        )));
    }
    let request = client
        .update_item()
        .table_name(&place.table)
        .set_key(Some(shards.own_keys()))
        .update_expression("SET shards = :shards")
        .condition_expression(item::ABSENT)
        .expression_attribute_values(":shards", item::number(shards.count));
    match ended(place, request.send().await)? {
        Ended::Done(_) => Ok(()),
        Ended::Refused(_) if find(inner).await? => Ok(()),
        Ended::Refused(_) => Err(StoreError::unavailable(format!(
            "{place}: what fixes the number of shards of {:?} was deleted just now; try again",
            shards.namespace
        ))),
    }
}

/// Whether this number is fixed, or none is. An error if another one is.
async fn find(inner: &TableClient) -> Result<bool, StoreError> {
    let found = read::item(inner, inner.shards.own_keys()).await?;
    found.map_or(Ok(false), |found| inner.shards.check(&inner.place, &found).map(|()| true))
}
