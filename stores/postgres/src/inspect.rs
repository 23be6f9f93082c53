//! What a server says of itself: what of its settings can lose commits, what the role may do, what stands between, what time it has.

use crate::config::PostgresConfig;
use crate::connections::Connections;
use crate::error::Call;
use crate::functions::{PLANS, WRITES};
use crate::schema::TRIGGERS;
use std::time::Duration;
use tenure_core::{StoreError, Wall};
use tenure_store::{Inspection, ServerClock};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

/// A standby that is further behind than this is told as one that lags.
const LAG: Duration = Duration::from_secs(1);

/// What facts about standbys are filed under.
const FAILOVER: &str = "failover";

/// Asks the server; nothing is written, and no right is needed but to read.
pub(crate) async fn inspect(connections: &Connections, config: &PostgresConfig) -> Inspection {
    let mut found = Inspection::default();
    let commits = match add_server(connections, &mut found).await {
        Ok(commits) => commits,
        Err(error) => {
            found.note("server", format!("what can lose leases on it can't be told: {error}"));
            return found;
        }
    };
    let parts = [
        (FAILOVER, add_standbys(connections, &commits, &mut found).await),
        ("rights", add_rights(connections, &config.schema, &mut found).await),
        ("tables", add_tables(connections, &config.schema, &mut found).await),
        ("pooler", add_pooler(connections, config, &mut found).await),
    ];
    for (about, asked) in parts {
        if let Err(error) = asked {
            found.note(about, format!("can't be told: {error}"));
        }
    }
    found
}

/// Its version, its clock, and what a crash of it can take away. Tells what commits of this role wait for (`synchronous_commit`).
async fn add_server(connections: &Connections, found: &mut Inspection) -> Result<String, StoreError> {
    let sql = "SELECT current_setting('server_version'), current_setting('server_version_num')::int, pg_is_in_recovery(), \
               current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on', current_setting('synchronous_commit'), \
               current_setting('default_transaction_read_only') = 'on', \
               (extract(epoch FROM clock_timestamp()) * 1000)::bigint, current_user::text";
    let row = one(connections, sql).await?;
    let (version, number): (String, i32) = (get(&row, 0)?, get(&row, 1)?);
    let (is_standby, fsync, whole_pages): (bool, bool, bool) = (get(&row, 2)?, get(&row, 3)?, get(&row, 4)?);
    let (commits, is_read_only): (String, bool) = (get(&row, 5)?, get(&row, 6)?);
    let (now, user): (i64, String) = (get(&row, 7)?, get(&row, 8)?);
    let wall = Wall(u64::try_from(now).unwrap_or(0));
    found.clock = Some(ServerClock::new(wall, Duration::from_millis(1)));
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
    Ok(commits)
}

/// What the promotion of a standby can take away.
async fn add_standbys(
    connections: &Connections,
    commits: &str,
    found: &mut Inspection,
) -> Result<(), StoreError> {
    let sql = "SELECT pg_is_in_recovery(), current_setting('synchronous_standby_names')";
    let row = one(connections, sql).await?;
    let (is_standby, named): (bool, String) = (get(&row, 0)?, get(&row, 1)?);
    // It may have the setting from its primary, and commits nothing.
    if is_standby {
        found.note(FAILOVER, "a standby does not know what a failover can lose; ask the primary");
        return Ok(());
    }
    let sql = "SELECT coalesce(application_name, ''), sync_state, \
               (extract(epoch FROM coalesce(replay_lag, interval '0')) * 1000)::bigint FROM pg_stat_replication";
    let rows = connections.ask(Call::Read, sql, &[]).await?;
    let mut states: Vec<Option<String>> = Vec::with_capacity(rows.len());
    for row in &rows {
        let name: String = get(row, 0)?;
        let lag = Duration::from_millis(get::<i64>(row, 2)?.try_into().unwrap_or(0));
        states.push(get(row, 1)?);
        if lag > LAG {
            found.hazard(FAILOVER, format!("the standby {name:?} is {:.1} s behind", lag.as_secs_f64()));
        }
    }
    add_failover(&states, &named, commits, found);
    Ok(())
}

