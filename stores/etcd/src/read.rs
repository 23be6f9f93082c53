//! Reading: one record, several, or a page in the order of the keys. Each is one request.

use crate::client::EtcdClient;
use crate::error::Call;
use crate::memo::MemoEntry;
use crate::pair;
use crate::wire::{
    KeyValue, RangeRequest, RangeResponse, Request, Response, TxnRequest, TxnResponse, op, path, range,
};
use tenure_core::op::{Freshness, Listed};
use tenure_core::{Key, StoreError, Stored};
use tenure_store::parts::end_of_prefix;

/// How many reads etcd takes in one transaction, unless it was told otherwise.
const OPERATIONS: usize = 128;

pub(crate) async fn one(inner: &EtcdClient, key: &Key) -> Result<Option<Stored>, StoreError> {
    let question = range(&pair::name(&inner.prefix, key), false);
    let found: RangeResponse = inner.channels.ask(Call::Read, path::RANGE, question).await?;
    found.kvs.first().map(|found| stored(inner, key, found)).transpose()
}

pub(crate) async fn many(
    inner: &EtcdClient,
    keys: &[Key],
    freshness: Freshness,
) -> Result<Vec<Listed>, StoreError> {
    let mut all = Vec::new();
    for keys in keys.chunks(OPERATIONS) {
        let look = |key| {
            op(Request::RequestRange(range(&pair::name(&inner.prefix, key), freshness == Freshness::Recent)))
        };
        let question = TxnRequest { success: keys.iter().map(look).collect(), ..TxnRequest::default() };
        let answer: TxnResponse = inner.channels.ask(Call::Read, path::TXN, question).await?;
        for response in answer.responses {
            let Some(Response::ResponseRange(found)) = response.response else { continue };
            for found in found.kvs {
                all.push(listed(inner, &found)?);
            }
        }
    }
    Ok(all)
}

pub(crate) async fn list(
    inner: &EtcdClient,
    prefix: &str,
    after: Option<&Key>,
    limit: usize,
) -> Result<Vec<Listed>, StoreError> {
    let below = pair::below(&inner.prefix, prefix);
    let after = after.map(|after| [pair::name(&inner.prefix, after), vec![0]].concat()).unwrap_or_default();
    let range_end = end_of_prefix(&below).unwrap_or_default();
    let key = below.max(after);
    if limit == 0 || key >= range_end {
        return Ok(Vec::new());
    }
    // Nothing is said of an order: they come by name then. A page in an order that is asked for would cost etcd all of them.
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let question = RangeRequest { key, range_end, limit, ..RangeRequest::default() };
    let found: RangeResponse = inner.channels.ask(Call::Read, path::RANGE, question).await?;
    found.kvs.iter().map(|found| listed(inner, found)).collect()
}

fn listed(inner: &EtcdClient, found: &KeyValue) -> Result<Listed, StoreError> {
    let key = pair::key(&inner.prefix, &found.key)?;
    let stored = stored(inner, &key, found);
    Ok(Listed { key, stored })
}

/// The record of a pair that was read, which is remembered.
pub(crate) fn stored(inner: &EtcdClient, key: &Key, found: &KeyValue) -> Result<Stored, StoreError> {
    let stored = pair::stored(key, found);
    inner.memo.put(key, stored.as_ref().ok().map(|stored| MemoEntry::of(found, stored)));
    stored
}
