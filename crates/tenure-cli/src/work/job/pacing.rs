//! When the next unit may start: not too soon after the last one, nor while the machine has too much to do.

use std::time::Duration;

/// When the next one may start.
#[derive(Debug, Default)]
pub(crate) struct Pacing {
    /// Between two starts.
    delay: Duration,
    /// Nothing more is started while the load average is above this.
    load: Option<f64>,
    /// The next start, by the delay.
    not_before: Duration,
    /// The load average was above the limit when it was looked at; and the next look.
    is_loaded: bool,
    next_look: Duration,
}

impl Pacing {
    pub(crate) fn new(delay: Duration, load: Option<f64>) -> Pacing {
        Pacing { delay, load, ..Pacing::default() }
    }

    /// How long nothing is to be started yet. The load average is asked for only where it matters.
    pub(super) fn wait(
        &mut self,
        now: Duration,
        is_idle: bool,
        load_average: impl FnOnce() -> Option<f64>,
    ) -> Duration {
        /// The average hardly changes sooner.
        const AGAIN: Duration = Duration::from_secs(1);
        if let Some(most) = self.load.filter(|_| now >= self.next_look) {
            self.is_loaded = load_average().is_some_and(|load| load > most);
            self.next_look = now + AGAIN;
        }
        // Where nothing runs, something has to.
        let is_held_back = self.is_loaded && !is_idle;
        let next = if is_held_back { self.not_before.max(self.next_look) } else { self.not_before };
        next.saturating_sub(now)
    }

    /// How many may be started within a second: what is claimed for later than that, others could run meanwhile.
    pub(super) fn soon(
        &mut self,
        now: Duration,
        is_idle: bool,
        load_average: impl FnOnce() -> Option<f64>,
    ) -> usize {
        const SOON: Duration = Duration::from_secs(1);
        let wait = self.wait(now, is_idle, load_average);
        let Some(left) = SOON.checked_sub(wait) else { return 0 };
        if self.is_loaded {
            return usize::from(is_idle);
        }
        let more = left.as_nanos().checked_div(self.delay.as_nanos());
        more.map_or(usize::MAX, |more| usize::try_from(more).unwrap_or(usize::MAX).saturating_add(1))
    }

    pub(super) fn started(&mut self, now: Duration) {
        self.not_before = now + self.delay;
    }
}

/// That of the last minute. None where the system doesn't tell.
pub(super) fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_load_above_the_limit_holds_units_back_and_is_looked_at_once_a_second() {
        let mut pacing = Pacing::new(Duration::ZERO, Some(2.0));
        let half = SECOND / 2;
        assert_eq!(pacing.wait(SECOND, false, || Some(2.1)), SECOND);
        // It is not looked at in between.
        assert_eq!(pacing.wait(SECOND + half, false, || unreachable!()), half);
        assert_eq!(pacing.wait(SECOND * 2, false, || Some(7.0)), SECOND, "still too much");
        assert_eq!(
            pacing.wait(SECOND * 3, false, || Some(2.0)),
            Duration::ZERO,
            "the limit itself is allowed"
        );
    }

    #[test]
    fn where_nothing_runs_or_no_load_is_told_units_start() {
        let mut pacing = Pacing::new(Duration::ZERO, Some(2.0));
        assert_eq!(pacing.wait(SECOND, true, || Some(9.0)), Duration::ZERO);
        assert_eq!(pacing.wait(SECOND * 2, false, || None), Duration::ZERO);
        let mut unlimited = Pacing::new(Duration::ZERO, None);
        assert_eq!(unlimited.wait(SECOND, false, || unreachable!()), Duration::ZERO);
    }

    #[test]
    fn no_more_is_claimed_than_may_be_started_within_a_second() {
        let load = |load| move || Some(load);
        let mut pacing = Pacing::new(Duration::ZERO, Some(2.0));
        assert_eq!(pacing.soon(SECOND, false, load(2.0)), usize::MAX);
        assert_eq!(pacing.soon(SECOND * 2, false, load(2.1)), 0);
        assert_eq!(pacing.soon(SECOND * 5 / 2, false, || unreachable!()), 0, "it is looked at once a second");
        assert_eq!(pacing.soon(SECOND * 5 / 2, true, || unreachable!()), 1, "where nothing runs, one has to");
        assert_eq!(pacing.soon(SECOND * 3, false, load(1.0)), usize::MAX);
        let delays =
            [(300, 0, 3), (300, 300, 4), (1000, 0, 1), (5_000, 0, 0), (5_000, 3_999, 0), (5_000, 4_000, 1)];
        for (delay, after, soon) in delays {
            let mut delayed = Pacing::new(Duration::from_millis(delay), None);
            delayed.started(SECOND);
            let now = SECOND + Duration::from_millis(after);
            assert_eq!(delayed.soon(now, false, || unreachable!()), soon, "{delay} {after}");
        }
        let mut both = Pacing::new(SECOND * 3600, Some(2.0));
        both.started(SECOND);
        assert_eq!(both.soon(SECOND * 2, true, load(9.0)), 0, "the delay holds where nothing runs, too");
    }

    #[test]
    fn the_delay_is_kept_between_two_starts() {
        let mut pacing = Pacing::new(SECOND * 3, None);
        pacing.started(SECOND);
        assert_eq!(pacing.wait(SECOND * 2, false, || None), SECOND * 2);
        assert_eq!(pacing.wait(SECOND * 4, false, || None), Duration::ZERO);
    }

    #[test]
    fn the_systems_load_average_is_read() {
        assert!(load_average().is_none_or(|load| load >= 0.0));
        assert_eq!(load_average().is_some(), std::path::Path::new("/proc/loadavg").exists());
    }
}
