//! What is counted and measured, by the names that the crate's documentation lists. Without the feature `metrics`, nothing is.

#[cfg(feature = "metrics")]
mod described;
#[cfg(not(feature = "metrics"))]
mod off;
#[cfg(feature = "metrics")]
mod on;

use crate::prefixes::Labels;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::election::StepDownCause;
use tenure_core::{ErrorKind, Loss, StoreError, Tick};

#[cfg(not(feature = "metrics"))]
pub(crate) use off::{Counter, Gauge, Histogram, counter, gauge, histogram};
#[cfg(not(feature = "metrics"))]
use off::{change, count, describe, measure, set};
#[cfg(feature = "metrics")]
pub(crate) use on::{Counter, Gauge, Histogram, counter, gauge, histogram};
#[cfg(feature = "metrics")]
use on::{change, count, describe, measure, set};

/// The label that a lease is measured by, if there is a rule for that.
type Prefix<'a> = Option<&'a Arc<str>>;

/// Labels of which all values are known here.
type Fixed = [(&'static str, &'static str)];

const FAILURES: [&str; 5] = ["unavailable", "unknown", "foreign", "unsupported", "invalid"];
const CAUSES: [&str; 6] = ["resigned", "stopping", "asked", "failing", "stuck", "lost"];

/// What there is to be measured of leases exists from the start, as nobody sees a counter rise that begins with its first event.
pub(crate) fn begin<'a>(all: impl IntoIterator<Item = Labels<'a>>) {
    begin_calls();
    for of in all {
        for name in ["tenure_leases_acquired_total", "tenure_leases_released_total"] {
            count(name, &[kind_of(of)], of.prefix, 0);
        }
        Loss::COUNTED.iter().for_each(|reason| {
            count("tenure_leases_lost_total", &[kind_of(of), ("reason", reason)], of.prefix, 0);
        });
        for name in ["tenure_leases_held", "tenure_leases_waiting"] {
            change(name, &[kind_of(of)], of.prefix, 0.0);
        }
        for name in ["tenure_permits_held", "tenure_permits_waiting"] {
            change(name, &[], of.prefix, 0.0);
        }
    }
}

/// The same of calls to the store, which whatever holds anything makes.
pub(crate) fn begin_calls() {
    describe();
    FAILURES.iter().for_each(|kind| count("tenure_store_failures_total", &[("kind", kind)], None, 0));
}

/// The same of elections.
pub(crate) fn begin_elections() {
    count("tenure_leaderships_begun_total", &[], None, 0);
    CAUSES.iter().for_each(|cause| count("tenure_leaderships_ended_total", &[("cause", cause)], None, 0));
}

/// The same of ranges.
pub(crate) fn begin_ranges() {
    begin_calls();
    count("tenure_range_leases_acquired_total", &[], None, 0);
    for how in ["released", "expired"] {
        count("tenure_range_leases_ended_total", &[("how", how)], None, 0);
    }
    for name in ["tenure_range_leases_held", "tenure_range_leases_waiting"] {
        change(name, &[], None, 0.0);
    }
}

/// A call to the store has come back.
pub(crate) fn store_called(operation: &'static str, failed: Option<&StoreError>, took: Duration) {
    let outcome = failed.map_or("answered", kind);
    measure("tenure_store_call_seconds", &[("operation", operation), ("outcome", outcome)], None, took);
    if failed.is_some() {
        count("tenure_store_failures_total", &[("kind", outcome)], None, 1);
    }
}

fn kind_of(of: Labels<'_>) -> (&'static str, &'static str) {
    ("kind", of.kind.name())
}

/// A lease was had.
pub(crate) fn lease_acquired(of: Labels<'_>) {
    count("tenure_leases_acquired_total", &[kind_of(of)], of.prefix, 1);
}

/// A lease is held from now on.
pub(crate) fn lease_begun(of: Labels<'_>) {
    change("tenure_leases_held", &[kind_of(of)], of.prefix, 1.0);
}

/// It is not held any more, and was for so long.
pub(crate) fn lease_ended(span: Duration, of: Labels<'_>) {
    change("tenure_leases_held", &[kind_of(of)], of.prefix, -1.0);
    measure("tenure_lease_hold_seconds", &[kind_of(of)], of.prefix, span);
}

/// A lease has so many permits of a semaphore from now on.
pub(crate) fn permits_begun(permits: u32, of: Labels<'_>) {
    change("tenure_permits_held", &[], of.prefix, f64::from(permits));
}

