//! Acquire-and-release pairs per second on Redis, from 1 and 32 tasks with a key each: by `Leases`, by the store alone, by what a
//! lock on Redis usually sends, and by the bare commands. All by the same client, each over one connection.
//!
//! `cargo xtask bench redis_pairs` starts Redis and prints the table; `TENURE_BENCH_MS` says for how long each of a cell's rounds
//! runs. The usual lock is `SET key owner NX PX ttl`, and a script that deletes the key if it still has that owner: it has no fence,
//! and nothing of it outlives an expiry. The bare commands are `SET … NX` and `DEL`, with a value of the size of a record.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench may fail")]

use redis::aio::MultiplexedConnection;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tenure::{AnyStore, Leases};
use tenure_bench::cpu_time_of;
use tenure_core::{Key, Version};
use tenure_redis::{RedisConfig, RedisStore};
use tenure_store::{Outcome, Store, Write};
use tenure_testkit::Scribe;

/// About what a record's value has.
const VALUE_BYTES: usize = 250;
/// How many times each cell is measured.
const ROUNDS: u32 = 6;

type Pair = Arc<dyn Fn(Key) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// What some tasks did together.
#[derive(Default)]
struct Tally {
    pairs: u64,
    latencies: Vec<Duration>,
    client: Duration,
}

#[tokio::main]
async fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let millis =
        std::env::var("TENURE_BENCH_MS").map_or(if is_bench { 1000 } else { 50 }, |ms| ms.parse().unwrap());
    let span = Duration::from_millis(millis);
    let url = std::env::var("TENURE_TEST_REDIS").expect("cargo xtask bench redis_pairs starts Redis");
    let namespace = format!("bench-{}", std::process::id());
    let open = || RedisStore::open(RedisConfig::from_url(&url).unwrap().namespace(&namespace));
    let (store, leases) = (open().await.unwrap(), Leases::new(AnyStore::new(open().await.unwrap())).unwrap());
    leases.begin_session();
    let client = redis::Client::open(url.as_str()).unwrap();
    let bare = client.get_multiplexed_async_connection().await.unwrap();
    let usual = client.get_multiplexed_async_connection().await.unwrap();
    let user = leases.clone();
    let contenders: [(&str, Pair); 4] = [
        ("bare SET NX, DEL", boxed(move |key| bare_pair(bare.clone(), key))),
        ("the usual lock, without a fence", boxed(move |key| usual_pair(usual.clone(), key))),
        ("tenure, the store alone", boxed(move |key| pair(store.clone(), key))),
        ("tenure, `Leases`", boxed(move |key| lease_pair(user.clone(), key))),
    ];
    println!(
        "{:?} a cell; latencies are of pairs, client is its processor time for a pair, all in µs\n",
        span * ROUNDS
    );
    println!("| tasks | | pairs/s | p50 | p99 | client | of the bare commands | of the usual lock |");
    println!("|---|---|---|---|---|---|---|---|");
    for (_, pair) in &contenders {
        measure(pair, 32, span).await;
    }
    for tasks in [1, 32] {
        let mut tallies: Vec<Tally> = contenders.iter().map(|_| Tally::default()).collect();
        // By turns, so that what else the machine does falls on all.
        for _ in 0..ROUNDS {
            for ((_, pair), all) in contenders.iter().zip(&mut tallies) {
                let before = cpu_time_of("self");
                let round = measure(pair, tasks, span).await;
                all.client += cpu_time_of("self").saturating_sub(before);
                all.pairs += round.len() as u64;
                all.latencies.extend(round);
            }
        }
        let [bare, usual] = [tallies[0].pairs as f64, tallies[1].pairs as f64];
        for ((name, _), mut tally) in contenders.iter().zip(tallies) {
            let mut percentile =
                |percent| tenure_bench::percentile(&mut tally.latencies, percent).as_micros();
            let (p50, p99, pairs) = (percentile(50), percentile(99), tally.pairs as f64);
            println!(
                "| {tasks} | {name} | {:.0} | {p50} | {p99} | {:.0} | {:.2} | {:.2} |",
                pairs / (span * ROUNDS).as_secs_f64(),
                tally.client.as_micros() as f64 / pairs,
                pairs / bare,
                pairs / usual,
            );
        }
    }
    leases.stop().await;
}

fn boxed<F: Future<Output = ()> + Send + 'static>(pair: impl Fn(Key) -> F + Send + Sync + 'static) -> Pair {
    Arc::new(move |key| Box::pin(pair(key)))
}

/// Lets tasks make pairs at the same time, each on a key of its own.
async fn measure(pair: &Pair, tasks: usize, span: Duration) -> Vec<Duration> {
    let start = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let (pair, key) = (Arc::clone(pair), Key::new(format!("task/{task}")).unwrap());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while start.elapsed() < span {
                    let began = Instant::now();
                    pair(key.clone()).await;
                    latencies.push(began.elapsed());
                }
                latencies
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in running {
        all.extend(task.await.unwrap());
    }
    all
}

async fn lease_pair(leases: Leases, key: Key) {
    leases.acquire(key.as_str()).await.unwrap().release().await;
}

async fn pair(store: RedisStore, key: Key) {
    let scribe = Scribe::new();
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

async fn bare_pair(mut connection: MultiplexedConnection, key: Key) {
    let key = format!("bare/{}", key.as_str());
    let mut take = redis::cmd("SET");
    take.arg(&key).arg(vec![7_u8; VALUE_BYTES]).arg("NX");
    assert!(take.query_async::<bool>(&mut connection).await.unwrap());
    assert_eq!(redis::cmd("DEL").arg(&key).query_async::<u32>(&mut connection).await.unwrap(), 1);
}

/// What redsync and most others do.
async fn usual_pair(mut connection: MultiplexedConnection, key: Key) {
    const DELETE: &str =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
    static SCRIPT: std::sync::LazyLock<redis::Script> =
        std::sync::LazyLock::new(|| redis::Script::new(DELETE));
    let (key, owner) = (format!("usual/{}", key.as_str()), "0123456789abcdef0123456789abcdef");
    let mut take = redis::cmd("SET");
    take.arg(&key).arg(owner).arg("NX").arg("PX").arg(8000);
    assert!(take.query_async::<bool>(&mut connection).await.unwrap());
    assert_eq!(SCRIPT.key(&key).arg(owner).invoke_async::<u32>(&mut connection).await.unwrap(), 1);
}
