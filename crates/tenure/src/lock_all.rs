//! Several keys at once, all or none.

mod with_lease;

use crate::acquire_request::{AcquireRequest, KeyRequest, LeaseTarget};
use crate::body::{self, BodyLease, BodyLimits, Guarded, LeaseSource};
use crate::cancelled::Cancelled;
use crate::clock;
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::leases::Leases;
use crate::patience::{AcquireWait, LeaseAttempts};
use crate::ttl::ttl_for;
use std::time::Duration;
use tenure_core::{Fence, InvalidInput, Key, Loss, Metadata, MetadataPolicy, Tick};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A request for several keys, from [`Leases::lock_all`].
#[derive(Debug, Clone)]
#[must_use = "nothing happens until they are acquired"]
pub struct LockAll {
    leases: Leases,
    keys: Vec<String>,
    ttl: Option<Duration>,
    limits: BodyLimits,
    at_least: Duration,
    metadata: Metadata,
}

impl Leases {
    /// A request for the leases on all of these keys, or none.
    ///
    /// They are tried for in the order of their names. Where one is held, those before it are given back, that one is waited for, and then the rest
    /// is tried for again: so nobody holds one while it waits for another, and no two requests can wait for each other. Each is a
    /// [lock](Leases::lock) of its own, and excludes whoever locks it alone.
    ///
    /// That takes a write for each. Keys that are mostly wanted together, such as accounts by their numbers, are parts of a
    /// [section](crate::range::Section) instead: [`all`](crate::range::RangeLock::all) takes any set of them by one write.
    pub fn lock_all<K: AsRef<str>>(&self, keys: impl IntoIterator<Item = K>) -> LockAll {
        let keys = keys.into_iter().map(|key| key.as_ref().to_owned()).collect();
        LockAll {
            leases: self.clone(),
            keys,
            ttl: None,
            limits: BodyLimits::default(),
            at_least: Duration::ZERO,
            metadata: Metadata::new(),
        }
    }
}

impl LockAll {
    /// As [`Lock::ttl`](crate::Lock::ttl), for each of them.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// As [`Lock::grace`](crate::Lock::grace).
    pub fn grace(mut self, grace: Duration) -> Self {
        self.limits.grace = Some(grace);
        self
    }

    /// As [`Lock::at_most_for`](crate::Lock::at_most_for), for all of them together.
    pub fn at_most_for(mut self, longest: Duration) -> Self {
        self.limits.at_most = Some(longest);
        self
    }

    /// As [`Lock::at_least_for`](crate::Lock::at_least_for), for each of them.
    pub fn at_least_for(mut self, least: Duration) -> Self {
        self.at_least = least;
        self
    }

    /// As [`Lock::metadata`](crate::Lock::metadata), for each of them.
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Takes all of them if nobody has any.
    ///
    /// # Errors
    /// [`AcquireError::Held`] with whoever has the first that is held; `Invalid` when no key is named, or one twice. Otherwise as
    /// [`Lock::try_acquire`](crate::Lock::try_acquire). Nothing is kept.
    ///
    /// # Cancel safety
    /// When the future is dropped, all that was had is given back in the background.
    pub async fn try_acquire(self) -> Result<Guards, AcquireError> {
        self.acquired(AcquireWait::Try).await
    }

    /// Takes all of them, waiting for as long as others have any.
    ///
    /// It goes on through trouble with the store as [`Lock::acquire`](crate::Lock::acquire) does, whichever key that befalls.
    ///
    /// # Errors
    /// As [`LockAll::try_acquire`], but for `Held`. With trouble that has lasted too long, the store's last error.
    ///
    /// # Cancel safety
    /// As [`LockAll::try_acquire`].
    pub async fn acquire(self) -> Result<Guards, AcquireError> {
        self.acquired(AcquireWait::Forever).await
    }

    /// Takes all of them, waiting for at most `patience` altogether.
    ///
    /// # Errors
    /// As [`LockAll::try_acquire`]. `Held` also where the store answers, but too slowly for so many keys: with nobody if none was held.
    ///
    /// # Cancel safety
    /// As [`LockAll::try_acquire`].
    pub async fn acquire_within(self, patience: Duration) -> Result<Guards, AcquireError> {
        self.acquired(AcquireWait::Within(patience)).await
    }

