//! What goes wrong on the way: servers that die, hang and forget, connections that end, answers that don't come.
//!
//! Plan: a server that is killed comes back with all it has answered for; one that is stopped, and one behind a dead connection, is
//! given up in time, by whoever waits and by whoever doesn't; callers who go away at once cost no connection, and one on which answers
//! come after all is used again; a write under way is unknown, and found by reading; scripts that are
//! forgotten are sent again; hints go on after their connection has ended; records and index that are deleted by hand cost what the
//! documentation says, and no more; a server that came back empty, and is looked at; fences that no number of Lua's can hold; a value of which the digest alone is wrong.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::proxy::Proxy;
use crate::support::{LONG, Server, at, at_last, next, subscribed, unique, until};
use futures_util::FutureExt;
use std::time::Duration;
use tenure_core::op::Hint;
use tenure_core::{ErrorKind, Fence, Key, Version};
use tenure_redis::RedisStore;
use tenure_store::{Freshness, Outcome, Store, StoreExt, Write};
use tenure_testkit::{RecordFactory, hinted};

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

async fn won(store: &RedisStore, write: Write) -> (Version, Fence) {
    match store.write(write).await.unwrap() {
        Outcome::Won { version, fence } => (version, fence),
        Outcome::Lost(standing) => panic!("lost to {standing:?}"),
    }
}

#[tokio::test]
async fn what_was_answered_outlives_a_killed_server_that_syncs_its_file() {
    let mut server = Server::start("--appendonly yes --appendfsync always");
    let store = RedisStore::open(at(&server.url(), "jobs")).await.unwrap();
    let factory = RecordFactory::new();
    for round in 0..3 {
        let name = key(&format!("k{round}"));
        let (version, _) = won(&store, factory.absent(&name, factory.held(5))).await;
        server.kill();
        let error = store.write(factory.unchanged(&name, version, factory.vacant(5))).await.unwrap_err();
        assert!(error.is_passing(), "{error}");
        server.restart();
        // The new process knows no script.
        let standing = at_last(async || store.read(&name).await).await.unwrap();
        assert_eq!(standing.version, version, "a write that was answered is gone");
        won(&store, factory.unchanged(&name, version, factory.vacant(5))).await;
    }
}

#[tokio::test]
async fn forgotten_scripts_are_sent_again() {
    let server = Server::start("");
    let store = RedisStore::open(at(&server.url(), "jobs")).await.unwrap();
    let (factory, name) = (RecordFactory::new(), key("k"));
    let forget = || assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
    forget();
    let (version, _) = won(&store, factory.absent(&name, factory.vacant(5))).await;
    forget();
    let (version, _) = won(&store, factory.unchanged(&name, version, factory.vacant(6))).await;
    forget();
    assert_eq!(store.read_many(std::slice::from_ref(&name), Freshness::Latest).await.unwrap().len(), 1);
    forget();
    assert_eq!(store.list_all("").await.unwrap().len(), 1);
    forget();
    let seen = store.image(&name).await.unwrap().unwrap();
    forget();
    assert!(store.mend(&name, &seen, Some(factory.vacant(7))).await.unwrap());
    forget();
    assert!(!store.remove(&name, version).await.unwrap());
    // By its digest from then on: nothing else is executed as a whole.
    store.read(&name).await.unwrap();
    let calls = || server.cli(&["INFO", "commandstats"]);
    let evals = |text: &str| text.lines().find(|line| line.starts_with("cmdstat_eval:")).map(str::to_owned);
    let before = evals(&calls());
    store.read(&name).await.unwrap();
    assert_eq!(evals(&calls()), before);
}

