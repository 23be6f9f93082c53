//! The candidate as its users have it.

mod task;

use crate::machine::{EndCause, LeadershipMachine};
use crate::options::CandidateOptions;
use crate::storage::Storage;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use task::CandidateTask;
use tenure_core::{Clock, InvalidInput, StoreError, Tick};
use tenure_store::parts::sleep_while;
use tokio::sync::{mpsc, watch};

/// What is told of a candidate, for people, logs and gauges. Whether to act is asked of [`Candidate::is_leader`].
#[derive(Debug, Default, Clone, PartialEq)]
#[non_exhaustive]
pub struct CandidateStatus {
    /// Whether this candidate was leading when this was told.
    pub is_leading: bool,
    /// The leader's id; none while nobody leads, or while it is not known.
    pub leader: Option<String>,
    /// Why this candidate's last leadership ended.
    pub ended: Option<EndCause>,
    /// What the last call to the storage failed with; none once one succeeded.
    pub trouble: Option<StoreError>,
    /// The number of this candidate's leaderships so far.
    pub terms: u64,
    /// Whether a call to the storage has ever succeeded. Before that, a refusal is one of what was configured.
    pub has_been_let_in: bool,
}

/// The candidate is stopped: it leads no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the candidate is stopped")
    }
}

impl std::error::Error for Stopped {}

/// Leads its key when it can, and follows else, from its start until it is stopped or dropped.
#[derive(Debug)]
pub struct Candidate {
    shared: Arc<LeadershipState>,
    wishes: mpsc::UnboundedSender<CandidateCommand>,
    status: watch::Receiver<CandidateStatus>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CandidateCommand {
    Resign,
    Stop,
    Lapse,
}

/// What is known of the leadership without asking the task.
struct LeadershipState {
    key: String,
    id: String,
    clock: Arc<dyn Clock>,
    /// How late a deadline may be noticed after a suspend, which the runtime's timers know nothing of.
    late: Duration,
    /// Until when it leads, on the holder's time line; 0 while it does not.
    deadline: AtomicU64,
    /// The number of leaderships so far.
    terms: AtomicU64,
    /// The last one that was given up, as twice its number, and one more if by a resignation: it is over at once, though the task may hear of
    /// that later.
    given_up: AtomicU64,
}

impl std::fmt::Debug for LeadershipState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeadershipState")
            .field("key", &self.key)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl LeadershipState {
    fn remaining(&self) -> Duration {
        if self.given_up(self.terms()).is_some() {
            return Duration::ZERO;
        }
        Tick(self.deadline.load(Ordering::SeqCst)).since(self.clock.held())
    }

    fn terms(&self) -> u64 {
        self.terms.load(Ordering::SeqCst)
    }

    /// The present leadership is over, if there is one.
    fn give_up(&self, cause: EndCause) {
        let resigned = u64::from(cause == EndCause::Resigned);
        self.given_up.store(self.terms() * 2 + resigned, Ordering::SeqCst);
    }

    /// Why that leadership was given up, if it was.
    fn given_up(&self, number: u64) -> Option<EndCause> {
        let given_up = self.given_up.load(Ordering::SeqCst);
        let cause = if given_up % 2 == 1 { EndCause::Resigned } else { EndCause::Stopped };
        (given_up / 2 == number).then_some(cause)
    }
}

impl Candidate {
    /// Starts a candidate: it follows from now on, in the background. `clock` and `uuid`, which draws ids, are `tenure::clock::system()` and
    /// `tenure::clock::uuid`, unless in tests.
    ///
    /// # Errors
    /// An option that can't work, by name, with what to choose instead. Nothing is sent then.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(
        storage: Arc<dyn Storage>,
        options: CandidateOptions,
        clock: Arc<dyn Clock>,
        uuid: fn() -> String,
    ) -> Result<Candidate, InvalidInput> {
        options.check()?;
        let id = options.id.clone().unwrap_or_else(uuid);
        let (wishes, wished) = mpsc::unbounded_channel();
        let (told, status) = watch::channel(CandidateStatus::default());
        let shared = Arc::new(LeadershipState {
            key: options.key.clone(),
            id: id.clone(),
            clock,
            late: options.ttl / 20,
            deadline: AtomicU64::new(0),
            terms: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
        });
        let task =
            CandidateTask { shared: Arc::clone(&shared), storage, options: options.clone(), told, uuid };
        tokio::spawn(task.run(LeadershipMachine::new(options, id), wished));
        Ok(Candidate { shared, wishes, status })
    }

