//! Managers whose requests have a fate each.

use super::{TABLE, clock, item, make_table, manager};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tenure_core::ErrorKind;
use tenure_dynamodb_testkit::client;
use tenure_dynamodb_testkit::stub::{Fate, Stub};
use tenure_tabletheory::{LeaseError, Manager, TableTheoryOptions};
use tenure_testkit::ManualClock;

/// A manager whose requests have these fates, one each, and then none.
pub(crate) struct Scripted {
    pub(crate) manager: Manager,
    pub(crate) stub: Stub,
    script: Arc<Mutex<VecDeque<Fate>>>,
    pub(crate) clock: Arc<ManualClock>,
}

pub(crate) async fn scripted() -> Scripted {
    make_table(TABLE, ["pk", "sk"]).await;
    let script = Arc::new(Mutex::new(VecDeque::new()));
    let fates = Arc::clone(&script);
    let stub = Stub::start(move |_, _| fates.lock().unwrap().pop_front().unwrap_or(Fate::Through)).await;
    let clock = clock();
    let manager = manager(client(&stub.endpoint), TableTheoryOptions::new(TABLE), clock.clone());
    Scripted { manager, stub, script, clock }
}

impl Scripted {
    pub(crate) fn next(&self, fates: impl IntoIterator<Item = Fate>) {
        self.script.lock().unwrap().extend(fates);
    }

    /// Whether each request has had its fate.
    pub(crate) fn is_over(&self) -> bool {
        self.script.lock().unwrap().is_empty()
    }
}

pub(crate) fn kind(error: &LeaseError) -> Option<ErrorKind> {
    if let LeaseError::Store(error) = error { Some(error.kind()) } else { None }
}

pub(crate) async fn expiry(pk: &str) -> Option<u64> {
    item(pk, "LOCK").await.map(|item| item["lease_expires_at"].as_n().unwrap().parse().unwrap())
}
