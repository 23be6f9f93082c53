//! Conditional writes. Each is one transaction, whose other branch answers with what stands there instead.
//!
//! The condition is that of etcd's own revision, so it says what is believed to stand there: nothing, or what was last seen. Where the
//! belief was old and the write's own condition holds all the same, it is tried again on what the refusal has shown.

use crate::client::EtcdClient;
use crate::config::BATCH;
use crate::error::{AttemptError, Call};
use crate::full::{self, RefusedChange};
use crate::memo::MemoEntry;
use crate::pair;
use crate::read::stored;
use crate::wire::{
    DeleteRangeRequest, KeyValue, PutRequest, RangeResponse, Request, RequestOp, Response, ResponseOp,
    TxnRequest, TxnResponse, is_absent, op, path, range,
};
use std::collections::BTreeMap;
use tenure_core::op::{Expect, Outcome, Write};
use tenure_core::{Fence, Key, Record, StoreError, Version};
use tenure_store::codec;

/// How often a write is tried again because other writes of the key came between.
const ROUNDS: usize = 16;
/// How many bytes of records one transaction takes: etcd takes requests of 1.5 MiB.
const BYTES: usize = 1 << 20;

/// A change of one key on a condition.
struct TxnDraft<'a> {
    key: &'a Key,
    name: Vec<u8>,
    expect: Expect,
    /// What is written; none where it is removed.
    record: Option<&'a Record>,
}

/// What is asked of etcd for it.
enum TxnAttempt {
    /// A transaction; and what comes of it if it succeeds.
    Change(TxnRequest, KeyChange),
    /// A read: it is not known which revision has the version that is expected.
    Look,
}

/// A change of one key.
struct KeyChange {
    fence: Fence,
    /// What it is compared with; none: nothing stands there.
    before: Option<MemoEntry>,
    /// What will stand there if it succeeds.
    after: Option<MemoEntry>,
}

/// What came of an attempt.
enum Judged {
    Done(Outcome),
    /// The belief was old; this is what stands there.
    Again(Option<MemoEntry>),
}

