//! A cluster that becomes full refuses also writes that it has done: those by which it became full.
//!
//! Plan: many write at once until the cluster is full, each its own keys: by single writes, writes over their own, removals, and writes
//! that go together, whose space etcd does not count. What was told of each is what stands there: won, or certainly not done. By etcd's own
//! count it refused more than was told as refused, so some of those were done. Reads go on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::cluster::Cluster;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tenure_core::{ErrorKind, Key, Record, StoreError, Value};
use tenure_etcd::{EtcdConfig, EtcdStore};
use tenure_store::{Freshness, Outcome, Store};
use tenure_testkit::RecordFactory;

/// How many write at once.
const WRITERS: usize = 48;
/// How many clusters may become full without a write that was done and refused.
const CLUSTERS: usize = 20;

/// How often a writer writes at most.
const BOUND: usize = 1000;

/// What must stand under a key by what its writer was told.
type Told = Vec<(Key, Option<Record>)>;

struct Writer {
    store: EtcdStore,
    factory: RecordFactory,
    number: usize,
    told: Told,
}

impl Writer {
    fn key(&self, n: usize) -> Key {
        Key::new(format!("w{}-{n}", self.number)).unwrap()
    }

    fn record(&self) -> Record {
        let mut record = self.factory.held(1);
        record.metadata = [("x".to_owned(), Value::Bytes(vec![7; 2000]))].into();
        record
    }

    /// Notes what a call has said of one key. The error ends the writer.
    fn note(
        &mut self,
        key: Key,
        before: Option<Record>,
        after: Option<Record>,
        said: Result<bool, StoreError>,
    ) -> bool {
        let done = match said {
            Ok(done) => {
                assert!(done, "{key} is nobody else's");
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                assert!(error.to_string().contains("space exceeded"), "{error}");
                false
            }
        };
        self.told.push((key, if done { after } else { before }));
        done
    }

    async fn singly(mut self) -> Told {
        let is_won = |outcome: Outcome| matches!(outcome, Outcome::Won { .. });
        for n in 0..BOUND {
            let (key, first) = (self.key(n), self.record());
            let said = self.store.write(self.factory.absent(&key, first.clone())).await.map(is_won);
            if !self.note(key.clone(), None, Some(first.clone()), said) {
                break;
            }
            let second = self.record();
            let write = self.factory.unchanged(&key, first.version(), second.clone());
            let said = self.store.write(write).await.map(is_won);
            if !self.note(key.clone(), Some(first), Some(second.clone()), said) {
                break;
            }
            if n % 4 == 0 {
                let said = self.store.remove(&key, second.version()).await;
                if !self.note(key, Some(second), None, said) {
                    break;
                }
            }
        }
        self.told
    }

    /// Until `is_full`: etcd goes on taking these.
    async fn together(mut self, is_full: Arc<AtomicBool>) -> Told {
        for n in 0..BOUND {
            if is_full.load(Ordering::SeqCst) {
                break;
            }
            let pairs = [3 * n, 3 * n + 1, 3 * n + 2].map(|n| (self.key(n), self.record()));
            let writes = pairs.iter().map(|(key, record)| self.factory.absent(key, record.clone())).collect();
            let said = self.store.write_many(writes).await.map(|outcomes| {
                outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Won { .. })).count()
                    == pairs.len()
            });
            let mut are_done = true;
            for (key, record) in pairs {
                are_done &= self.note(key, None, Some(record), said.clone());
            }
            if !are_done {
                break;
            }
        }
        self.told
    }
}

/// How many transactions a member has refused for lack of space.
fn refusals(cluster: &Cluster) -> usize {
    let is_refusal = |line: &&str| {
        ["grpc_server_handled_total", "\"ResourceExhausted\"", "\"Txn\""]
            .iter()
            .all(|word| line.contains(word))
    };
    let metrics = cluster.metrics();
    let counts =
        metrics.lines().filter(is_refusal).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>());
    counts.map(|count| count.unwrap() as usize).sum()
}

/// Fills a cluster; true if etcd refused a write that it had done.
async fn fill() -> bool {
    // Each change shows in the size of the database at once, so that many are on their way when it is reached.
    let cluster = Cluster::with(&["--quota-backend-bytes", "600000", "--backend-batch-limit", "1"]).await;
    let config = EtcdConfig::from_url(&cluster.url()).unwrap();
    let (store, is_full) = (EtcdStore::open(config.clone()).await.unwrap(), Arc::new(AtomicBool::new(false)));
    let writer =
        |number| Writer { store: store.clone(), factory: RecordFactory::new(), number, told: Told::new() };
    let single: Vec<_> = (1..=WRITERS).map(|number| tokio::spawn(writer(number).singly())).collect();
    let together = tokio::spawn(writer(0).together(Arc::clone(&is_full)));
    let mut told = Told::new();
    for writer in single {
        told.extend(writer.await.unwrap());
    }
    is_full.store(true, Ordering::SeqCst);
    told.extend(together.await.unwrap());
    // What was told last of a key is what holds.
    let told: BTreeMap<Key, Option<Record>> = told.into_iter().collect();
    let stranger = EtcdStore::open(config).await.unwrap();
    let keys: Vec<Key> = told.keys().cloned().collect();
    let all = stranger.read_many(&keys, Freshness::Latest).await.unwrap();
    let found: BTreeMap<Key, Record> =
        all.into_iter().map(|listed| (listed.key, listed.stored.unwrap().record)).collect();
    for (key, record) in &told {
        assert_eq!(found.get(key), record.as_ref(), "{key}: what stands there, and what was told");
    }
    // Each writer ends with one refusal that it is told of.
    refusals(&cluster) > WRITERS
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_writes_that_a_full_cluster_refuses_those_that_are_done_are_won() {
    let mut filled = 0;
    while !fill().await {
        filled += 1;
        assert!(filled < CLUSTERS, "etcd has refused nothing that it had done");
    }
}
