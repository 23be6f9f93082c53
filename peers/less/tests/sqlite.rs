//! Candidates on less's table in a SQLite file, beside what less's own statements do to it.
//!
//! Plan: one leads, and hands over when it stops; a peer's live row is respected, its dead one taken; what is written looks alive to a peer
//! that compares texts; a row that can't be read is left alone and told; several keys; what can't be opened is named; another zone may be said; a store that is
//! locked for long ends the leadership at its deadline, and piles up no threads; a file that is removed or replaced, or whose log is, is noticed in each journal
//! mode, nobody leads on, and what others have written meanwhile stays; a file may come into WAL mode at any time, and be opened by a link.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tenure::{Clock, ErrorKind};
use tenure_less::jiff::Timestamp;
use tenure_less::jiff::tz::{Offset, TimeZone};
use tenure_less::{Candidate, CandidateOptions, SqliteStorage, Storage};

/// More than any step here takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

struct Table {
    directory: TempDir,
}

impl Table {
    fn new() -> Table {
        let table = Table { directory: tempfile::tempdir().unwrap() };
        SqliteStorage::migrate(table.path()).unwrap();
        table
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("jobs.db")
    }

    fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(SqliteStorage::open(self.path(), tenure::clock::system()).unwrap())
    }

    fn candidate(&self, key: &str) -> Candidate {
        Candidate::start(self.storage(), options().key(key), tenure::clock::system(), tenure::clock::uuid)
            .unwrap()
    }

    fn peer(&self) -> Peer {
        let connection = Connection::open(self.path()).unwrap();
        connection.busy_timeout(LONG).unwrap();
        Peer { connection }
    }
}

fn options() -> CandidateOptions {
    let ms = Duration::from_millis;
    CandidateOptions::new().ttl(ms(1500)).follow_every(ms(50)).hold_every(ms(100)).skew_margin(ms(50))
}

/// What less's SQLite adapter does, in a zone three hours east of Greenwich.
struct Peer {
    connection: Connection,
}

impl Peer {
    fn text(after: Duration) -> String {
        let wall = tenure::clock::system().now().wall.0 + after.as_millis() as u64;
        let zone = TimeZone::fixed(Offset::constant(3));
        let instant = Timestamp::from_millisecond(i64::try_from(wall).unwrap()).unwrap();
        instant.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S%.f%:z").to_string()
    }

    fn set_nx(&self, key: &str, value: &str, ttl: Duration) -> bool {
        let sql = "INSERT INTO less_record(key, value, deadline) VALUES (?, ?, ?) \
            ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, deadline = EXCLUDED.deadline \
            WHERE less_record.deadline < ? RETURNING value";
        let now = Self::text(Duration::ZERO);
        let set = self.connection.query_row(sql, params![key, value, Self::text(ttl), now], |_| Ok(()));
        set.optional().unwrap().is_some()
    }

    fn row(&self, key: &str) -> Option<(String, Option<String>)> {
        let sql = "SELECT value, deadline FROM less_record WHERE key = ?";
        self.connection.query_row(sql, [key], |row| Ok((row.get(0)?, row.get(1)?))).optional().unwrap()
    }
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, what).await.unwrap()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, wait).await.unwrap_or_else(|_| panic!("not so after a minute: {what}"));
}

#[tokio::test]
async fn one_leads_and_hands_over_when_it_stops() {
    let table = Table::new();
    let first = table.candidate("k");
    let term = within(first.elected()).await.unwrap();
    let second = table.candidate("k");
    until("the second knows the first", || second.leader().as_deref() == Some(first.id())).await;
    assert!(first.is_leader() && !second.is_leader() && term.is_held());
    first.stop().await;
    assert!(!term.is_held());
    let term = within(second.elected()).await.unwrap();
    assert_eq!(table.peer().row("k").unwrap().0, second.id());
    let result = term.run(async { 42 }).await;
    assert_eq!(result, Some(42));
    second.resign();
    assert_eq!(within(term.run(std::future::pending::<()>())).await, None, "work ends with the term");
    second.stop().await;
    assert_eq!(table.peer().row("k"), None, "what was ours is given back");
}

#[tokio::test]
async fn a_peer_s_row_is_respected_while_it_lives_and_taken_when_it_is_dead() {
    let (table, ttl) = (Table::new(), Duration::from_secs(3));
    let peer = table.peer();
    assert!(peer.set_nx("k", "theirs", ttl));
    let candidate = table.candidate("k");
    until("the peer's row is seen", || candidate.leader().as_deref() == Some("theirs")).await;
    let clock = tenure::clock::system();
    let seen = clock.now();
    within(candidate.elected()).await.unwrap();
    let took = clock.now().held.since(seen.held);
    // It was looked at after a moment, and a busy machine may have taken its time.
    assert!(took > Duration::from_millis(1400), "{took:?}");
    let (value, deadline) = peer.row("k").unwrap();
    assert_eq!(value, candidate.id());
    assert!(deadline.unwrap().ends_with("+03:00"), "the peer compares texts, so the zone stays");
    assert!(!peer.set_nx("k", "theirs", ttl), "to the peer it is alive");
    candidate.stop().await;
    assert!(peer.set_nx("k", "theirs", ttl), "what was given back is free for the peer, too");
}

