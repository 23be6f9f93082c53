//! What it says about a connection that callers go away without an answer.
//!
//! A caller who is dropped at once (`select!`, a probe with a short timeout) says nothing. One who has waited for long says that nothing comes. In
//! between, one alone may have been impatient. Two since the last answer were not: a lease with a short ttl gives each call up so soon, and would
//! never learn otherwise that its connection is dead.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A caller who goes away sooner says nothing.
const MOMENT: Duration = Duration::from_millis(10);

/// How long a call has waited, as far as that says something about its connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wait {
    /// Less than a moment.
    #[default]
    AtOnce,
    /// For a moment: 10 ms, or what is long where that is less.
    ForAMoment,
    /// For long, as the store sees it.
    ForLong,
}

impl Wait {
    /// Waits for an answer, notes for how long, and tells when that is long. Needs a tokio runtime with timers. Dropped before the answer, it shows
    /// how long that was.
    pub async fn noting<T>(
        &mut self,
        long: Duration,
        tell_long: impl FnOnce(),
        answer: impl Future<Output = T>,
    ) -> T {
        *self = Wait::AtOnce;
        let mut answer = pin!(answer);
        let moment = MOMENT.min(long);
        if let Ok(answer) = tokio::time::timeout(moment, &mut answer).await {
            return answer;
        }
        *self = Wait::ForAMoment;
        if let Ok(answer) = tokio::time::timeout(long - moment, &mut answer).await {
            return answer;
        }
        *self = Wait::ForLong;
        tell_long();
        answer.await
    }
}

/// Whether a connection is silent: whether a caller has gone away from it since its last answer.
#[derive(Debug, Default)]
pub struct Silence(AtomicBool);

impl Silence {
    /// A caller goes away without an answer. True if the next call had better go elsewhere.
    pub fn caller_left(&self, wait: Wait) -> bool {
        match wait {
            Wait::AtOnce => false,
            Wait::ForAMoment => self.0.swap(true, Ordering::SeqCst),
            Wait::ForLong => true,
        }
    }

    /// An answer has come.
    pub fn answered(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    //! Plan: each wait, with an answer and without; one caller who waited for a moment, and two, with an answer between or none.
    use super::*;
    use std::future::{pending, ready};

    const LONG: Duration = Duration::from_millis(100);

    async fn left_after(span: Duration, long: Duration) -> (Wait, bool) {
        let (mut wait, mut is_told) = (Wait::ForLong, false);
        let call = wait.noting(long, || is_told = true, pending::<()>());
        assert!(tokio::time::timeout(span, call).await.is_err());
        (wait, is_told)
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_noted_when_its_caller_goes_away() {
        let after = |millis| left_after(Duration::from_millis(millis), LONG);
        assert_eq!(after(5).await, (Wait::AtOnce, false));
        assert_eq!(after(50).await, (Wait::ForAMoment, false));
        assert_eq!(after(150).await, (Wait::ForLong, true));
        let short = Duration::from_millis(4);
        assert_eq!(left_after(Duration::from_millis(6), short).await, (Wait::ForLong, true));
        assert_eq!(Wait::default().noting(LONG, || (), ready(7)).await, 7);
        let late = async {
            tokio::time::sleep(LONG * 2).await;
            8
        };
        assert_eq!(Wait::default().noting(LONG, || (), late).await, 8);
    }

    #[test]
    fn two_who_waited_for_a_moment_without_an_answer_between_are_enough() {
        let silence = Silence::default();
        assert!((0..9).all(|_| !silence.caller_left(Wait::AtOnce)));
        assert!(!silence.caller_left(Wait::ForAMoment));
        silence.answered();
        assert!(!silence.caller_left(Wait::ForAMoment));
        assert!(!silence.caller_left(Wait::AtOnce), "this one says nothing");
        assert!(silence.caller_left(Wait::ForAMoment));
        silence.answered();
        assert!(silence.caller_left(Wait::ForLong), "one is enough");
    }
}
