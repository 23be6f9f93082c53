//! How long one waits for a lease at the most, and what is told then.

use crate::error::AcquireError;
use crate::leases::Leases;
use crate::shared::end_of;
use std::time::Duration;
use tenure_core::{Occupant, StoreError, Tick};

/// What is acquired for at most some time is waited for a moment longer: an answer may be on its way.
pub(crate) const LAST_CALL: Duration = Duration::from_millis(100);

/// What is acquired for at most `patience`.
pub(crate) async fn within<T>(
    patience: Duration,
    acquired: impl Future<Output = Result<T, AcquireError>>,
) -> Result<T, AcquireError> {
    match tokio::time::timeout(patience.saturating_add(LAST_CALL), acquired).await {
        Ok(result) => result,
        Err(_) => Err(unanswered(patience)),
    }
}

/// What is told where patience has ended and nothing was heard of the store.
pub(crate) fn unanswered(patience: Duration) -> AcquireError {
    StoreError::unavailable(format!("the store has not answered within {patience:?}")).into()
}

/// How long who waits for ever waits while the store can't be asked. Unless told otherwise, that is as long as a server may take to start, and six of these ttls at least.
pub(crate) fn store_patience(leases: &Leases, ttl: Duration) -> Duration {
    const LEAST: Duration = Duration::from_secs(60);
    leases.inner.store_patience.unwrap_or(LEAST.max(ttl.saturating_mul(6)))
}

/// How long somebody waits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AcquireWait {
    Try,
    Within(Duration),
    Forever,
}

/// Attempts at what stands in several records, one after the other, which share a patience.
pub(crate) struct LeaseAttempts<'a> {
    leases: &'a Leases,
    wait: AcquireWait,
    /// Of who does not wait for ever.
    end: Tick,
    /// For how long trouble with the store may last.
    store_patience: Duration,
    /// One has come to its end.
    is_answered: bool,
    /// Who was in the way last.
    by: Option<Occupant>,
    trouble_since: Option<Tick>,
}

