//! A subscriber of `tracing` and a recorder of metrics that ask what is held, from whichever thread tells them. A program of its own, as both are the whole
//! process's.
//!
//! Plan: leases, permits and units are had, changed, given up and lost, and leases stopped, while each event and each measurement asks what is
//! held: all goes on.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;

use common::{TTL, World, settle};
use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, SharedString, Unit};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tenure::fleet::{Event, Fleet, NewUnit};
use tenure::{AnyStore, HolderId};
use tenure_store::Fault;
use tracing::span;

type Ask = Arc<dyn Fn() + Send + Sync>;

static ASKS: Mutex<Vec<Ask>> = Mutex::new(Vec::new());
static EVENTS: AtomicU64 = AtomicU64::new(0);
static MEASURED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_ASKING: Cell<bool> = const { Cell::new(false) };
}

fn ask_when_told(ask: impl Fn() + Send + Sync + 'static) {
    ASKS.lock().unwrap().push(Arc::new(ask));
}

fn ask_all() {
    // What is asked may be told of, too.
    if !IS_ASKING.replace(true) {
        let asks = ASKS.lock().unwrap().clone();
        asks.iter().for_each(|ask| ask());
        IS_ASKING.set(false);
    }
}

struct AskingSubscriber;

impl tracing::Subscriber for AskingSubscriber {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("tenure")
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        EVENTS.fetch_add(1, Ordering::SeqCst);
        ask_all();
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

struct AskingRecorder;

fn measured() {
    MEASURED.fetch_add(1, Ordering::SeqCst);
    ask_all();
}

impl CounterFn for AskingRecorder {
    fn increment(&self, _: u64) {
        measured();
    }
    fn absolute(&self, _: u64) {
        measured();
    }
}

impl GaugeFn for AskingRecorder {
    fn increment(&self, _: f64) {
        measured();
    }
    fn decrement(&self, _: f64) {
        measured();
    }
    fn set(&self, _: f64) {
        measured();
    }
}

impl HistogramFn for AskingRecorder {
    fn record(&self, _: f64) {
        measured();
    }
}

impl metrics::Recorder for AskingRecorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, _: &Key, _: &metrics::Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(AskingRecorder))
    }
    fn register_gauge(&self, _: &Key, _: &metrics::Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(AskingRecorder))
    }
    fn register_histogram(&self, _: &Key, _: &metrics::Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(AskingRecorder))
    }
}

/// Runs this in simulated time, on a thread that may come to hang.
fn in_time(what: &str, scenario: impl AsyncFnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(scenario());
        done.send(()).unwrap();
    });
    let (events, measured) = (EVENTS.load(Ordering::SeqCst), MEASURED.load(Ordering::SeqCst));
    assert_eq!(is_done.recv_timeout(Duration::from_secs(30)), Ok(()), "{what}");
    ASKS.lock().unwrap().clear();
    assert!(EVENTS.load(Ordering::SeqCst) > events && MEASURED.load(Ordering::SeqCst) > measured, "{what}");
}

async fn leases_come_and_go() {
    let world = World::new();
    let process = world.process();
    let asked = process.leases.clone();
    ask_when_told(move || drop(asked.held()));
    let mut guard = process.leases.acquire("k").await.unwrap();
    guard.update(tenure::Metadata::new()).await.unwrap();
    let own = process.leases.lock("own").ttl(TTL).acquire().await.unwrap();
    tokio::time::sleep(TTL).await;
    let permits = process.leases.semaphore("s", 4).acquire().await.unwrap();
    drop(process.leases.acquire("dropped").await.unwrap());
    let limited = process.leases.lock("limited").at_most_for(TTL / 10).acquire().await.unwrap();
    limited.lost().await;
    assert!(permits.release().await && own.release().await);
    // The store is away until all is lost.
    process.faults.always(Fault::Hang);
    guard.lost().await;
    process.faults.always(Fault::None);
    let _again = process.leases.acquire("other").await.unwrap();
    process.leases.stop().await;
}

async fn units_come_and_go() {
    let world = World::new();
    let join = |n: u64| {
        let (faults, store) = world.line();
        let fleet = Fleet::with_clock(AnyStore::new(store), "f", world.clock.clone()).unwrap().instance(n);
        let holder = HolderId::new(format!("w{n}")).unwrap();
        let worker = fleet.join().ttl(TTL).drain_time(TTL / 4).holder(holder).instance(n).start().unwrap();
        let asked = worker.clone();
        ask_when_told(move || drop(asked.held()));
        (worker, faults)
    };
    let fleet =
        Fleet::with_clock(AnyStore::new(world.memory.clone()), "f", world.clock.clone()).unwrap().instance(9);
    fleet.create_all((0..4).map(|n| NewUnit::named(format!("u{n}")))).await.unwrap();
    let (first, faults) = join(1);
    let mut units = Vec::new();
    while units.len() < 4 {
        if let Some(Event::Assigned(unit)) = first.next().await {
            units.push(unit);
        }
    }
    // Two go to another worker, and two are lost.
    let (second, _) = join(2);
    for _ in 0..2 {
        let Some(Event::Draining { unit, .. }) = first.next().await else { panic!("none is to go") };
        let at = units.iter().position(|held| *held.name() == unit).unwrap();
        units.swap_remove(at).drained();
        assert!(matches!(second.next().await, Some(Event::Assigned(_))));
    }
    faults.always(Fault::Hang);
    for _ in 0..2 {
        assert!(matches!(first.next().await, Some(Event::Lost { .. })));
    }
    faults.always(Fault::None);
    settle().await;
    first.stop().await;
    second.leave().await;
}

#[test]
fn l4_whoever_asks_what_is_held_when_told_of_it_keeps_nobody_from_going_on() {
    tracing::subscriber::set_global_default(AskingSubscriber).unwrap();
    assert!(metrics::set_global_recorder(AskingRecorder).is_ok());
    in_time("leases", leases_come_and_go);
    in_time("units", units_come_and_go);
}
