//! Conditional writes. Each is one statement, which also answers with what it found: see [`crate::functions`]. So is a batch of them.
//!
//! If the condition does not hold for the row that the answer shows, the write was refused for that. If it does, and yet nothing was
//! written, another write came between, and the statement is sent again; or the row's digest is wrong, which reading it tells.

mod batch;

use crate::cells::Composite;
use crate::client::PostgresClient;
use crate::connection::{Forms, Params};
use crate::error::Call;
use crate::read;
use crate::row::{Columns, digest, key_at, stored, version_bytes};
use crate::sql::StatementForms;
pub(crate) use batch::many;
use std::fmt::Display;
use tenure_core::op::{Expect, Outcome, Write};
use tenure_core::{Fence, Key, StoreError, Stored, Version};
use tenure_store::codec;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

/// How often a statement is sent again because other writes of the key came between.
const ROUNDS: usize = 16;

pub(crate) async fn one(inner: &PostgresClient, write: &Write) -> Result<Outcome, StoreError> {
    let draft = StatementDraft::new(write)?;
    for _ in 0..ROUNDS {
        let rows = inner.connections.ask_either(Call::Write, draft.sql(inner), &draft.params()).await?;
        if let Some(outcome) = draft.judge(inner, rows.first())? {
            return Ok(outcome);
        }
        is_whole(inner, &write.key).await?;
    }
    Err(changes_too_often(inner, &write.key))
}

/// Fails where the row can't be written: what writes answer with lacks its digest. Only writes that were not done ask for that.
async fn is_whole(inner: &PostgresClient, key: &Key) -> Result<(), StoreError> {
    read::one(inner, key).await.map(drop)
}

fn changes_too_often(inner: &PostgresClient, key: &Key) -> StoreError {
    StoreError::unavailable(format!(
        "{}: the key {key} changes too often; try again",
        inner.connections.place
    ))
}

/// A write as the parameters of its statement.
pub(crate) struct StatementDraft<'a> {
    write: &'a Write,
    key: &'a [u8],
    columns: Columns,
    bytes: Vec<u8>,
    digest: Vec<u8>,
    nonce: (i64, Vec<u8>),
    expected: Vec<u8>,
    is_news: bool,
}

impl<'a> StatementDraft<'a> {
    pub(crate) fn new(write: &'a Write) -> Result<StatementDraft<'a>, StoreError> {
        let record = &write.record;
        let bytes = codec::encode(record)?;
        let columns = Columns::of(record, record.version().0);
        let expected = match write.expect {
            Expect::Unchanged(version) => version_bytes(version),
            Expect::Absent | Expect::Vacant => Vec::new(),
        };
        let nonce = record.nonce.0;
        Ok(StatementDraft {
            write,
            key: write.key.as_str().as_bytes(),
            digest: digest(&columns, &bytes),
            columns,
            bytes,
            nonce: (((nonce >> 64) as u64).cast_signed(), (nonce as u64).to_be_bytes().to_vec()),
            expected,
            // What others wait for: an end, mail, or a successor.
            is_news: record.tenure.as_ref().is_none_or(|tenure| {
                let succeeds = matches!(write.expect, Expect::Unchanged(_)) && tenure.id == record.nonce;
                succeeds || !tenure.mail.is_empty()
            }),
        })
    }

    fn sql<'s>(&self, inner: &'s PostgresClient) -> Forms<'s> {
        let calls = match self.write.expect {
            Expect::Absent => &inner.writes.absent,
            Expect::Vacant => &inner.writes.vacant,
            Expect::Unchanged(_) => &inner.writes.unchanged,
        };
        let StatementForms { prepared, once } = if self.is_news { &calls.news } else { &calls.quiet };
        Forms { prepared, once }
    }

    /// Those of the functions: see [`crate::functions`].
    fn params(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let version = self.version();
        match self.write.expect {
            Expect::Absent => self.row([version]),
            Expect::Vacant => self.row([(&self.nonce.0, Type::INT8), (&self.nonce.1, Type::BYTEA)]),
            Expect::Unchanged(_) => self.row([version, (&self.expected, Type::BYTEA)]),
        }
    }

    /// The version that the row gets, unless the server raises its fence.
    pub(crate) fn version(&self) -> (&(dyn ToSql + Sync), Type) {
        (&self.columns.version, Type::BYTEA)
    }

    /// What the columns of a row get but for the version, and then `more`.
    pub(crate) fn row<'s, const N: usize>(
        &'s self,
        more: [(&'s (dyn ToSql + Sync), Type); N],
    ) -> Vec<(&'s (dyn ToSql + Sync), Type)> {
        let Columns { fence, tenure, ride_key, ride_fence, .. } = &self.columns;
        let row: [(&(dyn ToSql + Sync), Type); 7] = [
            (&self.key, Type::BYTEA),
            (fence, Type::INT8),
            (tenure, Type::BYTEA),
            (ride_key, Type::BYTEA),
            (ride_fence, Type::INT8),
            (&self.bytes, Type::BYTEA),
            (&self.digest, Type::BYTEA),
        ];
        row.into_iter().chain(more).collect()
    }

    /// The fence that the server gave with a version, which tells it; none if the version is not this write's.
    fn fence_of(&self, version: Version) -> Option<Fence> {
        let fence = (version.0 ^ self.write.record.nonce.0) >> 64;
        let fence = u64::try_from(fence).ok().map(Fence)?;
        (Version::of(self.write.record.nonce, fence) == version).then_some(fence)
    }

    /// What came of the statement; none if another write came between.
    fn judge(&self, inner: &PostgresClient, row: Option<&Row>) -> Result<Option<Outcome>, StoreError> {
        let standing = match answer(inner, &self.write.key, row)? {
            WriteAnswer::Done(version) => {
                let fence = self.fence_of(version).ok_or_else(|| unclear(inner, "another's version"))?;
                return Ok(Some(Outcome::Won { version, fence }));
            }
            WriteAnswer::Stands(standing) => standing?,
        };
        let holds = match (self.write.expect, &standing) {
            (Expect::Absent, standing) => standing.is_none(),
            (Expect::Vacant, None) => true,
            (Expect::Vacant, Some(standing)) if standing.record.tenure.is_some() => false,
            // Nothing else than a used-up fence stands in the way.
            (Expect::Vacant, Some(standing)) => {
                standing.record.fence.next(self.write.record.fence).map(|_| true)?
            }
            (Expect::Unchanged(version), standing) => {
                standing.as_ref().is_some_and(|standing| standing.version == version)
            }
        };
        Ok((!holds).then_some(Outcome::Lost(standing)))
    }
}

