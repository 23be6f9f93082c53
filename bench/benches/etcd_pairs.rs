//! Acquire-and-release pairs per second on etcd, from 1 and 32 tasks with a key each; handoffs of one lock that 32 want; and what a
//! fleet at rest asks for.
//!
//! `cargo xtask bench etcd_pairs` starts etcd, builds the peer and prints the tables; `TENURE_BENCH_MS` says for how long each of a
//! cell's rounds runs. The limit is the transactions that a lock needs at the least, over the same kind of connection: one that puts a
//! value of the same size if the key is as it was left, and one that puts another if it is still one's own. Beside it, etcd's own
//! Mutex, in Go: a transaction that queues up behind the key's others, and a removal. Each waits for the server's disk.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench may fail")]

#[allow(unreachable_pub, dead_code, clippy::all, reason = "as the store has it")]
#[path = "../../stores/etcd/src/wire/etcdserverpb.rs"]
mod etcdserverpb;

use etcdserverpb::compare::{CompareTarget, TargetUnion};
use etcdserverpb::request_op::Request;
use etcdserverpb::{Compare, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse};
use http::uri::PathAndQuery;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::{AnyStore, Leases};
use tenure_bench::handoffs::{Crowd, compare};
use tenure_bench::pairs::{PairMaker, PeerProgram, pair, table};
use tenure_bench::rest::fleet_at_rest;
use tenure_bench::{is_bench, span};
use tenure_etcd::{EtcdConfig, EtcdStore};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};

/// About what a record of a lease takes.
const VALUE_BYTES: usize = 120;

#[tokio::main]
async fn main() {
    let span = span(Duration::from_secs(1)).unwrap();
    let url = std::env::var("TENURE_TEST_ETCD").expect("cargo xtask bench etcd_pairs starts etcd");
    let prefix = format!("bench-{}", std::process::id());
    let open = async || EtcdStore::open(EtcdConfig::from_url(&url).unwrap().prefix(&prefix)).await.unwrap();
    let mut stores = Vec::new();
    for _ in 0..32 {
        stores.push(open().await);
    }
    let crowds = Crowd::all(
        // As programs open it.
        Crowd::of_tasks(tenure::open(format!("{url}/{prefix}")).await.unwrap(), 32),
        Crowd::of_tasks_here(open().await, 32),
        Crowd::of_processes(stores),
    );
    let leases = Leases::new(AnyStore::new(open().await)).unwrap();
    leases.begin_session();
    let server = url.trim_start_matches("etcd://").to_owned();
    let channel = Endpoint::from_shared(format!("http://{server}")).unwrap().tcp_nodelay(true);
    let channel = channel.connect().await.unwrap();
    let revisions: Arc<Mutex<Vec<i64>>> = Arc::new(Mutex::new(vec![0; 32]));
    let limit = pair(move |task| limit_pair(channel.clone(), Arc::clone(&revisions), task));
    let mut contenders = [
        ("the limit: bare transactions", PairMaker::Here(limit.clone())),
        ("tenure, the store alone", PairMaker::store(open().await)),
        ("tenure, `Leases`", PairMaker::leases(leases.clone())),
        ("etcd's Mutex 3.7 (Go)", PairMaker::Peer(PeerProgram::go("etcd", &server).unwrap())),
    ];
    table(&mut contenders, span).await.unwrap();
    let [.., (name, PairMaker::Peer(mutex))] = &mut contenders else { panic!("the peer is the last one") };
    compare(&crowds, &open().await, &mut [(*name, mutex)], span).await.unwrap();
    // By itself: who may have to hand a fair lock on listens, and each write tells who listens.
    let mut contenders = [
        ("the limit: bare transactions", PairMaker::Here(limit)),
        ("tenure, a fair lock", PairMaker::fair_locks(leases.clone())),
    ];
    table(&mut contenders, span).await.unwrap();
    leases.stop().await;
    fleet_at_rest(open().await, if is_bench() { 1000 } else { 50 }).await.unwrap();
}

async fn limit_pair(channel: Channel, revisions: Arc<Mutex<Vec<i64>>>, task: usize) {
    let key = format!("bare/{}/{task}", std::process::id()).into_bytes();
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
