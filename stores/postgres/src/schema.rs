//! The tables, and how they come to be: on request only, by versioned steps.

use crate::connect::Lines;
use crate::error::{Call, failed, missing_tables};
use tenure_core::StoreError;

/// The version of the tables that this program makes and knows.
const VERSION: i32 = 1;

/// What is in place of each version: the steps from version 0, which is an empty schema. `{s}` is the schema.
///
/// A record's key is bytes, since PostgreSQL's text can't hold a NUL. `digest` covers what conditions and guards compare and the
/// record itself: a row that was changed around tenure no longer matches it, and no condition holds there.
const STEPS: [&str; 1] = ["
    CREATE TABLE {s}.meta (name text PRIMARY KEY, value text NOT NULL);
    CREATE TABLE {s}.record (
        key        bytea       PRIMARY KEY CHECK (octet_length(key) BETWEEN 1 AND 512),
        version    bytea       NOT NULL CHECK (octet_length(version) = 16),
        fence      bigint      NOT NULL CHECK (fence >= 0),
        tenure     bytea       CHECK (octet_length(tenure) = 16),
        ride_key   bytea,
        ride_fence bigint,
        record     bytea       NOT NULL,
        digest     bytea       NOT NULL CHECK (octet_length(digest) = 32),
        written    timestamptz NOT NULL
    ) WITH (fillfactor = 50);
    COMMENT ON SCHEMA {s} IS 'leases of tenure; see its documentation before changing anything by hand';
    INSERT INTO {s}.meta VALUES ('id', gen_random_uuid()::text);
"];

/// Whose the schema is.
pub(crate) struct Found {
    /// The name of this set of records.
    pub(crate) id: String,
}

/// Looks at the tables without changing anything.
pub(crate) async fn examine(lines: &Lines, schema: &str) -> Result<Found, StoreError> {
    let rows = lines.ask(Call::Read, &format!("SELECT name, value FROM {schema}.meta"), &[]).await?;
    let value = |name: &str| {
        rows.iter().find_map(|row| {
            let is = row.try_get::<_, &str>(0).is_ok_and(|found| found == name);
            is.then(|| row.try_get::<_, String>(1).ok()).flatten()
        })
    };
    let (Some(id), Some(version)) = (value("id"), value("schema").and_then(|text| text.parse::<i32>().ok()))
    else {
        return Err(foreign(&lines.place));
    };
    if version > VERSION {
        return Err(StoreError::foreign(format!(
            "{}: the tables have version {version}, this program knows up to {VERSION}; upgrade it",
            lines.place
        )));
    }
    if version < VERSION {
        Err(missing_tables(&lines.place))
    } else {
        Ok(Found { id: format!("postgres:{id}") })
    }
}

/// Makes the tables, or brings them up to date. False if they were so already.
pub(crate) async fn migrate(lines: &Lines, schema: &str) -> Result<bool, StoreError> {
    let mut line = lines.line().await?;
    let place = &lines.place;
    let work = steps(line.transaction(place).await?, place, schema);
    let Ok(done) = tokio::time::timeout(lines.timeout.saturating_mul(4), work).await else {
        return Err(StoreError::unavailable(format!("{place}: making the tables took too long; try again")));
    };
    line.done();
    done
}

async fn steps(
    work: deadpool_postgres::Transaction<'_>,
    place: &str,
    schema: &str,
) -> Result<bool, StoreError> {
    let lost = |error: tokio_postgres::Error| failed(place, Call::Write, &error);
    // Two at once would both find nothing. The lock ends with the transaction.
    work.execute("SELECT pg_advisory_xact_lock(hashtext('tenure migration'))", &[]).await.map_err(lost)?;
    let there = "SELECT c.relname = 'meta' FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1";
    let tables: Vec<bool> =
        work.query(there, &[&schema]).await.map_err(lost)?.iter().map(|row| row.get(0)).collect();
    let mut version = 0;
    if tables.contains(&true) {
        let sql = format!("SELECT value FROM {schema}.meta WHERE name = 'schema'");
        let row = work.query_opt(&sql, &[]).await.map_err(|_| foreign(place))?;
        let value: Option<i32> = row.and_then(|row| row.get::<_, String>(0).parse().ok());
        version = value.ok_or_else(|| foreign(place))?;
    } else if !tables.is_empty() {
        return Err(foreign(place));
    }
    if version >= VERSION {
        return Ok(false);
    }
    work.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {schema}")).await.map_err(lost)?;
    for step in STEPS.iter().skip(usize::try_from(version).unwrap_or(0)) {
        work.batch_execute(&step.replace("{s}", schema)).await.map_err(lost)?;
    }
    let note = format!(
        "INSERT INTO {schema}.meta VALUES ('schema', '{VERSION}') ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value"
    );
    work.batch_execute(&note).await.map_err(lost)?;
    work.commit().await.map_err(lost)?;
    Ok(true)
}

/// What a role needs to use the store: it can't remove a record, so it can't take a fence back to nothing. `gc` does that, under a
/// role with `DELETE` besides.
///
/// Both names are put into the statements as they are: name a schema and a role of your own, as `psql` takes them.
#[must_use]
pub fn grants(schema: &str, role: &str) -> String {
    format!(
        "GRANT USAGE ON SCHEMA {schema} TO {role};\nGRANT SELECT ON {schema}.meta TO {role};\n\
         GRANT SELECT, INSERT, UPDATE ON {schema}.record TO {role};\n"
    )
}

fn foreign(place: &str) -> StoreError {
    StoreError::foreign(format!(
        "{place}: the schema has tables that aren't tenure's; name another with schema=…"
    ))
}
