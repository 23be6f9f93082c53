//! A lapse whose handle is dropped at once, as the command line does it.
//!
//! Plan: a renewal is under way when a leader lapses and its handle goes; whatever it is answered, the row is neither looked for nor removed; the
//! same for a leader that resigns: it leads no more, at once.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tenure_core::StoreError;
use tenure_less::{Calling, Candidate, CandidateOptions, EndCause, LeaderRow, Micros, Seen, Storage};
use tokio::sync::Notify;

/// A row whose renewal is answered when the test says so.
#[derive(Default)]
struct SlowDisk {
    renewing: Notify,
    goes_on: Notify,
    is_refused: bool,
    looks: AtomicUsize,
    releases: AtomicUsize,
}

impl Storage for SlowDisk {
    fn look<'a>(&'a self, _: &'a str) -> Calling<'a, Seen> {
        self.looks.fetch_add(1, Ordering::SeqCst);
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
        Box::pin(async {
            self.renewing.notify_one();
            self.goes_on.notified().await;
            if self.is_refused { Err(StoreError::unavailable("locked")) } else { Ok(true) }
        })
    }
    fn release<'a>(&'a self, _: &'a str, _: &'a LeaderRow) -> Calling<'a, bool> {
        self.releases.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(true) })
    }
}

#[tokio::test]
async fn s6_a_row_is_left_to_expire_though_a_renewal_was_under_way_and_the_handle_is_gone() {
    for is_refused in [false, true] {
        let disk = Arc::new(SlowDisk { is_refused, ..SlowDisk::default() });
        let options =
            CandidateOptions::new().ttl(Duration::from_secs(60)).hold_every(Duration::from_millis(10));
        let (clock, storage) = (tenure::clock::system(), Arc::clone(&disk) as Arc<dyn Storage>);
        let candidate = Candidate::start(storage, options, clock, tenure::clock::uuid).unwrap();
        candidate.elected().await.unwrap();
        disk.renewing.notified().await;
        let looks = disk.looks.load(Ordering::SeqCst);
        let mut changes = candidate.changes();
        candidate.lapse();
        drop(candidate);
        disk.goes_on.notify_one();
        let over = async { while changes.changed().await.is_ok() {} };
        tokio::time::timeout(Duration::from_secs(20), over).await.unwrap();
        let after = (disk.looks.load(Ordering::SeqCst), disk.releases.load(Ordering::SeqCst));
        assert_eq!(after, (looks, 0), "refused: {is_refused}");
    }
}

#[tokio::test]
async fn s6_whoever_resigns_leads_no_more_at_once_though_a_renewal_is_under_way() {
    let disk = Arc::new(SlowDisk::default());
    let options = CandidateOptions::new().ttl(Duration::from_secs(60)).hold_every(Duration::from_millis(10));
    let (clock, storage) = (tenure::clock::system(), Arc::clone(&disk) as Arc<dyn Storage>);
    let candidate = Candidate::start(storage, options, clock, tenure::clock::uuid).unwrap();
    let term = candidate.elected().await.unwrap();
    disk.renewing.notified().await;
    candidate.resign();
    assert!(!term.is_held() && !candidate.is_leader());
    // Nor is it elected by that term before its task has heard of it, or once the renewal is answered.
    let elected = async |candidate: &Candidate| {
        tokio::time::timeout(Duration::from_millis(100), candidate.elected()).await.is_ok()
    };
    assert!(!elected(&candidate).await);
    assert_eq!(term.ended().await, Some(EndCause::Resigned));
    let leading = candidate.changes().borrow().is_leading;
    assert!(!leading, "it is told while the renewal is under way");
    assert!(candidate.changes().borrow().has_been_let_in);
    disk.goes_on.notify_one();
    assert!(!elected(&candidate).await && !candidate.is_leader());
}
