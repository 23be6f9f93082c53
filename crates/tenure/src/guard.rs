//! A lease that is held.

use crate::belief::{LeaseCell, Name};
use crate::cancelled::Cancelled;
use crate::error::LeaseError;
use crate::leases::Leases;
use crate::pending_claim::PendingClaim;
use crate::prefixes::LeaseKind;
use crate::request::Request;
use crate::token::LeaseToken;
use crate::users::{CommandReply, unexpected};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure_core::{Command, Fence, Key, LeaseId, Loss, Metadata, StoreError, Tick, Ttl};
use tenure_store::parts::nap;
use tenure_store::tell;
use tokio_util::sync::DropGuard;

/// A lease that is held: until it is released, dropped or lost.
///
/// Dropping it releases it in the background.
#[must_use = "dropping a guard gives the lease up"]
pub struct Guard {
    leases: Leases,
    id: LeaseId,
    key: Key,
    fence: Fence,
    ttl: Ttl,
    is_attached: bool,
    /// None when there is none, as mostly: there may be a million guards.
    metadata: Option<Box<Metadata>>,
    cell: Arc<LeaseCell>,
    /// Not to be free before.
    free_at: Tick,
    /// The end of its longest time, if it has one, and what waits for that.
    limit: Option<Box<(Tick, DropGuard)>>,
    /// Nothing is to be given up any more.
    spent: AtomicBool,
}

impl Leases {
    /// Takes a lease up that was plain data, and holds it from now on, beating for itself. The fence stays the same, so whoever
    /// passed the token on must have stopped acting on it. The tenure gets a new name: this token and all its copies are good
    /// for nothing from then on. If it was revoked, the guard says so at once, and the lease is not renewed.
    ///
    /// # Errors
    /// As [`Leases::refresh`], but for `Lost`. `Invalid` where these leases could not keep it, as its ttl is too short for their
    /// [drift](crate::LeasesBuilder::drift) and renewals: the token stays good.
    ///
    /// # Cancel safety
    /// When the future is dropped the lease is given up.
    pub async fn adopt(&self, token: &LeaseToken) -> Result<Guard, LeaseError> {
        let token = Box::new(token.check(self)?);
        let id = self.inner.prefixes.next_id(&token.key, LeaseKind::Lock);
        let (key, ttl) = (token.key.clone(), token.ttl);
        self.inner.checked_ttl(ttl.duration()).map_err(StoreError::from)?;
        let pending = PendingClaim::new(self, id);
        let reply = self.inner.ask(id, Command::Adopt(id, token)).await;
        pending.done();
        match reply {
            Ok(CommandReply::Acquired { fence, metadata, cell }) => {
                Ok(Guard::new(self.clone(), id, key, fence, ttl, false, metadata, cell))
            }
            reply => Err(unexpected(reply.ok())),
        }
    }
}

impl Guard {
    #[allow(clippy::too_many_arguments, reason = "the facts of a lease, from one place only")]
    pub(crate) fn new(
        leases: Leases,
        id: LeaseId,
        key: Key,
        fence: Fence,
        ttl: Ttl,
        is_attached: bool,
        metadata: Metadata,
        cell: Arc<LeaseCell>,
    ) -> Guard {
        let holder = leases.holder();
        tell!(debug, name: "lease.acquired", target: "tenure::lease", %key, %fence, %holder, "lease acquired");
        let mut guard = Guard::borrowed(leases, id, key, fence, ttl, is_attached, cell);
        guard.spent = AtomicBool::new(false);
        guard.set_metadata(metadata);
        guard
    }

    fn set_metadata(&mut self, metadata: Metadata) {
        self.metadata = (!metadata.is_empty()).then(|| Box::new(metadata));
    }

    /// A guard for a lease that someone else gives up: dropping it does nothing.
    pub(crate) fn borrowed(
        leases: Leases,
        id: LeaseId,
        key: Key,
        fence: Fence,
        ttl: Ttl,
        is_attached: bool,
        cell: Arc<LeaseCell>,
    ) -> Guard {
        cell.set_name(Name { key: key.clone(), fence, own_ttl: (!is_attached).then_some(ttl) });
        Guard {
            leases,
            id,
            key,
            fence,
            ttl,
            is_attached,
            metadata: None,
            cell,
            free_at: Tick(0),
            limit: None,
            spent: AtomicBool::new(true),
        }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The fencing token: send it along with every effect on what the lease protects, and let that refuse lower ones.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// The metadata that the lease carried when it was acquired or last updated.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        static NONE: Metadata = Metadata::new();
        self.metadata.as_deref().unwrap_or(&NONE)
    }

    /// Whether the lease is held at this instant. Takes a few nanoseconds, no I/O, and never blocks.
    ///
    /// It may end right after. What must not happen twice belongs behind a check of the [`Guard::fence`].
    #[must_use]
    #[inline]
    pub fn is_held(&self) -> bool {
        self.leases.inner.clock.held() < self.until()
    }

