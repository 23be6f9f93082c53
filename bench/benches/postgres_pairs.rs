//! Leases on PostgreSQL beside the limit and beside peers, all by the same client, each over as many connections.
//!
//! - Acquire-and-release pairs per second, from 1 and 32 tasks with a key each: by `Leases`, by the store alone, by the bare conditional
//!   write, by what less sends, and by advisory locks. The bare write is `UPDATE … WHERE key = … AND version = …`, twice, with a value of
//!   the size of a record. less's have no fence, and a margin for clocks. Advisory locks write nothing: no fence, no ttl, and they end
//!   with their session, of which each task has one.
//! - The bare write and the store's, prepared and not.
//! - A contended key: from a release until the next of 32 waiters has it, in round trips of the bare write.
//! - A fleet at rest: requests of a worker in a third of its ttl.
//!
//! `cargo xtask bench postgres_pairs` starts PostgreSQL and prints the tables; `TENURE_BENCH_MS` says for how long each of a cell's
//! rounds runs. `cargo xtask bench takeover` with `TENURE_STORE` kills holders.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench may fail")]

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tenure::fleet::{Fleet, NewUnit};
use tenure::{AnyStore, Leases};
use tenure_bench::{cpu_time_of, percentile};
use tenure_core::{Key, Version};
use tenure_postgres::statements::{Call, Lines};
use tenure_postgres::tokio_postgres::types::{ToSql, Type};
use tenure_postgres::tokio_postgres::{Client, NoTls, Statement};
use tenure_postgres::{PostgresConfig, PostgresStore, Prepare};
use tenure_store::{MeteredStore, Outcome, Store, Write};
use tenure_testkit::Scribe;

/// About what a record's value has.
const VALUE_BYTES: usize = 250;
/// How many times each cell is measured.
const ROUNDS: u32 = 6;
const MOST: usize = 32;

type Pair = Arc<dyn Fn(usize) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

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
    let url = std::env::var("TENURE_TEST_POSTGRES").expect("cargo xtask bench postgres_pairs starts it");
    let schema = format!("bench_{}", std::process::id());
    let config = PostgresConfig::from_url(&url).unwrap().schema(&schema);
    PostgresStore::migrate(&config).await.unwrap();
    prepare_tables(&config, &schema).await;
    let trip = pairs(&config, &schema, &url, span).await;
    handoff(&config, trip, if is_bench { 400 } else { 40 }).await;
    fleet(&config, if is_bench { 1000 } else { 50 }).await;
    Lines::open(&config).unwrap().run(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
}

async fn prepare_tables(config: &PostgresConfig, schema: &str) {
    let tables = format!(
        "CREATE TABLE {schema}.bare (key bytea PRIMARY KEY, version bytea NOT NULL, record bytea NOT NULL) WITH (fillfactor = 50);
         INSERT INTO {schema}.bare SELECT int8send(n), int8send(0), '' FROM generate_series(0, {MOST}) AS n;
         CREATE TABLE {schema}.bare_plain (LIKE {schema}.bare INCLUDING ALL);
         INSERT INTO {schema}.bare_plain SELECT * FROM {schema}.bare;
         CREATE TABLE {schema}.less (key text PRIMARY KEY, value text NOT NULL, deadline timestamptz);"
    );
    Lines::open(config).unwrap().run(&tables).await.unwrap();
}

/// Prints the table of pairs; tells how long one bare write takes.
async fn pairs(config: &PostgresConfig, schema: &str, url: &str, span: Duration) -> Duration {
    let never = || config.clone().prepare(Prepare::Never);
    let open = |config: PostgresConfig| PostgresStore::open(config);
    let leases = Leases::new(AnyStore::new(open(config.clone()).await.unwrap())).unwrap();
    leases.begin_session();
    let user = leases.clone();
    let (store, plain) = (open(config.clone()).await.unwrap(), open(never()).await.unwrap());
    let (bare, bare_plain) = (Bare::new(config, schema, "bare"), Bare::new(&never(), schema, "bare_plain"));
    let (less, advisory) = (Less::new(config, schema), Arc::new(Advisory::new(url).await));
    let contenders: [(&str, Pair); 7] = [
        ("the bare conditional write", boxed(move |task| bare.clone().pair(task))),
        ("tenure, the store alone", boxed(move |task| pair(store.clone(), task))),
        ("tenure, `Leases`", boxed(move |task| lease_pair(user.clone(), task))),
        ("less's statements, without a fence", boxed(move |task| less.clone().pair(task))),
        ("advisory locks, nothing written", boxed(move |task| Arc::clone(&advisory).pair(task))),
        ("the bare write, unprepared", boxed(move |task| bare_plain.clone().pair(task))),
        ("the store alone, unprepared", boxed(move |task| pair(plain.clone(), task))),
    ];
    println!(
        "{:?} a cell; latencies are of pairs, client is its processor time for a pair, in µs\n",
        span * ROUNDS
    );
    println!("| tasks | | pairs/s | p50 | p99 | client | of the bare write |");
    println!("|---|---|---|---|---|---|---|");
    for (_, pair) in &contenders {
        measure(pair, MOST, span).await;
    }
    let mut trip = Duration::ZERO;
    for tasks in [1, MOST] {
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
        let bare = tallies[0].pairs as f64;
        for ((name, _), mut tally) in contenders.iter().zip(tallies) {
            let [p50, p99] = [50, 99].map(|percent| percentile(&mut tally.latencies, percent));
            if trip == Duration::ZERO {
                trip = p50 / 2;
            }
            println!(
                "| {tasks} | {name} | {:.0} | {} | {} | {:.0} | {:.2} |",
                tally.pairs as f64 / (span * ROUNDS).as_secs_f64(),
                p50.as_micros(),
                p99.as_micros(),
                tally.client.as_micros() as f64 / tally.pairs as f64,
                tally.pairs as f64 / bare,
            );
        }
    }
    leases.stop().await;
    trip
}

