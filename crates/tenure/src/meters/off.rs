//! The same without the feature `metrics`: nothing is measured.

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

pub(crate) struct Histogram;

impl Histogram {
    pub(crate) fn record(&self, _: f64) {}
}

pub(crate) fn counter(_: &'static str, _: &[(&'static str, String)]) -> Counter {
    Counter
}

pub(crate) fn gauge(_: &'static str, _: &[(&'static str, String)]) -> Gauge {
    Gauge
}

pub(crate) fn histogram(_: &'static str, _: &[(&'static str, String)]) -> Histogram {
    Histogram
}

pub(super) fn count(_: &'static str, _: &Fixed, _: Prefix<'_>, _: u64) {}

pub(super) fn set(_: &'static str, _: &Fixed, _: f64) {}

pub(super) fn change(_: &'static str, _: &Fixed, _: Prefix<'_>, _: f64) {}

pub(super) fn measure(_: &'static str, _: &Fixed, _: Prefix<'_>, _: Duration) {}

pub(super) fn describe() {}
