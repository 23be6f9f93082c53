//! What calls cost, by etcd's own count of requests.
//!
//! Plan: each call on what this process knows is one request; a stranger's acquisition of what was released before is two, and one
//! where a watch has told of the release; a batch, several reads and a page are one each.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::cluster::{Cluster, LONG};
use tenure_core::op::Hint;
use tenure_core::{Key, Version};
use tenure_etcd::{EtcdConfig, EtcdStore};
use tenure_store::{Freshness, Outcome, Store};
use tenure_testkit::RecordFactory;

/// How many ranges and transactions a member has answered.
fn requests(cluster: &Cluster) -> u64 {
    let text = cluster.metrics();
    let handled = text.lines().filter(|line| {
        line.starts_with("grpc_server_handled_total")
            && ["\"Range\"", "\"Txn\""].iter().any(|method| line.contains(method))
    });
    handled.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
}

struct Count<'a>(&'a Cluster, u64);

impl Count<'_> {
    #[track_caller]
    fn is(&mut self, expected: u64, what: &str) {
        let now = requests(self.0);
        assert_eq!(now - self.1, expected, "{what}");
        self.1 = now;
    }
}

fn won(outcome: Outcome) -> Version {
    match outcome {
        Outcome::Won { version, .. } => version,
        Outcome::Lost(standing) => panic!("lost to {standing:?}"),
    }
}

#[tokio::test]
async fn each_call_costs_what_the_documentation_says() {
    let cluster = Cluster::start(1).await;
    let open = || async { EtcdStore::open(EtcdConfig::from_url(&cluster.url()).unwrap()).await.unwrap() };
    let (one, stranger, waiter, factory) = (open().await, open().await, open().await, RecordFactory::new());
    let key = Key::new("k").unwrap();
    let mut count = Count(&cluster, requests(&cluster));
    let mut version = won(one.write(factory.if_vacant(&key, factory.held(5))).await.unwrap());
    count.is(1, "the first acquisition");
    version = won(one.write(factory.unchanged(&key, version, factory.held(5))).await.unwrap());
    count.is(1, "a renewal");
    assert!(matches!(
        waiter.write(factory.if_vacant(&key, factory.held(9))).await.unwrap(),
        Outcome::Lost(Some(_))
    ));
    count.is(1, "a refusal");
    won(one.write(factory.unchanged(&key, version, factory.vacant(5))).await.unwrap());
    count.is(1, "a release");
    version = won(one.write(factory.if_vacant(&key, factory.held(1))).await.unwrap());
    count.is(1, "an acquisition after the own release");
    let mut changes = waiter.changed("").unwrap();
    // From then on it is told of what changes.
    while changes.recv().await.unwrap() != Hint::Any {}
    let released = won(one.write(factory.unchanged(&key, version, factory.vacant(6))).await.unwrap());
    let told = async { while changes.recv().await.unwrap() != Hint::Written(key.clone(), released) {} };
    tokio::time::timeout(LONG, told).await.expect("no hint came");
    count.is(1, "a release");
    version = won(waiter.write(factory.if_vacant(&key, factory.held(1))).await.unwrap());
    count.is(1, "an acquisition after a hint of another's release");
    won(waiter.write(factory.unchanged(&key, version, factory.vacant(8))).await.unwrap());
    count.is(1, "a release");
    version = won(stranger.write(factory.if_vacant(&key, factory.held(1))).await.unwrap());
    count.is(2, "an acquisition by who has never seen the record that stands there");
    // By a version that was passed on as plain data.
    won(one.write(factory.unchanged(&key, version, factory.vacant(9))).await.unwrap());
    count.is(2, "a write on a version that this process has not seen");

    let keys: Vec<Key> = (0..100).map(|n| Key::new(format!("many/{n}")).unwrap()).collect();
    let batch = keys.iter().map(|key| factory.if_vacant(key, factory.vacant(1))).collect();
    one.write_many(batch).await.unwrap().into_iter().for_each(|outcome| assert_ne!(won(outcome), Version(0)));
    count.is(1, "a batch");
    let batch = keys.iter().map(|key| factory.if_vacant(key, factory.held(1))).collect();
    stranger
        .write_many(batch)
        .await
        .unwrap()
        .into_iter()
        .for_each(|outcome| assert_ne!(won(outcome), Version(0)));
    count.is(2, "a batch of a stranger's acquisitions");
    assert_eq!(one.read_many(&keys, Freshness::Recent).await.unwrap().len(), 100);
    count.is(1, "several reads");
    assert_eq!(one.list("many/", None, 60).await.unwrap().len(), 60);
    count.is(1, "a page");
}
