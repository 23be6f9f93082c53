//! What is counted and measured, by the names that the crate's documentation lists. Without the feature `metrics`, nothing is.

use std::sync::Arc;
use std::time::Duration;
use tenure_core::election::Cause;
use tenure_core::{ErrorKind, Loss, StoreError};

#[cfg(feature = "metrics")]
pub(crate) use on::{Counter, Gauge, counter, gauge};
#[cfg(feature = "metrics")]
use on::{change, count, describe, measure, set, zero};

#[cfg(not(feature = "metrics"))]
pub(crate) use off::{Counter, Gauge, counter, gauge};
#[cfg(not(feature = "metrics"))]
use off::{change, count, describe, measure, set, zero};

/// The label that a lease is measured by, if there is a rule for that.
type Prefix<'a> = Option<&'a Arc<str>>;

/// Labels of which all values are known here.
type Fixed = [(&'static str, &'static str)];

/// A call to the store has come back.
pub(crate) fn store_called(operation: &'static str, failed: Option<&StoreError>, took: Duration) {
    let outcome = failed.map_or("answered", kind);
    measure("tenure_store_call_seconds", &[("operation", operation), ("outcome", outcome)], None, took);
    if failed.is_some() {
        count("tenure_store_failures_total", &[("kind", outcome)], None);
    }
}

/// A lease was had.
pub(crate) fn lease_acquired(prefix: Prefix<'_>) {
    count("tenure_leases_acquired_total", &[], prefix);
}

/// A lease is held from now on.
pub(crate) fn lease_begun(prefix: Prefix<'_>) {
    change("tenure_leases_held", prefix, 1.0);
}

/// It is not held any more, and was for so long.
pub(crate) fn lease_ended(span: Duration, prefix: Prefix<'_>) {
    change("tenure_leases_held", prefix, -1.0);
    measure("tenure_lease_hold_seconds", &[], prefix, span);
}

/// One more waits for a lock, until this value is dropped.
pub(crate) struct Waiting(Option<Arc<str>>);

impl Waiting {
    pub(crate) fn begin(prefix: Prefix<'_>) -> Waiting {
        change("tenure_leases_waiting", prefix, 1.0);
        Waiting(prefix.cloned())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        change("tenure_leases_waiting", self.0.as_ref(), -1.0);
    }
}

/// Parts of a range were obtained.
pub(crate) fn range_acquired() {
    count("tenure_range_leases_acquired_total", &[], None);
}

/// A lease of parts of a range is over: given up in time, or else by itself before.
pub(crate) fn range_ended(in_time: bool) {
    let how = if in_time { "released" } else { "expired" };
    count("tenure_range_leases_ended_total", &[("how", how)], None);
}

/// It was asked for that long before.
pub(crate) fn lease_waited(span: Duration, prefix: Prefix<'_>) {
    measure("tenure_lease_wait_seconds", &[], prefix, span);
}

/// A lease was given up, and was held until then.
pub(crate) fn lease_released(prefix: Prefix<'_>) {
    count("tenure_leases_released_total", &[], prefix);
}

/// Counters that alarms look at exist from the start, as nobody sees one rise that begins with its first event.
pub(crate) fn begin<'a>(prefixes: impl IntoIterator<Item = Prefix<'a>>) {
    const LOSSES: [&str; 7] =
        ["expired", "unreachable", "taken", "deleted", "revoked", "released", "overran"];
    const FAILURES: [&str; 5] = ["unavailable", "unknown", "foreign", "unsupported", "invalid"];
    describe();
    for prefix in prefixes {
        LOSSES.iter().for_each(|reason| zero("tenure_leases_lost_total", &[("reason", reason)], prefix));
    }
    FAILURES.iter().for_each(|kind| zero("tenure_store_failures_total", &[("kind", kind)], None));
}

/// A lease was lost.
pub(crate) fn lease_lost(loss: &Loss, prefix: Prefix<'_>) {
    count("tenure_leases_lost_total", &[("reason", loss.name())], prefix);
}

/// The session was renewed in so much time, when so much of its belief was left; the least of late was that.
pub(crate) fn session_renewed(took: Duration, left: Duration, least: Duration) {
    measure("tenure_session_renewal_seconds", &[], None, took);
    measure("tenure_session_remaining_seconds", &[], None, left);
    set("tenure_session_remaining_least_seconds", least.as_secs_f64());
}

/// A candidate was elected.
pub(crate) fn leadership_begun() {
    count("tenure_leaderships_begun_total", &[], None);
}

/// A candidate leads no more.
pub(crate) fn leadership_ended(cause: &Cause) {
    let cause = match cause {
        Cause::Resigned => "resigned",
        Cause::Stopping => "stopping",
        Cause::Asked => "asked",
        Cause::Failing => "failing",
        Cause::Stuck => "stuck",
        Cause::Lost(_) => "lost",
        _ => "other",
    };
    count("tenure_leaderships_ended_total", &[("cause", cause)], None);
}

fn kind(error: &StoreError) -> &'static str {
    match error.kind() {
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Unknown => "unknown",
        ErrorKind::Foreign => "foreign",
        ErrorKind::Unsupported => "unsupported",
        _ => "invalid",
    }
}

#[cfg(feature = "metrics")]
mod on {
    use super::{Fixed, Prefix};
    use std::sync::Arc;
    use std::time::Duration;

    pub(crate) use metrics::{Counter, Gauge};

