//! Acquire-and-release pairs per second on one SQLite file, from 1, 4 and 16 processes with one handle each, and from 16
//! tasks of one process, against bare SQLite transactions that write a row of the same size, and against file locks as
//! flock(1) takes them, in the same run.
//!
//! `cargo bench -p tenure-sqlite --bench pairs` prints the table; `TENURE_BENCH_MS` says for how long each of a cell's
//! rounds runs. A pair is two transactions, each of them on the disk before it is answered: `writes : bare` compares them
//! one by one (1.00 would be for free), `pairs : bare` a whole pair with one transaction (0.50 would be for free).
//! File locks are in memory and end with their machine: they are here to show the distance, not as a limit.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that can't run says so by panicking"
)]

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tenure_core::{Key, Nonce, Record};
use tenure_sqlite::{SqliteConfig, SqliteStore};
use tenure_store::{Outcome, Store, Write};
use tenure_testkit::RecordFactory;

const ROLE: &str = "TENURE_BENCH_ROLE";
/// About what a row of a lease has, columns and record together.
const ROW_BYTES: usize = 150;
/// How many times each cell is measured.
const ROUNDS: u32 = 6;

/// What one process, or several together, did.
#[derive(Default)]
struct Tally {
    writes: u64,
    /// Of each write, in microseconds.
    latencies: Vec<u64>,
}

impl Tally {
    fn time<T>(&mut self, write: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = write();
        self.count(start);
        done
    }

    fn add(&mut self, other: Tally) {
        self.writes += other.writes;
        self.latencies.extend(other.latencies);
    }

    fn count(&mut self, start: Instant) {
        self.writes += 1;
        self.latencies.push(u64::try_from(start.elapsed().as_micros()).unwrap());
    }

    fn percentile(&mut self, percent: usize) -> u64 {
        self.latencies.sort_unstable();
        self.latencies[(self.latencies.len() - 1) * percent / 100]
    }
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let millis =
        std::env::var("TENURE_BENCH_MS").map_or(if is_bench { 500 } else { 10 }, |ms| ms.parse().unwrap());
    let span = Duration::from_millis(millis);
    let whole = span * ROUNDS;
    if let Ok(role) = std::env::var(ROLE) {
        return work(&role, span);
    }
    let cores = std::thread::available_parallelism().unwrap();
    println!("{cores} cores, {whole:?} a cell; latencies are of single writes, in µs\n");
    println!(
        "| who | pairs/s | writes/s | p50 | p99 | max | bare transactions/s | p99 | max | writes : bare | pairs : bare \
         | flock pairs/s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (who, kind, processes) in [
        ("1 process", "process", 1),
        ("4 processes", "process", 4),
        ("16 processes", "process", 16),
        ("16 tasks in 1 process", "tasks", 1),
    ] {
        // By turns, so that what else the machine does falls on both.
        let (mut tenure, mut bare, mut flock) = (Tally::default(), Tally::default(), Tally::default());
        for _ in 0..ROUNDS {
            tenure.add(measure(kind, processes));
            bare.add(measure("bare", processes));
            flock.add(measure("flock", processes));
        }
        let rate = |tally: &Tally| tally.writes as f64 / whole.as_secs_f64();
        println!(
            "| {who} | {:.0} | {:.0} | {} | {} | {} | {:.0} | {} | {} | {:.2} | {:.2} | {:.0} |",
            rate(&tenure) / 2.0,
            rate(&tenure),
            tenure.percentile(50),
            tenure.percentile(99),
            tenure.percentile(100),
            rate(&bare),
            bare.percentile(99),
            bare.percentile(100),
            rate(&tenure) / rate(&bare),
            rate(&tenure) / 2.0 / rate(&bare),
            rate(&flock),
        );
    }
}

