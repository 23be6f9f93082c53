//! One row of the table, which is one record.
//!
//! The record is in the column `record`. What conditions and guards compare is in columns of its own besides; a row whose
//! columns contradict its record was not written by tenure, and is left alone.

use crate::boot::{BootTime, Present};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Params, Row, Statement, params};
use std::time::Duration;
use tenure_core::{Fence, Key, Record, StoreError, Stored, Version};
use tenure_store::{Image, codec};

const COLUMNS: &str = "key, version, fence, tenure, ride_key, ride_fence, record, boot, written_ns";

/// The same as they are read, with the length of the record behind them. Whoever wrote around tenure may have written values of any length: SQLite
/// tells the length without reading them, and those that are too long stay where they are. What is read instead is damaged, too.
fn read_columns(most_of_record: usize) -> String {
    let bounded = |column: &str, most: usize, instead: &str| {
        format!("CASE WHEN coalesce(octet_length({column}), 0) <= {most} THEN {column} ELSE {instead} END")
    };
    let read = |column: &str| match column {
        "version" | "tenure" | "boot" => bounded(column, 16, "x''"),
        "ride_key" => bounded(column, Key::MAX_BYTES, "x''"),
        "record" => bounded(column, most_of_record, "NULL"),
        short => short.to_owned(),
    };
    let columns: Vec<String> = COLUMNS.split(", ").map(read).collect();
    format!("{}, octet_length(record)", columns.join(", "))
}

/// What stands under a key.
#[derive(Debug, Clone)]
pub(crate) struct StoredRow {
    pub(crate) record: Record,
    written: Option<BootTime>,
}

impl StoredRow {
    pub(crate) fn version(&self) -> Version {
        self.record.version()
    }

    /// Whether its date is one of before the machine was last started.
    pub(crate) fn precedes(&self, now: Option<Present>) -> bool {
        now.zip(self.written).is_some_and(|(now, written)| now.precedes(written))
    }

    pub(crate) fn stored(self, now: Option<Present>) -> Stored {
        let times = now.zip(self.written).and_then(|(now, written)| now.times(written));
        Stored::new(self.record).timed(times)
    }
}

/// Rows in order, those that can't be understood with the reason.
pub(crate) type Page = Vec<(Key, Result<StoredRow, StoreError>)>;

/// Why a row can't be had: SQLite failed, or the row isn't one of ours.
#[derive(Debug)]
pub(crate) enum RowError {
    Sql(rusqlite::Error),
    Record(StoreError),
}

impl From<rusqlite::Error> for RowError {
    fn from(error: rusqlite::Error) -> Self {
        RowError::Sql(error)
    }
}

impl From<StoreError> for RowError {
    fn from(error: StoreError) -> Self {
        RowError::Record(error)
    }
}

/// A statement that is prepared when it is first needed: a process that lives for two writes needs two of six.
struct LazyStatement<'c> {
    connection: &'c Connection,
    sql: String,
    prepared: Option<Statement<'c>>,
}

impl<'c> LazyStatement<'c> {
    fn new(connection: &'c Connection, sql: impl Into<String>) -> Self {
        LazyStatement { connection, sql: sql.into(), prepared: None }
    }

    fn get(&mut self) -> rusqlite::Result<&mut Statement<'c>> {
        let statement = match self.prepared.take() {
            Some(statement) => statement,
            None => self.connection.prepare(&self.sql)?,
        };
        Ok(self.prepared.insert(statement))
    }
}

/// The statements that read rows.
pub(crate) struct RowStatements<'c> {
    one: LazyStatement<'c>,
    from: LazyStatement<'c>,
    after: LazyStatement<'c>,
}

impl<'c> RowStatements<'c> {
    pub(crate) fn of(connection: &'c Connection) -> Self {
        let columns = read_columns(codec::MAX_BYTES);
        let select = |rest: &str| {
            LazyStatement::new(connection, format!("SELECT {columns} FROM tenure_record WHERE key {rest}"))
        };
        RowStatements {
            one: select("= ?1"),
            from: select(">= ?1 ORDER BY key"),
            after: select("> ?1 ORDER BY key"),
        }
    }

    pub(crate) fn read(&mut self, key: &Key) -> Result<Option<StoredRow>, RowError> {
        let row = self.one.get()?.query_row([key.as_str()], |row| Ok(standing(row)));
        match row.optional()? {
            None => Ok(None),
            Some(standing) => Ok(Some(standing.map_err(|error| about(key, &error))?)),
        }
    }

