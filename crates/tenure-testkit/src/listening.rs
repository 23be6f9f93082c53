//! Subscribers of `tracing` of one thread, in a program whose other threads have none.

use std::sync::LazyLock;
use tracing::subscriber::{DefaultGuard, Interest};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// Hears nothing, and has each event asked for anew.
struct Deaf;

impl Subscriber for Deaf {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The subscriber is this thread's until the guard is dropped.
///
/// `tracing` remembers for the whole process whether anybody wants an event. While a process has one subscriber, it asks the thread that
/// comes to the event first, and a thread without a subscriber says that nobody does. A second one for the whole process has it ask each time.
#[must_use]
pub fn listens(subscriber: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    static DEAF: LazyLock<bool> = LazyLock::new(|| tracing::subscriber::set_global_default(Deaf).is_ok());
    assert!(*DEAF, "the whole process has another subscriber");
    tracing::subscriber::set_default(subscriber)
}

/// This is done at each of tenure's events of this thread, up to that level, until the guard is dropped.
#[must_use]
pub fn listens_by(
    level: Level,
    hear: impl for<'a, 'e> Fn(&'a Event<'e>) + Send + Sync + 'static,
) -> DefaultGuard {
    listens(Hearing { level, hear })
}

struct Hearing<F> {
    level: Level,
    hear: F,
}

impl<F: for<'a, 'e> Fn(&'a Event<'e>) + 'static> Subscriber for Hearing<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tenure") && *metadata.level() <= self.level
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        (self.hear)(event);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
