//! Opening files that can't be used: each has its own error, of the right kind, that names the path and a remedy, and
//! leaves what it found as it was. And opening files that can.
//!
//! Plan: what is no file; what is read-only; what belongs to others; what is in another encoding; what several make at once, or another makes slowly; links; who may
//! use the lock; a log that stays short.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{Immutable, SmallDisk, key, open, wins};
use std::path::Path;
use std::time::Duration;
use tenure_core::{ErrorKind, StoreError};
use tenure_sqlite::{SqliteConfig, SqliteStore};
use tenure_store::Store;
use tenure_testkit::RecordFactory;

fn refusal(config: SqliteConfig) -> StoreError {
    SqliteStore::open(config).map(|store| format!("{store:?}")).expect_err("it should be refused")
}

#[track_caller]
fn assert_refused(path: &Path, kind: ErrorKind, text: &str) {
    let error = refusal(SqliteConfig::new(path));
    assert_eq!(error.kind(), kind, "{error}");
    let said = error.to_string();
    assert!(said.contains(text) && said.contains(path.to_str().unwrap()), "{said}");
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_no_file_is_refused_by_path() {
    let directory = tempfile::tempdir().unwrap();
    assert_refused(directory.path(), ErrorKind::Invalid, "is a directory");
    assert_refused(&directory.path().join("no/leases.db"), ErrorKind::Invalid, "mkdir -p");
    let plain = directory.path().join("plain");
    std::fs::write(&plain, "x").unwrap();
    assert_refused(&plain.join("leases.db"), ErrorKind::Invalid, "check the path");
    assert_refused(Path::new("/dev/null"), ErrorKind::Invalid, "not a regular file");
    let dangling = directory.path().join("dangling");
    std::os::unix::fs::symlink(directory.path().join("nowhere"), &dangling).unwrap();
    assert_refused(&dangling, ErrorKind::Invalid, "symbolic link to nothing");
    #[cfg(target_os = "linux")]
    assert_refused(Path::new("/proc/leases.db"), ErrorKind::Invalid, "name another directory");
    let missing = SqliteConfig::new(directory.path().join("missing.db")).create(false);
    let error = refusal(missing).to_string();
    assert!(error.contains("missing.db does not exist"), "{error}");
    assert_eq!(names_in(directory.path()), ["dangling", "plain"], "something was left behind");
}

#[test]
fn who_opens_a_file_that_is_being_made_waits_for_that_on_a_slow_disk() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    // As far as another process may have come with it: no tables yet, and nobody else may look.
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let side = std::fs::File::create(directory.path().join("leases.db-lock")).unwrap();
    side.lock().unwrap();
    let config = SqliteConfig::new(&path).busy_timeout(Duration::from_millis(40));
    let opening = std::thread::spawn(|| SqliteStore::open(config).map(drop));
    std::thread::sleep(Duration::from_millis(300));
    other.execute_batch("COMMIT").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    drop(side);
    assert_eq!(opening.join().unwrap(), Ok(()));
}

#[test]
fn what_is_read_only_is_refused_by_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    drop(open(&path));
    {
        let _immutable = Immutable::new(&path);
        assert_refused(&path, ErrorKind::Invalid, "the file is read-only");
    }
    {
        let _immutable = Immutable::new(directory.path());
        let error = refusal(SqliteConfig::new(&path));
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("the directory is read-only"), "{error}");
        assert!(error.to_string().contains(directory.path().to_str().unwrap()), "{error}");
    }
    drop(open(&path));
}

#[test]
fn a_read_only_filesystem_is_refused_by_path() {
    if !crate::support::may_mount("opening::a_read_only_filesystem_is_refused_by_path") {
        return;
    }
    let disk = SmallDisk::mount("size=1m,ro");
    let path = disk.path("leases.db");
    let error = refusal(SqliteConfig::new(&path));
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("read-only"), "{error}");
}

