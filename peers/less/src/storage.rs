//! What a candidate needs of the place where the row is: four calls, each one atomic statement or transaction.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tenure_core::StoreError;

/// Why a call has failed that no later one can make up for: what was opened is not what others use any more. It is the source of such an error, and a
/// leader steps down at the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageGone;

/// As part of an error's chain.
impl std::fmt::Display for StorageGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("what was opened is not what others use any more")
    }
}

impl std::error::Error for StorageGone {}

impl StorageGone {
    /// Whether that is what an error is about.
    #[must_use]
    pub fn is_why(error: &StoreError) -> bool {
        std::error::Error::source(error).is_some_and(|source| source.is::<StorageGone>())
    }
}

/// An answer that is on its way.
pub type Calling<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Microseconds since the Unix epoch.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub i64);

impl Micros {
    /// The time from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Micros) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The time that lies `span` later.
    #[must_use]
    pub fn after(self, span: Duration) -> Micros {
        Micros(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}

/// Who leads, and until when, as the table says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderRow {
    /// The leader's id.
    pub value: String,
    /// When its leadership is over, unless it is renewed.
    pub deadline: Micros,
}

/// What a look showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The key's row, also one whose deadline is past; none if there is none.
    pub row: Option<LeaderRow>,
    /// The time by the clock that this storage writes deadlines by.
    pub now: Micros,
}

/// Where rows are kept: a table of less's, or anything that can do as much.
///
/// A call that fails with [`ErrorKind::Unknown`](tenure_core::ErrorKind::Unknown) may have taken effect, or may still; with any other
/// kind, it did not and will not. A call that is dropped, or that panics, counts as unknown.
pub trait Storage: Send + Sync + 'static {
    /// Reads the row.
    fn look<'a>(&'a self, key: &'a str) -> Calling<'a, Seen>;

    /// Makes `value` the leader for `ttl` from now. Where `over` is none, only if there is no row; else only if the row still is that one
    /// and its deadline has been past for longer than `skew`. False if not.
    fn take<'a>(
        &'a self,
        key: &'a str,
        value: &'a str,
        ttl: Duration,
        skew: Duration,
        over: Option<&'a LeaderRow>,
    ) -> Calling<'a, bool>;

    /// Moves the deadline to `ttl` from now, if the row has this value and its deadline is not past. False if not.
    fn renew<'a>(&'a self, key: &'a str, value: &'a str, ttl: Duration) -> Calling<'a, bool>;

    /// Removes the row if it still is this one. False if not.
    fn release<'a>(&'a self, key: &'a str, row: &'a LeaderRow) -> Calling<'a, bool>;
}
