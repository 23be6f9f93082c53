//! What is logged and counted while the store fails, in simulated time. Plan: at once, now and then, and when it is over; names,
//! levels and fields, which people's alarms depend on.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{TTL, World, measured, settle};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_store::Fault;
use tenure_testkit::listens;
use tracing::field::{Field, Visit};
use tracing::span;

const MINUTE: Duration = Duration::from_secs(60);

/// Writes down the events about the store.
#[derive(Clone, Default)]
struct EventLog(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() != "failures" && field.name() != "for_ms" {
            let _ = write!(self.0, " {}={value:?}", field.name());
        }
    }
}

impl tracing::Subscriber for EventLog {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "tenure::store"
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(format!("{} {}", event.metadata().level(), event.metadata().name()));
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn an_outage_is_told_at_once_then_now_and_then_and_when_it_is_over() {
    let event_log = EventLog::default();
    let log = Arc::clone(&event_log.0);
    let _here = listens(event_log);
    let counts = measured(async |_| {
        let process = World::new().process();
        process.faults.always(Fault::Refuse);
        let waiting = tokio::spawn({
            let leases = process.leases.clone();
            async move { leases.lock("k").ttl(TTL).acquire().await }
        });
        settle().await;
        let first = log.lock().unwrap().clone();
        // A claim, and the look after it.
        assert_eq!(first.len(), 2, "{first:?}");
        for (line, operation) in first.iter().zip(["write", "read"]) {
            assert!(line.starts_with("WARN store.failing") && line.contains(" key=k "), "{first:?}");
            let says = format!("operation=\"{operation}\" reason=store unavailable: injected fault: refused");
            assert!(line.contains(&says), "{first:?}");
        }
        tokio::time::sleep(Duration::from_secs(45)).await;
        let told = log.lock().unwrap().len();
        assert!((5..=12).contains(&told), "every ten seconds, each: {told}");
        process.faults.always(Fault::None);
        waiting.await.unwrap().unwrap().release().await;
        let last = log.lock().unwrap().last().unwrap().clone();
        assert!(last.starts_with("INFO store.answers"), "{last}");
        let silent = log.lock().unwrap().len();
        tokio::time::sleep(MINUTE).await;
        assert_eq!(log.lock().unwrap().len(), silent);
    });
    let counts = counts.render();
    assert!(counts.contains("tenure_store_failures_total{kind=\"unavailable\"}"), "{counts}");
}
