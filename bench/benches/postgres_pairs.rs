//! Leases on PostgreSQL beside the limit and beside peers, all by the same client, each over as many connections.
//!
//! - Acquire-and-release pairs per second, from 1 and 32 tasks with a key each: by `Leases`, by the store alone, by the bare conditional
//!   write, by what less sends, and by advisory locks. The bare write is `UPDATE … WHERE key = … AND version = …`, twice, with a value of
//!   the size of a record. less's have no fence, and a margin for clocks. Advisory locks write nothing: no fence, no ttl, and they end
//!   with their session, of which each task has one.
//! - The bare write and the store's, prepared and not.
//! - A lock that 32 want: from one's release to the next one's having it, in round trips of a write that is refused.
//! - A fleet at rest: requests of a worker in a third of its ttl.
//!
//! `cargo xtask bench postgres_pairs` starts PostgreSQL and prints the tables; `TENURE_BENCH_MS` says for how long each of a cell's
//! rounds runs. `cargo xtask bench takeover` with `TENURE_STORE` kills holders.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench may fail")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure::{AnyStore, Leases};
use tenure_bench::handoffs::{Crowd, compare};
use tenure_bench::pairs::{PairMaker, pair, table};
use tenure_bench::rest::fleet_at_rest;
use tenure_bench::{is_bench, span};
use tenure_postgres::statements::{Call, Connections};
use tenure_postgres::tokio_postgres::types::{ToSql, Type};
use tenure_postgres::tokio_postgres::{Client, NoTls, Statement};
use tenure_postgres::{PostgresConfig, PostgresStore, Prepare};
use tokio::runtime::Handle;

/// About what a record's value has.
const VALUE_BYTES: usize = 250;
const MOST: usize = 32;

