//! What goes wrong while a store is in use: nothing is half-written, the caller is told what to do, and all goes on
//! afterwards.
//!
//! Plan: a full disk; a writer that never ends; a side lock that is never given back; a file that is removed; rows changed
//! by hand; records of a newer layout; rows put back from a copy; triggers; ages across a restart of the machine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{SmallDisk, key, open, wins};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_core::op::Outcome;
use tenure_core::{Attachment, ErrorKind, Fence, Metadata, Record, Value};
use tenure_sqlite::{BootClock, BootTime, SqliteConfig, SqliteStore};
use tenure_store::{Store, StoreExt};
use tenure_testkit::RecordFactory;

#[tokio::test]
async fn a_full_disk_loses_nothing_and_passes() {
    if !crate::support::may_mount("faults::a_full_disk_loses_nothing_and_passes") {
        return;
    }
    let disk = SmallDisk::mount("size=1m");
    let path = disk.path("leases.db");
    let (store, factory) = (open(&path), RecordFactory::new());
    let kept = factory.held(1);
    assert!(wins(&store, factory.absent(&key("kept"), kept.clone())).await);
    disk.fill();
    let fat: Metadata = [("fat".to_owned(), Value::Bytes(vec![1; 3000]))].into();
    let mut written = Vec::new();
    let mut refused = 0;
    for n in 0..1000 {
        let name = key(&format!("n/{n:04}"));
        let record = Record { metadata: fat.clone(), ..factory.held(n) };
        match store.write(factory.absent(&name, record)).await {
            Ok(Outcome::Won { .. }) => written.push(name),
            Ok(lost) => panic!("{lost:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                let text = error.to_string();
                assert!(text.contains("disk is full") && text.contains(path.to_str().unwrap()), "{text}");
                refused += 1;
                if refused == 20 {
                    break;
                }
            }
        }
    }
    assert_eq!(refused, 20, "the disk never filled up");
    // Reads go on, and what is there is what was answered, no more and no less.
    assert_eq!(store.read(&key("kept")).await.unwrap().unwrap().record, kept);
    let listed: Vec<_> = store.list_all("n/").await.unwrap().into_iter().map(|listed| listed.key).collect();
    assert_eq!(listed, written);
    disk.free();
    assert!(wins(&store, factory.absent(&key("after"), factory.held(1))).await);
    let hand = rusqlite::Connection::open(&path).unwrap();
    let verdict: String = hand.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

#[tokio::test]
async fn a_writer_that_never_ends_is_reported_as_busy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let config = SqliteConfig::new(&path).busy_timeout(Duration::from_millis(40));
    let (store, factory) = (SqliteStore::open(config).unwrap(), RecordFactory::new());
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.write(factory.absent(&key("a"), factory.held(1))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("busy") && error.to_string().contains("leases.db"), "{error}");
    assert_eq!(store.read(&key("a")).await.unwrap(), None, "reads don't wait for writers");
    other.execute_batch("COMMIT").unwrap();
    assert!(wins(&store, factory.absent(&key("a"), factory.held(1))).await);
}

#[tokio::test]
async fn a_side_lock_that_is_never_given_back_costs_fairness_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let config = SqliteConfig::new(&path).busy_timeout(Duration::from_millis(40));
    let (store, factory) = (SqliteStore::open(config).unwrap(), RecordFactory::new());
    let side = std::fs::File::options().write(true).open(directory.path().join("leases.db-lock")).unwrap();
    side.lock().unwrap();
    for n in 0..20 {
        assert!(wins(&store, factory.absent(&key(&n.to_string()), factory.held(1))).await);
    }
}

#[tokio::test]
async fn a_file_that_is_removed_or_replaced_is_not_written_any_more() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (store, factory) = (open(&path), RecordFactory::new());
    assert!(wins(&store, factory.absent(&key("a"), factory.held(1))).await);
    for suffix in ["", "-wal", "-shm", "-lock"] {
        std::fs::remove_file(directory.path().join(format!("leases.db{suffix}"))).unwrap();
    }
    for round in ["removed", "replaced"] {
        let answers = [
            store.write(factory.absent(&key("b"), factory.held(1))).await.map(drop),
            store.read(&key("a")).await.map(drop),
            store.list("", None, 1).await.map(drop),
        ];
        for answer in answers {
            let error = answer.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{round}: {error}");
            assert!(error.to_string().contains("was removed or replaced"), "{error}");
        }
        drop(open(&path));
    }
}

