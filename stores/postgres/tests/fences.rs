//! The table itself keeps fences: whatever writes to it, by tenure or by hand, a row's fence never goes back.
//!
//! Plan: updates to a lower fence, to another key; deletes and truncation of a fence that is ahead of the clock; what a role that uses
//! the store can do about all that; rows that were restored, or of which the digest alone is wrong; the store's own writes of a lower fence, alone and in a batch; tables of
//! older versions, which lack this in part, and how they are brought up to date.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{admin, config, unique, url};
use tenure_core::{Attachment, ErrorKind, Fence, Key};
use tenure_postgres::tokio_postgres::Client;
use tenure_postgres::tokio_postgres::error::SqlState;
use tenure_postgres::{PostgresConfig, PostgresStore};
use tenure_store::{Outcome, Store};
use tenure_testkit::RecordFactory;

/// A fence of the year 2100.
const AHEAD: u64 = 4_102_444_800_000;

async fn opened(name: &str) -> PostgresStore {
    PostgresStore::migrate(&config(name)).await.unwrap();
    PostgresStore::open(config(name)).await.unwrap()
}

/// What the server says to a statement that it refuses.
async fn refusal(client: &Client, sql: &str) -> String {
    let error = client.batch_execute(sql).await.expect_err(sql);
    error.as_db_error().unwrap().message().to_owned()
}

#[tokio::test]
async fn no_hand_takes_a_fence_back() {
    let name = unique("fences");
    let (store, admin, factory) = (opened(&name).await, admin().await, RecordFactory::new());
    let (key, old) = (Key::new("k").unwrap(), Key::new("old").unwrap());
    store.write(factory.absent(&key, factory.held(AHEAD))).await.unwrap();
    store.write(factory.absent(&old, factory.vacant(5))).await.unwrap();
    let before = store.read(&key).await.unwrap().unwrap().record;
    for (sql, says) in [
        ("UPDATE {s}.record SET fence = fence - 1", "can't go back"),
        ("UPDATE {s}.record SET fence = 6 WHERE fence > 5", "can't go back"),
        ("UPDATE {s}.record SET key = 'l' WHERE key = 'k'", "another key"),
        (
            "INSERT INTO {s}.record SELECT * FROM {s}.record ON CONFLICT (key) DO UPDATE SET fence = 0",
            "can't go back",
        ),
        ("DELETE FROM {s}.record WHERE key = 'k'", "ahead of the server's clock"),
        ("TRUNCATE {s}.record", "ahead of the server's clock"),
    ] {
        let text = refusal(&admin, &sql.replace("{s}", &name)).await;
        assert!(text.contains(says), "{sql}: {text}");
    }
    assert_eq!(store.read(&key).await.unwrap().unwrap().record, before);
    // What lies below the clock may go: the next fence is higher all the same.
    let version = store.read(&old).await.unwrap().unwrap().version;
    assert!(store.remove(&old, version).await.unwrap());
    let error = store.remove(&key, before.version()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("ahead of the server's clock"), "{error}");
}

#[tokio::test]
async fn the_store_s_own_writes_take_no_fence_back() {
    let name = unique("fences");
    let (store, factory) = (opened(&name).await, RecordFactory::new());
    let (key, other) = (Key::new("k").unwrap(), Key::new("other").unwrap());
    let Outcome::Won { version, .. } = store.write(factory.absent(&key, factory.held(50))).await.unwrap()
    else {
        panic!("nothing stood there")
    };
    let lower = factory.unchanged(&key, version, factory.vacant(49));
    let batch = vec![factory.absent(&other, factory.held(1)), lower.clone()];
    for error in [store.write(lower).await.unwrap_err(), store.write_many(batch).await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("can't go back"), "{error}");
    }
    assert_eq!(store.read(&key).await.unwrap().unwrap().record.fence, Fence(50));
    assert_eq!(store.read(&other).await.unwrap(), None, "the batch is refused as a whole");
    let same = store.write(factory.unchanged(&key, version, factory.vacant(50))).await.unwrap();
    assert!(matches!(same, Outcome::Won { fence: Fence(50), .. }), "{same:?}");
}

#[tokio::test]
async fn who_uses_the_store_can_t_switch_that_off() {
    let (name, admin) = (unique("fences"), admin().await);
    let (store, factory) = (opened(&name).await, RecordFactory::new());
    store.write(factory.absent(&Key::new("k").unwrap(), factory.held(5))).await.unwrap();
    admin.batch_execute(&format!("CREATE ROLE {name} LOGIN")).await.unwrap();
    admin.batch_execute(&tenure_postgres::grants(&name, &name)).await.unwrap();
    admin.batch_execute(&format!("SET ROLE {name}")).await.unwrap();
    for sql in [
        "DELETE FROM {s}.record",
        "TRUNCATE {s}.record",
        "ALTER TABLE {s}.record DISABLE TRIGGER ALL",
        "DROP TRIGGER fence_grows ON {s}.record",
        "CREATE OR REPLACE FUNCTION {s}.refuse() RETURNS trigger LANGUAGE sql AS 'SELECT 1'",
        "UPDATE {s}.meta SET value = '1'",
        "SET session_replication_role = replica",
    ] {
        let error = admin.batch_execute(&sql.replace("{s}", &name)).await.expect_err(sql);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{sql}: {error:?}");
    }
    let text = refusal(&admin, &format!("UPDATE {name}.record SET fence = 4")).await;
    assert!(text.contains("can't go back"), "{text}");
}

