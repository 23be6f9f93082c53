//! What a server says of itself: what of its settings can lose commits, what the role may do, what stands between, what time it has.

use crate::config::PostgresConfig;
use crate::error::Call;
use crate::lines::Lines;
use std::time::Duration;
use tenure_core::{StoreError, Wall};
use tenure_store::{Inspection, ServerClock};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

/// A standby that is further behind than this is told as one that lags.
const LAG: Duration = Duration::from_secs(1);

/// Asks the server; nothing is written, and no right is needed but to read.
pub(crate) async fn inspect(lines: &Lines, config: &PostgresConfig) -> Inspection {
    let mut found = Inspection::default();
    if let Err(error) = add_server(lines, &mut found).await {
        found.note("server", format!("what can lose leases on it can't be told: {error}"));
        return found;
    }
    let parts = [
        ("failover", add_standbys(lines, &mut found).await),
        ("rights", add_rights(lines, &config.schema, &mut found).await),
        ("tables", add_triggers(lines, &config.schema, &mut found).await),
        ("pooler", add_pooler(lines, config, &mut found).await),
    ];
    for (about, asked) in parts {
        if let Err(error) = asked {
            found.note(about, format!("can't be told: {error}"));
        }
    }
    found
}

/// Its version, its clock, and what a crash of it can take away.
async fn add_server(lines: &Lines, found: &mut Inspection) -> Result<(), StoreError> {
    let sql = "SELECT current_setting('server_version'), current_setting('server_version_num')::int, pg_is_in_recovery(), \
               current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on', current_setting('synchronous_commit'), \
               current_setting('default_transaction_read_only') = 'on', \
               (extract(epoch FROM clock_timestamp()) * 1000)::bigint, current_user::text";
    let row = one(lines, sql).await?;
    let (version, number): (String, i32) = (get(&row, 0)?, get(&row, 1)?);
    let (is_standby, fsync, whole_pages): (bool, bool, bool) = (get(&row, 2)?, get(&row, 3)?, get(&row, 4)?);
    let (commits, is_read_only): (String, bool) = (get(&row, 5)?, get(&row, 6)?);
    let (now, user): (i64, String) = (get(&row, 7)?, get(&row, 8)?);
    let wall = Wall(u64::try_from(now).unwrap_or(0));
    found.clock = Some(ServerClock { wall, resolution: Duration::from_millis(1) });
    let version = format!("PostgreSQL {version}, as the role {user:?}");
    if is_standby {
        found.hazard("server", format!("{version}: a standby, which can be read only; name the primary"));
    } else if number < 130_000 {
        found.hazard("server", format!("{version}: PostgreSQL 13 or newer is needed"));
    } else {
        found.fine("server", version);
    }
    if is_read_only && !is_standby {
        found.hazard("server", "transactions are read-only for this role (default_transaction_read_only on)");
    }
    let mut is_durable = true;
    for (is_well, text) in [
        (
            fsync,
            "a crash of its machine can lose or damage everything (fsync off); two may hold a key then: fences protect",
        ),
        (whole_pages, "a crash of its machine can damage pages (full_page_writes off)"),
        (
            commits != "off",
            "a crash can lose the last commits (synchronous_commit off); two may hold a key then: fences protect",
        ),
    ] {
        if !is_well {
            is_durable = false;
            found.hazard("durability", text);
        }
    }
    if is_durable {
        found.fine(
            "durability",
            format!("each commit is on its disk before it is answered (synchronous_commit {commits})"),
        );
    }
    Ok(())
}

