//! What goes wrong on the way: members that die, fall silent and come back, a majority that is missing, a history that is another one.
//!
//! Plan: a write whose answer is cut off is unknown, and never sent again; increments through members that are killed in turn are all there, once; a silent
//! member is left for another; a subscription that ends moves no calls, and goes where calls go; without a majority calls fail in time and nothing goes back after it; hints go on from
//! where they ended, and over what was compacted; a version of a history that is gone wins nothing, and nothing is had of another cluster.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::cluster::{Cluster, LONG};
use crate::support::relay::Relay;
use std::time::Duration;
use tenure_core::op::Hint;
use tenure_core::{ErrorKind, Fence, Key, Record, StoreError};
use tenure_etcd::{EtcdConfig, EtcdStore};
use tenure_store::{Changes, Freshness, Outcome, Store, StoreExt};
use tenure_testkit::RecordFactory;

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

async fn store(url: &str, more: &str) -> EtcdStore {
    EtcdStore::open(EtcdConfig::from_url(&format!("{url}{more}")).unwrap()).await.unwrap()
}

/// Repeats a call until it is answered; what goes wrong until then must be passing.
async fn insist<T, F: Future<Output = Result<T, StoreError>>>(mut call: impl FnMut() -> F) -> T {
    let answered = async {
        loop {
            match call().await {
                Ok(answer) => return answer,
                Err(error) => assert!(error.is_passing(), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, answered).await.expect("it is never answered")
}

/// One increment, whatever becomes of the answers: a write whose fate is not known is found out by its nonce.
async fn increment(store: &EtcdStore, factory: &RecordFactory, key: &Key) {
    let mut standing = insist(|| store.read(key)).await.expect("it stands");
    loop {
        let record = factory.vacant(standing.record.fence.0 + 1);
        match store.write(factory.unchanged(key, standing.version, record.clone())).await {
            Ok(Outcome::Won { .. }) => return,
            Ok(Outcome::Lost(now)) => standing = now.expect("it stands"),
            Err(error) => {
                assert!(error.is_passing(), "{error}");
                let now = insist(|| store.read(key)).await.expect("it stands");
                if now.record == record {
                    return;
                }
                if error.kind() == ErrorKind::Unknown && now.version == standing.version {
                    // It may still come: a write of another version makes that impossible.
                    let same = Record { nonce: factory.nonce(), ..now.record.clone() };
                    let over =
                        insist(|| store.write(factory.unchanged(key, now.version, same.clone()))).await;
                    if matches!(&over, Outcome::Lost(Some(now)) if now.record == record) {
                        return;
                    }
                    standing = insist(|| store.read(key)).await.expect("it stands");
                    continue;
                }
                standing = now;
            }
        }
    }
}

/// Both ways lead to the same member: sent by the other one, too, the write would meet itself, and be told that it lost.
#[tokio::test]
async fn a_write_whose_answer_is_cut_off_is_unknown_and_not_sent_again() {
    let cluster = Cluster::start(1).await;
    let relays = [Relay::start(cluster.port()).await, Relay::start(cluster.port()).await];
    let [one, other] = [relays[0].port, relays[1].port];
    let store = store(&format!("etcd://127.0.0.1:{one},127.0.0.1:{other}/t"), "").await;
    let (factory, key) = (RecordFactory::new(), key("k"));
    let mut standing = factory.held(5);
    assert!(matches!(
        store.write(factory.absent(&key, standing.clone())).await.unwrap(),
        Outcome::Won { .. }
    ));
    for round in 0..4 {
        let record = factory.held(5);
        let kept_back = || relays.iter().map(Relay::kept_back).sum::<u32>();
        let before = kept_back();
        relays.iter().for_each(|relay| relay.cut(true));
        let write = factory.unchanged(&key, standing.version(), record.clone());
        let error = match round % 2 {
            0 => store.write(write).await.unwrap_err(),
            _ => store.write_many(vec![write]).await.unwrap_err(),
        };
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
        assert_eq!(kept_back() - before, 1, "it was sent again");
        relays.iter().for_each(|relay| relay.cut(false));
        assert_eq!(insist(|| store.read(&key)).await.unwrap().record, record, "it had landed");
        standing = record;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_die_and_come_back_lose_nothing() {
    let mut cluster = Cluster::start(3).await;
    let (store, factory, key) =
        (store(&cluster.url(), "?timeout-ms=3000").await, RecordFactory::new(), key("count"));
    insist(|| store.write(factory.if_vacant(&key, factory.vacant(1)))).await;
    let mut count = 1;
    for member in [0, 1, 2, 0] {
        cluster.kill(member);
        for _ in 0..5 {
            increment(&store, &factory, &key).await;
            count += 1;
        }
        cluster.begin(member);
        cluster.answers(member).await;
        assert_eq!(insist(|| store.read(&key)).await.unwrap().record.fence, Fence(count), "member {member}");
    }
}

#[tokio::test]
async fn a_silent_member_is_left_for_another() {
    let cluster = Cluster::start(3).await;
    // It begins with the one that is going to be silent, as all others are alike to it.
    let store = store(&cluster.url(), "?timeout-ms=6000").await;
    let (factory, key) = (RecordFactory::new(), key("k"));
    let Outcome::Won { version, .. } = insist(|| store.write(factory.if_vacant(&key, factory.held(5)))).await
    else {
        panic!("nothing stood there")
    };
    for member in 0..3 {
        cluster.signal(member, "STOP");
        // Within one call, of whichever member it asks first. A new leader may have to be found.
        let standing = insist(|| store.read(&key)).await.expect("it stands");
        assert_eq!(standing.version, version);
        cluster.signal(member, "CONT");
        cluster.answers(member).await;
    }
    // A caller that waits no longer leaves the silent one, too.
    for member in 0..3 {
        cluster.signal(member, "STOP");
        let answered = async {
            loop {
                let read = tokio::time::timeout(Duration::from_millis(200), store.read(&key)).await;
                if let Ok(Ok(standing)) = read {
                    return standing.expect("it stands").version;
                }
            }
        };
        assert_eq!(
            tokio::time::timeout(LONG, answered).await.expect("it stays with the silent one"),
            version
        );
        cluster.signal(member, "CONT");
        cluster.answers(member).await;
    }
}

#[tokio::test]
async fn a_minority_answers_nothing_and_takes_nothing_back() {
    let mut cluster = Cluster::start(3).await;
    // Whichever member they ask first, what the one that is left says is told, not that the others can't be reached.
    let mut stores = Vec::new();
    for order in [[0, 1, 2], [1, 2, 0], [2, 0, 1]] {
        stores.push(store(&cluster.url_of(&order), "?timeout-ms=1500").await);
    }
    let (store, factory, key) = (&stores[0], RecordFactory::new(), key("k"));
    let Outcome::Won { version, fence } =
        insist(|| store.write(factory.if_vacant(&key, factory.held(5)))).await
    else {
        panic!("nothing stood there")
    };
    cluster.kill(0);
    cluster.kill(1);
    // The one that is left may believe for a moment that it leads.
    let release = factory.unchanged(&key, version, factory.vacant(fence.0));
    for store in stores.iter().chain(&stores) {
        let read = tokio::time::timeout(LONG, store.read(&key)).await.unwrap();
        let write = tokio::time::timeout(LONG, store.write(release.clone())).await.unwrap();
        let error = write.expect_err("a minority took a write");
        assert!(
            error.is_passing() && error.to_string().contains("majority")
                || error.kind() == ErrorKind::Unknown,
            "{error}"
        );
        if let Ok(standing) = read {
            panic!("a minority answered: {standing:?}");
        }
    }
    // Once it has noticed, it doesn't even tell what it knew last.
    let gives_up = async {
        while store.read_many(std::slice::from_ref(&key), Freshness::Recent).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, gives_up).await.expect("a minority tells old states for ever");
    let opening =
        EtcdStore::open(EtcdConfig::from_url(&format!("{}?timeout-ms=1500", cluster.url())).unwrap()).await;
    assert_eq!(opening.map(drop).unwrap_err().kind(), ErrorKind::Unavailable);
    cluster.begin(0);
    cluster.begin(1);
    let standing = insist(|| store.read(&key)).await.expect("it stands");
    assert!(standing.version == version || standing.record.tenure.is_none(), "{standing:?}");
    if standing.record.tenure.is_some() {
        insist(|| store.write(release.clone())).await;
    }
    let Outcome::Won { fence: next, .. } =
        insist(|| store.write(factory.if_vacant(&key, factory.held(1)))).await
    else {
        panic!("it was vacant")
    };
    assert!(next > fence, "{next} after {fence}");
}

/// Waits for a hint.
async fn hinted(changes: &mut Changes, wanted: &Hint) {
    let told = async { while changes.recv().await.expect("the hints ended") != *wanted {} };
    tokio::time::timeout(LONG, told).await.unwrap_or_else(|_| panic!("no {wanted:?} came"));
}

async fn write_one(store: &EtcdStore, factory: &RecordFactory, text: &str) -> Hint {
    let record = factory.vacant(1);
    let version = record.version();
    let outcome = insist(|| store.write(factory.if_vacant(&key(text), record.clone()))).await;
    assert!(matches!(outcome, Outcome::Won { .. }), "{outcome:?}");
    Hint::Written(key(text), version)
}

#[tokio::test]
async fn hints_go_on_from_where_they_ended_and_over_what_was_compacted() {
    let mut cluster = Cluster::start(3).await;
    let (listener, writer, factory) = (
        store(&cluster.url_of(&[0]), "").await,
        store(&cluster.url_of(&[1, 2]), "").await,
        RecordFactory::new(),
    );
    let mut changes = listener.changed("k").unwrap();
    hinted(&mut changes, &Hint::Any).await;
    let before = write_one(&writer, &factory, "k-before").await;
    hinted(&mut changes, &before).await;
    cluster.kill(0);
    let meanwhile = write_one(&writer, &factory, "k-meanwhile").await;
    cluster.begin(0);
    hinted(&mut changes, &meanwhile).await;
    // The same with more than the 4 MiB that a message is usually allowed.
    cluster.kill(0);
    let large = |round: u32| {
        let mut record = factory.vacant(1);
        record.metadata.insert("much".into(), "x".repeat(8_000).as_str().into());
        factory.if_vacant(&key(&format!("k-{round}")), record)
    };
    let writes: Vec<_> = (0..700).map(large).collect();
    let written = insist(|| writer.write_all(writes.clone())).await;
    assert!(written.iter().all(|outcome| matches!(outcome, Outcome::Won { .. })));
    let last = write_one(&writer, &factory, "k-last").await;
    cluster.begin(0);
    hinted(&mut changes, &last).await;
    // Now the same with a history that is gone by the time that the member is back.
    cluster.kill(0);
    for round in 0..3 {
        write_one(&writer, &factory, &format!("k-more-{round}")).await;
    }
    let latest = listener_revision(&cluster);
    cluster.by_hand_of(1, &["compact", &latest.to_string()]);
    cluster.begin(0);
    hinted(&mut changes, &Hint::Any).await;
    let after = write_one(&writer, &factory, "k-after").await;
    hinted(&mut changes, &after).await;
}

/// Each relay is a member to the store, which connects to one of them only when calls go there.
#[tokio::test]
async fn a_subscription_that_ends_leaves_calls_at_their_member() {
    let cluster = Cluster::start(1).await;
    let relays = [Relay::start(cluster.port()).await, Relay::start(cluster.port()).await];
    let [one, other] = [relays[0].port, relays[1].port];
    // So that no busy machine makes it move.
    let store = store(&format!("etcd://127.0.0.1:{one},127.0.0.1:{other}/t"), "?timeout-ms=60000").await;
    for stands in [true, false, true, false] {
        let mut changes = store.changed("k").unwrap();
        if stands {
            hinted(&mut changes, &Hint::Any).await;
        } else {
            // It is being opened meanwhile.
            tokio::task::yield_now().await;
        }
        drop(changes);
        for _ in 0..10 {
            store.read(&key("k")).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    assert_eq!(relays.iter().map(Relay::accepted).sum::<u32>(), 1, "the healthy member was left");
}

/// As of a member that hangs on its disk: it answers pings, so the connection stays.
#[tokio::test]
async fn a_watch_follows_calls_to_another_member() {
    let cluster = Cluster::start(1).await;
    let relays = [Relay::start(cluster.port()).await, Relay::start(cluster.port()).await];
    let [one, other] = [relays[0].port, relays[1].port];
    let listener = store(&format!("etcd://127.0.0.1:{one},127.0.0.1:{other}/t"), "?timeout-ms=2000").await;
    let (writer, factory) = (store(&cluster.url(), "").await, RecordFactory::new());
    let mut changes = listener.changed("k").unwrap();
    hinted(&mut changes, &Hint::Any).await;
    relays.iter().filter(|relay| relay.accepted() > 0).for_each(Relay::mute);
    let name = key("k");
    insist(|| listener.read(&name)).await;
    let written = write_one(&writer, &factory, "k").await;
    hinted(&mut changes, &written).await;
}

/// The cluster's latest revision, as its second member tells it.
fn listener_revision(cluster: &Cluster) -> u64 {
    let told =
        String::from_utf8(cluster.by_hand_of(1, &["endpoint", "status", "--write-out", "json"])).unwrap();
    let digits = told.split("\"revision\":").nth(1).unwrap();
    digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// As by a mistake in the URL, or a name that leads elsewhere by now.
#[tokio::test]
async fn what_another_cluster_answers_is_no_answer() {
    let mut clusters = [Cluster::start(1).await, Cluster::start(1).await];
    let both = format!("etcd://127.0.0.1:{},127.0.0.1:{}/t", clusters[0].port(), clusters[1].port());
    let store = store(&both, "").await;
    let (factory, key) = (RecordFactory::new(), key("k"));
    insist(|| store.write(factory.absent(&key, factory.held(5)))).await;
    let hazards = store.inspect().await;
    assert!(hazards.hazards().any(|hazard| hazard.contains("of several clusters")), "{hazards:?}");
    let is_here = |cluster: &Cluster| cluster.by_hand(&["get", "t:k", "--keys-only"]).starts_with(b"t:k");
    let here = if is_here(&clusters[0]) { 0 } else { 1 };
    clusters[here].kill(0);
    let error = store.read(&key).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("another cluster"), "{error}");
    let error = store.write(factory.absent(&key, factory.held(5))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    clusters[here].begin(0);
    let standing = insist(|| store.read(&key)).await.expect("it stands");
    assert_eq!(standing.record.fence, Fence(5));
}

/// A cluster that was made anew counts its revisions anew: the same one is that of another write.
#[tokio::test]
async fn a_version_of_a_history_that_is_gone_wins_nothing() {
    let mut cluster = Cluster::start(1).await;
    let (stale, factory, key) = (store(&cluster.url(), "").await, RecordFactory::new(), key("k"));
    let Outcome::Won { version, .. } = stale.write(factory.absent(&key, factory.held(5))).await.unwrap()
    else {
        panic!("nothing stood there")
    };
    let revision = listed_revision(&cluster, "t:k");
    cluster.kill(0);
    cluster.forget(0);
    cluster.begin(0);
    cluster.answers(0).await;
    let fresh = store(&cluster.url(), "").await;
    let record = factory.held(5);
    assert!(matches!(fresh.write(factory.absent(&key, record.clone())).await.unwrap(), Outcome::Won { .. }));
    assert_eq!(listed_revision(&cluster, "t:k"), revision, "the test needs the same revision");
    let outcome = insist(|| stale.write(factory.unchanged(&key, version, factory.held(5)))).await;
    assert!(matches!(&outcome, Outcome::Lost(Some(standing)) if standing.record == record), "{outcome:?}");
}

fn listed_revision(cluster: &Cluster, name: &str) -> String {
    let told = String::from_utf8(cluster.by_hand(&["get", name, "--write-out", "fields"])).unwrap();
    told.lines().find(|line| line.starts_with("\"ModRevision\"")).expect("it stands").to_owned()
}
