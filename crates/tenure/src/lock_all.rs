//! Several keys at once, all or none.

mod with_lease;

use crate::body::{self, BodyLease, BodyLimits, Guarded};
use crate::cancelled::Cancelled;
use crate::clock;
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::leases::Leases;
use crate::lock::Lock;
use crate::patience::SharedPatience;
use crate::ttl::ttl_for;
use std::time::Duration;
use tenure_core::{Fence, InvalidInput, Key, Loss, Metadata, Occupant};
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

/// How long to leave a store in trouble alone.
const TROUBLE: Duration = Duration::from_millis(250);

/// How long to wait.
#[derive(Debug, Clone, Copy)]
enum LockAllWait {
    Try,
    Within(SharedPatience),
    Forever,
}

impl LockAllWait {
    fn left(self, leases: &Leases) -> Duration {
        match self {
            LockAllWait::Within(patience) => patience.end().since(leases.inner.clock.held()),
            LockAllWait::Try | LockAllWait::Forever => Duration::MAX,
        }
    }

    /// How long to wait for what is given back.
    fn left_to_give_back(self, leases: &Leases) -> Duration {
        if let LockAllWait::Within(patience) = self { patience.left(leases) } else { Duration::MAX }
    }

    /// Whether to try again after that. Only who waits for ever waits for trouble that may pass, too.
    fn goes_on_after(self, error: &AcquireError, leases: &Leases) -> bool {
        match (self, error) {
            (LockAllWait::Within(_), AcquireError::Held(_)) => !self.left(leases).is_zero(),
            (LockAllWait::Forever, AcquireError::Held(_)) => true,
            (LockAllWait::Forever, AcquireError::Store(error)) => error.is_passing(),
            _ => false,
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
        self.get(LockAllWait::Try).await
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
        self.get(LockAllWait::Forever).await
    }

    /// Takes all of them, waiting for at most `patience` altogether.
    ///
    /// # Errors
    /// As [`LockAll::try_acquire`]. `Held` also where the store answers, but too slowly for so many keys: with nobody if none was held.
    ///
    /// # Cancel safety
    /// As [`LockAll::try_acquire`].
    pub async fn acquire_within(self, patience: Duration) -> Result<Guards, AcquireError> {
        let patience = SharedPatience::new(&self.leases, patience);
        self.get(LockAllWait::Within(patience)).await
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
        self.lock(&names[0]).at_least_for(self.at_least).check_span()?;
        for name in &names {
            self.leases.inner.check_free(&Key::new(name)?)?;
        }
        Ok(names)
    }

    async fn get(self, wait: LockAllWait) -> Result<Guards, AcquireError> {
        let names = self.names()?;
        let (mut first, mut tries, mut by, mut answered) = (0, 0u32, None, false);
        // Where patience ends, whoever was in the way last is told.
        let told = |error: AcquireError, by: &Option<Occupant>| match error {
            AcquireError::Held(None) => AcquireError::Held(by.clone()),
            error => error,
        };
        loop {
            // Dropping what was had gives it back.
            let mut guards = Vec::with_capacity(names.len());
            guards.push(self.one(&names[first], wait, answered).await.map_err(|error| told(error, &by))?);
            answered = true;
            let mut missed = None;
            for (at, name) in names.iter().enumerate().filter(|(at, _)| *at != first) {
                match self.try_one(name, wait).await {
                    Ok(guard) => guards.push(guard),
                    Err(error) => {
                        missed = Some((at, error));
                        break;
                    }
                }
            }
            let Some((at, error)) = missed else {
                // Only now, as what is given back because another can't be had is free at once.
                if !self.at_least.is_zero() {
                    let free_at = self.leases.clock().held().after(self.at_least);
                    guards.iter_mut().for_each(|guard| guard.keep_until(free_at));
                }
                return Ok(Guards::new(guards));
            };
            if let AcquireError::Held(Some(occupant)) = &error {
                by = Some(occupant.clone());
            }
            // Whoever comes next finds it free. It goes on in the background where the store is away, or patience is over.
            let left = wait.left_to_give_back(&self.leases);
            let _known = tokio::time::timeout(left, body::give_up(give_back(guards))).await;
            if !wait.goes_on_after(&error, &self.leases) {
                return Err(told(error, &by));
            }
            // That one is waited for now, which bounds how long trouble with it may last.
            first = at;
            // Two that meet again and again must not go on in step.
            let most = 1u64 << tries.min(7);
            let pause = if let AcquireError::Store(_) = error { TROUBLE } else { Duration::ZERO };
            let pause = pause + Duration::from_millis(clock::instance() % most);
            tokio::time::sleep(pause.min(wait.left(&self.leases))).await;
            tries += 1;
        }
    }

    fn lock(&self, name: &str) -> Lock {
        let lock = self.leases.lock(name).metadata(self.metadata.clone());
        let lock = match self.ttl {
            _ if !self.at_least.is_zero() => {
                let ttl = self.ttl.unwrap_or(self.leases.inner.session_ttl.duration());
                lock.ttl(ttl_for(ttl, self.at_least))
            }
            Some(ttl) => lock.ttl(ttl),
            None => lock,
        };
        if let Some(longest) = self.limits.at_most { lock.at_most_for(longest) } else { lock }
    }

    /// The one that is waited for. `answered`: the store has answered something before.
    async fn one(&self, name: &str, wait: LockAllWait, answered: bool) -> Result<Guard, AcquireError> {
        let lock = self.lock(name);
        match wait {
            LockAllWait::Try => lock.try_acquire().await,
            LockAllWait::Within(patience) => {
                let attempt = lock.acquire_until(patience.end());
                patience.attempt(&self.leases, answered, attempt).await
            }
            LockAllWait::Forever => lock.acquire().await,
        }
    }

    /// One of those that come after it.
    async fn try_one(&self, name: &str, wait: LockAllWait) -> Result<Guard, AcquireError> {
        let attempt = self.lock(name).try_acquire();
        match wait {
            LockAllWait::Within(patience) => patience.attempt(&self.leases, true, attempt).await,
            LockAllWait::Try | LockAllWait::Forever => attempt.await,
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
    /// Dropping the future may release some in the background.
    pub async fn lapse(self) {
        self.leave_to_expire().await;
    }

    async fn leave_to_expire(&self) {
        self.gone.cancel();
        for guard in &self.guards {
            guard.leave_to_expire().await;
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