/// As a container's volume of one file: each container would have a log of its own, and both would win the same key.
#[cfg(target_os = "linux")]
#[test]
fn s1_a_file_that_is_mounted_by_itself_is_refused() {
    if !crate::support::may_mount("opening::s1_a_file_that_is_mounted_by_itself_is_refused") {
        return;
    }
    let (disk, other) = (SmallDisk::mount("size=4m"), SmallDisk::mount("size=4m"));
    drop(open(&disk.path("leases.db")));
    for at in [disk.path("volume.db"), other.path("volume.db")] {
        std::fs::write(&at, "").unwrap();
        let mounted = crate::support::Bound::at(&disk.path("leases.db"), &at);
        assert_refused(&at, ErrorKind::Invalid, "mount, or bind, its directory instead");
        drop(mounted);
    }
    // A directory that is mounted is shared as a whole.
    let directory = other.path("volume");
    std::fs::create_dir(&directory).unwrap();
    let _mounted = crate::support::Bound::at(disk.path("leases.db").parent().unwrap(), &directory);
    drop(open(&directory.join("leases.db")));
}

#[test]
fn a_full_disk_is_named_when_opening() {
    if !crate::support::may_mount("opening::a_full_disk_is_named_when_opening") {
        return;
    }
    let disk = SmallDisk::mount("size=256k");
    disk.fill();
    assert_refused(&disk.path("leases.db"), ErrorKind::Unavailable, "disk is full");
    disk.free();
    drop(open(&disk.path("leases.db")));
}

#[test]
fn a_file_that_is_not_sqlite_is_foreign_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    for content in ["x".to_owned(), "A text, and no database.\n".repeat(1000)] {
        std::fs::write(&path, &content).unwrap();
        assert_refused(&path, ErrorKind::Foreign, "is not an SQLite database");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        assert_eq!(names_in(directory.path()), ["notes.txt"]);
    }
}

#[test]
fn an_empty_file_becomes_a_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    std::fs::write(&path, "").unwrap();
    // Who only uses what is there makes nothing of it.
    let refused = refusal(SqliteConfig::new(&path).create(false));
    assert!(
        refused.kind() == ErrorKind::Invalid && refused.to_string().contains("has no tables"),
        "{refused}"
    );
    assert_eq!((std::fs::metadata(&path).unwrap().len(), names_in(directory.path()).len()), (0, 1));
    assert_eq!(open(&path).id(), open(&path).id());
}

#[test]
fn a_file_that_another_program_has_left_without_a_log_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let id = open(&path).id();
    let other = rusqlite::Connection::open(&path).unwrap();
    // Until the store's threads have closed it.
    while other.pragma_update(None, "journal_mode", "delete").is_err() {
        std::thread::yield_now();
    }
    drop(other);
    assert!(!names_in(directory.path()).contains(&"leases.db-wal".to_owned()));
    assert_eq!(open(&path).id(), id);
}

#[tokio::test]
async fn another_application_s_file_is_foreign_unless_it_is_shared() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let app = rusqlite::Connection::open(&path).unwrap();
    app.execute_batch(
        "PRAGMA application_id = 7; PRAGMA user_version = 99; CREATE TABLE account (id INTEGER)",
    )
    .unwrap();
    assert_refused(&path, ErrorKind::Foreign, "another application (application_id 0x7)");
    let tables = "SELECT count(*) FROM sqlite_schema";
    let count = |sql: &str| app.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count(tables), 1, "a refused file was changed");
    assert_eq!(names_in(directory.path()), ["app.db"]);

    let shared = SqliteStore::open(SqliteConfig::new(&path).within_application(true)).unwrap();
    let factory = RecordFactory::new();
    assert!(wins(&shared, factory.absent(&key("a"), factory.held(1))).await);
    assert_eq!(count(tables), 3);
    assert_eq!((count("PRAGMA application_id"), count("PRAGMA user_version")), (7, 99));
    // Once the tables are there, it needs no permission any more.
    assert_eq!(open(&path).id(), shared.id());
}

#[test]
fn a_marked_but_empty_file_of_another_application_is_foreign() {
    let directory = tempfile::tempdir().unwrap();
    for (name, mark) in [("one.db", "application_id"), ("two.db", "user_version")] {
        let path = directory.path().join(name);
        rusqlite::Connection::open(&path).unwrap().execute_batch(&format!("PRAGMA {mark} = 7")).unwrap();
        assert_refused(&path, ErrorKind::Foreign, "another application");
    }
}

#[test]
fn tables_of_a_newer_version_are_foreign() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    drop(open(&path));
    let hand = rusqlite::Connection::open(&path).unwrap();
    hand.execute_batch("UPDATE tenure_meta SET value = 2 WHERE name = 'schema'").unwrap();
    assert_refused(&path, ErrorKind::Foreign, "version 2, this program knows up to 1; upgrade it");
}

