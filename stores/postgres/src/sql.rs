//! The statements, for one schema.

use crate::functions::{SET, keep, put, raise, standing};
use crate::listen::tells;
use crate::row::{columns_and_digest, whole};
use tenure_store::{Image, codec};

/// Those that read.
#[derive(Debug)]
pub(crate) struct ReadSql {
    pub(crate) several: String,
    pub(crate) page: String,
}

impl ReadSql {
    pub(crate) fn new(schema: &str) -> ReadSql {
        let select =
            format!("SELECT {} FROM {schema}.record AS r", columns_and_digest("r", codec::MAX_BYTES));
        ReadSql {
            several: format!("{select} WHERE r.key = ANY($1)"),
            page: format!(
                "{select} WHERE r.key >= $1 AND r.key > $2 AND ($3::bytea IS NULL OR r.key < $3) ORDER BY r.key LIMIT $4"
            ),
        }
    }
}

/// Those that write.
#[derive(Debug)]
pub(crate) struct WriteSql {
    pub(crate) absent: WriteStatements,
    pub(crate) vacant: WriteStatements,
    pub(crate) unchanged: WriteStatements,
    pub(crate) batch: String,
    pub(crate) remove: String,
}

/// The statements of one kind of write, with the parameters of the functions.
#[derive(Debug)]
pub(crate) struct WriteStatements {
    pub(crate) quiet: StatementForms,
    /// The same, and those who listen are told of what was written.
    pub(crate) news: StatementForms,
}

/// A statement in two forms.
#[derive(Debug)]
pub(crate) struct StatementForms {
    /// Tries what most writes are by itself, and calls the function else.
    pub(crate) prepared: String,
    /// Calls the function, whose plans the server keeps.
    pub(crate) once: String,
}

impl WriteStatements {
    /// `first` answers with the version that it wrote.
    fn new(schema: &str, channel: &str, first: Option<String>, name: &str, params: usize) -> WriteStatements {
        let params: Vec<String> = (1..=params).map(|n| format!("${n}")).collect();
        let call = format!("{schema}.{name}({})", params.join(", "));
        let told = tell(WROTE, "$1", channel);
        let tell = |with: &str, done: &str| {
            format!("{with}SELECT done.version, {told} FROM (SELECT {done} AS version) AS done")
        };
        let (with, done) = match first {
            Some(put) => {
                (format!("WITH put AS ({put}) "), format!("coalesce((SELECT version FROM put), {call})"))
            }
            None => (String::new(), call.clone()),
        };
        WriteStatements {
            quiet: StatementForms {
                prepared: format!("{with}SELECT {done}"),
                once: format!("SELECT {call}"),
            },
            news: StatementForms { prepared: tell(&with, &done), once: tell("", &call) },
        }
    }
}

/// Whether `done.version` is the version of a row that was written.
const WROTE: &str = "octet_length(done.version) = 16";

/// Tells those who listen of `done.version`, the version that a key got, as an expression: if it is `news`, as another expression says.
fn tell(news: &str, key: &str, channel: &str) -> String {
    format!(
        "CASE WHEN {} THEN pg_notify('{channel}', encode(done.version, 'hex') || ' ' || encode({key}, 'hex'))::text END",
        tells(news, channel)
    )
}

impl WriteSql {
    pub(crate) fn new(schema: &str, channel: &str) -> WriteSql {
        let calls = |first, name, params| WriteStatements::new(schema, channel, first, name, params);
        let table = format!("{schema}.record");
        let remove = format!(
            "WITH gone AS (DELETE FROM {table} AS t WHERE t.key = $1 AND t.version = $2 AND {} RETURNING t.version) \
             SELECT coalesce((SELECT version FROM gone), (SELECT {} FROM {table} AS r WHERE r.key = $1))",
            whole("t"),
            standing("r")
        );
        WriteSql {
            absent: calls(None, "write_absent", 8),
            vacant: calls(Some(raise(schema)), "write_vacant", 9),
            unchanged: calls(Some(keep(schema)), "write_unchanged", 9),
            batch: batch(schema, channel),
            remove,
        }
    }
}

/// Several writes as one statement. Its parameters are columns, each with as many values as there are writes; it answers with a row for
/// each write.
fn batch(schema: &str, channel: &str) -> String {
    let row = "w.key, w.fence, w.tenure, w.ride_key, w.ride_fence, w.record, w.digest";
    let told = tell(&format!("done.is_news AND {WROTE}"), "done.key", channel);
    format!(
        "SELECT done.version, {told} FROM (SELECT w.key, w.is_news, CASE w.kind \
         WHEN {ABSENT} THEN {schema}.write_absent({row}, w.version) \
         WHEN {VACANT} THEN {schema}.write_vacant({row}, w.nonce, w.rest) \
         ELSE {schema}.write_unchanged({row}, w.version, w.rest) END AS version \
         FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) \
         AS w(kind, is_news, key, fence, tenure, ride_key, ride_fence, record, digest, version, nonce, rest)) AS done"
    )
}

/// What kind of write each of them is.
pub(crate) const ABSENT: i16 = 0;
pub(crate) const VACANT: i16 = 1;
pub(crate) const UNCHANGED: i16 = 2;

/// Those that show a row as it is, and change it on the word of a person.
#[derive(Debug)]
pub(crate) struct MendSql {
    pub(crate) image: String,
    pub(crate) remove: String,
    pub(crate) replace: String,
}

impl MendSql {
    pub(crate) fn new(schema: &str) -> MendSql {
        let table = format!("{schema}.record");
        MendSql {
            image: format!(
                "SELECT {}, {} FROM {table} AS r WHERE r.key = $1",
                copy(&table, "r"),
                columns_and_digest("r", Image::MOST_COPIED)
            ),
            remove: format!("DELETE FROM {table} AS t WHERE t.key = $1 AND {} = $2", copy(&table, "t")),
            replace: put(schema, SET, &format!("{} = $9", copy(&table, "t"))),
        }
    }
}

/// A row as the statement that puts it back. The server makes it, and compares with it, so it is the same on every connection.
fn copy(table: &str, row: &str) -> String {
    // Zeros stand for what is far too long for a record: its length is told without reading it.
    let bytes = |name: &str| {
        format!(
            "CASE WHEN coalesce(octet_length({row}.{name}), 0) > {most} \
             THEN 'decode(repeat(''00'', ' || octet_length({row}.{name}) || '), ''hex'')' \
             ELSE coalesce('''\\x' || encode({row}.{name}, 'hex') || '''', 'NULL') END",
            most = Image::MOST_COPIED
        )
    };
    let number = |name: &str| format!("coalesce({row}.{name}::text, 'NULL')");
    let values = [
        bytes("key"),
        bytes("version"),
        number("fence"),
        bytes("tenure"),
        bytes("ride_key"),
        number("ride_fence"),
        bytes("record"),
        bytes("digest"),
        format!("'to_timestamp(' || extract(epoch FROM {row}.written)::text || ')'"),
    ];
    format!("('INSERT INTO {table} VALUES (' || {} || ');')", values.join(" || ', ' || "))
}
