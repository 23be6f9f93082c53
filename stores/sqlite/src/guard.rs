//! A tenure as a condition of the caller's own transaction.

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tenure_core::{Fence, Key};
use tenure_store::Fenced;
use tenure_store::parts::fence_column;

/// A SQL predicate that is true only while a tenure stands in the table; see [`crate::SqliteStore::guard`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlGuard {
    key: Key,
    fence: Fence,
}

/// The values of a predicate's parameters, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlGuardParams {
    /// The key, to be bound as text.
    pub key: String,
    /// The fence, to be bound as an integer.
    pub fence: i64,
}

impl SqlGuard {
    pub(crate) fn new(key: Key, fence: Fence) -> Self {
        SqlGuard { key, fence }
    }

    /// Runs a transaction of the caller's under the lease: begins it, asks whether the lease stands, does `work` in it, and commits. If the
    /// lease is lost, `work` is not begun. If `work` fails, all is rolled back.
    ///
    /// The transaction has the file's only place for a writer from its beginning on (`BEGIN IMMEDIATE`). So nobody can take the lease while it
    /// lasts, and no lease in the file can be renewed: keep `work` far shorter than a third of the shortest ttl. It must not end the
    /// transaction itself, as by `COMMIT` in a statement, and it must pass on what its statements fail with: a full disk undoes the
    /// transaction then and there, and what comes after it would be written by itself.
    ///
    /// It waits for other writers as long as the connection's own `busy_timeout` says. This blocks the thread.
    ///
    /// # Errors
    /// That of `work`, as it is; else that of the database. Nothing was changed, unless I/O failed or memory ran out at the commit: then what was done may
    /// be found after the next start of the machine. `SQLITE_READONLY`: the file with the leases is attached to be read only, so that nobody would be kept
    /// from taking the lease meanwhile; attach it to be written.
    pub fn run<T, E: From<rusqlite::Error>>(
        &self,
        connection: &mut Connection,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<Fenced<T>, E> {
        let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if let Some(home) = home(&transaction)?
            && transaction.is_readonly(home.as_str())?
        {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY);
            let text = "the database of tenure_record is read only".to_owned();
            return Err(rusqlite::Error::SqliteFailure(code, Some(text)).into());
        }
        let SqlGuardParams { key, fence } = self.params();
        let asked = format!("SELECT {}", self.predicate(1));
        if !transaction.query_row(&asked, (key, fence), |row| row.get::<_, bool>(0))? {
            transaction.rollback()?;
            return Ok(Fenced::Lost);
        }
        // It is rolled back where it is dropped.
        let done = work(&mut transaction)?;
        transaction.commit()?;
        Ok(Fenced::Committed(done))
    }

    /// The predicate with its values written out: to be put after `WHERE`, in any statement.
    #[must_use]
    pub fn sql(&self) -> String {
        // As hexadecimal digits, so that no key can break out of its place.
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let SqlGuardParams { key, fence } = self.params();
        let key = format!("CAST(x'{}' AS TEXT)", hex(key.as_bytes()));
        predicate(&key, &fence.to_string())
    }

    /// The predicate with two numbered parameters, the first of them `?first`; [`SqlGuard::params`] are their values.
    #[must_use]
    pub fn predicate(&self, first: u16) -> String {
        let parameter = |n: u32| format!("?{}", u32::from(first) + n);
        predicate(&parameter(0), &parameter(1))
    }

    /// The values of the parameters.
    #[must_use]
    pub fn params(&self) -> SqlGuardParams {
        SqlGuardParams { key: self.key.as_str().to_owned(), fence: fence_column(self.fence) }
    }
}

/// The database that `tenure_record` is found in, if it is in any, by the order in which SQLite looks for a table: the temporary one, the main one, those
/// that are attached (https://www.sqlite.org/lang_naming.html).
fn home(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let attached = (2..).map_while(|n| connection.db_name(n).ok());
    for database in ["temp", "main"].map(str::to_owned).into_iter().chain(attached) {
        if connection.table_exists(Some(database.as_str()), "tenure_record")? {
            return Ok(Some(database));
        }
    }
    Ok(None)
}

fn predicate(key: &str, fence: &str) -> String {
    format!(
        "EXISTS (SELECT 1 FROM tenure_record AS lease \
         WHERE lease.key = {key} AND lease.fence = {fence} AND lease.tenure IS NOT NULL \
         AND (lease.ride_key IS NULL OR EXISTS (SELECT 1 FROM tenure_record AS session \
         WHERE session.key = lease.ride_key AND session.fence = lease.ride_fence AND session.tenure IS NOT NULL)))"
    )
}
