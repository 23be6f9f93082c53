//! The tables, and connections that may use them.

use crate::config::SqliteConfig;
use crate::error::{INDEX, is_full, undone};
use crate::place::{FileLocation, beside, io_error};
use crate::side;
use crate::turnstile::Turnstile;
use rusqlite::{Connection, MAIN_DB, OpenFlags};
use std::fs::File;
use std::time::Duration;
use tenure_core::StoreError;

/// The version of the tables that this program makes and knows.
const VERSION: i64 = 1;
/// Marks a file as tenure's own (`tnre`), for file(1) and for those who would take it for theirs.
const APPLICATION_ID: i64 = 0x746e_7265;

/// Keys can't be empty, over-long, or anything but text, whoever writes them; the rest of what makes a row whole is
/// checked when it is read.
const TABLES: &str = "
    CREATE TABLE tenure_meta (name TEXT NOT NULL PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE tenure_record (
        key        TEXT    NOT NULL PRIMARY KEY CHECK (octet_length(key) BETWEEN 1 AND 512),
        version    BLOB    NOT NULL CHECK (octet_length(version) = 16),
        fence      INTEGER NOT NULL CHECK (fence >= 0),
        tenure     BLOB             CHECK (octet_length(tenure) = 16),
        ride_key   TEXT,
        ride_fence INTEGER,
        record     BLOB    NOT NULL,
        boot       BLOB,
        written_ns INTEGER
    ) STRICT, WITHOUT ROWID;
    INSERT INTO tenure_meta VALUES ('schema', 1), ('id', lower(hex(randomblob(16))));
";

/// To make a new file takes ten syncs of the disk, each of which may take long; whoever opens it meanwhile waits for that.
const MAKING: Duration = Duration::from_secs(10);

/// From how many pages in the log on a commit moves them into the database: the first commit of a process, and each later one.
///
/// A process that opens the file alone reads the whole log first, at some 4 µs a page. Commands that write twice and end would never shorten
/// it, which takes 0.6 ms. With two or three pages from each, both together cost least at about this length.
const SHORT_LOG: u32 = 32;
pub(crate) const LOG: u32 = 1000;

/// A file that is ours, opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) writer: Connection,
    pub(crate) turnstile: Turnstile,
    pub(crate) side: File,
    /// The name of this set of records.
    pub(crate) id: String,
}

/// Whose a file is.
enum FileOwner {
    Nobody,
    Tenure { id: String },
    Other { application_id: i64 },
}

/// Where it is to be created, an empty file has been made already.
pub(crate) fn open(place: &FileLocation, config: &SqliteConfig) -> Result<Opened, StoreError> {
    let _transaction = crate::pause::transaction();
    let failed = |error: rusqlite::Error| undone(&place.path, error);
    let writer = connect(place, config)?;
    let mut owner = owner(place, &writer)?;
    if let (FileOwner::Other { application_id }, false) = (&owner, config.within_application) {
        return Err(StoreError::foreign(format!(
            "{} is the SQLite database of another application (application_id {application_id:#x}); name another file, or \
             allow tenure's tables in it",
            place.path.display()
        )));
    }
    check_encoding(place, &writer)?;
    if matches!(owner, FileOwner::Nobody) && !config.create {
        if place.side.exists() {
            // Somebody may be making its tables just now.
            Turnstile::new(side::open(place)?, making(config)).enter();
            owner = self::owner(place, &writer)?;
        }
        if matches!(owner, FileOwner::Nobody) {
            return Err(StoreError::invalid(format!(
                "{} has no tables of tenure's, and none are made here; check the path, or allow it to be created",
                place.path.display()
            )));
        }
    }
    let side = side::open(place)?;
    let turnstile = |patience| {
        let side = side.try_clone().map_err(|error| io_error(&place.side, &error))?;
        Ok::<Turnstile, StoreError>(Turnstile::new(side, patience))
    };
    if !matches!(owner, FileOwner::Tenure { .. }) {
        // Two processes that switch a new file to WAL at once would fail without waiting; one after the other, all is well.
        let mut turnstile = turnstile(making(config))?;
        let turn = turnstile.enter();
        use_wal(place, &writer)?;
        create(place, &writer).map_err(failed)?;
        drop(turn);
        sync_directory(place)?;
        owner = self::owner(place, &writer)?;
    }
    let FileOwner::Tenure { id } = owner else {
        return Err(StoreError::foreign(format!(
            "{}: its tables vanished while opening it",
            place.path.display()
        )));
    };
    use_wal(place, &writer)?;
    // A file that had another journal has its log with the first query.
    writer.query_row("SELECT count(*) FROM tenure_meta", [], |_| Ok(())).map_err(failed)?;
    checkpoint_from(&writer, SHORT_LOG).map_err(failed)?;
    writer.busy_timeout(config.busy_timeout - patience(config)).map_err(failed)?;
    let turnstile = turnstile(patience(config))?;
    Ok(Opened { writer, turnstile, side, id: format!("sqlite:{id}") })
}

