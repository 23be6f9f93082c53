//! Events of tenure's own thread go where those of the thread go that started the leases.
//!
//! Plan: a store that never answers keeps the end of the last handle waiting for as long as was said, and a warning tells of it; nothing is
//! said of what goes well; the same with ranges; a store that fails is told of from the other thread.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::range::{KeyRange, Section};
use tenure::{AnyStore, Leases, MemoryStore};
use tenure_store::{Fault, FaultyStore};
use tenure_testkit::listens;
use tracing::span;

/// Takes down the names of events.
#[derive(Clone, Default)]
struct EventLog(Arc<Mutex<String>>);

impl tracing::Subscriber for EventLog {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event()
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let metadata = event.metadata();
        writeln!(self.0.lock().unwrap(), "{} {}", metadata.level(), metadata.name()).unwrap();
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn what_can_not_be_given_back_in_time_is_told() {
    let event_log = EventLog::default();
    let _here = listens(event_log.clone());
    let faulty = FaultyStore::new(MemoryStore::new("own thread", tenure::clock::system()));
    let store = AnyStore::new(faulty.clone());
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(
        async {
            let leases = Leases::builder(store.clone()).linger(Duration::from_millis(1)).start().unwrap();
            let _guard = leases.acquire("k").await.unwrap();
            faulty.inject([Fault::Refuse]);
            assert!(leases.try_acquire("other").await.is_err());
            faulty.always(Fault::Hang);
        },
    );
    let said = event_log.0.lock().unwrap().clone();
    assert!(said.contains("WARN store.failing") && said.contains("WARN leases.left"), "{said}");
    faulty.always(Fault::None);
    let section = Section::builder(store, "s").linger(Duration::from_millis(1)).start().unwrap();
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(
        async {
            let _guard =
                section.try_acquire(KeyRange::universe_of_bytes(4), Duration::from_secs(60)).await.unwrap();
            faulty.always(Fault::Hang);
            drop(section);
        },
    );
    let said = event_log.0.lock().unwrap().clone();
    assert!(said.contains("WARN ranges.left"), "{said}");
    // Nothing is said of what goes well.
    event_log.0.lock().unwrap().clear();
    drop(Leases::new(tenure::memory()).unwrap());
    drop(Section::new(tenure::memory(), "s").unwrap());
    assert_eq!(*event_log.0.lock().unwrap(), "");
}
