//! Leases of ranges. What an acquire costs in own processor time in a section of 1,000 leases (limit: 2 ms); what 16 processes
//! that contend for one section get done on SQLite, beside the bare compare-and-set in the same run (limit: half of it); how much
//! faster four processes sweep than one with a handler that waits 1 ms an item (limit: 3.5 times).
//!
//! `cargo xtask bench ranges`
#![allow(missing_docs, reason = "a program")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tenure::range::sweep::{Page, Source, Sweep};
use tenure::range::{KeyRange, Point, Section};
use tenure::sqlite::{SqliteConfig, SqliteStore};
use tenure::store::{Expect, Outcome, Record, Write};
use tenure::{AnyStore, Fence, Key, Store, Wall};
use tenure_bench::{cpu_time, stopwatch};

type Error = Box<dyn std::error::Error + Send + Sync>;

const PROCESSES: usize = 16;
const SPAN: Duration = Duration::from_secs(3);
const ITEMS: u64 = 8000;

fn main() -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, path, n] = arguments.as_slice() {
        return runtime.block_on(async {
            match role.as_str() {
                "lease" => lease(Path::new(path), n.parse()?).await,
                "bare" => bare(Path::new(path), n.parse()?).await,
                _ => sweep(Path::new(path)).await,
            }
        });
    }
    runtime.block_on(thousand())?;
    let leased = contend("lease")?;
    let written = contend("bare")?;
    println!(
        "{PROCESSES} processes on one section: {leased:.0} writes/s (leases and releases); bare compare-and-set on one"
    );
    println!("record: {written:.0} writes/s; ratio {:.2} (limit 0.5)", leased / written);
    let (one, four) = (swept(1)?, swept(4)?);
    let speedup = one.as_secs_f64() / four.as_secs_f64();
    println!(
        "a sweep of {ITEMS} items, 1 ms each: {one:.2?} by one process, {four:.2?} by four: {speedup:.2} times (limit 3.5)"
    );
    Ok(())
}

fn open(path: &Path) -> Result<AnyStore, Error> {
    Ok(AnyStore::new(SqliteStore::open(SqliteConfig::new(path))?))
}

async fn thousand() -> Result<(), Error> {
    const ROUNDS: u32 = 300;
    for (name, bytes) in [("64", 8), ("256", 32)] {
        let section = Section::builder(tenure::memory(), "s").most_parts(1100).start()?;
        let all: Vec<KeyRange> = KeyRange::universe_of_bytes(bytes).split(1001).collect();
        let (last, held) = all.split_last().ok_or("no ranges")?;
        let day = Duration::from_secs(86_400);
        let mut holding = Vec::new();
        for range in held {
            let (section, range) = (section.clone(), range.clone());
            holding.push(tokio::spawn(async move {
                section.try_with_lease(range, day, |_| std::future::pending::<()>()).await
            }));
        }
        while section.list().await?.len() < 1000 {}
        let begun = cpu_time();
        for _ in 0..ROUNDS {
            section.try_with_lease(last.clone(), day, |_| async {}).await?;
        }
        let known = (cpu_time() - begun) / ROUNDS;
        let begun = cpu_time();
        for _ in 0..ROUNDS {
            // One that has to read and understand the whole record first.
            let fresh = Section::builder(section.store().clone(), "s").most_parts(1100).start()?;
            fresh.try_with_lease(last.clone(), day, |_| async {}).await?;
        }
        let fresh = (cpu_time() - begun) / ROUNDS;
        println!(
            "1,000 leases of {name}-bit keys: {known:.2?} of processor time for an acquire and its release, {fresh:.2?} in a"
        );
        println!("process that has not seen the section before (limit 2 ms for the acquire)");
        holding.iter().for_each(tokio::task::JoinHandle::abort);
    }
    Ok(())
}

fn start(role: &str, path: &Path, n: usize) -> Result<Child, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    Ok(command.arg(role).arg(path).arg(n.to_string()).stdout(Stdio::piped()).spawn()?)
}

/// What all processes got done in a second.
fn contend(role: &str) -> Result<f64, Error> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("a.db");
    open(&path)?;
    let processes = (0..PROCESSES).map(|n| start(role, &path, n)).collect::<Result<Vec<_>, _>>()?;
    let mut sum = 0;
    for process in processes {
        let out = process.wait_with_output()?;
        sum += String::from_utf8_lossy(&out.stdout).trim().parse::<u64>()?;
    }
    Ok(sum as f64 / SPAN.as_secs_f64())
}

async fn lease(path: &Path, n: u64) -> Result<(), Error> {
    let section = Section::new(open(path)?, "s")?;
    let (after, mut writes) = (stopwatch(), 0u64);
    while after() < SPAN {
        section.try_with_lease(KeyRange::new(n, n + 1)?, Duration::from_secs(60), |_| async {}).await?;
        writes += 2;
    }
    println!("{writes}");
    Ok(())
}

/// The same record written over and over, each time on the condition that it is as it was seen.
async fn bare(path: &Path, n: u64) -> Result<(), Error> {
    let store = open(path)?;
    let key = Key::new("bare")?;
    let (after, mut writes, mut count) = (stopwatch(), 0u64, u128::from(n) << 64);
    let mut seen = store.read(&key).await?;
    while after() < SPAN {
        count += 1;
        let nonce = tenure::store::Nonce(count);
        let record =
            Record { fence: Fence(1), nonce, stamp: Wall(0), tenure: None, metadata: Default::default() };
        let expect = seen.as_ref().map_or(Expect::Absent, |seen| Expect::Unchanged(seen.version));
        match store.write(Write { key: key.clone(), expect, record }).await? {
            Outcome::Won { .. } => {
                writes += 1;
                seen = store.read(&key).await?;
            }
            Outcome::Lost(current) => seen = current,
        }
    }
    println!("{writes}");
    Ok(())
}

/// Items at every place.
struct Places;

impl Source for Places {
    type Item = u64;
    type Error = std::convert::Infallible;

    async fn scan(&self, range: &KeyRange, limit: usize, _: Duration) -> Result<Page<u64>, Self::Error> {
        let number = |point: &Point| u64::from_str_radix(&point.to_string(), 16).unwrap_or(u64::MAX);
        let items: Vec<u64> = (number(range.low())..number(range.high())).take(limit).collect();
        let is_all = items.len() < limit;
        Ok(Page::new(items, is_all))
    }

    fn key(&self, item: &u64) -> Point {
        (*item).into()
    }
}

fn swept(processes: usize) -> Result<Duration, Error> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("a.db");
    open(&path)?;
    let after = stopwatch();
    let processes = (0..processes).map(|n| start("sweep", &path, n)).collect::<Result<Vec<_>, _>>()?;
    for process in processes {
        process.wait_with_output()?;
    }
    Ok(after())
}

async fn sweep(path: &Path) -> Result<(), Error> {
    let section = Section::new(open(path)?, "s")?;
    let sweep = Sweep::new(section, "one", KeyRange::new(0u64, ITEMS)?).batch(50).share(250).shards(64);
    let handle = |batch: Vec<u64>, _| async move {
        // Nothing can be waited for more exactly than a millisecond, so a batch waits for all of its items.
        tokio::time::sleep(Duration::from_millis(batch.len() as u64)).await;
        Ok(())
    };
    sweep.run(Arc::new(Places), handle).await?;
    Ok(())
}
