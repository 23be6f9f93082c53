//! A cluster of three.
//!
//! Plan: whoever is named, the namespace is found; while its slot moves from one server to another it is served, but for the moment at
//! which half of it has moved; one that is new waits for the end of the move; a replica that is elected is found, and fences grow over what
//! it has not received.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::proxy::Proxy;
use crate::support::{Server, at, at_last, client, cluster_url, unique, until};
use std::time::Duration;
use tenure_core::op::Hint;
use tenure_core::{ErrorKind, Key};
use tenure_redis::RedisStore;
use tenure_store::{Outcome, Store, StoreExt};
use tenure_testkit::RecordFactory;

/// URLs of the servers of a URL, each by itself.
pub(crate) fn members(cluster: &str) -> Vec<String> {
    let (scheme, hosts) = cluster.split_once("://").unwrap();
    let hosts = hosts.split('?').next().unwrap();
    hosts.split(',').map(|host| format!("{scheme}://{host}")).collect()
}

/// A call to one server only: `redis-cli -c` would follow it elsewhere.
pub(crate) fn on(member: &str, words: &[&str]) -> String {
    let output = client(member).args(words).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Who has what is of this name.
pub(crate) fn owner(members: &[String], name: &str) -> String {
    let is_owner = |member: &&String| !on(member, &["HGET", name, "x"]).starts_with("MOVED");
    members.iter().find(is_owner).unwrap().clone()
}

#[tokio::test]
async fn any_server_leads_to_the_namespace() {
    let (factory, members) = (RecordFactory::new(), members(&cluster_url()));
    // Some of these are on each of the three.
    for namespace in (0..6).map(|_| unique("spread")) {
        let mut ids = Vec::new();
        for (n, member) in members.iter().enumerate() {
            let store = RedisStore::open(at(member, &namespace)).await.unwrap();
            let key = Key::new(format!("k{n}")).unwrap();
            assert!(matches!(
                store.write(factory.if_vacant(&key, factory.held(5))).await,
                Ok(Outcome::Won { .. })
            ));
            assert_eq!(store.list_all("").await.unwrap().len(), n + 1);
            ids.push(store.id());
        }
        assert!(ids.iter().all(|id| *id == ids[0]));
    }
    let error = RedisStore::open(at(&format!("{}/1", members[0]), "x")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("/0"), "{error}");
}

struct Move {
    slot: String,
    names: [String; 3],
    from: String,
    to: String,
}

impl Move {
    /// The slot of a namespace begins to move to another server of a cluster.
    fn begin(cluster: &str, namespace: &str) -> Move {
        let names = ["records", "index", "meta"].map(|name| format!("tenure:{{{namespace}}}:{name}"));
        let members = members(cluster);
        let slot = on(&members[0], &["CLUSTER", "KEYSLOT", &names[0]]);
        let from = owner(&members, &names[0]);
        let to = members.iter().find(|member| **member != from).unwrap().clone();
        let id = |member: &str| on(member, &["CLUSTER", "MYID"]);
        assert_eq!(on(&to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(&from)]), "OK");
        assert_eq!(on(&from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(&to)]), "OK");
        Move { slot, names, from, to }
    }

    fn send(&self, names: &[String]) {
        let port = self.to.rsplit_once(':').unwrap().1;
        let mut words = vec!["MIGRATE", "127.0.0.1", port, "", "0", "5000", "KEYS"];
        words.extend(names.iter().map(String::as_str));
        assert_eq!(on(&self.from, &words), "OK");
    }

    fn finish(&self) {
        let id = on(&self.to, &["CLUSTER", "MYID"]);
        for member in [&self.to, &self.from] {
            assert_eq!(on(member, &["CLUSTER", "SETSLOT", &self.slot, "NODE", &id]), "OK");
        }
    }
}

