//! less's table in a PostgreSQL database: one autocommit statement for each call, by the server's clock.

use crate::storage::{Calling, LeaderRow, Micros, Seen, Storage};
use std::time::Duration;
use tenure_core::{ErrorKind, StoreError};
use tenure_postgres::PostgresConfig;
use tenure_postgres::statements::{Call, Connections, Params};
use tenure_postgres::tokio_postgres::types::Type;

/// A deadline is read as whole microseconds, which is all that the server keeps. `infinity` is none, and no number; later ones than those of the
/// year 9999 may be too large for one.
const LOOK: &str = "\
    SELECT r.value, CASE WHEN r.deadline > '-infinity' AND r.deadline < '10000-01-01 00:00:00+00' THEN (extract(epoch FROM r.deadline) * 1000000)::bigint END, r.key IS NOT NULL,
           (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    FROM (SELECT 1) AS one LEFT JOIN less.record AS r ON r.key = $1";

/// `$3` is the ttl and `$4` the margin, in microseconds; `$5` and `$6` are the row that was seen, or null.
const TAKE: &str = "\
    INSERT INTO less.record AS r (key, value, deadline)
    VALUES ($1, $2, clock_timestamp() + $3::bigint * interval '1 microsecond')
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, deadline = EXCLUDED.deadline
    WHERE r.value = $5::text
      AND CASE WHEN r.deadline > '-infinity' AND r.deadline < '10000-01-01 00:00:00+00' THEN (extract(epoch FROM r.deadline) * 1000000)::bigint END = $6::bigint
      AND r.deadline + $4::bigint * interval '1 microsecond' < clock_timestamp()
    RETURNING true";

const RENEW: &str = "\
    UPDATE less.record SET deadline = clock_timestamp() + $3::bigint * interval '1 microsecond'
    WHERE key = $1 AND value = $2 AND deadline >= clock_timestamp()
    RETURNING true";

const RELEASE: &str = "\
    DELETE FROM less.record
    WHERE key = $1 AND value = $2
      AND CASE WHEN deadline > '-infinity' AND deadline < '10000-01-01 00:00:00+00' THEN (extract(epoch FROM deadline) * 1000000)::bigint END = $3::bigint
    RETURNING true";

/// As less's own migration makes it. Of two sessions that make a schema at once one fails, so only one does; the lock ends with the
/// transaction, which all of this is. A table of tenure's own may be made meanwhile, which takes longer than other locks.
const TABLE: &str = "\
    SET LOCAL lock_timeout = '4s';
    SELECT pg_advisory_xact_lock(hashtext('tenure migration'));
    CREATE SCHEMA IF NOT EXISTS less;
    CREATE TABLE IF NOT EXISTS less.record (
        key TEXT PRIMARY KEY, value TEXT NOT NULL, deadline TIMESTAMPTZ)";

/// The table `less.record` of a PostgreSQL database. Any number of candidates share one.
#[derive(Clone)]
pub struct PostgresStorage {
    connections: Connections,
}

impl std::fmt::Debug for PostgresStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PostgresStorage({})", self.connections.place())
    }
}

