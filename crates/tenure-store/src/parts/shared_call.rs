//! One call whose answer many wait for, in a task of its own.
//!
//! Who asks first may be a future that is looked at much later, or never again: a `select!` whose other branch takes long. If that future
//! made the call itself, all others would wait for it.
//!
//! A call is shared within its runtime. One runtime may stand still, as between two calls of `block_on`, and no other is to wait for it.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::{self, Handle};
use tokio::sync::watch;

/// A call of which one at a time is under way on a runtime. Whoever asks there meanwhile gets its answer, too.
#[derive(Debug)]
pub struct SharedCall<T> {
    keeps: Duration,
    /// One of each runtime.
    under_way: Mutex<Vec<CallUnderWay<T>>>,
}

#[derive(Debug)]
struct CallUnderWay<T> {
    runtime: runtime::Id,
    /// Its task has the other end for as long as its answer is good.
    answer: watch::Receiver<Option<T>>,
}

impl<T> Default for SharedCall<T> {
    /// An answer that nobody waits for is dropped.
    fn default() -> SharedCall<T> {
        SharedCall::keeping(Duration::ZERO)
    }
}

impl<T> SharedCall<T> {
    /// An answer that nobody waited for is kept for so long, for the next one who asks.
    pub fn keeping(keeps: Duration) -> SharedCall<T> {
        SharedCall { keeps, under_way: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<CallUnderWay<T>>> {
        // No code that can panic runs under the lock but a caller's `begin`, and that comes before any change.
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone + Send + Sync + 'static> SharedCall<T> {
    /// The answer of the call that is under way, or of the one that `begin` makes, which goes to the present tokio runtime. None where that one
    /// has panicked, or no runtime is there. A call whose runtime ends is made anew by who waits for it.
    ///
    /// Cancel safe: the call goes on without whoever waits for it.
    pub async fn join<F>(&self, begin: impl Fn() -> F) -> Option<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        loop {
            let (mut answer, is_own) = self.under_way_or(&begin);
            let told = answer.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
            // What was told is over: the next one who asks wants another answer.
            self.lock().retain(|call| !call.answer.same_channel(&answer));
            if told.is_some() || is_own {
                return told;
            }
        }
    }

    /// Begins the call that `begin` makes, unless one is under way, and waits for nothing. Its answer is for whoever asks next, as any that nobody
    /// waited for. Without a tokio runtime nothing is begun.
    pub fn begin<F>(&self, begin: impl Fn() -> F)
    where
        F: Future<Output = T> + Send + 'static,
    {
        drop(self.under_way_or(begin));
    }

    /// The call that is under way, or a new one, which is then this caller's own.
    fn under_way_or<F>(&self, begin: impl Fn() -> F) -> (watch::Receiver<Option<T>>, bool)
    where
        F: Future<Output = T> + Send + 'static,
    {
        let (teller, answer) = watch::channel(None);
        let Ok(runtime) = Handle::try_current() else { return (answer, true) };
        let mut under_way = self.lock();
        under_way.retain(|call| call.answer.has_changed().is_ok());
        if let Some(call) = under_way.iter().find(|call| call.runtime == runtime.id()) {
            return (call.answer.clone(), false);
        }
        let (call, keeps) = (begin(), self.keeps);
        runtime.spawn(async move {
            teller.send_replace(Some(call.await));
            if !keeps.is_zero() {
                // It is dropped as soon as it is told.
                let _is_told = tokio::time::timeout(keeps, teller.closed()).await;
            }
        });
        under_way.push(CallUnderWay { runtime: runtime.id(), answer: answer.clone() });
        (answer, true)
    }
}

#[cfg(test)]
mod tests {
    //! Plan: many ask at once; who asked first is not polled, or is dropped; what nobody heard is kept for a while; what was begun without a wait;
    //! a panic; no runtime, one that ends, and one that stands still.
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Poll;
    use tokio::time::{sleep, timeout};

    const SECOND: Duration = Duration::from_secs(1);

    /// Calls that take a second, and are numbered.
    #[derive(Clone, Default)]
    struct Counted(Arc<AtomicU32>);

    impl Counted {
        fn begin(&self) -> impl Future<Output = u32> + Send + 'static {
            let number = self.0.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                sleep(SECOND).await;
                number
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_ask_meanwhile_have_one_answer_and_the_next_has_another() {
        let (shared, counted) = (SharedCall::default(), Counted::default());
        let join = || shared.join(|| counted.begin());
        assert_eq!(tokio::join!(join(), join(), join()), (Some(1), Some(1), Some(1)));
        assert_eq!(join().await, Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn l4_who_asked_first_and_looks_elsewhere_holds_nobody_up() {
        let (shared, counted) = (SharedCall::default(), Counted::default());
        let join = || shared.join(|| counted.begin());
        let mut first = Box::pin(join());
        let begun = std::future::poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending()));
        assert!(begun.await, "it takes a second");
        assert_eq!(timeout(2 * SECOND, join()).await, Ok(Some(1)), "it waits for another's future");
        assert_eq!(timeout(2 * SECOND, join()).await, Ok(Some(2)));
        assert_eq!(first.await, Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_outlasts_who_began_it_and_its_answer_is_kept_as_long_as_was_said() {
        let counted = Counted::default();
        for (keeps, next) in [(Duration::ZERO, 2), (3 * SECOND, 3)] {
            let shared = SharedCall::keeping(keeps);
            let join = || shared.join(|| counted.begin());
            assert!(timeout(SECOND / 2, join()).await.is_err());
            sleep(2 * SECOND).await;
            assert_eq!(join().await, Some(next), "kept for {keeps:?}");
        }
        let shared = SharedCall::keeping(3 * SECOND);
        let join = || shared.join(|| counted.begin());
        assert!(timeout(SECOND / 2, join()).await.is_err());
        sleep(5 * SECOND).await;
        assert_eq!(join().await, Some(5), "what is older is not told");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_nobody_waits_for_is_begun_once_and_joined_by_whoever_asks() {
        let (shared, counted) = (SharedCall::keeping(3 * SECOND), Counted::default());
        for _ in 0..2 {
            shared.begin(|| counted.begin());
        }
        assert_eq!(timeout(2 * SECOND, shared.join(|| counted.begin())).await, Ok(Some(1)));
        assert_eq!(counted.0.load(Ordering::SeqCst), 1);
        shared.begin(|| counted.begin());
        sleep(2 * SECOND).await;
        assert_eq!(
            timeout(Duration::ZERO, shared.join(|| counted.begin())).await,
            Ok(Some(2)),
            "it is there"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_panics_is_told_and_made_anew_for_the_next() {
        let (shared, counted) = (SharedCall::default(), Counted::default());
        let fails = async || -> u32 {
            sleep(SECOND).await;
            panic!("the call fails, as the test wants it")
        };
        let (failed, waited) = tokio::join!(shared.join(fails), shared.join(|| counted.begin()));
        assert_eq!((failed, waited), (None, Some(1)));
    }

    #[test]
    fn a_call_whose_runtime_is_gone_is_made_anew() {
        let (shared, counted) = (SharedCall::default(), Counted::default());
        let within = |wait: Duration| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            runtime.unwrap().block_on(async { timeout(wait, shared.join(|| counted.begin())).await })
        };
        assert!(within(SECOND / 2).is_err());
        assert_eq!(within(2 * SECOND), Ok(Some(2)));
    }

    #[test]
    fn l4_a_call_on_a_runtime_that_stands_still_holds_up_no_other() {
        let (shared, counted) = (SharedCall::default(), Counted::default());
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let (still, goes_on) = (runtime().unwrap(), runtime().unwrap());
        let join = || shared.join(|| counted.begin());
        assert!(still.block_on(async { timeout(SECOND / 2, join()).await }).is_err());
        let other = goes_on.block_on(async { timeout(60 * SECOND, join()).await });
        assert_eq!(other, Ok(Some(2)), "it waits for a runtime that stands still");
        // Nor does one runtime put an end to another one's call.
        let own = still.block_on(async { timeout(SECOND, join()).await });
        assert_eq!(own, Ok(Some(1)), "it is begun anew each time");
    }

    #[test]
    fn without_a_runtime_there_is_no_answer() {
        let shared = SharedCall::default();
        shared.begin(async || 1);
        let mut join = std::pin::pin!(shared.join(async || 1));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert_eq!(join.as_mut().poll(&mut cx), Poll::Ready(None));
    }
}