    fn names(&self) -> Result<Vec<String>, InvalidInput> {
        let mut names = self.keys.clone();
        names.sort_unstable();
        if names.is_empty() {
            return Err(InvalidInput::new("no key is named; name one, or more"));
        }
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(InvalidInput::new(format!("{} is named twice; name each key once", pair[0])));
        }
        self.for_body(&names[0]).check_span()?;
        for name in &names {
            self.leases.inner.check_free(&Key::new(name)?)?;
        }
        Ok(names)
    }

    /// Tries for all but that one. Which can't be had, and why, if one can't.
    async fn try_others(
        &self,
        names: &[String],
        first: usize,
        guards: &mut Vec<Guard>,
        attempts: &mut LeaseAttempts<'_>,
    ) -> Option<(usize, AcquireError)> {
        for (at, name) in names.iter().enumerate().filter(|(at, _)| *at != first) {
            match attempts.make(self.request(name).acquired(AcquireWait::Try)).await {
                Ok(guard) => guards.push(guard),
                Err(error) => return Some((at, error)),
            }
        }
        None
    }

    fn request(&self, name: &str) -> AcquireRequest {
        let ttl = if self.at_least.is_zero() {
            self.ttl
        } else {
            let ttl = self.ttl.unwrap_or(self.leases.inner.session_ttl.duration());
            Some(ttl_for(ttl, self.at_least))
        };
        let metadata_policy = MetadataPolicy::Replace(self.metadata.clone());
        let wanted = KeyRequest { key: name.to_owned(), ttl, metadata_policy };
        let limits = BodyLimits { grace: None, ..self.limits };
        AcquireRequest { limits, ..AcquireRequest::new(self.leases.clone(), LeaseTarget::Key(wanted)) }
    }

    /// The same with what all are to have together.
    fn for_body(&self, name: &str) -> AcquireRequest {
        AcquireRequest { limits: self.limits, at_least: self.at_least, ..self.request(name) }
    }

    /// The one that is waited for.
    async fn one(&self, name: &str, wait: AcquireWait, end: Tick) -> Result<Guard, AcquireError> {
        let request = self.request(name);
        match wait {
            AcquireWait::Within(_) => request.acquire_until(end).await,
            AcquireWait::Try | AcquireWait::Forever => request.acquired(wait).await,
        }
    }
}

impl LeaseSource for LockAll {
    type Leases = Guards;

    fn checked(mut self) -> Result<(BodyLimits, LockAll), AcquireError> {
        if let Some(name) = self.keys.first() {
            let _unasked = self.for_body(name).checked()?;
        }
        Ok((std::mem::take(&mut self.limits), self))
    }

    async fn acquired(self, wait: AcquireWait) -> Result<Guards, AcquireError> {
        let names = self.names()?;
        // What is waited for minds trouble with the store by itself, and how long that lasts.
        let mut attempts = LeaseAttempts::new(&self.leases, wait, Duration::MAX);
        let (mut first, mut tries) = (0, 0u32);
        loop {
            // Dropping what was had gives it back.
            let mut guards = Vec::with_capacity(names.len());
            let waited_for = self.one(&names[first], wait, attempts.end());
            let waited_for = attempts.make(waited_for).await;
            guards.push(waited_for.map_err(|error| attempts.told(error))?);
            let Some((at, error)) = self.try_others(&names, first, &mut guards, &mut attempts).await else {
                // Only now, as what is given back because another can't be had is free at once.
                if !self.at_least.is_zero() {
                    let free_at = self.leases.clock().held().after(self.at_least);
                    guards.iter_mut().for_each(|guard| guard.keep_until(free_at));
                }
                return Ok(Guards::new(guards));
            };
            // Whoever comes next finds it free. It goes on in the background where the store is away, or patience is over.
            let giving_back = body::give_up(give_back(guards));
            let _known = tokio::time::timeout(attempts.left_to_hear(), giving_back).await;
            attempts.go_on_after(error).await?;
            // That one is waited for now, which bounds how long trouble with it may last.
            first = at;
            // Two that meet again and again must not go on in step.
            let most = 1u64 << tries.min(7);
            let pause = Duration::from_millis(clock::instance() % most);
            tokio::time::sleep(pause.min(attempts.left())).await;
            tries += 1;
        }
    }
}

/// Whether all were held until then.
async fn give_back(guards: Vec<Guard>) -> bool {
    let mut all = true;
    for guard in guards {
        all &= guard.release().await;
    }
    all
}

/// Leases on several keys that are held together: all of them, until they are released or dropped, or any is lost.
///
/// Dropping it releases all in the background.
#[must_use = "dropping guards gives their leases up"]
#[derive(Debug)]
pub struct Guards {
    guards: Vec<Guard>,
    /// Cancelled when any is lost or withdrawn, or they are given up.
    gone: CancellationToken,
    _told: DropGuard,
    /// Stops waiting for that.
    _watch: DropGuard,
}

