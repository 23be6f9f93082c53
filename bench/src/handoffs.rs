//! One lock that all want: how long it takes from one's release to the next one's having it.

use crate::pairs::{Peer, Tally};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tenure::{AcquireError, Leases};
use tenure_core::Key;
use tenure_store::Store;
use tenure_testkit::Scribe;
use tokio::sync::watch;

/// How long each has it.
const HELD: Duration = Duration::from_millis(2);

/// How many rounds are measured.
const ROUNDS: usize = 3;

/// Prints what handoffs take by tenure and by a peer, each with that many waiters, beside a round trip of the store.
///
/// # Errors
/// The store or the peer has failed.
pub async fn compare(
    all: &[Leases],
    store: &impl Store,
    name: &str,
    peer: &mut Peer,
    span: Duration,
) -> Result<(), Box<dyn std::error::Error>> {
    let (mut ours, mut theirs, mut trips) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        trips.push(round_trips(store).await?);
        ours.push(handoffs(all, span).await?);
        theirs.push(peer.measure("handoffs", all.len(), span)?);
    }
    println!("\nhandoffs of one lock that {} want, each for {HELD:?}, in µs\n", all.len());
    println!("| | handoffs | p50 | p99 | p50 in round trips |\n|---|---|---|---|---|");
    let trip = Tally::of_rounds(&trips).percentiles[0].as_secs_f64();
    for (name, rounds) in
        [("a round trip (a write that is refused)", trips), ("tenure", ours), (name, theirs)]
    {
        let Tally { count, percentiles } = Tally::of_rounds(&rounds);
        let [p50, p99] = percentiles.map(|span| span.as_micros());
        println!("| {name} | {count} | {p50} | {p99} | {:.1} |", percentiles[0].as_secs_f64() / trip);
    }
    Ok(())
}

/// What a conditional write takes that is refused, on a store that is idle otherwise.
async fn round_trips(store: &impl Store) -> Result<Tally, Box<dyn std::error::Error>> {
    let (key, scribe) = (Key::new("round-trip")?, Scribe::new());
    store.write(scribe.if_vacant(&key, scribe.held(1))).await?;
    let mut each = Vec::new();
    for _ in 0..200 {
        let (write, began) = (scribe.if_vacant(&key, scribe.held(1)), Instant::now());
        store.write(write).await?;
        each.push(began.elapsed());
    }
    Ok(Tally::of(each))
}

/// When it was released last.
#[derive(Default)]
struct Lock {
    released: Mutex<Option<Instant>>,
}

/// Each of `all`, as a process of its own, takes the lock over and over for `span`. Whoever has released waits until another one has it.
///
/// # Errors
/// A lock could not be acquired.
pub async fn handoffs(all: &[Leases], span: Duration) -> Result<Tally, Box<dyn std::error::Error>> {
    let (lock, holder) = (Arc::new(Lock::default()), Arc::new(watch::channel(usize::MAX).0));
    let end = Instant::now() + span;
    let running: Vec<_> = all
        .iter()
        .cloned()
        .enumerate()
        .map(|(task, leases)| {
            let (lock, holder) = (Arc::clone(&lock), Arc::clone(&holder));
            tokio::spawn(async move { hand_on(&leases, task, &lock, &holder, end).await })
        })
        .collect();
    let mut each = Vec::new();
    for task in running {
        each.extend(task.await?.map_err(|error| error.to_string())?);
    }
    Ok(Tally::of(each))
}

async fn hand_on(
    leases: &Leases,
    task: usize,
    lock: &Lock,
    holder: &watch::Sender<usize>,
    end: Instant,
) -> Result<Vec<Duration>, AcquireError> {
    let mut each = Vec::new();
    while Instant::now() < end {
        let guard = leases.acquire("contended").await?;
        let now = Instant::now();
        let released = *lock.released.lock().unwrap_or_else(PoisonError::into_inner);
        each.extend(released.filter(|_| now < end).map(|released| now - released));
        holder.send_replace(task);
        tokio::time::sleep(HELD).await;
        *lock.released.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        guard.release().await;
        let another = async { holder.subscribe().wait_for(|holder| *holder != task).await.map(drop) };
        let _ = tokio::time::timeout(end.saturating_duration_since(Instant::now()), another).await;
    }
    Ok(each)
}
