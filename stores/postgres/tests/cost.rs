//! What calls cost, by a relay's count of statements and of round trips.
//!
//! Plan: each call is one statement and one round trip, whatever comes of it and however many records it is about: a read, several
//! reads, a page, a write that is done or refused, a batch, a removal. With prepared statements, too, no more statements. Plans of a small
//! table do for a large one: a record is found by the index, by the settings of a connection and by those of the functions.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::relay::Relay;
use crate::support::{admin, config, pool, unique};
use std::time::Duration;
use tenure_core::{Key, Version};
use tenure_postgres::tokio_postgres::Config;
use tenure_postgres::{PostgresConfig, PostgresStore, Prepare};
use tenure_store::{Freshness, Outcome, Store};
use tenure_testkit::RecordFactory;

fn won(outcome: Outcome) -> Version {
    match outcome {
        Outcome::Won { version, .. } => version,
        Outcome::Lost(standing) => panic!("lost to {standing:?}"),
    }
}

/// Counts, of which preparing has part: it takes round trips of its own, in the background.
struct Count {
    relay: Relay,
    prepares: bool,
}

impl Count {
    #[track_caller]
    fn is_one(&self, what: &str) {
        let (statements, turns) = self.relay.take();
        assert_eq!(statements, 1, "{what}: statements");
        assert!(turns == 1 || self.prepares, "{what}: {turns} round trips");
    }
}

async fn each_call_is_one_statement(prepare: Prepare) {
    let (name, relay) = (unique("cost"), Relay::start().await);
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", relay.port);
    let there = PostgresConfig::from_url(&url).unwrap().schema(&name).connections(1).prepare(prepare);
    let store = PostgresStore::open(there).await.unwrap();
    let (factory, count) = (RecordFactory::new(), Count { relay, prepares: prepare != Prepare::Never });
    count.is_one("opening");
    // What is prepared is so from the second use on.
    for round in 0..4 {
        let key = Key::new(format!("k{round}")).unwrap();
        let version = won(store.write(factory.if_vacant(&key, factory.held(5))).await.unwrap());
        count.is_one("the first acquisition");
        let version = won(store.write(factory.unchanged(&key, version, factory.held(5))).await.unwrap());
        count.is_one("a renewal");
        let refused = store.write(factory.if_vacant(&key, factory.held(9))).await.unwrap();
        assert!(matches!(refused, Outcome::Lost(Some(_))), "{refused:?}");
        count.is_one("a refusal");
        won(store.write(factory.unchanged(&key, version, factory.vacant(5))).await.unwrap());
        count.is_one("a release");
        let version = won(store.write(factory.if_vacant(&key, factory.held(1))).await.unwrap());
        count.is_one("an acquisition after a release");
        assert_eq!(store.read(&key).await.unwrap().unwrap().version, version);
        count.is_one("a read");

        let keys: Vec<Key> = (0..100).map(|n| Key::new(format!("many{round}/{n}")).unwrap()).collect();
        let mut batch: Vec<_> = keys.iter().map(|key| factory.if_vacant(key, factory.vacant(1))).collect();
        batch.push(factory.absent(&key, factory.held(9)));
        batch.push(factory.unchanged(&key, version, factory.vacant(6)));
        let mut outcomes = store.write_many(batch).await.unwrap();
        count.is_one("a batch");
        let vacated = won(outcomes.pop().unwrap());
        assert!(matches!(outcomes.pop(), Some(Outcome::Lost(Some(_)))), "what is absent stands there");
        assert!(outcomes.into_iter().all(|outcome| won(outcome) != Version(0)));
        assert_eq!(store.read_many(&keys, Freshness::Latest).await.unwrap().len(), 100);
        count.is_one("several reads");
        assert_eq!(store.list(&format!("many{round}/"), None, 60).await.unwrap().len(), 60);
        count.is_one("a page");
        assert!(store.remove(&key, vacated).await.unwrap());
        count.is_one("a removal");
    }
}

#[tokio::test]
async fn each_call_costs_what_the_documentation_says() {
    each_call_is_one_statement(Prepare::Never).await;
}

#[tokio::test]
async fn each_call_costs_the_same_where_it_is_prepared() {
    each_call_is_one_statement(Prepare::Always).await;
}

/// What sequential scans have read of a schema's records, once what `rows` writes have added is counted, too.
async fn scanned(schema: &str, rows: i64) -> i64 {
    let sql = "SELECT n_tup_ins, seq_tup_read FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'record'";
    let admin = admin().await;
    let counted = async {
        loop {
            let row = admin.query_one(sql, &[&schema]).await.unwrap();
            if row.get::<_, i64>(0) >= rows {
                return row.get(1);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), counted).await.expect("the server does not count")
}

/// A pool's connections have no settings of ours, as those behind a pooler.
#[tokio::test]
async fn what_was_planned_for_a_small_table_reads_a_large_one_by_its_index() {
    for is_own in [true, false] {
        let name = unique("plans");
        PostgresStore::migrate(&config(&name)).await.unwrap();
        let store = if is_own {
            PostgresStore::open(config(&name).connections(1).prepare(Prepare::Always)).await
        } else {
            let beside = PostgresConfig::new(Config::new()).schema(&name).push(false);
            PostgresStore::with_pool(pool(1), beside).await
        };
        let (store, factory, key) = (store.unwrap(), RecordFactory::new(), Key::new("k").unwrap());
        let mut version = won(store.write(factory.if_vacant(&key, factory.held(5))).await.unwrap());
        admin().await.batch_execute(&format!("ANALYZE {name}.record")).await.unwrap();
        // The first half makes the plans.
        for half in 0..2 {
            for _ in 0..20 {
                version = won(store.write(factory.unchanged(&key, version, factory.held(5))).await.unwrap());
                let refused = store.write(factory.if_vacant(&key, factory.held(9))).await.unwrap();
                assert!(matches!(refused, Outcome::Lost(Some(_))), "{refused:?}");
                assert_eq!(store.read(&key).await.unwrap().unwrap().version, version);
            }
            let others = (0..500).map(|n| Key::new(format!("other{half}/{n}")).unwrap());
            let batch = others.map(|key| factory.if_vacant(&key, factory.vacant(1)));
            store.write_many(batch.collect()).await.unwrap();
        }
        // What a session has counted is told at its end.
        drop(store);
        // A few plans are made for one use, and those may scan what is small just then.
        let scanned = scanned(&name, 1001).await;
        assert!(scanned < 1001, "{scanned} rows, with settings of the connection: {is_own}");
    }
}