    /// Its id: the row's value while it leads.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// What it leads.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.shared.key
    }

    /// Whether it leads. No I/O; never true past the deadline, whatever the storage does.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long it still leads, should no renewal succeed any more; zero if it does not lead.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.shared.remaining()
    }

    /// The leader's id, as last heard.
    #[must_use]
    pub fn leader(&self) -> Option<String> {
        self.status.borrow().leader.clone()
    }

    /// What is told of it, now and whenever it changes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<CandidateStatus> {
        self.status.clone()
    }

    /// Waits until it leads, which it may do already.
    ///
    /// # Errors
    /// [`Stopped`], if it is stopped meanwhile.
    ///
    /// # Cancel safety
    /// Nothing is lost: the candidate goes on.
    pub async fn elected(&self) -> Result<LeadershipTerm, Stopped> {
        let mut status = self.status.clone();
        loop {
            let is_leading = status.wait_for(|status| status.is_leading).await.map_err(|_| Stopped)?;
            let number = is_leading.terms;
            drop(is_leading);
            let term = LeadershipTerm { shared: Arc::clone(&self.shared), status: status.clone(), number };
            if term.is_held() {
                return Ok(term);
            }
            status.changed().await.map_err(|_| Stopped)?;
        }
    }

    /// Gives the leadership up, if it leads: from now on it does not. It lets others go first for twice the follow rate. Where the storage fails,
    /// its row is given back once that is over; after twice the follow rate it is left to expire, and others go first then.
    pub fn resign(&self) {
        self.shared.give_up(EndCause::Resigned);
        // A task that has ended leads no more.
        let _sent = self.wishes.send(CandidateCommand::Resign);
    }

    /// Stops it, and leaves a row of its own to expire, though this is dropped then. For work that goes on and can't be ended: nobody may lead before.
    pub fn lapse(&self) {
        self.shared.give_up(EndCause::Stopped);
        // A task that has ended leads no more.
        let _sent = self.wishes.send(CandidateCommand::Lapse);
    }

    /// Stops it. A row of its own is given back, so another can lead at once; where the storage can't be reached, it expires.
    ///
    /// # Cancel safety
    /// When the future is dropped, the candidate stops all the same.
    pub async fn stop(mut self) {
        self.shared.give_up(EndCause::Stopped);
        let _sent = self.wishes.send(CandidateCommand::Stop);
        while self.status.changed().await.is_ok() {}
    }
}

/// One leadership of a candidate.
#[derive(Debug, Clone)]
pub struct LeadershipTerm {
    shared: Arc<LeadershipState>,
    status: watch::Receiver<CandidateStatus>,
    number: u64,
}

impl LeadershipTerm {
    /// Whether it lasts. No I/O. Once it does not, it never does again.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long it still lasts, should no renewal succeed any more.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let left = self.shared.remaining();
        if self.shared.terms() == self.number { left } else { Duration::ZERO }
    }

    /// What the last call to the storage failed with; none once one succeeded.
    #[must_use]
    pub fn trouble(&self) -> Option<StoreError> {
        self.status.borrow().trouble.clone()
    }

    /// Waits until it is over, and says why; none if its candidate leads anew already, or the task has ended without a word.
    ///
    /// A machine that was suspended over the deadline learns of it soon after it has woken up: within a twentieth of the ttl, 30 s at most.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn ended(&self) -> Option<EndCause> {
        let mut status = self.status.clone();
        let is_over = |status: &CandidateStatus| !status.is_leading || status.terms != self.number;
        let over = tokio::select! {
            biased;
            told = status.wait_for(is_over) => told.ok()?.clone(),
            () = self.over() => self.status.borrow().clone(),
        };
        match () {
            // The candidate's task may have had no time to tell it.
            () if !is_over(&over) => Some(self.shared.given_up(self.number).unwrap_or(EndCause::Deadline)),
            () if over.terms == self.number => over.ended,
            () => None,
        }
    }

    /// Returns once it does not last, told or not.
    async fn over(&self) {
        sleep_while(|| self.remaining(), self.shared.late).await;
    }

    /// Runs `work` while this term lasts, and drops it when it is over: then there is no result. What `work` has handed to
    /// threads of its own is not ended by that.
    ///
    /// # Cancel safety
    /// `work` is dropped with the future.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            _ = self.ended() => None,
            result = work => Some(result),
        }
    }
}
