//! Files of the database that are removed while processes have it open, as by `rm leases.db-*` or a cleaner of directories.
//!
//! Plan: each file by itself and both, while the holder is idle; in the middle of a holder's write; what others write
//! meanwhile survives the holder's end; files that come and go with their last user are nobody's fault;
//! a copy that SQLite puts back; whoever only looks; the side file, without which hints end and begin anew, and which writes make again for all.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::peer::{Peer, role, say, sign};
use crate::support::{Immutable, key, open, wins};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tenure_core::Fence;
use tenure_core::op::Outcome;
use tenure_sqlite::{SqliteConfig, SqliteStore};
use tenure_store::Store;
use tenure_testkit::RecordFactory;

/// Does what it is told, a line each, and says what came of it.
async fn serve(file: &Path, role: &str) {
    let store = match role {
        // Does not wait for its turn behind a process that is blocked.
        "hasty" => {
            SqliteStore::open(SqliteConfig::new(file).busy_timeout(Duration::from_millis(200))).unwrap()
        }
        _ => open(file),
    };
    let factory = RecordFactory::new();
    let hand = rusqlite::Connection::open(file).unwrap();
    let mut pending = None;
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (verb, name) = line.split_once(' ').unwrap();
        let take = |fence: u64| {
            let (store, write) = (store.clone(), factory.if_vacant(&key(name), sign(factory.held(fence))));
            async move {
                match store.write(write).await {
                    Ok(Outcome::Won { .. }) => "won".to_owned(),
                    Ok(Outcome::Lost(_)) => "lost".to_owned(),
                    Err(error) => error.to_string(),
                }
            }
        };
        say(&match verb {
            "take" => take(1).await,
            "read" => match store.read(&key(name)).await {
                Ok(stored) => format!("fence {:?}", stored.map(|stored| stored.record.fence.0)),
                Err(error) => error.to_string(),
            },
            // From here on a write of this process waits within its transaction.
            "block" => {
                hand.execute_batch("BEGIN IMMEDIATE").unwrap();
                pending = Some(tokio::spawn(take(1)));
                tokio::time::sleep(Duration::from_millis(300)).await;
                "blocked".to_owned()
            }
            "unblock" => {
                hand.execute_batch("ROLLBACK").unwrap();
                pending.take().unwrap().await.unwrap()
            }
            _ => panic!("{line}"),
        });
    }
    // The store's threads close its connections, which an exit would only cut off.
    drop((store, hand));
    let is_open = |fd: std::io::Result<std::fs::DirEntry>| {
        let to = fd.and_then(|fd| std::fs::read_link(fd.path())).unwrap_or_default();
        to.to_str().is_some_and(|to| to.starts_with(file.to_str().unwrap()))
    };
    while std::fs::read_dir("/proc/self/fd").unwrap().any(is_open) {
        tokio::task::yield_now().await;
    }
}

fn beside(file: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", file.display()))
}

fn assert_whole(file: &Path) {
    let hand = rusqlite::Connection::open(file).unwrap();
    let verdict: String = hand.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

async fn take(store: &SqliteStore, name: &str, fence: u64) -> bool {
    let factory = RecordFactory::new();
    wins(store, factory.if_vacant(&key(name), sign(factory.held(fence)))).await
}

#[tokio::test]
async fn s1_nothing_is_won_or_read_on_a_file_that_was_removed() {
    const TEST: &str = "removed::s1_nothing_is_won_or_read_on_a_file_that_was_removed";
    if let Some((role, file)) = role() {
        return serve(&file, &role).await;
    }
    for suffixes in [&["-wal", "-shm"][..], &["-wal"], &["-shm"], &[""], &["", "-wal", "-shm"]] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("leases.db");
        let mut holder = Peer::start(TEST, "serve", &file);
        assert_eq!(holder.ask("take a"), "won");
        for suffix in suffixes {
            std::fs::remove_file(beside(&file, suffix)).unwrap();
        }
        for question in ["take b", "read a", "take b"] {
            let answer = holder.ask(question);
            let named = suffixes.iter().any(|suffix| {
                answer.contains(&format!("{} was removed or replaced", beside(&file, suffix).display()))
            });
            assert!(named && answer.starts_with("store unavailable"), "{suffixes:?} {question}: {answer}");
        }
        holder.hear_out();
        // What is left is usable by whoever comes next.
        if suffixes.contains(&"") {
            continue;
        }
        let next = open(&file);
        assert!(take(&next, "b", 2).await);
        assert_whole(&file);
    }
}

