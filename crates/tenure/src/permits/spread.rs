//! A semaphore whose permits are spread over several records, as one record takes one write at a time.

use super::Permits;
use crate::acquire_request::{AcquireRequest, LeaseTarget};
use crate::body::{BodyLimits, Held, LeaseSource, run_blocking_under, run_under};
use crate::clock;
use crate::error::{AcquireError, BodyError};
use crate::guard::Guard;
use crate::patience::{AcquireWait, LeaseAttempts, store_patience};
use crate::permit_share::PermitShare;
use crate::shared::end_of;
use std::time::Duration;
use tenure_core::semaphore::{Mode, SemaphoreFull, SemaphoreLedger};
use tenure_core::{InvalidInput, Tick};

/// How long one waits in the queue of one record before the others are tried again.
const TURN: Duration = Duration::from_secs(1);

/// A request for permits that are spread over several records, from [`Permits::spread`].
#[derive(Debug, Clone)]
#[must_use = "nothing happens until they are acquired"]
pub struct Spread {
    whole: Permits,
    records: u32,
}

impl Permits {
    /// The permits are divided among so many records, `semaphore/NAME/0` and so on: for more holders than one record has room for, or more
    /// acquires a second than it takes. All who use the name at a time must say the same number.
    ///
    /// There is no order among those who wait, and what is [taken](Permits::take) at once must be free in one record. A record that has no room for
    /// one more is passed over; that all are full is told. Only a [semaphore](crate::Leases::semaphore) can be spread.
    pub fn spread(self, records: u32) -> Spread {
        Spread { whole: self, records }
    }
}

impl Spread {
    /// As [`Permits::try_acquire`], in whichever record they are free: a write, or as many as there are records.
    ///
    /// # Errors
    /// As [`Permits::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`Permits::try_acquire`].
    pub async fn try_acquire(self) -> Result<Guard, AcquireError> {
        self.acquired(AcquireWait::Try).await
    }

    /// As [`Permits::acquire`], in no order. It waits in one record's queue at a time, for a second.
    ///
    /// # Errors
    /// As [`Permits::acquire`].
    ///
    /// # Cancel safety
    /// As [`Permits::acquire`].
    pub async fn acquire(self) -> Result<Guard, AcquireError> {
        self.acquired(AcquireWait::Forever).await
    }

    /// As [`Spread::acquire`], for at most `patience`.
    ///
    /// # Errors
    /// As [`Permits::acquire_within`].
    ///
    /// # Cancel safety
    /// As [`Permits::acquire`].
    pub async fn acquire_within(self, patience: Duration) -> Result<Guard, AcquireError> {
        self.acquired(AcquireWait::Within(patience)).await
    }

    /// Waits for the permits and runs `body` under them, as [`Permits::with_lease`] does.
    ///
    /// # Errors
    /// As [`Permits::with_lease`].
    ///
    /// # Cancel safety
    /// As [`Permits::with_lease`].
    pub async fn with_lease<T, F, Fut>(self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        run_under(self, AcquireWait::Forever, body).await
    }

    /// As [`Spread::with_lease`], if the permits are free in one of the records.
    ///
    /// # Errors
    /// As [`Permits::try_with_lease`].
    ///
    /// # Cancel safety
    /// As [`Spread::with_lease`].
    pub async fn try_with_lease<T, F, Fut>(self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        run_under(self, AcquireWait::Try, body).await
    }

    /// As [`Spread::with_lease`], waiting no longer than `patience`. The body has as long as it needs.
    ///
    /// # Errors
    /// As [`Permits::with_lease_within`].
    ///
    /// # Cancel safety
    /// As [`Spread::with_lease`].
    pub async fn with_lease_within<T, F, Fut>(self, patience: Duration, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        run_under(self, AcquireWait::Within(patience), body).await
    }

