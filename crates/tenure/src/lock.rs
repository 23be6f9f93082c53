//! Asking for one key.

mod with_lease;

use crate::body::BodyLimits;
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::leases::Leases;
use crate::meters::{self, WaitMeter};
use crate::patience::{store_patience, within};
use crate::pending_claim::PendingClaim;
use crate::permit_share::PermitShare;
use crate::prefixes::LeaseKind;
use crate::shared::end_of;
use crate::ttl::{check_drift, checked_ttl, ttl_for};
use crate::users::CommandReply;
use std::time::Duration;
use tenure_core::semaphore::{self, Wish};
use tenure_core::{
    Command, InvalidInput, KeepAlive, Key, LeaseId, Metadata, MetadataPolicy, Stored, Tick, Ttl, WaitPolicy,
    Want, reserved,
};

/// A request for one key, from [`Leases::lock`].
#[derive(Debug, Clone)]
#[must_use = "nothing happens until it is acquired"]
pub struct Lock {
    leases: Leases,
    key: String,
    ttl: Option<Duration>,
    metadata_policy: MetadataPolicy,
    grace: Option<Duration>,
    at_most: Option<Duration>,
    at_least: Duration,
    /// Of a semaphore: what is wanted of it.
    pub(crate) share: Option<PermitShare>,
}

impl Leases {
    /// A request for the lease on `key`: say how, then acquire it.
    ///
    /// Locks are not reentrant: who asks for a key that this very process holds waits for it as for anybody else's
    /// ([`Leases::held`] lists those).
    ///
    /// The key is checked when it is acquired: those that begin with `session/`, `section/`, `semaphore/`, `fleet/`, `work/` and `once/` are kept
    /// for tenure's own records.
    pub fn lock(&self, key: impl AsRef<str>) -> Lock {
        Lock::new(self.clone(), key.as_ref())
    }

    /// The lease on `key`, if nobody has it. Short for `lock(key).try_acquire()`.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::try_acquire`].
    pub async fn try_acquire(&self, key: impl AsRef<str>) -> Result<Guard, AcquireError> {
        self.lock(key).try_acquire().await
    }

    /// The lease on `key`, waiting for it. Short for `lock(key).acquire()`.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn acquire(&self, key: impl AsRef<str>) -> Result<Guard, AcquireError> {
        self.lock(key).acquire().await
    }

    /// The lease on `key`, waiting for it no longer than `patience`. Short for `lock(key).acquire_within(patience)`.
    ///
    /// # Errors
    /// As [`Lock::acquire_within`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire_within`].
    pub async fn acquire_within(
        &self,
        key: impl AsRef<str>,
        patience: Duration,
    ) -> Result<Guard, AcquireError> {
        self.lock(key).acquire_within(patience).await
    }
}

impl Lock {
    pub(crate) fn new(leases: Leases, key: &str) -> Lock {
        let metadata_policy = MetadataPolicy::Replace(Metadata::new());
        let (key, at_least) = (key.to_owned(), Duration::ZERO);
        Lock { leases, key, ttl: None, metadata_policy, grace: None, at_most: None, at_least, share: None }
    }

