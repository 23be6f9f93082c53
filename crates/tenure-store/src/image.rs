//! What lies under a key, whether or not it can be understood: for repairs.

use crate::codec;
use tenure_core::{Fence, Record, StoreError};

/// All that a store has under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Image {
    /// How to put it back by hand, in the store's own words: a line of SQL, or an item as JSON. It holds every byte, so two
    /// images of a key with the same copy are the same. Of a value that is longer than [`Image::MOST_COPIED`] it may tell the length alone.
    pub copy: String,
    /// The record as far as it can be understood; else the reason.
    pub record: Result<Record, StoreError>,
    /// The highest fence that any part of it tells, also of what can't be understood as a whole.
    pub fence: Option<Fence>,
    /// It was written by a newer version: it is not damaged, and this program must leave it alone.
    pub is_newer: bool,
}

impl Image {
    /// Longer values stand in no record, and need not be in a copy.
    pub const MOST_COPIED: usize = 1 << 20;

    /// An image of what is encoded in `bytes`, of which other parts tell these fences.
    #[must_use]
    pub fn new(
        copy: String,
        record: Result<Record, StoreError>,
        bytes: &[u8],
        fences: impl IntoIterator<Item = Fence>,
    ) -> Image {
        let told = codec::decode(bytes).ok().map(|record| record.fence);
        // With a higher one no tenure could ever follow.
        let fence = fences.into_iter().chain(told).filter(|fence| *fence < Fence::MAX).max();
        Image { copy, record, fence, is_newer: codec::is_newer(bytes) }
    }
}

/// Bytes as hexadecimal digits.
#[must_use]
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