/// How many standbys each commit waits for, as `synchronous_standby_names` says.
fn awaited(named: &str) -> usize {
    let named = named.trim_start();
    if named.trim_end().is_empty() {
        return 0;
    }
    let word = |word: &str| {
        let (first, rest) = named.split_at_checked(word.len())?;
        let rest = Some(rest).filter(|_| first.eq_ignore_ascii_case(word))?;
        rest.starts_with([' ', '\t']).then(|| rest.trim_start())
    };
    let listed = word("FIRST").or_else(|| word("ANY")).unwrap_or(named);
    let number = listed.split_once('(').and_then(|(number, _)| number.trim().parse().ok());
    number.unwrap_or(1)
}

/// Whether commits wait for standbys in these states, which not every role is told, and of which some are named.
fn add_failover(states: &[Option<String>], named: &str, commits: &str, found: &mut Inspection) {
    let waits = !["off", "local"].contains(&commits);
    let count = |is: fn(Option<&str>) -> bool| states.iter().filter(|state| is(state.as_deref())).count();
    let hidden = count(|state| state.is_none());
    let quorum = count(|state| state == Some("quorum"));
    let asynchronous = count(|state| state.is_some_and(|state| !["sync", "quorum"].contains(&state)));
    let (needed, may_answer) = (awaited(named), states.len() - asynchronous);
    if waits && may_answer < needed {
        let is = if needed == 1 { "a standby that is" } else { "standbys that are" };
        found.hazard(
            FAILOVER,
            format!(
                "each commit waits for {is} not there ({may_answer} of {needed} by synchronous_standby_names {named}): no write is answered; \
                 start what is missing, or empty the setting and reload"
            ),
        );
    } else if asynchronous > 0 {
        found.hazard(
            FAILOVER,
            format!(
                "its standbys ({asynchronous}) follow asynchronously: a failover to one can lose writes that were answered, and \
                 two may hold a key then: fences protect; name one in synchronous_standby_names"
            ),
        );
    } else if states.is_empty() {
        found.fine(
            FAILOVER,
            "no standby is connected now; one that is away lacks what has been written since",
        );
    } else if !waits {
        found.hazard(
            FAILOVER,
            format!(
                "commits of this role wait for no standby (synchronous_commit {commits}): a failover to one can lose writes that were \
                 answered, and two may hold a key then: fences protect; set it on"
            ),
        );
    } else if quorum > needed {
        found.hazard(
            FAILOVER,
            format!(
                "commits wait for any {needed} of its {quorum} standbys (synchronous_standby_names {named}): a failover to another can lose \
                 writes that were answered, and two may hold a key then: fences protect; promote only the one that is furthest, or have \
                 commits wait for all"
            ),
        );
    } else if hidden > 0 {
        found.note(
            FAILOVER,
            format!("how its standbys ({hidden}) follow is not told to this role (GRANT pg_monitor)"),
        );
    } else if commits == "remote_write" {
        found.note(
            FAILOVER,
            "commits wait for a standby, but not for its disk (synchronous_commit remote_write): a failover to one that has crashed, too, \
             can lose writes that were answered",
        );
    } else {
        found.fine(FAILOVER, "commits wait for a standby");
    }
}

