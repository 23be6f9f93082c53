//! A row as it is, whatever is in it, and its removal on the word of a person.

use crate::client::PostgresClient;
use crate::connection::Params;
use crate::error::Call;
use crate::row::{fence_at, key_at, record_bytes, whole_record};
use crate::write::StatementDraft;
use tenure_core::op::{Expect, Write};
use tenure_core::{Key, Record, StoreError};
use tenure_store::Image;
use tokio_postgres::types::Type;

pub(crate) async fn image(inner: &PostgresClient, key: &Key) -> Result<Option<Image>, StoreError> {
    let name = key.as_str().as_bytes();
    let rows = inner.connections.ask(Call::Read, &inner.mends.image, &[(&name, Type::BYTEA)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let damaged =
        |error: tokio_postgres::Error| StoreError::foreign(format!("the row of key {key}: {error}"));
    let copy: String = row.try_get(0).map_err(damaged)?;
    let record =
        key_at(row, 1).and_then(|_| whole_record(key, row, 1, inner.tells_ages)).map(|stored| stored.record);
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
        return inner.connections.ask(Call::Write, &sql, params).await.map(|rows| !rows.is_empty());
    };
    let write = Write { key: key.clone(), expect: Expect::Absent, record };
    let draft = StatementDraft::new(&write)?;
    let params = draft.row([draft.version(), (&seen.copy, Type::TEXT)]);
    let rows = inner.connections.ask(Call::Write, &inner.mends.replace, &params).await?;
    Ok(!rows.is_empty())
}
