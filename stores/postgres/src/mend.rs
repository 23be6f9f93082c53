//! A row as it is, whatever is in it, and its removal on the word of a person.

use crate::connect::Params;
use crate::error::Call;
use crate::functions::{SET, put};
use crate::row::{columns, fence_at, key_at, record_bytes, stored};
use crate::store::PostgresClient;
use crate::write::StatementDraft;
use tenure_core::op::{Expect, Write};
use tenure_core::{Key, Record, StoreError};
use tenure_store::Image;
use tokio_postgres::types::Type;

/// The statements, for one schema.
#[derive(Debug)]
pub(crate) struct MendSql {
    image: String,
    remove: String,
    replace: String,
}

impl MendSql {
    pub(crate) fn new(schema: &str) -> MendSql {
        let table = format!("{schema}.record");
        MendSql {
            image: format!(
                "SELECT {}, {} FROM {table} AS r WHERE r.key = $1",
                copy(&table, "r"),
                columns("r")
            ),
            remove: format!("DELETE FROM {table} AS t WHERE t.key = $1 AND {} = $2", copy(&table, "t")),
            replace: put(schema, SET, &format!("{} = $9", copy(&table, "t"))),
        }
    }
}

/// A row as the statement that puts it back. The server makes it, and compares with it, so it is the same on every connection.
fn copy(table: &str, row: &str) -> String {
    let bytes = |name: &str| format!("coalesce('''\\x' || encode({row}.{name}, 'hex') || '''', 'NULL')");
    let number = |name: &str| format!("coalesce({row}.{name}::text, 'NULL')");
    let values = [
        bytes("key"),
        bytes("version"),
        number("fence"),
        bytes("tenure"),
        bytes("ride_key"),
        number("ride_fence"),
        bytes("record"),
        bytes("digest"),
        format!("'to_timestamp(' || extract(epoch FROM {row}.written)::text || ')'"),
    ];
    format!("('INSERT INTO {table} VALUES (' || {} || ');')", values.join(" || ', ' || "))
}

pub(crate) async fn image(inner: &PostgresClient, key: &Key) -> Result<Option<Image>, StoreError> {
    let name = key.as_str().as_bytes();
    let rows = inner.lines.ask(Call::Read, &inner.mends.image, &[(&name, Type::BYTEA)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let damaged =
        |error: tokio_postgres::Error| StoreError::foreign(format!("the row of key {key}: {error}"));
    let copy: String = row.try_get(0).map_err(damaged)?;
    let record =
        key_at(row, 1).and_then(|_| stored(key, row, 1, inner.tells_ages)).map(|stored| stored.record);
    let bytes = record_bytes(row, 1).unwrap_or_default();
    Ok(Some(Image::new(copy, record, &bytes, fence_at(row, 1))))
}

/// The row must be just what was seen, the time of its writing too.
pub(crate) async fn mend(
    inner: &PostgresClient,
    key: &Key,
    seen: &Image,
    instead: Option<Record>,
) -> Result<bool, StoreError> {
    let name = key.as_str().as_bytes();
    let Some(record) = instead else {
        let params: &Params<'_> = &[(&name, Type::BYTEA), (&seen.copy, Type::TEXT)];
        let sql = format!("{} RETURNING 1", inner.mends.remove);
        return inner.lines.ask(Call::Write, &sql, params).await.map(|rows| !rows.is_empty());
    };
    let write = Write { key: key.clone(), expect: Expect::Absent, record };
    let draft = StatementDraft::new(&write)?;
    let params = draft.row([draft.version(), (&seen.copy, Type::TEXT)]);
    let rows = inner.lines.ask(Call::Write, &inner.mends.replace, &params).await?;
    Ok(!rows.is_empty())
}
