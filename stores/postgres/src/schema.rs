//! The tables, and how they come to be: on request only, by versioned steps.

use crate::connections::{Connections, ExclusiveConnection};
use crate::error::{Call, failed};
use crate::{functions, row};
use tenure_core::StoreError;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

/// The version of the tables that this program makes, and the only one that it uses.
const VERSION: i32 = 3;

/// How many timeouts of a call making the tables may take.
const PATIENCE: u32 = 4;

/// What is in place of each version: the steps from version 0, which is an empty schema. `{s}` is the schema, `{functions}` what
/// [`functions::writes`] makes in it, `{digest}` and `{digest_2}` those of a row, as of version 3 and before. The names of [`REFUSE`] and
/// [`TRIGGERS`] stand for what makes them.
///
/// A record's key is bytes, since PostgreSQL's text can't hold a NUL. `digest` covers the record and what conditions and guards compare
/// besides: a row that was changed around tenure no longer matches it, and no condition holds there.
///
/// Version 2: whoever writes, a row's fence never goes back, and its key stays. A row goes only if its fence is below the server's clock;
/// the next one begins with the acquirer's. What is inserted anew is not looked at: nothing is left of what stood there before. What was checked of
/// each column is left to the digest, as such checks cost as much as the write.
///
/// Version 3: digests come from the client, and `writer` is the transaction of the row's last write by tenure. What refuses is asked
/// after the write: before it, the server locks the row and logs that, whatever comes of it. And it is asked only of writes that set the
/// fence or the key: even a condition that is false costs some µs to set up. Older rows get their digests of today, if they match those
/// of then.
const STEPS: [&str; 3] = ["
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
", "
    {refuse}
    CREATE TRIGGER fence_grows BEFORE UPDATE ON {s}.record FOR EACH ROW
        WHEN (NEW.fence < OLD.fence OR NEW.key <> OLD.key) EXECUTE FUNCTION {s}.refuse();
    {fence_stays}
    {fences_stay}
    ALTER TABLE {s}.record DROP CONSTRAINT record_key_check, DROP CONSTRAINT record_version_check, DROP CONSTRAINT record_fence_check,
        DROP CONSTRAINT record_tenure_check, DROP CONSTRAINT record_digest_check;
", "
    DROP TRIGGER fence_grows ON {s}.record;
    {fence_grows}
    {key_stays}
    ALTER TABLE {s}.record ADD COLUMN writer xid;
    DROP FUNCTION IF EXISTS {s}.write_absent, {s}.write_vacant, {s}.write_unchanged;
    UPDATE {s}.record AS t SET digest = {digest} WHERE t.digest = {digest_2};
{functions}"];

/// What refuses, which triggers call.
const REFUSE: (&str, &str) = (
    "refuse",
    "CREATE FUNCTION {s}.refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
    BEGIN
        IF TG_OP = 'UPDATE' THEN
            RAISE EXCEPTION USING ERRCODE = 'TNF01',
                MESSAGE = format('the fence %s can''t go back to %s, nor a record get another key', OLD.fence, NEW.fence);
        ELSIF TG_OP = 'DELETE' THEN
            RAISE EXCEPTION USING ERRCODE = 'TNF02',
                MESSAGE = format('the fence %s is ahead of the server''s clock: without its record the next one would be lower', OLD.fence);
        ELSIF EXISTS (SELECT 1 FROM {s}.record WHERE fence >= extract(epoch FROM clock_timestamp()) * 1000) THEN
            RAISE EXCEPTION USING ERRCODE = 'TNF02',
                MESSAGE = 'a fence is ahead of the server''s clock: without its record the next one would be lower';
        END IF;
        RETURN NULL;
    END $$;",
);

/// The triggers of version 3, by their names.
pub(crate) const TRIGGERS: [(&str, &str); 4] = [
    (
        "fence_grows",
        "CREATE TRIGGER fence_grows AFTER UPDATE OF fence ON {s}.record FOR EACH ROW
        WHEN (NEW.fence < OLD.fence) EXECUTE FUNCTION {s}.refuse();",
    ),
    (
        "key_stays",
        "CREATE TRIGGER key_stays AFTER UPDATE OF key ON {s}.record FOR EACH ROW
        WHEN (NEW.key <> OLD.key) EXECUTE FUNCTION {s}.refuse();",
    ),
    (
        "fence_stays",
        "CREATE TRIGGER fence_stays BEFORE DELETE ON {s}.record FOR EACH ROW
        WHEN (OLD.fence >= extract(epoch FROM clock_timestamp()) * 1000) EXECUTE FUNCTION {s}.refuse();",
    ),
    (
        "fences_stay",
        "CREATE TRIGGER fences_stay BEFORE TRUNCATE ON {s}.record FOR EACH STATEMENT EXECUTE FUNCTION {s}.refuse();",
    ),
];

/// The digest of the row `t` before version 3.
const DIGEST_2: &str = "sha256(t.version || int8send(t.fence) || coalesce(t.tenure, '') || coalesce(t.ride_key, '') \
     || int8send(coalesce(t.ride_fence, -1)) || t.record)";

/// The name of this set of records. Looks at the tables without changing anything.
pub(crate) async fn examine(connections: &Connections, schema: &str) -> Result<String, StoreError> {
    let rows = connections.ask(Call::Read, &format!("SELECT name, value FROM {schema}.meta"), &[]).await?;
    let value = |name: &str| {
        rows.iter().find_map(|row| {
            let is = row.try_get::<_, &str>(0).is_ok_and(|found| found == name);
            is.then(|| row.try_get::<_, String>(1).ok()).flatten()
        })
    };
    let (Some(id), Some(version)) = (value("id"), value("schema").and_then(|text| text.parse::<i32>().ok()))
    else {
        return Err(foreign(&connections.place));
    };
    if version > VERSION {
        return Err(StoreError::foreign(format!(
            "{}: the tables have version {version}, this program knows up to {VERSION}; upgrade it",
            connections.place
        )));
    }
    if version < VERSION {
        return Err(StoreError::invalid(format!(
            "{}: the tables have version {version}, this program uses version {VERSION}; stop what uses them, and have their owner bring them \
             up to date by `tenure doctor --create-table` or PostgresStore::migrate",
            connections.place
        )));
    }
    Ok(format!("postgres:{id}"))
}

/// Makes the tables, or brings them up to date, also where a function or a trigger of theirs is gone, or a function lacks its setting. False if
/// they were so already.
pub(crate) async fn migrate(connections: &Connections, schema: &str) -> Result<bool, StoreError> {
    let connection = connections.exclusive().await?;
    let place = &connections.place;
    let work = steps(&connection, connections, schema);
    let Ok(done) = tokio::time::timeout(connections.timeout.saturating_mul(PATIENCE), work).await else {
        return Err(StoreError::unavailable(format!("{place}: making the tables took too long; try again")));
    };
    // Where it failed, the connection ends, and the transaction with it.
    let done = done?;
    connection.done();
    Ok(done)
}

async fn steps(
    connection: &ExclusiveConnection,
    connections: &Connections,
    schema: &str,
) -> Result<bool, StoreError> {
    let place = &connections.place;
    let lost = |error: tokio_postgres::Error| match error.as_db_error() {
        // Who may write records may not make tables.
        Some(refusal) if *refusal.code() == SqlState::INSUFFICIENT_PRIVILEGE => StoreError::invalid(format!(
            "{place}: {}; tables are made by a role with CREATE on the database, and brought up to date by who made them",
            refusal.message()
        )),
        _ => failed(place, Call::Write, error),
    };
    let work = connection.client()?;
    let patience = connections.timeout.saturating_mul(PATIENCE).as_millis();
    work.batch_execute(&format!("BEGIN; SET LOCAL lock_timeout = {patience}")).await.map_err(lost)?;
    // Two at once would both find nothing. The lock ends with the transaction.
    let lock = "SELECT pg_advisory_xact_lock(hashtext('tenure migration'))";
    work.query_typed(lock, &[]).await.map_err(lost)?;
    let there = "SELECT c.relname = 'meta' FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1";
    let tables = work.query_typed(there, &[(&schema, Type::TEXT)]).await.map_err(lost)?;
    let tables: Vec<bool> = tables.iter().map(|row| row.get(0)).collect();
    let mut version = 0;
    if tables.contains(&true) {
        let sql = format!("SELECT value FROM {schema}.meta WHERE name = 'schema'");
        let rows = work.query_typed(&sql, &[]).await.map_err(|_| foreign(place))?;
        let value: Option<i32> = rows.first().and_then(|row| row.get::<_, String>(0).parse().ok());
        version = value.ok_or_else(|| foreign(place))?;
    } else if !tables.is_empty() {
        return Err(foreign(place));
    }
    if version >= VERSION {
        let mut missing = String::new();
        // A newer program's are its own.
        if version == VERSION {
            let there = work.query_typed(PARTS, &[(&schema, Type::TEXT)]).await.map_err(lost)?;
            missing = parts_but(&there.iter().map(|row| row.get(0)).collect::<Vec<&str>>(), schema);
            let unset = there.iter().filter(|row| !row.get::<_, bool>(1)).map(|row| row.get(0));
            let unset: Vec<&str> = unset.filter(|name| functions::WRITES.contains(name)).collect();
            missing.push_str(&functions::set_plans(schema, &unset));
        }
        work.batch_execute(&format!("{missing} COMMIT")).await.map_err(lost)?;
        return Ok(!missing.is_empty());
    }
    let mut all = format!("CREATE SCHEMA IF NOT EXISTS {schema};");
    for step in STEPS.iter().skip(usize::try_from(version).unwrap_or(0)) {
        let mut step =
            step.replace("{functions}", &functions::writes(schema).map(|(_, text)| text).join("\n"));
        for (name, text) in [REFUSE].iter().chain(&TRIGGERS) {
            step = step.replace(&format!("{{{name}}}"), text);
        }
        let step = step.replace("{digest_2}", DIGEST_2).replace("{digest}", &row::digest_of("t"));
        all.push_str(&step.replace("{s}", schema));
    }
    all.push_str(&format!(
        "INSERT INTO {schema}.meta VALUES ('schema', '{VERSION}') ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value; COMMIT"
    ));
    work.batch_execute(&all).await.map_err(lost)?;
    Ok(true)
}

/// The names of a schema's functions, and of the triggers of its records; and whether a function has the setting of those that write.
const PARTS: &str = "SELECT p.proname::text, coalesce('enable_seqscan=off' = ANY(p.proconfig), false) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1 \
     UNION ALL SELECT t.tgname::text, true FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = $1 AND c.relname = 'record' AND NOT t.tgisinternal";

/// What makes the functions and triggers of version 3 that are not there.
fn parts_but(there: &[&str], schema: &str) -> String {
    let fixed = [REFUSE].into_iter().chain(TRIGGERS).map(|(name, text)| (name, text.replace("{s}", schema)));
    let missing =
        functions::writes(schema).into_iter().chain(fixed).filter(|(name, _)| !there.contains(name));
    missing.map(|(_, text)| text).collect::<Vec<_>>().join("\n")
}

/// What a role needs to use the store: it can't remove a record, so it can't take a fence back to nothing, nor can it switch off what
/// refuses a lower one. `gc` removes, under a role with `DELETE` besides.
///
/// Both names are put into the statements as they are: name a schema and a role of your own, as `psql` takes them.
#[must_use]
pub fn grants(schema: &str, role: &str) -> String {
    format!(
        "GRANT USAGE ON SCHEMA {schema} TO {role};\nGRANT SELECT ON {schema}.meta TO {role};\n\
         GRANT SELECT, INSERT, UPDATE ON {schema}.record TO {role};\nGRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role};\n"
    )
}

fn foreign(place: &str) -> StoreError {
    StoreError::foreign(format!(
        "{place}: the schema has tables that aren't tenure's; name another with schema=…"
    ))
}
