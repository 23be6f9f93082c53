//! Acquire-and-release pairs per second on one etcd, from 1 and 32 tasks with a key each: by this store, and by the bare transactions
//! that a lock needs at the least, over the same kind of connection: one that puts a value of the same size if the key is as it was
//! left, and one that puts another if it is still one's own.
//!
//! `cargo xtask bench etcd_pairs` prints the table; `TENURE_BENCH_MS` says for how long each of a cell's rounds runs. It starts an etcd of its
//! own, below the folder for temporary files: each pair waits for that disk twice.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench may fail")]

#[path = "../tests/support/mod.rs"]
mod support;

#[allow(unreachable_pub, dead_code, clippy::all, reason = "as the store has it")]
#[path = "../src/wire/etcdserverpb.rs"]
mod etcdserverpb;

use etcdserverpb::compare::{CompareTarget, TargetUnion};
use etcdserverpb::request_op::Request;
use etcdserverpb::{Compare, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse};
use http::uri::PathAndQuery;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::cluster::Cluster;
use tenure_core::{Fence, Key, Version};
use tenure_etcd::{EtcdConfig, EtcdStore};
use tenure_store::{Outcome, Store, Write};
use tenure_testkit::Scribe;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};

/// About what a record of a lease takes.
const VALUE_BYTES: usize = 120;
/// How many times each cell is measured.
const ROUNDS: u32 = 6;

/// Makes one pair of a task.
type Pair = Arc<dyn Fn(usize) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

fn main() {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(run());
}

async fn run() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let millis =
        std::env::var("TENURE_BENCH_MS").map_or(if is_bench { 1000 } else { 30 }, |ms| ms.parse().unwrap());
    let span = Duration::from_millis(millis);
    let cluster = Cluster::start(1).await;
    let store = EtcdStore::open(EtcdConfig::from_url(&cluster.url()).unwrap()).await.unwrap();
    let channel = Endpoint::from_shared(format!("http://127.0.0.1:{}", cluster.port()))
        .unwrap()
        .tcp_nodelay(true)
        .connect()
        .await
        .unwrap();
    let revisions: Arc<Mutex<Vec<i64>>> = Arc::new(Mutex::new(vec![0; 32]));
    let scribe = Arc::new(Scribe::new());
    let contenders: [(&str, Pair); 2] = [
        (
            "bare transactions",
            Arc::new(move |task| Box::pin(bare(channel.clone(), Arc::clone(&revisions), task))),
        ),
        ("tenure, the store", Arc::new(move |task| Box::pin(pair(store.clone(), Arc::clone(&scribe), task)))),
    ];
    println!("{:?} a cell, by turns; latencies are of pairs, in µs\n", span * ROUNDS);
    println!("| tasks | | pairs/s | p50 | p99 | of the bare ones |\n|---|---|---|---|---|---|");
    for tasks in [1, 32] {
        let mut latencies: [Vec<u64>; 2] = Default::default();
        for _ in 0..ROUNDS {
            for ((_, pair), latencies) in contenders.iter().zip(&mut latencies) {
                latencies.extend(measure(pair, tasks, span).await);
            }
        }
        let limit = latencies[0].len() as f64;
        for ((name, _), mut latencies) in contenders.iter().zip(latencies) {
            latencies.sort_unstable();
            let [p50, p99] = [50, 99].map(|percent| latencies[(latencies.len() - 1) * percent / 100]);
            let rate = latencies.len() as f64 / (span * ROUNDS).as_secs_f64();
            println!(
                "| {tasks} | {name} | {rate:.0} | {p50} | {p99} | {:.2} |",
                latencies.len() as f64 / limit
            );
        }
    }
}

/// Lets tasks make pairs at the same time, each on a key of its own; tells how long each took.
async fn measure(pair: &Pair, tasks: usize, span: Duration) -> Vec<u64> {
    let start = Instant::now();
    let work = |task| {
        let pair = Arc::clone(pair);
        tokio::spawn(async move {
            let mut latencies = Vec::new();
            while start.elapsed() < span {
                let began = Instant::now();
                pair(task).await;
                latencies.push(u64::try_from(began.elapsed().as_micros()).unwrap());
            }
            latencies
        })
    };
    let running: Vec<_> = (0..tasks).map(work).collect();
    let mut all = Vec::new();
    for task in running {
        all.extend(task.await.unwrap());
    }
    all
}

async fn pair(store: EtcdStore, scribe: Arc<Scribe>, task: usize) {
    let key = Key::new(format!("task/{task}")).unwrap();
    let (version, fence) = won(&store, scribe.if_vacant(&key, scribe.held(1))).await;
    won(&store, scribe.unchanged(&key, version, scribe.vacant(fence.0))).await;
}

async fn won(store: &EtcdStore, write: Write) -> (Version, Fence) {
    match store.write(write).await.unwrap() {
        Outcome::Won { version, fence } => (version, fence),
        Outcome::Lost(standing) => panic!("each key has one user, but lost to {standing:?}"),
    }
}

async fn bare(channel: Channel, revisions: Arc<Mutex<Vec<i64>>>, task: usize) {
    let key = format!("bare/{task}").into_bytes();
    for _ in ["acquire", "release"] {
        let last = revisions.lock().unwrap()[task];
        let target = Some(TargetUnion::ModRevision(last));
        let compare = Compare {
            target: CompareTarget::Mod.into(),
            key: key.clone(),
            target_union: target,
            ..Compare::default()
        };
        let put = Request::RequestPut(PutRequest { key: key.clone(), value: vec![7; VALUE_BYTES] });
        let look = Request::RequestRange(RangeRequest { key: key.clone(), ..RangeRequest::default() });
        let op = |request| vec![RequestOp { request: Some(request) }];
        let txn = TxnRequest { compare: vec![compare], success: op(put), failure: op(look) };
        let mut grpc = Grpc::new(channel.clone());
        grpc.ready().await.unwrap();
        let path = PathAndQuery::from_static("/etcdserverpb.KV/Txn");
        let codec: tonic_prost::ProstCodec<TxnRequest, TxnResponse> = tonic_prost::ProstCodec::default();
        let answer = grpc.unary(tonic::Request::new(txn), path, codec).await.unwrap().into_inner();
        assert!(answer.succeeded, "each key has one user");
        revisions.lock().unwrap()[task] = answer.header.unwrap().revision;
    }
}
