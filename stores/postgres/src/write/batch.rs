//! Several conditional writes in one statement, which is one transaction: the server calls a function of its own for each of them.
//!
//! A function that writes sees what those before it in the same statement have written, so several writes of one key go one after the
//! other.

use super::{StatementDraft, one, unclear};
use crate::client::PostgresClient;
use crate::error::Call;
use crate::sql::{ABSENT, UNCHANGED, VACANT};
use std::collections::{BTreeMap, BTreeSet};
use tenure_core::op::{Expect, Outcome, Write};
use tenure_core::{Key, StoreError};
use tokio_postgres::types::{ToSql, Type};

/// The parameters of several writes, column by column.
#[derive(Default)]
struct Batch<'a> {
    kind: Vec<i16>,
    is_news: Vec<bool>,
    key: Vec<&'a [u8]>,
    fence: Vec<i64>,
    tenure: Vec<Option<&'a [u8]>>,
    ride_key: Vec<Option<&'a [u8]>>,
    ride_fence: Vec<Option<i64>>,
    record: Vec<&'a [u8]>,
    digest: Vec<&'a [u8]>,
    version: Vec<&'a [u8]>,
    nonce: Vec<i64>,
    /// The version that is expected, or the other half of the nonce.
    rest: Vec<&'a [u8]>,
}

impl<'a> Batch<'a> {
    fn push(&mut self, draft: &'a StatementDraft<'_>) {
        let (kind, rest) = match draft.write.expect {
            Expect::Absent => (ABSENT, &draft.expected),
            Expect::Vacant => (VACANT, &draft.nonce.1),
            Expect::Unchanged(_) => (UNCHANGED, &draft.expected),
        };
        let columns = &draft.columns;
        self.kind.push(kind);
        self.is_news.push(draft.is_news);
        self.key.push(draft.key);
        self.fence.push(columns.fence);
        self.tenure.push(columns.tenure.as_deref());
        self.ride_key.push(columns.ride_key.as_deref());
        self.ride_fence.push(columns.ride_fence);
        self.record.push(&draft.bytes);
        self.digest.push(&draft.digest);
        self.version.push(&columns.version);
        self.nonce.push(draft.nonce.0);
        self.rest.push(rest);
    }

    fn params(&self) -> [(&(dyn ToSql + Sync), Type); 12] {
        [
            (&self.kind, Type::INT2_ARRAY),
            (&self.is_news, Type::BOOL_ARRAY),
            (&self.key, Type::BYTEA_ARRAY),
            (&self.fence, Type::INT8_ARRAY),
            (&self.tenure, Type::BYTEA_ARRAY),
            (&self.ride_key, Type::BYTEA_ARRAY),
            (&self.ride_fence, Type::INT8_ARRAY),
            (&self.record, Type::BYTEA_ARRAY),
            (&self.digest, Type::BYTEA_ARRAY),
            (&self.version, Type::BYTEA_ARRAY),
            (&self.nonce, Type::INT8_ARRAY),
            (&self.rest, Type::BYTEA_ARRAY),
        ]
    }
}

/// They go in the order of their keys, so that two batches don't wait for each other.
pub(crate) async fn many(inner: &PostgresClient, writes: &[Write]) -> Result<Vec<Outcome>, StoreError> {
    let drafts: Vec<StatementDraft<'_>> = writes.iter().map(StatementDraft::new).collect::<Result<_, _>>()?;
    let order = in_turns(writes);
    let mut batch = Batch::default();
    order.iter().for_each(|&place| batch.push(&drafts[place]));
    let rows = inner.connections.ask(Call::Write, &inner.writes.batch, &batch.params()).await?;
    if rows.len() != writes.len() {
        return Err(unclear(inner, format_args!("{} rows for {} writes", rows.len(), writes.len())));
    }
    let mut attempts: Vec<Option<Outcome>> = writes.iter().map(|_| None).collect();
    let (mut has_written, mut trouble) = (false, None);
    for (&place, row) in order.iter().zip(&rows) {
        match drafts[place].judge(inner, Some(row)) {
            Ok(attempt) => {
                has_written |= matches!(attempt, Some(Outcome::Won { .. }));
                attempts[place] = attempt;
            }
            Err(error) => trouble = Some(error),
        }
    }
    // What was written is written, so whatever goes wrong now leaves the whole unknown.
    let as_a_whole = |error: StoreError, has_written: bool| {
        if has_written { StoreError::unknown(error.to_string()).because(error) } else { error }
    };
    if let Some(error) = trouble {
        return Err(as_a_whole(error, has_written));
    }
    if !reopen(writes, &mut attempts) {
        let text = format!("{}: other writes came between those of one key", inner.connections.place);
        return Err(StoreError::unknown(text));
    }
    let mut outcomes = Vec::with_capacity(writes.len());
    for (write, attempt) in writes.iter().zip(attempts) {
        let outcome = match attempt {
            Some(outcome) => outcome,
            None => one(inner, write).await.map_err(|error| as_a_whole(error, has_written))?,
        };
        has_written |= matches!(outcome, Outcome::Won { .. });
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// What is still open is sent again after all of the batch, and so are later writes of its key: they must not come before it. False if one
/// of them is done.
fn reopen(writes: &[Write], attempts: &mut [Option<Outcome>]) -> bool {
    let mut open: BTreeSet<&Key> = BTreeSet::new();
    for (write, attempt) in writes.iter().zip(attempts) {
        if attempt.is_none() {
            open.insert(&write.key);
        } else if open.contains(&write.key) {
            if matches!(attempt, Some(Outcome::Won { .. })) {
                return false;
            }
            *attempt = None;
        }
    }
    true
}

/// The places of the writes in the order of their keys; of several writes of one key, the first of each before the second of any.
fn in_turns(writes: &[Write]) -> Vec<usize> {
    let mut turns: BTreeMap<(usize, &Key), usize> = BTreeMap::new();
    let mut seen: BTreeMap<&Key, usize> = BTreeMap::new();
    for (place, write) in writes.iter().enumerate() {
        let turn = seen.entry(&write.key).or_default();
        turns.insert((*turn, &write.key), place);
        *turn += 1;
    }
    turns.into_values().collect()
}

#[cfg(test)]
mod tests {
    //! Plan: what is sent again with a write that another process came between.
    use super::*;
    use tenure_core::{Fence, Version};
    use tenure_testkit::RecordFactory;

    #[test]
    fn later_writes_of_a_key_that_is_open_are_sent_again_or_leave_all_unknown() {
        let factory = RecordFactory::new();
        let writes: Vec<Write> = ["a", "b", "a", "b"]
            .map(|name| factory.if_vacant(&Key::new(name).unwrap(), factory.held(5)))
            .to_vec();
        let won = || Some(Outcome::Won { version: Version(1), fence: Fence(5) });
        let lost = || Some(Outcome::Lost(None));
        let cases = [
            ([lost(), won(), won(), lost()], Some([lost(), won(), won(), lost()])),
            ([None, won(), lost(), lost()], Some([None, won(), None, lost()])),
            ([won(), None, lost(), lost()], Some([won(), None, lost(), None])),
            ([won(), lost(), None, won()], Some([won(), lost(), None, won()])),
            ([None, won(), won(), lost()], None),
        ];
        for (mut attempts, wanted) in cases {
            let are_in_order = reopen(&writes, &mut attempts);
            assert_eq!(are_in_order.then_some(attempts), wanted);
        }
    }
}
