//! The handle of a candidate, and that of an observer.

use super::bodies::{self, CandidateRequest};
use super::runner::SharedCandidate;
use super::status::{Leader, Status};
use crate::body::Held;
use crate::cancelled::Cancelled;
use crate::driver::Trouble;
use crate::error::{AcquireError, BodyError};
use crate::latest::Latest;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::election::{Standing, Term};
use tenure_core::{HolderId, Key};
use tenure_store::parts::nap;
use tokio::sync::{mpsc, oneshot};

/// Wants to lead a key, from its start until it is stopped. Cheap to clone; clones are the same candidate.
///
/// When the last clone is dropped it steps down and stops in the background; [`Candidate::stop`] waits for that.
///
/// It belongs to the runtime around its start, and ends with that. Its lease is renewed elsewhere, as that of [`Leases`](crate::Leases) is: while
/// the runtime stands still, it goes on leading or waiting, and nothing that is asked of it is done. The drop of the last clone gives the key up
/// even then, but not under a body that has not ended: that keeps the key until the runtime runs again, or is dropped.
#[derive(Clone)]
pub struct Candidate {
    shared: Arc<SharedCandidate>,
    // Goes first: the task asks for nothing once all of these are gone.
    wishes: mpsc::UnboundedSender<CandidateRequest>,
    _presence: Arc<CandidatePresence>,
}

/// The candidate is wanted as long as somebody has this, or runs a body.
struct CandidatePresence {
    shared: Arc<SharedCandidate>,
}

impl Drop for CandidatePresence {
    fn drop(&mut self) {
        self.shared.leave();
    }
}

impl Candidate {
    pub(super) fn started(
        (shared, wishes): (Arc<SharedCandidate>, mpsc::UnboundedSender<CandidateRequest>),
    ) -> Candidate {
        let _presence = Arc::new(CandidatePresence { shared: Arc::clone(&shared) });
        Candidate { shared, wishes, _presence }
    }

