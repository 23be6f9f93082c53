//! Plan: what a body logs is in the span of whoever runs it, under a lock, on a thread of its own, as a leader and on ranges. One test
//! in a program of its own, as its subscriber is that of the whole process: a body may run on any thread.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::World;
use std::cell::RefCell;
use std::sync::Mutex;
use std::time::Duration;
use tenure::AnyStore;
use tenure::range::{KeyRange, RangeSet, Section};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Instrument as _, Metadata};
use tracing_core::span::Current;

thread_local! {
    /// The spans that this thread is in.
    static INSIDE: RefCell<Vec<&'static Metadata<'static>>> = const { RefCell::new(Vec::new()) };
}

/// The bodies' events, each with the span that it was in.
static SEEN: Mutex<Vec<(String, Option<&'static str>)>> = Mutex::new(Vec::new());
static SPANS: Mutex<Vec<&'static Metadata<'static>>> = Mutex::new(Vec::new());

/// Knows which span each thread is in.
struct Nesting;

impl tracing::Subscriber for Nesting {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut spans = SPANS.lock().unwrap();
        spans.push(span.metadata());
        Id::from_u64(spans.len() as u64)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        if event.metadata().target() == "body" {
            let span = INSIDE.with_borrow(|inside| inside.last().map(|span| span.name()));
            SEEN.lock().unwrap().push((event.metadata().fields().to_string(), span));
        }
    }
    fn enter(&self, id: &Id) {
        let span = SPANS.lock().unwrap()[usize::try_from(id.into_u64()).unwrap() - 1];
        INSIDE.with_borrow_mut(|inside| inside.push(span));
    }
    fn exit(&self, _: &Id) {
        INSIDE.with_borrow_mut(|inside| inside.pop());
    }
    fn current_span(&self) -> Current {
        let Some(span) = INSIDE.with_borrow(|inside| inside.last().copied()) else { return Current::none() };
        let place = SPANS.lock().unwrap().iter().position(|known| known.name() == span.name()).unwrap();
        Current::new(Id::from_u64(place as u64 + 1), span)
    }
}

#[tokio::test(start_paused = true)]
async fn what_bodies_log_is_in_the_span_of_their_caller() {
    tracing::subscriber::set_global_default(Nesting).unwrap();
    let world = World::new();
    let leases = world.process().leases;
    let lock = leases.lock("a").with_lease(|_| async { tracing::info!(target: "body", lock = 1) });
    lock.instrument(tracing::info_span!("lock")).await.unwrap();
    let blocking = leases.lock("b").with_lease_blocking(|_| tracing::info!(target: "body", blocking = 1));
    blocking.instrument(tracing::info_span!("blocking")).await.unwrap();
    let candidate = leases.candidate().start().unwrap();
    candidate.elected().await.unwrap();
    let led = candidate.run_while_leader(|_| async { tracing::info!(target: "body", leader = 1) });
    led.instrument(tracing::info_span!("leader")).await.unwrap();
    let section = Section::builder(AnyStore::new(world.memory.clone()), "s");
    let section = section.clock(world.clock.clone()).start().unwrap();
    let all: RangeSet = ["0_10".parse::<KeyRange>().unwrap()].into_iter().collect();
    let swept = section.try_with_lease(all, Duration::from_secs(10), |_| async {
        tracing::info!(target: "body", range = 1);
    });
    swept.instrument(tracing::info_span!("range")).await.unwrap();
    let seen: Vec<(String, Option<&str>)> = SEEN.lock().unwrap().drain(..).collect();
    let expected = ["lock", "blocking", "leader", "range"].map(|name| (format!("{{{name}}}"), Some(name)));
    assert_eq!(seen, expected);
}
