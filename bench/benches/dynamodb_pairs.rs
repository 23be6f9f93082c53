//! Acquire-and-release pairs per second on DynamoDB Local, from 1 and 32 tasks with a key each: by `Leases`, by the store alone,
//! by AWS's own lock client (in Java), and by the bare requests that a lock needs at the least, conditional puts of an item
//! of the same size, two for a pair. The requests that went out are counted on the way, and the processor time that the client
//! and the emulator took.
//!
//! `cargo xtask bench dynamodb_pairs` starts DynamoDB Local and prints the table; `TENURE_BENCH_MS` says for how long each of a
//! cell's rounds runs. The emulator is the limit here, not the wire: on the service itself, a request takes milliseconds and
//! costs money, so that the requests for a pair are what counts.
//!
//! Updates are shown beside puts because tenure writes by `UpdateItem` alone. A conditional put would be as safe towards other
//! contenders, but a role with the right to `PutItem` can throw a record away with its fence, and a put drops attributes that
//! a newer version of tenure has added. Nor would it gain anything: with an item and a condition like ours, puts and updates
//! differed by less than from one run to the next.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench may fail")]

use std::future::Future;
use std::io::{BufRead as _, BufReader, Write as _};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tenure::{AnyStore, Leases, clock};
use tenure_bench::cpu_time_of;
use tenure_bench::dynamodb::{Requests, client, emulator, endpoint, make, make_with_hash, told, unique};
use tenure_bench::wire::Relay;
use tenure_core::{Key, Version};
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::primitives::Blob;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb::{DynamoConfig, DynamoStore};
use tenure_store::{Outcome, Store, Write};
use tenure_testkit::Scribe;

const TABLE: &str = "tenure-bench";
/// About what an item of a lease has besides its keys.
const ITEM_BYTES: usize = 250;
/// How many times each cell is measured.
const ROUNDS: u32 = 6;

type Pair = Arc<dyn Fn(Key) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Whoever makes pairs.
enum Contender {
    Here(Pair),
    Java(LockClient),
}

impl Contender {
    /// The id of the process that makes the pairs.
    fn process(&self) -> String {
        match self {
            Contender::Here(_) => "self".to_owned(),
            Contender::Java(client) => client.process.id().to_string(),
        }
    }
}

/// What some tasks did together.
#[derive(Default)]
struct Tally {
    pairs: u64,
    /// Of each pair, in microseconds; from Java, of each round its median and its 99th percentile.
    latencies: Vec<u64>,
    medians: Vec<[u64; 2]>,
    requests: f64,
    /// Of processors: the client's, and the emulator's.
    cpu: [Duration; 2],
}

impl Tally {
    fn percentiles(&mut self) -> [u64; 2] {
        if !self.medians.is_empty() {
            self.medians.sort_unstable();
            return self.medians[self.medians.len() / 2];
        }
        self.latencies.sort_unstable();
        [50, 99].map(|percent| self.latencies[(self.latencies.len() - 1) * percent / 100])
    }
}

#[tokio::main]
async fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let millis =
        std::env::var("TENURE_BENCH_MS").map_or(if is_bench { 1500 } else { 50 }, |ms| ms.parse().unwrap());
    let span = Duration::from_millis(millis);
    let requests = Requests::default();
    let bare = Client::from_conf(client().unwrap().interceptor(requests.clone()).build());
    make(TABLE).await.unwrap();
    let store = store(&bare).await;
    let leases = Leases::new(AnyStore::new(self::store(&bare).await)).unwrap();
    leases.begin_session();
    let locks = unique("locks");
    make_with_hash(&bare, &locks, "key").await.unwrap();
    let java_requests = LockClient::requests_a_pair(&locks);
    let (user, update) = (leases.clone(), bare.clone());
    let mut contenders = [
        ("bare conditional puts", Contender::Here(boxed(move |key| bare_pair(bare.clone(), key)))),
        ("bare conditional updates", Contender::Here(boxed(move |key| update_pair(update.clone(), key)))),
        ("tenure, the store alone", Contender::Here(boxed(move |key| pair(store.clone(), key)))),
        ("tenure, `Leases`", Contender::Here(boxed(move |key| lease_pair(user.clone(), key)))),
        ("AWS's lock client 1.4.0", Contender::Java(LockClient::start(&endpoint().unwrap(), &locks))),
    ];
    let emulator = emulator().unwrap();
    println!(
        "{:?} a cell; latencies are of pairs, in µs; processor time of the client and of the emulator, in µs a pair\n",
        span * ROUNDS
    );
    println!("| tasks | | pairs/s | p50 | p99 | requests a pair | client | emulator | of the bare puts |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let java_requests = java_requests.await;
    // An emulator in Java is slow at first, and so is a client.
    for (_, contender) in &mut contenders {
        measure(contender, 32, span * 2).await;
    }
    for tasks in [1, 32] {
        let mut tallies: Vec<Tally> = contenders.iter().map(|_| Tally::default()).collect();
        // By turns, so that what else the machine does falls on all.
        for _ in 0..ROUNDS {
            for ((_, contender), all) in contenders.iter_mut().zip(&mut tallies) {
                let _before = requests.take();
                let processes = [contender.process(), emulator.clone()];
                let cpu = processes.each_ref().map(|process| cpu_time_of(process));
                let round = measure(contender, tasks, span).await;
                for (sum, (process, before)) in all.cpu.iter_mut().zip(processes.iter().zip(cpu)) {
                    *sum += cpu_time_of(process).saturating_sub(before);
                }
                all.pairs += round.pairs;
                all.latencies.extend(round.latencies);
                all.medians.extend(round.medians);
                all.requests += match contender {
                    Contender::Here(_) => requests.take() as f64,
                    Contender::Java(_) => java_requests * round.pairs as f64,
                };
            }
        }
        let limit = tallies[0].pairs as f64;
        for ((name, _), mut tally) in contenders.iter().zip(tallies) {
            let [p50, p99] = tally.percentiles();
            let [client, emulator] = tally.cpu.map(|cpu| cpu.as_micros() as f64 / tally.pairs as f64);
            println!(
                "| {tasks} | {name} | {:.0} | {p50} | {p99} | {:.2} | {client:.0} | {emulator:.0} | {:.2} |",
                tally.pairs as f64 / (span * ROUNDS).as_secs_f64(),
                tally.requests / tally.pairs as f64,
                tally.pairs as f64 / limit,
            );
        }
    }
    leases.stop().await;
}