/// What the promotion of a standby can take away.
async fn add_standbys(lines: &Lines, found: &mut Inspection) -> Result<(), StoreError> {
    const ABOUT: &str = "failover";
    let sql = "SELECT coalesce(application_name, ''), sync_state, \
               (extract(epoch FROM coalesce(replay_lag, interval '0')) * 1000)::bigint FROM pg_stat_replication";
    let rows = lines.ask(Call::Read, sql, &[]).await?;
    let (mut asynchronous, mut hidden) = (0, 0);
    for row in &rows {
        let (name, state): (String, Option<String>) = (get(row, 0)?, get(row, 1)?);
        let lag = Duration::from_millis(get::<i64>(row, 2)?.try_into().unwrap_or(0));
        match state.as_deref() {
            None => hidden += 1,
            Some("sync" | "quorum") => {}
            Some(_) => asynchronous += 1,
        }
        if lag > LAG {
            found.hazard(ABOUT, format!("the standby {name:?} is {:.1} s behind", lag.as_secs_f64()));
        }
    }
    if asynchronous > 0 {
        found.hazard(
            ABOUT,
            format!(
                "its standbys ({asynchronous}) follow asynchronously: a failover to one can lose writes that were answered, and \
                 two may hold a key then: fences protect; name one in synchronous_standby_names"
            ),
        );
    } else if hidden > 0 {
        found.note(
            ABOUT,
            format!("how its standbys ({hidden}) follow is not told to this role (GRANT pg_monitor)"),
        );
    } else if rows.is_empty() {
        found.fine(ABOUT, "no standby is connected, so there is nothing to fail over to");
    } else {
        found.fine(ABOUT, "commits wait for a standby");
    }
    Ok(())
}

/// What the role may do with the records.
async fn add_rights(lines: &Lines, schema: &str, found: &mut Inspection) -> Result<(), StoreError> {
    let table = format!("{schema}.record");
    let sql = "SELECT right_name, has_table_privilege($1, right_name) \
               FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS right_name";
    let rows = lines.ask(Call::Read, sql, &[(&table, Type::TEXT)]).await?;
    let mut lacking = Vec::new();
    for row in &rows {
        let (right, has): (String, bool) = (get(row, 0)?, get(row, 1)?);
        if !has {
            lacking.push(right);
        }
    }
    match lacking.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => found.note("rights", "it may do everything, also remove records, which only gc needs"),
        ["DELETE"] => found.fine("rights", "all that leases need; gc needs DELETE besides"),
        [..] => {
            let lacking = lacking.join(", ");
            found.hazard(
                "rights",
                format!("it lacks {lacking} on {table}; grant what tenure_postgres::grants says"),
            );
        }
    }
    Ok(())
}

/// Whether what keeps fences is there and switched on.
async fn add_triggers(lines: &Lines, schema: &str, found: &mut Inspection) -> Result<(), StoreError> {
    const ABOUT: &str = "tables";
    let sql = "SELECT t.tgname::text, t.tgenabled = 'D' FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid \
               JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'record' AND NOT t.tgisinternal";
    let mut missing = vec!["fence_grows", "key_stays", "fence_stays", "fences_stay"];
    for row in &lines.ask(Call::Read, sql, &[(&schema, Type::TEXT)]).await? {
        let (name, is_off): (String, bool) = (get(row, 0)?, get(row, 1)?);
        missing.retain(|trigger| *trigger != name);
        if is_off {
            let text = format!(
                "the trigger {name} is switched off; ALTER TABLE {schema}.record ENABLE TRIGGER {name}"
            );
            found.hazard(ABOUT, text);
        }
    }
    if missing.is_empty() {
        found.fine(ABOUT, "up to date; triggers refuse a lower fence, whoever writes");
    } else {
        let missing = missing.join(", ");
        found.hazard(
            ABOUT,
            format!("no trigger refuses a lower fence ({missing}); `tenure doctor --create-table` by their owner brings them up to date"),
        );
    }
    Ok(())
}

async fn add_pooler(
    lines: &Lines,
    config: &PostgresConfig,
    found: &mut Inspection,
) -> Result<(), StoreError> {
    if !lines.are_lent().await? {
        return Ok(());
    }
    let text =
        "a pooler lends connections for each transaction: it passes no notifications on, so waiters poll";
    if config.push {
        found.note("pooler", format!("{text}; with push=off in the URL nobody tries to listen in vain"));
    } else {
        found.note("pooler", text);
    }
    Ok(())
}

async fn one(lines: &Lines, sql: &str) -> Result<Row, StoreError> {
    let rows = lines.ask(Call::Read, sql, &[]).await?;
    rows.into_iter().next().ok_or_else(|| StoreError::unavailable(format!("{}: no answer", lines.place)))
}

fn get<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, n: usize) -> Result<T, StoreError> {
    row.try_get(n)
        .map_err(|error| StoreError::unavailable(format!("an answer that is not understood: {error}")))
}
