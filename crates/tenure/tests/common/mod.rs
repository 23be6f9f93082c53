//! A world in simulated time: the runtime's clock is paused and jumps to the next timer, and everything else follows it.
#![allow(dead_code, reason = "the tests that are programs of their own use a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test helper")]
#![allow(clippy::disallowed_methods, reason = "the paused runtime's clock is the simulated time")]

pub(crate) mod events;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure::clock::Tick;
use tenure::store::{Expect, Nonce, Outcome, Record, Tenure, Write};
use tenure::{
    AnyStore, Clock, Fence, HolderId, Leases, LeasesBuilder, MemoryStore, Metadata, Store, Ttl, Value, Wall,
};
use tenure_core::Now;
use tenure_store::{FaultyStore, MeteredStore};
use tokio::time::Instant;

pub(crate) const TTL: Duration = Duration::from_secs(10);

/// The paused runtime's time, the same for holders and waiters but for suspends.
pub(crate) struct PausedClock {
    start: Instant,
    suspended: AtomicU64,
    stepped: AtomicU64,
    readings: AtomicU64,
}

impl PausedClock {
    pub(crate) fn start() -> Arc<PausedClock> {
        Arc::new(PausedClock {
            start: Instant::now(),
            suspended: AtomicU64::new(0),
            stepped: AtomicU64::new(0),
            readings: AtomicU64::new(0),
        })
    }

    /// The machine was suspended for so long: the runtime's timers have not noticed.
    pub(crate) fn suspend(&self, span: Duration) {
        self.suspended.fetch_add(span.as_nanos() as u64, Ordering::SeqCst);
    }

    /// The wall clock is set ahead, as after time that was hidden from the process.
    pub(crate) fn step_wall(&self, span: Duration) {
        self.stepped.fetch_add(span.as_millis() as u64, Ordering::SeqCst);
    }

    /// How often it was read so far.
    pub(crate) fn readings(&self) -> u64 {
        self.readings.load(Ordering::SeqCst)
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Now {
        self.readings.fetch_add(1, Ordering::SeqCst);
        let waited = Tick(0).after(self.start.elapsed());
        let held = Tick(waited.0 + self.suspended.load(Ordering::SeqCst));
        let stepped = self.stepped.load(Ordering::SeqCst);
        Now { held, waited, wall: Wall(1_700_000_000_000 + held.0 / 1_000_000 + stepped) }
    }
}

/// Runs this in simulated time, and returns the metrics that are left of it.
pub(crate) fn measured(body: impl AsyncFnOnce(PrometheusHandle)) -> PrometheusHandle {
    recorded(PrometheusBuilder::new(), body)
}

/// The same, with histograms as alarms need them.
pub(crate) fn measured_in_buckets(body: impl AsyncFnOnce(PrometheusHandle)) -> PrometheusHandle {
    recorded(PrometheusBuilder::new().set_buckets(&[1.0, 5.0, 10.0, 60.0]).unwrap(), body)
}

fn recorded(builder: PrometheusBuilder, body: impl AsyncFnOnce(PrometheusHandle)) -> PrometheusHandle {
    let metrics = builder.build_recorder();
    let counts = metrics.handle();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    metrics::with_local_recorder(&metrics, || runtime.block_on(body(counts.clone())));
    counts
}

pub(crate) type TestStore = MeteredStore<FaultyStore<MemoryStore>>;

/// One store, shared by many processes, each with its own line to it that can be cut and metered.
pub(crate) struct World {
    pub(crate) clock: Arc<PausedClock>,
    pub(crate) memory: MemoryStore,
}

/// A worker of the fleet as of the version before this one, by its record in the store, and the board that it has raised.
pub(crate) async fn older_worker(world: &World, fleet: &tenure::fleet::FleetName) {
    let old = HolderId::new("old").unwrap();
    let wall = world.clock.now().wall;
    let tenure = Tenure::new(Nonce(7), old.clone(), Ttl::new(TTL).unwrap(), wall);
    let said = Metadata::from([("letters".to_owned(), Value::Bool(true))]);
    let said = Metadata::from([("tenure".to_owned(), Value::Map(said))]);
    for (key, tenure, metadata) in
        [(fleet.worker(&old).unwrap(), Some(tenure), said), (fleet.board().unwrap(), None, Metadata::new())]
    {
        let record = Record { fence: Fence(wall.0), nonce: Nonce(7), stamp: wall, tenure, metadata };
        let written = world.memory.write(Write { key, expect: Expect::Vacant, record }).await.unwrap();
        assert!(matches!(written, Outcome::Won { .. }));
    }
}

impl World {
    pub(crate) fn new() -> World {
        let clock = PausedClock::start();
        World { memory: MemoryStore::new("test", clock.clone()), clock }
    }

    /// A process's own line to the store: faults, then meter, then the settings of its leases.
    pub(crate) fn line(&self) -> (FaultyStore<MemoryStore>, TestStore) {
        let faulty = FaultyStore::new(self.memory.clone());
        (faulty.clone(), MeteredStore::new(faulty))
    }

    pub(crate) fn builder(&self, store: &TestStore) -> LeasesBuilder {
        Leases::builder(AnyStore::new(store.clone())).clock(self.clock.clone()).session_ttl(TTL)
    }

    pub(crate) fn process(&self) -> Process {
        let (faults, store) = self.line();
        let leases = self.builder(&store).start().unwrap();
        Process { leases, faults, store }
    }
}

/// A process: its leases and its line to the store.
pub(crate) struct Process {
    pub(crate) leases: Leases,
    pub(crate) faults: FaultyStore<MemoryStore>,
    pub(crate) store: TestStore,
}

/// From now on each call takes a while: up to this long.
pub(crate) fn slow_down(faults: &FaultyStore<MemoryStore>, most: Duration) {
    faults.always(tenure_store::Fault::Held);
    let faults = faults.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(most).await;
            faults.go_on();
        }
    });
}

/// Lets everything that is ready run, without time passing.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// How long something took in simulated time.
pub(crate) async fn timed<T>(what: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    let value = what.await;
    (value, start.elapsed())
}
