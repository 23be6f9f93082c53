//! A real standby, by streaming replication: read-only, then promoted though it has not heard all.
//!
//! Plan: a standby is read, and says to writers what it is; the primary says what a failover to it can lose, and it does not. What waits for a standby that is gone is told. Of several hosts the primary is used, in whatever order they are named.
//! A lagging standby that is promoted has forgotten a tenure, so two may hold: failover loses what was not replicated. But its next
//! fence is higher than the one that it never heard of, and who was forgotten loses. A password that was changed is read anew.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

#[path = "support/standby.rs"]
mod server;

use crate::support::{admin, config, unique, url};
use server::Standby;
use std::time::Duration;
use tenure_core::{Clock, ErrorKind, Fence, Key, Version};
use tenure_postgres::{PostgresConfig, PostgresStore};
use tenure_store::{Outcome, Store, Write};
use tenure_testkit::{RealClock, RecordFactory};

/// As long as a busy machine may take.
const LONG: Duration = Duration::from_secs(60);

async fn won(store: &PostgresStore, write: Write) -> (Version, Fence) {
    match store.write(write).await.unwrap() {
        Outcome::Won { version, fence } => (version, fence),
        Outcome::Lost(standing) => panic!("lost to {standing:?}"),
    }
}

/// With what an acquirer begins whose clock is sane.
fn floor() -> u64 {
    Fence::floor(RealClock::new().now().wall).0
}

#[tokio::test]
async fn a_standby_is_read_and_names_itself_to_writers() {
    let name = unique("replica");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let (primary, factory, key) =
        (PostgresStore::open(config(&name)).await.unwrap(), RecordFactory::new(), Key::new("k").unwrap());
    let (version, _) = won(&primary, factory.if_vacant(&key, factory.held(5))).await;
    let standby = Standby::start("").await;
    let warned = async {
        let says = ["asynchronously", "two may hold a key then", "fences protect"];
        let warns = |text: &str| says.iter().all(|words| text.contains(words));
        while !primary.inspect().await.hazards().any(warns) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, warned).await.expect("nothing says what a failover can lose");
    let there = PostgresConfig::from_url(&standby.url("postgres")).unwrap().schema(&name);
    let replica = PostgresStore::open(there).await.unwrap();
    assert_eq!(replica.read(&key).await.unwrap().unwrap().version, version);
    assert_eq!((replica.list("", None, 9).await.unwrap().len(), replica.id()), (1, primary.id()));
    let told = replica.inspect().await;
    let of_failover: Vec<_> = told.facts.iter().filter(|fact| fact.about == "failover").collect();
    assert!(of_failover.len() == 1 && of_failover[0].text.contains("ask the primary"), "{told:?}");
    let error = replica.write(factory.unchanged(&key, version, factory.vacant(5))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("replica") && error.to_string().contains("primary"), "{error}");
    let batch = vec![factory.unchanged(&key, version, factory.vacant(5))];
    let error = replica.write_many(batch).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("primary"), "{error}");
    // The standby comes first, and the primary is taken.
    let primary_place = url().rsplit_once('@').unwrap().1.to_owned();
    let both = format!("postgres://postgres@{},{primary_place}", standby.place());
    let either = PostgresStore::open(PostgresConfig::from_url(&both).unwrap().schema(&name)).await.unwrap();
    won(&either, factory.unchanged(&key, version, factory.vacant(5))).await;
}

/// Reads go on where no commit is answered, so nothing else tells why.
#[tokio::test]
async fn a_primary_whose_standby_is_gone_is_told_as_one_that_answers_no_write() {
    let name = unique("alone");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let server = Standby::start("").await;
    server.cut_off().await;
    server.promote().await;
    let there = PostgresConfig::from_url(&server.url("postgres")).unwrap().schema(&name);
    let store = PostgresStore::open(there).await.unwrap();
    let tells = async || store.inspect().await.hazards().any(|text| text.contains("no write is answered"));
    assert!(!tells().await);
    let admin = server.admin().await;
    admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = 'nosuch'").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    server.shows("SELECT current_setting('synchronous_standby_names') = 'nosuch'").await;
    let told = async {
        while !tells().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, told).await.expect("nothing says why no write is answered");
    // Writes that wait for it, and were given up, keep no reader waiting.
    let there = PostgresConfig::from_url(&server.url("postgres")).unwrap().schema(&name).connections(1);
    let (store, factory) = (PostgresStore::open(there).await.unwrap(), RecordFactory::new());
    for n in 0..4 {
        let write = factory.if_vacant(&Key::new(format!("k{n}")).unwrap(), factory.held(floor()));
        assert!(tokio::time::timeout(Duration::from_millis(200), store.write(write)).await.is_err());
    }
    store.read(&Key::new("k").unwrap()).await.unwrap();
    // Each keeps its connection at the server. So there is an end to them, after which nothing is sent.
    let there =
        PostgresConfig::from_url(&format!("{}?application_name=many", server.url("postgres"))).unwrap();
    let there = there.schema(&name).connections(1);
    let store = PostgresStore::open(there).await.unwrap();
    let refused = async {
        loop {
            let write = factory.if_vacant(&Key::new(unique("k")).unwrap(), factory.held(floor()));
            // Longer than a connection is waited for.
            if let Ok(answer) = tokio::time::timeout(Duration::from_millis(1200), store.write(write)).await {
                return answer.unwrap_err();
            }
        }
    };
    let error = tokio::time::timeout(LONG, refused).await.expect("it goes on making connections");
    assert!(
        error.kind() == ErrorKind::Unavailable && error.to_string().contains("a standby that is away"),
        "{error}"
    );
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'many'";
    let open: i64 = admin.query_one(open, &[]).await.unwrap().get(0);
    assert!((4..=6).contains(&open), "{open}");
}

