//! Scheduled jobs on three nodes, each run once per tick. Every node has the same schedule, with tokio-cron-scheduler; one job
//! is run by the leader alone, one by whichever node locks it first, and one by whoever asks for its tick first, which no clock and no death
//! makes run twice. Run it with
//! `cargo run --example scheduled_jobs`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure::election::Locker;
use tenure::{AnyStore, Candidate, Clock, Leases};
use tokio_cron_scheduler::{Job, JobScheduler};

const NODES: usize = 3;
/// The schedule's period, as it says below.
const PERIOD_MS: u64 = 3000;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// What ran: for each job and tick, on which nodes.
type Runs = BTreeMap<(&'static str, u64), Vec<usize>>;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Runs>>);

impl Log {
    fn ran(&self, job: &'static str, node: usize, clock: &dyn Clock) {
        let tick = clock.now().wall.0 / PERIOD_MS;
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.entry((job, tick)).or_default().push(node);
    }

    fn runs(&self) -> Runs {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    // In earnest, each node is a process of its own, and the store one that all of them reach.
    let (store, log) = (tenure::memory(), Log::default());
    let mut nodes = Vec::new();
    for node in 0..NODES {
        nodes.push(start(node, store.clone(), log.clone()).await?);
    }
    // Some ticks, and some more on a machine that sleeps through one.
    let ticks = |job: &str| log.runs().keys().filter(|(name, _)| *name == job).count();
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(PERIOD_MS)).await;
        if ["led", "locked", "once"].iter().all(|job| ticks(job) >= 3) {
            break;
        }
    }
    for (mut schedule, candidate, leases) in nodes {
        schedule.shutdown().await?;
        candidate.stop().await;
        leases.stop().await;
    }
    for ((job, tick), nodes) in &log.runs() {
        println!("tick {tick}: {job} ran on node {nodes:?}");
    }
    for job in ["led", "locked", "once"] {
        let runs: Vec<Vec<usize>> =
            log.runs().into_iter().filter(|((name, _), _)| *name == job).map(|(_, nodes)| nodes).collect();
        assert!(runs.len() >= 3, "{job} ran at {} ticks only", runs.len());
        assert!(runs.iter().all(|nodes| nodes.len() == 1), "{job}: one run per tick, not {runs:?}");
    }
    Ok(())
}

async fn start(node: usize, store: AnyStore, log: Log) -> Result<(JobScheduler, Candidate, Leases), Error> {
    let leases = Leases::new(store)?;
    let candidate = leases.candidate().key("scheduler").start()?;
    // Longer than nodes' ticks are apart, shorter than the period.
    let locker = Locker::new(leases.clone()).at_least_for(Duration::from_millis(PERIOD_MS / 3 * 2));
    let schedule = JobScheduler::new().await?;

    // The elector: the leader alone runs what is due. A tick is skipped while nobody leads, and can run twice when leadership moves
    // between two nodes' ticks: only for jobs that bear both. The locker below is for all others.
    let (elector, clock, log_of_led) = (candidate.clone(), Arc::clone(leases.clock()), log.clone());
    let led = Job::new_async("*/3 * * * * *", move |_, _| {
        let (elector, clock, log) = (elector.clone(), Arc::clone(&clock), log_of_led.clone());
        Box::pin(async move {
            if elector.is_leader() {
                log.ran("led", node, &*clock);
            }
        })
    })?;
    schedule.add(led).await?;

    // The locker: whoever comes first runs it, and its lock is renewed for as long as it takes.
    let (clock, log_of_locked) = (Arc::clone(leases.clock()), log.clone());
    let locked = Job::new_async("*/3 * * * * *", move |_, _| {
        let (locker, clock, log) = (locker.clone(), Arc::clone(&clock), log_of_locked.clone());
        Box::pin(async move {
            match locker.try_lock("nightly-report").await {
                Ok(Some(lock)) => {
                    log.ran("locked", node, &*clock);
                    drop(lock);
                }
                Ok(None) => {}
                Err(error) => eprintln!("node {node}: {error}"),
            }
        })
    })?;
    schedule.add(locked).await?;

    // Once per tick: the record keeps which ticks have run, so neither clocks that differ nor a node that stood still run one twice.
    let of_once = leases.clone();
    let once = Job::new_async("*/3 * * * * *", move |_, _| {
        let (leases, log) = (of_once.clone(), log.clone());
        Box::pin(async move {
            let clock = Arc::clone(leases.clock());
            let tick = leases.once_every("nightly-cleanup", Duration::from_millis(PERIOD_MS));
            let ran = tick.run(move |_| async move {
                log.ran("once", node, &*clock);
                Ok::<_, Error>(())
            });
            if let Err(error) = ran.await {
                eprintln!("node {node}: {error}");
            }
        })
    })?;
    schedule.add(once).await?;
    // Nobody starts before someone leads.
    candidate.changes().wait_for(|status| status.leader.is_some()).await?;
    schedule.start().await?;
    Ok((schedule, candidate, leases))
}
