//! Acquire-and-release pairs per second on Redis, from 1 and 32 tasks with a key each, and handoffs of one lock that 32 want.
//!
//! `cargo xtask bench redis_pairs` starts Redis, builds the peers and prints the tables; `TENURE_BENCH_MS` says for how long each of a
//! cell's rounds runs. The limit is the smallest script that writes on a condition as a lease needs it: it compares what stands there,
//! tells the server's time, and answers a refusal with what stands there. `SET NX` and `DEL` are below it, as they give neither.
//! redsync gives less, too, on one server: its locks have no fence, are over when Redis's clock says so, and are polled for. Rust's rslock
//! does the same; it is not here, as it brings features of its dependencies that have half the workspace compiled once more.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench may fail")]

use redis::aio::MultiplexedConnection;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tenure::{AnyStore, Leases};
use tenure_bench::handoffs::{Crowd, compare};
use tenure_bench::pairs::{Contender, Peer, pair, table};
use tenure_core::{Key, Version};
use tenure_redis::{RedisConfig, RedisStore};
use tenure_store::{Outcome, Store, Write};
use tenure_testkit::Scribe;

/// About what a record's value has.
const VALUE_BYTES: usize = 250;

#[tokio::main]
async fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let millis =
        std::env::var("TENURE_BENCH_MS").map_or(if is_bench { 1000 } else { 50 }, |ms| ms.parse().unwrap());
    let span = Duration::from_millis(millis);
    let url = std::env::var("TENURE_TEST_REDIS").expect("cargo xtask bench redis_pairs starts Redis");
    let namespace = format!("bench-{}", std::process::id());
    let open =
        async || RedisStore::open(RedisConfig::from_url(&url).unwrap().namespace(&namespace)).await.unwrap();
    let mut stores = Vec::new();
    for _ in 0..32 {
        stores.push(open().await);
    }
    let crowds = [Crowd::of_tasks(open().await, 32).unwrap(), Crowd::of_processes(stores).unwrap()];
    let leases = Leases::new(AnyStore::new(open().await)).unwrap();
    leases.begin_session();
    let user = leases.clone();
    let client = redis::Client::open(url.as_str()).unwrap();
    let connection = async || client.get_multiplexed_async_connection().await.unwrap();
    let (limit, bare, store) = (connection().await, connection().await, open().await);
    let mut contenders = [
        (
            "the limit: a conditional write",
            Contender::Here(pair(move |task| limit_pair(limit.clone(), task))),
        ),
        ("`SET NX`, `DEL`", Contender::Here(pair(move |task| bare_pair(bare.clone(), task)))),
        ("tenure, the store alone", Contender::Here(pair(move |task| store_pair(store.clone(), task)))),
        ("tenure, `Leases`", Contender::Here(pair(move |task| lease_pair(user.clone(), task)))),
        (
            "redsync 4.18 (Go)",
            Contender::Peer(Peer::go("redsync", url.trim_start_matches("redis://")).unwrap()),
        ),
    ];
    table(&mut contenders, span).await.unwrap();
    let [.., (name, Contender::Peer(redsync))] = &mut contenders else { panic!("redsync is the last one") };
    compare(&crowds, &open().await, Some((*name, redsync)), span).await.unwrap();
    for crowd in crowds {
        crowd.stop().await;
    }
    leases.stop().await;
}

async fn lease_pair(leases: Leases, task: usize) {
    leases.acquire(&format!("task/{task}")).await.unwrap().release().await;
}

async fn store_pair(store: RedisStore, task: usize) {
    let (key, scribe) = (Key::new(format!("store/{task}")).unwrap(), Scribe::new());
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let (version, fence) =
        won(&store, scribe.if_vacant(&key, scribe.held(u64::try_from(wall).unwrap()))).await;
    won(&store, scribe.unchanged(&key, version, scribe.vacant(fence))).await;
}

async fn won(store: &RedisStore, write: Write) -> (Version, u64) {
    match store.write(write).await.expect("the namespace is there for this alone") {
        Outcome::Won { version, fence } => (version, fence.0),
        lost => panic!("each key has one user, but {lost:?}"),
    }
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