#[tokio::test]
async fn rows_changed_by_hand_are_foreign_and_never_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (store, factory) = (open(&path), RecordFactory::new());
    let hand = rusqlite::Connection::open(&path).unwrap();
    let changes = [
        "fence = fence - 1",
        "fence = fence + 1",
        "version = randomblob(16)",
        "tenure = NULL",
        "tenure = randomblob(16)",
        "ride_key = 'session'",
        "ride_fence = 1",
        "record = x''",
        "record = x'5402'",
        "record = zeroblob(100000)",
        "boot = x'00'",
    ];
    for change in changes {
        let name = key(change);
        assert!(wins(&store, factory.absent(&name, factory.held(5))).await);
        let changed =
            hand.execute(&format!("UPDATE tenure_record SET {change} WHERE key = ?1"), [change]).unwrap();
        assert_eq!(changed, 1);
        let error = store.read(&name).await.expect_err(change);
        assert_eq!(error.kind(), ErrorKind::Foreign, "{change}: {error}");
        assert!(error.to_string().contains(change), "the key is not named: {error}");
        for write in [factory.absent(&name, factory.held(9)), factory.if_vacant(&name, factory.held(9))] {
            assert_eq!(store.write(write).await.expect_err(change).kind(), ErrorKind::Foreign);
        }
    }
    let listed = store.list_all("").await.unwrap();
    assert_eq!(listed.len(), changes.len());
    assert!(listed.iter().all(|listed| listed.stored.is_err()));
}

/// Held or vacant: nothing but its number says that older programs must not touch it.
#[tokio::test]
async fn a_record_of_a_newer_layout_is_refused_by_all_calls_and_not_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (store, factory) = (open(&path), RecordFactory::new());
    let hand = rusqlite::Connection::open(&path).unwrap();
    for (name, record) in [("held", factory.held(5)), ("vacant", factory.vacant(5))] {
        let (name, version) = (key(name), record.version());
        assert!(wins(&store, factory.absent(&name, record)).await);
        let stands = || -> Vec<u8> {
            let sql = "SELECT record FROM tenure_record WHERE key = ?1";
            hand.query_row(sql, [name.as_str()], |row| row.get(0)).unwrap()
        };
        let mut newer = stands();
        newer[1] = tenure_store::codec::VERSION + 1;
        let sql = "UPDATE tenure_record SET record = ?2 WHERE key = ?1";
        assert_eq!(hand.execute(sql, rusqlite::params![name.as_str(), newer]).unwrap(), 1);
        let answers = [
            store.read(&name).await.map(drop),
            store.write(factory.absent(&name, factory.held(9))).await.map(drop),
            store.write(factory.if_vacant(&name, factory.held(9))).await.map(drop),
            store.write(factory.unchanged(&name, version, factory.held(9))).await.map(drop),
            store.write_many(vec![factory.if_vacant(&name, factory.held(9))]).await.map(drop),
            store.remove(&name, version).await.map(drop),
        ];
        for (n, answer) in answers.into_iter().enumerate() {
            assert!(answer.unwrap_err().is_newer(), "{name}: call {n}");
        }
        assert_eq!(stands(), newer, "{name}");
    }
}

#[tokio::test]
async fn a_row_whose_key_is_no_key_is_reported_and_most_are_impossible() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (store, factory) = (open(&path), RecordFactory::new());
    assert!(wins(&store, factory.absent(&key("b"), factory.held(5))).await);
    let hand = rusqlite::Connection::open(&path).unwrap();
    for impossible in ["''", "NULL", "x'61'", "hex(zeroblob(257))"] {
        let error = hand.execute_batch(&format!("UPDATE tenure_record SET key = {impossible}")).unwrap_err();
        assert!(
            error.to_string().contains("constraint failed") || error.to_string().contains("cannot store"),
            "{error}"
        );
    }
    hand.execute_batch("UPDATE tenure_record SET key = CAST(x'62ff' AS TEXT)").unwrap();
    let error = store.list_all("").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(error.to_string().contains("b\\xff") && error.to_string().contains("delete that row"), "{error}");
}

/// SQLite's own quotes end at a NUL.
#[tokio::test]
async fn a_copy_puts_back_the_row_of_a_key_with_a_nul_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (store, factory) = (open(&path), RecordFactory::new());
    let mut attached = factory.held(5);
    let session = key("s'\0");
    attached.tenure.as_mut().unwrap().attachment = Some(Attachment { session, fence: Fence(1) });
    let (long, short) = (key("a'\0b"), key("a'"));
    assert!(wins(&store, factory.absent(&long, attached.clone())).await);
    assert!(wins(&store, factory.absent(&short, factory.held(7))).await);
    let image = store.image(&long).await.unwrap().unwrap();
    assert!(store.mend(&long, &image, None).await.unwrap());
    let kept = store.read(&short).await.unwrap().unwrap().version;
    rusqlite::Connection::open(&path).unwrap().execute_batch(&image.copy).unwrap();
    assert_eq!(store.read(&long).await.unwrap().map(|stored| stored.record), Some(attached));
    assert_eq!(store.read(&short).await.unwrap().map(|stored| stored.version), Some(kept));
}

