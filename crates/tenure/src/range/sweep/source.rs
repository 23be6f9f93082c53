//! Where the items of a sweep come from.

use std::future::Future;
use std::time::Duration;
use tenure_core::range::{KeyRange, Point};

/// Items that were scanned, in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Whether that is all there is in the range. If not, the last item tells how far the scan has come.
    pub is_all: bool,
}

impl<T> Page<T> {
    /// These items; `is_all` if there are no more in the range.
    #[must_use]
    pub fn new(items: Vec<T>, is_all: bool) -> Page<T> {
        Page { items, is_all }
    }
}

/// A source of items that are ordered by key, of which each has a key of its own: how far a sweep has come is told by keys. Items that have
/// something in common, such as when they are due, have it as the first part of their key, and their own name after it.
pub trait Source: Send + Sync + 'static {
    /// An item.
    type Item: Send + 'static;
    /// What can go wrong.
    type Error: Send + 'static;

    /// The first items of `range`, and none outside of it, at most `limit` of them, in the order of their keys. That is one more than are handled at
    /// a time, to show that no two have one key. A page that is otherwise ends the sweep in this process with
    /// [`SweepError::Misplaced`](super::SweepError::Misplaced). A scan that would take longer than
    /// `budget` ends early, with what it has; at least one item, if there is one: an empty page that is not all is asked for again
    /// at once. After ten in a row of one piece, the sweep ends with [`SweepError::Fruitless`](super::SweepError::Fruitless).
    fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        budget: Duration,
    ) -> impl Future<Output = Result<Page<Self::Item>, Self::Error>> + Send;

    /// The key of an item, which no other item has.
    fn key(&self, item: &Self::Item) -> Point;
}