    type Labels = [(&'static str, String)];

    fn labels(labels: &Labels) -> Vec<metrics::Label> {
        labels.iter().map(|(name, value)| metrics::Label::new(*name, value.clone())).collect()
    }

    pub(crate) fn counter(name: &'static str, of: &Labels) -> Counter {
        metrics::counter!(name, labels(of))
    }

    pub(crate) fn gauge(name: &'static str, of: &Labels) -> Gauge {
        metrics::gauge!(name, labels(of))
    }

    fn fixed(labels: &Fixed, prefix: Prefix<'_>) -> Vec<metrics::Label> {
        let fixed = labels.iter().map(|(name, value)| metrics::Label::from_static_parts(name, value));
        fixed.chain(prefix.map(|prefix| metrics::Label::new("prefix", Arc::clone(prefix)))).collect()
    }

    pub(super) fn count(name: &'static str, of: &Fixed, prefix: Prefix<'_>) {
        metrics::counter!(name, fixed(of, prefix)).increment(1);
    }

    pub(super) fn zero(name: &'static str, of: &Fixed, prefix: Prefix<'_>) {
        metrics::counter!(name, fixed(of, prefix)).increment(0);
    }

    pub(super) fn set(name: &'static str, value: f64) {
        metrics::gauge!(name).set(value);
    }

    pub(super) fn change(name: &'static str, prefix: Prefix<'_>, by: f64) {
        metrics::gauge!(name, fixed(&[], prefix)).increment(by);
    }

    pub(super) fn measure(name: &'static str, of: &Fixed, prefix: Prefix<'_>, span: Duration) {
        metrics::histogram!(name, fixed(of, prefix)).record(span.as_secs_f64());
    }

    /// Says what each is, to the recorder that there is now.
    pub(super) fn describe() {
        use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
        describe_histogram!("tenure_store_call_seconds", Unit::Seconds, "How long calls to the store take");
        describe_counter!("tenure_store_failures_total", "Calls to the store that failed");
        describe_gauge!("tenure_leases_held", "Leases that are held now");
        describe_gauge!("tenure_leases_waiting", "Locks that somebody waits for now");
        describe_histogram!(
            "tenure_lease_hold_seconds",
            Unit::Seconds,
            "How long leases were held that have ended"
        );
        describe_counter!(
            "tenure_range_leases_acquired_total",
            "Leases of parts of a range that were acquired"
        );
        describe_counter!("tenure_range_leases_ended_total", "Leases of parts of a range that have ended");
        describe_counter!("tenure_leases_acquired_total", "Leases that were acquired");
        describe_counter!("tenure_leases_released_total", "Leases that were given up while they were held");
        describe_counter!("tenure_leases_lost_total", "Leases that were lost");
        describe_counter!("tenure_leaderships_begun_total", "Elections that were won");
        describe_counter!("tenure_leaderships_ended_total", "Leaderships that are over");
        describe_gauge!("tenure_fleet_held", "Units that a worker holds");
        describe_gauge!("tenure_fleet_workers", "Live workers, by the last plan");
        describe_gauge!("tenure_fleet_units", "Units with work to do, by the last plan");
        describe_gauge!("tenure_fleet_uncovered", "Units that no worker can have");
        describe_gauge!("tenure_fleet_moves", "Units on their way to or from a worker");
        describe_counter!("tenure_fleet_assigned_total", "Units given to a worker");
        describe_counter!("tenure_fleet_drained_total", "Units that a worker was asked to let go of");
        describe_counter!("tenure_fleet_lost_total", "Units that a worker lost");
        describe_counter!("tenure_fleet_trouble_total", "Failed looks and listings of a worker");
        describe_histogram!(
            "tenure_lease_wait_seconds",
            Unit::Seconds,
            "How long leases were waited for that were acquired"
        );
        describe_histogram!(
            "tenure_session_renewal_seconds",
            Unit::Seconds,
            "How long renewals of the session took that landed in time"
        );
        describe_gauge!(
            "tenure_session_remaining_least_seconds",
            Unit::Seconds,
            "The least that was left of the session at its latest 20 renewals"
        );
        describe_histogram!(
            "tenure_session_remaining_seconds",
            Unit::Seconds,
            "What was left of the session when it was renewed: what nears zero is about to be lost"
        );
    }
}

#[cfg(not(feature = "metrics"))]
mod off {
    use super::{Fixed, Prefix};
    use std::time::Duration;

    pub(crate) struct Counter;

    impl Counter {
        pub(crate) fn increment(&self, _: u64) {}
    }

    pub(crate) struct Gauge;

    impl Gauge {
        pub(crate) fn set(&self, _: f64) {}
    }

    pub(crate) fn counter(_: &'static str, _: &[(&'static str, String)]) -> Counter {
        Counter
    }

    pub(crate) fn gauge(_: &'static str, _: &[(&'static str, String)]) -> Gauge {
        Gauge
    }

    pub(super) fn count(_: &'static str, _: &Fixed, _: Prefix<'_>) {}

    pub(super) fn zero(_: &'static str, _: &Fixed, _: Prefix<'_>) {}

    pub(super) fn set(_: &'static str, _: f64) {}

    pub(super) fn change(_: &'static str, _: Prefix<'_>, _: f64) {}

    pub(super) fn measure(_: &'static str, _: &Fixed, _: Prefix<'_>, _: Duration) {}

    pub(super) fn describe() {}
}