/// Whatever of it was changed, and whatever a write says of the fence.
#[tokio::test]
async fn a_row_that_was_changed_by_hand_is_left_alone() {
    let name = unique("fences");
    let (store, admin, factory) = (opened(&name).await, admin().await, RecordFactory::new());
    for (n, change) in [
        "record = substr(record, 2)",
        "tenure = NULL",
        "tenure = substr(version, 1, 16)",
        "ride_key = 'k', ride_fence = 50",
        "digest = sha256(digest)",
    ]
    .into_iter()
    .enumerate()
    {
        let (key, record) = (Key::new(format!("k{n}")).unwrap(), factory.held(50));
        store.write(factory.absent(&key, record.clone())).await.unwrap();
        let sql = format!("UPDATE {name}.record SET {change} WHERE key = $1");
        assert_eq!(admin.execute(&sql, &[&key.as_str().as_bytes()]).await.unwrap(), 1);
        let changed = store.image(&key).await.unwrap().unwrap();
        for write in [
            factory.unchanged(&key, record.version(), factory.held(50)),
            factory.unchanged(&key, record.version(), factory.held(51)),
            factory.if_vacant(&key, factory.held(51)),
        ] {
            let answer = store.write(write).await;
            assert!(!matches!(answer, Ok(Outcome::Won { .. })), "{change}: {answer:?}");
        }
        assert_eq!(store.image(&key).await.unwrap().unwrap().copy, changed.copy, "{change}");
    }
}

