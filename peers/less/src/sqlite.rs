//! less's table in a SQLite file: one transaction for each call, by the host's wall clock.
//!
//! The column holds the deadline as text in the writer's own zone, and less compares it *as text*. So what is written here has the
//! offset that the row shows already, unless that is what this host's zone had then; what is read is compared by instant.

use crate::files::{self, OpenedFiles};
use crate::storage::{Calling, LeaderRow, Micros, Seen, Storage, StorageGone};
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, ffi, params,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure_core::{Clock, StoreError};
use tenure_store::parts::TurnLock;

/// As less's own migration makes it.
const TABLE: &str = "\
    CREATE TABLE IF NOT EXISTS less_record (
        key text NOT NULL, value text NOT NULL, deadline datetime, PRIMARY KEY (key))";

/// How long a transaction waits for those of others. less's driver waits as long.
const BUSY: Duration = Duration::from_secs(5);

/// The table `less_record` of a SQLite file. Any number of candidates share one.
#[derive(Clone)]
pub struct SqliteStorage {
    inner: Arc<SharedDatabase>,
}

struct SharedDatabase {
    path: PathBuf,
    /// Whoever has it waits for nobody else at the mutex.
    turn: Arc<TurnLock>,
    database: Mutex<OpenDatabase>,
    clock: Arc<dyn Clock>,
    zone: TimeZone,
}

/// A connection, and the files that it has open.
struct OpenDatabase {
    connection: Connection,
    files: OpenedFiles,
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        self.files.leave(&self.connection);
    }
}

impl std::fmt::Debug for SqliteStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SqliteStorage({})", self.inner.path.display())
    }
}

/// A row with what is needed to write in its manner.
struct FoundRow {
    row: LeaderRow,
    offset: Offset,
}

impl SqliteStorage {
    /// The table of this file, which must be there. Its journal mode is left as it is.
    ///
    /// # Errors
    /// Each names the file and the remedy. `Invalid`: there is no such file or table. `Foreign`: it is no database. `Unavailable`: it
    /// can't be opened or read now.
    pub fn open(path: impl AsRef<Path>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_in_zone(path, clock, TimeZone::system())
    }

    /// The same, where no row shows in which zone the other programs write: by default it is the one of this host.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_in_zone(
        path: impl AsRef<Path>,
        clock: Arc<dyn Clock>,
        zone: TimeZone,
    ) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let files = OpenedFiles::at(path);
        // From here on it is closed with care for what others have.
        let database = OpenDatabase { connection: connect(path, OpenFlags::empty())?, files };
        let asks = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'less_record'";
        let tables: i64 = database
            .connection
            .query_row(asks, [], |row| row.get(0))
            .map_err(|e| failed(path, DatabaseCall::Read, e))?;
        if tables == 0 {
            return Err(StoreError::invalid(format!(
                "{}: there is no table less_record; SqliteStorage::migrate or less's own migration makes it",
                path.display()
            )));
        }
        // One that was replaced while it was opened.
        if let Some(fault) = database.files.fault() {
            return Err(StoreError::unavailable(fault));
        }
        let (turn, database) = (Arc::default(), Mutex::new(database));
        let inner = SharedDatabase { path: path.to_owned(), turn, database, clock, zone };
        Ok(SqliteStorage { inner: Arc::new(inner) })
    }

    /// Makes the file, and in it the table as less's own migration does, if they are missing.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn migrate(path: impl AsRef<Path>) -> Result<(), StoreError> {
        let path = path.as_ref();
        let connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
        connection.execute_batch(TABLE).map_err(|error| failed(path, DatabaseCall::Write, error))
    }

    /// Runs a transaction in a thread where it may wait. Who gives up before its turn has come has begun none, and takes no thread: while another process
    /// holds the file, one thread waits for it, however many calls are given up.
    async fn run<T: Send + 'static>(
        &self,
        call: DatabaseCall,
        work: impl FnOnce(&SharedDatabase, &Transaction<'_>) -> Result<T, DatabaseError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = Arc::clone(&self.inner);
        let turn = inner.turn.take().await;
        let ran = tokio::task::spawn_blocking(move || {
            let ended = inner.transaction(
                &mut inner.database.lock().unwrap_or_else(PoisonError::into_inner),
                call,
                work,
            );
            drop(turn);
            ended
        });
        ran.await.unwrap_or_else(|_| {
            Err(StoreError::unknown("the thread of a transaction has ended without an answer"))
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DatabaseCall {
    Read,
    Write,
}

enum DatabaseError {
    Sql(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        DatabaseError::Sql(error)
    }
}

fn connect(path: &Path, more: OpenFlags) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    if !more.contains(OpenFlags::SQLITE_OPEN_CREATE) && !path.exists() {
        return Err(StoreError::invalid(format!(
            "{} does not exist; name the file that less uses",
            path.display()
        )));
    }
    if path.is_dir() {
        return Err(StoreError::invalid(format!("{} is a directory; name a file in it", path.display())));
    }
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| failed(path, DatabaseCall::Read, error))?;
    connection.busy_timeout(BUSY).map_err(|error| failed(path, DatabaseCall::Read, error))?;
    Ok(connection)
}

/// What an error means. A transaction that failed before its commit was rolled back.
fn failed(path: &Path, call: DatabaseCall, error: rusqlite::Error) -> StoreError {
    meaning(path, call, &error).because(error)
}

fn meaning(path: &Path, call: DatabaseCall, error: &rusqlite::Error) -> StoreError {
    // As SQLite notices by itself, before it begins a journal under the name of the other file.
    if error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_READONLY_DBMOVED) {
        return StoreError::unavailable(files::removed(path)).because(StorageGone);
    }
    let text = format!("{}: {error}", path.display());
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreError::foreign(text),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            StoreError::invalid(format!("{text}; this process needs to write the file and its directory"))
        }
        Some(
            ErrorCode::CannotOpen | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull,
        ) => StoreError::unavailable(text),
        Some(ErrorCode::SystemIoFailure) if call == DatabaseCall::Write => StoreError::unknown(text),
        Some(_) | None => StoreError::unavailable(text),
    }
}

