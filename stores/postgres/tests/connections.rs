//! Connections that many statements share.
//!
//! Plan: many tasks on few connections, none of whose writes is lost or mixed up; what is prepared where, as the server itself tells:
//! on a session of one's own, not through a pooler, and as the URL says; a server that has forgotten what was prepared; a statement
//! that waits for a lock, and those that don't; many that wait for one in vain, which leave no connections behind, and few meanwhile; callers
//! that go away at once, which cost no connection; one attempt to connect for all, whose failure is told to nobody who comes after it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::silence::Silencer;
use crate::support::{Locked, admin, config, held, named, unique, waits_for_lock};
use futures_util::FutureExt;
use std::time::Duration;
use tenure_core::Key;
use tenure_postgres::statements::{Call, Connections};
use tenure_postgres::tokio_postgres::types::Type;
use tenure_postgres::{PostgresConfig, PostgresStore, Prepare};
use tenure_store::{Outcome, Store};
use tenure_testkit::RecordFactory;

/// As long as a busy machine may take.
const LONG: Duration = Duration::from_secs(30);

async fn connections(name: &str) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    admin().await.query_one(sql, &[&name]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_few_connections() {
    let name = unique("shared");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let store = PostgresStore::open(named(&name).connections(2)).await.unwrap();
    let tasks: Vec<_> = (0..40)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                let (factory, key) = (RecordFactory::new(), Key::new(format!("k{task}")).unwrap());
                for round in 0..10 {
                    let record = factory.held(task * 1000 + round);
                    let fence = match store.write(factory.if_vacant(&key, record.clone())).await.unwrap() {
                        Outcome::Won { version, fence } if version == record.version() => fence.0,
                        other => panic!("the key has one user, but {other:?}"),
                    };
                    let standing = store.read(&key).await.unwrap().unwrap();
                    assert_eq!(standing.record, record, "another's answer");
                    let vacant = factory.unchanged(&key, standing.version, factory.vacant(fence));
                    assert!(matches!(store.write(vacant).await.unwrap(), Outcome::Won { .. }));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let count = connections(&name).await;
    assert!((1..=2).contains(&count), "{count} connections");
}

/// How many statements the session of `connections`, which is one, has prepared in the end.
async fn prepared(connections: &Connections) -> i64 {
    let mut most = 0;
    // The first uses are not prepared, and what is being prepared is not waited for.
    for round in 0..200i64 {
        let rows = connections.ask(Call::Read, "SELECT $1::bigint", &[(&round, Type::INT8)]).await.unwrap();
        assert_eq!(rows[0].get::<_, i64>(0), round);
        // Each time another text, so that it is not itself prepared.
        let sql = format!(
            "SELECT count(*), {round} FROM pg_prepared_statements WHERE statement = 'SELECT $1::bigint'"
        );
        most = most.max(connections.ask(Call::Read, &sql, &[]).await.unwrap()[0].get(0));
        if most > 0 {
            break;
        }
    }
    most
}

#[tokio::test]
async fn statements_are_prepared_where_the_session_is_ones_own() {
    let direct = || config("tenure").connections(1);
    let pooled = || crate::support::pooled("tenure").connections(1);
    for (config, is_prepared) in [
        (direct(), true),
        (direct().prepare(Prepare::Always), true),
        (direct().prepare(Prepare::Never), false),
        (pooled(), false),
    ] {
        let text = format!("{config:?}");
        let connections = Connections::open(&config).unwrap();
        assert_eq!(prepared(&connections).await > 0, is_prepared, "{text}");
    }
}

#[tokio::test]
async fn what_the_server_has_forgotten_is_sent_whole() {
    let name = unique("forgotten");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let connections = Connections::open(&config(&name).connections(1)).unwrap();
    assert!(prepared(&connections).await > 0);
    connections.run(&format!("CREATE TABLE {name}.sent (n bigint)")).await.unwrap();
    let insert = format!("INSERT INTO {name}.sent VALUES ($1)");
    let all = format!("SELECT count(*) FROM {name}.sent");
    for n in 0..50i64 {
        if n % 10 == 9 {
            connections.run("DEALLOCATE ALL").await.unwrap();
        }
        connections.ask(Call::Write, &insert, &[(&n, Type::INT8)]).await.unwrap();
    }
    let count: i64 = connections.ask(Call::Read, &all, &[]).await.unwrap()[0].get(0);
    assert_eq!(count, 50, "each was done once");
}

#[tokio::test]
async fn a_statement_that_waits_holds_up_no_others_while_there_is_another_connection() {
    let name = unique("waits");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let store = PostgresStore::open(config(&name).connections(2).timeout(LONG)).await.unwrap();
    let (key, factory) = (Key::new("k").unwrap(), RecordFactory::new());
    let version = held(&store, &factory, &key).await;
    let locked = Locked::records_of(&name).await;
    let (waiting, renewal) = (store.clone(), factory.unchanged(&key, version, factory.held(5)));
    let waiting = tokio::spawn(async move { waiting.write(renewal).await });
    waits_for_lock(&format!("%{name}.write%")).await;
    // Longer than it takes to see that it waits.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let others: Vec<_> = (0..30)
        .map(|other| {
            let (store, key) = (store.clone(), Key::new(format!("other{other}")).unwrap());
            tokio::spawn(async move {
                let factory = RecordFactory::new();
                store.write(factory.absent(&key, factory.held(1))).await.unwrap()
            })
        })
        .collect();
    for other in others {
        assert!(matches!(other.await.unwrap(), Outcome::Won { .. }));
    }
    assert!(!waiting.is_finished());
    locked.unlock().await;
    assert!(matches!(waiting.await.unwrap().unwrap(), Outcome::Won { .. }));
}

#[tokio::test]
async fn what_waits_for_a_lock_in_vain_leaves_no_connections_behind() {
    let name = unique("vain");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let timeout = Duration::from_millis(400);
    let store = PostgresStore::open(named(&name).connections(1).timeout(timeout)).await.unwrap();
    let (key, factory, operator) = (Key::new("k").unwrap(), RecordFactory::new(), admin().await);
    let version = held(&store, &factory, &key).await;
    let lock = format!("BEGIN; LOCK TABLE {name}.record IN ACCESS EXCLUSIVE MODE");
    operator.batch_execute(&lock).await.unwrap();
    for round in 0..10 {
        let write = store.write(factory.unchanged(&key, version, factory.held(6)));
        // Some callers go away by themselves.
        let patience = if round % 2 == 0 { LONG } else { timeout / 4 };
        let outcome = tokio::time::timeout(patience, write).await;
        assert!(outcome.is_err() || outcome.is_ok_and(|outcome| outcome.unwrap_err().is_passing()));
    }
    let few = async {
        while connections(&name).await > 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), few).await.expect("they wait until the lock is free");
    operator.batch_execute("ROLLBACK").await.unwrap();
    let landed = store.read(&key).await.unwrap().unwrap().record.fence.0;
    assert!([5, 6].contains(&landed), "{landed}");
}

/// A driver gives a call up long before the store does.
#[tokio::test]
async fn callers_who_give_up_under_a_lock_pile_up_no_connections() {
    let name = unique("piled");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let store = PostgresStore::open(named(&name).connections(1)).await.unwrap();
    let (key, factory, operator) = (Key::new("k").unwrap(), RecordFactory::new(), admin().await);
    let version = held(&store, &factory, &key).await;
    let lock = format!("BEGIN; LOCK TABLE {name}.record IN ACCESS EXCLUSIVE MODE");
    operator.batch_execute(&lock).await.unwrap();
    let mut most = 0;
    for _ in 0..12 {
        let write = store.write(factory.unchanged(&key, version, factory.held(6)));
        drop(tokio::time::timeout(Duration::from_millis(200), write).await);
        most = most.max(connections(&name).await);
    }
    assert!((2..=3).contains(&most), "{most} connections");
    operator.batch_execute("ROLLBACK").await.unwrap();
    let standing = tokio::time::timeout(LONG, store.read(&key)).await.expect("none is made any more");
    assert!(standing.unwrap().is_some());
}

#[tokio::test]
async fn callers_who_go_away_at_once_cost_no_connection() {
    let name = unique("gone");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let store = PostgresStore::open(named(&name).connections(1)).await.unwrap();
    let (key, factory) = (Key::new("k").unwrap(), RecordFactory::new());
    held(&store, &factory, &key).await;
    let backend = async || {
        let sql = "SELECT array_agg(pid ORDER BY pid) FROM pg_stat_activity WHERE application_name = $1";
        admin().await.query_one(sql, &[&name]).await.unwrap().get::<_, Vec<i32>>(0)
    };
    let before = backend().await;
    for _ in 0..20 {
        // Sent, and dropped before the answer.
        assert!(store.read(&key).now_or_never().is_none());
        assert!(store.read(&key).await.unwrap().is_some(), "answers are mixed up");
    }
    assert_eq!(backend().await, before);
}

/// All who waited for it have gone by then.
#[tokio::test]
async fn the_failure_of_an_attempt_is_not_told_to_who_comes_later() {
    let name = unique("stale");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let silencer = Silencer::start().await;
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres?timeout-ms=500&push=off", silencer.port);
    let there = PostgresConfig::from_url(&url).unwrap().schema(&name).connections(1);
    let (store, key) = (PostgresStore::open(there).await.unwrap(), Key::new("k").unwrap());
    silencer.set_silent(true);
    assert!(store.read(&key).await.is_err(), "the connection is retired");
    let before = silencer.connections();
    assert!(tokio::time::timeout(Duration::from_millis(50), store.read(&key)).await.is_err());
    assert_eq!(silencer.connections(), before + 1, "an attempt is begun");
    silencer.set_silent(false);
    // Longer than an attempt takes.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(store.read(&key).await.unwrap(), None);
}