impl<'a> LeaseAttempts<'a> {
    pub(crate) fn new(leases: &'a Leases, wait: AcquireWait, store_patience: Duration) -> LeaseAttempts<'a> {
        let patience = if let AcquireWait::Within(patience) = wait { patience } else { Duration::ZERO };
        let end = end_of(&*leases.inner.clock, patience);
        LeaseAttempts { leases, wait, end, store_patience, is_answered: false, by: None, trouble_since: None }
    }

    /// When it ends, for who does not wait for ever.
    pub(crate) fn end(&self) -> Tick {
        self.end
    }

    /// How long it is waited for what is held.
    pub(crate) fn left(&self) -> Duration {
        match self.wait {
            AcquireWait::Try | AcquireWait::Within(_) => self.end.since(self.leases.inner.clock.held()),
            AcquireWait::Forever => Duration::MAX,
        }
    }

    /// How long it is waited for an answer.
    pub(crate) fn left_to_hear(&self) -> Duration {
        match self.wait {
            AcquireWait::Within(_) => self.end.after(LAST_CALL).since(self.leases.inner.clock.held()),
            AcquireWait::Try | AcquireWait::Forever => Duration::MAX,
        }
    }

    /// What comes of one.
    pub(crate) async fn make<T>(
        &mut self,
        attempt: impl Future<Output = Result<T, AcquireError>>,
    ) -> Result<T, AcquireError> {
        let result = self.in_time(attempt).await;
        self.is_answered = true;
        match &result {
            Ok(_) => self.trouble_since = None,
            Err(AcquireError::Held(Some(by))) => self.by = Some(by.clone()),
            Err(_) => {}
        }
        result
    }

    /// Where patience ends and an earlier one was answered, it is held, by nobody known: an attempt that was cut short says nothing of the store.
    async fn in_time<T>(
        &self,
        attempt: impl Future<Output = Result<T, AcquireError>>,
    ) -> Result<T, AcquireError> {
        /// A store that does not answer for so long is away.
        const SILENCE: Duration = Duration::from_secs(1);
        let AcquireWait::Within(patience) = self.wait else { return attempt.await };
        let left = self.left_to_hear();
        if left.is_zero() && self.is_answered {
            return Err(AcquireError::Held(None));
        }
        match tokio::time::timeout(left, attempt).await {
            Ok(result) => result,
            Err(_) if self.is_answered && left < SILENCE => Err(AcquireError::Held(None)),
            Err(_) => Err(unanswered(patience)),
        }
    }

    /// Returns once there is to be another attempt, after one that failed so: at once where it was held, and after a pause where the store is in trouble. Else
    /// the error is what is told.
    pub(crate) async fn go_on_after(&mut self, error: AcquireError) -> Result<(), AcquireError> {
        /// How long to leave a store in trouble alone.
        const TROUBLE: Duration = Duration::from_millis(250);
        match (self.wait, &error) {
            (_, AcquireError::Held(_)) if !self.left().is_zero() => self.trouble_since = None,
            // Only who waits for ever waits for trouble that may pass, too.
            (AcquireWait::Forever, AcquireError::Store(trouble)) if trouble.is_passing() => {
                let now = self.leases.inner.clock.held();
                if now.since(*self.trouble_since.get_or_insert(now)) >= self.store_patience {
                    return Err(error);
                }
                tokio::time::sleep(TROUBLE).await;
            }
            _ => return Err(self.told(error)),
        }
        Ok(())
    }

    /// What is told of an error: where nobody knows who is in the way, whoever was last.
    pub(crate) fn told(&self, error: AcquireError) -> AcquireError {
        match error {
            AcquireError::Held(None) => AcquireError::Held(self.by.clone()),
            error => error,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: who tries is told at once. Who waits for some time goes on until then, and waits for no trouble. Who waits for ever goes on through trouble
    //! for as long as the store may be away. Who was in the way last is told, by whichever attempt that is known.
    use super::*;
    use crate::testing::PausedClock;
    use tenure_core::{Fence, HolderId, Wall};

    fn trouble() -> AcquireError {
        StoreError::unavailable("on purpose").into()
    }

    fn occupant() -> Occupant {
        Occupant::new(HolderId::new("b").unwrap(), Fence(7), Wall(0))
    }

    fn leases() -> Leases {
        Leases::builder(crate::memory()).clock(PausedClock::start()).start().unwrap()
    }

    /// What comes of an attempt that ends so.
    async fn after(attempts: &mut LeaseAttempts<'_>, error: AcquireError) -> Result<(), AcquireError> {
        let made = attempts.make(std::future::ready(Err::<(), _>(error))).await;
        attempts.go_on_after(made.unwrap_err()).await
    }

    #[tokio::test(start_paused = true)]
    async fn who_tries_is_told_at_once_and_who_was_in_the_way() {
        let leases = leases();
        let mut attempts = LeaseAttempts::new(&leases, AcquireWait::Try, Duration::MAX);
        assert_eq!(after(&mut attempts, trouble()).await, Err(trouble()));
        let held = AcquireError::Held(Some(occupant()));
        assert_eq!(attempts.make(std::future::ready(Err::<(), _>(held.clone()))).await, Err(held.clone()));
        assert_eq!(after(&mut attempts, AcquireError::Held(None)).await, Err(held));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_some_time_waits_until_then_and_for_no_trouble() {
        let leases = leases();
        let wait = AcquireWait::Within(Duration::from_secs(5));
        let mut attempts = LeaseAttempts::new(&leases, wait, Duration::MAX);
        assert_eq!(after(&mut attempts, AcquireError::Held(None)).await, Ok(()));
        assert_eq!(after(&mut attempts, trouble()).await, Err(trouble()));
        let silent = attempts.make(std::future::pending::<Result<(), _>>()).await;
        assert_eq!(silent, Err(unanswered(Duration::from_secs(5))));
        assert_eq!(after(&mut attempts, AcquireError::Held(None)).await, Err(AcquireError::Held(None)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_ever_goes_on_for_as_long_as_the_store_may_be_away() {
        let leases = leases();
        let minute = store_patience(&leases, Duration::from_secs(1));
        assert_eq!((minute, store_patience(&leases, minute)), (Duration::from_secs(60), minute * 6));
        let mut attempts = LeaseAttempts::new(&leases, AcquireWait::Forever, minute);
        for ends in [Ok(()), Err(AcquireError::Held(None))] {
            for _ in 0..200 {
                assert_eq!(after(&mut attempts, trouble()).await, Ok(()));
            }
            // Trouble that is over does not count any more.
            let made = attempts.make(std::future::ready(ends)).await;
            if let Err(held) = made {
                assert_eq!(attempts.go_on_after(held).await, Ok(()));
            }
        }
        let mut last = Ok(());
        for _ in 0..=240 {
            last = after(&mut attempts, trouble()).await;
        }
        assert_eq!(last, Err(trouble()));
    }
}