impl SharedDatabase {
    fn transaction<T>(
        &self,
        database: &mut OpenDatabase,
        call: DatabaseCall,
        work: impl FnOnce(&SharedDatabase, &Transaction<'_>) -> Result<T, DatabaseError>,
    ) -> Result<T, StoreError> {
        // A transaction that a panic has left open was rolled back when it was dropped.
        let OpenDatabase { connection, files } = database;
        if let Some(fault) = files.fault() {
            return Err(StoreError::unavailable(fault).because(StorageGone));
        }
        let behavior = match call {
            DatabaseCall::Read => TransactionBehavior::Deferred,
            DatabaseCall::Write => TransactionBehavior::Immediate,
        };
        let transaction = connection
            .transaction_with_behavior(behavior)
            .map_err(|e| failed(&self.path, DatabaseCall::Read, e))?;
        let result = work(self, &transaction).map_err(|trouble| match trouble {
            DatabaseError::Sql(error) => failed(&self.path, DatabaseCall::Read, error),
            DatabaseError::Store(error) => error.about(self.path.display()),
        })?;
        files.see(&transaction).map_err(|error| failed(&self.path, DatabaseCall::Read, error))?;
        transaction.commit().map_err(|error| failed(&self.path, call, error))?;
        match files.fault() {
            None => Ok(result),
            Some(fault) if call == DatabaseCall::Read => {
                Err(StoreError::unavailable(fault).because(StorageGone))
            }
            // Committed, though perhaps to a file that is not the others' any more: they may have judged without it.
            Some(fault) => Err(StoreError::unknown(fault).because(StorageGone)),
        }
    }

    fn now(&self) -> Micros {
        Micros(i64::try_from(self.clock.now().wall.0.saturating_mul(1000)).unwrap_or(i64::MAX))
    }

    fn find(&self, transaction: &Transaction<'_>, key: &str) -> Result<Option<FoundRow>, DatabaseError> {
        // As it is stored: SQLite does not read dates, and less's driver writes texts.
        let sql = "SELECT value, deadline FROM less_record WHERE key = ?1";
        let row = transaction
            .query_row(sql, [key], |row| {
                Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Option<String>>(1)?))
            })
            .optional();
        let row = match row {
            // A number, say.
            Err(rusqlite::Error::InvalidColumnType(..) | rusqlite::Error::FromSqlConversionFailure(..)) => {
                return Err(DatabaseError::Store(damaged(key, "it is none of less's")));
            }
            row => row?,
        };
        let Some((value, text)) = row else { return Ok(None) };
        let (Some(value), Some(text)) = (value, text) else {
            return Err(DatabaseError::Store(damaged(key, "it has no deadline")));
        };
        let Some((deadline, offset)) = read(&text) else {
            return Err(DatabaseError::Store(damaged(key, &format!("its deadline {text:?} can't be read"))));
        };
        Ok(Some(FoundRow { row: LeaderRow { value, deadline }, offset }))
    }

    fn write(
        &self,
        transaction: &Transaction<'_>,
        key: &str,
        value: &str,
        deadline: Micros,
        over: Option<&FoundRow>,
    ) -> Result<(), DatabaseError> {
        let Some(text) = written(deadline, zone_of(over, &self.zone)) else {
            return Err(DatabaseError::Store(StoreError::invalid(
                "the ttl reaches past the year 9999; choose a shorter one",
            )));
        };
        let sql = "INSERT INTO less_record(key, value, deadline) VALUES (?1, ?2, ?3) \
                   ON CONFLICT (key) DO UPDATE SET value = excluded.value, deadline = excluded.deadline";
        transaction.execute(sql, params![key, value, text])?;
        Ok(())
    }
}

