//! Several hosts, of which some are silent: they take connections and say nothing, like a process that is stopped or a balancer before nobody.
//!
//! Plan: a silent host keeps nobody from the next one, neither whoever opens a store nor whoever has used that host before; nor from
//! hints. Where nobody can be used, what one of them said is told, and not that others were silent.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::silence::Silencer;
use crate::support::{config, unique, url};
use std::time::Duration;
use tenure_core::{ErrorKind, Key};
use tenure_postgres::{PostgresConfig, PostgresStore};
use tenure_store::{Outcome, Store};
use tenure_testkit::{RecordFactory, hinted};

/// As long as a busy machine may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A schema of the tests' server, by way of these hosts.
fn by(hosts: &[String], user: &str, schema: &str) -> PostgresConfig {
    let there = format!("postgres://{user}@{}/postgres", hosts.join(","));
    PostgresConfig::from_url(&there).unwrap().schema(schema).timeout(TIMEOUT)
}

fn place(silencer: &Silencer) -> String {
    format!("127.0.0.1:{}", silencer.port)
}

/// The server's own.
fn primary() -> String {
    let url = url();
    let place = url.rsplit_once('@').unwrap().1;
    place.split_once('/').unwrap().0.to_owned()
}

#[tokio::test]
async fn a_silent_host_keeps_nobody_from_the_next() {
    let name = unique("silent");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let silent = Silencer::silent().await;
    let hosts = [place(&silent), primary()];
    let (key, factory) = (Key::new("k").unwrap(), RecordFactory::new());
    let written = async {
        let store = PostgresStore::open(by(&hosts, "postgres", &name)).await.unwrap();
        let outcome = store.write(factory.absent(&key, factory.held(5))).await.unwrap();
        assert!(matches!(outcome, Outcome::Won { .. }), "{outcome:?}");
        store
    };
    let store = tokio::time::timeout(TIMEOUT, written).await.expect("silence is waited for");
    assert!(silent.connections() > 0, "the order of the hosts is not kept");
    let mut changes = store.changed("").unwrap();
    hinted(&store, &mut changes, "hint").await;
}

#[tokio::test]
async fn who_has_used_a_host_that_falls_silent_goes_on_with_the_next() {
    let name = unique("silenced");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let first = Silencer::start().await;
    let config = by(&[place(&first), primary()], "postgres", &name).timeout(Duration::from_secs(2));
    let store = PostgresStore::open(config).await.unwrap();
    let (key, factory) = (Key::new("k").unwrap(), RecordFactory::new());
    while first.connections() < 4 {
        let reads: Vec<_> = (0..8)
            .map(|_| {
                tokio::spawn({
                    let (store, key) = (store.clone(), key.clone());
                    async move { store.read(&key).await }
                })
            })
            .collect();
        for read in reads {
            assert_eq!(read.await.unwrap().unwrap(), None);
        }
    }
    first.set_silent(true);
    let record = factory.held(5);
    let error = store.write(factory.absent(&key, record.clone())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    // The others on which nothing was heard meanwhile are not tried one after the other.
    let outcome = store.write(factory.absent(&key, record)).await;
    assert!(matches!(outcome, Ok(Outcome::Won { .. })), "{outcome:?}");
}

#[tokio::test]
async fn what_a_host_said_is_told_though_others_are_silent() {
    let silent = place(&Silencer::silent().await);
    for hosts in [[silent.clone(), primary()], [primary(), silent.clone()]] {
        let config = by(&hosts, "nobody_here:hush", "tenure").timeout(Duration::from_secs(2));
        let error = PostgresStore::open(config).await.unwrap_err();
        let text = error.to_string();
        assert!(
            error.kind() == ErrorKind::Invalid && text.contains("\"nobody_here\" does not exist"),
            "{text}"
        );
        assert!(!text.contains("hush"), "{text}");
    }
    let config = by(&[silent.clone(), silent], "postgres", "tenure").timeout(Duration::from_millis(500));
    let error = PostgresStore::open(config).await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Unavailable
            && error.to_string().contains("no connection was made in time"),
        "{error}"
    );
}
