//! Once per tick: the same schedule on every host, and one run of each tick over all of them.
//!
//! A *tick* is named by the time that it is scheduled for. Every host asks to run what is due, by whatever scheduler it has, and one does.
//! Clocks may differ: a host that comes later, however late, finds in the record that the tick has run.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use tenure::{Leases, once::Ticked};
//!
//! let leases = Leases::new(tenure::memory())?;
//! let hourly = || leases.once_every("reports/hourly", Duration::from_secs(3600));
//! let report = async |held: tenure::Held| {
//!     println!("writing the report with fence {}", held.fence());
//!     Ok::<_, std::io::Error>(())
//! };
//! assert!(matches!(hourly().run(report).await?, Ticked::Here(Ok(()))));
//! assert!(matches!(hourly().run(report).await?, Ticked::Elsewhere(run) if run.fence > tenure::Fence(0)));
//! # leases.stop().await; Ok(()) }
//! ```
//!
//! # What is promised
//! *At most once*, the default: over all hosts a tick's body begins once, or not at all, whatever clocks show, however long a process
//! stood still, and whoever dies. That it begins is written under the lease before it does. A host that dies in the middle takes the tick
//! with it. Only a store that forgets that write can have the tick begin again: one restored from a copy, or a standby that lags.
//!
//! *At least once* ([`OncePer::at_least_once`]): a tick whose host died, or was stopped in good order, before its body had ended is run again, by
//! whoever waits for it or asks for the same tick later. What has ended, well or not, is not run again. What a body returns after it
//! was told to end does not count as its end: it may have returned early.
//!
//! Clocks matter for one thing: a host whose clock is ahead begins ticks early. A tick that lies ahead of the own clock is refused. If the
//! record shows one that lies ahead of it by more than [a minute](OncePer::skew), nothing can run until then, and [`OnceError::Ahead`] says so.
//!
//! # What is kept
//! The key's record, `once/KEY`, keeps the last run: its tick, who ran it, when, and how it ended; and the four before in brief
//! ([`Leases::last_runs`]). `tenure gc` leaves it alone for [40 days](OncePer::keep) after the tick.
//!
//! # Cost
//! Who comes too late costs one read. A run costs three writes: the claim, that it begins, and the release with how it ended.

mod tick_guard;

use crate::body::{self, BodyLimits, Held, Left, WithoutCaller};
use crate::error::{AcquireError, BodyError, LeaseError};
use crate::guard::Guard;
use crate::leases::Leases;
use crate::lock::Lock;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tenure_core::once::{Delivery, Once, OnceAction, OnceEvent, Refusal};
use tenure_core::time::millis;
use tenure_core::{Fence, InvalidInput, Key, Metadata, Occupant, Record, StoreError, Stored, Wall, reserved};
use tenure_store::{Expect, Store, Write};

pub use tenure_core::once::{History, Run, RunState};
pub use tick_guard::TickGuard;

/// A tick of one key to be run, from [`Leases::once_per`].
#[derive(Debug, Clone)]
#[must_use = "nothing happens until it is run"]
pub struct OncePer {
    leases: Leases,
    key: String,
    tick: Wall,
    /// How far ticks are apart, if that was said. It is checked when it is run.
    period: Option<Duration>,
    delivery: Delivery,
    skew: Duration,
    keep: Duration,
    wait: Option<Duration>,
    ttl: Option<Duration>,
    limits: BodyLimits,
    metadata: Metadata,
}

/// What became of a tick.
#[derive(Debug)]
#[non_exhaustive]
pub enum Ticked<T> {
    /// It was run here, with this result.
    Here(T),
    /// It, or a later one, has run before: here is the last one that did. One that has begun and not ended may be running.
    Elsewhere(Run),
    /// Somebody holds the key now: it runs there, or an earlier tick still does.
    Busy(Option<Occupant>),
}

/// Why a tick could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<T> {
    /// The lease could not be had, or it could not be written that the tick begins: nothing was run here. If that was written after all, a tick
    /// that is to run at most once has run.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The record shows a tick that lies further ahead of this host's clock than clocks may differ: one of them is wrong, and nothing runs until
    /// then. `tenure show once/KEY` shows who wrote it. No verb removes it before that: wait, or delete the record by
    /// the store's own means.
    #[error("a tick ran that lies ahead of this host's clock, at {}; set the clocks, or wait", .0.tick)]
    Ahead(Run),
    /// The body had to be stopped, or panicked.
    #[error(transparent)]
    Body(BodyError<T>),
}