#[test]
fn a_new_file_that_many_open_at_once_is_made_once() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let path = directory.path().join(format!("{round}.db"));
        let ids: Vec<String> = std::thread::scope(|scope| {
            let opening: Vec<_> = (0..8).map(|_| scope.spawn(|| open(&path).id())).collect();
            opening.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    }
}

#[tokio::test]
async fn symbolic_links_lead_to_one_store_and_hard_links_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (soft, hard) = (directory.path().join("soft.db"), directory.path().join("hard.db"));
    let store = open(&path);
    std::os::unix::fs::symlink(&path, &soft).unwrap();
    assert_eq!(open(&soft).id(), store.id());
    assert!(
        !names_in(directory.path()).iter().any(|name| name.starts_with("soft.db-")),
        "a second side file"
    );
    std::fs::hard_link(&path, &hard).unwrap();
    assert_refused(&hard, ErrorKind::Invalid, "several hard links");
}

fn mode(path: &Path) -> u32 {
    std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(path).unwrap()) & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(path, permissions).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_new_database_is_its_users_alone_and_one_that_was_there_keeps_its_mode() {
    let directory = tempfile::tempdir().unwrap();
    let modes = |name: &str| {
        let store = open(&directory.path().join(name));
        let files = ["", "-wal", "-shm", "-lock"].map(|end| directory.path().join(format!("{name}{end}")));
        let modes = files.map(|file| mode(&file));
        drop(store);
        modes
    };
    // Whoever may read one of them may lock it.
    assert_eq!(modes("new.db"), [0o600; 4]);
    assert_eq!(modes("new.db"), [0o600; 4]);
    let there = directory.path().join("there.db");
    std::fs::write(&there, "").unwrap();
    set_mode(&there, 0o640);
    assert_eq!(modes("there.db"), [0o640; 4], "made by who shares it");
}

#[test]
fn who_may_use_the_database_may_use_its_lock() {
    let directory = tempfile::tempdir().unwrap();
    let (path, lock) = (directory.path().join("leases.db"), directory.path().join("leases.db-lock"));
    drop(open(&path));
    set_mode(&path, 0o664);
    set_mode(&lock, 0o644);
    drop(open(&path));
    assert_eq!(mode(&lock), 0o664, "one that was there");
    // Most masks for new files keep groups from writing.
    std::fs::remove_file(&lock).unwrap();
    drop(open(&path));
    assert_eq!(mode(&lock), 0o664, "a new one");
    set_mode(&path, 0o600);
    drop(open(&path));
    assert_eq!(mode(&lock), 0o664, "what is granted is not taken back");
}

#[test]
fn a_lock_file_that_leads_elsewhere_is_refused_and_nothing_is_written_there() {
    use std::os::unix::fs::symlink;
    let directory = tempfile::tempdir().unwrap();
    let (path, lock) = (directory.path().join("leases.db"), directory.path().join("leases.db-lock"));
    drop(open(&path));
    set_mode(&path, 0o666);
    let links: [fn(&Path, &Path) -> std::io::Result<()>; 2] =
        [|to, from| symlink(to, from), |to, from| std::fs::hard_link(to, from)];
    let private = directory.path().join("private");
    for link in links {
        std::fs::write(&private, "x").unwrap();
        set_mode(&private, 0o600);
        std::fs::remove_file(&lock).unwrap();
        link(&private, &lock).unwrap();
        assert_refused(&path, ErrorKind::Invalid, "leases.db-lock is ");
        assert_eq!((mode(&private), std::fs::read(&private).unwrap()), (0o600, b"x".to_vec()));
        std::fs::remove_file(&private).unwrap();
    }
    // A link to nothing makes nothing there.
    std::fs::remove_file(&lock).unwrap();
    symlink(&private, &lock).unwrap();
    assert_refused(&path, ErrorKind::Invalid, "leases.db-lock is ");
    assert!(!private.exists());
    std::fs::remove_file(&lock).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&lock).status().unwrap();
    assert!(made.success());
    assert_refused(&path, ErrorKind::Invalid, "leases.db-lock is ");
    std::fs::remove_file(&lock).unwrap();
    drop(open(&path));
}

