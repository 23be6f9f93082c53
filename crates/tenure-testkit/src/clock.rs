//! Clocks for tests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tenure_core::time::millis;
use tenure_core::{Clock, Now, Tick, Wall};

/// A clock that moves only when told to: all of its time lines together, or the wall clock alone.
#[derive(Debug)]
pub struct ManualClock {
    nanos: AtomicU64,
    wall_ms: AtomicU64,
}

impl ManualClock {
    /// A clock at tick zero and at a wall time in 2023.
    #[must_use]
    pub fn new() -> Self {
        ManualClock { nanos: AtomicU64::new(0), wall_ms: AtomicU64::new(1_700_000_000_000) }
    }

    /// Lets time pass, on the wall too, in whole milliseconds.
    pub fn advance(&self, span: Duration) {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::SeqCst);
        self.wall_ms.fetch_add(nanos / 1_000_000, Ordering::SeqCst);
    }

    /// Puts the wall clock to another time; elapsed time goes on as if nothing had happened.
    pub fn set_wall(&self, wall: Wall) {
        self.wall_ms.store(wall.0, Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        let tick = Tick(self.nanos.load(Ordering::SeqCst));
        Now { held: tick, waited: tick, wall: Wall(self.wall_ms.load(Ordering::SeqCst)) }
    }
}

/// The machine's clocks, for tests of stores that tell real time. Programs use the clock of the crate `tenure`, which knows
/// about suspend; this one does not.
#[derive(Debug)]
pub struct RealClock {
    start: Instant,
}

#[allow(clippy::disallowed_methods, reason = "the one place where the test kit reads real time")]
impl RealClock {
    /// A clock at tick zero.
    #[must_use]
    pub fn new() -> Self {
        RealClock { start: Instant::now() }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place where the test kit reads real time")]
impl Clock for RealClock {
    fn now(&self) -> Now {
        let tick = Tick::default().after(self.start.elapsed());
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { held: tick, waited: tick, wall: Wall(millis(wall)) }
    }
}
