//! A request for a lease: what asking for a key and asking for permits have in common.

use crate::body::{BodyLimits, LeaseSource};
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::leases::Leases;
use crate::meters::{self, WaitMeter};
use crate::patience::{AcquireWait, store_patience, within};
use crate::pending_claim::PendingClaim;
use crate::permit_share::PermitShare;
use crate::prefixes::LeaseKind;
use crate::shared::end_of;
use crate::ttl::ttl_for;
use crate::users::CommandReply;
use std::time::Duration;
use tenure_core::semaphore::{self, Wish};
use tenure_core::{
    Command, InvalidInput, KeepAlive, Key, LeaseId, MetadataPolicy, Stored, Tick, Ttl, WaitPolicy, Want,
    reserved,
};

/// What is asked for.
#[derive(Debug, Clone)]
pub(crate) enum LeaseTarget {
    /// A key, which nobody else has then.
    Key(KeyRequest),
    /// Some permits of a semaphore.
    Permits { name: String, share: PermitShare },
}

/// How a key is wanted.
#[derive(Debug, Clone)]
pub(crate) struct KeyRequest {
    pub(crate) key: String,
    /// Of its own; none where it is attached to the session.
    pub(crate) ttl: Option<Duration>,
    pub(crate) metadata_policy: MetadataPolicy,
}

impl LeaseTarget {
    /// The key of the record that calls are about.
    pub(crate) fn record_key(&self) -> Result<Key, InvalidInput> {
        match self {
            LeaseTarget::Key(wanted) => Key::new(&wanted.key),
            LeaseTarget::Permits { name, .. } => semaphore::key(name),
        }
    }

    fn share(&self) -> Option<&PermitShare> {
        match self {
            LeaseTarget::Key(_) => None,
            LeaseTarget::Permits { share, .. } => Some(share),
        }
    }

    fn kind(&self) -> LeaseKind {
        match self {
            LeaseTarget::Key(_) => LeaseKind::Lock,
            LeaseTarget::Permits { .. } => LeaseKind::Permit,
        }
    }
}

/// What is asked for, and on which terms.
#[derive(Debug, Clone)]
pub(crate) struct AcquireRequest {
    pub(crate) leases: Leases,
    pub(crate) target: LeaseTarget,
    pub(crate) limits: BodyLimits,
    pub(crate) at_least: Duration,
}

impl AcquireRequest {
    pub(crate) fn new(leases: Leases, target: LeaseTarget) -> AcquireRequest {
        AcquireRequest { leases, target, limits: BodyLimits::default(), at_least: Duration::ZERO }
    }

    /// Tries for a fleet's unit, which no user may have so, and keeps what its record says. `seen`: how that stood last.
    pub(crate) async fn try_unit(
        leases: &Leases,
        key: Key,
        ttl: Ttl,
        seen: Stored,
    ) -> Result<Guard, AcquireError> {
        let metadata_policy = MetadataPolicy::Keep(Some(Box::new(seen)));
        let wanted = KeyRequest { key: key.to_string(), ttl: Some(ttl.duration()), metadata_policy };
        let metadata_policy = wanted.metadata_policy.clone();
        let keep_alive = KeepAlive::Own(ttl);
        let want = Want { key: key.clone(), keep_alive, metadata_policy, wait_policy: WaitPolicy::Try };
        let request = AcquireRequest::new(leases.clone(), LeaseTarget::Key(wanted));
        request.ask(key, Some(ttl), |id| Command::Acquire(id, want)).await
    }

    /// Waits until `end`, for whoever does not wait for ever for the store's answer.
    pub(crate) async fn acquire_until(self, end: Tick) -> Result<Guard, AcquireError> {
        self.get(WaitPolicy::Until(end)).await
    }

    async fn acquire(self) -> Result<Guard, AcquireError> {
        let leases = self.leases.clone();
        let inner = &leases.inner;
        let key = self.target.record_key()?;
        let own_ttl = self.asked_ttl();
        let patience = store_patience(&leases, own_ttl.unwrap_or(inner.session_ttl.duration()));
        let session = if own_ttl.is_some() { &key } else { &inner.session_key };
        tokio::select! {
            biased;
            acquired = self.get(WaitPolicy::Forever) => acquired,
            error = inner.troubles.outlast([key.as_str(), session.as_str()], patience) => Err(error.into()),
        }
    }

