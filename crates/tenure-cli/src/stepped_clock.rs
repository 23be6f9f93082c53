//! For tests: the paused runtime's time, whose wall clock is set.
#![allow(clippy::disallowed_methods, reason = "the runtime's clock, which is paused, is the time of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tenure::clock::{Now, Tick};
use tenure::{Clock, Wall};
use tokio::time::Instant;

/// When it begins, by the wall clock: on a full minute.
const BEGINS: i64 = 1_700_000_040_000;

pub(crate) struct SteppedClock {
    start: Instant,
    wall: AtomicI64,
}

impl SteppedClock {
    pub(crate) fn start() -> Arc<SteppedClock> {
        Arc::new(SteppedClock { start: Instant::now(), wall: AtomicI64::new(BEGINS) })
    }

    /// Sets the wall clock ahead by so many milliseconds, or back.
    pub(crate) fn step(&self, millis: i64) {
        self.wall.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Now {
        let passed = Tick(0).after(self.start.elapsed());
        let wall = self.wall.load(Ordering::SeqCst).saturating_add_unsigned(passed.0 / 1_000_000);
        Now { held: passed, waited: passed, wall: Wall(wall.unsigned_abs()) }
    }
}