    /// Gives the lease a ttl and renewals of its own. Without, it is attached to the process's session, which costs nothing to
    /// hold.
    ///
    /// A process that holds a single lease does with one record where a session would make two.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Writes this metadata with the claim. Whatever a former holder left there is replaced.
    #[doc(alias("labels", "about"))]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata_policy = MetadataPolicy::Replace(metadata);
        self
    }

    /// Keeps the metadata that the record carries; the record must exist. Only so can a unit of a job (`work/…`), or
    /// what runs once per tick (`once/…`), be locked. What was `seen` of it last saves a round trip if it is still so.
    pub fn keep_metadata(mut self, seen: Option<Stored>) -> Self {
        self.metadata_policy = MetadataPolicy::Keep(seen.map(Box::new));
        self
    }

    /// How long a body that [`Lock::with_lease`] runs may take to end once it is told to: an eighth of the ttl by default, and
    /// less than what is left of the lease before each renewal: 0.46 of the ttl, usually.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// The longest that it may be held; for ever by default. A body that runs for longer is told to end, as on a loss: it has its grace
    /// period, and is aborted then. A [`Guard`] is lost by then, and its key is free a ttl later, as whoever has the guard may act still.
    /// The reason is [`Loss::Overran`](crate::Loss::Overran), and [an event](crate#what-is-logged) names the key.
    pub fn at_most_for(mut self, longest: Duration) -> Self {
        self.at_most = Some(longest);
        self
    }

    /// The least time that it is held, from when it was taken: also when it is given up sooner, or this process ends or dies. Not at all by
    /// default. For work that is shorter than clocks differ: whoever comes a moment later finds it taken.
    ///
    /// Such a lease renews itself, with a ttl that is no shorter than this time, a day at the most. If the process ends meanwhile, the
    /// lease is over when that ttl has passed since the last renewal.
    pub fn at_least_for(mut self, least: Duration) -> Self {
        self.at_least = least;
        self
    }

    /// Takes the lease if nobody has it.
    ///
    /// A holder that died counts as one until its ttl is over. Trying again and again takes the key in the end: what is
    /// seen at each try counts.
    ///
    /// # Errors
    /// [`AcquireError::Held`] when another has it; [`AcquireError::Store`] when the store can't be reached, doesn't
    /// understand the record, or the input is bad.
    ///
    /// # Cancel safety
    /// When the future is dropped, a claim that is under way is followed up and given back in the background.
    pub async fn try_acquire(self) -> Result<Guard, AcquireError> {
        self.get(WaitPolicy::Try).await
    }

    /// Takes the lease, waiting for as long as another has it.
    ///
    /// It goes on through trouble with the store that may pass, but not for ever: see
    /// [`LeasesBuilder::store_patience`](crate::LeasesBuilder::store_patience). Meanwhile [`Leases::trouble`] and
    /// [events](crate#what-is-logged) tell of it.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`], but for `Held`. With trouble that has lasted too long, the store's last error.
    ///
    /// # Cancel safety
    /// As [`Lock::try_acquire`].
    pub async fn acquire(self) -> Result<Guard, AcquireError> {
        let leases = self.leases.clone();
        let inner = &leases.inner;
        // That of the record which calls are about.
        let key =
            if self.share.is_some() { semaphore::key(&self.key)?.to_string() } else { self.key.clone() };
        let own_ttl = self.asked_ttl();
        let ttl = own_ttl.unwrap_or(inner.session_ttl.duration());
        let patience = store_patience(&leases, ttl);
        let session = if own_ttl.is_some() { &key } else { inner.session_key.as_str() };
        tokio::select! {
            biased;
            acquired = self.get(WaitPolicy::Forever) => acquired,
            error = inner.troubles.outlast([&key, session], patience) => Err(error.into()),
        }
    }

    /// Takes the lease, waiting for at most `patience`.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::try_acquire`].
    pub async fn acquire_within(self, patience: Duration) -> Result<Guard, AcquireError> {
        let end = end_of(&*self.leases.inner.clock, patience);
        within(patience, self.acquire_until(end)).await
    }

    /// The same until `end`, for whoever does not wait for ever for the store's answer.
    pub(crate) async fn acquire_until(self, end: Tick) -> Result<Guard, AcquireError> {
        self.get(WaitPolicy::Until(end)).await
    }

    /// The limits of a body and its ttl, checked before anything is asked, and the request.
    pub(crate) fn checked(mut self) -> Result<(BodyLimits, Lock), AcquireError> {
        self.check_span()?;
        if let Some(ttl) = self.asked_ttl().filter(|_| self.share.is_none()) {
            self.own_ttl(ttl)?;
        }
        let limits = BodyLimits { grace: self.grace.take(), at_most: self.at_most.take() };
        limits.grace.map_or(Ok(()), |grace| self.check_grace(grace))?;
        Ok((limits, self))
    }

    pub(crate) fn check_span(&self) -> Result<(), InvalidInput> {
        match self.at_most {
            Some(most) if most.is_zero() => {
                Err(InvalidInput::new("a lease that may be held for no time at all is of no use; allow some"))
            }
            Some(most) if most < self.at_least => Err(InvalidInput::new(format!(
                "a lease can't be held for {:?} at least and {most:?} at most; choose a longest time that is no shorter",
                self.at_least
            ))),
            _ => Ok(()),
        }
    }

    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// A part of a semaphore that is spread: so many of its permits, in a record of their own.
    pub(crate) fn part(&self, n: u32, permits: u32) -> Lock {
        let share = self.share.map(|share| PermitShare { permits, is_part: true, ..share });
        Lock { key: format!("{}/{n}", self.key), share, ..self.clone() }
    }

    /// The ttl of its own, if it has one: what is to be held for some time must last for it by itself. Permits have their session's.
    fn asked_ttl(&self) -> Option<Duration> {
        if self.at_least.is_zero() || self.share.is_some() {
            return self.ttl;
        }
        let ttl = self.ttl.unwrap_or(self.leases.inner.session_ttl.duration());
        Some(ttl_for(ttl, self.at_least))
    }

    fn own_ttl(&self, ttl: Duration) -> Result<Ttl, InvalidInput> {
        let inner = &self.leases.inner;
        let ttl = checked_ttl(&inner.store, ttl)?;
        check_drift(inner.drift, ttl, inner.renew_every)?;
        Ok(ttl)
    }

    /// A grace period that is as long as what is mostly left of the lease would end every body at once.
    fn check_grace(&self, grace: Duration) -> Result<(), InvalidInput> {
        let inner = &self.leases.inner;
        let ttl = self.asked_ttl().map_or(Ok(inner.session_ttl), |ttl| self.own_ttl(ttl))?;
        let renewal = inner.renew_every.min(ttl.part(3));
        let most = inner.drift.belief(ttl).saturating_sub(renewal + ttl.part(50));
        if grace >= most {
            return Err(InvalidInput::new(format!(
                "a grace period of {grace:?} with a ttl of {ttl}: no more than {most:?} is left before each renewal, so every \
                 body would be told to end; choose a shorter one, or a longer ttl"
            )));
        }
        Ok(())
    }

    async fn get(self, wait_policy: WaitPolicy) -> Result<Guard, AcquireError> {
        let inner = &self.leases.inner;
        self.check_span()?;
        if let Some(share) = self.share {
            let key = semaphore::key(&self.key)?;
            let PermitShare { permits, take, mode, barges, .. } = share;
            let wish = Wish { key: key.clone(), permits, take, mode, barges, wait_policy };
            wish.check()?;
            let ttl = inner.session_ttl;
            return self.ask(key, ttl, true, |id| Command::Permits(id, Box::new(wish))).await;
        }
        let key = Key::new(&self.key)?;
        // Who keeps the metadata of a job's unit, or of what ran at ticks, does it no harm.
        let keeps_metadata = matches!(self.metadata_policy, MetadataPolicy::Keep(_))
            && [reserved::WORK, reserved::ONCE].iter().any(|room| key.as_str().starts_with(room));
        if !keeps_metadata {
            inner.check_free(&key)?;
        }
        let (keep_alive, is_attached) = match self.asked_ttl() {
            Some(ttl) => (KeepAlive::Own(self.own_ttl(ttl)?), false),
            None => (KeepAlive::Session, true),
        };
        if let MetadataPolicy::Replace(metadata) = &self.metadata_policy {
            tenure_store::codec::check_metadata(metadata)?;
        }
        let ttl = if let KeepAlive::Own(ttl) = keep_alive { ttl } else { inner.session_ttl };
        let metadata_policy = self.metadata_policy.clone();
        let want = Want { key: key.clone(), keep_alive, metadata_policy, wait_policy };
        self.ask(key, ttl, is_attached, |id| Command::Acquire(id, want)).await
    }

    /// From now on one more waits for it.
    fn waits(&self, key: &Key) -> WaitMeter {
        let inner = &self.leases.inner;
        let (kind, permits) =
            self.share.map_or((LeaseKind::Lock, 0), |share| (LeaseKind::Permit, share.weight()));
        WaitMeter::for_lease(inner.prefixes.of_key(key, kind), permits, inner.clock.held())
    }

    /// The same for who waits for any part of a semaphore that is spread, by the key of one of them.
    pub(crate) fn waits_for_any(&self) -> Result<WaitMeter, InvalidInput> {
        Ok(self.waits(&semaphore::key(&self.key)?))
    }

    /// Asks the machine for it, and waits for the answer.
    async fn ask(
        self,
        key: Key,
        ttl: Ttl,
        is_attached: bool,
        command: impl FnOnce(LeaseId) -> Command,
    ) -> Result<Guard, AcquireError> {
        let inner = &self.leases.inner;
        let kind = if self.share.is_some() { LeaseKind::Permit } else { LeaseKind::Lock };
        let id = inner.prefixes.next_id(&key, kind);
        let pending = PendingClaim::new(&self.leases, id);
        let waiting =
            if self.share.is_some_and(|share| share.is_part) { None } else { Some(self.waits(&key)) };
        let reply = inner.ask(id, command(id)).await;
        pending.done();
        match reply {
            Ok(CommandReply::Acquired { fence, metadata, cell }) => {
                let now = inner.clock.held();
                if let Some(waiting) = waiting {
                    waiting.over(now);
                }
                if let Some(permits) = self.share.map(|share| share.weight()) {
                    let is_new = inner.users().cells.weigh(id, permits);
                    if is_new {
                        meters::permits_begun(permits, inner.prefixes.of(id));
                    }
                }
                let mut guard =
                    Guard::new(self.leases.clone(), id, key, fence, ttl, is_attached, metadata, cell);
                if let Some(most) = self.at_most {
                    guard.end_at(now.after(most), most);
                }
                if !self.at_least.is_zero() {
                    guard.keep_until(now.after(self.at_least));
                }
                Ok(guard)
            }
            Ok(CommandReply::Refused(error)) => Err(error),
            Ok(_) | Err(_) => Err(AcquireError::Stopped),
        }
    }
}
