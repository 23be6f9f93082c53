//! A tenure as a condition of the caller's own transaction.

use crate::error::{Call, failed};
use tenure_core::{Fence, Key, StoreError};
use tenure_store::Fenced;
use tenure_store::parts::fence_column;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, GenericClient, Transaction};

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

    /// Runs a transaction of the caller's under the lease: begins it, makes the lease its condition, does `work` in it, and commits. If the
    /// lease is lost, `work` is not begun, and all is rolled back. So it is if `work` fails.
    ///
    /// Nobody else gets the key between the first and the last statement: a takeover waits for the end of the transaction, or came
    /// first. So a lease can't be lost *while* `work` runs, only before it. Keep `work` shorter than a third of the ttl: see
    /// [`SqlGuard::hold`]. It must not end the transaction itself, as by `COMMIT` in a statement.
    ///
    /// The isolation is that of the session. A pooled connection will do: `&mut *object` of deadpool is one.
    ///
    /// # Errors
    /// That of `work`, as it is. That of the database, as a [`StoreError`]. `Unknown`: the connection failed under the commit, so it may
    /// have taken effect. All others: nothing was changed. One statement of `work` that failed undoes all of it, also where `work` makes
    /// nothing of that: then the commit is refused.
    ///
    /// # Cancel safety
    /// Nothing was changed and the transaction is rolled back, unless the commit was under way: then it may take effect.
    pub async fn run<T, E: From<StoreError>>(
        &self,
        client: &mut Client,
        work: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<Fenced<T>, E> {
        let place = format!("a transaction under the lease of {}", self.key);
        // Until its commit is sent, it changes nothing, whatever becomes of it.
        let undone = |error| failed(&place, Call::Read, error);
        let mut transaction = client.transaction().await.map_err(undone)?;
        if !self.hold(&transaction).await? {
            transaction.rollback().await.map_err(undone)?;
            return Ok(Fenced::Lost);
        }
        let done = match work(&mut transaction).await {
            Ok(done) => done,
            Err(error) => {
                // The work's own error says more than what may go wrong here; the connection's end undoes the work as well.
                let _undone = transaction.rollback().await;
                return Err(error);
            }
        };
        // A transaction in which a statement has failed answers to its commit as if all were well, and is rolled back. To this it does not.
        if !self.hold(&transaction).await? {
            transaction.rollback().await.map_err(undone)?;
            return Ok(Fenced::Lost);
        }
        transaction.commit().await.map_err(|error| failed(&place, Call::Write, error))?;
        Ok(Fenced::Committed(done))
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
        // Behind a pooler nothing may be prepared by a name.
        let params: [(&(dyn ToSql + Sync), Type); 2] = [(&key, Type::BYTEA), (&fence, Type::INT8)];
        let sql = format!("SELECT {}", self.predicate(1));
        let place = format!("the lease of {}", self.key);
        let row = transaction
            .query_typed_one(&sql, &params)
            .await
            .map_err(|error| failed(&place, Call::Read, error))?;
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