/// It has them no longer.
pub(crate) fn permits_ended(permits: u32, of: Labels<'_>) {
    change("tenure_permits_held", &[], of.prefix, -f64::from(permits));
}

/// A lease was given up, and was held until then.
pub(crate) fn lease_released(of: Labels<'_>) {
    count("tenure_leases_released_total", &[kind_of(of)], of.prefix, 1);
}

/// A lease was lost.
pub(crate) fn lease_lost(loss: &Loss, of: Labels<'_>) {
    count("tenure_leases_lost_total", &[kind_of(of), ("reason", loss.name())], of.prefix, 1);
}

/// One more waits, until this value is dropped.
pub(crate) struct WaitMeter {
    since: Tick,
    /// None of who waits for ranges.
    kind: Option<&'static str>,
    prefix: Option<Arc<str>>,
    permits: u32,
}

impl WaitMeter {
    /// For a lease, of so many permits if it is one of a semaphore.
    pub(crate) fn for_lease(of: Labels<'_>, permits: u32, now: Tick) -> WaitMeter {
        let waiting =
            WaitMeter { since: now, kind: Some(of.kind.name()), prefix: of.prefix.cloned(), permits };
        waiting.count(1.0);
        waiting
    }

    /// For parts of a range.
    pub(crate) fn for_range(now: Tick) -> WaitMeter {
        let waiting = WaitMeter { since: now, kind: None, prefix: None, permits: 0 };
        waiting.count(1.0);
        waiting
    }

    fn count(&self, by: f64) {
        let prefix = self.prefix.as_ref();
        match self.kind {
            Some(kind) => change("tenure_leases_waiting", &[("kind", kind)], prefix, by),
            None => change("tenure_range_leases_waiting", &[], None, by),
        }
        if self.permits > 0 {
            change("tenure_permits_waiting", &[], prefix, by * f64::from(self.permits));
        }
    }

    /// What was waited for is had.
    pub(crate) fn over(self, now: Tick) {
        let (prefix, span) = (self.prefix.as_ref(), now.since(self.since));
        match self.kind {
            Some(kind) => measure("tenure_lease_wait_seconds", &[("kind", kind)], prefix, span),
            None => measure("tenure_range_lease_wait_seconds", &[], None, span),
        }
    }
}

impl Drop for WaitMeter {
    fn drop(&mut self) {
        self.count(-1.0);
    }
}

/// Parts of a range were obtained.
pub(crate) fn range_begun() {
    count("tenure_range_leases_acquired_total", &[], None, 1);
    change("tenure_range_leases_held", &[], None, 1.0);
}

/// A lease of parts of a range, held for so long, is over: given up in time, or else by itself before.
pub(crate) fn range_ended(in_time: bool, span: Duration) {
    let how = if in_time { "released" } else { "expired" };
    count("tenure_range_leases_ended_total", &[("how", how)], None, 1);
    change("tenure_range_leases_held", &[], None, -1.0);
    measure("tenure_range_lease_hold_seconds", &[], None, span);
}

/// What renews itself was renewed in so much time, when so much of its belief was left; the least of late was that.
pub(crate) fn renewed(of: &'static str, took: Duration, left: Duration, least: Duration) {
    let of = [("of", of)];
    measure("tenure_renewal_seconds", &of, None, took);
    measure("tenure_renewal_remaining_seconds", &of, None, left);
    set("tenure_renewal_remaining_least_seconds", &of, least.as_secs_f64());
}

/// A candidate was elected.
pub(crate) fn leadership_begun() {
    count("tenure_leaderships_begun_total", &[], None, 1);
}

/// A candidate leads no more.
pub(crate) fn leadership_ended(cause: &StepDownCause) {
    let cause = match cause {
        StepDownCause::Resigned => "resigned",
        StepDownCause::Stopping => "stopping",
        StepDownCause::Asked => "asked",
        StepDownCause::Failing => "failing",
        StepDownCause::Stuck => "stuck",
        StepDownCause::Lost(_) => "lost",
        _ => "other",
    };
    count("tenure_leaderships_ended_total", &[("cause", cause)], None, 1);
}

/// A word for each kind of failure.
pub(crate) fn kind(error: &StoreError) -> &'static str {
    match error.kind() {
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Unknown => "unknown",
        ErrorKind::Foreign => "foreign",
        ErrorKind::Unsupported => "unsupported",
        _ => "invalid",
    }
}
