//! A storage of a user's own whose code panics.
//!
//! Plan: its calls panic before they have a future and in it, while the candidate follows and while it leads: that is told, and tried again; nobody is
//! deposed by it, and a stop ends.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tenure_core::{ErrorKind, StoreError};
use tenure_less::{Calling, Candidate, CandidateOptions, LeaderRow, Micros, Seen, Storage};

const SOON: Duration = Duration::from_secs(20);

/// A free row that anyone can take. All calls panic for as long as it is broken.
#[derive(Default)]
struct Fragile {
    is_broken: AtomicBool,
    calls: AtomicUsize,
}

impl Fragile {
    fn answer<'a, T: Send + 'a>(&self, answer: T) -> Calling<'a, T> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let is_broken = self.is_broken.load(Ordering::SeqCst);
        if is_broken && call.is_multiple_of(2) {
            panic!("on purpose, before there is a future");
        }
        Box::pin(async move {
            tokio::task::yield_now().await;
            if is_broken {
                panic!("on purpose, in call {call}");
            }
            Ok(answer)
        })
    }
}

impl Storage for Fragile {
    fn look<'a>(&'a self, _: &'a str) -> Calling<'a, Seen> {
        self.answer(Seen { row: None, now: Micros::default() })
    }
    fn take<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: Duration,
        _: Duration,
        _: Option<&'a LeaderRow>,
    ) -> Calling<'a, bool> {
        self.answer(true)
    }
    fn renew<'a>(&'a self, _: &'a str, _: &'a str, _: Duration) -> Calling<'a, bool> {
        self.answer(true)
    }
    fn release<'a>(&'a self, _: &'a str, _: &'a LeaderRow) -> Calling<'a, bool> {
        self.answer(true)
    }
}

/// Waits until it is told that a call has failed, or that none does any more.
async fn trouble(candidate: &Candidate, fails: bool) -> Option<StoreError> {
    let mut status = candidate.changes();
    let told = tokio::time::timeout(SOON, status.wait_for(|status| status.trouble.is_some() == fails));
    told.await.unwrap().unwrap().trouble.clone()
}

#[tokio::test]
async fn l4_a_storage_that_panics_costs_one_attempt_and_no_candidate() {
    let storage = Arc::<Fragile>::default();
    let breaks = |is_broken| storage.is_broken.store(is_broken, Ordering::SeqCst);
    breaks(true);
    let brief = Duration::from_millis(10);
    let options = CandidateOptions::new().key("k").ttl(Duration::from_secs(60));
    let options = options.hold_every(brief).follow_every(brief).errors_to_fallback(u32::MAX);
    let calls = Arc::clone(&storage) as Arc<dyn Storage>;
    let candidate = Candidate::start(calls, options, tenure::clock::system(), tenure::clock::uuid).unwrap();
    let told = trouble(&candidate, true).await.unwrap();
    assert_eq!(told.kind(), ErrorKind::Unknown, "it may have taken effect");
    assert!(told.to_string().contains("on purpose"), "{told}");
    // A look of each kind has failed.
    while storage.calls.load(Ordering::SeqCst) < 4 {
        tokio::time::sleep(brief).await;
    }
    breaks(false);
    let term = tokio::time::timeout(SOON, candidate.elected()).await.unwrap().unwrap();
    assert_eq!(trouble(&candidate, false).await, None);
    breaks(true);
    assert!(trouble(&candidate, true).await.is_some());
    breaks(false);
    assert_eq!(trouble(&candidate, false).await, None);
    assert!(term.is_held(), "a renewal has failed, and the next one has not");
    breaks(true);
    tokio::time::timeout(SOON, candidate.stop()).await.unwrap();
}
