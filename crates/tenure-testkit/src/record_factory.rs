//! Makes records that are all different.

use std::sync::atomic::{AtomicU64, Ordering};
use tenure_core::op::{Expect, Write};
use tenure_core::{Fence, HolderId, Key, Metadata, Nonce, Record, Tenure, Ttl, Version, Wall};

/// Makes records and writes, each with a nonce that no other has.
#[derive(Debug, Default)]
pub struct RecordFactory {
    drawn: AtomicU64,
}

#[allow(clippy::expect_used, reason = "the texts are the test's own")]
impl RecordFactory {
    /// A factory whose nonces begin at one. Use one for each set of records.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A key of this text.
    #[must_use]
    pub fn key(&self, text: &str) -> Key {
        Key::new(text).expect("a text that can be a key")
    }

    /// A nonce that was not drawn before.
    #[must_use]
    pub fn nonce(&self) -> Nonce {
        let count = self.drawn.fetch_add(1, Ordering::SeqCst) + 1;
        // All bytes in use, so that a store that cuts versions short is found out.
        Nonce((0xfedc_ba98_7654_3210 << 64) | u128::from(count))
    }

    /// A vacant record.
    #[must_use]
    pub fn vacant(&self, fence: u64) -> Record {
        let nonce = self.nonce();
        Record { fence: Fence(fence), nonce, stamp: Wall(17), tenure: None, metadata: Metadata::new() }
    }

    /// A record with a tenure that has just begun.
    #[must_use]
    pub fn held(&self, fence: u64) -> Record {
        let vacant = self.vacant(fence);
        let tenure = Tenure::new(
            vacant.nonce,
            HolderId::new("testkit").expect("a holder id"),
            Ttl::clamped(30_000),
            Wall(17),
        );
        Record { tenure: Some(tenure), ..vacant }
    }

    /// The write of `record` where nothing is.
    #[must_use]
    pub fn absent(&self, key: &Key, record: Record) -> Write {
        Write { key: key.clone(), expect: Expect::Absent, record }
    }

    /// The write of `record` where no tenure is.
    #[must_use]
    pub fn if_vacant(&self, key: &Key, record: Record) -> Write {
        Write { key: key.clone(), expect: Expect::Vacant, record }
    }

    /// The write of `record` over just this version.
    #[must_use]
    pub fn unchanged(&self, key: &Key, version: Version, record: Record) -> Write {
        Write { key: key.clone(), expect: Expect::Unchanged(version), record }
    }
}
