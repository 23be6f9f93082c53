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

use std::process::{Command, Stdio};
use std::time::Duration;
use tenure::{AnyStore, Leases, clock};
use tenure_bench::dynamodb::{Requests, client, emulator, endpoint, make, make_with_hash, told, unique};
use tenure_bench::pairs::{LatencyStats, PairMaker, PeerProgram, ROUNDS, pair};
use tenure_bench::wire::Relay;
use tenure_bench::{cpu_time_of, span};
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::primitives::Blob;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb::{DynamoConfig, DynamoStore};

const TABLE: &str = "tenure-bench";
/// About what an item of a lease has besides its keys.
const ITEM_BYTES: usize = 250;

/// What the rounds of a cell came to.
#[derive(Default)]
struct Cell {
    rounds: Vec<LatencyStats>,
    requests: f64,
    /// Of processors: the client's, and the emulator's.
    cpu: [Duration; 2],
}

#[tokio::main]
async fn main() {
    let span = span(Duration::from_millis(1500)).unwrap();
    let requests = Requests::default();
    let bare = Client::from_conf(client(&endpoint()).interceptor(requests.clone()).build());
    make(TABLE).await;
    let leases = Leases::new(AnyStore::new(store(&bare).await)).unwrap();
    leases.begin_session();
    let locks = unique("locks");
    make_with_hash(&bare, &locks, "key").await.unwrap();
    let java_requests = requests_a_pair(&locks);
    let (alone, update) = (store(&bare).await, bare.clone());
    let mut contenders = [
        ("bare conditional puts", PairMaker::Here(pair(move |task| bare_pair(bare.clone(), task)))),
        ("bare conditional updates", PairMaker::Here(pair(move |task| update_pair(update.clone(), task)))),
        ("tenure, the store alone", PairMaker::store(alone)),
        ("tenure, `Leases`", PairMaker::leases(leases.clone())),
        ("AWS's lock client 1.4.0", PairMaker::Peer(lock_client(&endpoint(), &locks))),
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
        contender.measure(32, span * 2).await.unwrap();
    }
    for tasks in [1, 32] {
        let mut cells: Vec<Cell> = contenders.iter().map(|_| Cell::default()).collect();
        // By turns, so that what else the machine does falls on all.
        for _ in 0..ROUNDS {
            for ((_, contender), cell) in contenders.iter_mut().zip(&mut cells) {
                let _before = requests.take();
                let processes = [contender.process(), emulator.clone()];
                let cpu = processes.each_ref().map(|process| cpu_time_of(process));
                let round = contender.measure(tasks, span).await.unwrap();
                for (sum, (process, before)) in cell.cpu.iter_mut().zip(processes.iter().zip(cpu)) {
                    *sum += cpu_time_of(process).saturating_sub(before);
                }
                cell.requests += match contender {
                    PairMaker::Here(_) => requests.take() as f64,
                    PairMaker::Peer(_) => java_requests * round.count as f64,
                };
                cell.rounds.push(round);
            }
        }
        let limit = LatencyStats::of_rounds(&cells[0].rounds).count as f64;
        for ((name, _), cell) in contenders.iter().zip(cells) {
            let LatencyStats { count, percentiles, .. } = LatencyStats::of_rounds(&cell.rounds);
            let ([p50, p99], pairs) = (percentiles.map(|span| span.as_micros()), count as f64);
            let [client, emulator] = cell.cpu.map(|cpu| cpu.as_micros() as f64 / pairs);
            println!(
                "| {tasks} | {name} | {:.0} | {p50} | {p99} | {:.2} | {client:.0} | {emulator:.0} | {:.2} |",
                pairs / (span * ROUNDS).as_secs_f64(),
                cell.requests / pairs,
                pairs / limit,
            );
        }
    }
    leases.stop().await;
}

async fn store(client: &Client) -> DynamoStore {
    let config = DynamoConfig::new(TABLE).namespace(unique("bench"));
    DynamoStore::with_client(client, config, clock::system()).await.unwrap()
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// What a lock has to do at the least: take the item if it is free, and give it back if it is still one's own.
async fn bare_pair(client: Client, task: usize) {
    let key = task.to_string();
    let put = |owner: &str| {
        client
            .put_item()
            .table_name(TABLE)
            .item("namespace", text("bare"))
            .item("key", text(&key))
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
async fn update_pair(client: Client, task: usize) {
    let key = task.to_string();
    let update = |owner: &str, old: &str| {
        client
            .update_item()
            .table_name(TABLE)
            .key("namespace", text("bare-update"))
            .key("key", text(&key))
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
fn lock_client(endpoint: &str, table: &str) -> PeerProgram {
    let class_path = told("TENURE_TEST_LOCK_CLIENT").unwrap();
    let mut command = Command::new("java");
    command.args(["-classpath", &class_path, "LockPairs", endpoint, table]).stderr(Stdio::null());
    PeerProgram::start(&mut command).unwrap()
}

/// Of the lock client, by what goes over the wire, which would slow down what is measured.
async fn requests_a_pair(table: &str) -> f64 {
    let relay = Relay::start(&endpoint()).await.unwrap();
    let mut client = lock_client(&relay.endpoint, table);
    let counting = tokio::task::spawn_blocking(move || {
        let tally = client.measure("pairs", 1, Duration::from_secs(1)).unwrap();
        client.end().unwrap();
        tally
    });
    let tally = counting.await.unwrap();
    let counted = relay.take();
    (counted.reads() + counted.writes()) as f64 / tally.count as f64
}
