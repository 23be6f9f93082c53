//! The clocks that a contender may have: its machine's own, or one that is wrong in a way that clocks are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure_core::{Clock, Now, Tick, Wall};
use tenure_testkit::RealClock;

/// A clock that shows what a wrong one would.
pub(crate) struct Wrong {
    real: RealClock,
    /// How fast it runs, in ‰.
    rate: u64,
    /// How many ms its wall clock is ahead.
    wall: i64,
    /// What does not count the time for which this process was stopped.
    misses: Misses,
    lived: Arc<AtomicU64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Misses {
    Nothing,
    /// The waiter's clock, as CLOCK_MONOTONIC in a suspended machine.
    Monotonic,
    /// Both, as in a machine that was paused or cloned from outside.
    Both,
}

/// As seen from within, a process that takes longer than this from one heartbeat to the next was stopped.
const STOPPED: Duration = Duration::from_millis(250);

impl Wrong {
    /// `right`, `rate:PER_MILLE`, `wall:SECONDS`, `suspends` or `hides`.
    pub(crate) fn parse(text: &str) -> Arc<Wrong> {
        let (kind, value) = text.split_once(':').unwrap_or((text, "0"));
        let value: i64 = value.parse().unwrap();
        let (mut rate, mut wall, mut misses) = (1000, 0, Misses::Nothing);
        match kind {
            "right" => {}
            "rate" => rate = value.unsigned_abs(),
            "wall" => wall = value * 1000,
            "suspends" => misses = Misses::Monotonic,
            "hides" => misses = Misses::Both,
            other => unreachable!("no clock is called {other}"),
        }
        let clock = Arc::new(Wrong { real: RealClock::new(), rate, wall, misses, lived: Arc::default() });
        if misses != Misses::Nothing {
            let lived = Arc::clone(&clock.lived);
            std::thread::spawn(move || heartbeat(&lived));
        }
        clock
    }
}

/// Counts the time for which this process runs.
fn heartbeat(lived: &AtomicU64) {
    let clock = RealClock::new();
    let mut last = clock.held();
    loop {
        std::thread::sleep(Duration::from_millis(2));
        let now = clock.held();
        let passed = now.since(last);
        last = now;
        if passed < STOPPED {
            lived.fetch_add(u64::try_from(passed.as_nanos()).unwrap(), Ordering::SeqCst);
        }
    }
}

impl Clock for Wrong {
    fn now(&self) -> Now {
        let Now { held, wall, .. } = self.real.now();
        let lived = Tick(self.lived.load(Ordering::SeqCst));
        let paced = Tick(held.0 / 1000 * self.rate);
        let (held, waited) = match self.misses {
            Misses::Nothing => (paced, paced),
            Misses::Monotonic => (paced, lived.min(paced)),
            Misses::Both => (lived, lived),
        };
        Now { held, waited, wall: Wall(wall.0.saturating_add_signed(self.wall)) }
    }
}