fn boxed<F: Future<Output = ()> + Send + 'static>(pair: impl Fn(usize) -> F + Send + Sync + 'static) -> Pair {
    Arc::new(move |task| Box::pin(pair(task)))
}

/// Lets tasks make pairs at the same time, each on a key of its own.
async fn measure(pair: &Pair, tasks: usize, span: Duration) -> Vec<Duration> {
    let start = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let pair = Arc::clone(pair);
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while start.elapsed() < span {
                    let began = Instant::now();
                    pair(task).await;
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

async fn lease_pair(leases: Leases, task: usize) {
    leases.acquire(format!("task/{task}")).await.unwrap().release().await;
}

async fn pair(store: PostgresStore, task: usize) {
    let (scribe, key) = (Scribe::new(), Key::new(format!("store/{task}")).unwrap());
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let (version, fence) =
        won(&store, scribe.if_vacant(&key, scribe.held(u64::try_from(wall).unwrap()))).await;
    won(&store, scribe.unchanged(&key, version, scribe.vacant(fence))).await;
}

async fn won(store: &PostgresStore, write: Write) -> (Version, u64) {
    match store.write(write).await.expect("the schema is there for this alone") {
        Outcome::Won { version, fence } => (version, fence.0),
        lost => panic!("each key has one user, but {lost:?}"),
    }
}

/// Twice `UPDATE … WHERE key = … AND version = …`.
#[derive(Clone)]
struct Bare {
    lines: Lines,
    sql: Arc<str>,
    versions: Arc<[AtomicU64]>,
}

impl Bare {
    fn new(config: &PostgresConfig, schema: &str, table: &str) -> Bare {
        let sql = format!(
            "UPDATE {schema}.{table} AS t SET version = $2, record = $3 WHERE key = $1 AND version = $4 RETURNING t.version"
        );
        let versions = (0..MOST).map(|_| AtomicU64::new(0)).collect();
        Bare { lines: Lines::open(config).unwrap(), sql: sql.into(), versions }
    }

    async fn pair(self, task: usize) {
        for _ in 0..2 {
            let last = self.versions[task].fetch_add(1, Ordering::SeqCst);
            let bytes = |n: u64| n.to_be_bytes().to_vec();
            let (key, next, expected) = (bytes(task as u64), bytes(last + 1), bytes(last));
            let value = vec![7_u8; VALUE_BYTES];
            let params: [(&(dyn ToSql + Sync), Type); 4] =
                [(&key, Type::BYTEA), (&next, Type::BYTEA), (&value, Type::BYTEA), (&expected, Type::BYTEA)];
            let rows = self.lines.ask(Call::Write, &self.sql, &params).await.unwrap();
            assert_eq!(rows.len(), 1, "each key has one user at a time");
        }
    }
}

/// What less sends, in tables of the same shape as its own.
#[derive(Clone)]
struct Less {
    lines: Lines,
    take: Arc<str>,
    release: Arc<str>,
}

impl Less {
    fn new(config: &PostgresConfig, schema: &str) -> Less {
        let take = format!(
            "INSERT INTO {schema}.less AS r (key, value, deadline)
             VALUES ($1, $2, clock_timestamp() + $3::bigint * interval '1 microsecond')
             ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, deadline = EXCLUDED.deadline
             WHERE r.deadline < clock_timestamp() RETURNING true"
        );
        let release = format!("DELETE FROM {schema}.less WHERE key = $1 AND value = $2 RETURNING true");
        Less { lines: Lines::open(config).unwrap(), take: take.into(), release: release.into() }
    }

    async fn pair(self, task: usize) {
        let (key, value, ttl) = (format!("task/{task}"), "0123456789abcdef0123456789abcdef", 8_000_000_i64);
        let taken: [(&(dyn ToSql + Sync), Type); 3] =
            [(&key, Type::TEXT), (&value, Type::TEXT), (&ttl, Type::INT8)];
        assert_eq!(self.lines.ask(Call::Write, &self.take, &taken).await.unwrap().len(), 1);
        let given: [(&(dyn ToSql + Sync), Type); 2] = [(&key, Type::TEXT), (&value, Type::TEXT)];
        assert_eq!(self.lines.ask(Call::Write, &self.release, &given).await.unwrap().len(), 1);
    }
}

/// Session-level locks, each task's in a session of its own.
struct Advisory {
    sessions: Vec<(Client, Statement, Statement)>,
}

impl Advisory {
    async fn new(url: &str) -> Advisory {
        let mut sessions = Vec::new();
        for _ in 0..MOST {
            let (client, connection) = tenure_postgres::tokio_postgres::connect(url, NoTls).await.unwrap();
            tokio::spawn(connection);
            let take = client.prepare("SELECT pg_try_advisory_lock($1)").await.unwrap();
            let release = client.prepare("SELECT pg_advisory_unlock($1)").await.unwrap();
            sessions.push((client, take, release));
        }
        Advisory { sessions }
    }

    async fn pair(self: Arc<Self>, task: usize) {
        let ((client, take, release), key) = (&self.sessions[task], i64::try_from(task).unwrap());
        assert!(client.query_one(take, &[&key]).await.unwrap().get::<_, bool>(0));
        assert!(client.query_one(release, &[&key]).await.unwrap().get::<_, bool>(0));
    }
}

/// From a release until the next of many waiters has the key. Each waiter is a holder of its own, as a process would be.
async fn handoff(config: &PostgresConfig, trip: Duration, turns: usize) {
    let (given_up, spans) = (Arc::new(Mutex::new(None::<Instant>)), Arc::new(Mutex::new(Vec::new())));
    let is_over = Arc::new(AtomicBool::new(false));
    let mut waiters = Vec::new();
    for _ in 0..MOST {
        let store = PostgresStore::open(config.clone().connections(1)).await.unwrap();
        let leases = Leases::new(AnyStore::new(store)).unwrap();
        leases.begin_session();
        let (given_up, spans, is_over) = (Arc::clone(&given_up), Arc::clone(&spans), Arc::clone(&is_over));
        waiters.push(tokio::spawn(async move {
            while !is_over.load(Ordering::SeqCst) {
                let guard = leases.acquire("contended").await.unwrap();
                if let Some(since) = given_up.lock().unwrap().take() {
                    spans.lock().unwrap().push(since.elapsed());
                }
                if spans.lock().unwrap().len() >= turns {
                    is_over.store(true, Ordering::SeqCst);
                }
                // So that the others wait by then.
                tokio::time::sleep(Duration::from_millis(10)).await;
                *given_up.lock().unwrap() = Some(Instant::now());
                guard.release().await;
            }
            leases.stop().await;
        }));
    }
    for waiter in waiters {
        waiter.await.unwrap();
    }
    let mut spans = std::mem::take(&mut *spans.lock().unwrap());
    let [p50, p90] = [50, 90].map(|percent| percentile(&mut spans, percent));
    let trips = |span: Duration| span.as_secs_f64() / trip.as_secs_f64();
    println!(
        "\na contended key, {MOST} waiters, {} turns: p50 {p50:?} from the call of release to the next one's lease, {:.1} round trips of {trip:?}; p90 {:.1}",
        spans.len(),
        trips(p50),
        trips(p90)
    );
}

/// What a fleet asks of the store while nothing changes.
async fn fleet(config: &PostgresConfig, units: usize) {
    const WORKERS: usize = 5;
    const TTL: Duration = Duration::from_secs(6);
    const THIRDS: u32 = 6;
    let metered = MeteredStore::new(PostgresStore::open(config.clone()).await.unwrap());
    let fleet = || Fleet::new(AnyStore::new(metered.clone()), "bench").unwrap();
    let watched = fleet();
    watched.create_all((0..units).map(|n| NewUnit::named(format!("{n:04}")))).await.unwrap();
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        let worker = fleet().join().ttl(TTL).start().unwrap();
        let running = worker.clone();
        tokio::spawn(async move { running.run(|unit| async move { unit.cancelled().await }).await });
        workers.push(worker);
    }
    loop {
        let mut counts = BTreeMap::<String, usize>::new();
        for unit in watched.list().await.unwrap().units {
            let holder = unit.holder.map_or_else(String::new, |by| by.holder.as_str().to_owned());
            *counts.entry(holder).or_default() += 1;
        }
        if counts.len() == WORKERS && counts.values().all(|count| *count == units / WORKERS) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(TTL * 2).await;
    let before = metered.counts();
    tokio::time::sleep(TTL / 3 * THIRDS).await;
    let after = metered.counts();
    let each = |before: u64, after: u64| (after - before) as f64 / (THIRDS as usize * WORKERS) as f64;
    println!(
        "\na fleet of {units} units and {WORKERS} workers at rest, for each worker in a third of a ttl: {:.2} writes, {:.2} reads, {:.2} lists, {:.2} batches",
        each(before.writes, after.writes),
        each(before.reads, after.reads),
        each(before.lists, after.lists),
        each(before.batches, after.batches),
    );
    for worker in workers {
        worker.leave().await;
    }
}