impl<T> From<StoreError> for OnceError<T> {
    fn from(error: StoreError) -> Self {
        OnceError::Acquire(error.into())
    }
}

impl<T> From<InvalidInput> for OnceError<T> {
    fn from(error: InvalidInput) -> Self {
        OnceError::Acquire(error.into())
    }
}

impl Leases {
    /// What is to be run for `key` at the tick that is scheduled for `tick`, which must not lie ahead of this host's clock: of a schedule,
    /// ask for the last one that is due. A key has one schedule, and ticks in whole milliseconds.
    pub fn once_per(&self, key: impl AsRef<str>, tick: Wall) -> OncePer {
        OncePer {
            leases: self.clone(),
            key: key.as_ref().to_owned(),
            tick,
            period: None,
            delivery: Delivery::default(),
            skew: Once::SKEW,
            keep: Once::KEEP,
            wait: None,
            ttl: None,
            limits: BodyLimits::default(),
            metadata: Metadata::new(),
        }
    }

    /// The same for ticks that are `period` apart, counted from 1970 in UTC: the last one that is due by this host's clock. A period that is
    /// no whole number of milliseconds, or none at all, is refused when it is to be run.
    pub fn once_every(&self, key: impl AsRef<str>, period: Duration) -> OncePer {
        let now = self.clock().now().wall.0;
        let tick = Wall(now - now % millis(period).max(1));
        OncePer { period: Some(period), ..self.once_per(key, tick) }
    }

    /// What ran for `key` last, as its record tells: one read.
    ///
    /// # Errors
    /// `Invalid` when the key can't be one, `Foreign` when the record can't be understood; otherwise the store's.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn last_runs(&self, key: impl AsRef<str>) -> Result<History, StoreError> {
        match self.inner.direct.read(&record_key(key.as_ref())?).await? {
            Some(stored) => History::of(&stored.record.metadata),
            None => Ok(History::default()),
        }
    }
}

/// Ticks are named in milliseconds.
fn check_period(period: Duration) -> Result<(), InvalidInput> {
    if period.is_zero() || !period.subsec_nanos().is_multiple_of(1_000_000) {
        return Err(InvalidInput::new(format!(
            "ticks can't be {period:?} apart; choose a whole number of milliseconds, from 1 on"
        )));
    }
    Ok(())
}

fn record_key(key: &str) -> Result<Key, InvalidInput> {
    if key.is_empty() {
        return Err(InvalidInput::new("what runs once per tick needs a name"));
    }
    Key::new(format!("{}{key}", reserved::ONCE))
}

impl OncePer {
    /// Runs the tick again if its host dies, or is stopped, before the body has ended: who asks waits for the key, however long another has it.
    pub fn at_least_once(mut self) -> Self {
        self.delivery = Delivery::AtLeastOnce;
        self
    }

    /// Waits for so long if somebody holds the key: an earlier tick that still runs. By default not at all, or for ever where it is to
    /// run at least once.
    pub fn wait(mut self, longest: Duration) -> Self {
        self.wait = Some(longest);
        self
    }

    /// How far the hosts' clocks may differ; a minute by default.
    pub fn skew(mut self, skew: Duration) -> Self {
        self.skew = skew;
        self
    }

    /// For how long after a tick some host may still come with it; 40 days by default. Its record is kept from gc until then, and later
    /// ones are refused.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// A ttl, and renewals, of its own, as [`Lock::ttl`](crate::Lock::ttl).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// These fields are written beside what ran, such as who runs it where, and stay until the next one that has them. `once` is not one of them:
    /// that is what ran.
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// How long the body may take to end once it is told to, as [`Lock::grace`](crate::Lock::grace).
    pub fn grace(mut self, grace: Duration) -> Self {
        self.limits.grace = Some(grace);
        self
    }

    /// How long the body may run, as [`Lock::at_most_for`](crate::Lock::at_most_for).
    pub fn at_most_for(mut self, longest: Duration) -> Self {
        self.limits.at_most = Some(longest);
        self
    }

