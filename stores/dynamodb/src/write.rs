//! Conditional writes. Each is one `UpdateItem`; the refusal of one brings the standing record along.
//!
//! `PutItem` is never used: a role without it, and without `DeleteItem`, can't throw a record away without a condition.

use crate::client::TableClient;
use crate::conditional::{Ended, ended};
use crate::item::{self, Item};
use crate::read;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld;
use std::collections::BTreeMap;
use std::sync::Arc;
use tenure_core::op::{Expect, Outcome, Write};
use tenure_core::{ErrorKind, Fence, Key, Record, StoreError, Stored, Version};
use tenure_store::codec;
use tokio::task::JoinSet;

/// How many writes of one call are under way at a time.
const AT_ONCE: usize = 25;
/// How often a vacant key is tried whose fence others raise meanwhile.
const ROUNDS: usize = 8;

/// What a single request asks for.
#[derive(Debug, Clone, Copy)]
enum WriteCondition {
    Absent,
    /// Nothing, or a vacant record with a lower fence.
    VacantBelow(Fence),
    Unchanged(Version),
}

pub(crate) async fn one(inner: &TableClient, write: &Write) -> Result<Outcome, StoreError> {
    let Write { key, expect, record } = write;
    let mut outcome = match *expect {
        Expect::Absent => attempt(inner, key, WriteCondition::Absent, record).await?,
        Expect::Vacant => {
            // Whoever released it a moment ago knows better than the clock what its fence is.
            let fence = match inner.released.take(key) {
                Some(last) => last.next(record.fence)?,
                None => record.fence,
            };
            let record = Record { fence, ..record.clone() };
            attempt(inner, key, WriteCondition::VacantBelow(fence), &record).await?
        }
        Expect::Unchanged(version) => attempt(inner, key, WriteCondition::Unchanged(version), record).await?,
    };
    if let (None, Outcome::Won { fence, .. }) = (&record.tenure, &outcome) {
        inner.released.note(key, *fence);
    }
    for _ in 0..ROUNDS {
        let standing = match &outcome {
            Outcome::Lost(Some(standing))
                if *expect == Expect::Vacant && standing.record.tenure.is_none() =>
            {
                standing
            }
            _ => return Ok(outcome),
        };
        // Our clock is behind that of the last holder: count on from its fence, on just the version that has it.
        let fence = standing.record.fence.next(record.fence)?;
        let raised = Record { fence, ..record.clone() };
        outcome = attempt(inner, key, WriteCondition::Unchanged(standing.version), &raised).await?;
    }
    Err(StoreError::unavailable(format!(
        "{}: the vacant key {key} changes too often; try again",
        inner.place
    )))
}

/// One request, and the outcome of it.
async fn attempt(
    inner: &TableClient,
    key: &Key,
    condition: WriteCondition,
    record: &Record,
) -> Result<Outcome, StoreError> {
    let encoded = codec::encode(record)?;
    // Time may be hidden from whoever leaves a letter in another's tenure. Its date could make a live holder look dead, and nobody
    // would write that anew.
    let dates = inner.dates.as_ref().filter(|_| !record.is_written_by_others());
    let dated = dates.and_then(|dates| Some((dates, dates.date()?)));
    let written = dated.map(|(_, dated)| dated.written);
    let mut request = inner
        .client
        .update_item()
        .table_name(&inner.place.table)
        .set_key(Some(inner.keys(key)))
        .update_expression(item::UPDATE)
        .return_values_on_condition_check_failure(AllOld);
    for (name, value) in item::values(record, encoded, written) {
        request = request.expression_attribute_values(name, value);
    }
    request = match condition {
        WriteCondition::Absent => request.condition_expression(item::ABSENT),
        WriteCondition::VacantBelow(fence) => request
            .condition_expression(item::VACANT)
            .expression_attribute_values(":below", item::vacant(fence)),
        WriteCondition::Unchanged(version) => request
            .condition_expression(item::UNCHANGED)
            .expression_attribute_values(":version", item::version(version)),
    };
    match ended(&inner.place, request.send().await)? {
        Ended::Done(_) => {
            if let Some((dates, dated)) = dated {
                dates.confirm(dated)?;
            }
            Ok(Outcome::Won { version: record.version(), fence: record.fence })
        }
        Ended::Refused(old) => standing(inner, key, old).await.map(Outcome::Lost),
    }
}

/// What stands in the way of a write that was refused.
async fn standing(inner: &TableClient, key: &Key, item: Option<Item>) -> Result<Option<Stored>, StoreError> {
    match item {
        Some(item) => inner.stored(key, &item).map(Some),
        None => read::one(inner, key).await,
    }
}

pub(crate) async fn many(inner: &Arc<TableClient>, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
    let count = writes.len();
    writes.iter().try_for_each(|write| codec::check(&write.record))?;
    // Writes of one key one after the other, and the keys side by side.
    let mut by_key: BTreeMap<Key, Vec<(usize, Write)>> = BTreeMap::new();
    for (place, write) in writes.into_iter().enumerate() {
        by_key.entry(write.key.clone()).or_default().push((place, write));
    }
    let (mut waiting, mut running) = (by_key.into_values(), JoinSet::new());
    let mut outcomes: Vec<Option<Outcome>> = vec![None; count];
    // What is not known of one of them says more than what is known of another.
    let mut worst: Option<StoreError> = None;
    loop {
        while running.len() < AT_ONCE && worst.is_none() {
            let Some(writes) = waiting.next() else { break };
            running.spawn(in_order(Arc::clone(inner), writes));
        }
        let Some(done) = running.join_next().await else { break };
        let (written, error) =
            done.map_err(|error| StoreError::unknown(format!("the store's code failed: {error}")))?;
        for (place, outcome) in written {
            if let Some(slot) = outcomes.get_mut(place) {
                *slot = Some(outcome);
            }
        }
        if worst.is_none() || error.as_ref().is_some_and(|error| error.kind() == ErrorKind::Unknown) {
            worst = error.or(worst);
        }
    }
    match worst {
        None => outcomes
            .into_iter()
            .collect::<Option<_>>()
            .ok_or_else(|| StoreError::unknown("a write was not answered")),
        // An error is about all of them, and some have taken effect.
        Some(error) if outcomes.iter().flatten().any(|outcome| matches!(outcome, Outcome::Won { .. })) => {
            Err(StoreError::unknown(format!("some of {count} writes took effect, one did not: {error}")))
        }
        Some(error) => Err(error),
    }
}

type Written = (Vec<(usize, Outcome)>, Option<StoreError>);

async fn in_order(inner: Arc<TableClient>, writes: Vec<(usize, Write)>) -> Written {
    let mut written = Vec::new();
    for (place, write) in writes {
        match one(&inner, &write).await {
            Ok(outcome) => written.push((place, outcome)),
            Err(error) => return (written, Some(error)),
        }
    }
    (written, None)
}

pub(crate) async fn remove(inner: &TableClient, key: &Key, version: Version) -> Result<bool, StoreError> {
    let request = inner
        .client
        .delete_item()
        .table_name(&inner.place.table)
        .set_key(Some(inner.keys(key)))
        .condition_expression(item::UNCHANGED)
        .expression_attribute_values(":version", item::version(version))
        .return_values_on_condition_check_failure(AllOld);
    match ended(&inner.place, request.send().await)? {
        Ended::Done(_) => Ok(true),
        // One that can't be understood is not merely another version.
        Ended::Refused(old) => standing(inner, key, old).await.map(|_| false),
    }
}
