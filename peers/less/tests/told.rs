//! What a candidate logs. Plan: its events have the names and fields of those of `tenure::election`; a subscriber that panics at each of them deposes nobody.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_core::StoreError;
use tenure_less::{Calling, Candidate, CandidateOptions, LeaderRow, Micros, Seen, Storage};
use tenure_testkit::listens_by;
use tracing::Level;

/// A free row that anyone can take. Its first renewal fails.
#[derive(Default)]
struct Flaky {
    renewals: AtomicUsize,
}

impl Storage for Flaky {
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
        let is_first = self.renewals.fetch_add(1, Ordering::SeqCst) == 0;
        Box::pin(async move { if is_first { Err(StoreError::unavailable("locked")) } else { Ok(true) } })
    }
    fn release<'a>(&'a self, _: &'a str, _: &'a LeaderRow) -> Calling<'a, bool> {
        Box::pin(async { Ok(true) })
    }
}

/// It leads, through trouble, until it resigns; and again, until it is stopped.
async fn leads_twice() {
    let storage = Arc::<Flaky>::default();
    let options = CandidateOptions::new().key("k").ttl(Duration::from_secs(60));
    let brief = Duration::from_millis(10);
    let options = options.hold_every(brief).follow_every(brief);
    let calls = Arc::clone(&storage) as Arc<dyn Storage>;
    let candidate = Candidate::start(calls, options, tenure::clock::system(), tenure::clock::uuid).unwrap();
    let twice = async {
        for _ in 0..2 {
            let (term, before) =
                (candidate.elected().await.unwrap(), storage.renewals.load(Ordering::SeqCst));
            while storage.renewals.load(Ordering::SeqCst) < before + 3 {
                tokio::time::sleep(brief).await;
            }
            assert!(term.is_held());
            candidate.resign();
        }
    };
    tokio::time::timeout(Duration::from_secs(20), twice).await.unwrap();
    candidate.stop().await;
}

#[tokio::test]
async fn l4_a_subscriber_that_panics_deposes_nobody() {
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let _here = listens_by(Level::DEBUG, move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        panic!("on purpose, of whoever is told");
    });
    leads_twice().await;
    assert!(told.load(Ordering::SeqCst) > 5);
}

#[tokio::test]
async fn events_have_the_names_of_those_of_an_election() {
    let told = Arc::<Mutex<BTreeMap<String, String>>>::default();
    let log = Arc::clone(&told);
    let _here = listens_by(Level::DEBUG, move |event| {
        let (metadata, fields) = (event.metadata(), event.fields().map(|field| field.name()));
        let fields = fields.filter(|field| *field != "message").collect::<Vec<_>>().join(" ");
        log.lock().unwrap().insert(format!("{} {}", metadata.target(), metadata.name()), fields);
    });
    leads_twice().await;
    let told = told.lock().unwrap();
    let told: Vec<String> = told.iter().map(|(name, fields)| format!("{name}: {fields}")).collect();
    assert_eq!(
        told,
        [
            "tenure::election election.elected: key holder",
            "tenure::election election.ended: key holder reason",
            "tenure::election election.failing: key holder reason",
            "tenure::election election.started: key holder",
            "tenure::election election.stopped: key holder",
        ]
    );
}