#[tokio::test]
async fn where_no_row_shows_a_zone_the_named_one_is_written() {
    let table = Table::new();
    let zone = TimeZone::fixed(Offset::constant(-5));
    let storage = SqliteStorage::open_in_zone(table.path(), tenure::clock::system(), zone).unwrap();
    let candidate =
        Candidate::start(Arc::new(storage), options().key("k"), tenure::clock::system(), tenure::clock::uuid)
            .unwrap();
    within(candidate.elected()).await.unwrap();
    let (_, deadline) = table.peer().row("k").unwrap();
    assert!(deadline.unwrap().ends_with("-05:00"));
    candidate.stop().await;
}

#[tokio::test]
async fn a_peer_that_takes_the_row_ends_the_leadership() {
    let table = Table::new();
    let candidate = table.candidate("k");
    let term = within(candidate.elected()).await.unwrap();
    // As a peer does whose clock is an hour ahead.
    let sql = "UPDATE less_record SET value = 'theirs', deadline = ? WHERE key = 'k'";
    table.peer().connection.execute(sql, [Peer::text(Duration::from_secs(3600))]).unwrap();
    assert_eq!(within(term.ended()).await, Some(tenure_less::EndCause::Taken));
    until("the peer is seen", || candidate.leader().as_deref() == Some("theirs")).await;
    candidate.stop().await;
    assert_eq!(table.peer().row("k").unwrap().0, "theirs", "what is another's stays");
}

#[tokio::test]
async fn a_row_that_can_not_be_read_is_left_alone_and_told() {
    for deadline in [None, Some("soon")] {
        let table = Table::new();
        let sql = "INSERT INTO less_record VALUES ('k', 'theirs', ?)";
        table.peer().connection.execute(sql, [deadline]).unwrap();
        let candidate = table.candidate("k");
        let mut changes = candidate.changes();
        let trouble =
            within(changes.wait_for(|status| status.trouble.is_some())).await.unwrap().trouble.clone();
        let text = trouble.unwrap().to_string();
        assert!(text.contains("\"k\"") && text.contains("left as it is"), "{text}");
        candidate.stop().await;
        assert_eq!(table.peer().row("k").unwrap(), ("theirs".into(), deadline.map(String::from)));
    }
}

#[tokio::test]
async fn several_keys_have_their_own_leaders_on_one_storage() {
    let table = Table::new();
    let storage = table.storage();
    let start = |key: &str| {
        Candidate::start(
            Arc::clone(&storage),
            options().key(key),
            tenure::clock::system(),
            tenure::clock::uuid,
        )
    };
    let (first, second) = (start("a").unwrap(), start("b").unwrap());
    within(first.elected()).await.unwrap();
    within(second.elected()).await.unwrap();
    assert_ne!(first.id(), second.id());
    first.stop().await;
    assert!(second.is_leader());
}

#[tokio::test]
async fn a_file_that_is_locked_for_long_ends_the_leadership_at_its_deadline() {
    let table = Table::new();
    let candidate = table.candidate("k");
    let term = within(candidate.elected()).await.unwrap();
    let peer = table.peer();
    peer.connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    until("it leads no more", || !term.is_held()).await;
    assert!(!candidate.is_leader());
    peer.connection.execute_batch("COMMIT").unwrap();
    within(candidate.elected()).await.unwrap();
    assert!(!term.is_held(), "a term that is over stays so");
}

#[cfg(target_os = "linux")]
#[test]
fn calls_that_are_given_up_while_a_file_is_locked_leave_no_threads_behind() {
    const NAME: &str = "of this test";
    let table = Table::new();
    let (storage, peer) = (table.storage(), table.peer());
    peer.connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().thread_name(NAME).build().unwrap();
    runtime.block_on(async {
        for _ in 0..20 {
            assert!(tokio::time::timeout(Duration::from_millis(5), storage.look("k")).await.is_err());
        }
    });
    let is_ours = |thread: &std::path::PathBuf| {
        std::fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim_end() == NAME)
    };
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
    assert_eq!(threads.filter(is_ours).count(), 1, "one waits for the file");
    peer.connection.execute_batch("COMMIT").unwrap();
    runtime.block_on(within(storage.look("k"))).unwrap();
}