#[tokio::test]
async fn a_promoted_standby_that_lags_takes_no_fence_back() {
    let name = unique("failover");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let (primary, factory, key) =
        (PostgresStore::open(config(&name)).await.unwrap(), RecordFactory::new(), Key::new("k").unwrap());
    let (first, known) = won(&primary, factory.if_vacant(&key, factory.held(floor()))).await;
    let standby = Standby::start("").await;
    standby.cut_off().await;
    // The standby never hears of this release, nor of the next tenure.
    let (vacated, _) = won(&primary, factory.unchanged(&key, first, factory.vacant(known.0))).await;
    assert!(vacated != first);
    let (unheard, forgotten) = won(&primary, factory.if_vacant(&key, factory.held(floor()))).await;
    assert!(forgotten > known);
    standby.promote().await;
    let there = PostgresConfig::from_url(&standby.url("postgres")).unwrap().schema(&name);
    let store = PostgresStore::open(there).await.unwrap();
    let standing = store.read(&key).await.unwrap().unwrap();
    assert_eq!(
        (standing.version, standing.record.fence),
        (first, known),
        "nothing was lost, so nothing is shown"
    );
    // Whoever takes over from the holder that the standby knows.
    let next = standing.record.fence.next(Fence(floor())).unwrap();
    let (_, fence) = won(&store, factory.unchanged(&key, first, factory.held(next.0))).await;
    assert!(fence > forgotten, "{fence} after {forgotten}, which was lost");
    // The one that was forgotten can't renew here.
    let renewal = store.write(factory.unchanged(&key, unheard, factory.held(forgotten.0))).await.unwrap();
    assert!(matches!(renewal, Outcome::Lost(Some(standing)) if standing.record.fence == fence));
}

#[tokio::test]
async fn a_password_that_was_changed_is_read_anew() {
    let (name, admin) = (unique("rotated"), admin().await);
    PostgresStore::migrate(&config(&name)).await.unwrap();
    admin.batch_execute(&format!("CREATE ROLE {name} LOGIN PASSWORD 'hush-1'")).await.unwrap();
    admin.batch_execute(&tenure_postgres::grants(&name, &name)).await.unwrap();
    let standby = Standby::start(&format!("host all {name} 127.0.0.1/32 scram-sha-256")).await;
    let file = std::env::temp_dir().join(format!("tenure-{name}"));
    std::fs::write(&file, "hush-1\n").unwrap();
    let there = format!("{}?password-file={}", standby.url(&name), file.display());
    let store = PostgresStore::open(PostgresConfig::from_url(&there).unwrap().schema(&name)).await.unwrap();
    let key = Key::new("k").unwrap();
    assert_eq!(store.read(&key).await.unwrap(), None);
    // The standby hears of the new one; who is connected stays so until the connection ends.
    admin.batch_execute(&format!("ALTER ROLE {name} PASSWORD 'hush-2'")).await.unwrap();
    let place = admin.query_one("SELECT pg_current_wal_lsn()::text", &[]).await.unwrap().get::<_, String>(0);
    standby.shows(&format!("SELECT pg_last_wal_replay_lsn() >= '{place}'::pg_lsn")).await;
    assert_eq!(store.read(&key).await.unwrap(), None);
    let ended = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{name}'");
    standby.admin().await.batch_execute(&ended).await.unwrap();
    let refused = async {
        loop {
            match store.read(&key).await {
                Err(error) if error.to_string().contains("password") => return error,
                other => assert!(other.is_err() || other.is_ok_and(|found| found.is_none())),
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let error = tokio::time::timeout(std::time::Duration::from_secs(30), refused)
        .await
        .expect("the old one is refused");
    assert!(error.kind() == ErrorKind::Unavailable && !error.to_string().contains("hush"), "{error}");
    // Somebody who comes now is told that it is wrong.
    let refused = PostgresStore::open(PostgresConfig::from_url(&there).unwrap().schema(&name)).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    std::fs::write(&file, "hush-2\n").unwrap();
    assert_eq!(store.read(&key).await.unwrap(), None);
    std::fs::remove_file(&file).unwrap();
}