fn boxed<F: Future<Output = ()> + Send + 'static>(pair: impl Fn(Key) -> F + Send + Sync + 'static) -> Pair {
    Arc::new(move |key| Box::pin(pair(key)))
}

/// Lets tasks make pairs at the same time, each on a key of its own.
async fn measure(contender: &mut Contender, tasks: usize, span: Duration) -> Tally {
    let pair = match contender {
        Contender::Java(java) => return java.measure(tasks, span),
        Contender::Here(pair) => pair,
    };
    let start = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let (pair, key) = (Arc::clone(pair), Key::new(format!("task/{task}")).unwrap());
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

async fn store(client: &Client) -> DynamoStore {
    let config = DynamoConfig::new(TABLE).namespace(unique("bench"));
    DynamoStore::with_client(client, config, clock::system()).await.unwrap()
}

async fn lease_pair(leases: Leases, key: Key) {
    leases.acquire(key.as_str()).await.unwrap().release().await;
}

async fn pair(store: DynamoStore, key: Key) {
    let scribe = Scribe::new();
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let (version, fence) =
        won(&store, scribe.if_vacant(&key, scribe.held(u64::try_from(wall).unwrap()))).await;
    won(&store, scribe.unchanged(&key, version, scribe.vacant(fence))).await;
}

async fn won(store: &DynamoStore, write: Write) -> (Version, u64) {
    match store.write(write).await.expect("the table is there for this alone") {
        Outcome::Won { version, fence } => (version, fence.0),
        lost => panic!("each key has one user, but {lost:?}"),
    }
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// What a lock has to do at the least: take the item if it is free, and give it back if it is still one's own.
async fn bare_pair(client: Client, key: Key) {
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

/// The same by updates.
async fn update_pair(client: Client, key: Key) {
    let update = |owner: &str, old: &str| {
        client
            .update_item()
            .table_name(TABLE)
            .key("namespace", text("bare-update"))
            .key("key", text(key.as_str()))
            .update_expression("SET #o = :new, #f = :fill")
            .condition_expression("attribute_not_exists(#o) OR #o = :old")
            .expression_attribute_names("#o", "holder")
            .expression_attribute_names("#f", "fill")
            .expression_attribute_values(":new", text(owner))
            .expression_attribute_values(":old", text(old))
            .expression_attribute_values(":fill", AttributeValue::B(Blob::new(vec![7; ITEM_BYTES])))
    };
    update("me", "nobody").send().await.unwrap();
    update("nobody", "me").send().await.unwrap();
}

/// A process with AWS's lock client.
struct LockClient {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl LockClient {
    fn start(endpoint: &str, table: &str) -> LockClient {
        let class_path = told("TENURE_TEST_LOCK_CLIENT").unwrap();
        let mut command = Command::new("java");
        command.args(["-classpath", &class_path, "LockPairs", endpoint, table]).stderr(Stdio::null());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        LockClient { process, output }
    }

    fn measure(&mut self, tasks: usize, span: Duration) -> Tally {
        let mut input = self.process.stdin.as_ref().unwrap();
        writeln!(input, "{tasks} {}", span.as_millis()).unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let [pairs, p50, p99] = numbers[..] else { panic!("the lock client says {line:?}") };
        Tally { pairs, medians: vec![[p50, p99]], ..Tally::default() }
    }

    /// By what goes over the wire, which would slow down what is measured.
    async fn requests_a_pair(table: &str) -> f64 {
        let relay = Relay::start(&endpoint().unwrap()).await.unwrap();
        let mut client = LockClient::start(&relay.endpoint, table);
        let counting = tokio::task::spawn_blocking(move || {
            let tally = client.measure(1, Duration::from_secs(1));
            drop(client.process.stdin.take());
            client.process.wait().unwrap();
            tally
        });
        let tally = counting.await.unwrap();
        let counted = relay.take();
        (counted.reads() + counted.writes()) as f64 / tally.pairs as f64
    }
}