#[test]
fn permissions_of_other_users_lock_files_stay() {
    use std::os::unix::fs::{MetadataExt, chown};
    let directory = tempfile::tempdir().unwrap();
    let (path, lock) = (directory.path().join("leases.db"), directory.path().join("leases.db-lock"));
    drop(open(&path));
    set_mode(&path, 0o666);
    std::fs::remove_file(&lock).unwrap();
    std::fs::write(&lock, "").unwrap();
    set_mode(&lock, 0o644);
    // Only root may give a file away.
    if chown(&lock, Some(65534), Some(65534)).is_err() {
        return;
    }
    drop(open(&path));
    let left = std::fs::metadata(&lock).unwrap();
    assert_eq!((mode(&lock), left.uid(), left.gid()), (0o644, 65534, 65534), "another user's");
    std::fs::remove_file(&lock).unwrap();
    set_mode(&path, 0o660);
    chown(&path, Some(65534), Some(65533)).unwrap();
    drop(open(&path));
    let new = std::fs::metadata(&lock).unwrap();
    assert_eq!((mode(&lock), new.uid(), new.gid()), (0o660, 65534, 65533), "root's own");
}

/// An encoding is for a whole file, and whoever made it has chosen.
#[test]
fn a_file_whose_texts_are_utf_16_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (good, path) = (directory.path().join("good.db"), directory.path().join("leases.db"));
    let id = open(&good).id();
    let application = rusqlite::Connection::open(&path).unwrap();
    application.execute_batch("PRAGMA encoding = 'UTF-16le'; CREATE TABLE theirs (a)").unwrap();
    let refused = |config: SqliteConfig| {
        let error = refusal(config);
        let text = error.to_string();
        assert!(error.kind() == ErrorKind::Invalid && text.contains(path.to_str().unwrap()), "{text}");
        assert!(text.contains("UTF-16le") && text.contains(".dump | sqlite3 NEW"), "{text}");
    };
    refused(SqliteConfig::new(&path).within_application(true));
    let tables = "SELECT group_concat(name) FROM sqlite_schema";
    let found: String = application.query_row(tables, [], |row| row.get(0)).unwrap();
    assert_eq!(found, "theirs");
    // An earlier version has made its tables there.
    let good = rusqlite::Connection::open(&good).unwrap();
    let made = "SELECT group_concat(sql, ';') FROM sqlite_schema WHERE name LIKE 'tenure%'";
    let made: String = good.query_row(made, [], |row| row.get(0)).unwrap();
    let id = id.trim_start_matches("sqlite:");
    let named = format!("{made}; INSERT INTO tenure_meta VALUES ('schema', 1), ('id', '{id}')");
    application.execute_batch(&named).unwrap();
    refused(SqliteConfig::new(&path));
    refused(SqliteConfig::new(&path).look(true));
}

#[test]
fn two_files_have_two_ids() {
    let directory = tempfile::tempdir().unwrap();
    let id = |name: &str| open(&directory.path().join(name)).id();
    assert_ne!(id("a.db"), id("b.db"));
    assert!(id("a.db").starts_with("sqlite:"));
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn whoever_only_writes_has_one_connection_and_whoever_reads_has_two() {
    let directory = tempfile::tempdir().unwrap();
    let file =
        directory.path().join("leases.db").canonicalize().unwrap_or(directory.path().join("leases.db"));
    let connections = || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.filter(|one| std::fs::read_link(one.path()).is_ok_and(|path| path == file)).count()
    };
    let (store, factory) = (open(&file), RecordFactory::new());
    assert!(wins(&store, factory.if_vacant(&key("k"), factory.held(1))).await);
    assert_eq!(connections(), 1);
    for _ in 0..2 {
        assert!(store.read(&key("k")).await.unwrap().is_some());
        assert_eq!(connections(), 2);
    }
}

/// Each that opens a file alone reads the whole log first.
#[tokio::test]
async fn processes_that_write_once_and_end_keep_the_log_short() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let factory = RecordFactory::new();
    drop(open(&path));
    // While it has the file open, nobody is the last who closes it, which would move the log into the database.
    let other = rusqlite::Connection::open(&path).unwrap();
    other.query_row("SELECT count(*) FROM tenure_meta", [], |_| Ok(())).unwrap();
    for round in 0..200 {
        assert!(wins(&open(&path), factory.absent(&key(&format!("k{round}")), factory.held(5))).await);
    }
    let log = std::fs::metadata(directory.path().join("leases.db-wal")).unwrap().len();
    assert!(log < 150 * 4096, "{log} bytes are in the log");
}