/// Its columns agree with its record, and yet it is not what was written: a flipped bit, or a hand's.
#[tokio::test]
async fn a_row_whose_digest_alone_is_wrong_is_foreign_and_can_be_removed() {
    let name = unique("fences");
    let (store, admin, factory) = (opened(&name).await, admin().await, RecordFactory::new());
    let (held, vacant, sound) =
        (Key::new("held").unwrap(), Key::new("vacant").unwrap(), Key::new("sound").unwrap());
    let records = [factory.held(50), factory.vacant(50), factory.vacant(50)];
    for (key, record) in [&held, &vacant, &sound].into_iter().zip(&records) {
        store.write(factory.absent(key, record.clone())).await.unwrap();
    }
    let spoil = format!("UPDATE {name}.record SET digest = sha256(digest) WHERE key <> 'sound'");
    assert_eq!(admin.execute(&spoil, &[]).await.unwrap(), 2);
    let versions = records.each_ref().map(tenure_core::Record::version);
    let renewal = || factory.unchanged(&held, versions[0], factory.held(50));
    let take = || factory.if_vacant(&vacant, factory.held(51));
    let release = factory.unchanged(&vacant, versions[1], factory.vacant(50));
    let other = factory.if_vacant(&sound, factory.held(51));
    let errors = [
        store.write(renewal()).await.unwrap_err(),
        store.write(take()).await.unwrap_err(),
        store.write(release).await.unwrap_err(),
        store.write_many(vec![take(), renewal()]).await.unwrap_err(),
        store.remove(&vacant, versions[1]).await.unwrap_err(),
        store.read(&held).await.unwrap_err(),
        store.read(&vacant).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        assert!(error.to_string().contains("is left as it is"), "{error}");
    }
    let listed = store.list("", None, 10).await.unwrap();
    let readable: Vec<&str> =
        listed.iter().filter(|one| one.stored.is_ok()).map(|one| one.key.as_str()).collect();
    assert_eq!((listed.len(), readable), (3, vec!["sound"]));
    // Others are not kept from anything by it, but what became of a batch with it is not known.
    let error = store.write_many(vec![other, take()]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    for key in [&held, &vacant] {
        let image = store.image(key).await.unwrap().unwrap();
        assert_eq!(image.record.as_ref().unwrap_err().kind(), ErrorKind::Foreign, "{key}");
        assert_eq!(image.fence, Some(Fence(50)));
        assert!(store.mend(key, &image, None).await.unwrap());
        let outcome = store.write(factory.if_vacant(key, factory.held(60))).await.unwrap();
        assert!(matches!(outcome, Outcome::Won { .. }), "{outcome:?}");
    }
}

#[tokio::test]
async fn values_of_any_length_stay_in_the_server() {
    let name = unique("long");
    let (store, admin, factory) = (opened(&name).await, admin().await, RecordFactory::new());
    for (n, (column, length)) in
        [("record", 2_000_000), ("record", 262_145), ("ride_key", 2_000_000), ("digest", 2_000_000)]
            .iter()
            .enumerate()
    {
        let key = Key::new(format!("k{n}")).unwrap();
        store.write(factory.absent(&key, factory.held(5))).await.unwrap();
        let long = format!("decode(repeat('00', {length}), 'hex')");
        let sql = format!("UPDATE {name}.record SET {column} = {long} WHERE key = '{key}'");
        admin.batch_execute(&sql).await.unwrap();
        let error = store.read(&key).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{sql}: {error}");
        let says = format!("too large to be one of ours: it has {length} bytes");
        assert_eq!(error.to_string().contains(&says), *column == "record", "{sql}: {error}");
        let image = store.image(&key).await.unwrap().unwrap();
        assert_eq!(image.copy.contains(&long), *length > 1 << 20, "{sql}");
        assert!(image.copy.len() < 1_000_000, "{sql}: {}", image.copy.len());
        assert!(store.mend(&key, &image, None).await.unwrap(), "{sql}");
        admin.batch_execute(&image.copy).await.unwrap();
        assert_eq!(store.read(&key).await.unwrap_err().kind(), ErrorKind::Foreign, "{sql}");
    }
    let listed = store.list("", None, 10).await.unwrap();
    assert_eq!(listed.iter().filter(|one| one.stored.is_err()).count(), 4);
}

/// A row that was restored or copied was written by another transaction than it says, and is written over by its digest.
#[tokio::test]
async fn a_row_that_was_restored_is_taken_and_is_tenure_s_own_again() {
    let name = unique("fences");
    let (store, admin, factory) = (opened(&name).await, admin().await, RecordFactory::new());
    let (held, vacant) = (Key::new("held").unwrap(), Key::new("vacant").unwrap());
    let record = factory.held(50);
    store.write(factory.absent(&held, record.clone())).await.unwrap();
    store.write(factory.absent(&vacant, factory.vacant(50))).await.unwrap();
    let ours = format!("SELECT count(*) FROM {name}.record WHERE xmin = writer");
    let count = async || admin.query_one(&ours, &[]).await.unwrap().get::<_, i64>(0);
    assert_eq!(count().await, 2, "tenure wrote them");
    let restore = format!(
        "CREATE TABLE {name}.copy AS TABLE {name}.record; DELETE FROM {name}.record; \
         INSERT INTO {name}.record TABLE {name}.copy"
    );
    admin.batch_execute(&restore).await.unwrap();
    assert_eq!(count().await, 0, "a copy wrote them");
    let renewal = factory.unchanged(&held, record.version(), factory.held(50));
    for write in [renewal, factory.if_vacant(&vacant, factory.held(1))] {
        let outcome = store.write(write).await.unwrap();
        assert!(matches!(outcome, Outcome::Won { fence: Fence(50 | 51), .. }), "{outcome:?}");
    }
    assert_eq!(count().await, 2, "they are tenure's own again");
}

/// What stands in them is there afterwards: what is held, attached, vacant or damaged.
#[tokio::test]
async fn tables_of_older_versions_are_refused_until_they_are_brought_up_to_date() {
    for version in [1, 2] {
        let (name, admin, factory) = (unique("fences"), admin().await, RecordFactory::new());
        let store = opened(&name).await;
        let keys = ["held", "attached", "vacant", "damaged"].map(|name| Key::new(name).unwrap());
        let mut attached = factory.held(50);
        attached.tenure.as_mut().unwrap().attachment =
            Some(Attachment { session: keys[0].clone(), fence: Fence(50) });
        let records = [factory.held(50), attached, factory.vacant(50), factory.vacant(50)];
        for (key, record) in keys.iter().zip(&records) {
            store.write(factory.absent(key, record.clone())).await.unwrap();
        }
        let damage = format!("UPDATE {name}.record SET record = substr(record, 2) WHERE key = 'damaged'");
        admin.batch_execute(&damage).await.unwrap();
        crate::support::to_version(version, &name).await;
        let error = PostgresStore::open(config(&name)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("version {version}")) && text.contains("--create-table"), "{text}");
        // A role that only uses them can't bring them up to date.
        admin
            .batch_execute(&format!("CREATE ROLE {name} LOGIN; {}", tenure_postgres::grants(&name, &name)))
            .await
            .unwrap();
        let user = PostgresConfig::from_url(&url().replace("postgres@", &format!("{name}@")));
        let error = PostgresStore::migrate(&user.unwrap().schema(&name)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(PostgresStore::migrate(&config(&name)).await.unwrap());
        assert!(!PostgresStore::migrate(&config(&name)).await.unwrap(), "a second time");
        let text = refusal(&admin, &format!("UPDATE {name}.record SET fence = 49")).await;
        assert!(text.contains("can't go back"), "{text}");
        let store = opened(&name).await;
        for (key, record) in keys.iter().zip(&records).take(3) {
            assert_eq!(store.read(key).await.unwrap().unwrap().record, *record, "what was there is there");
            let write = factory.unchanged(key, record.version(), factory.held(51));
            assert!(matches!(store.write(write).await.unwrap(), Outcome::Won { .. }), "{key}");
        }
        let error = store.write(factory.if_vacant(&keys[3], factory.held(51))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    }
}
