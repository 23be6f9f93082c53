//! Acquire-and-release pairs per second on Redis, from 1 and 32 tasks with a key each; handoffs of one lock that 32 want; and what a
//! fleet at rest asks for.
//!
//! `cargo xtask bench redis_pairs` starts Redis, builds the peers and prints the tables; `TENURE_BENCH_MS` says for how long each of a
//! cell's rounds runs. The limit is the smallest script that writes on a condition as a lease needs it: it compares what stands there,
//! tells the server's time, and answers a refusal with what stands there. `SET NX` and `DEL` are below it, as they give neither.
//! redsync and Rust's rslock give less, too, on one server: their locks have no fence, are over when Redis's clock says so, and are polled
//! for.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench may fail")]

use redis::aio::MultiplexedConnection;
use std::sync::LazyLock;
use std::time::Duration;
use tenure::{AnyStore, Leases};
use tenure_bench::handoffs::{Crowd, compare};
use tenure_bench::pairs::{PairMaker, PeerProgram, pair, table};
use tenure_bench::rest::fleet_at_rest;
use tenure_bench::{is_bench, span};
use tenure_redis::{RedisConfig, RedisStore};
use tokio::runtime::Handle;

/// About what a record's value has.
const VALUE_BYTES: usize = 250;

#[tokio::main]
async fn main() {
    let span = span(Duration::from_secs(1)).unwrap();
    let url = std::env::var("TENURE_TEST_REDIS").expect("cargo xtask bench redis_pairs starts Redis");
    let namespace = format!("bench-{}", std::process::id());
    let open =
        async || RedisStore::open(RedisConfig::from_url(&url).unwrap().namespace(&namespace)).await.unwrap();
    let mut stores = Vec::new();
    for _ in 0..32 {
        stores.push(open().await);
    }
    // As programs open it.
    let opened = tenure::open(format!("{url}?namespace={namespace}")).await.unwrap();
    let crowds = Crowd::all(
        Crowd::of_tasks(opened.clone(), 32),
        Crowd::of_tasks_here(open().await, 32),
        Crowd::of_processes(stores),
    );
    let leases = Leases::new(opened).unwrap();
    let here = Leases::builder(AnyStore::new(open().await)).runtime(Handle::current()).start().unwrap();
    leases.begin_session();
    here.begin_session();
    let client = redis::Client::open(url.as_str()).unwrap();
    let connection = async || client.get_multiplexed_async_connection().await.unwrap();
    let (limited, bare) = (connection().await, connection().await);
    let address = url.trim_start_matches("redis://");
    let limit = pair(move |task| limit_pair(limited.clone(), task));
    let mut contenders = [
        ("the limit: a conditional write", PairMaker::Here(limit.clone())),
        ("`SET NX`, `DEL`", PairMaker::Here(pair(move |task| bare_pair(bare.clone(), task)))),
        ("tenure, the store alone", PairMaker::store(open().await)),
        ("tenure, `Leases`", PairMaker::leases(leases.clone())),
        ("tenure, `Leases` on the tasks' runtime", PairMaker::leases(here.clone())),
        ("redsync 4.18 (Go)", PairMaker::Peer(PeerProgram::go("redsync", address).unwrap())),
        ("rslock 0.10 (Rust)", PairMaker::Peer(PeerProgram::rust("rslock", address).unwrap())),
    ];
    table(&mut contenders, span).await.unwrap();
    let peers = contenders.iter_mut().filter_map(|(name, contender)| match contender {
        PairMaker::Peer(peer) => Some((*name, peer)),
        PairMaker::Here(_) => None,
    });
    compare(&crowds, &open().await, &mut peers.collect::<Vec<_>>(), span).await.unwrap();
    here.stop().await;
    // By itself: who may have to hand a fair lock on listens, and each write tells who listens.
    let mut contenders = [
        ("the limit: a conditional write", PairMaker::Here(limit)),
        ("tenure, a fair lock", PairMaker::fair_locks(leases.clone())),
    ];
    table(&mut contenders, span).await.unwrap();
    leases.stop().await;
    fleet_at_rest(open().await, if is_bench() { 1000 } else { 50 }).await.unwrap();
}

async fn limit_pair(mut connection: MultiplexedConnection, task: usize) {
    const WRITE: &str = "local time, found = redis.call('TIME'), redis.call('GET', KEYS[1]) \
        if found and string.sub(found, 1, 32) ~= ARGV[1] then return { time, found } end \
        redis.call('SET', KEYS[1], ARGV[2]) \
        return { time, 1 }";
    static SCRIPT: LazyLock<redis::Script> = LazyLock::new(|| redis::Script::new(WRITE));
    let key = format!("limit/{task}");
    for [expected, version] in [[b'0', b'1'], [b'1', b'0']] {
        let mut write = SCRIPT.key(&key);
        write.arg(&[expected; 32]).arg(vec![version; VALUE_BYTES]);
        let (_, done): ((u64, u64), u32) = write.invoke_async(&mut connection).await.unwrap();
        assert_eq!(done, 1);
    }
}

async fn bare_pair(mut connection: MultiplexedConnection, task: usize) {
    let key = format!("bare/{task}");
    let mut take = redis::cmd("SET");
    take.arg(&key).arg(vec![7_u8; VALUE_BYTES]).arg("NX");
    assert!(take.query_async::<bool>(&mut connection).await.unwrap());
    assert_eq!(redis::cmd("DEL").arg(&key).query_async::<u32>(&mut connection).await.unwrap(), 1);
}