    /// Whether this candidate leads at this instant. Takes nanoseconds, no I/O; never true past the deadline, whatever the
    /// store does.
    ///
    /// It may end right after. What must not happen twice belongs behind a check of the [fence](Term::fence). In a scheduled job
    /// it is no guard against a second run: see [scheduled jobs](crate::election#scheduled-jobs).
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.shared.is_leader()
    }

    /// This candidate's leadership, if it has it at this instant. As [`Candidate::is_leader`].
    #[must_use]
    pub fn leadership(&self) -> Option<Term> {
        self.shared.leadership()
    }

    /// Told when the leadership that this candidate has at this instant ends, or is about to be given up: for what goes by
    /// [`Candidate::elected`], without a body. At once where it does not lead. A later leadership has another one.
    ///
    /// What was begun under it should end at once: nobody waits for it, as [`Candidate::run_while_leader`] does for a body.
    pub fn cancelled(&self) -> Cancelled {
        self.shared.cancelled()
    }

    /// Waits until this candidate leads.
    ///
    /// # Errors
    /// [`AcquireError::Stopped`] when it is stopped.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn elected(&self) -> Result<Term, AcquireError> {
        let mut changes = self.changes();
        let nap = nap(Duration::MAX, self.shared.ttl.part(20));
        loop {
            if self.is_forked() {
                return Err(AcquireError::Stopped);
            }
            // A leadership that is being given up is none to begin anything under.
            match changes.get_and_update().standing {
                Standing::Stopped => return Err(AcquireError::Stopped),
                Standing::Leading => {}
                _ => {
                    changes.changed().await.map_err(|_| AcquireError::Stopped)?;
                    continue;
                }
            }
            if let Some(term) = self.leadership() {
                return Ok(term);
            }
            // Belief is suspended: nobody is told when that is back.
            tokio::select! {
                changed = changes.changed() => changed.map_err(|_| AcquireError::Stopped)?,
                () = tokio::time::sleep(nap) => {}
            }
        }
    }

    /// Where this candidate stands and who leads, as last heard.
    #[must_use]
    pub fn status(&self) -> Status {
        if self.is_forked() {
            return Status { standing: Standing::Stopped, leader: None };
        }
        self.shared.status.borrow().clone()
    }

    /// Who leads, as last heard.
    #[must_use]
    pub fn leader(&self) -> Option<Leader> {
        self.status().leader
    }

    /// What goes wrong with the store, if calls about the key, or about the session that the leadership is attached to, fail now.
    /// Without trouble, "following, and nobody leads" means just that; with it, that nothing is known.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        let inner = &self.shared.leases.inner;
        inner.troubles.worst(Some([self.shared.key.as_str(), inner.session_key.as_str()]))
    }

    /// A watch of this candidate's standing and of who leads.
    ///
    /// It shows the latest state, and not each change: a leadership that is lost and had again between two looks shows as one. Whoever minds compares
    /// the [`Leader::fence`], which is another with each term. [`Candidate::run_while_leader`] misses no end.
    #[must_use]
    pub fn changes(&self) -> Latest<Status> {
        Latest::of(&self.shared.status)
    }

    /// Steps down: bodies end first, then the key is free for others, while this candidate stands back for its
    /// cooldown. Waits until the key is free, or left to expire; false if it did not lead.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the resignation.
    pub async fn resign(&self) -> bool {
        if self.is_forked() {
            return false;
        }
        let (done, resigned) = oneshot::channel();
        self.wish(CandidateRequest::Resign(done));
        self.answer(resigned).await.unwrap_or(false)
    }

    /// Steps down for good, and waits until all is given up or left to expire.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the stopping.
    pub async fn stop(&self) {
        if self.is_forked() {
            return;
        }
        self.wish(CandidateRequest::Stop);
        self.shared.over.cancelled().await;
    }

    /// Waits until this candidate leads, and runs `body` once while it does; whoever wants it run in each term calls this in a
    /// [loop](crate::election#in-a-loop-until-ctrl-c). Body and leadership end in this order. When
    /// the leadership is about to be lost or given up, the token of [`Held`] is cancelled; the body has the grace
    /// period to end; then it is aborted and waited for. Only then is the key given up; one that can't be ended leaves
    /// it to expire.
    ///
    /// When the body returns by itself, the candidate goes on leading. Where renewals fail, a body ends while the leadership still lasts for its grace
    /// period and a little: then none begins before a renewal succeeds, or the next term.
    ///
    /// # Errors
    /// [`BodyError::Interrupted`] when the leadership ended, or was about to, while the body ran, [`resign`](Candidate::resign) and
    /// [`stop`](Candidate::stop) included, with what the body returned; `Panicked`, after which it still leads;
    /// `Acquire` when the candidate is stopped.
    ///
    /// # Cancel safety
    /// When the future is dropped the body is told to stop, and aborted after its grace period, in the background.
    pub async fn run_while_leader<T, F, Fut>(&self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let mut changes = self.changes();
        let nap = nap(Duration::MAX, self.shared.ttl.part(20));
        let permit = loop {
            let _seen = changes.get_and_update();
            self.elected().await?;
            let (reply, permit) = oneshot::channel();
            self.wish(CandidateRequest::Body(reply));
            match self.answer(permit).await {
                Some(Some(permit)) => break permit,
                // It is about to cease to lead, which another body may delay; or its next renewal succeeds, of which nobody is told.
                Some(None) => tokio::select! {
                    changed = changes.changed() => changed.map_err(|_| AcquireError::Stopped)?,
                    () = tokio::time::sleep(nap) => {}
                },
                None => return Err(AcquireError::Stopped.into()),
            }
        };
        bodies::run(permit, self.shared.grace, body).await
    }

    /// What it wants to lead.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.shared.key
    }

    /// Its name as others see it.
    #[must_use]
    pub fn holder(&self) -> &HolderId {
        self.shared.leases.holder()
    }

    /// A forked child has nothing of its parent's task but what that said last.
    fn is_forked(&self) -> bool {
        !self.shared.leases.inner.process.is_this()
    }

    fn wish(&self, wish: CandidateRequest) {
        // After a stop nobody listens, and there is nothing left to do.
        let _ = self.wishes.send(wish);
    }

    /// What the task answers; none once it has ended. A wish that is sent in that instant stays in the channel, whose receiver does not find it any more.
    async fn answer<T>(&self, answer: oneshot::Receiver<T>) -> Option<T> {
        tokio::select! {
            biased;
            answer = answer => answer.ok(),
            () = self.wishes.closed() => None,
        }
    }
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Status { standing, leader } = self.status();
        f.debug_struct("Candidate")
            .field("key", self.key())
            .field("holder", self.holder())
            .field("standing", &standing)
            .field("leader", &leader)
            .finish()
    }
}

/// Looks at who leads a key, and never leads it. Dropping the last clone ends it.
#[derive(Debug, Clone)]
pub struct Observer(Candidate);

impl Observer {
    pub(super) fn started(
        shared: (Arc<SharedCandidate>, mpsc::UnboundedSender<CandidateRequest>),
    ) -> Observer {
        Observer(Candidate::started(shared))
    }

    /// Who leads, as last heard.
    #[must_use]
    pub fn leader(&self) -> Option<Leader> {
        self.0.leader()
    }

    /// A watch of who leads.
    #[must_use]
    pub fn changes(&self) -> Latest<Status> {
        self.0.changes()
    }

    /// As [`Candidate::trouble`].
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        self.0.trouble()
    }

    /// Ends it.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the stopping.
    pub async fn stop(&self) {
        self.0.stop().await;
    }
}