impl<'a> TxnDraft<'a> {
    fn of(inner: &EtcdClient, write: &'a Write) -> Result<TxnDraft<'a>, StoreError> {
        codec::check(&write.record)?;
        let name = pair::name(&inner.prefix, &write.key);
        Ok(TxnDraft { key: &write.key, name, expect: write.expect, record: Some(&write.record) })
    }

    fn attempt(&self, belief: Option<&MemoEntry>) -> Result<TxnAttempt, StoreError> {
        let given = self.record.map_or(Fence(0), |record| record.fence);
        let (before, fence) = match (self.expect, belief) {
            (Expect::Unchanged(version), Some(seen)) if seen.version == version => (Some(seen), given),
            (Expect::Unchanged(_), _) => return Ok(TxnAttempt::Look),
            (Expect::Vacant, Some(seen)) => match seen.vacant.map(|last| last.next(given)) {
                Some(Ok(fence)) => (Some(seen), fence),
                // Held, or no fence is left: what stands there now, says the refusal.
                Some(Err(_)) | None => (None, given),
            },
            (Expect::Vacant, None) | (Expect::Absent, _) => (None, given),
        };
        let compare = before.map_or_else(|| vec![is_absent(&self.name)], |seen| seen.stands(&self.name));
        let (change, after) = match self.record {
            None => (Request::RequestDeleteRange(DeleteRangeRequest { key: self.name.clone() }), None),
            Some(record) => {
                let record = Record { fence, ..record.clone() };
                let value = pair::value(&record)?;
                let vacant = record.tenure.is_none().then_some(fence);
                // Its revision is told by the answer.
                let seen = MemoEntry::written(record.version(), vacant, 0, &value);
                (Request::RequestPut(PutRequest { key: self.name.clone(), value }), Some(seen))
            }
        };
        let look = op(Request::RequestRange(range(&self.name, false)));
        let txn = TxnRequest { compare, success: vec![op(change)], failure: vec![look] };
        Ok(TxnAttempt::Change(txn, KeyChange { fence, before: before.cloned(), after }))
    }

    /// The change is done, at this revision.
    fn won(&self, inner: &EtcdClient, revision: i64, KeyChange { fence, after, .. }: KeyChange) -> Outcome {
        let version = after.as_ref().map_or(Version(0), |seen| seen.version);
        inner.memo.put(self.key, after.map(|seen| seen.at(revision)));
        Outcome::Won { version, fence }
    }

    /// A change of this, for who wants to know whether it was done.
    fn refused<'c>(&'c self, change: &'c KeyChange) -> RefusedChange<'c> {
        RefusedChange { name: &self.name, before: change.before.as_ref(), after: change.after.as_ref() }
    }

    /// Nothing was changed, and this stands there.
    fn judge(&self, inner: &EtcdClient, found: Option<&KeyValue>) -> Result<Judged, StoreError> {
        let Some(found) = found else {
            inner.memo.put(self.key, None);
            return Ok(match self.expect {
                Expect::Unchanged(_) => Judged::Done(Outcome::Lost(None)),
                Expect::Absent | Expect::Vacant => Judged::Again(None),
            });
        };
        let standing = stored(inner, self.key, found)?;
        let holds = match self.expect {
            Expect::Absent => false,
            Expect::Vacant if standing.record.tenure.is_some() => false,
            // Nothing else than a used-up fence stands in the way.
            Expect::Vacant => standing.record.fence.next(Fence(0)).map(|_| true)?,
            Expect::Unchanged(version) => standing.version == version,
        };
        let seen = MemoEntry::of(found, &standing);
        Ok(if holds { Judged::Again(Some(seen)) } else { Judged::Done(Outcome::Lost(Some(standing))) })
    }

    /// What came of it within a transaction of many.
    fn answered(
        &self,
        inner: &EtcdClient,
        revision: i64,
        change: Option<KeyChange>,
        response: Option<Response>,
    ) -> Result<Judged, StoreError> {
        match (response, change) {
            (Some(Response::ResponseTxn(txn)), Some(change)) if txn.succeeded => {
                Ok(Judged::Done(self.won(inner, revision, change)))
            }
            (Some(Response::ResponseTxn(txn)), _) => self.judge(inner, standing(&txn.responses)),
            (Some(Response::ResponseRange(found)), _) => self.judge(inner, found.kvs.first()),
            _ => {
                Err(StoreError::unknown(format!("{}: a write was answered unclearly", inner.channels.place)))
            }
        }
    }

    async fn perform(
        &self,
        inner: &EtcdClient,
        mut belief: Option<MemoEntry>,
    ) -> Result<Outcome, StoreError> {
        for _ in 0..ROUNDS {
            let judged = match self.attempt(belief.as_ref())? {
                TxnAttempt::Look => {
                    let question = range(&self.name, false);
                    let found: RangeResponse = inner.channels.ask(Call::Read, path::RANGE, question).await?;
                    self.judge(inner, found.kvs.first())?
                }
                TxnAttempt::Change(txn, change) => match sent(inner, txn, &[self.refused(&change)]).await? {
                    SentTxn::Done(revisions) => {
                        return Ok(self.won(inner, revisions.first().copied().unwrap_or_default(), change));
                    }
                    SentTxn::Answered(answer) if answer.succeeded => {
                        return Ok(self.won(inner, revision(&answer), change));
                    }
                    SentTxn::Answered(answer) => self.judge(inner, standing(&answer.responses))?,
                },
            };
            match judged {
                Judged::Done(outcome) => return Ok(outcome),
                Judged::Again(seen) => belief = seen,
            }
        }
        Err(self.restless(inner))
    }

    fn restless(&self, inner: &EtcdClient) -> StoreError {
        StoreError::unavailable(format!(
            "{}: the key {} changes too often; try again",
            inner.channels.place, self.key
        ))
    }
}

/// A transaction was sent.
enum SentTxn {
    Answered(TxnResponse),
    /// All that it changes is done, at these revisions, though etcd refused it for lack of space.
    Done(Vec<i64>),
}

async fn sent(
    inner: &EtcdClient,
    txn: TxnRequest,
    changes: &[RefusedChange<'_>],
) -> Result<SentTxn, StoreError> {
    match inner.channels.try_ask(Call::Write, path::TXN, txn).await {
        Ok(answer) => Ok(SentTxn::Answered(answer)),
        Err(AttemptError::Full(error)) => full::revisions(inner, changes, error).await.map(SentTxn::Done),
        Err(fault) => Err(fault.into_error(Call::Write)),
    }
}

fn revision(answer: &TxnResponse) -> i64 {
    answer.header.map_or(0, |header| header.revision)
}

/// What the other branch of a transaction has read.
fn standing(responses: &[ResponseOp]) -> Option<&KeyValue> {
    match responses.first()?.response.as_ref()? {
        Response::ResponseRange(found) => found.kvs.first(),
        _ => None,
    }
}

pub(crate) async fn one(inner: &EtcdClient, write: &Write) -> Result<Outcome, StoreError> {
    TxnDraft::of(inner, write)?.perform(inner, inner.memo.get(&write.key)).await
}

pub(crate) async fn remove(inner: &EtcdClient, key: &Key, version: Version) -> Result<bool, StoreError> {
    let name = pair::name(&inner.prefix, key);
    let draft = TxnDraft { key, name, expect: Expect::Unchanged(version), record: None };
    let outcome = draft.perform(inner, inner.memo.get(key)).await?;
    Ok(matches!(outcome, Outcome::Won { .. }))
}

/// Removes what stands under a key, or writes `record` over it, if it is just this.
pub(crate) async fn replace(
    inner: &EtcdClient,
    key: &Key,
    found: &KeyValue,
    record: Option<&Record>,
) -> Result<bool, StoreError> {
    let name = pair::name(&inner.prefix, key);
    let before = MemoEntry::written(Version(0), None, found.mod_revision, &found.value);
    let (change, after) = match record {
        None => (Request::RequestDeleteRange(DeleteRangeRequest { key: name.clone() }), None),
        Some(record) => {
            let value = pair::value(record)?;
            let after = MemoEntry::written(record.version(), None, 0, &value);
            (Request::RequestPut(PutRequest { key: name.clone(), value }), Some(after))
        }
    };
    let compare =
        vec![crate::wire::is_of(&name, found.mod_revision), crate::wire::is_exactly(&name, &found.value)];
    let txn = TxnRequest { compare, success: vec![op(change)], failure: Vec::new() };
    let refused = RefusedChange { name: &name, before: Some(&before), after: after.as_ref() };
    let sent = sent(inner, txn, &[refused]).await;
    inner.memo.put(key, None);
    Ok(match sent? {
        SentTxn::Answered(answer) => answer.succeeded,
        SentTxn::Done(_) => true,
    })
}

/// All writes in one transaction, in which each is a transaction of its own: so each has its own condition, and its own outcome. etcd
/// writes a key only once in a transaction; more writes of one key go one after the other, as do more bytes than a request takes.
pub(crate) async fn many(inner: &EtcdClient, writes: &[Write]) -> Result<Vec<Outcome>, StoreError> {
    let drafts: Vec<TxnDraft<'_>> =
        writes.iter().map(|write| TxnDraft::of(inner, write)).collect::<Result<_, _>>()?;
    let mut outcomes: Vec<Option<Outcome>> = drafts.iter().map(|_| None).collect();
    for turn in turns(writes) {
        let mut open: Vec<(usize, Option<MemoEntry>)> =
            turn.into_iter().map(|place| (place, inner.memo.get(&writes[place].key))).collect();
        for _ in 0..ROUNDS {
            if let Err(error) = round(inner, &drafts, &mut open, &mut outcomes).await {
                // What was written is written, so whatever goes wrong now leaves the whole unknown.
                let is_begun =
                    outcomes.iter().flatten().any(|outcome| matches!(outcome, Outcome::Won { .. }));
                return Err(if is_begun {
                    StoreError::unknown(error.to_string()).because(error)
                } else {
                    error
                });
            }
        }
        if let Some((place, _)) = open.first() {
            return Err(StoreError::unknown(drafts[*place].restless(inner).to_string()));
        }
    }
    outcomes
        .into_iter()
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| StoreError::unknown(format!("{}: a batch was answered in part", inner.channels.place)))
}

/// The places of writes that go together: none of them has the key of another.
fn turns(writes: &[Write]) -> Vec<Vec<usize>> {
    let mut turns: Vec<Vec<usize>> = Vec::new();
    let mut seen: BTreeMap<&Key, usize> = BTreeMap::new();
    for (place, write) in writes.iter().enumerate() {
        let turn = seen.entry(&write.key).or_default();
        if *turn == turns.len() {
            turns.push(Vec::new());
        }
        turns[*turn].push(place);
        *turn += 1;
    }
    turns
}

/// One attempt at each write that is open; those whose outcome is not known then stay.
async fn round(
    inner: &EtcdClient,
    drafts: &[TxnDraft<'_>],
    open: &mut Vec<(usize, Option<MemoEntry>)>,
    outcomes: &mut [Option<Outcome>],
) -> Result<(), StoreError> {
    let mut left = std::mem::take(open).into_iter().peekable();
    let mut trouble = None;
    while left.peek().is_some() {
        let (mut asked, mut ops, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some((place, belief)) = left.next_if(|_| bytes < BYTES && ops.len() < BATCH) {
            let draft = &drafts[place];
            let (request, change) = match draft.attempt(belief.as_ref())? {
                TxnAttempt::Look => (Request::RequestRange(range(&draft.name, false)), None),
                TxnAttempt::Change(txn, change) => (Request::RequestTxn(txn), Some(change)),
            };
            let request: RequestOp = op(request);
            bytes += prost::Message::encoded_len(&request);
            ops.push(request);
            asked.push((place, change));
        }
        let txn = TxnRequest { success: ops, ..TxnRequest::default() };
        let changes: Vec<RefusedChange<'_>> = asked
            .iter()
            .filter_map(|(place, change)| Some(drafts[*place].refused(change.as_ref()?)))
            .collect();
        let judged: Vec<(usize, Result<Judged, StoreError>)> = match sent(inner, txn, &changes).await? {
            SentTxn::Answered(answer) => {
                let revision = revision(&answer);
                let answered = asked.into_iter().zip(answer.responses);
                let judge = |((place, change), response): ((usize, _), ResponseOp)| {
                    (place, drafts[place].answered(inner, revision, change, response.response))
                };
                answered.map(judge).collect()
            }
            SentTxn::Done(revisions) => {
                let mut revisions = revisions.into_iter();
                let mut judge = |(place, change): (usize, Option<KeyChange>)| {
                    let Some(change) = change else { return (place, Ok(Judged::Again(None))) };
                    let revision = revisions.next().unwrap_or_default();
                    (place, Ok(Judged::Done(drafts[place].won(inner, revision, change))))
                };
                asked.into_iter().map(&mut judge).collect()
            }
        };
        for (place, judged) in judged {
            match judged {
                Ok(Judged::Done(outcome)) => outcomes[place] = Some(outcome),
                Ok(Judged::Again(seen)) => open.push((place, seen)),
                Err(error) => trouble = Some(error),
            }
        }
    }
    trouble.map_or(Ok(()), Err)
}