#[tokio::test]
async fn a_server_that_is_stopped_is_given_up_in_time_and_used_when_it_goes_on() {
    let server = Server::start("");
    let patient = at(&server.url(), "jobs").timeout(Duration::from_millis(300));
    let (store, factory, name) = (RedisStore::open(patient).await.unwrap(), RecordFactory::new(), key("k"));
    let (version, _) = won(&store, factory.absent(&name, factory.held(5))).await;
    server.signal("-STOP");
    let late = factory.unchanged(&name, version, factory.held(6));
    let error = store.write(late).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    // From now on there is no connection, so nothing is sent.
    let error = store.write(factory.unchanged(&name, version, factory.held(7))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let error = store.read(&name).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    server.signal("-CONT");
    let standing = at_last(async || store.read(&name).await).await.unwrap();
    assert!([5, 6].contains(&standing.record.fence.0), "{standing:?}");
    won(&store, factory.unchanged(&name, standing.version, factory.held(8))).await;
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_is_unknown_and_found_by_reading() {
    let server = Server::start("");
    let proxy = Proxy::before(server.port).await;
    let store = RedisStore::open(at(&proxy.url(), "jobs").push(false)).await.unwrap();
    let (factory, name) = (RecordFactory::new(), key("k"));
    won(&store, factory.absent(&name, factory.vacant(40))).await;
    let record = factory.held(5);
    let write = factory.if_vacant(&name, record.clone());
    proxy.cut();
    let error = store.write(write.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    proxy.pass();
    let standing = store.read(&name).await.unwrap().unwrap();
    assert_eq!((standing.record.nonce, standing.record.fence), (record.nonce, Fence(41)));
    // The same again loses, to itself.
    let Outcome::Lost(Some(found)) = store.write(write.clone()).await.unwrap() else {
        panic!("it won twice")
    };
    assert_eq!(found.version, standing.version);
    // What comes late, after the end of that tenure, is another write, and by its version known as such.
    won(&store, factory.unchanged(&name, standing.version, factory.vacant(41))).await;
    let (version, fence) = won(&store, write).await;
    assert!(version != standing.version && fence == Fence(42));
    // A batch, too: any of it may have taken effect.
    proxy.cut();
    let batch = (0..3).map(|n| factory.absent(&key(&format!("b{n}")), factory.held(1))).collect();
    let error = store.write_many(batch).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    proxy.pass();
    assert_eq!(store.list_all("b").await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_dead_connection_is_given_up_also_by_callers_who_don_t_wait() {
    let server = Server::start("");
    let proxy = Proxy::before(server.port).await;
    let store = RedisStore::open(at(&proxy.url(), "jobs").push(false)).await.unwrap();
    let (factory, name) = (RecordFactory::new(), key("k"));
    won(&store, factory.absent(&name, factory.held(5))).await;
    proxy.stall();
    // It takes much less time than the store's own limit.
    let read = store.read(&name);
    assert!(tokio::time::timeout(Duration::from_millis(50), read).await.is_err());
    proxy.pass();
    // What was sent on the old connection is lost in it.
    let read = tokio::time::timeout(Duration::from_secs(2), store.read(&name)).await;
    assert!(read.expect("the dead connection is still in use").unwrap().is_some());
}

#[tokio::test]
async fn callers_who_go_away_at_once_cost_no_connection() {
    let server = Server::start("");
    let proxy = Proxy::before(server.port).await;
    let store = RedisStore::open(at(&proxy.url(), "jobs").push(false)).await.unwrap();
    let (factory, name) = (RecordFactory::new(), key("k"));
    won(&store, factory.absent(&name, factory.held(5))).await;
    let before = proxy.connections();
    for _ in 0..20 {
        // Sent, and dropped before the answer.
        assert!(store.read(&name).now_or_never().is_none());
        assert!(store.read(&name).await.unwrap().is_some(), "answers are mixed up");
    }
    assert_eq!(proxy.connections(), before);
}

/// As a lease with a short ttl gives up each call.
#[tokio::test]
async fn a_silent_connection_is_left_though_nobody_waits_for_long() {
    let server = Server::start("");
    let proxy = Proxy::before(server.port).await;
    let config = at(&proxy.url(), "jobs").push(false).timeout(Duration::from_secs(60));
    let store = RedisStore::open(config).await.unwrap();
    let name = key("k");
    assert!(store.read(&name).await.unwrap().is_none());
    let before = proxy.connections();
    proxy.stall();
    for _ in 0..100 {
        assert!(tokio::time::timeout(Duration::from_millis(50), store.read(&name)).await.is_err());
        if proxy.connections() > before {
            return;
        }
    }
    panic!("it stays with the silent one");
}

/// No other one is to be had.
#[tokio::test]
async fn a_connection_that_was_given_up_and_answers_after_all_is_used_again() {
    let server = Server::start("");
    let store = RedisStore::open(at(&server.url(), "jobs").push(false)).await.unwrap();
    let (factory, name) = (RecordFactory::new(), key("k"));
    won(&store, factory.absent(&name, factory.held(5))).await;
    server.signal("-STOP");
    let read = store.read(&name);
    assert!(tokio::time::timeout(Duration::from_millis(200), read).await.is_err());
    server.signal("-CONT");
    // The test's own comes and goes.
    server.cli(&["CONFIG", "SET", "maxclients", "1"]);
    assert!(at_last(async || store.read(&name).await).await.is_some());
    won(&store, factory.if_vacant(&key("other"), factory.held(5))).await;
}

/// All who waited for it have gone by then.
#[tokio::test]
async fn the_failure_of_an_attempt_is_not_told_to_who_comes_later() {
    let server = Server::start("");
    let proxy = Proxy::before(server.port).await;
    let config = at(&proxy.url(), "jobs").push(false).timeout(Duration::from_millis(500));
    let store = RedisStore::open(config).await.unwrap();
    proxy.stall();
    assert!(store.read(&key("k")).await.is_err(), "the connection is retired");
    let before = proxy.connections();
    assert!(tokio::time::timeout(Duration::from_millis(50), store.read(&key("k"))).await.is_err());
    assert_eq!(proxy.connections(), before + 1, "an attempt is begun");
    proxy.pass();
    // Longer than an attempt takes.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(store.read(&key("k")).await.unwrap(), None);
}

/// One attempt to connect serves all, and goes on without them: none waits for the attempts of others before it, and short patience
/// is no obstacle.
#[tokio::test]
async fn a_server_that_hangs_is_waited_for_by_all_at_once() {
    let server = Server::start("");
    let proxy = Proxy::before(server.port).await;
    let config = at(&proxy.url(), "jobs").push(false).timeout(Duration::from_millis(1500));
    let store = RedisStore::open(config).await.unwrap();
    proxy.stall();
    assert!(store.read(&key("k")).await.is_err(), "the connection is retired");
    let all = futures_util::future::join_all((0..20).map(|_| async { store.read(&key("k")).await }));
    let answers = tokio::time::timeout(Duration::from_secs(10), all).await.expect("one after the other");
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap_err().kind() == ErrorKind::Unavailable));
    // The next attempt is one that stalls. While it does, nobody has the patience to see its end.
    let impatient = async || tokio::time::timeout(Duration::from_millis(5), store.read(&key("k"))).await;
    while impatient().await.is_ok() {}
    proxy.pass();
    let reading = async { while !impatient().await.is_ok_and(|read| read.is_ok()) {} };
    tokio::time::timeout(LONG, reading).await.expect("who has little patience is never connected");
}

#[tokio::test]
async fn connections_that_are_reset_are_made_again() {
    let server = Server::start("");
    let (store, factory) = (RedisStore::open(at(&server.url(), "jobs")).await.unwrap(), RecordFactory::new());
    for round in 0..10 {
        let (name, record) = (key(&format!("k{round}")), factory.held(5));
        server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        match at_last(async || store.write(factory.absent(&name, record.clone())).await).await {
            Outcome::Won { version, .. } => assert_eq!(version, record.version()),
            Outcome::Lost(standing) => {
                assert_eq!(standing.unwrap().record, record, "an unknown write had landed")
            }
        }
    }
}

/// Lua's numbers hold 53 bits, and fences 63.
#[tokio::test]
async fn large_fences_count_on_and_are_part_of_the_version() {
    let store = RedisStore::open(at(&crate::support::url(), &unique("fences"))).await.unwrap();
    let factory = RecordFactory::new();
    let last = (1 << 63) - 1;
    for (n, before) in [0xffff_ffff, 0x1_ffff_ffff, 1 << 53, (1 << 62) + 7, last - 1].into_iter().enumerate()
    {
        let name = key(&format!("k{n}"));
        let (version, _) = won(&store, factory.absent(&name, factory.vacant(before))).await;
        let (version, _) = won(&store, factory.unchanged(&name, version, factory.vacant(before))).await;
        let record = factory.held(5);
        let (taken, fence) = won(&store, factory.if_vacant(&name, record.clone())).await;
        assert_eq!((fence, taken), (Fence(before + 1), Version::of(record.nonce, fence)), "{before:x}");
        assert!(matches!(
            store.write(factory.unchanged(&name, version, factory.vacant(1))).await.unwrap(),
            Outcome::Lost(Some(standing)) if standing.version == taken
        ));
        won(&store, factory.unchanged(&name, taken, factory.vacant(before))).await;
    }
    // Whichever is higher counts.
    let (name, high) = (key("floor"), 0x3_0000_0000);
    won(&store, factory.absent(&name, factory.vacant(0x2_ffff_ffff))).await;
    assert_eq!(won(&store, factory.if_vacant(&name, factory.held(high + 9))).await.1, Fence(high + 9));
}

#[tokio::test]
async fn hints_go_on_after_their_connection_has_ended() {
    let mut server = Server::start("--appendonly yes");
    let config = || at(&server.url(), "jobs");
    let (writer, listener) =
        (RedisStore::open(config()).await.unwrap(), RedisStore::open(config()).await.unwrap());
    let mut changes = listener.changed("k").unwrap();
    hinted(&writer, &mut changes, "k-before").await;
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    hinted(&writer, &mut changes, "k-after").await;
    server.kill();
    // Long enough for an attempt or two that find nobody.
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.restart();
    at_last(async || writer.read(&key("k")).await).await;
    hinted(&writer, &mut changes, "k-restarted").await;
}

/// A message costs each subscriber as much as a call does.
#[tokio::test]
async fn nobody_is_subscribed_while_nobody_listens() {
    let server = Server::start("");
    let (store, factory) = (RedisStore::open(at(&server.url(), "jobs")).await.unwrap(), RecordFactory::new());
    let subscribers = || server.cli(&["PUBSUB", "NUMSUB", "tenure:{jobs}:changes:0"]);
    let are = |count: u32| move || subscribers().ends_with(&format!("\n{count}"));
    until("whoever has opened it is subscribed", are(0)).await;
    for round in 0..2 {
        let mut changes = store.changed("k").unwrap();
        // What was written before it is subscribed is not told, but for this.
        subscribed(&mut changes).await;
        assert!(are(1)(), "{}", subscribers());
        // Who comes later has the same connection.
        let mut other = store.changed("").unwrap();
        let name = key(&format!("k{round}"));
        let (version, _) = won(&store, factory.absent(&name, factory.vacant(5))).await;
        for changes in [&mut changes, &mut other] {
            assert_eq!(next(changes).await, Hint::Written(name.clone(), version));
        }
        drop(changes);
        let (version, _) = won(&store, factory.unchanged(&name, version, factory.vacant(5))).await;
        assert_eq!(next(&mut other).await, Hint::Written(name, version));
        drop(other);
        // It is noticed at the next message, or when there was none for a while.
        won(&store, factory.absent(&key(&format!("l{round}")), factory.vacant(5))).await;
        until("whoever listens no more is subscribed", are(0)).await;
    }
}

#[tokio::test]
async fn what_is_deleted_by_hand_is_gone_and_nothing_else() {
    let name = unique("deleted");
    let store = RedisStore::open(at(&crate::support::url(), &name)).await.unwrap();
    let (factory, cli) =
        (RecordFactory::new(), |words: &[&str]| crate::support::cli(&crate::support::url(), words));
    let (records, index) = (format!("tenure:{{{name}}}:records"), format!("tenure:{{{name}}}:index"));
    let names: Vec<Key> = (0..5).map(|n| key(&format!("k{n}"))).collect();
    for name in &names {
        won(&store, factory.absent(name, factory.held(5))).await;
    }
    let listed =
        async || store.list_all("").await.unwrap().into_iter().map(|listed| listed.key).collect::<Vec<_>>();
    // The index: it is made again.
    cli(&["DEL", &index]);
    assert_eq!(listed().await, names);
    cli(&["ZREM", &index, "k3"]);
    assert_eq!(listed().await, names);
    // One record: pages stay full.
    cli(&["HDEL", &records, "k1"]);
    cli(&["HSET", &records, "k9", "theirs"]);
    let page = store.list("", None, 3).await.unwrap();
    assert_eq!(page.iter().map(|listed| listed.key.as_str()).collect::<Vec<_>>(), ["k0", "k2", "k3"]);
    cli(&["HDEL", &records, "k9"]);
    // All records: every key is free, and the next fence is what its acquirer's clock says, no less.
    cli(&["DEL", &records]);
    assert_eq!(listed().await, []);
    let (_, fence) = won(&store, factory.if_vacant(&names[0], factory.held(1_700_000_000_000))).await;
    assert_eq!(fence, Fence(1_700_000_000_000));
    assert_eq!(listed().await, names[..1]);
}

/// Who runs goes on, and operators look just then.
#[tokio::test]
async fn what_was_written_since_a_server_came_back_empty_is_seen_by_who_only_looks() {
    let server = Server::start("");
    let old = RedisStore::open(at(&server.url(), "jobs")).await.unwrap();
    server.cli(&["FLUSHALL"]);
    let never = RedisStore::open(at(&server.url(), "jobs").create(false)).await.unwrap_err();
    assert!(never.to_string().contains("never used"), "{never}");
    let factory = RecordFactory::new();
    won(&old, factory.absent(&key("k"), factory.held(5))).await;
    let looking = RedisStore::open(at(&server.url(), "jobs").create(false)).await.unwrap();
    assert_eq!(looking.list_all("").await.unwrap().len(), 1);
    let new = RedisStore::open(at(&server.url(), "jobs")).await.unwrap();
    assert_eq!(looking.id(), new.id(), "one id from then on");
}

/// Its head agrees with its record, and yet it is not what was written: a flipped bit, or a hand's.
#[tokio::test]
async fn a_value_whose_digest_alone_is_wrong_is_foreign_and_can_be_removed() {
    let (url, name) = (crate::support::url(), unique("digest"));
    let (store, factory) = (RedisStore::open(at(&url, &name)).await.unwrap(), RecordFactory::new());
    let records = [(key("held"), factory.held(50)), (key("vacant"), factory.vacant(50))];
    let script = "local value = redis.call('HGET', KEYS[1], ARGV[1]) \
                  local digit = string.sub(value, 17, 17) == '0' and '1' or '0' \
                  local changed = string.sub(value, 1, 16) .. digit .. string.sub(value, 18) \
                  return redis.call('HSET', KEYS[1], ARGV[1], changed)";
    for (key, record) in &records {
        let (version, _) = won(&store, factory.absent(key, record.clone())).await;
        let hash = format!("tenure:{{{name}}}:records");
        assert_eq!(crate::support::cli(&url, &["EVAL", script, "1", &hash, key.as_str()]), "0");
        for error in [
            store.write(factory.unchanged(key, version, factory.held(50))).await.unwrap_err(),
            store.write(factory.if_vacant(key, factory.held(51))).await.unwrap_err(),
            store.remove(key, version).await.unwrap_err(),
            store.read(key).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        }
        let image = store.image(key).await.unwrap().unwrap();
        assert_eq!(image.record.as_ref().unwrap_err().kind(), ErrorKind::Foreign, "{key}");
        assert_eq!(image.fence, Some(Fence(50)));
    }
    let listed = store.list("", None, 10).await.unwrap();
    assert!(listed.len() == 2 && listed.iter().all(|one| one.stored.is_err()), "{listed:?}");
    for (key, _) in &records {
        let image = store.image(key).await.unwrap().unwrap();
        assert!(store.mend(key, &image, None).await.unwrap());
        won(&store, factory.if_vacant(key, factory.held(60))).await;
    }
}
