//! Subscribers of `tracing` of one thread, in a program whose other threads have none.

use std::sync::LazyLock;
use tracing::subscriber::{DefaultGuard, Interest};
use tracing::{Subscriber, span};

/// Hears nothing, and has each event asked for anew.
struct Deaf;

impl Subscriber for Deaf {
    fn register_callsite(&self, _: &'static tracing::Metadata<'static>) -> Interest {
        Interest::sometimes()
    }
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        false
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The subscriber is this thread's until the guard is dropped.
///
/// `tracing` remembers for the whole process whether anybody wants an event. While a process has one subscriber, it asks the thread that
/// comes to the event first, and a thread without a subscriber says that nobody does. A second one for the whole process has it ask each time.
#[must_use]
pub(crate) fn listens(subscriber: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    static DEAF: LazyLock<()> = LazyLock::new(|| tracing::subscriber::set_global_default(Deaf).unwrap());
    LazyLock::force(&DEAF);
    tracing::subscriber::set_default(subscriber)
}