    /// How long the lease is held if no renewal succeeds from now on; zero when it is lost. Never past its [longest time](crate::Lock::at_most_for).
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.until().since(self.leases.inner.clock.held())
    }

    fn until(&self) -> Tick {
        let until = self.leases.inner.until(&self.cell.belief, self.is_attached);
        self.limit.as_ref().map_or(until, |limit| until.min(limit.0))
    }

    /// When it is over if nothing happens, also while belief is suspended.
    pub(crate) fn deadline(&self) -> Tick {
        self.leases.inner.deadline(&self.cell.belief, self.is_attached)
    }

    /// Why it was lost, if it was. One that was released is not lost.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.cell.loss()
    }

    /// Waits until the lease is lost, and says why: no later than its deadline, whatever the store does.
    ///
    /// A machine that was suspended over the deadline learns of it soon after it has woken up: within a twentieth of the ttl, 30 s
    /// at most. [`Guard::is_held`] tells at once.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn lost(&self) -> Loss {
        let wake = self.cell.wake();
        loop {
            let woken = wake.notified();
            if let Some(loss) = self.cell.loss() {
                return loss;
            }
            let left = self.deadline().since(self.leases.inner.clock.held());
            if left.is_zero() {
                return self.why_over();
            }
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep(nap(left, self.ttl.part(20))) => {}
            }
        }
    }

    /// Why it is over, or about to be. Its deadline may pass before the driver tells of the loss: then the trouble of its renewals says why.
    pub(crate) fn why_over(&self) -> Loss {
        if let Some(loss) = self.cell.loss() {
            return loss;
        }
        let inner = &self.leases.inner;
        if self.is_revoked() {
            return Loss::Revoked;
        }
        // A thread of the parent's may have had the lock as it forked.
        if inner.process.is_forked() {
            return Loss::Expired;
        }
        let renewed = if self.is_attached { &inner.session_key } else { &self.key };
        let trouble = inner.troubles.worst(Some([renewed.as_str(); 2]));
        trouble.map_or(Loss::Expired, |trouble| trouble.error.into())
    }

    /// Told when the lease is lost, or its holder is told to stop; and when it is given up, by whatever of this guard's methods, or its drop.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled::by(&self.cell.token(), &self.leases.inner.process)
    }

    /// Waits for the next request to this holder: to hand over when it suits, or to stop because the lease is withdrawn.
    ///
    /// # Cancel safety
    /// A request is taken only when the future completes.
    pub async fn asked(&self) -> Request {
        let wake = self.cell.wake();
        loop {
            let woken = wake.notified();
            if let Some(request) = self.cell.next_request() {
                return request;
            }
            woken.await;
        }
    }

    /// Whether the lease was withdrawn: it is not prolonged any more.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.cell.revoked()
    }

    /// Writes other metadata, on the condition that the lease is still this one.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] when it is not, and nothing was changed; or when it is over meanwhile, as by its [longest
    /// time](crate::Lock::at_most_for), and the metadata may be written or not. `Unavailable` while an earlier change is under way, whose
    /// future was dropped: try again.
    ///
    /// # Cancel safety
    /// When the future is dropped the metadata may be written or not, and the change may go on.
    pub async fn update(&mut self, metadata: Metadata) -> Result<(), LeaseError> {
        tenure_store::codec::check_metadata(&metadata)?;
        match self.leases.inner.ask(self.id, Command::Update(self.id, metadata.clone())).await {
            Ok(CommandReply::Updated) => {
                self.set_metadata(metadata);
                Ok(())
            }
            reply => Err(unexpected(reply.ok())),
        }
    }

    /// Gives the lease up, and waits until the next holder can have it, which is when its [least time](crate::Lock::at_least_for) is over.
    /// False: it was lost already.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn release(self) -> bool {
        self.give_up(None).await
    }

    /// As [`Guard::release`], leaving this metadata in the same write.
    ///
    /// # Errors
    /// When the metadata is too large; the lease is released without it.
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn release_with(self, metadata: Metadata) -> Result<bool, LeaseError> {
        tenure_store::codec::check_metadata(&metadata)?;
        Ok(self.give_up(Some(metadata)).await)
    }

    /// As [`Guard::release`], for whoever shares it with a body that has ended.
    pub(crate) async fn give_up(&self, metadata: Option<Metadata>) -> bool {
        self.spend();
        self.tell_released();
        self.cell.end();
        if self.is_kept() {
            self.leases.inner.forget(self.id);
            return self.leases.inner.release_at(self.id, metadata, self.free_at).await.unwrap_or(false);
        }
        self.leases.inner.keep_no_longer(self.id);
        let reply = self.leases.inner.ask(self.id, Command::Release(self.id, metadata));
        matches!(reply.await, Ok(CommandReply::Released(true)))
    }

    /// Counts and logs the lease as lost from now on: for whoever has to end what it protects before the deadline, since the lease can't be renewed. From
    /// now on belief is not prolonged. The lease is still to be released, or left to [lapse](Guard::lapse); if that fails, it is not counted as
    /// lost again.
    pub fn tell_losing(&self) {
        self.leases.inner.tell_losing(self.id, self.deadline(), &self.why_over());
    }

    /// Says that it is held for as long as it may be.
    pub(crate) fn tell_overrun(&self, most: Duration) {
        self.cell.tell_overrun(self.leases.holder(), most);
    }

    fn tell_released(&self) {
        let (key, fence, holder) = (&self.key, self.fence, self.leases.holder());
        if self.is_held() {
            tell!(debug, name: "lease.released", target: "tenure::lease", %key, %fence, %holder, "lease released");
        }
    }

    /// From now on it is kept until then, also if it is given up, dropped, or stopped with all others. It renews itself, or is a permit.
    pub(crate) fn keep_until(&mut self, at: Tick) {
        self.free_at = at;
        self.leases.inner.keep_until(self.id, at);
    }

    /// From now on it is held until then at the most, which is for so long.
    pub(crate) fn end_at(&mut self, at: Tick, most: Duration) {
        self.limit = Some(Box::new((at, self.leases.inner.end_at(self.id, &self.cell, at, most))));
    }

    /// Whether its least time is not over yet.
    pub(crate) fn is_kept(&self) -> bool {
        self.free_at > self.leases.inner.clock.held()
    }

    /// Stops believing but leaves the record to expire: for when what was done under the lease can't be ended for certain. That is so from
    /// the call on. The future waits until nothing is renewed any more.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing, whether it was polled or not.
    pub fn lapse(self) -> impl Future<Output = ()> + Send {
        let left = self.leave_to_expire();
        async move {
            // The last handle of its `Leases` ends with it: no sooner than the wait.
            let _guard = self;
            left.await;
        }
    }

    /// As [`Guard::lapse`], for whoever shares it with a body that goes on.
    pub(crate) fn leave_to_expire(&self) -> impl Future<Output = ()> + Send + use<> {
        self.spend();
        self.cell.end();
        self.leases.inner.keep_no_longer(self.id);
        let reply = self.leases.inner.ask(self.id, Command::Lapse(self.id));
        async move {
            // An error means that the driver is gone, and with it the renewals.
            let _answer = reply.await;
        }
    }

    /// Turns the lease into plain data, valid for a ttl from now: to be refreshed, released or taken up again by any
    /// process that gets it ([`Leases::refresh`], [`Leases::give_back`], [`Leases::adopt`]).
    ///
    /// Nobody looks after plain data, so a lease with a [longest time](crate::Lock::at_most_for), or whose [least
    /// time](crate::Lock::at_least_for) is not over, is refused, and given up as when it is dropped.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] when it is not ours any more; `Invalid` when it has a longest time, or a least time that is not over, or where the
    /// key is one of tenure's own, as of a job's unit; `Unavailable` while an [update](Self::update) is under way, whose future was dropped. The lease
    /// is given up then.
    ///
    /// # Cancel safety
    /// When the future is dropped the lease is given up, or left to expire if it was plain data already.
    pub async fn into_token(self) -> Result<LeaseToken, LeaseError> {
        let time = match (&self.limit, self.is_kept()) {
            (Some(_), _) => Some("longest"),
            (None, true) => Some("least"),
            (None, false) => None,
        };
        if let Some(time) = time {
            let text = format!(
                "a lease with a {time} time can't become plain data, which nobody looks after; acquire it without one"
            );
            return Err(StoreError::invalid(text).into());
        }
        // Nobody could use such a token.
        self.leases.inner.check_free(&self.key).map_err(StoreError::from)?;
        self.cell.end();
        self.leases.inner.keep_no_longer(self.id);
        match self.leases.inner.ask(self.id, Command::Detach(self.id, self.ttl)).await {
            Ok(CommandReply::Token(token)) => {
                self.spend();
                Ok(LeaseToken::new(self.leases.store(), *token))
            }
            // It is dropped, and with that given up, as where nobody waits for the answer.
            reply => Err(unexpected(reply.ok())),
        }
    }

    /// From now on, dropping it does nothing.
    fn spend(&self) {
        self.spent.store(true, Ordering::SeqCst);
    }

    pub(crate) fn id(&self) -> LeaseId {
        self.id
    }

    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    pub(crate) fn cell(&self) -> &Arc<LeaseCell> {
        &self.cell
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.is_attached
    }

    pub(crate) fn ttl(&self) -> Ttl {
        self.ttl
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // A forked child gives nothing of its parent's back.
        if !*self.spent.get_mut() && !self.leases.inner.process.is_forked() {
            self.tell_released();
            self.cell.end();
            self.leases.inner.forget(self.id);
            if self.is_kept() {
                drop(self.leases.inner.release_at(self.id, None, self.free_at));
            } else {
                self.leases.inner.keep_no_longer(self.id);
                self.leases.inner.send(Command::Release(self.id, None));
            }
        }
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard")
            .field("key", &self.key)
            .field("fence", &self.fence)
            .field("held", &self.is_held())
            .finish_non_exhaustive()
    }
}
