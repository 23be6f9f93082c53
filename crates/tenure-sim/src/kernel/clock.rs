//! A node's clocks, as functions of true time.
//!
//! True time is in nanoseconds since the world began. A node's elapsed time runs at its own rate; the waiter's line stops
//! in suspend, after which the holder's line may have leapt (the hardware's clock is none too good), both stop while time is hidden, and the wall clock is true time plus whatever it was set off by.

use tenure_core::{Now, Tick, Wall};

/// Nanoseconds of true time.
pub(crate) type True = u64;

/// True time counted in the usual units.
pub(crate) const MILLI: True = 1_000_000;
pub(crate) const SECOND: True = 1_000_000_000;

/// The wall clock at the beginning of every world: a moment in 2023.
pub(crate) const WALL_AT_START: u64 = 1_700_000_000_000;

const ONE: u64 = 1 << 20;

/// How a node's clocks run at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockPace {
    Running,
    /// The waiter's line stands still.
    Suspended,
    /// Both lines stand still, and nobody is told.
    Hidden,
    /// All stand still, the wall clock, too, and stays behind by as much.
    Frozen,
}

#[derive(Debug, Clone)]
pub(crate) struct NodeClock {
    at: True,
    held: u64,
    waited: u64,
    rate: u64,
    pace: ClockPace,
    wall_offset_ms: i64,
}

impl NodeClock {
    /// Clocks that begin anywhere.
    pub(crate) fn new(at: True, held: u64, rate_per_million: u64, wall_offset_ms: i64) -> Self {
        let mut clock =
            NodeClock { at, held, waited: held, rate: ONE, pace: ClockPace::Running, wall_offset_ms };
        clock.set_rate(at, rate_per_million);
        clock
    }

    fn elapsed(&self, t: True) -> u64 {
        (t.saturating_sub(self.at) * self.rate) >> 20
    }

    pub(crate) fn held(&self, t: True) -> Tick {
        Tick(if matches!(self.pace, ClockPace::Hidden | ClockPace::Frozen) {
            self.held
        } else {
            self.held + self.elapsed(t)
        })
    }

    pub(crate) fn read(&self, t: True) -> Now {
        let waited = self.waited + if self.pace == ClockPace::Running { self.elapsed(t) } else { 0 };
        let wall = WALL_AT_START as i64 + (t / MILLI) as i64 + self.wall_offset_ms;
        Now { held: self.held(t), waited: Tick(waited), wall: Wall(wall.max(0) as u64) }
    }

    /// The true time at which the holder's line reaches `tick`, if it goes on as it does now.
    pub(crate) fn when(&self, tick: Tick) -> True {
        let span = tick.0.saturating_sub(self.held);
        self.at + ((u128::from(span) << 20).div_ceil(u128::from(self.rate)) as u64).min(u64::MAX / 4)
    }

    fn settle(&mut self, t: True) {
        let now = self.read(t);
        (self.held, self.waited, self.at) = (now.held.0, now.waited.0, t);
    }

    /// If everything stood still, the wall clock is behind from now on by as long.
    pub(crate) fn end_freeze(&mut self, t: True) -> bool {
        if self.pace != ClockPace::Frozen {
            return false;
        }
        self.wall_offset_ms -= (t.saturating_sub(self.at) / MILLI) as i64;
        true
    }

    /// For how long its time was hidden up to now, though its wall clock shows that.
    pub(crate) fn hidden_for(&self, t: True) -> True {
        if self.pace == ClockPace::Hidden { t.saturating_sub(self.at) } else { 0 }
    }

    pub(crate) fn set_pace(&mut self, t: True, pace: ClockPace) {
        self.settle(t);
        self.pace = pace;
    }

    /// The machine is started anew: its lines begin again.
    pub(crate) fn restart(&mut self, t: True, held: u64) {
        (self.held, self.waited, self.at, self.pace) = (held, held, t, ClockPace::Running);
    }

    /// The clock that counts suspends has counted this one wrongly.
    pub(crate) fn leap(&mut self, t: True, by: u64) {
        self.settle(t);
        self.held += by;
    }

    /// Sets the rate, within what 20 bits can tell apart, never beyond what was asked for.
    pub(crate) fn set_rate(&mut self, t: True, per_million: u64) {
        self.settle(t);
        let scaled = per_million * ONE;
        self.rate = if per_million >= 1_000_000 { scaled / 1_000_000 } else { scaled.div_ceil(1_000_000) };
    }

    pub(crate) fn set_wall_offset(&mut self, ms: i64) {
        self.wall_offset_ms = ms;
    }

    pub(crate) fn shift_wall(&mut self, by_ms: i64) {
        self.wall_offset_ms += by_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_clock_runs_at_its_rate_and_stops_as_it_should() {
        let mut clock = NodeClock::new(0, 100, 1_100_000, 5);
        assert!(clock.held(SECOND).0 <= 100 + 1_100_000_000 && clock.held(SECOND).0 >= 100 + 1_099_998_000);
        clock.set_pace(SECOND, ClockPace::Suspended);
        let frozen = clock.read(SECOND).waited;
        assert_eq!(clock.read(2 * SECOND).waited, frozen);
        assert!(clock.held(2 * SECOND) > clock.held(SECOND));
        clock.set_pace(2 * SECOND, ClockPace::Hidden);
        assert_eq!(clock.held(9 * SECOND), clock.held(2 * SECOND));
        assert_eq!(clock.read(9 * SECOND).wall, Wall(WALL_AT_START + 9_005));
    }

    #[test]
    fn a_wake_up_is_never_early_by_the_nodes_own_clock() {
        for rate in [900_000, 999_999, 1_000_000, 1_050_001, 1_100_000] {
            let clock = NodeClock::new(7, 13, rate, 0);
            for tick in [13, 14, 1_000, 123_456_789, 9_999_999_999] {
                assert!(clock.held(clock.when(Tick(tick))).0 >= tick);
            }
        }
    }
}
