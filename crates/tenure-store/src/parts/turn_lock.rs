//! A lock whose turn comes to whoever looks for it first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// Lets one at a time do something.
///
/// A fair lock hands a turn to the future that has waited for longest. If nobody polls that one, as in a `select!` whose other branch takes long, or
/// on a runtime that stands still, all others wait for it. Here, all who wait are woken, and who comes first has the turn.
#[derive(Debug, Default)]
pub struct TurnLock {
    is_taken: AtomicBool,
    freed: Notify,
}

/// A turn, until it is dropped. It may be moved to a thread.
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct TurnGuard(Arc<TurnLock>);

impl TurnLock {
    /// Waits for a turn.
    ///
    /// # Cancel safety
    /// Who gives up has none, and keeps nobody from theirs.
    pub async fn take(self: &Arc<Self>) -> TurnGuard {
        loop {
            // It hears of turns that end from now on.
            let freed = self.freed.notified();
            if !self.is_taken.swap(true, Ordering::SeqCst) {
                return TurnGuard(Arc::clone(self));
            }
            freed.await;
        }
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::SeqCst);
        self.0.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    //! Plan: one at a time; whoever waits and is not polled, or is dropped, or stands still with its runtime, holds up nobody.
    use super::*;
    use std::pin::pin;
    use std::sync::atomic::AtomicU32;
    use std::task::Poll;
    use std::time::Duration;
    use tokio::time::{sleep, timeout};

    const SECOND: Duration = Duration::from_secs(1);

    async fn waits(future: std::pin::Pin<&mut impl Future>) -> bool {
        let mut future = future;
        std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    }

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_has_a_turn_and_all_have_one_in_the_end() {
        let (lock, inside, done) = (Arc::<TurnLock>::default(), AtomicU32::new(0), AtomicU32::new(0));
        let work = async || {
            let _turn = lock.take().await;
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            sleep(SECOND).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            done.fetch_add(1, Ordering::SeqCst);
        };
        tokio::join!(work(), work(), work(), work());
        assert_eq!(done.load(Ordering::SeqCst), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn l4_who_waits_and_is_not_polled_holds_nobody_up() {
        let lock = Arc::<TurnLock>::default();
        let first = lock.take().await;
        let mut unpolled = pin!(lock.take());
        assert!(waits(unpolled.as_mut()).await);
        drop(first);
        for _ in 0..2 {
            let turn = timeout(SECOND, lock.take()).await;
            drop(turn.expect("it waits for another's future"));
        }
        drop(timeout(SECOND, unpolled).await.unwrap());
    }

    #[test]
    fn l4_who_waits_on_a_runtime_that_stands_still_holds_nobody_up() {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (still, goes_on, lock) = (runtime(), runtime(), Arc::<TurnLock>::default());
        let first = goes_on.block_on(lock.take());
        let waits = Arc::clone(&lock);
        let waiting = still.spawn(async move { drop(waits.take().await) });
        still.block_on(tokio::task::yield_now());
        waiting.abort();
        drop(first);
        let turn = goes_on.block_on(async { timeout(60 * SECOND, lock.take()).await });
        drop(turn.expect("it waits for a runtime that stands still"));
    }
}
