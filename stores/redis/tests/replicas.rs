//! What replicas give, and what they don't.
//!
//! Plan: with `wait`, a write counts only once a replica has it, also if calls go elsewhere by then, and in a cluster. Whatever could
//! resolve it waits as well: a read, or a write whose refusal shows it. So it is after a write that was given up, also if it arrives
//! late. A replica that lags and is promoted has lost leases, and their fences are exceeded all the same; so they are on a server of any
//! language, and records can be read whatever its clock shows. A failover that a sentinel decides is followed. A primary that takes no writes is left for one that does, and where there is none, it is
//! not left again and again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::cluster::on;
use crate::proxy::Proxy;
use crate::support::{Server, at, at_last, until};
use std::time::Duration;
use tenure_core::{ErrorKind, Fence, Key, Record};
use tenure_redis::RedisStore;
use tenure_store::{Outcome, Store};
use tenure_testkit::RecordFactory;

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
    let (key, factory) = (Key::new("k").unwrap(), RecordFactory::new());
    // There is no replica yet.
    let record = factory.held(5);
    let error = careful.write(factory.absent(&key, record.clone())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert!(error.to_string().contains("0 replicas have confirmed"), "{error}");
    // It stands; but whoever could take it for done is not told.
    assert_eq!(hasty.read(&key).await.unwrap().unwrap().record, record);
    let error = careful.read(&key).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // A refusal would show it, too.
    let error = careful.write(factory.absent(&key, factory.held(5))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let replica = replica_of(primary.port).await;
    until("the replica is known", || primary.cli(&["INFO", "replication"]).contains("state=online")).await;
    assert_eq!(confirmed(&careful, &key).await, record);
    let renewed = careful.write(factory.unchanged(&key, record.version(), factory.held(6))).await.unwrap();
    let Outcome::Won { version, .. } = renewed else { panic!("{renewed:?}") };
    let inspected = careful.inspect().await;
    let hazards: Vec<&str> = inspected.hazards().collect();
    assert!(hazards[0].contains("appendonly no") && hazards[1].contains("replicas (1)"), "{hazards:?}");
    assert!(hazards[1].contains("min-replicas-to-write 0") && hazards.len() == 2, "{hazards:?}");
    primary.cli(&["CONFIG", "SET", "appendonly", "yes"]);
    assert!(hasty.inspect().await.hazards().any(|hazard| hazard.contains("appendfsync everysec")));
    primary.cli(&["CONFIG", "SET", "appendfsync", "always"]);
    for (skips, is_hazard) in [("yes", true), ("no", false)] {
        primary.cli(&["CONFIG", "SET", "no-appendfsync-on-rewrite", skips]);
        let inspected = hasty.inspect().await;
        let warns = inspected.hazards().any(|hazard| hazard.contains("no-appendfsync-on-rewrite yes"));
        assert_eq!(warns, is_hazard, "{inspected:?}");
    }
    primary.cli(&["CONFIG", "SET", "appendfsync", "everysec"]);
    // One that hangs confirms nothing.
    replica.signal("-STOP");
    let error = careful.write(factory.unchanged(&key, version, factory.held(7))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert_eq!(careful.list("", None, 10).await.unwrap_err().kind(), ErrorKind::Unavailable);
    replica.signal("-CONT");
    let seventh = confirmed(&careful, &key).await;
    assert_eq!(seventh.fence, Fence(7));
    // Whoever did not wait for so long knows no more.
    replica.signal("-STOP");
    let (store, eighth) = (careful.clone(), factory.unchanged(&key, seventh.version(), factory.held(8)));
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

/// What was sent before a connection was given up may be delivered long after, when later reads have found nothing.
#[tokio::test]
async fn a_write_that_was_given_up_and_arrives_late_is_shown_once_the_replicas_have_it() {
    let primary = Server::start("--repl-diskless-sync-delay 0");
    let (proxy, replica) = (Proxy::before(primary.port).await, replica_of(primary.port).await);
    let config = |url: &str| at(url, "jobs").timeout(Duration::from_millis(2000)).push(false);
    let careful = RedisStore::open(config(&proxy.url()).wait(1)).await.unwrap();
    let network = RedisStore::open(config(&primary.url())).await.unwrap();
    let (key, other, factory) = (Key::new("k").unwrap(), Key::new("other").unwrap(), RecordFactory::new());
    at_last(async || careful.write(factory.absent(&other, factory.held(5))).await).await;
    proxy.stall();
    let record = factory.held(5);
    let written = careful.write(factory.absent(&key, record.clone()));
    assert!(tokio::time::timeout(Duration::from_millis(50), written).await.is_err());
    proxy.pass();
    assert_eq!(at_last(async || careful.read(&key).await).await, None);
    // It arrives while the replica confirms nothing.
    replica.signal("-STOP");
    network.write(factory.absent(&key, record.clone())).await.unwrap();
    let error = careful.read(&key).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // A refusal would show it, too.
    let error = careful.write(factory.absent(&key, factory.held(5))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // Nor does one that goes with a write that is done. The first one goes by itself.
    let [first, second] = ["first", "second"].map(|name| Key::new(name).unwrap());
    let (_by_itself, done, refused) = tokio::join!(
        careful.write(factory.absent(&first, factory.held(5))),
        careful.write(factory.absent(&second, factory.held(5))),
        careful.write(factory.absent(&key, factory.held(5))),
    );
    assert_eq!(done.unwrap_err().kind(), ErrorKind::Unknown);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    replica.signal("-CONT");
    assert_eq!(confirmed(&careful, &key).await, record);
}

/// In a cluster no message is replicated, and Valkey waits for what the connection itself has written alone.
#[tokio::test]
async fn a_write_in_doubt_is_confirmed_in_a_cluster_only_by_those_who_have_it() {
    let member = || {
        let bus = tenure_ports::unused_port().unwrap();
        let settings = "--cluster-enabled yes --cluster-node-timeout 60000 --repl-diskless-sync-delay 0";
        (Server::valkey(&format!("{settings} --cluster-port {bus}")), bus.to_string())
    };
    let ((primary, bus), (replica, _)) = (member(), member());
    primary.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    replica.cli(&["CLUSTER", "MEET", "127.0.0.1", &primary.port.to_string(), &bus]);
    let id = primary.cli(&["CLUSTER", "MYID"]);
    until("they know each other", || replica.cli(&["CLUSTER", "NODES"]).contains(&id)).await;
    until("the replica is taken on", || on(&replica.url(), &["CLUSTER", "REPLICATE", &id]) == "OK").await;
    until("the replica follows", || primary.cli(&["INFO", "replication"]).contains("state=online")).await;
    until("the cluster is up", || primary.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok")).await;
    let proxy = Proxy::before(primary.port).await;
    let config = at(&proxy.url(), "jobs").timeout(Duration::from_millis(2000)).push(false).wait(1);
    let store = RedisStore::open(config).await.unwrap();
    let (key, factory) = (Key::new("k").unwrap(), RecordFactory::new());
    let first = at_last(async || store.write(factory.if_vacant(&key, factory.held(5))).await).await;
    let Outcome::Won { version, .. } = first else { panic!("{first:?}") };
    replica.signal("-STOP");
    proxy.cut();
    let error = store.write(factory.unchanged(&key, version, factory.held(6))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    proxy.pass();
    let error = store.read(&key).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    replica.signal("-CONT");
    assert_eq!(confirmed(&store, &key).await.fence, Fence(6));
}

/// Servers compare texts as their environment's language does.
#[tokio::test]
async fn s2_fences_grow_whatever_the_server_s_language_makes_of_letters() {
    let folder = tempfile::tempdir().unwrap();
    letters_before_digits(folder.path());
    let path = folder.path().display().to_string();
    let server = Server::of("redis-server", "", &[("LOCPATH", &path), ("LC_ALL", "letters_first")]);
    let compared = server.cli(&["EVAL", "return {'a' < '0', '0' < 'a'}", "0"]);
    assert!(compared.starts_with('1'), "the language is not used: {compared}");
    let store = RedisStore::open(at(&server.url(), "jobs").push(false)).await.unwrap();
    let (key, factory) = (Key::new("k").unwrap(), RecordFactory::new());
    for (last, floor) in [(0xa0, 0x9f), (0x9f, 0xa0), (0xff, 0xff), (0x1_0000_000a, 0x1_0000_0009)] {
        let key = Key::new(format!("{key}{last}")).unwrap();
        store.write(factory.absent(&key, factory.vacant(last))).await.unwrap();
        let written = store.write(factory.if_vacant(&key, factory.held(floor))).await.unwrap();
        let Outcome::Won { fence, .. } = written else { panic!("{written:?}") };
        assert_eq!(fence, Fence(floor.max(last + 1)), "after {last}");
        assert_eq!(store.read(&key).await.unwrap().unwrap().record.fence, fence);
    }
}

/// A clock that was never set shows a time with fewer digits, which would move all that follows in a record.
#[test]
fn a_record_s_time_has_all_its_digits_whatever_the_server_s_clock_shows() {
    let server = Server::start("");
    for (seconds, micros, time) in [
        ("1700000000", "123456", "1700000000123456"),
        ("999999999", "5", "0999999999000005"),
        ("0", "0", "0000000000000000"),
    ] {
        let clock =
            format!("local redis = {{ call = function() return {{ '{seconds}', '{micros}' }} end }}\n");
        let script = format!("{clock}{}return now", include_str!("../src/scripts/common.lua"));
        assert_eq!(server.cli(&["EVAL", &script, "0"]), time);
    }
}

/// Makes a language in which letters stand before digits, as in Czech, of nothing that a machine may lack.
fn letters_before_digits(folder: &std::path::Path) {
    let symbols = |bytes: std::ops::RangeInclusive<u8>| {
        bytes.map(|byte| format!("<U{byte:04X}>\n")).collect::<String>()
    };
    let order = symbols(b'a'..=b'z') + &symbols(b'0'..=b'9');
    let source = format!(
        "comment_char %\nescape_char /\nLC_COLLATE\norder_start forward\n{order}order_end\nEND LC_COLLATE\n"
    );
    let chars: String = (0..128).map(|byte| format!("<U{byte:04X}> /x{byte:02x} C{byte}\n")).collect();
    let chars =
        format!("<code_set_name> ASCII\n<comment_char> %\n<escape_char> /\nCHARMAP\n{chars}END CHARMAP\n");
    let (source_file, chars_file) = (folder.join("source"), folder.join("chars"));
    std::fs::write(&source_file, source).unwrap();
    std::fs::write(&chars_file, chars).unwrap();
    // It warns of all that a language has besides, and says so by its status.
    let made = std::process::Command::new("localedef")
        .args(["-c", "--no-archive", "-i"])
        .arg(&source_file)
        .arg("-f")
        .arg(&chars_file)
        .arg(folder.join("letters_first"))
        .output()
        .unwrap();
    assert!(folder.join("letters_first/LC_COLLATE").exists(), "{made:?}");
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
    let (factory, key, other) = (RecordFactory::new(), Key::new("k").unwrap(), Key::new("other").unwrap());
    // It has the script from then on.
    at_last(async || store.write(factory.absent(&other, factory.held(5))).await).await;
    primary.signal("-STOP");
    let mut written = Box::pin(store.write(factory.absent(&key, factory.held(5))));
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
    let (old, lost, factory) = (Key::new("old").unwrap(), Key::new("lost").unwrap(), RecordFactory::new());
    let clock = 1_700_000_000_000;
    store.write(factory.absent(&old, factory.vacant(clock))).await.unwrap();
    until("it is replicated", || replica.cli(&["HLEN", "tenure:{jobs}:records"]) == "1").await;
    proxy.stall();
    let before = store.write(factory.if_vacant(&old, factory.held(clock + 10))).await.unwrap();
    let Outcome::Won { fence: first, .. } = before else { panic!("{before:?}") };
    assert!(matches!(
        store.write(factory.absent(&lost, factory.held(clock + 10))).await.unwrap(),
        Outcome::Won { .. }
    ));
    primary.kill();
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    // Seconds later, by sane clocks.
    let mut again = store.write(factory.if_vacant(&old, factory.held(clock + 2_000))).await;
    for _ in 0..100 {
        if again.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        again = store.write(factory.if_vacant(&old, factory.held(clock + 2_000))).await;
    }
    let Ok(Outcome::Won { fence: second, .. }) = again else { panic!("the lease was not lost: {again:?}") };
    assert!(second > first, "{second} after {first}");
    assert_eq!(store.read(&lost).await.unwrap(), None, "what lagged is gone");
}

/// It refuses writes for ever, and says nothing of the one that was promoted.
#[tokio::test]
async fn a_primary_that_takes_no_writes_is_left_for_one_that_does() {
    let primary = Server::start("--min-replicas-to-write 0 --repl-diskless-sync-delay 0");
    let proxy = Proxy::before(primary.port).await;
    let replica = replica_of(primary.port).await;
    let [alone, both] = [proxy.url(), format!("{},127.0.0.1:{}", proxy.url(), replica.port)];
    let (factory, key) = (RecordFactory::new(), Key::new("k").unwrap());
    let stores = [
        RedisStore::open(at(&alone, "jobs").push(false)).await.unwrap(),
        RedisStore::open(at(&both, "jobs").push(false)).await.unwrap(),
    ];
    let written = stores[0].write(factory.if_vacant(&key, factory.held(5))).await.unwrap();
    let Outcome::Won { version, .. } = written else { panic!("{written:?}") };
    until("it is replicated", || replica.cli(&["HLEN", "tenure:{jobs}:records"]) == "1").await;
    primary.cli(&["CONFIG", "SET", "min-replicas-to-write", "2"]);
    // No other one takes writes yet.
    for (store, most) in stores.iter().zip([0, 50]) {
        let before = proxy.connections();
        for _ in 0..100 {
            let error = store.write(factory.unchanged(&key, version, factory.held(6))).await.unwrap_err();
            assert!(error.is_passing() && error.to_string().contains("NOREPLICAS"), "{error}");
        }
        assert!(proxy.connections() - before <= most, "it is looked for again and again");
    }
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    let store = &stores[1];
    let renewed =
        at_last(async || store.write(factory.unchanged(&key, version, factory.held(6))).await).await;
    assert!(matches!(renewed, Outcome::Won { .. }), "{renewed:?}");
    // Whoever comes finds it, whichever of them answers first.
    for round in 0..10 {
        let both = format!("{},127.0.0.1:{}", primary.url(), replica.port);
        let store = RedisStore::open(at(&both, "jobs").push(false)).await.unwrap();
        let key = Key::new(format!("k{round}")).unwrap();
        let written = at_last(async || store.write(factory.if_vacant(&key, factory.held(5))).await).await;
        assert!(matches!(written, Outcome::Won { .. }), "{written:?}");
    }
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
    let (key, factory) = (Key::new("k").unwrap(), RecordFactory::new());
    let Outcome::Won { version, fence } =
        store.write(factory.if_vacant(&key, factory.held(5))).await.unwrap()
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
    let renewed =
        at_last(async || store.write(factory.unchanged(&key, version, factory.held(5))).await).await;
    let Outcome::Won { version, .. } = renewed else { panic!("what was replicated is gone: {renewed:?}") };
    let released = store.write(factory.unchanged(&key, version, factory.vacant(fence.0))).await.unwrap();
    assert!(matches!(released, Outcome::Won { .. }));
    let taken = store.write(factory.if_vacant(&key, factory.held(1))).await.unwrap();
    assert!(matches!(taken, Outcome::Won { fence: next, .. } if next > fence), "{taken:?}");
}
