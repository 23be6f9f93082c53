//! The suite on the memory store: as it is, behind a prefix, and behind wrappers that change nothing.
//!
//! These are also the suite's proof of soundness: a store that keeps the contract passes. That it is sharp is shown in
//! `broken/main.rs`.

use std::sync::Arc;
use tenure_store::{AnyStore, FaultyStore, MemoryStore, MeteredStore};
use tenure_testkit::{Clones, ManualClock, Prefixed, conformance};

fn memory() -> (MemoryStore, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    (MemoryStore::new("memory", clock.clone()), clock)
}

conformance!(plain, || async {
    let (store, clock) = memory();
    Clones::new(store, clock)
});

conformance!(prefixed, || async {
    let (store, clock) = memory();
    Prefixed::new(Clones::new(store, clock), "a'%_")
});

conformance!(wrapped, || async {
    let (store, clock) = memory();
    Clones::new(AnyStore::new(MeteredStore::new(FaultyStore::new(store))), clock)
});
