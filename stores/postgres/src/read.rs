//! Reading: one row, several, or a page in the order of the keys. Each is one statement.

use crate::client::PostgresClient;
use crate::error::Call;
use crate::row::{key_at, whole_record};
use tenure_core::op::Listed;
use tenure_core::{Key, StoreError, Stored};
use tenure_store::parts::end_of_prefix;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

pub(crate) async fn one(inner: &PostgresClient, key: &Key) -> Result<Option<Stored>, StoreError> {
    let listed = many(inner, std::slice::from_ref(key)).await?;
    listed.into_iter().next().map(|listed| listed.stored).transpose()
}

pub(crate) async fn many(inner: &PostgresClient, keys: &[Key]) -> Result<Vec<Listed>, StoreError> {
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_str().as_bytes()).collect();
    let rows = inner.connections.ask(Call::Read, &inner.reads.several, &[(&keys, Type::BYTEA_ARRAY)]).await?;
    rows.iter().map(|row| listed(inner, row)).collect()
}

pub(crate) async fn list(
    inner: &PostgresClient,
    prefix: &str,
    after: Option<&Key>,
    limit: usize,
) -> Result<Vec<Listed>, StoreError> {
    let (from, end) = (prefix.as_bytes(), end_of_prefix(prefix.as_bytes()));
    let after = after.map_or(&[][..], |after| after.as_str().as_bytes());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = inner
        .connections
        .ask(
            Call::Read,
            &inner.reads.page,
            &[(&from, Type::BYTEA), (&after, Type::BYTEA), (&end, Type::BYTEA), (&limit, Type::INT8)],
        )
        .await?;
    rows.iter().map(|row| listed(inner, row)).collect()
}

fn listed(inner: &PostgresClient, row: &Row) -> Result<Listed, StoreError> {
    let key = key_at(row, 0)?.ok_or_else(|| StoreError::foreign("a row has no key"))?;
    let stored = whole_record(&key, row, 0, inner.tells_ages);
    Ok(Listed { key, stored })
}