    /// As [`Spread::with_lease`], for a body that blocks; see [`Lock::with_lease_blocking`](crate::Lock::with_lease_blocking).
    ///
    /// # Errors
    /// As [`Spread::with_lease`].
    ///
    /// # Cancel safety
    /// As [`Lock::with_lease_blocking`](crate::Lock::with_lease_blocking).
    pub async fn with_lease_blocking<T, F>(self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> T + Send + 'static,
        T: Send + 'static,
    {
        run_blocking_under(self, AcquireWait::Forever, body).await
    }

    /// As [`Spread::with_lease_blocking`], if the permits are free in one of the records.
    ///
    /// # Errors
    /// As [`Spread::try_with_lease`].
    ///
    /// # Cancel safety
    /// As [`Spread::with_lease_blocking`].
    pub async fn try_with_lease_blocking<T, F>(self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> T + Send + 'static,
        T: Send + 'static,
    {
        run_blocking_under(self, AcquireWait::Try, body).await
    }

    /// As [`Spread::with_lease_blocking`], waiting no longer than `patience`.
    ///
    /// # Errors
    /// As [`Spread::with_lease_within`].
    ///
    /// # Cancel safety
    /// As [`Spread::with_lease_blocking`].
    pub async fn with_lease_blocking_within<T, F>(
        self,
        patience: Duration,
        body: F,
    ) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> T + Send + 'static,
        T: Send + 'static,
    {
        run_blocking_under(self, AcquireWait::Within(patience), body).await
    }

    /// What is asked of each record that has as many permits as are wanted at once.
    fn parts(&self) -> Result<Vec<AcquireRequest>, InvalidInput> {
        let (records, whole) = (self.records, &self.whole.request);
        let (name, share) = match &whole.target {
            LeaseTarget::Permits { name, share }
                if share.mode == Mode::Shared && share.permits != SemaphoreLedger::MOST_PERMITS =>
            {
                (name, share)
            }
            _ => {
                return Err(InvalidInput::new(
                    "only a semaphore can be spread: what is held shared or exclusively stands in one record",
                ));
            }
        };
        let permits = share.permits;
        if records == 0 || records > permits {
            return Err(InvalidInput::new(format!(
                "{permits} permits can't be spread over {records} records; choose from 1 to {permits}"
            )));
        }
        let of = |n| permits / records + u32::from(n < permits % records);
        let part = |n| {
            let share = PermitShare { permits: of(n), is_part: true, ..*share };
            let target = LeaseTarget::Permits { name: format!("{name}/{n}"), share };
            AcquireRequest { target, ..whole.clone() }
        };
        let parts: Vec<AcquireRequest> = (0..records).filter(|n| of(*n) >= share.take).map(part).collect();
        if parts.is_empty() {
            return Err(InvalidInput::new(format!(
                "no record has {} permits: each of {records} has {} at the most; take fewer at once, or spread over fewer records",
                share.take,
                of(0)
            )));
        }
        Ok(parts)
    }
}

impl LeaseSource for Spread {
    type Leases = Guard;

    fn checked(self) -> Result<(BodyLimits, Spread), AcquireError> {
        let (limits, request) = self.whole.request.checked()?;
        Ok((limits, Spread { whole: Permits { request }, ..self }))
    }

    async fn acquired(self, wait: AcquireWait) -> Result<Guard, AcquireError> {
        let parts = self.parts()?;
        // One wait, however many turns it takes.
        let waiting = parts[0].waits()?;
        let leases = &self.whole.request.leases;
        // As of what is attached to the session.
        let patience = store_patience(leases, leases.inner.session_ttl.duration());
        let mut attempts = LeaseAttempts::new(leases, wait, patience);
        let (mut turn, mut full_turns) = (clock::instance() as usize % parts.len(), 0);
        loop {
            let mut got = try_each(&parts, turn, &mut attempts).await;
            if matches!(got, Err(AcquireError::Held(_))) && !attempts.left().is_zero() {
                let queue = wait_in(parts[turn % parts.len()].clone(), wait, attempts.end());
                got = attempts.make(queue).await;
                full_turns = if is_full(&got) { full_turns + 1 } else { 0 };
                // Each has its turn before all are told to be full.
                if full_turns > 0 && full_turns < parts.len() {
                    got = Err(AcquireError::Held(None));
                }
            }
            match got {
                Ok(guard) => {
                    waiting.over(leases.clock().held());
                    return Ok(guard);
                }
                Err(error) => attempts.go_on_after(error).await?,
            }
            turn += 1;
        }
    }
}

/// Tries each record once, that one first. All are told to be full only where all are.
async fn try_each(
    parts: &[AcquireRequest],
    first: usize,
    attempts: &mut LeaseAttempts<'_>,
) -> Result<Guard, AcquireError> {
    let mut full = 0;
    for n in 0..parts.len() {
        let part = parts[(first + n) % parts.len()].clone();
        match attempts.make(part.acquired(AcquireWait::Try)).await {
            Err(AcquireError::Held(_)) => {}
            // The others may have room, and permits.
            got if is_full(&got) && full + 1 < parts.len() => full += 1,
            got => return got,
        }
    }
    Err(AcquireError::Held(None))
}

/// Waits in one record's queue, for a turn.
async fn wait_in(part: AcquireRequest, wait: AcquireWait, end: Tick) -> Result<Guard, AcquireError> {
    match wait {
        AcquireWait::Within(_) => {
            let turn = end_of(&*part.leases.inner.clock, TURN);
            part.acquire_until(turn.min(end)).await
        }
        AcquireWait::Try | AcquireWait::Forever => part.acquired(AcquireWait::Within(TURN)).await,
    }
}

/// Whether a record has no room for one more.
fn is_full(got: &Result<Guard, AcquireError>) -> bool {
    matches!(got, Err(AcquireError::Store(error)) if SemaphoreFull::is_why(error))
}