#[tokio::test]
async fn values_of_any_length_stay_where_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (store, factory) = (open(&path), RecordFactory::new());
    let hand = rusqlite::Connection::open(&path).unwrap();
    // A record of this size is read, and judged by its bytes.
    const READ: usize = tenure_store::codec::MAX_BYTES;
    for (n, (column, value, copy)) in [
        ("record", "zeroblob(2000000)", "zeroblob(2000000)"),
        ("record", "zeroblob(262145)", "X'0000"),
        ("ride_key", "CAST(zeroblob(2000000) AS TEXT)", "CAST(zeroblob(2000000) AS TEXT)"),
        ("boot", "zeroblob(2000000)", "zeroblob(2000000)"),
        ("ride_key", "CAST(x'ff' AS TEXT)", "CAST(x'FF' AS TEXT)"),
    ]
    .into_iter()
    .enumerate()
    {
        let key = key(&format!("k{n}"));
        assert!(wins(&store, factory.absent(&key, factory.held(5))).await);
        let sql = format!("UPDATE tenure_record SET {column} = {value} WHERE key = '{key}'");
        hand.execute_batch(&sql).unwrap();
        let error = store.read(&key).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{sql}: {error}");
        assert_eq!(error.to_string().contains("too large"), column == "record", "{sql}: {error}");
        let image = store.image(&key).await.unwrap().unwrap();
        assert!(image.copy.contains(copy) && image.copy.len() < 3 * READ, "{sql}: {}", image.copy.len());
        assert_eq!(image.fence, Some(Fence(5)), "{sql}");
        assert!(store.mend(&key, &image, None).await.unwrap(), "{sql}");
        hand.execute_batch(&image.copy).unwrap();
        assert_eq!(store.image(&key).await.unwrap().unwrap().copy, image.copy, "{sql}");
    }
    let listed = store.list_all("").await.unwrap();
    assert_eq!(listed.iter().filter(|one| one.stored.is_err()).count(), 5);
}

#[tokio::test]
async fn a_trigger_that_refuses_one_key_does_not_fail_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (store, factory) = (open(&path), Arc::new(RecordFactory::new()));
    let hand = rusqlite::Connection::open(&path).unwrap();
    hand.execute_batch(
        "CREATE TRIGGER mine BEFORE INSERT ON tenure_record WHEN new.key = 'cursed'
         BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    .unwrap();
    // With the lock taken, all of them queue up and share one transaction.
    hand.execute_batch("BEGIN IMMEDIATE").unwrap();
    let names = ["a", "cursed", "b"];
    let writes: Vec<_> = names
        .map(|name| {
            let (store, write) = (store.clone(), factory.absent(&key(name), factory.held(1)));
            tokio::spawn(async move { store.write(write).await })
        })
        .into();
    tokio::time::sleep(Duration::from_millis(20)).await;
    hand.execute_batch("COMMIT").unwrap();
    for (name, write) in names.into_iter().zip(writes) {
        match (name, write.await.unwrap()) {
            ("cursed", answer) => assert_eq!(answer.unwrap_err().kind(), ErrorKind::Foreign),
            (_, answer) => assert!(matches!(answer, Ok(Outcome::Won { .. })), "{name}: {answer:?}"),
        }
    }
}

#[tokio::test]
async fn a_trigger_that_has_a_write_do_nothing_gives_nobody_a_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (store, factory) = (open(&path), RecordFactory::new());
    assert!(wins(&store, factory.absent(&key("removed"), factory.vacant(1))).await);
    let version = store.read(&key("removed")).await.unwrap().unwrap().version;
    let hand = rusqlite::Connection::open(&path).unwrap();
    for what in ["INSERT", "DELETE"] {
        let sql = format!(
            "CREATE TRIGGER no_{what} BEFORE {what} ON tenure_record BEGIN SELECT RAISE(IGNORE); END"
        );
        hand.execute_batch(&sql).unwrap();
    }
    let write = store.write(factory.absent(&key("k"), factory.held(1))).await;
    assert_eq!(write.unwrap_err().kind(), ErrorKind::Foreign);
    assert_eq!(store.remove(&key("removed"), version).await.unwrap_err().kind(), ErrorKind::Foreign);
}