#[tokio::main]
async fn main() {
    let span = span(Duration::from_secs(1)).unwrap();
    let url = std::env::var("TENURE_TEST_POSTGRES").expect("cargo xtask bench postgres_pairs starts it");
    let schema = format!("bench_{}", std::process::id());
    let config = PostgresConfig::from_url(&url).unwrap().schema(&schema);
    PostgresStore::migrate(&config).await.unwrap();
    prepare_tables(&config, &schema).await;
    pairs(&config, &schema, &url, span).await;
    handoffs(&config, &format!("{url}{}schema={schema}", if url.contains('?') { '&' } else { '?' }), span)
        .await;
    fleet_at_rest(open(&config).await, if is_bench() { 1000 } else { 50 }).await.unwrap();
    Connections::open(&config).unwrap().run(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
}

async fn open(config: &PostgresConfig) -> PostgresStore {
    PostgresStore::open(config.clone()).await.unwrap()
}

async fn prepare_tables(config: &PostgresConfig, schema: &str) {
    let tables = format!(
        "CREATE TABLE {schema}.bare (key bytea PRIMARY KEY, version bytea NOT NULL, record bytea NOT NULL) WITH (fillfactor = 50);
         INSERT INTO {schema}.bare SELECT int8send(n), int8send(0), '' FROM generate_series(0, {MOST}) AS n;
         CREATE TABLE {schema}.bare_plain (LIKE {schema}.bare INCLUDING ALL);
         INSERT INTO {schema}.bare_plain SELECT * FROM {schema}.bare;
         CREATE TABLE {schema}.less (key text PRIMARY KEY, value text NOT NULL, deadline timestamptz);"
    );
    Connections::open(config).unwrap().run(&tables).await.unwrap();
}

async fn pairs(config: &PostgresConfig, schema: &str, url: &str, span: Duration) {
    let unprepared = config.clone().prepare(Prepare::Never);
    let leases = Leases::new(AnyStore::new(open(config).await)).unwrap();
    let here = Leases::builder(AnyStore::new(open(config).await)).runtime(Handle::current()).start().unwrap();
    leases.begin_session();
    here.begin_session();
    let (bare, plain) = (Bare::new(config, schema, "bare"), Bare::new(&unprepared, schema, "bare_plain"));
    let (less, advisory) = (Less::new(config, schema), Arc::new(Advisory::new(url).await));
    let limit = pair(move |task| bare.clone().pair(task));
    let mut contenders = [
        ("the limit: a conditional write", PairMaker::Here(limit.clone())),
        ("tenure, the store alone", PairMaker::store(open(config).await)),
        ("tenure, `Leases`", PairMaker::leases(leases.clone())),
        ("tenure, `Leases` on the tasks' runtime", PairMaker::leases(here.clone())),
        ("less's statements, without a fence", PairMaker::Here(pair(move |task| less.clone().pair(task)))),
        (
            "advisory locks, nothing written",
            PairMaker::Here(pair(move |task| Arc::clone(&advisory).pair(task))),
        ),
        ("the limit, unprepared", PairMaker::Here(pair(move |task| plain.clone().pair(task)))),
        ("the store alone, unprepared", PairMaker::store(open(&unprepared).await)),
    ];
    table(&mut contenders, span).await.unwrap();
    here.stop().await;
    // By itself: who may have to hand a fair lock on listens, and each write tells who listens.
    let mut contenders = [
        ("the limit: a conditional write", PairMaker::Here(limit)),
        ("tenure, a fair lock", PairMaker::fair_locks(leases.clone())),
    ];
    table(&mut contenders, span).await.unwrap();
    leases.stop().await;
}

/// Of one key that all want, by tasks of one process and by processes, each of which has one connection besides that which listens.
async fn handoffs(config: &PostgresConfig, url: &str, span: Duration) {
    let mut stores = Vec::new();
    for _ in 0..MOST {
        stores.push(open(&config.clone().connections(1)).await);
    }
    let crowds = Crowd::all(
        // As programs open it.
        Crowd::of_tasks(tenure::open(url).await.unwrap(), MOST),
        Crowd::of_tasks_here(open(config).await, MOST),
        Crowd::of_processes(stores),
    );
    compare(&crowds, &open(config).await, &mut [], span).await.unwrap();
}

/// Twice `UPDATE … WHERE key = … AND version = …`.
#[derive(Clone)]
struct Bare {
    connections: Connections,
    sql: Arc<str>,
    versions: Arc<[AtomicU64]>,
}

impl Bare {
    fn new(config: &PostgresConfig, schema: &str, table: &str) -> Bare {
        let sql = format!(
            "UPDATE {schema}.{table} AS t SET version = $2, record = $3 WHERE key = $1 AND version = $4 RETURNING t.version"
        );
        let versions = (0..MOST).map(|_| AtomicU64::new(0)).collect();
        Bare { connections: Connections::open(config).unwrap(), sql: sql.into(), versions }
    }

    async fn pair(self, task: usize) {
        for _ in 0..2 {
            let last = self.versions[task].fetch_add(1, Ordering::SeqCst);
            let bytes = |n: u64| n.to_be_bytes().to_vec();
            let (key, next, expected) = (bytes(task as u64), bytes(last + 1), bytes(last));
            let value = vec![7_u8; VALUE_BYTES];
            let params: [(&(dyn ToSql + Sync), Type); 4] =
                [(&key, Type::BYTEA), (&next, Type::BYTEA), (&value, Type::BYTEA), (&expected, Type::BYTEA)];
            let rows = self.connections.ask(Call::Write, &self.sql, &params).await.unwrap();
            assert_eq!(rows.len(), 1, "each key has one user at a time");
        }
    }
}

/// What less sends, in tables of the same shape as its own.
#[derive(Clone)]
struct Less {
    connections: Connections,
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
        Less { connections: Connections::open(config).unwrap(), take: take.into(), release: release.into() }
    }

    async fn pair(self, task: usize) {
        let (key, value, ttl) = (format!("task/{task}"), "0123456789abcdef0123456789abcdef", 8_000_000_i64);
        let taken: [(&(dyn ToSql + Sync), Type); 3] =
            [(&key, Type::TEXT), (&value, Type::TEXT), (&ttl, Type::INT8)];
        assert_eq!(self.connections.ask(Call::Write, &self.take, &taken).await.unwrap().len(), 1);
        let given: [(&(dyn ToSql + Sync), Type); 2] = [(&key, Type::TEXT), (&value, Type::TEXT)];
        assert_eq!(self.connections.ask(Call::Write, &self.release, &given).await.unwrap().len(), 1);
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