/// What the role may do with the records.
async fn add_rights(
    connections: &Connections,
    schema: &str,
    found: &mut Inspection,
) -> Result<(), StoreError> {
    let table = format!("{schema}.record");
    let sql = "SELECT right_name, has_table_privilege($1, right_name) \
               FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS right_name";
    let rows = connections.ask(Call::Read, sql, &[(&table, Type::TEXT)]).await?;
    let mut lacking = Vec::new();
    for row in &rows {
        let (right, has): (String, bool) = (get(row, 0)?, get(row, 1)?);
        if !has {
            lacking.push(right);
        }
    }
    let refused = functions(connections, schema).await?.into_iter().filter(|function| !function.may_call);
    let refused: Vec<String> = refused.map(|function| function.name).collect();
    if !refused.is_empty() {
        found.hazard(
            "rights",
            format!(
                "it lacks EXECUTE on {}; grant what tenure_postgres::grants says: GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO the role",
                refused.join(", ")
            ),
        );
    }
    match lacking.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["DELETE"] if !refused.is_empty() => {}
        [] => found.note(
            "rights",
            "it may do everything, also remove records, which only gc, work rm, fleet rm --all and rm --damaged need",
        ),
        ["DELETE"] => found.fine(
            "rights",
            "all that leases need; gc, work rm, fleet rm --all and rm --damaged need DELETE besides",
        ),
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

/// Whether what keeps fences is there and switched on, and the functions that write.
async fn add_tables(
    connections: &Connections,
    schema: &str,
    found: &mut Inspection,
) -> Result<(), StoreError> {
    const ABOUT: &str = "tables";
    // What fires for replicas only fires for no program.
    let sql = "SELECT t.tgname::text, t.tgenabled NOT IN ('O', 'A'), t.tgenabled <> 'A' FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid \
               JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'record' AND NOT t.tgisinternal";
    let mut missing: Vec<&str> = TRIGGERS.map(|(name, _)| name).to_vec();
    let (mut is_sound, mut are_replicas_spared) = (true, false);
    for row in &connections.ask(Call::Read, sql, &[(&schema, Type::TEXT)]).await? {
        let (name, is_off): (String, bool) = (get(row, 0)?, get(row, 1)?);
        let is_ours = missing.contains(&&*name);
        are_replicas_spared |= is_ours && get::<bool>(row, 2)?;
        missing.retain(|trigger| *trigger != name);
        if is_off && is_ours {
            is_sound = false;
            let text = format!(
                "the trigger {name} is switched off; ALTER TABLE {schema}.record ENABLE TRIGGER {name}"
            );
            found.hazard(ABOUT, text);
        }
    }
    let role = one(connections, "SELECT current_setting('session_replication_role')").await?;
    if are_replicas_spared && get::<String>(&role, 0)? == "replica" {
        is_sound = false;
        let text = "no trigger refuses a lower fence to this role (session_replication_role replica); set it to origin";
        found.hazard(ABOUT, text);
    }
    let functions = functions(connections, schema).await?;
    let lost: Vec<&str> =
        WRITES.into_iter().filter(|name| functions.iter().all(|found| found.name != *name)).collect();
    for (lost, what) in
        [(missing, "no trigger refuses a lower fence"), (lost, "functions that write are gone")]
    {
        if !lost.is_empty() {
            is_sound = false;
            let lost = lost.join(", ");
            found.hazard(
                ABOUT,
                format!("{what} ({lost}); `tenure doctor --create-table` by their owner makes them anew"),
            );
        }
    }
    let mut unset: Vec<&str> =
        functions.iter().filter(|found| !found.is_set).map(|found| found.name.as_str()).collect();
    unset.sort_unstable();
    if !unset.is_empty() {
        found.note(
            ABOUT,
            format!(
                "functions may read all records for each write, by a plan of when there were few ({}); `tenure doctor --create-table` by their owner \
                 has them use the index",
                unset.join(", ")
            ),
        );
    }
    if is_sound {
        found.fine(ABOUT, "up to date; triggers refuse a lower fence, whoever writes");
    }
    Ok(())
}

/// One of the functions that write.
struct WriteFunction {
    name: String,
    /// Whether the role may call it.
    may_call: bool,
    /// Whether it has the setting [`PLANS`].
    is_set: bool,
}

async fn functions(connections: &Connections, schema: &str) -> Result<Vec<WriteFunction>, StoreError> {
    let sql = "SELECT p.proname::text, has_function_privilege(p.oid, 'EXECUTE'), coalesce($2 = ANY(p.proconfig), false) FROM pg_proc p \
               JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1";
    let rows = connections.ask(Call::Read, sql, &[(&schema, Type::TEXT), (&PLANS, Type::TEXT)]).await?;
    let function =
        |row: &Row| Ok(WriteFunction { name: get(row, 0)?, may_call: get(row, 1)?, is_set: get(row, 2)? });
    let all: Vec<WriteFunction> = rows.iter().map(function).collect::<Result<_, StoreError>>()?;
    Ok(all.into_iter().filter(|found| WRITES.contains(&&*found.name)).collect())
}

async fn add_pooler(
    connections: &Connections,
    config: &PostgresConfig,
    found: &mut Inspection,
) -> Result<(), StoreError> {
    if !connections.are_lent().await? {
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

async fn one(connections: &Connections, sql: &str) -> Result<Row, StoreError> {
    let rows = connections.ask(Call::Read, sql, &[]).await?;
    rows.into_iter()
        .next()
        .ok_or_else(|| StoreError::unavailable(format!("{}: no answer", connections.place)))
}

fn get<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, n: usize) -> Result<T, StoreError> {
    row.try_get(n)
        .map_err(|error| StoreError::unavailable(format!("an answer that is not understood: {error}")))
}

#[cfg(test)]
mod tests {
    //! Plan: what a failover can lose, by what standbys do and what commits wait for.
    use super::*;

    #[test]
    fn what_commits_wait_for_tells_what_a_failover_can_lose() {
        let standbys = |states: &[&str]| -> Vec<Option<String>> {
            states.iter().map(|state| (!state.is_empty()).then(|| (*state).to_owned())).collect()
        };
        for (states, named, commits, says, is_hazard) in [
            (&["sync"][..], "*", "on", "commits wait for a standby", false),
            (&["quorum", "quorum"], "ANY 2 (a, b)", "remote_apply", "commits wait for a standby", false),
            (&["quorum"], "ANY 1 (a, b)", "on", "commits wait for a standby", false),
            (&["quorum", "quorum"], "ANY 1 (a, b)", "on", "wait for any 1 of its 2 standbys", true),
            (&["quorum", "quorum", "quorum"], "any 2 (*)", "remote_write", "that is furthest", true),
            (&["quorum", "quorum"], "ANY 1 (a, b)", "local", "wait for no standby", true),
            (&["sync"], "*", "remote_write", "but not for its disk", false),
            (&["sync"], "*", "local", "wait for no standby (synchronous_commit local)", true),
            (&["sync"], "*", "off", "wait for no standby (synchronous_commit off)", true),
            (&[""], "*", "local", "wait for no standby", true),
            (&[""], "*", "on", "GRANT pg_monitor", false),
            (&["sync", "async"], "a", "on", "(1) follow asynchronously", true),
            (&["async"], "", "local", "(1) follow asynchronously", true),
            (&["async"], "a", "local", "(1) follow asynchronously", true),
            (&[], "", "on", "no standby is connected now; one that is away lacks", false),
            (&[], "a", "local", "no standby is connected", false),
            (&[], " ", "on", "no standby is connected", false),
            (
                &[],
                "nosuch",
                "on",
                "a standby that is not there (0 of 1 by synchronous_standby_names nosuch)",
                true,
            ),
            (&[], "nosuch", "remote_write", "no write is answered", true),
            (&["async"], "nosuch", "on", "not there (0 of 1", true),
            (&["quorum"], "ANY 2 (a, b)", "on", "standbys that are not there (1 of 2", true),
            (&["sync", "potential"], "FIRST 2 (a, b)", "on", "(1 of 2", true),
            (&[""], "2 (a, b)", "on", "(1 of 2", true),
        ] {
            let mut found = Inspection::default();
            add_failover(&standbys(states), named, commits, &mut found);
            let texts: Vec<&str> = found.facts.iter().map(|fact| fact.text.as_str()).collect();
            assert!(texts.len() == 1 && texts[0].contains(says), "{states:?}, {named}, {commits}: {texts:?}");
            assert_eq!(found.hazards().count() > 0, is_hazard, "{states:?}, {named}, {commits}: {texts:?}");
        }
    }

    #[test]
    fn how_many_standbys_a_commit_waits_for_is_read_from_the_setting() {
        for (named, expected) in [
            ("", 0),
            ("*", 1),
            ("a, b", 1),
            ("first", 1),
            ("anyone, b", 1),
            ("2 (a, b, c)", 2),
            ("FIRST 3 (a, b, c)", 3),
            ("any 2(a, b, c)", 2),
            ("\"é (\"", 1),
        ] {
            assert_eq!(awaited(named), expected, "{named}");
        }
    }
}
