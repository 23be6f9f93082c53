//! One lock that all want: how long it takes from one's release to the next one's having it.

use crate::pairs::{LatencyStats, PeerProgram};
use crate::{Trouble, is_bench};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tenure::{AcquireError, AnyStore, Guard, Leases};
use tenure_core::{InvalidInput, Key};
use tenure_store::{MeteredStore, Outcome, Store};
use tenure_testkit::RecordFactory;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// How long each has it.
const HELD: Duration = Duration::from_millis(2);

/// Before they are measured, so that all of them hear of changes.
const WARM: Duration = Duration::from_secs(2);

/// How many rounds are measured.
const ROUNDS: usize = 3;

/// Those who want one lock. They run while they are measured only: whoever has a session listens, and is told of each write.
#[derive(Clone)]
pub struct Crowd {
    name: &'static str,
    /// Of each process.
    stores: Vec<AnyStore>,
    /// Of all processes.
    tasks: usize,
    /// They have it in the order of their asking.
    in_turn: bool,
    /// Their leases are kept on their own runtime, and not on tenure's thread.
    is_here: bool,
    requests: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Crowd {
    /// So many tasks of one process, whose leases are kept on tenure's thread. A store that [`tenure::open`] opens is there, too.
    #[must_use]
    pub fn of_tasks(store: impl Store + Clone, tasks: usize) -> Crowd {
        Crowd { name: "tenure, tasks of one process", tasks, ..Crowd::of_processes([store]) }
    }

    /// The same with leases on the tasks' own runtime, where the store was opened.
    #[must_use]
    pub fn of_tasks_here(store: impl Store + Clone, tasks: usize) -> Crowd {
        Crowd { name: "tenure, tasks, on their runtime", is_here: true, ..Crowd::of_tasks(store, tasks) }
    }

    /// As many processes, each with a store of its own.
    #[must_use]
    pub fn of_processes(stores: impl IntoIterator<Item = impl Store + Clone>) -> Crowd {
        let meters: Vec<_> = stores.into_iter().map(MeteredStore::new).collect();
        let stores: Vec<AnyStore> = meters.iter().cloned().map(AnyStore::new).collect();
        let requests = move || meters.iter().map(|meter| meter.counts().round_trips()).sum();
        let tasks = stores.len();
        Crowd {
            name: "tenure, processes",
            stores,
            tasks,
            in_turn: false,
            is_here: false,
            requests: Arc::new(requests),
        }
    }

    /// All of them, who want a lock; and then tasks and processes that want a fair one.
    #[must_use]
    pub fn all(tasks: Crowd, here: Crowd, processes: Crowd) -> [Crowd; 5] {
        let in_turn = |crowd: &Crowd, name| Crowd { name, in_turn: true, ..crowd.clone() };
        let (first, second) = (
            in_turn(&tasks, "tenure, tasks, a fair lock"),
            in_turn(&processes, "tenure, processes, a fair lock"),
        );
        [tasks, here, processes, first, second]
    }

    fn start(&self) -> Result<Vec<Leases>, InvalidInput> {
        let start = |store: &AnyStore| {
            let builder = Leases::builder(store.clone());
            if self.is_here { builder.runtime(Handle::current()).start() } else { builder.start() }
        };
        let leases: Vec<Leases> = self.stores.iter().map(start).collect::<Result<_, _>>()?;
        leases.iter().for_each(Leases::begin_session);
        Ok(leases)
    }

    async fn acquire(&self, leases: &Leases) -> Result<Guard, AcquireError> {
        if self.in_turn {
            leases.fair_lock("contended").acquire().await
        } else {
            leases.acquire("contended").await
        }
    }
}

/// Prints what handoffs take by tenure and by peers, each with as many waiters, beside a round trip of the store. A handoff is a write that
/// is done, at least, and meets a store and threads that sleep: so that is measured, too.
///
/// # Errors
/// The store or a peer has failed.
pub async fn compare(
    crowds: &[Crowd],
    store: &impl Store,
    peers: &mut [(&str, &mut PeerProgram)],
    span: Duration,
) -> Result<(), Trouble> {
    let waiters = crowds.iter().map(|crowd| crowd.tasks).max().unwrap_or(0);
    let (mut trips, mut done) = (Vec::new(), Vec::new());
    let mut theirs: Vec<Vec<LatencyStats>> = peers.iter().map(|_| Vec::new()).collect();
    let mut ours: Vec<(Vec<LatencyStats>, u64)> = crowds.iter().map(|_| Default::default()).collect();
    for _ in 0..ROUNDS {
        trips.push(round_trips(store, false).await?);
        done.push(round_trips(store, true).await?);
        for (crowd, (rounds, requests)) in crowds.iter().zip(&mut ours) {
            let before = (crowd.requests)();
            rounds.push(handoffs(crowd, span).await?);
            *requests += (crowd.requests)() - before;
        }
        for ((_, peer), rounds) in peers.iter_mut().zip(&mut theirs) {
            rounds.push(peer.measure("handoffs", waiters, span)?);
        }
    }
    println!("\nhandoffs of one lock that {waiters} want, each for {HELD:?}, in µs\n");
    println!(
        "| | handoffs | mean | p50 | p99 | p50 in round trips | requests for one |\n|---|---|---|---|---|---|---|"
    );
    let trip = LatencyStats::of_rounds(&trips).percentiles[0].as_secs_f64();
    let row = |name: &str, rounds: &[LatencyStats], requests: Option<u64>| {
        let LatencyStats { count, mean, percentiles } = LatencyStats::of_rounds(rounds);
        let [p50, p99] = percentiles.map(|span| span.as_micros());
        let mean = mean.as_micros();
        let requests = requests.map_or_else(String::new, |n| format!("{:.1}", n as f64 / count as f64));
        println!(
            "| {name} | {count} | {mean} | {p50} | {p99} | {:.1} | {requests} |",
            percentiles[0].as_secs_f64() / trip
        );
    };
    row("a round trip (a write that is refused)", &trips, None);
    row("a write that is done, after a pause of as long", &done, None);
    for (crowd, (rounds, requests)) in crowds.iter().zip(&ours) {
        row(crowd.name, rounds, Some(*requests));
    }
    for ((name, _), rounds) in peers.iter().zip(&theirs) {
        row(name, rounds, None);
    }
    Ok(())
}

/// What a conditional write takes on a store that is idle otherwise: one that is refused, of many in a row; or one that is done, each after
/// a pause.
async fn round_trips(store: &impl Store, are_done: bool) -> Result<LatencyStats, Trouble> {
    let (key, factory) = (Key::new("round-trip")?, RecordFactory::new());
    let mut each = Vec::new();
    let mut standing = store.write(factory.if_vacant(&key, factory.held(1))).await?;
    for _ in 0..200 {
        let write = match &standing {
            Outcome::Lost(Some(stored)) if are_done => {
                factory.unchanged(&key, stored.version, factory.held(stored.record.fence.0))
            }
            Outcome::Won { version, fence } if are_done => {
                factory.unchanged(&key, *version, factory.held(fence.0))
            }
            _ => factory.if_vacant(&key, factory.held(1)),
        };
        if are_done {
            // So that all has gone to sleep, as before a handoff.
            tokio::time::sleep(HELD).await;
        }
        let began = Instant::now();
        standing = store.write(write).await?;
        each.push(began.elapsed());
        if matches!(standing, Outcome::Won { .. }) != are_done {
            return Err(format!("a round trip came to something else: {standing:?}").into());
        }
    }
    Ok(LatencyStats::of(each))
}

/// When it was released last.
#[derive(Default)]
struct LastRelease {
    released: Mutex<Option<Instant>>,
}

/// Each of them takes the lock over and over for `span`. Whoever has released waits until another one has it.
async fn handoffs(crowd: &Crowd, span: Duration) -> Result<LatencyStats, Trouble> {
    let processes = crowd.start()?;
    tokio::time::sleep(if is_bench() { WARM } else { Duration::ZERO }).await;
    let (lock, holder) = (Arc::new(LastRelease::default()), Arc::new(watch::channel(usize::MAX).0));
    let end = Instant::now() + span;
    let running: Vec<_> = processes
        .iter()
        .cycle()
        .take(crowd.tasks)
        .enumerate()
        .map(|(task, leases)| {
            let (crowd, leases) = (crowd.clone(), leases.clone());
            let (lock, holder) = (Arc::clone(&lock), Arc::clone(&holder));
            tokio::spawn(async move { hand_on(&crowd, &leases, task, &lock, &holder, end).await })
        })
        .collect();
    let mut each = Vec::new();
    for task in running {
        each.extend(task.await??);
    }
    for leases in &processes {
        leases.stop().await;
    }
    Ok(LatencyStats::of(each))
}

async fn hand_on(
    crowd: &Crowd,
    leases: &Leases,
    task: usize,
    lock: &LastRelease,
    holder: &watch::Sender<usize>,
    end: Instant,
) -> Result<Vec<Duration>, AcquireError> {
    let mut each = Vec::new();
    while Instant::now() < end {
        let guard = crowd.acquire(leases).await?;
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