impl Guards {
    fn new(mut guards: Vec<Guard>) -> Guards {
        guards.sort_by(|one, other| one.key().cmp(other.key()));
        let (gone, over) = (CancellationToken::new(), CancellationToken::new());
        for guard in &guards {
            let (any, over) = (guard.cell().token(), over.clone());
            // Should the driver's runtime end, nobody would tell of the end: then it is told at once.
            let told = gone.clone().drop_guard();
            guard.leases().inner.beside(async move {
                let _told = told;
                tokio::select! {
                    () = any.cancelled() => {}
                    () = over.cancelled() => {}
                }
            });
        }
        Guards { guards, _told: gone.clone().drop_guard(), gone, _watch: over.drop_guard() }
    }

    /// The guard of each key, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Guard> {
        self.guards.iter()
    }

    /// The fence of each key, in the order of their names.
    pub fn fences(&self) -> impl Iterator<Item = (&Key, Fence)> {
        self.guards.iter().map(|guard| (guard.key(), guard.fence()))
    }

    /// Whether all are held at this instant. No I/O, and never blocks.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guards.iter().all(Guard::is_held)
    }

    /// How long all are held if no renewal succeeds from now on; zero when any is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    /// Waits until any of them is lost, and says which and why: from then on the others are of no use.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn lost(&self) -> (&Key, Loss) {
        let lost = self.guards.iter().map(|guard| Box::pin(async move { (guard.key(), guard.lost().await) }));
        futures_util::future::select_all(lost).await.0
    }

    /// Told when any of them is lost, or its holder is told to stop; and when they are given up.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled::by(&self.gone, &self.first().leases().inner.process)
    }

    /// Whether any of them was withdrawn.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.guards.iter().any(Guard::is_revoked)
    }

    /// Gives all up, and waits until the next holders can have them. False: one was lost already.
    ///
    /// # Cancel safety
    /// Dropping the future releases the rest in the background.
    pub async fn release(self) -> bool {
        self.give_up().await
    }

    async fn give_up(&self) -> bool {
        // First: from the first that is given up on, not all are held.
        self.gone.cancel();
        let mut all = true;
        for guard in &self.guards {
            all &= guard.give_up(None).await;
        }
        all
    }

    /// As [`Guard::lapse`], for all.
    ///
    /// # Cancel safety
    /// As that of [`Guard::lapse`].
    pub fn lapse(self) -> impl Future<Output = ()> + Send {
        let left = self.leave_to_expire();
        async move {
            // As of one guard.
            let _guards = self;
            left.await;
        }
    }

    fn leave_to_expire(&self) -> impl Future<Output = ()> + Send + use<> {
        self.gone.cancel();
        // Of all, before the first is waited for.
        let left: Vec<_> = self.guards.iter().map(Guard::leave_to_expire).collect();
        async move {
            for one in left {
                one.await;
            }
        }
    }

    fn first(&self) -> &Guard {
        // There is one at the least: nothing else makes one.
        &self.guards[0]
    }

    fn reason(&self) -> Loss {
        let told = self.guards.iter().find_map(|guard| guard.cell().loss());
        let withdrawn = || self.is_revoked().then_some(Loss::Revoked);
        let first = || self.guards.iter().min_by_key(|guard| guard.deadline()).map(Guard::why_over);
        told.or_else(withdrawn).or_else(first).unwrap_or(Loss::Expired)
    }
}

impl BodyLease for Guards {
    fn until_deadline(&self) -> Duration {
        self.guards.iter().map(BodyLease::until_deadline).min().unwrap_or_default()
    }
    fn gone(&self) -> CancellationToken {
        self.gone.clone()
    }
    fn why(&self) -> Loss {
        self.reason()
    }
    fn reserve(&self) -> Duration {
        self.first().ttl().part(50)
    }
}

impl Guarded for Guards {
    fn guards(&self) -> &[Guard] {
        &self.guards
    }
    fn guards_mut(&mut self) -> &mut [Guard] {
        &mut self.guards
    }
    /// There is no metadata of several.
    fn give_up(&self, _: Option<Metadata>) -> impl Future<Output = bool> + Send {
        Guards::give_up(self)
    }
    fn leave_to_expire(&self) -> impl Future<Output = ()> + Send {
        Guards::leave_to_expire(self)
    }
}
