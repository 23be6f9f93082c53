//! Many calls under way at a time.

use tenure::StoreError;
use tokio::task::JoinSet;

/// Calls under way at a time. A SQLite file takes writes of so many in one transaction.
const AT_ONCE: usize = 100;

/// Does something to each, many side by side. How many of them it came true for; after a failure no more is begun, and what is under way ends.
pub(crate) async fn count_side_by_side<T, E, C>(
    all: impl IntoIterator<Item = T>,
    each: impl Fn(T) -> C,
) -> Result<usize, E>
where
    C: Future<Output = Result<bool, E>> + Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let (mut waiting, mut running) = (all.into_iter(), JoinSet::new());
    let (mut done, mut failed) = (0, None);
    loop {
        while running.len() < AT_ONCE && failed.is_none() {
            let Some(next) = waiting.next() else { break };
            running.spawn(each(next));
        }
        match running.join_next().await {
            None => break,
            Some(Ok(Ok(is_so))) => done += usize::from(is_so),
            Some(Ok(Err(error))) => failed = failed.or(Some(error)),
            Some(Err(error)) => {
                let error = StoreError::unknown(format!("the store's code failed: {error}"));
                failed = failed.or_else(|| Some(error.into()));
            }
        }
    }
    failed.map_or(Ok(done), Err)
}

#[cfg(test)]
mod tests {
    //! Plan: calls wait side by side, within a bound; the first failure is told, and nothing is begun after it.
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn calls_wait_side_by_side_within_a_bound() {
        let (begun, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let each = |n: usize| {
            let (begun, most) = (Arc::clone(&begun), Arc::clone(&most));
            async move {
                most.fetch_max(begun.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                begun.fetch_sub(1, Ordering::SeqCst);
                Ok::<bool, StoreError>(n.is_multiple_of(2))
            }
        };
        assert_eq!(count_side_by_side(0..1000, each).await, Ok(500));
        let most = most.load(Ordering::SeqCst);
        assert!((AT_ONCE / 2..=AT_ONCE).contains(&most), "{most}");
    }

    #[tokio::test]
    async fn nothing_is_begun_after_a_failure() {
        let begun = Arc::new(AtomicUsize::new(0));
        let each = |n: usize| {
            begun.fetch_add(1, Ordering::SeqCst);
            async move { if n == 5 { Err(StoreError::unavailable("no")) } else { Ok(true) } }
        };
        assert_eq!(count_side_by_side(0..10_000, each).await, Err(StoreError::unavailable("no")));
        assert!(begun.load(Ordering::SeqCst) <= 2 * AT_ONCE);
    }
}
