//! How long a killed holder's key stays without one: real processes on one SQLite file, or on the store that `TENURE_STORE` names,
//! killed with SIGKILL at a random moment of their renewal interval. The promise (L1) is 1.15 × ttl where the store tells ages.
//!
//! `cargo xtask bench takeover`; `TENURE_KILLS` sets how often (100). Other stores than SQLite are features of this bench:
//! `TENURE_STORE=postgres://… cargo bench -p tenure-bench --features postgres --bench takeover`. Their keys begin with `takeover/`.
#![allow(missing_docs, reason = "a program")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use tenure::registry::{Opening, Registry};
use tenure::{AnyStore, Leases};
use tenure_bench::{percentile, stopwatch};

const TTL: Duration = Duration::from_secs(2);
const AT_ONCE: u32 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let args: Vec<String> = std::env::args().collect();
    if let [_, role, key, is_attached] = args.as_slice()
        && role == "hold"
    {
        return runtime.block_on(hold(&std::env::var("TENURE_STORE")?, key, is_attached == "true"));
    }
    let kills: u32 = std::env::var("TENURE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(100);
    let dir = tempfile::tempdir()?;
    let url = std::env::var("TENURE_STORE")
        .unwrap_or_else(|_| format!("sqlite:{}", dir.path().join("leases.db").display()));
    let kind = url.split(':').next().unwrap_or_default();
    println!("takeover after kill -9 on {kind}, ttl {TTL:?}, {kills} kills each, in multiples of the ttl");
    println!("{:>28} {:>8} {:>8} {:>8} {:>8}", "", "min", "p50", "p99", "max");
    for (name, is_attached, waits) in [
        ("own renewals, waiter watched", false, true),
        ("attached, waiter watched", true, true),
        ("attached, waiter comes fresh", true, false),
    ] {
        let mut times = runtime.block_on(episodes(&url, kills, is_attached, waits))?;
        let share = |percent| percentile(&mut times.clone(), percent).as_secs_f64() / TTL.as_secs_f64();
        let (min, p50, p99, max) = (share(0), share(50), share(99), share(100));
        println!("{name:>28} {min:>8.3} {p50:>8.3} {p99:>8.3} {max:>8.3}");
        times.clear();
    }
    Ok(())
}

async fn hold(url: &str, key: &str, is_attached: bool) -> Result<(), Box<dyn std::error::Error>> {
    let leases = Leases::builder(open(url).await?).session_ttl(TTL).start()?;
    let lock = leases.lock(key);
    let guard = if is_attached { lock } else { lock.ttl(TTL) }.acquire().await?;
    println!("held");
    guard.lost().await;
    Ok(())
}

async fn open(url: &str) -> Result<AnyStore, Box<dyn std::error::Error>> {
    let opening = Opening::default().create_table(!url.starts_with("sqlite:"));
    Ok(Registry::standard().open(url, opening).await?)
}

async fn episodes(
    url: &str,
    kills: u32,
    is_attached: bool,
    waits: bool,
) -> Result<Vec<Duration>, Box<dyn std::error::Error>> {
    let mut times = Vec::new();
    let mut next = 0;
    while next < kills {
        let batch = (next..kills.min(next + AT_ONCE)).map(|n| {
            let url = url.to_owned();
            tokio::spawn(async move {
                episode(&url, n, is_attached, waits).await.map_err(|error| error.to_string())
            })
        });
        for episode in batch.collect::<Vec<_>>() {
            times.push(episode.await??);
        }
        next += AT_ONCE;
    }
    Ok(times)
}

/// Starts a holder, waits for its key, kills it, and tells how long it took from the kill to the takeover.
async fn episode(
    url: &str,
    n: u32,
    is_attached: bool,
    waits: bool,
) -> Result<Duration, Box<dyn std::error::Error>> {
    let key = format!("takeover/{n}");
    let mut child = Command::new(std::env::current_exe()?)
        .args(["hold", &key, &is_attached.to_string()])
        // A URL may hold a password, and arguments are seen by all.
        .env("TENURE_STORE", url)
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().ok_or("no pipe")?;
    let line = tokio::task::spawn_blocking(move || BufReader::new(stdout).lines().next()).await?;
    line.ok_or("the holder has died")??;
    let leases = Leases::builder(open(url).await?).session_ttl(TTL).start()?;
    leases.begin_session();
    let waiter = leases.clone();
    let acquiring = async move { waiter.acquire(&key).await };
    // Spread over the renewal interval, whatever it is.
    let phase = TTL / 3 * (n % 31) / 31;
    let (guard, after) = if waits {
        let acquiring = tokio::spawn(acquiring);
        tokio::time::sleep(TTL + phase).await;
        child.kill()?;
        let after = stopwatch();
        (acquiring.await??, after())
    } else {
        tokio::time::sleep(TTL + phase).await;
        child.kill()?;
        let after = stopwatch();
        (acquiring.await?, after())
    };
    child.wait()?;
    guard.release().await;
    leases.stop().await;
    Ok(after)
}