    /// Runs `body` if the tick has not run, under the lease of its key; see [`crate::body`]. An error that it returns is kept in the record as
    /// the run's result.
    ///
    /// # Errors
    /// [`OnceError`] says which, and what has run. Bad input and ticks that are not due are told before any I/O.
    ///
    /// # Cancel safety
    /// When the future is dropped the body is told to stop and aborted after its grace period, in the background. The tick has run then, unless
    /// it is to run at least once.
    pub async fn run<T, E, F, Fut>(self, body: F) -> Result<Ticked<Result<T, E>>, OnceError<Result<T, E>>>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        let (mut begun, guard) = match self.begun(false).await? {
            BegunTick::Run(once, guard) => (once, guard),
            BegunTick::Elsewhere(run) => return Ok(Ticked::Elsewhere(run)),
            BegunTick::Ahead(run) => return Err(OnceError::Ahead(run)),
            BegunTick::Busy(by) => return Ok(Ticked::Busy(by)),
        };
        let (clock, delivery) = (Arc::clone(self.leases.clock()), self.delivery);
        let leave = move |left: Left<'_, Result<T, E>>| {
            let (is_well, says) = match left {
                Left::Returned(Ok(_)) => (true, String::new()),
                Left::Returned(Err(error)) => (false, text_of(error)),
                Left::Panicked => (false, "it panicked".to_owned()),
                // Somebody is to run it again.
                Left::Interrupted if delivery == Delivery::AtLeastOnce => return None,
                Left::Interrupted => (false, "it was interrupted".to_owned()),
            };
            released(begun.on(clock.now().wall, OnceEvent::Ended(is_well, says)))
        };
        let start = |held, under| body::spawn(|| body(held), under);
        match body::run_as(guard, self.limits, WithoutCaller::Aborted, start, leave).await {
            Ok(result) => Ok(Ticked::Here(result)),
            Err(error) => Err(OnceError::Body(error)),
        }
    }

    /// As [`run`](Self::run), for work that is no future: the tick is `Here` with a guard, when it is written that it begins. When its
    /// [longest time](Self::at_most_for) is over, the guard is lost; a [grace period](Self::grace) is a body's, and means nothing here.
    ///
    /// # Errors
    /// As [`run`](Self::run), but for those of a body.
    ///
    /// # Cancel safety
    /// When the future is dropped the tick may have begun, and the lease is released in the background.
    pub async fn begin(&self) -> Result<Ticked<TickGuard>, OnceError<()>> {
        let clock = Arc::clone(self.leases.clock());
        match self.begun(true).await? {
            BegunTick::Run(once, guard) => Ok(Ticked::Here(TickGuard { guard, once: Box::new(once), clock })),
            BegunTick::Elsewhere(run) => Ok(Ticked::Elsewhere(run)),
            BegunTick::Ahead(run) => Err(OnceError::Ahead(run)),
            BegunTick::Busy(by) => Ok(Ticked::Busy(by)),
        }
    }

    /// The request for its lease, checked before anything is asked: a lease that would tell each body to end at once would use the tick up. What is no
    /// body ends by the lease itself.
    fn lock(&self, key: &Key, ends_by_itself: bool) -> Result<Lock, AcquireError> {
        let mut lock = self.leases.lock(key.as_str());
        if let Some(ttl) = self.ttl {
            lock = lock.ttl(ttl);
        }
        if let Some(grace) = self.limits.grace {
            lock = lock.grace(grace);
        }
        if let Some(longest) = self.limits.at_most {
            lock = lock.at_most_for(longest);
        }
        let (limits, lock) = lock.checked()?;
        Ok(match limits.at_most.filter(|_| ends_by_itself) {
            Some(longest) => lock.at_most_for(longest),
            None => lock,
        })
    }

    /// The tick, if it is due, with the lease, when it is written that it begins.
    async fn begun(&self, ends_by_itself: bool) -> Result<BegunTick, AcquireError> {
        self.period.map_or(Ok(()), check_period)?;
        let clock = self.leases.clock();
        let holder = self.leases.holder().clone();
        let mut once = Once::new(self.tick, holder).delivery(self.delivery).skew(self.skew).keep(self.keep);
        once.check(clock.now().wall)?;
        let key = record_key(&self.key)?;
        let lock = self.lock(&key, ends_by_itself)?;
        let seen = self.record(&key).await?;
        // Who comes too late costs a read.
        if let Some(refusal) = once.refusal(clock.now().wall, &seen.record.metadata) {
            // One that has begun may still run, and then its end is waited for.
            return BegunTick::refused(refusal);
        }
        let lock = lock.keep_metadata(Some(seen));
        let acquired = match (self.wait, self.delivery) {
            // Who does not wait at all waits for the store's answer, as others do.
            (Some(Duration::ZERO), _) | (None, Delivery::AtMostOnce) => lock.try_acquire().await,
            (Some(wait), _) => lock.acquire_within(wait).await,
            (None, Delivery::AtLeastOnce) => lock.acquire().await,
        };
        let mut guard = match acquired {
            Err(AcquireError::Held(by)) => return Ok(BegunTick::Busy(by)),
            acquired => acquired?,
        };
        let mut fields = guard.metadata().clone();
        fields.extend(self.metadata.clone().into_iter().filter(|(name, _)| name != "once"));
        let held = OnceEvent::Held(guard.fence(), fields);
        let fields = match one(once.on(clock.now().wall, held)) {
            Some(OnceAction::Write(fields)) => fields,
            Some(OnceAction::Tell(refusal)) => {
                guard.release().await;
                return BegunTick::refused(refusal);
            }
            _ => return Err(AcquireError::Stopped),
        };
        let written = guard.update(fields).await;
        let event = match &written {
            Ok(()) => OnceEvent::Written { is_held: guard.is_held() },
            Err(_) => OnceEvent::NotWritten,
        };
        match one(once.on(clock.now().wall, event)) {
            Some(OnceAction::Run) => Ok(BegunTick::Run(once, guard)),
            _ => {
                guard.release().await;
                Err(match written {
                    Err(LeaseError::Store(error)) => error.into(),
                    _ => StoreError::unavailable("the lease was lost before the tick had begun").into(),
                })
            }
        }
    }

    /// The record of the key, which is made if it is not there: what ran is kept in it.
    async fn record(&self, key: &Key) -> Result<Stored, StoreError> {
        let inner = &self.leases.inner;
        if let Some(stored) = inner.direct.read(key).await? {
            return Ok(stored);
        }
        let stamp = inner.clock.now().wall;
        let (fence, nonce, metadata) = (Fence::floor(stamp), inner.nonce(), Metadata::new());
        let record = Record { fence, nonce, stamp, tenure: None, metadata };
        // Whoever else makes it does it as well.
        inner.direct.write(Write { key: key.clone(), expect: Expect::Absent, record }).await?;
        inner.direct.read(key).await?.ok_or_else(|| {
            StoreError::unavailable(format!("{key} was removed as soon as it was made; try again"))
        })
    }
}

