//! A subscriber of `tracing` that panics, where a lease is refreshed in the background. Plan: a refresh fails, of which it is told; the next one is made all the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::support::{TABLE, clock, manager, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tenure_dynamodb_testkit::client;
use tenure_dynamodb_testkit::stub::{Fate, Stub};
use tenure_tabletheory::TableTheoryOptions;
use tenure_testkit::listens_by;

#[tokio::test]
async fn l4_a_subscriber_that_panics_costs_no_lease() {
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let _here = listens_by(tracing::Level::WARN, move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        panic!("on purpose, of whoever is told");
    });
    let refreshes = AtomicUsize::new(0);
    // A table that nobody else writes to.
    let stub = Stub::start(move |action, _| {
        if action == "UpdateItem" && refreshes.fetch_add(1, Ordering::SeqCst) == 0 {
            return Fate::refusal(400, "ProvisionedThroughputExceededException", "later");
        }
        Fate::Answer(200, "{}".to_owned())
    })
    .await;
    let options = TableTheoryOptions::new(TABLE).skew_margin(Duration::from_millis(100));
    let manager = manager(client(&stub.endpoint), options, clock());
    let span = Duration::from_secs(2);
    let hold = manager.hold(manager.acquire("told", span).await.unwrap(), span);
    until(async || hold.trouble().is_some()).await;
    until(async || hold.trouble().is_none()).await;
    assert!(hold.is_held() && told.load(Ordering::SeqCst) == 1);
}
