//! What is told of a leadership's end where the clock has gone on and timers have not, as after a suspend: they go by another clock.
//!
//! Plan: the candidate notices a clock that has jumped within a twentieth of the ttl, however far away its next call is; whoever waits for the
//! end of a term notices it, too, where nothing drives the candidate.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure::Clock;
use tenure::clock::Tick;
use tenure_core::{Now, Wall};
use tenure_less::{Calling, Candidate, CandidateOptions, EndCause, LeaderRow, Micros, Seen, Storage};
use tokio::runtime::Runtime;

/// A twentieth is 3 s. The next call, and its timeout, are 15 s away at least.
const TTL: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(12);

/// A clock that stands still but for jumps.
#[derive(Default)]
struct Jumping(AtomicU64);

impl Clock for Jumping {
    fn now(&self) -> Now {
        let tick = Tick(self.0.load(Ordering::SeqCst));
        Now { held: tick, waited: Tick(0), wall: Wall(1_700_000_000_000 + tick.0 / 1_000_000) }
    }
}

/// A free row that anyone can take, once.
struct Free;

impl Storage for Free {
    fn look<'a>(&'a self, _: &'a str) -> Calling<'a, Seen> {
        Box::pin(async { Ok(Seen { row: None, now: Micros::default() }) })
    }
    fn take<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: Duration,
        _: Duration,
        _: Option<&'a LeaderRow>,
    ) -> Calling<'a, bool> {
        Box::pin(async { Ok(true) })
    }
    fn renew<'a>(&'a self, _: &'a str, _: &'a str, _: Duration) -> Calling<'a, bool> {
        Box::pin(std::future::pending())
    }
    fn release<'a>(&'a self, _: &'a str, _: &'a LeaderRow) -> Calling<'a, bool> {
        Box::pin(async { Ok(true) })
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A candidate that is to call again in so long.
async fn candidate(hold: Duration) -> (Candidate, Arc<Jumping>) {
    let clock = Arc::<Jumping>::default();
    let options = CandidateOptions::new().key("k").ttl(TTL).hold_every(hold);
    let candidate = Candidate::start(Arc::new(Free), options, clock.clone(), tenure::clock::uuid).unwrap();
    assert!(candidate.elected().await.unwrap().is_held());
    (candidate, clock)
}

#[test]
fn a_candidate_notices_a_suspend_soon_between_calls_and_within_one() {
    for hold in [Duration::from_secs(20), Duration::from_millis(10)] {
        runtime().block_on(async {
            let (candidate, clock) = candidate(hold).await;
            // The renewal is under way, or far away.
            tokio::time::sleep(Duration::from_millis(50)).await;
            clock.0.fetch_add(3_600_000_000_000, Ordering::SeqCst);
            assert!(!candidate.is_leader());
            let mut status = candidate.changes();
            let told = tokio::time::timeout(SOON, status.wait_for(|status| !status.is_leading));
            assert_eq!(told.await.unwrap().unwrap().ended, Some(EndCause::Deadline));
        });
    }
}

#[test]
fn s5_whoever_waits_for_the_end_of_a_term_is_told_though_nothing_drives_the_candidate() {
    let (stands_still, runtime) = (runtime(), runtime());
    let (candidate, clock) = stands_still.block_on(candidate(Duration::from_secs(20)));
    let term = stands_still.block_on(candidate.elected()).unwrap();
    clock.0.fetch_add(3_600_000_000_000, Ordering::SeqCst);
    assert!(!term.is_held());
    let told = runtime.block_on(async { tokio::time::timeout(SOON, term.ended()).await });
    assert_eq!(told.unwrap(), Some(EndCause::Deadline));
    let ran =
        runtime.block_on(async { tokio::time::timeout(SOON, term.run(std::future::pending::<()>())).await });
    assert_eq!(ran.unwrap(), None);
}