impl PostgresStorage {
    /// The table of the database that `config` names; its schema means nothing here. The role needs `USAGE` on the schema `less`, and
    /// `SELECT`, `INSERT`, `UPDATE` and `DELETE` on its table.
    ///
    /// # Errors
    /// Each names the server, the database and the remedy, and none a password. `Invalid`: the configuration, a missing right, or
    /// there is no such table. `Unavailable`: the server can't be reached.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn open(config: &PostgresConfig) -> Result<Self, StoreError> {
        let connections = Connections::open(config)?;
        let rows = connections.ask(Call::Read, "SELECT to_regclass('less.record') IS NOT NULL", &[]).await?;
        let is_there = rows.first().is_some_and(|row| row.get::<_, bool>(0));
        if !is_there {
            return Err(StoreError::invalid(format!(
                "{}: there is no table less.record; `tenure doctor --create-table`, PostgresStorage::migrate or less's own \
                 migration makes it",
                connections.place()
            )));
        }
        Ok(PostgresStorage { connections })
    }

    /// What the role lacks of the four rights on the table that a candidate needs: none, if it may do all.
    ///
    /// # Errors
    /// As [`Self::open`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn lacking(&self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT name FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS name \
                   WHERE NOT has_table_privilege('less.record', name)";
        let rows = self.connections.ask(Call::Read, sql, &[]).await.map_err(about)?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Whether nothing can be written there, whatever the role's rights: on a standby, or where transactions are read-only for this role.
    ///
    /// # Errors
    /// As [`Self::open`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn is_read_only(&self) -> Result<bool, StoreError> {
        let sql = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'";
        let rows = self.connections.ask(Call::Read, sql, &[]).await.map_err(about)?;
        Ok(rows.first().is_some_and(|row| row.get(0)))
    }

    /// Makes the schema and the table as less's own migration does, if they are missing. The role needs `CREATE` on the database.
    ///
    /// # Errors
    /// As [`Self::open`].
    ///
    /// # Cancel safety
    /// All is made, or nothing.
    pub async fn migrate(config: &PostgresConfig) -> Result<(), StoreError> {
        let connections = Connections::open(config)?;
        match connections.run(TABLE).await {
            // less's own migration knows no lock. Whatever it was making is there now.
            Err(_) => connections.run(TABLE).await,
            Ok(()) => Ok(()),
        }
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// The texts of errors speak of tenure's own tables, where these are less's.
fn about(error: StoreError) -> StoreError {
    match error.kind() {
        ErrorKind::Invalid => error.about("less.record"),
        ErrorKind::Foreign => StoreError::foreign(
            "less.record has other columns than less's table (key, value, deadline): it is another program's; name another database",
        )
        .because(error),
        _ => error,
    }
}

impl Storage for PostgresStorage {
    fn look<'a>(&'a self, key: &'a str) -> Calling<'a, Seen> {
        Box::pin(async move {
            let rows = self.connections.ask(Call::Read, LOOK, &[(&key, Type::TEXT)]).await.map_err(about)?;
            let row = rows.first().ok_or_else(|| StoreError::unavailable("the server answered nothing"))?;
            let found: (Option<String>, Option<i64>, bool, i64) =
                (row.get(0), row.get(1), row.get(2), row.get(3));
            let row = match found {
                (_, _, false, _) => None,
                (Some(value), Some(deadline), true, _) => {
                    Some(LeaderRow { value, deadline: Micros(deadline) })
                }
                _ => {
                    return Err(StoreError::foreign(format!(
                        "the row {key:?} of less.record has no deadline, an infinite one, or one beyond the year 9999; no program takes it: delete it, or set one"
                    )));
                }
            };
            Ok(Seen { row, now: Micros(found.3) })
        })
    }

    fn take<'a>(
        &'a self,
        key: &'a str,
        value: &'a str,
        ttl: Duration,
        skew: Duration,
        over: Option<&'a LeaderRow>,
    ) -> Calling<'a, bool> {
        Box::pin(async move {
            let (ttl, skew) = (micros(ttl), micros(skew));
            let (held_by, until) = (over.map(|row| &*row.value), over.map(|row| row.deadline.0));
            let params: &Params<'_> = &[
                (&key, Type::TEXT),
                (&value, Type::TEXT),
                (&ttl, Type::INT8),
                (&skew, Type::INT8),
                (&held_by, Type::TEXT),
                (&until, Type::INT8),
            ];
            self.connections.ask(Call::Write, TAKE, params).await.map(|rows| !rows.is_empty()).map_err(about)
        })
    }

    fn renew<'a>(&'a self, key: &'a str, value: &'a str, ttl: Duration) -> Calling<'a, bool> {
        Box::pin(async move {
            let ttl = micros(ttl);
            let params: &Params<'_> = &[(&key, Type::TEXT), (&value, Type::TEXT), (&ttl, Type::INT8)];
            self.connections.ask(Call::Write, RENEW, params).await.map(|rows| !rows.is_empty()).map_err(about)
        })
    }

    fn release<'a>(&'a self, key: &'a str, row: &'a LeaderRow) -> Calling<'a, bool> {
        Box::pin(async move {
            let params: &Params<'_> =
                &[(&key, Type::TEXT), (&row.value, Type::TEXT), (&row.deadline.0, Type::INT8)];
            self.connections
                .ask(Call::Write, RELEASE, params)
                .await
                .map(|rows| !rows.is_empty())
                .map_err(about)
        })
    }
}