fn damaged(key: &str, why: &str) -> StoreError {
    StoreError::foreign(format!(
        "the row {key:?} of less_record: {why}; it is left as it is: delete it, or mend it"
    ))
}

/// A deadline as the Go driver writes it, and in which zone.
fn read(text: &str) -> Option<(Micros, Offset)> {
    let micros = |instant: Timestamp| Micros(instant.as_microsecond());
    if let Ok(instant) = text.parse::<Timestamp>() {
        let zoned = jiff::fmt::temporal::Pieces::parse(text).ok()?;
        let offset = zoned.to_numeric_offset().unwrap_or(Offset::UTC);
        return Some((micros(instant), offset));
    }
    // Without a zone, that driver takes it for UTC.
    let instant = text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
    Some((micros(instant), Offset::UTC))
}

/// In which zone others write: in the storage's own, where a row shows what the clocks said there, so that both change with the season; else in one of
/// the row's offset.
fn zone_of(found: Option<&FoundRow>, own: &TimeZone) -> TimeZone {
    let Some(FoundRow { row, offset }) = found else { return own.clone() };
    let there = Timestamp::from_microsecond(row.deadline.0).map(|deadline| own.to_offset(deadline));
    if there.is_ok_and(|there| there == *offset) { own.clone() } else { TimeZone::fixed(*offset) }
}

/// `2006-01-02 15:04:05.999999999-07:00` of Go: zeros at the end of the fraction are left out, and the point with the last of them.
fn written(deadline: Micros, zone: TimeZone) -> Option<String> {
    let instant = Timestamp::from_microsecond(deadline.0).ok()?;
    let local = Zoned::new(instant, zone);
    Some(local.strftime("%Y-%m-%d %H:%M:%S%.f%:z").to_string())
}

impl Storage for SqliteStorage {
    fn look<'a>(&'a self, key: &'a str) -> Calling<'a, Seen> {
        let key = key.to_owned();
        Box::pin(self.run(DatabaseCall::Read, move |inner, transaction| {
            let row = inner.find(transaction, &key)?.map(|found| found.row);
            Ok(Seen { row, now: inner.now() })
        }))
    }

