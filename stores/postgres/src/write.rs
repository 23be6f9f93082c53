//! Conditional writes. Each is one statement, which also answers with what it found: a call of a function (see [`crate::functions`]), or
//! on tables of version 1 what follows here.
//!
//! The statement reads the row as of its beginning, and writes where the condition holds for the row as it is by then. If the
//! condition did not hold for what was read, that is the answer: it was refused at that instant. If it did, and yet nothing was
//! written, another write came between, and the statement is sent again.

use crate::cells::{Cells, Composite};
use crate::connect::Params;
use crate::error::{Call, failed, unanswered};
use crate::lines::Line;
use crate::listen::tells;
use crate::row::{Columns, columns, digest, key_at, stored, version_bytes, whole};
use crate::store::Inner;
use futures_util::future::{OptionFuture, join, join_all};
use std::collections::BTreeMap;
use tenure_core::op::{Expect, Outcome, Write};
use tenure_core::{Fence, Key, StoreError, Stored, Version};
use tenure_store::codec;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

/// How often a statement is sent again because other writes of the key came between.
const ROUNDS: usize = 16;

/// The statements, for one schema.
#[derive(Debug)]
pub(crate) struct Sql {
    absent: String,
    vacant: String,
    unchanged: String,
    remove: String,
}

impl Sql {
    /// Parameters: $1 key, $2 and $3 the halves of the nonce, $4 fence, $5 tenure, $6 and $7 what it is attached to, $8 record. Then: $9
    /// channel, $10 whether it is news in any case, $11 the version that is expected.
    pub(crate) fn new(schema: &str) -> Sql {
        let table = format!("{schema}.record");
        let insert = format!(
            "INSERT INTO {table} AS t (key, {}, written) SELECT $1::bytea, {}, clock_timestamp()",
            NAMES.join(", "),
            values("$4::bigint").join(", ")
        );
        let absent =
            format!("{insert} WHERE NOT EXISTS (SELECT 1 FROM found) ON CONFLICT (key) DO NOTHING {WRITTEN}");
        // A row that was locked until a moment ago is looked at again, as it is by then: so says READ COMMITTED.
        let is_free =
            |row: &str| format!("{row}.tenure IS NULL AND {row}.fence < {} AND {}", i64::MAX, whole(row));
        let raised = values("greatest($4::bigint, t.fence + 1)");
        let vacant = format!(
            "{insert} WHERE NOT EXISTS (SELECT 1 FROM {table} AS now WHERE now.key = $1 AND NOT ({})) \
             ON CONFLICT (key) DO UPDATE SET {} WHERE {} {WRITTEN}",
            is_free("now"),
            set(raised),
            is_free("t")
        );
        let unchanged = put_over(&table, &format!("t.version = $11 AND {}", whole("t")));
        let found =
            format!("found AS MATERIALIZED (SELECT {} FROM {table} AS r WHERE r.key = $1)", columns("r"));
        let told = tells(
            "$10::boolean OR (found.tenure IS NOT NULL AND found.tenure IS DISTINCT FROM $5)",
            "$9::text",
        );
        let write = |put: &str| {
            format!(
                "WITH {found}, put AS ({put}) SELECT put.fence, found.*, CASE WHEN put.fence IS NOT NULL \
                 AND {told} THEN pg_notify($9::text, encode(put.version, 'hex') || ' ' || encode($1, 'hex'))::text END \
                 FROM (SELECT $11::bytea) AS one LEFT JOIN found ON true LEFT JOIN put ON true"
            )
        };
        let remove = format!(
            "WITH {found}, gone AS (DELETE FROM {table} AS t WHERE t.key = $1 AND t.version = $2 AND {} \
             RETURNING t.fence) \
             SELECT gone.fence, found.* FROM (SELECT 1) AS one LEFT JOIN found ON true LEFT JOIN gone ON true",
            whole("t")
        );
        Sql { absent: write(&absent), vacant: write(&vacant), unchanged: write(&unchanged), remove }
    }

    /// The same by functions of the server's.
    pub(crate) fn calls(schema: &str) -> Sql {
        let mut params: Vec<String> = (1..=11).map(|n| format!("${n}")).collect();
        params[9] = tells("$10", "$9");
        let call = |name: &str| format!("SELECT {schema}.{name}({})", params.join(", "));
        Sql {
            absent: call("write_absent"),
            vacant: call("write_vacant"),
            unchanged: call("write_unchanged"),
            ..Sql::new(schema)
        }
    }
}

/// What a statement that writes answers with.
const WRITTEN: &str = "RETURNING t.fence, t.version";

/// Writes the record over the row `t` that is there, on a condition; its parameters are those of [`Sql::new`].
pub(crate) fn put_over(table: &str, condition: &str) -> String {
    let given = set(values("$4::bigint"));
    format!("UPDATE {table} AS t SET {given} WHERE t.key = $1 AND {condition} {WRITTEN}")
}

