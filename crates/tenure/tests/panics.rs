//! Others' code that panics where leases are renewed, in simulated time. Plan: a subscriber of `tracing` and a recorder of metrics that panic cost what they were to be
//! told, and nothing else: leases are held, renewed, lost and had as before; a thread hears also what another without a subscriber has met first.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Process, TTL, World};
use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, SharedString, Unit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tenure::AnyStore;
use tenure::fleet::Fleet;
use tenure_store::Fault;
use tenure_testkit::listens_by;
use tracing::Level;
use tracing::subscriber::DefaultGuard;

/// Panics at each event, once it is told to.
#[derive(Default)]
struct Broken {
    panics: AtomicBool,
    times: AtomicU64,
}

impl Broken {
    fn told(&self) {
        if self.panics.load(Ordering::SeqCst) {
            self.times.fetch_add(1, Ordering::SeqCst);
            panic!("on purpose, of whoever is told");
        }
    }
}

/// Its subscriber is this thread's.
fn broken_subscriber(level: Level) -> (Arc<Broken>, DefaultGuard) {
    let broken = Arc::<Broken>::default();
    let told = Arc::clone(&broken);
    (broken, listens_by(level, move |_| told.told()))
}

struct BrokenRecorder(Arc<Broken>);

impl CounterFn for Broken {
    fn increment(&self, _: u64) {
        self.told();
    }
    fn absolute(&self, _: u64) {
        self.told();
    }
}

impl GaugeFn for Broken {
    fn increment(&self, _: f64) {
        self.told();
    }
    fn decrement(&self, _: f64) {
        self.told();
    }
    fn set(&self, _: f64) {
        self.told();
    }
}

impl HistogramFn for Broken {
    fn record(&self, _: f64) {
        self.told();
    }
}

impl metrics::Recorder for BrokenRecorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        self.0.told();
    }
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        self.0.told();
    }
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        self.0.told();
    }
    fn register_counter(&self, _: &Key, _: &metrics::Metadata<'_>) -> Counter {
        self.0.told();
        Counter::from_arc(Arc::clone(&self.0))
    }
    fn register_gauge(&self, _: &Key, _: &metrics::Metadata<'_>) -> Gauge {
        self.0.told();
        Gauge::from_arc(Arc::clone(&self.0))
    }
    fn register_histogram(&self, _: &Key, _: &metrics::Metadata<'_>) -> Histogram {
        self.0.told();
        Histogram::from_arc(Arc::clone(&self.0))
    }
}

/// A store fails for a while, one lease is lost by that, and all goes on.
async fn a_store_fails_for_a_while(broken: &Broken) {
    let world = World::new();
    let Process { leases, faults, .. } = world.process();
    let long = leases.lock("long").ttl(TTL * 10).acquire().await.unwrap();
    let short = leases.lock("short").ttl(TTL).acquire().await.unwrap();
    broken.panics.store(true, Ordering::SeqCst);
    faults.always(Fault::Refuse);
    short.lost().await;
    tokio::time::sleep(TTL).await;
    faults.always(Fault::None);
    tokio::time::sleep(TTL * 20).await;
    assert!(broken.times.load(Ordering::SeqCst) > 0, "it was told of that");
    assert!(long.is_held(), "it is renewed");
    let again = leases.lock("short").ttl(TTL).acquire().await;
    assert!(again.is_ok_and(|guard| guard.is_held()), "more can be had");
    assert!(long.release().await);
}

/// All that can be started is started, and a worker takes part once its store answers.
async fn all_is_started(broken: &Broken) {
    let world = World::new();
    broken.panics.store(true, Ordering::SeqCst);
    let Process { leases, .. } = world.process();
    let section = leases.section("s").start().unwrap();
    assert!(leases.acquire("k").await.unwrap().is_held());
    assert!(section.try_acquire(0u64..9, TTL).await.unwrap().is_held());
    let (faults, store) = world.line();
    let fleet = Fleet::with_clock(AnyStore::new(store), "f", world.clock.clone()).unwrap().instance(7);
    faults.always(Fault::Refuse);
    let worker = fleet.join().ttl(TTL).start().unwrap();
    tokio::time::sleep(TTL).await;
    faults.always(Fault::None);
    let joined = tokio::time::timeout(TTL * 2, worker.joined()).await;
    joined.unwrap().unwrap();
    assert!(broken.times.load(Ordering::SeqCst) > 0, "it was told of that");
}

/// A key is led and ranges are held, and both are given up in good order.
async fn a_key_is_led_and_ranges_are_held(broken: &Broken) {
    let world = World::new();
    let Process { leases, .. } = world.process();
    broken.panics.store(true, Ordering::SeqCst);
    let candidate = leases.candidate().key("k").start().unwrap();
    for _ in 0..2 {
        candidate.elected().await.unwrap();
        assert!(candidate.is_leader() && candidate.resign().await);
    }
    let section = leases.section("s").start().unwrap();
    for _ in 0..2 {
        let guard = section.try_acquire(0u64..9, TTL).await.unwrap();
        assert!(guard.is_held());
        drop(guard);
        tokio::time::sleep(TTL / 16).await;
    }
    assert!(section.try_acquire(0u64..9, TTL).await.unwrap().release().await);
    candidate.stop().await;
    assert!(broken.times.load(Ordering::SeqCst) > 0, "it was told of that");
}

fn in_simulated_time(scenario: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(scenario);
}

#[test]
fn l4_a_subscriber_that_panics_costs_no_lease() {
    let (broken, _here) = broken_subscriber(Level::WARN);
    in_simulated_time(a_store_fails_for_a_while(&broken));
}

#[test]
fn l4_a_subscriber_that_panics_keeps_no_worker_out() {
    let (broken, _here) = broken_subscriber(Level::WARN);
    in_simulated_time(all_is_started(&broken));
}

#[test]
fn l4_a_subscriber_that_panics_deposes_nobody_and_keeps_no_range() {
    let (broken, _here) = broken_subscriber(Level::DEBUG);
    in_simulated_time(a_key_is_led_and_ranges_are_held(&broken));
}

#[test]
fn what_a_thread_without_a_subscriber_has_met_first_is_told_all_the_same() {
    let says = || tracing::warn!(target: "tenure::test", "met");
    let (broken, _here) = broken_subscriber(Level::WARN);
    std::thread::scope(|scope| scope.spawn(says).join()).unwrap();
    broken.panics.store(true, Ordering::SeqCst);
    assert!(std::panic::catch_unwind(says).is_err());
    assert_eq!(broken.times.load(Ordering::SeqCst), 1);
}

#[cfg(feature = "metrics")]
#[test]
fn l4_a_recorder_that_panics_keeps_nothing_from_being_started() {
    let broken = Arc::<Broken>::default();
    metrics::with_local_recorder(&BrokenRecorder(Arc::clone(&broken)), || {
        in_simulated_time(all_is_started(&broken));
    });
}

#[cfg(feature = "metrics")]
#[test]
fn l4_a_recorder_that_panics_costs_no_lease() {
    let broken = Arc::<Broken>::default();
    metrics::with_local_recorder(&BrokenRecorder(Arc::clone(&broken)), || {
        in_simulated_time(a_store_fails_for_a_while(&broken));
    });
}
