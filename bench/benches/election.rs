//! How long there is no leader. On resignation with push: one release, then at most two round trips of the next
//! leader, a look and a claim; counted, and in time beside bare round trips of the same store in the same run. On a
//! crash: L1's bound, 1.15 × ttl where the store tells ages or pushes.
//!
//! `cargo xtask bench election`; `TENURE_KILLS` sets how many crashes (20), `TENURE_RESIGNATIONS` how many
//! resignations (200).
#![allow(missing_docs, reason = "a program")]

use std::path::Path;
use std::time::Duration;
use tenure::election::Standing;
use tenure::sqlite::{SqliteConfig, SqliteStore};
use tenure::{AnyStore, Candidate, Key, MemoryStore, Store};
use tenure_bench::{percentile, stopwatch};
use tenure_store::{Fault, FaultyStore, MeteredStore};

type Error = Box<dyn std::error::Error>;

const TTL: Duration = Duration::from_secs(1);
/// Long enough for the other one to lead first.
const COOLDOWN: Duration = Duration::from_millis(50);

fn main() -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let number = |name: &str, usual: usize| -> usize {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let (resignations, kills) = (number("TENURE_RESIGNATIONS", 200), number("TENURE_KILLS", 20));
    runtime.block_on(async {
        println!("leader gap on resignation, {resignations} each: from the call of resign() until another leads");
        println!(
            "{:>8} {:>6} {:>12} {:>12} {:>12} {:>12} {:>10} {:>12}",
            "store", "push", "write p50", "read p50", "gap p50", "gap p99", "trips max", "gap − release"
        );
        let dir = tempfile::tempdir()?;
        resigning("memory", || Ok(memory()), resignations).await?;
        resigning_on_sqlite(&dir.path().join("resign.db"), resignations).await?;
        println!("\nleader gap on a crash (every call of the leader hangs), {kills} each, ttl {TTL:?}, in multiples of it");
        println!("{:>8} {:>8} {:>8} {:>8} {:>8}", "store", "min", "p50", "max", "bound");
        let store = memory();
        crashing("memory", || Ok(store.clone()), kills).await?;
        let path = dir.path().join("crash.db");
        crashing("sqlite", || open(&path), kills).await
    })
}

fn memory() -> MemoryStore {
    MemoryStore::new("bench", tenure::clock::system())
}

fn open(path: &Path) -> Result<SqliteStore, Error> {
    Ok(SqliteStore::open(SqliteConfig::new(path))?)
}

async fn resigning_on_sqlite(path: &Path, times: usize) -> Result<(), Error> {
    resigning("sqlite", || open(path), times).await
}

/// Two candidates on lines of their own to one store; the leader resigns, again and again.
async fn resigning<S: Store + Clone>(
    name: &str,
    open: impl Fn() -> Result<S, Error>,
    times: usize,
) -> Result<(), Error> {
    let first = open()?;
    let second = if name == "memory" { first.clone() } else { open()? };
    let push = first.capabilities().watch;
    let bare = bare(&first, times).await?;
    let lines = [MeteredStore::new(first), MeteredStore::new(second)];
    let candidates = lines
        .iter()
        .map(|line| Candidate::builder(AnyStore::new(line.clone())).ttl(TTL * 10).cooldown(COOLDOWN).start())
        .collect::<Result<Vec<_>, _>>()?;
    let (mut gaps, mut most, mut after_release) = (Vec::new(), 0, Vec::new());
    for _ in 0..times {
        let leader = the_leader(&candidates).await;
        // Until the other one follows, and no renewal is due: what is counted is the gap alone.
        candidates[1 - leader].changes().wait_for(|status| status.leader.is_some()).await?;
        candidates[1 - leader].changes().wait_for(|status| status.standing == Standing::Following).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        lines[1 - leader].take();
        let elapsed = stopwatch();
        let (old, new) = (candidates[leader].clone(), candidates[1 - leader].clone());
        let released = tokio::spawn(async move { old.resign().await });
        new.elected().await?;
        gaps.push(elapsed());
        after_release.push(elapsed().saturating_sub(bare.0));
        most = most.max(lines[1 - leader].take().round_trips());
        released.await?;
    }
    for candidate in candidates {
        candidate.stop().await;
    }
    println!(
        "{name:>8} {:>6} {:>9.0} µs {:>9.0} µs {:>9.0} µs {:>9.0} µs {most:>10} {:>9.0} µs",
        if push { "yes" } else { "no" },
        micros(bare.0),
        micros(bare.1),
        micros(percentile(&mut gaps, 50)),
        micros(percentile(&mut gaps, 99)),
        micros(percentile(&mut after_release, 50)),
    );
    Ok(())
}

fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

async fn the_leader(candidates: &[Candidate]) -> usize {
    loop {
        if let Some(leader) = candidates.iter().position(Candidate::is_leader) {
            return leader;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The medians of a bare write and a bare read.
async fn bare<S: Store>(store: &S, times: usize) -> Result<(Duration, Duration), Error> {
    use tenure::store::{Expect, Record, Version, Write};
    use tenure::{Fence, Metadata, Wall};
    let key = Key::new("bare")?;
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    for n in 0..times as u64 {
        let mut record = Record {
            fence: Fence(1),
            nonce: Default::default(),
            stamp: Wall(1),
            tenure: None,
            metadata: Metadata::new(),
        };
        record.nonce.0 = u128::from(n) + 1;
        let last: Option<Version> = store.read(&key).await?.map(|stored| stored.version);
        let expect = last.map_or(Expect::Absent, Expect::Unchanged);
        let elapsed = stopwatch();
        store.write(Write { key: key.clone(), expect, record }).await?;
        writes.push(elapsed());
        let elapsed = stopwatch();
        store.read(&key).await?;
        reads.push(elapsed());
    }
    Ok((percentile(&mut writes, 50), percentile(&mut reads, 50)))
}

/// Three candidates; the leader's line hangs, again and again.
async fn crashing<S: Store + Clone>(
    name: &str,
    open: impl Fn() -> Result<S, Error>,
    times: usize,
) -> Result<(), Error> {
    let lines = (0..3).map(|_| Ok(FaultyStore::new(open()?))).collect::<Result<Vec<_>, Error>>()?;
    let candidates = lines
        .iter()
        .map(|line| Candidate::builder(AnyStore::new(line.clone())).key("crash").ttl(TTL).start())
        .collect::<Result<Vec<_>, _>>()?;
    let mut gaps = Vec::new();
    for n in 0..times as u32 {
        let leader = the_leader(&candidates).await;
        // Spread over the renewal interval, whatever it is.
        tokio::time::sleep(TTL + TTL / 5 * (n % 23) / 23).await;
        if !candidates[leader].is_leader() {
            continue;
        }
        lines[leader].always(Fault::Hang);
        let elapsed = stopwatch();
        loop {
            let next = candidates.iter().position(Candidate::is_leader);
            if next.is_some_and(|next| next != leader) {
                break;
            }
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        gaps.push(elapsed());
        lines[leader].always(Fault::None);
        tokio::time::sleep(TTL).await;
    }
    let mut share = |percent| percentile(&mut gaps, percent).as_secs_f64() / TTL.as_secs_f64();
    println!("{name:>8} {:>8.3} {:>8.3} {:>8.3} {:>8.2}", share(0), share(50), share(100), 1.15);
    for candidate in candidates {
        candidate.stop().await;
    }
    Ok(())
}