    pub(crate) fn check_span(&self) -> Result<(), InvalidInput> {
        match self.limits.at_most {
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

    /// The ttl of its own, if it has one: what is to be held for some time must last for it by itself. Permits have their session's.
    fn asked_ttl(&self) -> Option<Duration> {
        let LeaseTarget::Key(wanted) = &self.target else { return None };
        if self.at_least.is_zero() {
            return wanted.ttl;
        }
        let ttl = wanted.ttl.unwrap_or(self.leases.inner.session_ttl.duration());
        Some(ttl_for(ttl, self.at_least))
    }

    fn own_ttl(&self) -> Result<Option<Ttl>, InvalidInput> {
        self.asked_ttl().map(|asked| self.leases.inner.checked_ttl(asked)).transpose()
    }

    /// A grace period that is as long as what is mostly left of the lease would end every body at once.
    fn check_grace(&self, ttl: Ttl) -> Result<(), InvalidInput> {
        let Some(grace) = self.limits.grace else { return Ok(()) };
        let inner = &self.leases.inner;
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
        self.check_span()?;
        let key = self.target.record_key()?;
        match &self.target {
            LeaseTarget::Key(wanted) => {
                let own_ttl = self.check_key(&key, wanted)?;
                let keep_alive = own_ttl.map_or(KeepAlive::Session, KeepAlive::Own);
                let metadata_policy = wanted.metadata_policy.clone();
                let want = Want { key: key.clone(), keep_alive, metadata_policy, wait_policy };
                self.ask(key, own_ttl, |id| Command::Acquire(id, want)).await
            }
            LeaseTarget::Permits { share, .. } => {
                let PermitShare { permits, take, mode, barges, .. } = *share;
                let wish = Wish { key: key.clone(), permits, take, mode, barges, wait_policy };
                wish.check()?;
                self.ask(key, None, |id| Command::Permits(id, Box::new(wish))).await
            }
        }
    }

    /// Before anything is asked; the ttl of its own, if it has one.
    fn check_key(&self, key: &Key, wanted: &KeyRequest) -> Result<Option<Ttl>, AcquireError> {
        // Who keeps the metadata of a job's unit, or of what ran at ticks, does it no harm.
        let keeps_metadata = matches!(wanted.metadata_policy, MetadataPolicy::Keep(_))
            && [reserved::WORK, reserved::ONCE].iter().any(|room| key.as_str().starts_with(room));
        if !keeps_metadata {
            self.leases.inner.check_free(key)?;
        }
        let own_ttl = self.own_ttl()?;
        if let MetadataPolicy::Replace(metadata) = &wanted.metadata_policy {
            tenure_store::codec::check_metadata(metadata)?;
        }
        Ok(own_ttl)
    }

    /// From now on one more waits for it.
    pub(crate) fn waits(&self) -> Result<WaitMeter, InvalidInput> {
        let (inner, target) = (&self.leases.inner, &self.target);
        let permits = target.share().map_or(0, PermitShare::weight);
        let of = inner.prefixes.of_key(&target.record_key()?, target.kind());
        Ok(WaitMeter::for_lease(of, permits, inner.clock.held()))
    }

    /// Asks the machine for it, and waits for the answer.
    async fn ask(
        &self,
        key: Key,
        own_ttl: Option<Ttl>,
        command: impl FnOnce(LeaseId) -> Command,
    ) -> Result<Guard, AcquireError> {
        let (inner, share) = (&self.leases.inner, self.target.share());
        let id = inner.prefixes.next_id(&key, self.target.kind());
        let pending = PendingClaim::new(&self.leases, id);
        let waiting = if share.is_some_and(|share| share.is_part) { None } else { Some(self.waits()?) };
        let reply = inner.ask(id, command(id)).await;
        pending.done();
        match reply {
            Ok(CommandReply::Acquired { fence, metadata, cell }) => {
                let now = inner.clock.held();
                if let Some(waiting) = waiting {
                    waiting.over(now);
                }
                if let Some(permits) = share.map(PermitShare::weight) {
                    let is_new = inner.users().cells.weigh(id, permits);
                    if is_new {
                        meters::permits_begun(permits, inner.prefixes.of(id));
                    }
                }
                let (ttl, is_attached) = (own_ttl.unwrap_or(inner.session_ttl), own_ttl.is_none());
                let mut guard =
                    Guard::new(self.leases.clone(), id, key, fence, ttl, is_attached, metadata, cell);
                if let Some(most) = self.limits.at_most {
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

impl LeaseSource for AcquireRequest {
    type Leases = Guard;

    fn checked(mut self) -> Result<(BodyLimits, AcquireRequest), AcquireError> {
        self.check_span()?;
        let ttl = self.own_ttl()?.unwrap_or(self.leases.inner.session_ttl);
        self.check_grace(ttl)?;
        Ok((std::mem::take(&mut self.limits), self))
    }

    async fn acquired(self, wait: AcquireWait) -> Result<Guard, AcquireError> {
        match wait {
            AcquireWait::Try => self.get(WaitPolicy::Try).await,
            AcquireWait::Within(patience) => {
                let end = end_of(&*self.leases.inner.clock, patience);
                within(patience, self.acquire_until(end)).await
            }
            AcquireWait::Forever => self.acquire().await,
        }
    }
}