    fn take<'a>(
        &'a self,
        key: &'a str,
        value: &'a str,
        ttl: Duration,
        skew: Duration,
        over: Option<&'a LeaderRow>,
    ) -> Calling<'a, bool> {
        let (key, value, over) = (key.to_owned(), value.to_owned(), over.cloned());
        Box::pin(self.run(DatabaseCall::Write, move |inner, transaction| {
            let found = inner.find(transaction, &key)?;
            let now = inner.now();
            let may = match (&found, &over) {
                (None, None) => true,
                (Some(found), Some(over)) => found.row == *over && over.deadline.after(skew) < now,
                _ => false,
            };
            if may {
                inner.write(transaction, &key, &value, now.after(ttl), found.as_ref())?;
            }
            Ok(may)
        }))
    }

    fn renew<'a>(&'a self, key: &'a str, value: &'a str, ttl: Duration) -> Calling<'a, bool> {
        let (key, value) = (key.to_owned(), value.to_owned());
        Box::pin(self.run(DatabaseCall::Write, move |inner, transaction| {
            let found = inner.find(transaction, &key)?;
            let now = inner.now();
            let Some(found) = found.filter(|found| found.row.value == value && found.row.deadline >= now)
            else {
                return Ok(false);
            };
            inner.write(transaction, &key, &value, now.after(ttl), Some(&found))?;
            Ok(true)
        }))
    }

    fn release<'a>(&'a self, key: &'a str, row: &'a LeaderRow) -> Calling<'a, bool> {
        let (key, row) = (key.to_owned(), row.clone());
        Box::pin(self.run(DatabaseCall::Write, move |inner, transaction| {
            let is_it = inner.find(transaction, &key)?.is_some_and(|found| found.row == row);
            if is_it {
                transaction.execute("DELETE FROM less_record WHERE key = ?1", [&key])?;
            }
            Ok(is_it)
        }))
    }
}

#[cfg(test)]
mod tests {
    //! Plan: deadlines are read in every form that the Go driver reads, and written as it writes them, in the zone that a row shows;
    //! what is no deadline is none.
    use super::*;

    #[test]
    fn deadlines_are_read_as_the_go_driver_reads_them() {
        for (text, millis, hours) in [
            ("2026-11-22 10:00:00.5+03:00", 1_795_330_800_500, 3),
            ("2026-11-22 07:00:00.5+00:00", 1_795_330_800_500, 0),
            ("2026-11-22 02:00:00.500000001-05:00", 1_795_330_800_500, -5),
            ("2026-11-22 10:00:00+03:00", 1_795_330_800_000, 3),
            ("2026-11-22T10:00:00+03:00", 1_795_330_800_000, 3),
            ("2026-11-22T07:00:00Z", 1_795_330_800_000, 0),
            ("2026-11-22 07:00:00", 1_795_330_800_000, 0),
        ] {
            let (deadline, offset) = read(text).unwrap();
            assert_eq!((deadline.0 / 1000, offset.seconds() / 3600), (millis, hours), "{text}");
        }
        for text in ["", "soon", "2026-13-40 00:00:00", "1795330800"] {
            assert!(read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn deadlines_are_written_as_the_go_driver_writes_them() {
        let east = || TimeZone::fixed(Offset::constant(3));
        let at = |micros: i64| Micros(1_795_330_800_000_000 + micros);
        for (micros, text) in [
            (0, "2026-11-22 10:00:00+03:00"),
            (500_000, "2026-11-22 10:00:00.5+03:00"),
            (120, "2026-11-22 10:00:00.00012+03:00"),
        ] {
            assert_eq!(written(at(micros), east()).unwrap(), text);
            assert_eq!(read(text), Some((at(micros), Offset::constant(3))));
        }
        assert_eq!(written(at(0), TimeZone::UTC).unwrap(), "2026-11-22 07:00:00+00:00");
        assert_eq!(written(Micros(i64::MAX), TimeZone::UTC), None);
    }

    #[test]
    fn a_row_changes_with_the_season_as_those_of_the_others_do() {
        // Without a database of zones, which a machine may lack: central Europe's, by its rule.
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let found = |text: &str| {
            let (deadline, offset) = read(text).unwrap();
            FoundRow { row: LeaderRow { value: "v".into(), deadline }, offset }
        };
        for (text, later) in [
            ("2026-10-25 02:59:55+02:00", "2026-10-25 02:00:05+01:00"),
            ("2026-03-29 01:59:55+01:00", "2026-03-29 03:00:05+02:00"),
            // Of a program whose clock shows another time.
            ("2026-10-25 00:59:55+00:00", "2026-10-25 01:00:05+00:00"),
        ] {
            let found = found(text);
            let deadline = found.row.deadline.after(Duration::from_secs(10));
            assert_eq!(written(deadline, zone_of(Some(&found), &zone)).as_deref(), Some(later));
        }
    }
}
