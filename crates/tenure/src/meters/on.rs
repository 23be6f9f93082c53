//! Metrics for the facade of the crate `metrics`.

use super::described::{COUNTERS, GAUGES, HISTOGRAMS};
use super::{Fixed, Prefix};
use metrics::Unit;
use std::sync::Arc;
use std::time::Duration;
use tenure_store::parts::{quietly, quietly_or};

/// One of a recorder's, which may panic.
pub(crate) struct Counter(metrics::Counter);

impl Counter {
    pub(crate) fn increment(&self, by: u64) {
        quietly(|| self.0.increment(by));
    }
}

/// One of a recorder's, which may panic.
pub(crate) struct Gauge(metrics::Gauge);

impl Gauge {
    pub(crate) fn set(&self, value: f64) {
        quietly(|| self.0.set(value));
    }
}

/// One of a recorder's, which may panic.
pub(crate) struct Histogram(metrics::Histogram);

impl Histogram {
    pub(crate) fn record(&self, value: f64) {
        quietly(|| self.0.record(value));
    }
}

type Labels = [(&'static str, String)];

fn labels(labels: &Labels) -> Vec<metrics::Label> {
    labels.iter().map(|(name, value)| metrics::Label::new(*name, value.clone())).collect()
}

pub(crate) fn counter(name: &'static str, of: &Labels) -> Counter {
    Counter(quietly_or(|| metrics::counter!(name, labels(of)), metrics::Counter::noop))
}

pub(crate) fn gauge(name: &'static str, of: &Labels) -> Gauge {
    Gauge(quietly_or(|| metrics::gauge!(name, labels(of)), metrics::Gauge::noop))
}

pub(crate) fn histogram(name: &'static str, of: &Labels) -> Histogram {
    Histogram(quietly_or(|| metrics::histogram!(name, labels(of)), metrics::Histogram::noop))
}

fn fixed(labels: &Fixed, prefix: Prefix<'_>) -> Vec<metrics::Label> {
    let fixed = labels.iter().map(|(name, value)| metrics::Label::from_static_parts(name, value));
    fixed.chain(prefix.map(|prefix| metrics::Label::new("prefix", Arc::clone(prefix)))).collect()
}

pub(super) fn count(name: &'static str, of: &Fixed, prefix: Prefix<'_>, by: u64) {
    quietly(|| metrics::counter!(name, fixed(of, prefix)).increment(by));
}

pub(super) fn set(name: &'static str, of: &Fixed, value: f64) {
    quietly(|| metrics::gauge!(name, fixed(of, None)).set(value));
}

pub(super) fn change(name: &'static str, of: &Fixed, prefix: Prefix<'_>, by: f64) {
    quietly(|| metrics::gauge!(name, fixed(of, prefix)).increment(by));
}

pub(super) fn measure(name: &'static str, of: &Fixed, prefix: Prefix<'_>, span: Duration) {
    quietly(|| metrics::histogram!(name, fixed(of, prefix)).record(span.as_secs_f64()));
}

/// Says what each is, to the recorder that there is now.
pub(super) fn describe() {
    for (name, what) in COUNTERS {
        quietly(|| metrics::describe_counter!(name, what));
    }
    for (name, what) in GAUGES {
        quietly(|| {
            if name.ends_with("_seconds") {
                metrics::describe_gauge!(name, Unit::Seconds, what);
            } else {
                metrics::describe_gauge!(name, what);
            }
        });
    }
    for (name, what) in HISTOGRAMS {
        quietly(|| metrics::describe_histogram!(name, Unit::Seconds, what));
    }
}