impl Drop for Move {
    /// Back again, so that the next run finds the slots as they were.
    fn drop(&mut self) {
        let id = on(&self.from, &["CLUSTER", "MYID"]);
        for member in [&self.to, &self.from] {
            let [records, index, meta] = &self.names;
            on(member, &["DEL", records, index, meta]);
        }
        for member in [&self.from, &self.to] {
            on(member, &["CLUSTER", "SETSLOT", &self.slot, "NODE", &id]);
        }
    }
}

pub(crate) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

#[tokio::test]
async fn a_namespace_is_served_while_its_slot_moves() {
    is_served_while_its_slot_moves(&cluster_url()).await;
}

pub(crate) async fn is_served_while_its_slot_moves(cluster: &str) {
    let (factory, namespace) = (RecordFactory::new(), unique("moving"));
    let store = RedisStore::open(at(cluster, &namespace)).await.unwrap();
    let mut changes = store.changed("").unwrap();
    crate::support::subscribed(&mut changes).await;
    store.write(factory.absent(&key("a"), factory.held(5))).await.unwrap();
    let slot = Move::begin(cluster, &namespace);
    let written = store.write(factory.if_vacant(&key("b"), factory.vacant(5))).await.unwrap();
    let Outcome::Won { version, .. } = written else { panic!("{written:?}") };
    assert_eq!(crate::support::next(&mut changes).await, Hint::Written(key("b"), version));
    // Half of it is on the way: nothing is read then, and nothing is taken to be absent.
    slot.send(&slot.names[..1]);
    let error = store.read(&key("b")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("on its way"), "{error}");
    let error = store.write(factory.absent(&key("b"), factory.held(6))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    slot.send(&slot.names[1..]);
    // All of it is there, and the slot is still said to be here.
    assert_eq!(store.list_all("").await.unwrap().len(), 2);
    let written = store.write(factory.unchanged(&key("b"), version, factory.held(6))).await.unwrap();
    let Outcome::Won { version, .. } = written else { panic!("{written:?}") };
    slot.finish();
    assert_eq!(store.list_all("").await.unwrap().len(), 2);
    let written = store.write(factory.unchanged(&key("b"), version, factory.vacant(6))).await.unwrap();
    assert!(matches!(written, Outcome::Won { .. }));
}

#[tokio::test]
async fn a_new_namespace_waits_until_its_slot_has_moved() {
    let (factory, namespace) = (RecordFactory::new(), unique("moving"));
    let slot = Move::begin(&cluster_url(), &namespace);
    let store = RedisStore::open(at(&cluster_url(), &namespace)).await.unwrap();
    let error = store.write(factory.absent(&key("a"), factory.held(5))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    slot.finish();
    let written = store.write(factory.absent(&key("a"), factory.held(5))).await.unwrap();
    assert!(matches!(written, Outcome::Won { .. }));
    let again = RedisStore::open(at(&slot.from, &namespace)).await.unwrap();
    assert_eq!((again.id(), again.list_all("").await.unwrap().len()), (store.id(), 1));
}

/// Three primaries, which vote, and a replica of the first one, which has all slots but two.
pub(crate) async fn with_a_replica(start: fn(&str) -> Server) -> (Vec<Server>, Server) {
    let member = || {
        let bus = tenure_ports::unused_port().unwrap();
        start(&format!("--cluster-enabled yes --cluster-port {bus} --cluster-node-timeout 1000"))
    };
    let (primaries, replica) = (vec![member(), member(), member()], member());
    for (primary, slots) in primaries.iter().zip(["0 16381", "16382 16382", "16383 16383"]) {
        let words = format!("CLUSTER ADDSLOTSRANGE {slots}");
        primary.cli(&words.split(' ').collect::<Vec<_>>());
    }
    let bus = primaries[0].cli(&["CONFIG", "GET", "cluster-port"]);
    let (port, bus) = (primaries[0].port.to_string(), bus.lines().last().unwrap().to_owned());
    for other in primaries[1..].iter().chain([&replica]) {
        other.cli(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
    }
    let all = || primaries.iter().chain([&replica]);
    until("they know each other", || {
        all().all(|server| {
            let info = server.cli(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:4")
        })
    })
    .await;
    let id = primaries[0].cli(&["CLUSTER", "MYID"]);
    // It may not have heard yet that the other one is a primary.
    until("the replica is taken on", || on(&replica.url(), &["CLUSTER", "REPLICATE", &id]) == "OK").await;
    until("the replica follows", || {
        on(&replica.url(), &["INFO", "replication"]).contains("master_link_status:up")
    })
    .await;
    (primaries, replica)
}

#[tokio::test]
async fn a_failover_to_a_replica_is_followed_and_fences_grow_over_what_it_lost() {
    let (mut primaries, replica) = with_a_replica(Server::start).await;
    let named: Vec<String> = primaries.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    // The replica is not among those that are named.
    let config = at(&format!("redis://{}", named.join(",")), "jobs").timeout(Duration::from_millis(500));
    let (store, factory) = (RedisStore::open(config).await.unwrap(), RecordFactory::new());
    let clock = 1_700_000_000_000;
    let kept = store.write(factory.if_vacant(&key("kept"), factory.held(clock))).await.unwrap();
    let Outcome::Won { version, .. } = kept else { panic!("{kept:?}") };
    until("it is replicated", || records(&replica) == "1").await;
    // From here on it lags: what is granted now is lost.
    replica.signal("-STOP");
    primaries[0].cli(&["CLIENT", "KILL", "TYPE", "replica"]);
    let lost = store.write(factory.if_vacant(&key("lost"), factory.held(clock + 10))).await.unwrap();
    let Outcome::Won { fence: before, .. } = lost else { panic!("{lost:?}") };
    primaries[0].kill();
    replica.signal("-CONT");
    let renewal = async || store.write(factory.unchanged(&key("kept"), version, factory.held(clock))).await;
    let renewed = at_last(renewal).await;
    assert!(matches!(renewed, Outcome::Won { .. }), "what was replicated is gone: {renewed:?}");
    // Seconds later, by sane clocks.
    let again =
        at_last(async || store.write(factory.if_vacant(&key("lost"), factory.held(clock + 2_000))).await);
    let Outcome::Won { fence: after, .. } = again.await else { panic!("the lease was not lost") };
    assert!(after > before, "{after} after {before}");
}

/// One that stands still takes connections, and says nothing.
#[tokio::test]
async fn a_primary_that_stands_still_keeps_nobody_from_its_successor() {
    let (primaries, replica) = with_a_replica(Server::start).await;
    let named: Vec<String> = primaries.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    let config = at(&format!("redis://{}", named.join(",")), "jobs").timeout(Duration::from_secs(20));
    let (store, factory) = (RedisStore::open(config.push(false)).await.unwrap(), RecordFactory::new());
    let written = store.write(factory.if_vacant(&key("k"), factory.held(5))).await.unwrap();
    let Outcome::Won { version, .. } = written else { panic!("{written:?}") };
    until("it is replicated", || records(&replica) == "1").await;
    primaries[0].signal("-STOP");
    let read = tokio::time::timeout(Duration::from_millis(200), store.read(&key("k"))).await;
    assert!(read.is_err(), "{read:?}");
    until("the replica is elected", || on(&replica.url(), &["ROLE"]).starts_with("master")).await;
    let renewing =
        at_last(async || store.write(factory.unchanged(&key("k"), version, factory.held(6))).await);
    let renewed = tokio::time::timeout(Duration::from_secs(10), renewing).await;
    assert!(matches!(renewed, Ok(Outcome::Won { .. })), "{renewed:?}");
}

/// It answers for ever that it has no slot.
#[tokio::test]
async fn a_server_that_was_taken_out_of_the_cluster_is_left() {
    let (primaries, replica) = with_a_replica(Server::start).await;
    let url = format!("{},127.0.0.1:{}", primaries[0].url(), primaries[1].port);
    let store = RedisStore::open(at(&url, "jobs").push(false)).await.unwrap();
    let factory = RecordFactory::new();
    let written = store.write(factory.if_vacant(&key("k"), factory.held(5))).await.unwrap();
    let Outcome::Won { version, .. } = written else { panic!("{written:?}") };
    assert_eq!(on(&replica.url(), &["CLUSTER", "FAILOVER"]), "OK");
    let is_replica = || on(&primaries[0].url(), &["ROLE"]).starts_with("slave");
    until("it follows its successor", is_replica).await;
    assert_eq!(on(&primaries[0].url(), &["CLUSTER", "RESET", "HARD"]), "OK");
    let renewed =
        at_last(async || store.write(factory.unchanged(&key("k"), version, factory.held(6))).await).await;
    assert!(matches!(renewed, Outcome::Won { .. }), "{renewed:?}");
}

/// Members of a cluster in which nobody follows the first, which has all slots.
pub(crate) async fn one_has_all<const N: usize>(start: fn(&str) -> Server) -> [Server; N] {
    let members: [_; N] = std::array::from_fn(|_| {
        let bus = tenure_ports::unused_port().unwrap();
        let settings = "--cluster-enabled yes --cluster-node-timeout 60000";
        (start(&format!("{settings} --cluster-port {bus}")), bus.to_string())
    });
    let [(owner, bus), others @ ..] = members.as_slice() else { panic!("nobody has the slots") };
    owner.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    for (other, _) in others {
        other.cli(&["CLUSTER", "MEET", "127.0.0.1", &owner.port.to_string(), bus]);
    }
    for (other, _) in others {
        let is_up = || on(&other.url(), &["CLUSTER", "INFO"]).contains("cluster_state:ok");
        until("the cluster is up", is_up).await;
    }
    members.map(|(server, _)| server)
}

/// As in a container that announces an address of its own network.
#[tokio::test]
async fn an_owner_that_can_not_be_reached_is_told_with_its_remedy() {
    let [owner, other] = one_has_all(Server::start).await;
    owner.cli(&["CONFIG", "SET", "cluster-announce-ip", "10.255.255.1"]);
    let is_told = || on(&other.url(), &["CLUSTER", "NODES"]).contains("10.255.255.1");
    until("it is known by its announced address", is_told).await;
    let error = RedisStore::open(at(&other.url(), "jobs").push(false)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(
        error.to_string().contains("10.255.255.1") && error.to_string().contains("plain=accept"),
        "{error}"
    );
}

/// All others lead there: whoever is asked, it is no better.
#[tokio::test]
async fn an_owner_that_is_gone_has_calls_go_from_one_to_the_next_ever_more_seldom() {
    let [mut owner, b, c] = one_has_all(Server::start).await;
    let proxies = [Proxy::before(b.port).await, Proxy::before(c.port).await];
    let url = format!("{},127.0.0.1:{}", proxies[0].url(), proxies[1].port);
    let store = RedisStore::open(at(&url, "jobs").push(false)).await.unwrap();
    owner.kill();
    let connections = || proxies.iter().map(Proxy::connections).sum::<usize>();
    let before = connections();
    let calling = async {
        loop {
            let error = store.read(&key("k")).await.unwrap_err();
            assert!(error.is_passing(), "{error}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let over: Result<(), _> = tokio::time::timeout(Duration::from_secs(5), calling).await;
    assert!(over.is_err());
    // At first, and then after one second and after two more.
    let count = connections() - before;
    assert!(count <= 5, "{count} in 5 s");
    owner.restart();
    assert_eq!(at_last(async || store.read(&key("k")).await).await, None);
}

/// How many records the replica has, though it would send others to its primary.
pub(crate) fn records(replica: &Server) -> String {
    let answer = client(&replica.url())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            use std::io::Write;
            child.stdin.take().unwrap().write_all(b"READONLY\nHLEN tenure:{jobs}:records\n")?;
            child.wait_with_output()
        })
        .unwrap();
    String::from_utf8(answer.stdout).unwrap().lines().last().unwrap_or_default().to_owned()
}