fn set(values: [String; 7]) -> String {
    let set: Vec<String> =
        NAMES.iter().zip(values).map(|(name, value)| format!("{name} = {value}")).collect();
    format!("{}, written = clock_timestamp()", set.join(", "))
}

/// The columns that a write sets, besides the time.
const NAMES: [&str; 7] = ["version", "fence", "tenure", "ride_key", "ride_fence", "record", "digest"];

/// Their values, with a fence that the server may have raised: see [`Version::of`].
fn values(fence: &str) -> [String; 7] {
    let version = format!("(int8send($2::bigint # {fence}) || $3::bytea)");
    let digest = digest([&version, fence, "$5::bytea", "$6::bytea", "$7::bigint", "$8::bytea"]);
    let given = ["$5::bytea", "$6::bytea", "$7::bigint", "$8::bytea"].map(str::to_owned);
    let [tenure, ride_key, ride_fence, record] = given;
    [version, fence.to_owned(), tenure, ride_key, ride_fence, record, digest]
}

pub(crate) async fn one(inner: &Inner, write: &Write) -> Result<Outcome, StoreError> {
    let draft = Draft::new(inner, write)?;
    for _ in 0..ROUNDS {
        let rows = inner.lines.ask(Call::Write, draft.sql(inner), &draft.params()).await?;
        if let Some(outcome) = draft.judge(inner, rows.first())? {
            return Ok(outcome);
        }
    }
    Err(StoreError::unavailable(format!(
        "{}: the key {} changes too often; try again",
        inner.lines.place, write.key
    )))
}

