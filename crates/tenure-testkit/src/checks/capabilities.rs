//! What a store says of itself.

use crate::AnySubject;
use std::time::Duration;
use tenure_core::{Key, MAILBOX, Ttl};
use tenure_store::Store;

/// The capabilities allow the store to be used at all.
pub async fn they_make_sense(subject: &AnySubject) {
    let capabilities = subject.store().await.capabilities();
    assert!(capabilities.batch >= 1, "a batch of one is a write");
    // A full mailbox of the longest keys, the greatest metadata, and the rest of a record.
    let largest = (MAILBOX + 2) * Key::MAX_BYTES + tenure_store::codec::MAX_METADATA_BYTES + 1024;
    assert!(
        capabilities.record_bytes >= largest,
        "{} bytes are too few for a record",
        capabilities.record_bytes
    );
    assert!(capabilities.least_ttl <= Duration::from_secs(60), "{:?}", capabilities.least_ttl);
    assert!(capabilities.least_ttl >= Ttl::MIN.duration(), "{:?}", capabilities.least_ttl);
}

/// They are the store's, not the handle's.
pub async fn they_are_the_same_in_every_handle(subject: &AnySubject) {
    let (one, other) = (subject.store().await, subject.store().await);
    assert_eq!(one.capabilities(), other.capabilities());
    assert_eq!(one.capabilities(), one.capabilities());
}