enum BegunTick {
    Run(Once, Guard),
    Elsewhere(Run),
    Ahead(Run),
    Busy(Option<Occupant>),
}

impl BegunTick {
    fn refused(refusal: Refusal) -> Result<BegunTick, AcquireError> {
        match refusal {
            Refusal::Ran(run) => Ok(BegunTick::Elsewhere(run)),
            Refusal::Ahead(run) => Ok(BegunTick::Ahead(run)),
            Refusal::Damaged(error) => Err(error.into()),
            _ => Err(AcquireError::Stopped),
        }
    }
}

/// A tick whose error can't be told has ended all the same, and is not to run again for it.
fn text_of(error: &impl fmt::Display) -> String {
    let text = catch_unwind(AssertUnwindSafe(|| error.to_string()));
    text.unwrap_or_else(|_| "its error can't be told, as its text panicked".to_owned())
}

/// The one thing that is to be done, but for giving the lease up, which a guard does by itself.
fn one(actions: Vec<OnceAction>) -> Option<OnceAction> {
    actions.into_iter().rfind(|action| !matches!(action, OnceAction::Release(_)))
}

/// What is to be left in the record.
fn released(actions: Vec<OnceAction>) -> Option<Metadata> {
    actions.into_iter().find_map(|action| match action {
        OnceAction::Release(fields) => fields,
        _ => None,
    })
}