    /// Up to `limit` rows whose keys begin with `prefix`, those after `after` only.
    pub(crate) fn list(&mut self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Page, RowError> {
        match after.filter(|after| after.as_str() >= prefix) {
            Some(after) => page(self.after.get()?, [after.as_str()], prefix, limit),
            None => page(self.from.get()?, [prefix], prefix, limit),
        }
    }
}

/// The row of a key as it is, whatever is in it; its copy is the statement that puts it back, with zeros for a value of which only the length is read.
pub(crate) fn image(connection: &Connection, key: &Key) -> rusqlite::Result<Option<Image>> {
    const MOST: usize = Image::MOST_COPIED;
    let literal = |column: &str| {
        // SQLite's own quotes end at a NUL, which a key may have, and what is printed by them may steer a terminal. Those around any other text would
        // hold whatever bytes are there by now, which need not be text. The row's own key is.
        let is_odd = if column == "key" { "(key GLOB '*[^ -~]*' OR instr(key, char(0)))" } else { "true" };
        format!(
            "CASE WHEN coalesce(octet_length({column}), 0) > {MOST} \
             THEN iif(typeof({column}) = 'text', 'CAST(zeroblob(' || octet_length({column}) || ') AS TEXT)', \
                      'zeroblob(' || octet_length({column}) || ')') \
             WHEN typeof({column}) = 'text' AND {is_odd} THEN 'CAST(x''' || hex({column}) || ''' AS TEXT)' \
             ELSE quote({column}) END"
        )
    };
    let quoted: Vec<String> = COLUMNS.split(", ").map(literal).collect();
    let sql = format!(
        "SELECT {}, concat_ws(', ', {}) FROM tenure_record WHERE key = ?1",
        read_columns(MOST),
        quoted.join(", ")
    );
    let image = connection.query_row(&sql, [key.as_str()], |row| {
        let values: String = row.get(10)?;
        let copy = format!("INSERT OR REPLACE INTO tenure_record ({COLUMNS}) VALUES ({values});");
        let column = row.get_ref(3 - 1)?.as_i64().ok().and_then(|fence| u64::try_from(fence).ok()).map(Fence);
        let record = standing(row).map(|standing| standing.record);
        let bytes = row.get_ref(6)?.as_blob().unwrap_or_default();
        Ok(Image::new(copy, record, bytes, column))
    });
    image.optional()
}

fn page(
    statement: &mut Statement<'_>,
    params: impl Params,
    prefix: &str,
    limit: usize,
) -> Result<Page, RowError> {
    let mut page = Vec::new();
    let mut rows = statement.query(params)?;
    while page.len() < limit {
        let Some(row) = rows.next()? else { break };
        let bytes = match row.get_ref(0)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
            _ => &[],
        };
        if !bytes.starts_with(prefix.as_bytes()) {
            break;
        }
        // Only a row written around tenure has such a key. Leaving it out would hide it, and no key can name it.
        let key = Key::from_bytes(bytes).map_err(|error| {
            StoreError::foreign(format!(
                "a row of tenure_record has a key that is none ({error}); delete that row by hand"
            ))
        })?;
        let standing = standing(row).map_err(|error| about(&key, &error));
        page.push((key, standing));
    }
    Ok(page)
}

fn about(key: &Key, error: &StoreError) -> StoreError {
    error.about_record("the row of", key)
}

fn standing(row: &Row<'_>) -> Result<StoredRow, StoreError> {
    let damaged = |error: rusqlite::Error| StoreError::foreign(format!("its columns are damaged: {error}"));
    let record: &[u8] = row.get_ref(6).map_err(damaged)?.as_blob().unwrap_or_default();
    let length: i64 = row.get(9).map_err(damaged)?;
    let length = u64::try_from(length).unwrap_or(0);
    if length > record.len() as u64 {
        return Err(codec::too_large(length));
    }
    let record = codec::decode(record)?;
    let columns = || -> rusqlite::Result<Columns> {
        Ok(Columns {
            version: row.get(1)?,
            fence: row.get(2)?,
            tenure: row.get(3)?,
            ride_key: row.get(4)?,
            ride_fence: row.get(5)?,
        })
    };
    columns().map_err(damaged)?.check(&record, record.nonce.0)?;
    let boot: Option<[u8; 16]> = row.get(7).map_err(damaged)?;
    let written_ns: Option<i64> = row.get(8).map_err(damaged)?;
    let written = boot.zip(written_ns).map(|(boot, ns)| BootTime {
        boot: u128::from_be_bytes(boot),
        elapsed: Duration::from_nanos(u64::try_from(ns).unwrap_or(0)),
    });
    Ok(StoredRow { record, written })
}

/// Ids are blobs, keys are texts, and a record's last write is known by its nonce.
type Columns = tenure_store::parts::Columns<[u8; 16], String>;

/// The statements that change rows.
pub(crate) struct Writing<'c> {
    put: LazyStatement<'c>,
    date: LazyStatement<'c>,
    remove: LazyStatement<'c>,
}

impl<'c> Writing<'c> {
    pub(crate) fn of(connection: &'c Connection) -> Self {
        let put = format!(
            "INSERT OR REPLACE INTO tenure_record ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
        );
        let date = "UPDATE tenure_record SET boot = ?2, written_ns = ?3 WHERE key = ?1";
        let remove = "DELETE FROM tenure_record WHERE key = ?1";
        Writing {
            put: LazyStatement::new(connection, put),
            date: LazyStatement::new(connection, date),
            remove: LazyStatement::new(connection, remove),
        }
    }

    pub(crate) fn put(
        &mut self,
        key: &Key,
        record: &Record,
        bytes: &[u8],
        now: Option<Present>,
    ) -> rusqlite::Result<()> {
        let columns = Columns::of(record, record.nonce.0);
        let (boot, written_ns) = dated(now).unzip();
        let changed = self.put.get()?.execute(params![
            key.as_str(),
            columns.version,
            columns.fence,
            columns.tenure,
            columns.ride_key,
            columns.ride_fence,
            bytes,
            boot,
            written_ns,
        ])?;
        one(changed)
    }

    /// Dates a row anew, whose record stays as it is.
    pub(crate) fn date(&mut self, key: &Key, now: Option<Present>) -> rusqlite::Result<()> {
        let (boot, written_ns) = dated(now).unzip();
        one(self.date.get()?.execute(params![key.as_str(), boot, written_ns])?)
    }

    pub(crate) fn remove(&mut self, key: &Key) -> rusqlite::Result<()> {
        one(self.remove.get()?.execute([key.as_str()])?)
    }
}

/// A trigger that somebody has made may have the statement do nothing, and fail nothing.
fn one(changed: usize) -> rusqlite::Result<()> {
    if changed == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(changed)) }
}

fn dated(now: Option<Present>) -> Option<([u8; 16], i64)> {
    let nanos = |time: BootTime| i64::try_from(time.elapsed.as_nanos()).unwrap_or(i64::MAX);
    now.map(|now| (now.time.boot.to_be_bytes(), nanos(now.time)))
}
