//! Acquire-and-release pairs per second on DynamoDB Local, from 1 and 32 tasks with a key each, against bare conditional puts
//! of an item of the same size by the same client, two of them for a pair, in the same run. The requests that went out are
//! counted on the way.
//!
//! `cargo xtask bench dynamodb_pairs` starts DynamoDB Local and prints the table; `TENURE_BENCH_MS` says for how long each of a
//! cell's rounds runs. The emulator is the limit here, not the wire: on the service itself, a request takes milliseconds and
//! costs money, so that the requests for a pair are what counts.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that can't run says so by panicking"
)]

#[path = "../../stores/dynamodb/tests/support/mod.rs"]
mod support;

use std::future::Future;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::{Actions, client, endpoint, key, store_by, unique};
use tenure_core::Key;
use tenure_dynamodb::DynamoStore;
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::primitives::Blob;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_store::{Outcome, Store, Write};
use tenure_testkit::Scribe;

const TABLE: &str = "tenure-bench";
/// About what an item of a lease has besides its keys.
const ITEM_BYTES: usize = 250;
/// How many times each cell is measured.
const ROUNDS: u32 = 6;

/// What some tasks did together.
#[derive(Default)]
struct Tally {
    pairs: u64,
    /// Of each pair, in microseconds.
    latencies: Vec<u64>,
    requests: usize,
}

impl Tally {
    fn percentile(&mut self, percent: usize) -> u64 {
        self.latencies.sort_unstable();
        self.latencies[(self.latencies.len() - 1) * percent / 100]
    }
}

#[tokio::main]
async fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let millis =
        std::env::var("TENURE_BENCH_MS").map_or(if is_bench { 1500 } else { 50 }, |ms| ms.parse().unwrap());
    let span = Duration::from_millis(millis);
    let actions = Actions::default();
    let store = store_by(client(&endpoint()).interceptor(actions.clone()), TABLE, &unique("bench")).await;
    let bare = Client::from_conf(client(&endpoint()).interceptor(actions.clone()).build());
    actions.take();
    println!("{:?} a cell; latencies are of pairs, in µs\n", span * ROUNDS);
    println!(
        "| tasks | pairs/s | p50 | p99 | requests a pair | bare pairs/s | p50 | p99 | requests a pair | pairs : bare |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let pair = move |key| pair(store.clone(), key);
    let bare_pair = move |key| bare_pair(bare.clone(), key);
    // An emulator in Java is slow at first.
    measure(32, span * 2, pair.clone()).await;
    measure(32, span * 2, bare_pair.clone()).await;
    actions.take();
    for tasks in [1, 32] {
        let (mut ours, mut theirs) = (Tally::default(), Tally::default());
        // By turns, so that what else the machine does falls on both.
        for _ in 0..ROUNDS {
            add(&mut ours, measure(tasks, span, pair.clone()).await, &actions);
            add(&mut theirs, measure(tasks, span, bare_pair.clone()).await, &actions);
        }
        let rate = |tally: &Tally| tally.pairs as f64 / (span * ROUNDS).as_secs_f64();
        let each = |tally: &Tally| tally.requests as f64 / tally.pairs as f64;
        println!(
            "| {tasks} | {:.0} | {} | {} | {:.2} | {:.0} | {} | {} | {:.2} | {:.2} |",
            rate(&ours),
            ours.percentile(50),
            ours.percentile(99),
            each(&ours),
            rate(&theirs),
            theirs.percentile(50),
            theirs.percentile(99),
            each(&theirs),
            rate(&ours) / rate(&theirs),
        );
    }
}

fn add(all: &mut Tally, round: Tally, actions: &Actions) {
    all.pairs += round.pairs;
    all.latencies.extend(round.latencies);
    all.requests += actions.take().len();
}

/// Lets tasks make pairs at the same time, each on a key of its own.
async fn measure<F: Future<Output = ()> + Send + 'static>(
    tasks: usize,
    span: Duration,
    pair: impl Fn(Key) -> F + Clone + Send + Sync + 'static,
) -> Tally {
    let start = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let (pair, key) = (pair.clone(), key(&format!("task/{task}")));
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while start.elapsed() < span {
                    let began = Instant::now();
                    pair(key.clone()).await;
                    latencies.push(u64::try_from(began.elapsed().as_micros()).unwrap());
                }
                latencies
            })
        })
        .collect();
    let mut tally = Tally::default();
    for task in running {
        let latencies = task.await.unwrap();
        tally.pairs += latencies.len() as u64;
        tally.latencies.extend(latencies);
    }
    tally
}

async fn pair(store: DynamoStore, key: Key) {
    let scribe = Scribe::new();
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let (version, fence) =
        won(&store, scribe.if_vacant(&key, scribe.held(u64::try_from(wall).unwrap()))).await;
    won(&store, scribe.unchanged(&key, version, scribe.vacant(fence))).await;
}

async fn won(store: &DynamoStore, write: Write) -> (tenure_core::Version, u64) {
    match store.write(write).await.expect("the table is there for this alone") {
        Outcome::Won { version, fence } => (version, fence.0),
        lost => panic!("each key has one user, but {lost:?}"),
    }
}

/// What a lock has to do at the least: take the item if it is free, and give it back if it is still one's own.
async fn bare_pair(client: Client, key: Key) {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let put = |owner: &str| {
        client
            .put_item()
            .table_name(TABLE)
            .item("namespace", text("bare"))
            .item("key", text(key.as_str()))
            .item("holder", text(owner))
            .item("fill", AttributeValue::B(Blob::new(vec![7; ITEM_BYTES])))
            .expression_attribute_names("#o", "holder")
    };
    let take = put("me").condition_expression("attribute_not_exists(#o) OR #o = :nobody");
    take.expression_attribute_values(":nobody", text("nobody")).send().await.unwrap();
    let give = put("nobody").condition_expression("#o = :me");
    give.expression_attribute_values(":me", text("me")).send().await.unwrap();
}