#[tokio::test]
async fn a_batch_with_a_damaged_record_writes_nothing_of_it_and_all_of_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (store, factory) = (open(&path), RecordFactory::new());
    assert!(wins(&store, factory.absent(&key("damaged"), factory.vacant(5))).await);
    let hand = rusqlite::Connection::open(&path).unwrap();
    hand.execute_batch("UPDATE tenure_record SET record = x'00'").unwrap();
    let batch = |first: &str| {
        vec![
            factory.absent(&key(first), factory.held(1)),
            factory.if_vacant(&key("damaged"), factory.held(1)),
        ]
    };
    let alone = factory.absent(&key("alone"), factory.held(1));
    let (batch, alone) = tokio::join!(store.write_many(batch("a")), store.write(alone));
    assert_eq!(batch.unwrap_err().kind(), ErrorKind::Foreign);
    assert!(matches!(alone, Ok(Outcome::Won { .. })), "{alone:?}");
    assert_eq!(store.read(&key("a")).await.unwrap(), None);
}

/// A machine that can be restarted.
struct Machine(Mutex<BootTime>);

impl Machine {
    fn set(&self, boot: u128, millis: u64) {
        *self.0.lock().unwrap() = BootTime { boot, elapsed: Duration::from_millis(millis) };
    }
}

impl BootClock for Machine {
    fn now(&self) -> Option<BootTime> {
        Some(*self.0.lock().unwrap())
    }
}

#[tokio::test]
async fn s1_an_age_across_boot_ids_is_never_over_the_truth_and_grows_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let machine = Arc::new(Machine(Mutex::new(BootTime { boot: 1, elapsed: Duration::from_secs(5000) })));
    let config = SqliteConfig::new(directory.path().join("leases.db")).boot_clock(machine.clone());
    let (store, factory) = (SqliteStore::open(config).unwrap(), RecordFactory::new());
    assert!(wins(&store, factory.absent(&key("a"), factory.held(1))).await);
    let mut ages = Vec::new();
    let age =
        async |store: &SqliteStore| store.read(&key("a")).await.unwrap().unwrap().age().unwrap().as_millis();
    // The second boot id is that of a container, whose kernel and time line are the same.
    for (boot, millis) in [(1, 5_000_000), (1, 5_000_250), (1, 4_000_000), (2, 5_000_000), (2, 5_000_300)] {
        machine.set(boot, millis);
        ages.push(age(&store).await);
    }
    assert_eq!(ages, [0, 250, 0, 0, 300]);
    // The machine is started again. Whoever sees the record first dates it anew, and it ages for all from then on.
    machine.set(3, 1_000);
    assert_eq!(age(&store).await, 0);
    // What is written after that has been answered says that the new date is there, too.
    assert!(wins(&store, factory.absent(&key("b"), factory.held(1))).await);
    for (boot, expected) in [(3, 2_000), (4, 2_000)] {
        machine.set(boot, 3_000);
        assert_eq!(age(&store).await, expected, "boot {boot}");
    }
    // A refused write is such a look, too.
    machine.set(5, 10);
    let refused = store.write(factory.if_vacant(&key("b"), factory.held(2))).await.unwrap();
    assert!(matches!(refused, Outcome::Lost(Some(stored)) if stored.age() == Some(Duration::ZERO)));
    machine.set(5, 60);
    let stored = store.read(&key("b")).await.unwrap().unwrap();
    assert_eq!(stored.age(), Some(Duration::from_millis(50)));
}

#[tokio::test]
async fn s1_between_kernels_that_share_a_filesystem_no_age_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let machine = Arc::new(Machine(Mutex::new(BootTime { boot: 1, elapsed: Duration::from_secs(10) })));
    let config = SqliteConfig::new(directory.path().join("leases.db")).boot_clock(machine.clone());
    let store = SqliteStore::open(config.network_filesystem(true)).unwrap();
    let factory = RecordFactory::new();
    assert!(wins(&store, factory.absent(&key("a"), factory.held(1))).await);
    let mut ages = Vec::new();
    for (boot, millis) in [(1, 10_250), (2, 5_000_000), (2, 1)] {
        machine.set(boot, millis);
        ages.push(store.read(&key("a")).await.unwrap().unwrap().age());
    }
    assert_eq!(ages, [Some(Duration::from_millis(250)), None, None]);
}

#[tokio::test]
async fn a_write_that_nobody_waits_for_any_more_may_be_left_undone_but_not_half_done() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (store, factory) = (open(&path), RecordFactory::new());
    let hand = rusqlite::Connection::open(&path).unwrap();
    hand.execute_batch("BEGIN IMMEDIATE").unwrap();
    let writes = (0..10).map(|n| factory.absent(&key(&format!("batch/{n}")), factory.held(1))).collect();
    let dropped = tokio::time::timeout(Duration::from_millis(20), store.write_many(writes)).await;
    assert!(dropped.is_err());
    hand.execute_batch("COMMIT").unwrap();
    // The answer to a later write comes after whatever became of the earlier one.
    assert!(wins(&store, factory.absent(&key("later"), factory.held(1))).await);
    let count = store.list_all("batch/").await.unwrap().len();
    assert!(count == 0 || count == 10, "{count} of a batch of 10");
}
