//! A tenure as a condition of the caller's own transaction.

use crate::error::{Call, failed};
use tenure_core::{Fence, Key, StoreError};
use tenure_store::parts::fence_column;
use tokio_postgres::GenericClient;
use tokio_postgres::types::ToSql;

/// A SQL predicate that is true only while a tenure stands in the table; see [`crate::PostgresStore::guard`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlGuard {
    schema: String,
    key: Key,
    fence: Fence,
}

impl SqlGuard {
    pub(crate) fn new(schema: &str, key: Key, fence: Fence) -> Self {
        SqlGuard { schema: schema.to_owned(), key, fence }
    }

    /// The predicate with its values written out: to be put after `WHERE`, in any statement.
    #[must_use]
    pub fn sql(&self) -> String {
        let (key, fence) = self.params();
        // As hexadecimal digits, so that no key can break out of its place.
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.with(&format!("'\\x{hex}'::bytea"), &format!("{fence}::bigint"))
    }

    /// The predicate with two numbered parameters, the first of them `$first`; [`SqlGuard::params`] are their values.
    #[must_use]
    pub fn predicate(&self, first: u16) -> String {
        self.with(&format!("${first}::bytea"), &format!("${}::bigint", u32::from(first) + 1))
    }

    /// The values of the parameters: the key as bytes, and the fence.
    #[must_use]
    pub fn params(&self) -> (Vec<u8>, i64) {
        (self.key.as_str().as_bytes().to_vec(), fence_column(self.fence))
    }

    /// Makes the lease a condition of the transaction that `transaction` is in: true if it stands, and from then on nobody else
    /// gets the key before the transaction has ended. False if it is lost: roll back then.
    ///
    /// For as long as the transaction is open, the record can't be written. A lease that is attached to a session is renewed all the
    /// same; one that renews itself is not: keep the transaction shorter than a third of its ttl.
    ///
    /// # Errors
    /// As [`Store::read`](tenure_store::Store::read).
    ///
    /// # Cancel safety
    /// The lock may have been taken; it ends with the transaction.
    pub async fn hold<C: GenericClient + Sync>(&self, transaction: &C) -> Result<bool, StoreError> {
        let (key, fence) = self.params();
        let params: [&(dyn ToSql + Sync); 2] = [&key, &fence];
        let sql = format!("SELECT {}", self.predicate(1));
        let place = format!("the lease of {}", self.key);
        let row =
            transaction.query_one(&sql, &params).await.map_err(|error| failed(&place, Call::Read, error))?;
        row.try_get(0).map_err(|error| failed(&place, Call::Read, error))
    }

    /// The record is locked against writing, not against reading: whoever takes the key over writes it, and so waits for the end
    /// of the transaction, or was there first.
    fn with(&self, key: &str, fence: &str) -> String {
        let table = format!("{}.record", self.schema);
        format!(
            "EXISTS (SELECT 1 FROM {table} AS lease \
             WHERE lease.key = {key} AND lease.fence = {fence} AND lease.tenure IS NOT NULL \
             AND (lease.ride_key IS NULL OR EXISTS (SELECT 1 FROM {table} AS session \
             WHERE session.key = lease.ride_key AND session.fence = lease.ride_fence AND session.tenure IS NOT NULL)) \
             FOR SHARE OF lease)"
        )
    }
}