/// A connection that only reads, beside the one that writes. It has the log open, as SQLite does with the first query.
pub(crate) fn reader(place: &FileLocation, config: &SqliteConfig) -> Result<Connection, StoreError> {
    let failed = |error: rusqlite::Error| undone(&place.path, error);
    let reader = connect(place, &SqliteConfig { create: false, ..config.clone() })?;
    reader.execute_batch("PRAGMA query_only = ON").map_err(failed)?;
    reader.query_row("SELECT count(*) FROM tenure_meta", [], |_| Ok(())).map_err(failed)?;
    reader.busy_timeout(config.busy_timeout - patience(config)).map_err(failed)?;
    Ok(reader)
}

/// A file that is only read.
#[derive(Debug)]
pub(crate) struct LookedAt {
    pub(crate) connection: Connection,
    /// The name of this set of records.
    pub(crate) id: String,
    /// The connection takes the file for one that nobody can write.
    pub(crate) is_immutable: bool,
}

/// A connection that only reads, where nothing can be written.
pub(crate) fn look(place: &FileLocation, config: &SqliteConfig) -> Result<LookedAt, StoreError> {
    let connected = |how: &str| {
        let connection = connect_to_look(place, config, how).map_err(|error| undone(&place.path, error))?;
        let owner = owner(place, &connection)?;
        Ok::<_, StoreError>((connection, owner))
    };
    let ((connection, owner), is_immutable) = match connected("mode=ro") {
        // Without a log all is in the file, and nobody has it open. SQLite would want to make the log's index.
        Err(error) if error.is_passing() && !has_log(place) => (connected("mode=ro&immutable=1")?, true),
        Err(error) if error.is_passing() => return Err(log_unread(place, &error)),
        connected => (connected?, false),
    };
    match owner {
        FileOwner::Tenure { id } => {
            check_encoding(place, &connection)?;
            Ok(LookedAt { connection, id: format!("sqlite:{id}"), is_immutable })
        }
        FileOwner::Nobody | FileOwner::Other { .. } => Err(StoreError::foreign(format!(
            "{} has no tables of tenure's, and none can be made here: the file is read-only for this process",
            place.path.display()
        ))),
    }
}

fn connect_to_look(place: &FileLocation, config: &SqliteConfig, how: &str) -> rusqlite::Result<Connection> {
    let path = place.path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(format!("file:{path}?{how}"), flags)?;
    connection.busy_timeout(config.busy_timeout)?;
    connection
        .execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")?;
    Ok(connection)
}

/// Whether something may be in a log that is not in the file yet, or somebody has it open.
pub(crate) fn has_log(place: &FileLocation) -> bool {
    let beside = |suffix: &str| std::fs::metadata(beside(&place.path, suffix));
    // One that is shorter was left by whoever could not make it, for want of space.
    let is_used = |index: std::fs::Metadata| index.len() >= INDEX || !is_full(&place.path);
    beside("-wal").is_ok_and(|log| log.len() > 0) || beside("-shm").is_ok_and(is_used)
}

fn log_unread(place: &FileLocation, error: &StoreError) -> StoreError {
    let at = place.path.display();
    StoreError::invalid(format!(
        "{at}: what was written last may be in {at}-wal, which can't be read without write access here ({error}); copy {at} and \
         {at}-wal together to where you may write, and look there"
    ))
}

/// How long to wait at the turnstile; the other half is for SQLite's own lock.
fn patience(config: &SqliteConfig) -> Duration {
    config.busy_timeout / 2
}

/// How long to wait for others while a file is opened.
fn making(config: &SqliteConfig) -> Duration {
    config.busy_timeout.max(MAKING)
}

