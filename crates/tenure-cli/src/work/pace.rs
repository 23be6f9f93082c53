//! The pauses between the runs of a command that does not stay.

use std::time::Duration;

/// The longest pause, unless the first one is longer.
const LONGEST: Duration = Duration::from_secs(300);
/// The shortest one, so that a command that fails at once does not keep the machine busy.
const SHORTEST: Duration = Duration::from_millis(10);

/// The first pause, doubled so many times.
pub(super) fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1 << times.min(20)).min(LONGEST.max(first))
}

/// How long to wait before a command is started again.
#[derive(Debug)]
pub(super) struct RestPace {
    first: Duration,
    times: u32,
}

impl RestPace {
    pub(super) fn new(first: Duration) -> RestPace {
        RestPace { first: first.max(SHORTEST), times: 0 }
    }

    /// The pause after a run that has `taken` this long. It doubles each time, until a run is ten times as long as the first pause.
    pub(super) fn pause(&mut self, taken: Duration) -> Duration {
        if taken >= self.first * 10 {
            self.times = 0;
        }
        let pause = doubled(self.first, self.times);
        self.times = self.times.saturating_add(1);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn pauses_double_up_to_five_minutes_and_a_long_run_starts_over() {
        let mut pace = RestPace::new(secs(1));
        let pauses: Vec<u64> = (0..11).map(|_| pace.pause(secs(9)).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!((pace.pause(secs(10)), pace.pause(secs(0))), (secs(1), secs(2)));
    }

    #[test]
    fn the_first_pause_is_neither_too_short_nor_cut() {
        assert_eq!(RestPace::new(Duration::ZERO).pause(secs(1)), SHORTEST);
        let mut pace = RestPace::new(secs(600));
        assert_eq!((pace.pause(secs(1)), pace.pause(secs(1))), (secs(600), secs(600)));
    }
}
