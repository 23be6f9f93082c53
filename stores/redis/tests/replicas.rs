//! What replicas give, and what they don't.
//!
//! Plan: with `wait`, a write counts only once a replica has it, also if calls go elsewhere by then. Whatever could resolve it
//! waits as well: a read, or a write whose refusal shows it. So it is after a write that was given up. A replica that lags and is promoted
//! has lost leases, and their fences are exceeded all the same. A failover that a sentinel decides is followed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::proxy::Proxy;
use crate::support::{Server, at, at_last, until};
use std::time::Duration;
use tenure_core::{ErrorKind, Fence, Key, Record};
use tenure_redis::RedisStore;
use tenure_store::{Outcome, Store};
use tenure_testkit::Scribe;

async fn replica_of(port: u16) -> Server {
    let replica = Server::start(&format!("--replicaof 127.0.0.1 {port} --repl-diskless-load on-empty-db"));
    until("the replica follows", || replica.cli(&["INFO", "replication"]).contains("master_link_status:up"))
        .await;
    replica
}

/// What is read once the replicas have confirmed it.
async fn confirmed(store: &RedisStore, key: &Key) -> Record {
    for _ in 0..50 {
        match store.read(key).await {
            Ok(found) => return found.unwrap().record,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
    panic!("no replica confirms")
}

#[tokio::test]
async fn a_write_counts_only_once_the_replicas_have_it_if_that_is_asked_for() {
    let primary = Server::start("--repl-diskless-sync-delay 0");
    let config = || at(&primary.url(), "jobs").timeout(Duration::from_millis(2000));
    let (hasty, careful) =
        (RedisStore::open(config()).await.unwrap(), RedisStore::open(config().wait(1)).await.unwrap());
    let (key, scribe) = (Key::new("k").unwrap(), Scribe::new());
    // There is no replica yet.
    let record = scribe.held(5);
    let error = careful.write(scribe.absent(&key, record.clone())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert!(error.to_string().contains("0 replicas have confirmed"), "{error}");
    // It stands; but whoever could take it for done is not told.
    assert_eq!(hasty.read(&key).await.unwrap().unwrap().record, record);
    let error = careful.read(&key).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // A refusal would show it, too.
    let error = careful.write(scribe.absent(&key, scribe.held(5))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let replica = replica_of(primary.port).await;
    until("the replica is known", || primary.cli(&["INFO", "replication"]).contains("state=online")).await;
    assert_eq!(confirmed(&careful, &key).await, record);
    let renewed = careful.write(scribe.unchanged(&key, record.version(), scribe.held(6))).await.unwrap();
    let Outcome::Won { version, .. } = renewed else { panic!("{renewed:?}") };
    let inspected = careful.inspect().await;
    let hazards: Vec<&str> = inspected.hazards().collect();
    assert!(hazards[0].contains("appendonly no") && hazards[1].contains("replicas (1)"), "{hazards:?}");
    assert!(hazards[1].contains("min-replicas-to-write 0") && hazards.len() == 2, "{hazards:?}");
    primary.cli(&["CONFIG", "SET", "appendonly", "yes"]);
    assert!(hasty.inspect().await.hazards().any(|hazard| hazard.contains("appendfsync everysec")));
    // One that hangs confirms nothing.
    replica.signal("-STOP");
    let error = careful.write(scribe.unchanged(&key, version, scribe.held(7))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert_eq!(careful.list("", None, 10).await.unwrap_err().kind(), ErrorKind::Unavailable);
    replica.signal("-CONT");
    let seventh = confirmed(&careful, &key).await;
    assert_eq!(seventh.fence, Fence(7));
    // Whoever did not wait for so long knows no more.
    replica.signal("-STOP");
    let (store, eighth) = (careful.clone(), scribe.unchanged(&key, seventh.version(), scribe.held(8)));
    let impatient = tokio::spawn(async move { store.write(eighth).await });
    while hasty.read(&key).await.unwrap().unwrap().record.fence != Fence(8) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    impatient.abort();
    assert!(!impatient.await.is_ok_and(|outcome| outcome.is_ok()), "no replica can have confirmed it");
    assert_eq!(careful.read(&key).await.unwrap_err().kind(), ErrorKind::Unavailable);
    replica.signal("-CONT");
    assert_eq!(confirmed(&careful, &key).await.fence, Fence(8));
}

/// A primary that stood still answers when another server is the primary already: only its own replicas can confirm what it wrote.
#[tokio::test]
async fn a_write_is_confirmed_where_it_was_made_and_not_where_calls_go_by_then() {
    let primary = Server::start("--repl-diskless-sync-delay 0");
    let next = replica_of(primary.port).await;
    let _last = replica_of(next.port).await;
    let both = format!("{},127.0.0.1:{}", primary.url(), next.port);
    let config = at(&both, "jobs").timeout(Duration::from_secs(4)).push(false).wait(1);
    let store = RedisStore::open(config).await.unwrap();
    let (scribe, key, other) = (Scribe::new(), Key::new("k").unwrap(), Key::new("other").unwrap());
    // It has the script from then on.
    at_last(async || store.write(scribe.absent(&other, scribe.held(5))).await).await;
    primary.signal("-STOP");
    let mut written = Box::pin(store.write(scribe.absent(&key, scribe.held(5))));
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut written).await.is_err());
    // Who has less patience gives the connection up.
    assert!(tokio::time::timeout(Duration::from_millis(50), store.read(&key)).await.is_err());
    next.cli(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(at_last(async || store.read(&key).await).await, None);
    primary.signal("-CONT");
    let error = written.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert_eq!(store.read(&key).await.unwrap(), None);
}

/// A replica that lags is promoted: a lease that was granted may be granted again. The fences tell the two apart, as each begins at its
/// acquirer's clock.
#[tokio::test]
async fn a_failover_loses_leases_but_fences_grow() {
    let mut primary = Server::start("--repl-diskless-sync-delay 0");
    let proxy = Proxy::before(primary.port).await;
    let replica = replica_of(proxy.port).await;
    let both = format!("{},127.0.0.1:{}", primary.url(), replica.port);
    let store = RedisStore::open(at(&both, "jobs").push(false)).await.unwrap();
    let (old, lost, scribe) = (Key::new("old").unwrap(), Key::new("lost").unwrap(), Scribe::new());
    let clock = 1_700_000_000_000;
    store.write(scribe.absent(&old, scribe.vacant(clock))).await.unwrap();
    until("it is replicated", || replica.cli(&["HLEN", "tenure:{jobs}:records"]) == "1").await;
    proxy.stall();
    let before = store.write(scribe.if_vacant(&old, scribe.held(clock + 10))).await.unwrap();
    let Outcome::Won { fence: first, .. } = before else { panic!("{before:?}") };
    assert!(matches!(
        store.write(scribe.absent(&lost, scribe.held(clock + 10))).await.unwrap(),
        Outcome::Won { .. }
    ));
    primary.kill();
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    // Seconds later, by sane clocks.
    let mut again = store.write(scribe.if_vacant(&old, scribe.held(clock + 2_000))).await;
    for _ in 0..100 {
        if again.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        again = store.write(scribe.if_vacant(&old, scribe.held(clock + 2_000))).await;
    }
    let Ok(Outcome::Won { fence: second, .. }) = again else { panic!("the lease was not lost: {again:?}") };
    assert!(second > first, "{second} after {first}");
    assert_eq!(store.read(&lost).await.unwrap(), None, "what lagged is gone");
}

/// A sentinel is no server of records; what it decides is found by asking the servers themselves.
#[tokio::test]
async fn a_failover_by_a_sentinel_is_followed() {
    let mut primary = Server::start("--repl-diskless-sync-delay 0");
    let replica = replica_of(primary.port).await;
    let sentinel = Server::sentinel(primary.port);
    let error = RedisStore::open(at(&sentinel.url(), "jobs")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("name the Redis servers that it watches"), "{error}");
    let both = format!("{},127.0.0.1:{}", primary.url(), replica.port);
    let store = RedisStore::open(at(&both, "jobs")).await.unwrap();
    let (key, scribe) = (Key::new("k").unwrap(), Scribe::new());
    let Outcome::Won { version, fence } = store.write(scribe.if_vacant(&key, scribe.held(5))).await.unwrap()
    else {
        panic!("nothing stood there")
    };
    until("it is replicated", || replica.cli(&["HLEN", "tenure:{jobs}:records"]) == "1").await;
    until("the sentinel knows the replica", || {
        sentinel.cli(&["SENTINEL", "REPLICAS", "watched"]).contains(&replica.port.to_string())
    })
    .await;
    primary.kill();
    // Until the sentinel has decided, both are of no use.
    let renewed = at_last(async || store.write(scribe.unchanged(&key, version, scribe.held(5))).await).await;
    let Outcome::Won { version, .. } = renewed else { panic!("what was replicated is gone: {renewed:?}") };
    let released = store.write(scribe.unchanged(&key, version, scribe.vacant(fence.0))).await.unwrap();
    assert!(matches!(released, Outcome::Won { .. }));
    let taken = store.write(scribe.if_vacant(&key, scribe.held(1))).await.unwrap();
    assert!(matches!(taken, Outcome::Won { fence: next, .. } if next > fence), "{taken:?}");
}