/// Lets processes of a kind work on a new file at the same time.
fn measure(kind: &str, processes: u32) -> Tally {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bench.db");
    prepare(kind, &file);
    let mut running: Vec<Child> = (0..processes)
        .map(|n| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(std::env::args().skip(1)).env(ROLE, format!("{kind} {n} {}", file.display()));
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut outputs = Vec::new();
    for process in &mut running {
        let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
        assert_eq!(output.next().unwrap().unwrap(), "ready");
        outputs.push(output);
    }
    for process in &mut running {
        process.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }
    let mut tally = Tally::default();
    for (mut process, mut output) in running.into_iter().zip(outputs) {
        tally.writes += output.next().unwrap().unwrap().parse::<u64>().unwrap();
        tally.latencies.extend(output.map(|line| line.unwrap().parse::<u64>().unwrap()));
        assert!(process.wait().unwrap().success());
    }
    tally
}

fn prepare(kind: &str, file: &Path) {
    if kind == "bare" {
        let bare = rusqlite::Connection::open(file).unwrap();
        bare.execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE bare (key TEXT PRIMARY KEY, value BLOB) STRICT, WITHOUT ROWID",
        )
        .unwrap();
    } else {
        drop(SqliteStore::open(SqliteConfig::new(file)).unwrap());
    }
}

/// What a started process does.
fn work(role: &str, span: Duration) {
    let mut parts = role.splitn(3, ' ');
    let (kind, name, file) = (parts.next().unwrap(), parts.next().unwrap(), Path::new(parts.next().unwrap()));
    let tally = match kind {
        "bare" => bare(file, name, span),
        "process" => tenure(file, name, 1, span),
        "tasks" => tenure(file, name, 16, span),
        "flock" => flock(file, name, span),
        other => panic!("{other:?} is no kind"),
    };
    let lines: String = tally.latencies.iter().map(|latency| format!("{latency}\n")).collect();
    std::io::stdout().write_all(format!("{}\n{lines}", tally.writes).as_bytes()).unwrap();
}

/// Says that all is set, and waits for the others.
fn ready() {
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn bare(file: &Path, name: &str, span: Duration) -> Tally {
    let bare = rusqlite::Connection::open(file).unwrap();
    bare.execute_batch("PRAGMA synchronous = FULL; PRAGMA busy_timeout = 60000").unwrap();
    let mut put = bare.prepare("INSERT OR REPLACE INTO bare VALUES (?1, ?2)").unwrap();
    let mut tally = Tally::default();
    ready();
    let start = Instant::now();
    while start.elapsed() < span {
        let fill = vec![tally.writes as u8; ROW_BYTES];
        tally.time(|| {
            bare.execute_batch("BEGIN IMMEDIATE").unwrap();
            put.execute((name, &fill)).unwrap();
            bare.execute_batch("COMMIT").unwrap();
        });
    }
    tally
}

/// A lock file for each process, as each has its own key. There are too many to keep the time of each.
fn flock(file: &Path, name: &str, span: Duration) -> Tally {
    let path = file.with_extension(name);
    let mut tally = Tally::default();
    ready();
    let start = Instant::now();
    while start.elapsed() < span {
        let lock = std::fs::File::create(&path).unwrap();
        lock.lock().unwrap();
        lock.unlock().unwrap();
        tally.writes += 1;
    }
    tally
}

#[tokio::main(flavor = "current_thread")]
async fn tenure(file: &Path, name: &str, tasks: u32, span: Duration) -> Tally {
    let store = SqliteStore::open(SqliteConfig::new(file).busy_timeout(Duration::from_secs(60))).unwrap();
    ready();
    let start = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let (store, key) = (store.clone(), Key::new(format!("{name}/{task}")).unwrap());
            tokio::spawn(async move {
                let (mut tally, factory) = (Tally::default(), RecordFactory::new());
                while start.elapsed() < span {
                    pair(&store, &factory, &key, &mut tally).await;
                }
                tally
            })
        })
        .collect();
    let mut all = Tally::default();
    for task in running {
        all.add(task.await.unwrap());
    }
    all
}

async fn pair(store: &SqliteStore, factory: &RecordFactory, key: &Key, tally: &mut Tally) {
    // Spread, since a version is made of the nonce's high half and the fence, and processes' numbers are as small as fences.
    let process = u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let sign =
        |record: Record| Record { nonce: Nonce(record.nonce.0 ^ (u128::from(process) << 64)), ..record };
    let start = Instant::now();
    let (version, fence) = won(store, factory.if_vacant(key, sign(factory.held(1)))).await;
    tally.count(start);
    let start = Instant::now();
    won(store, factory.unchanged(key, version, sign(factory.vacant(fence)))).await;
    tally.count(start);
}

async fn won(store: &SqliteStore, write: Write) -> (tenure_core::Version, u64) {
    match store.write(write).await.expect("the file is there for this alone") {
        Outcome::Won { version, fence } => (version, fence.0),
        lost => panic!("each key has one user, but {lost:?}"),
    }
}
