//! How long calls took.

use std::time::Duration;

/// Round trips of one kind.
#[derive(Debug, Default, Clone)]
pub(super) struct Spans(Vec<Duration>);

impl Spans {
    pub(super) fn add(&mut self, span: Duration) {
        self.0.push(span);
    }

    pub(super) fn extend(&mut self, others: Spans) {
        self.0.extend(others.0);
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The least span that so many of a hundred do not exceed; zero if there is none.
    pub(super) fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(at).copied().unwrap_or_default()
    }

    pub(super) fn worst(&self) -> Duration {
        self.percentile(100)
    }
}

/// A span that may be far below a millisecond, for people.
pub(super) fn millis(span: Duration) -> String {
    format!("{:.2} ms", span.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_spans_themselves() {
        let mut spans = Spans::default();
        assert_eq!((spans.percentile(50), spans.worst()), (Duration::ZERO, Duration::ZERO));
        for ms in [5, 1, 4, 2, 3] {
            spans.add(Duration::from_millis(ms));
        }
        assert_eq!([50, 99, 100, 20, 1].map(|n| spans.percentile(n).as_millis()), [3, 5, 5, 1, 1]);
        assert_eq!(millis(Duration::from_micros(1234)), "1.23 ms");
    }
}
