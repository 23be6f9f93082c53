//! For tests of programs that use leases: time that passes at once, and a store that fails when it is told to. With the feature `test-util`.
//!
//! A paused runtime jumps to the next timer whenever all wait, but nothing else knows of that: leases and stores go by the machine's clock. With a
//! [`PausedClock`] under both, minutes pass in milliseconds.
//!
//! ```
//! use std::time::Duration;
//! use tenure::testing::{Fault, FaultyStore, PausedClock};
//! use tenure::{Leases, Loss, MemoryStore};
//!
//! # fn main() {
//! #[tokio::main(flavor = "current_thread", start_paused = true)] // A test has `#[tokio::test(start_paused = true)]`.
//! async fn test() -> Result<(), Box<dyn std::error::Error>> {
//!     let clock = PausedClock::start();
//!     let store = FaultyStore::new(MemoryStore::new("test", clock.clone()));
//!     let one = Leases::builder(store.clone()).clock(clock.clone()).start()?;
//!     let other = Leases::builder(store.clone()).clock(clock).start()?;
//!
//!     let guard = one.acquire("k").await?;
//!     assert!(other.acquire_within("k", Duration::from_secs(5)).await.is_err());
//!     tokio::time::sleep(Duration::from_secs(60)).await;
//!     assert!(guard.is_held(), "it is renewed");
//!
//!     store.always(Fault::Hang);
//!     assert!(matches!(guard.lost().await, Loss::Unreachable(_)));
//!     store.always(Fault::None);
//!     assert!(other.acquire("k").await?.is_held());
//!     Ok(())
//! }
//! # test().unwrap();
//! # }
//! ```
//!
//! Fleets and sections take a clock, too: [`Fleet::with_clock`](crate::fleet::Fleet::with_clock),
//! [`SectionBuilder::clock`](crate::range::SectionBuilder::clock), [`CandidateBuilder::clock`](crate::CandidateBuilder::clock). Stores in files and on
//! servers answer in real time, which paused timers do not wait for: every call to them is too late at once. Test with those in real time, with short
//! ttls.

pub use tenure_store::{Fault, FaultyStore};

use std::sync::Arc;
use tenure_core::{Clock, Now, Tick, Wall};
use tokio::time::Instant;

/// When simulated time begins, by the wall clock.
const BEGINS: u64 = 1_700_000_000_000;

/// The time of tokio's timers, which tests can pause. Not for production: it stops while the machine is suspended, and a holder must count that time.
#[derive(Debug)]
pub struct PausedClock {
    start: Instant,
}

impl PausedClock {
    /// Starts counting now, to be shared by all that one test has.
    #[must_use]
    #[allow(
        clippy::disallowed_methods,
        reason = "the runtime's clock, which is to be paused, is the time of tests"
    )]
    pub fn start() -> Arc<PausedClock> {
        Arc::new(PausedClock { start: Instant::now() })
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Now {
        let since = Tick(0).after(self.start.elapsed());
        Now { held: since, waited: since, wall: Wall(BEGINS + since.0 / 1_000_000) }
    }
}