/// As users of less's own driver do, at any time.
fn use_wal(path: &Path) {
    let mode: String =
        Connection::open(path).unwrap().query_row("PRAGMA journal_mode = wal", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

/// Another file of the same contents takes the place of this one, as by a restore.
fn replace(path: &Path) {
    let backup = beside(path, ".backup");
    SqliteStorage::migrate(&backup).unwrap();
    use_wal(&backup);
    std::fs::rename(backup, path).unwrap();
    for suffix in ["-wal", "-shm"] {
        let _there_is_none_in_other_modes = std::fs::remove_file(beside(path, suffix));
    }
}

#[tokio::test]
async fn s1_nobody_leads_on_in_a_file_that_was_replaced() {
    for is_wal in [true, false] {
        let table = Table::new();
        if is_wal {
            use_wal(&table.path());
        }
        let old = table.candidate("k");
        let term = within(old.elected()).await.unwrap();
        replace(&table.path());
        assert_ne!(within(term.ended()).await, None, "in WAL mode: {is_wal}");
        let new = table.candidate("k");
        let term = within(new.elected()).await.unwrap();
        let says = |candidate: &Candidate| {
            candidate.changes().borrow().trouble.as_ref().is_some_and(|error| {
                error
                    .to_string()
                    .contains("was removed or replaced while it was in use; restart this process")
            })
        };
        until("the remedy is told", || says(&old)).await;
        assert!(!old.is_leader() && term.is_held());
        old.stop().await;
        new.stop().await;
    }
}

#[tokio::test]
async fn s1_nothing_is_won_or_read_in_files_that_are_not_the_others_any_more() {
    let (ttl, skew) = (Duration::from_secs(60), Duration::ZERO);
    let (whole, database, log, memory) = (&[][..], &[""][..], &["-wal"][..], &["-shm"][..]);
    for (is_wal, gone) in [
        (true, whole),
        (true, database),
        (true, log),
        (true, memory),
        (true, &["-wal", "-shm"]),
        (false, whole),
        (false, database),
    ] {
        let table = Table::new();
        let storage = table.storage();
        assert!(storage.take("k", "ours", ttl, skew, None).await.unwrap());
        if is_wal {
            // After it was opened.
            use_wal(&table.path());
            assert!(storage.renew("k", "ours", ttl).await.unwrap(), "another mode is no fault");
        }
        for suffix in gone {
            std::fs::remove_file(beside(&table.path(), suffix)).unwrap();
        }
        let (won, read) = (storage.renew("k", "ours", ttl).await, storage.look("k").await);
        if gone.is_empty() {
            assert!(won.unwrap() && read.unwrap().row.is_some());
            continue;
        }
        for error in [won.unwrap_err(), read.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{gone:?}: {error}");
            assert!(error.to_string().contains("restart this process"), "{error}");
        }
    }
}

#[tokio::test]
async fn what_others_write_meanwhile_outlives_the_process_that_lost_its_log() {
    let table = Table::new();
    use_wal(&table.path());
    let storage = table.storage();
    let (ttl, skew) = (Duration::from_secs(60), Duration::ZERO);
    assert!(storage.take("k", "ours", ttl, skew, None).await.unwrap());
    for suffix in ["-wal", "-shm"] {
        std::fs::remove_file(beside(&table.path(), suffix)).unwrap();
    }
    // Another process, since all connections of one have the same shared memory. It is the last of its log, which it moves into the file.
    let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); \
        c.execute(\"INSERT INTO less_record VALUES ('k', 'theirs', '2099-01-01 00:00:00+00:00')\"); c.commit(); c.close()";
    let wrote = Command::new("python3").args(["-c", script]).arg(table.path()).status().unwrap();
    assert!(wrote.success(), "what was in the log is gone");
    drop(storage);
    assert_eq!(table.peer().row("k").unwrap().0, "theirs");
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_may_be_opened_by_a_link() {
    let table = Table::new();
    use_wal(&table.path());
    let link = table.directory.path().join("link.db");
    std::os::unix::fs::symlink(table.path(), &link).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(SqliteStorage::open(link, tenure::clock::system()).unwrap());
    let (ttl, skew) = (Duration::from_secs(60), Duration::ZERO);
    assert!(storage.take("k", "ours", ttl, skew, None).await.unwrap());
    assert!(storage.renew("k", "ours", ttl).await.unwrap());
}

#[test]
fn what_can_not_be_opened_is_named_with_the_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let error = SqliteStorage::open(directory.path().join(name), tenure::clock::system()).unwrap_err();
        error.to_string()
    };
    assert!(open("absent.db").contains("does not exist"));
    assert!(!directory.path().join("absent.db").exists(), "looking makes nothing");
    Connection::open(directory.path().join("other.db")).unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
    assert!(open("other.db").contains("no table less_record"));
    std::fs::write(
        directory.path().join("text"),
        "this is no database, and long enough to be looked at ".repeat(20),
    )
    .unwrap();
    assert!(open("text").contains("not a database"), "{}", open("text"));
    let error = SqliteStorage::open(directory.path().join("text"), tenure::clock::system()).unwrap_err();
    let source = std::error::Error::source(&error);
    assert!(
        source.is_some_and(|source| source.is::<rusqlite::Error>()),
        "{error:?} keeps where it came from"
    );
}