#[tokio::test]
async fn what_others_write_meanwhile_outlives_the_process_that_lost_its_log() {
    const TEST: &str = "removed::what_others_write_meanwhile_outlives_the_process_that_lost_its_log";
    if let Some((role, file)) = role() {
        return serve(&file, &role).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leases.db");
    let mut holder = Peer::start(TEST, "serve", &file);
    assert_eq!(holder.ask("take a"), "won");
    for suffix in ["-wal", "-shm"] {
        std::fs::remove_file(beside(&file, suffix)).unwrap();
    }
    // Others come, make a log of their own, and go, so that it is moved into the database.
    let mut other = Peer::start(TEST, "serve", &file);
    for n in 0..50 {
        assert_eq!(other.ask(&format!("take other/{n:02}")), "won");
    }
    assert!(holder.ask("take b").contains("was removed or replaced"));
    other.hear_out();
    // The holder is the last to close the database.
    holder.hear_out();
    assert_whole(&file);
    let listed = open(&file).list("other/", None, 100).await.unwrap();
    assert_eq!(listed.len(), 50);
}

#[tokio::test]
async fn s1_a_write_that_was_under_way_when_the_files_were_removed_is_not_won() {
    const TEST: &str = "removed::s1_a_write_that_was_under_way_when_the_files_were_removed_is_not_won";
    if let Some((role, file)) = role() {
        return serve(&file, &role).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leases.db");
    let mut holder = Peer::start(TEST, "serve", &file);
    assert_eq!(holder.ask("read a"), "fence None");
    // The tables are in the database itself, so that whoever comes has nothing to make.
    rusqlite::Connection::open(&file).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    assert_eq!(holder.ask("block a"), "blocked");
    for suffix in ["-wal", "-shm"] {
        std::fs::remove_file(beside(&file, suffix)).unwrap();
    }
    let mut other = Peer::start(TEST, "hasty", &file);
    assert_eq!(other.ask("take a"), "won");
    let answer = holder.ask("unblock a");
    assert!(answer.starts_with("outcome unknown") && answer.contains("was removed or replaced"), "{answer}");
    other.hear_out();
    holder.hear_out();
    assert_whole(&file);
}

#[tokio::test]
async fn files_that_go_with_their_last_user_and_come_again_are_no_fault() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leases.db");
    let (first, mut fence) = (open(&file), 0);
    for round in 0..3 {
        // Checkpoints cut the log short, and a second handle comes and goes: the files stay the same.
        let second = open(&file);
        for store in [&first, &second] {
            fence += 1;
            assert!(take(store, &format!("{round}/{fence}"), fence).await);
        }
        rusqlite::Connection::open(&file).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    }
    drop(first);
    let gone = || !beside(&file, "-wal").exists();
    for _ in 0..600 {
        if gone() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(gone(), "the last handle was closed, and its log is still there");
    let again = open(&file);
    assert!(take(&again, "again", 9).await);
    let stored = again.read(&key("2/6")).await.unwrap().unwrap();
    assert_eq!(stored.record.fence, Fence(6));
}

fn sqlite(file: &Path, command: &str, copy: &Path) {
    let command = format!("{command} '{}'", copy.display());
    assert!(Command::new("sqlite3").arg(file).arg(command).status().unwrap().success());
}

/// By SQLite's own locks and log, and while processes have the file open.
#[tokio::test]
async fn a_copy_that_sqlite_restores_is_what_all_have_from_then_on() {
    const TEST: &str = "removed::a_copy_that_sqlite_restores_is_what_all_have_from_then_on";
    if let Some((role, file)) = role() {
        return serve(&file, &role).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let (file, copy) = (directory.path().join("leases.db"), directory.path().join("copy.db"));
    let mut holder = Peer::start(TEST, "serve", &file);
    assert_eq!(holder.ask("take old"), "won");
    sqlite(&file, ".backup", &copy);
    for n in 0..100 {
        assert_eq!(holder.ask(&format!("take new/{n}")), "won");
    }
    sqlite(&file, ".restore", &copy);
    let mut other = Peer::start(TEST, "serve", &file);
    for process in [&mut holder, &mut other] {
        assert_eq!(process.ask("read old"), "fence Some(1)");
        assert_eq!(process.ask("read new/7"), "fence None");
    }
    assert_eq!(other.ask("take new/7"), "won");
    assert_eq!(holder.ask("take new/7"), "lost");
    other.hear_out();
    holder.hear_out();
    assert_whole(&file);
}

/// Others write to a log of their own by then.
#[tokio::test]
async fn whoever_only_looks_is_told_that_the_log_was_removed() {
    const TEST: &str = "removed::whoever_only_looks_is_told_that_the_log_was_removed";
    if let Some((role, file)) = role() {
        return serve(&file, &role).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leases.db");
    let mut holder = Peer::start(TEST, "serve", &file);
    assert_eq!(holder.ask("take a"), "won");
    let for_good = Immutable::new(directory.path());
    let looking = SqliteStore::open(SqliteConfig::new(&file).look(true)).unwrap();
    assert!(looking.is_read_only());
    drop(for_good);
    assert_eq!(holder.ask("take b"), "won");
    assert!(looking.read(&key("b")).await.unwrap().is_some());
    for suffix in ["-wal", "-shm"] {
        std::fs::remove_file(beside(&file, suffix)).unwrap();
    }
    let mut other = Peer::start(TEST, "serve", &file);
    assert_eq!(other.ask("take c"), "won");
    let error = looking.read(&key("c")).await.unwrap_err();
    assert!(error.to_string().contains("-wal was removed or replaced"), "{error}");
    other.hear_out();
    holder.hear_out();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn hints_go_on_where_the_side_file_was_removed() {
    use std::os::unix::fs::PermissionsExt;
    const LONG: Duration = Duration::from_secs(30);
    let directory = tempfile::tempdir().unwrap();
    let (path, side) = (directory.path().join("leases.db"), directory.path().join("leases.db-lock"));
    let (old, factory) = (open(&path), RecordFactory::new());
    // Once somebody opens the file before the next write, once nobody does.
    for is_made in [true, false] {
        let mut changes = old.changed("").unwrap();
        std::fs::set_permissions(&side, std::fs::Permissions::from_mode(0o600)).unwrap();
        let told = tokio::time::timeout(Duration::from_millis(100), changes.recv()).await;
        assert!(told != Ok(None), "it is still the same file");
        std::fs::remove_file(&side).unwrap();
        let other = is_made.then(|| open(&path));
        while tokio::time::timeout(LONG, changes.recv()).await.expect("hints end").is_some() {}
        let (one, two) = (key(&format!("one {is_made}")), key(&format!("two {is_made}")));
        let held = factory.held(5);
        assert!(wins(&old, factory.absent(&one, held.clone())).await);
        assert!(wins(&old, factory.absent(&two, held.clone())).await);
        assert!(side.exists(), "whoever writes makes it again");
        let other = other.unwrap_or_else(|| open(&path));
        let mut waiting = [old.changed("").unwrap(), other.changed("").unwrap()];
        for (writer, key) in [(&old, &one), (&other, &two)] {
            assert!(wins(writer, factory.unchanged(key, held.version(), factory.vacant(5))).await);
            for changes in &mut waiting {
                let pushed = tokio::time::timeout(LONG, changes.recv()).await;
                assert!(pushed.expect("pushed, whoever writes").is_some());
            }
        }
    }
    // Who listens makes it again, too.
    std::fs::remove_file(&side).unwrap();
    old.changed("").unwrap();
    assert!(side.exists());
}
