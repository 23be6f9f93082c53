//! Listings: in byte order of keys, over all pages of the service and over all shards of the namespace.
//!
//! Each shard is read a page at a time, as much as its share of what is asked for and a little more, and the lowest of all heads is the next.

use crate::client::TableClient;
use crate::error::failed;
use crate::item::{self, Item, KEY, NAMESPACE};
use crate::read::listed;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::future::try_join_all;
use std::collections::VecDeque;
use tenure_core::{Key, StoreError};
use tenure_store::Listed;
use tenure_store::parts::Call;

pub(crate) async fn list(
    inner: &TableClient,
    prefix: &str,
    after: Option<&Key>,
    limit: usize,
) -> Result<Vec<Listed>, StoreError> {
    // No key is that long, and DynamoDB would refuse the question.
    if limit == 0 || prefix.len() > Key::MAX_BYTES {
        return Ok(Vec::new());
    }
    let after = match after {
        Some(after) if after.as_str().starts_with(prefix) => Some(after),
        // Beyond the last key with that prefix.
        Some(after) if after.as_str() > prefix => return Ok(Vec::new()),
        _ => None,
    };
    let share = share(limit, usize::from(inner.shards.count()));
    let shards = inner.shards.partitions().map(|partition| {
        let start = after.map(|after| item::keys(&partition, after.as_str()));
        Shard { partition, found: VecDeque::new(), start, is_over: false }
    });
    let mut shards: Vec<Shard> = shards.collect();
    try_join_all(shards.iter_mut().map(|shard| shard.fill(inner, prefix, share))).await?;
    let mut found = Vec::new();
    while found.len() < limit {
        for shard in &mut shards {
            shard.fill(inner, prefix, share.min(limit - found.len())).await?;
        }
        let lowest = shards
            .iter_mut()
            .filter(|shard| !shard.found.is_empty())
            .min_by(|one, other| one.head().cmp(&other.head()));
        let Some(next) = lowest.and_then(|shard| shard.found.pop_front()) else { break };
        found.push(next);
    }
    Ok(found)
}

/// How much of a listing is asked of one shard at a time: its mean share, and two standard deviations, so that most need not be asked twice.
fn share(limit: usize, shards: usize) -> usize {
    if shards == 1 {
        return limit;
    }
    let mean = limit.div_ceil(shards);
    limit.min(mean + 2 * mean.isqrt() + 1)
}

/// How far one shard has been read.
struct Shard {
    partition: String,
    /// What was read and is not told yet.
    found: VecDeque<Listed>,
    /// Where its next page begins.
    start: Option<Item>,
    is_over: bool,
}

impl Shard {
    fn head(&self) -> Option<&Key> {
        self.found.front().map(|listed| &listed.key)
    }

    /// Reads on if nothing is left to tell. A page may be empty without being the last.
    async fn fill(&mut self, inner: &TableClient, prefix: &str, most: usize) -> Result<(), StoreError> {
        while self.found.is_empty() && !self.is_over {
            let limit = i32::try_from(most).unwrap_or(i32::MAX);
            let query = query(inner, &self.partition, prefix).set_exclusive_start_key(self.start.take());
            let answer = query.limit(limit).send().await;
            let answer = answer.map_err(|error| failed(&inner.place, Call::Read, error))?;
            for item in answer.items() {
                self.found.push_back(listed(inner, item)?);
            }
            self.start = answer.last_evaluated_key;
            self.is_over = self.start.is_none();
        }
        Ok(())
    }
}

/// Whether there is any item of this partition key.
pub(crate) async fn has_any(inner: &TableClient, partition: &str) -> Result<bool, StoreError> {
    let answer = query(inner, partition, "").limit(1).send().await;
    Ok(!answer.map_err(|error| failed(&inner.place, Call::Read, error))?.items().is_empty())
}

/// Asks for the items of one partition key.
fn query(inner: &TableClient, partition: &str, prefix: &str) -> QueryFluentBuilder {
    let query = inner
        .client
        .query()
        .table_name(&inner.place.table)
        .consistent_read(true)
        .expression_attribute_names("#n", NAMESPACE)
        .expression_attribute_values(":n", AttributeValue::S(partition.to_owned()));
    if prefix.is_empty() {
        return query.key_condition_expression("#n = :n");
    }
    query
        .key_condition_expression("#n = :n AND begins_with(#k, :k)")
        .expression_attribute_names("#k", KEY)
        .expression_attribute_values(":k", item::text(prefix))
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn one_shard_is_asked_for_all_and_many_for_a_little_more_than_their_share() {
        assert_eq!((share(1000, 1), share(usize::MAX, 1)), (1000, usize::MAX));
        assert_eq!(share(1000, 16), 63 + 14 + 1);
        assert_eq!((share(1, 16), share(2, 128)), (1, 2));
        assert!(share(usize::MAX, 128) < usize::MAX / 64);
    }
}