/// What a statement that writes answers.
enum WriteAnswer {
    /// The version that it wrote or removed.
    Done(Version),
    /// What stands there instead. One that can't be understood is not merely another version.
    Stands(Result<Option<Stored>, StoreError>),
}

fn answer(inner: &PostgresClient, key: &Key, row: Option<&Row>) -> Result<WriteAnswer, StoreError> {
    let row = row.ok_or_else(|| unclear(inner, "no row"))?;
    let told: Option<&[u8]> = row.try_get(0).map_err(|error| unclear(inner, error))?;
    let Some(told) = told else { return Ok(WriteAnswer::Stands(Ok(None))) };
    if let Ok(version) = <[u8; 16]>::try_from(told) {
        return Ok(WriteAnswer::Done(Version(u128::from_be_bytes(version))));
    }
    let row = Composite::parse(told).ok_or_else(|| unclear(inner, "a record that is cut off"))?;
    let standing = key_at(&row, 0).and_then(|_| stored(key, &row, 0, inner.tells_ages));
    Ok(WriteAnswer::Stands(standing.map(Some)))
}

/// It can't be told whether anything was written.
fn unclear(inner: &PostgresClient, why: impl Display) -> StoreError {
    StoreError::unknown(format!("{}: a write was answered unclearly: {why}", inner.connections.place))
}

pub(crate) async fn remove(inner: &PostgresClient, key: &Key, version: Version) -> Result<bool, StoreError> {
    let (bytes, expected) = (key.as_str().as_bytes(), version_bytes(version));
    let params: &Params<'_> = &[(&bytes, Type::BYTEA), (&expected, Type::BYTEA)];
    for _ in 0..ROUNDS {
        let rows = inner.connections.ask(Call::Write, &inner.writes.remove, params).await?;
        let standing = match answer(inner, key, rows.first())? {
            WriteAnswer::Done(_) => return Ok(true),
            WriteAnswer::Stands(standing) => standing?,
        };
        if standing.is_none_or(|standing| standing.version != version) {
            return Ok(false);
        }
        is_whole(inner, key).await?;
    }
    Err(changes_too_often(inner, key))
}

#[cfg(test)]
mod tests {
    //! Plan: a version tells the fence that the server gave, and one of another write tells none.
    use super::*;
    use tenure_testkit::RecordFactory;

    #[test]
    fn a_version_tells_the_fence_of_its_own_write_only() {
        let factory = RecordFactory::new();
        let write = factory.if_vacant(&Key::new("k").unwrap(), factory.held(5));
        let draft = StatementDraft::new(&write).unwrap();
        for fence in [5, 6, u64::MAX >> 1].map(Fence) {
            assert_eq!(draft.fence_of(Version::of(write.record.nonce, fence)), Some(fence));
        }
        assert_eq!(draft.fence_of(Version::of(factory.nonce(), Fence(5))), None, "another nonce");
    }
}