/// A write as the parameters of its statement.
pub(crate) struct Draft<'a> {
    write: &'a Write,
    key: &'a [u8],
    nonce: (i64, Vec<u8>),
    columns: Columns,
    bytes: Vec<u8>,
    channel: &'a str,
    is_news: bool,
    expected: Vec<u8>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(inner: &'a Inner, write: &'a Write) -> Result<Draft<'a>, StoreError> {
        let record = &write.record;
        let bytes = codec::encode(record)?;
        let expected = match write.expect {
            Expect::Unchanged(version) => version_bytes(version),
            Expect::Absent | Expect::Vacant => Vec::new(),
        };
        let nonce = record.nonce.0;
        Ok(Draft {
            write,
            key: write.key.as_str().as_bytes(),
            nonce: (((nonce >> 64) as u64).cast_signed(), (nonce as u64).to_be_bytes().to_vec()),
            columns: Columns::of(record, record.version().0),
            bytes,
            channel: &inner.channel,
            // What others wait for: an end, mail, or a successor.
            is_news: record.tenure.as_ref().is_none_or(|tenure| {
                let succeeds = matches!(write.expect, Expect::Unchanged(_)) && tenure.id == record.nonce;
                succeeds || !tenure.mail.is_empty()
            }),
            expected,
        })
    }

    fn sql<'s>(&self, inner: &'s Inner) -> &'s str {
        match self.write.expect {
            Expect::Absent => &inner.sql.absent,
            Expect::Vacant => &inner.sql.vacant,
            Expect::Unchanged(_) => &inner.sql.unchanged,
        }
    }

    pub(crate) fn params(&self) -> [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 11] {
        let Columns { fence, tenure, ride_key, ride_fence, .. } = &self.columns;
        [
            (&self.key, Type::BYTEA),
            (&self.nonce.0, Type::INT8),
            (&self.nonce.1, Type::BYTEA),
            (fence, Type::INT8),
            (tenure, Type::BYTEA),
            (ride_key, Type::BYTEA),
            (ride_fence, Type::INT8),
            (&self.bytes, Type::BYTEA),
            (&self.channel, Type::TEXT),
            (&self.is_news, Type::BOOL),
            (&self.expected, Type::BYTEA),
        ]
    }

    /// What came of the statement; none if another write came between.
    fn judge(&self, inner: &Inner, row: Option<&Row>) -> Result<Option<Outcome>, StoreError> {
        let (written, standing) = answer(inner, &self.write.key, row)?;
        if let Some(fence) = written {
            let version = Version::of(self.write.record.nonce, fence);
            return Ok(Some(Outcome::Won { version, fence }));
        }
        let standing = standing?;
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

type Standing = Result<Option<Stored>, StoreError>;

/// The fence of what the statement wrote or removed, if it did, and what it had found before.
fn answer(inner: &Inner, key: &Key, row: Option<&Row>) -> Result<(Option<Fence>, Standing), StoreError> {
    let unclear = |why: &dyn std::fmt::Display| {
        StoreError::unknown(format!("{}: a write was answered unclearly: {why}", inner.lines.place))
    };
    let row = row.ok_or_else(|| unclear(&"no row"))?;
    // What a function answers is one column.
    if row.len() == 1 {
        let answer: Composite<'_> = row.try_get(0).map_err(|error| unclear(&error))?;
        return told(inner, key, &answer).map_err(|why| unclear(&why));
    }
    told(inner, key, row).map_err(|why| unclear(&why))
}

/// The same of its columns; the error is why it can't be told whether anything was written.
fn told(inner: &Inner, key: &Key, answer: &impl Cells) -> Result<(Option<Fence>, Standing), String> {
    let done: Option<i64> = answer.cell(0)?;
    let fence = done.map(|fence| u64::try_from(fence).map(Fence)).transpose();
    let standing = match key_at(answer, 1) {
        Ok(None) => Ok(None),
        Ok(Some(_)) => stored(key, answer, 1, inner.tells_ages).map(Some),
        Err(error) => Err(error),
    };
    Ok((fence.map_err(|error| error.to_string())?, standing))
}

pub(crate) async fn remove(inner: &Inner, key: &Key, version: Version) -> Result<bool, StoreError> {
    let (bytes, expected) = (key.as_str().as_bytes(), version_bytes(version));
    let params: &Params<'_> = &[(&bytes, Type::BYTEA), (&expected, Type::BYTEA)];
    for _ in 0..ROUNDS {
        let rows = inner.lines.ask(Call::Write, &inner.sql.remove, params).await?;
        let (removed, standing) = answer(inner, key, rows.first())?;
        let is_done = removed.is_some();
        // One that can't be understood is not merely another version.
        if is_done || standing?.is_none_or(|standing| standing.version != version) {
            return Ok(is_done);
        }
    }
    Err(StoreError::unavailable(format!("{}: the key {key} changes too often; try again", inner.lines.place)))
}

/// All writes in one transaction, whose statements are sent without waiting for each other. They go in the order of their keys, so
/// that two batches don't wait for each other; writes of one key go one after the other.
pub(crate) async fn many(inner: &Inner, writes: &[Write]) -> Result<Vec<Outcome>, StoreError> {
    let drafts: Vec<Draft<'_>> =
        writes.iter().map(|write| Draft::new(inner, write)).collect::<Result<_, _>>()?;
    let mut turns: BTreeMap<(usize, &Key), usize> = BTreeMap::new();
    let mut seen: BTreeMap<&Key, usize> = BTreeMap::new();
    for (place, write) in writes.iter().enumerate() {
        let turn = seen.entry(&write.key).or_default();
        turns.insert((*turn, &write.key), place);
        *turn += 1;
    }
    let order: Vec<(usize, usize)> = turns.into_iter().map(|((turn, _), place)| (turn, place)).collect();
    let line = inner.lines.line().await?;
    let work = transact(inner, &line, &drafts, &order);
    let limit = inner.lines.timeout.saturating_mul(2);
    let attempts = match tokio::time::timeout(limit, work).await {
        Ok(attempts) => attempts?,
        Err(_) => return Err(unanswered(&inner.lines.place, Call::Write)),
    };
    line.done();
    let mut outcomes = Vec::with_capacity(writes.len());
    for (write, attempt) in writes.iter().zip(attempts) {
        outcomes.push(match attempt {
            Some(outcome) => outcome,
            // The rest has taken effect, so whatever goes wrong now leaves the whole unknown.
            _ => one(inner, write).await.map_err(|error| StoreError::unknown(error.to_string()))?,
        });
    }
    Ok(outcomes)
}

async fn transact(
    inner: &Inner,
    line: &Line<'_>,
    drafts: &[Draft<'_>],
    order: &[(usize, usize)],
) -> Result<Vec<Option<Outcome>>, StoreError> {
    let (client, place) = (line.client()?, &inner.lines.place);
    let undone = |error: tokio_postgres::Error| match failed(place, Call::Read, &error) {
        // Nothing was committed, whatever became of the connection.
        error if error.is_passing() => StoreError::unavailable(error.to_string()),
        error => error,
    };
    // The database's own default may be a stricter isolation, under which a row that was locked until a moment ago is an error.
    let mut begin = Some(client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED"));
    let mut attempts: Vec<Option<Outcome>> = drafts.iter().map(|_| None).collect();
    for turn in order.chunk_by(|(one, _), (other, _)| one == other) {
        let answers = turn.iter().map(|(_, place)| {
            let draft = &drafts[*place];
            async move {
                let params = draft.params();
                line.query(client, draft.sql(inner), &params).await
            }
        });
        let begun = OptionFuture::from(begin.take());
        // What is polled first is sent first.
        let (begun, answers) = join(begun, join_all(answers)).await;
        begun.transpose().map_err(undone)?;
        for ((_, place), answer) in turn.iter().zip(answers) {
            attempts[*place] = drafts[*place].judge(inner, answer.map_err(undone)?.first())?;
        }
    }
    client.batch_execute("COMMIT").await.map_err(|error| failed(place, Call::Write, &error))?;
    Ok(attempts)
}