fn connect(place: &FileLocation, config: &SqliteConfig) -> Result<Connection, StoreError> {
    let failed = |error: rusqlite::Error| undone(&place.path, error);
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, config.create);
    let connection = Connection::open_with_flags(&place.path, flags)
        .map_err(|error| place.unmakeable(config).unwrap_or_else(|| failed(error)))?;
    connection.busy_timeout(making(config)).map_err(failed)?;
    if connection.is_readonly(MAIN_DB).map_err(failed)? {
        return Err(StoreError::invalid(format!(
            "{}: the file is read-only for this process",
            place.path.display()
        )));
    }
    // FULL: a fence must not go back after a power cut, so every commit reaches the disk before it is answered.
    connection
        .execute_batch(
            "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
             PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA journal_size_limit = 16777216;",
        )
        .map_err(failed)?;
    Ok(connection)
}

/// Whose the file is at one instant: another process may be making its tables just now.
fn owner(place: &FileLocation, connection: &Connection) -> Result<FileOwner, StoreError> {
    let failed = |error: rusqlite::Error| undone(&place.path, error);
    connection.execute_batch("BEGIN").map_err(failed)?;
    let owner = owner_within(place, connection);
    connection.execute_batch("ROLLBACK").map_err(failed)?;
    owner
}

fn owner_within(place: &FileLocation, connection: &Connection) -> Result<FileOwner, StoreError> {
    let failed = |error: rusqlite::Error| undone(&place.path, error);
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(failed);
    let ours = number(
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('tenure_meta', 'tenure_record')",
    )?;
    if ours == 0 {
        let tables = number("SELECT count(*) FROM sqlite_schema")?;
        let application_id = number("PRAGMA application_id")?;
        let is_empty = tables == 0 && application_id == 0 && number("PRAGMA user_version")? == 0;
        return Ok(if is_empty { FileOwner::Nobody } else { FileOwner::Other { application_id } });
    }
    let version = number("SELECT value FROM tenure_meta WHERE name = 'schema'")?;
    if version > VERSION {
        return Err(StoreError::foreign(format!(
            "{} has tables of version {version}, this program knows up to {VERSION}; upgrade it",
            place.path.display()
        )));
    }
    let id = "SELECT value FROM tenure_meta WHERE name = 'id'";
    Ok(FileOwner::Tenure { id: connection.query_row(id, [], |row| row.get(0)).map_err(failed)? })
}

/// In UTF-16, keys would have other lengths and another order, and the bytes of a key could not be compared with those of a row's.
fn check_encoding(place: &FileLocation, connection: &Connection) -> Result<(), StoreError> {
    let encoding: String = connection
        .query_row("PRAGMA encoding", [], |row| row.get(0))
        .map_err(|error| undone(&place.path, error))?;
    if encoding == "UTF-8" {
        return Ok(());
    }
    let at = place.path.display();
    Err(StoreError::invalid(format!(
        "{at}: its texts are {encoding}, and tenure's have to be UTF-8, which is for a whole file; name another file, or make this one anew          (sqlite3 {at} .dump | sqlite3 NEW)"
    )))
}

fn use_wal(place: &FileLocation, connection: &Connection) -> Result<(), StoreError> {
    let failed = |error: rusqlite::Error| undone(&place.path, error);
    let mode: String =
        connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(failed)?;
    if mode == "wal" {
        return Ok(());
    }
    Err(StoreError::invalid(format!(
        "{}: SQLite can't use a write-ahead log here (journal mode {mode}); use another filesystem",
        place.path.display()
    )))
}

/// Has this connection's commits move the log into the database from so many pages on.
pub(crate) fn checkpoint_from(connection: &Connection, pages: u32) -> rusqlite::Result<()> {
    connection.pragma_update(None, "wal_autocheckpoint", pages)
}

/// Makes the tables, unless another process was quicker.
fn create(place: &FileLocation, connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let made = match owner_within(place, connection) {
        Ok(FileOwner::Nobody) => connection
            .execute_batch(TABLES)
            .and_then(|()| connection.pragma_update(None, "application_id", APPLICATION_ID)),
        Ok(FileOwner::Other { .. }) => connection.execute_batch(TABLES),
        // Whatever is wrong shows again when the owner is asked for after this.
        Ok(FileOwner::Tenure { .. }) | Err(_) => Ok(()),
    };
    let made = made.and_then(|()| connection.execute_batch("COMMIT"));
    if made.is_err() && !connection.is_autocommit() {
        let _ = connection.execute_batch("ROLLBACK");
    }
    made
}

/// A new file's name must outlive a power cut as its content does.
fn sync_directory(place: &FileLocation) -> Result<(), StoreError> {
    if cfg!(unix) {
        let directory = File::open(&place.directory).and_then(|directory| directory.sync_all());
        directory.map_err(|error| io_error(&place.directory, &error))?;
    }
    Ok(())
}
