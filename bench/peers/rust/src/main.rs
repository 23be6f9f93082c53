//! Pairs of acquire and release, and handoffs of one contended lock, by rslock: the lock on Redis that Rust programs use.
//!
//! Usage: `tenure-bench-peers rslock HOST:PORT`
//!
//! Each line `pairs TASKS MILLIS` or `handoffs WAITERS MILLIS` on standard input is answered with one line: how many there were, and
//! the 50th and 99th percentile and the mean of one in µs. It ends with its input. `bench/peers/go` does the same with locks for Go.
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use rslock::{LockGuard, LockManager};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// As redsync's, by itself.
const TTL: Duration = Duration::from_secs(8);

/// How long each has the lock that all want.
const HELD: Duration = Duration::from_millis(2);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [peer, address] = &words[..] else { return Err("usage: tenure-bench-peers rslock HOST:PORT".into()) };
    if peer != "rslock" {
        return Err(format!("{peer:?} is not rslock").into());
    }
    let mut locks = LockManager::new(vec![format!("redis://{address}")]);
    // It polls, at random times up to 200 ms apart, unless told otherwise; without a limit here, as the others have none.
    locks.set_retry(1_000_000, Duration::from_millis(200));
    for line in std::io::stdin().lines() {
        let line = line?;
        let [what, tasks, millis] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err(format!("{line:?} is not WHAT TASKS MILLIS").into());
        };
        let (tasks, span) = (tasks.parse()?, Duration::from_millis(millis.parse()?));
        let mut all = match what {
            "pairs" => pairs(&locks, tasks, span).await?,
            "handoffs" => handoffs(&locks, tasks, span).await?,
            _ => return Err(format!("{what:?} is neither pairs nor handoffs").into()),
        };
        all.sort_unstable();
        let percentile = |percent: usize| all.get(all.len().saturating_sub(1) * percent / 100).copied();
        let [p50, p99] = [50, 99].map(|percent| percentile(percent).unwrap_or_default().as_micros());
        let mean = all.iter().sum::<Duration>().as_micros() / all.len().max(1) as u128;
        println!("{} {p50} {p99} {mean}", all.len());
    }
    Ok(())
}

async fn acquire(locks: &LockManager, key: &str) -> Result<LockGuard, Error> {
    Ok(locks.acquire(format!("peer/{key}").as_str(), TTL).await?)
}

/// Each task has a key of its own.
async fn pairs(locks: &LockManager, tasks: usize, span: Duration) -> Result<Vec<Duration>, Error> {
    let end = Instant::now() + span;
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let locks = locks.clone();
        running.spawn(async move {
            let (key, mut all) = (format!("task/{task}"), Vec::new());
            while Instant::now() < end {
                let began = Instant::now();
                acquire(&locks, &key).await?.release().await;
                all.push(began.elapsed());
            }
            Ok(all)
        });
    }
    together(running).await
}

/// All want one key. A handoff is from the call of one's release to the next one's having it; whoever has released waits until somebody
/// else has it.
async fn handoffs(locks: &LockManager, waiters: usize, span: Duration) -> Result<Vec<Duration>, Error> {
    let end = Instant::now() + span;
    let released = Arc::new(Mutex::new(None::<Instant>));
    let holder = Arc::new(watch::channel(usize::MAX).0);
    let mut running = JoinSet::new();
    for task in 0..waiters {
        let (locks, released, holder) = (locks.clone(), Arc::clone(&released), Arc::clone(&holder));
        running.spawn(async move {
            let mut all = Vec::new();
            while Instant::now() < end {
                let guard = acquire(&locks, "contended").await?;
                let now = Instant::now();
                let before = *released.lock().unwrap_or_else(PoisonError::into_inner);
                all.extend(before.filter(|_| now < end).map(|before| now - before));
                holder.send_replace(task);
                tokio::time::sleep(HELD).await;
                *released.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                guard.release().await;
                let another = async { holder.subscribe().wait_for(|holder| *holder != task).await.map(drop) };
                let _ = tokio::time::timeout(end.saturating_duration_since(Instant::now()), another).await;
            }
            Ok(all)
        });
    }
    together(running).await
}

async fn together(mut running: JoinSet<Result<Vec<Duration>, Error>>) -> Result<Vec<Duration>, Error> {
    let mut all = Vec::new();
    while let Some(of_one) = running.join_next().await {
        all.extend(of_one??);
    }
    Ok(all)
}
