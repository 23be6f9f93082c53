//! The candidate as its users have it, and the task that drives its machine.

use crate::machine::{
    EndCause, LeadershipMachine, LeadershipNotice, MachineStep, StorageAnswer, StorageCall,
};
use crate::options::CandidateOptions;
use crate::storage::Storage;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure_core::{Clock, InvalidInput, StoreError, Tick};
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
    nap: Duration,
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
            nap: (options.ttl / 20).clamp(Duration::from_millis(1), Duration::from_secs(30)),
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

    /// Gives the leadership up, if it leads: from now on it does not. It lets others go first for twice the follow rate. Where the storage fails, its row is given back once
    /// that is over; after twice the follow rate it is left to expire, and others go first then.
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
        loop {
            let left = self.remaining();
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(self.shared.nap)).await;
        }
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

/// What drives the machine.
struct CandidateTask {
    shared: Arc<LeadershipState>,
    storage: Arc<dyn Storage>,
    options: CandidateOptions,
    told: watch::Sender<CandidateStatus>,
    uuid: fn() -> String,
}

impl CandidateTask {
    async fn run(
        self,
        mut machine: LeadershipMachine,
        mut wished: mpsc::UnboundedReceiver<CandidateCommand>,
    ) {
        tracing::debug!(target: "tenure::election", key = self.shared.key, id = self.shared.id, "the candidate follows");
        // A channel whose other end is gone is always ready.
        let mut is_heard = true;
        loop {
            let step = machine.step(self.shared.clock.now(), self.random());
            self.tell(machine.notices());
            match step {
                MachineStep::Over => break,
                MachineStep::Wait(until) => {
                    tokio::select! {
                        () = self.sleep(until) => {}
                        wish = wished.recv(), if is_heard => {
                            is_heard = wish.is_some();
                            heed(&mut machine, wish);
                        }
                    }
                }
                MachineStep::Ask(ask) => self.ask(ask, &mut machine, &mut wished).await,
            }
        }
        tracing::debug!(target: "tenure::election", key = self.shared.key, id = self.shared.id, "the candidate is stopped");
    }

    /// Makes a call, during which the deadline and the users' wishes are minded.
    async fn ask(
        &self,
        ask: StorageCall,
        machine: &mut LeadershipMachine,
        wished: &mut mpsc::UnboundedReceiver<CandidateCommand>,
    ) {
        let mut call = pin!(tokio::time::timeout(self.patience(), self.call(&ask)));
        let mut is_heard = true;
        let told = loop {
            let MachineStep::Wait(until) = machine.step(self.shared.clock.now(), 0) else { return };
            self.tell(machine.notices());
            tokio::select! {
                told = &mut call => break told,
                () = self.sleep(until) => {}
                wish = wished.recv(), if is_heard => {
                    is_heard = wish.is_some();
                    heed(machine, wish);
                }
            }
        };
        let told = told.unwrap_or_else(|_| Err(StoreError::unknown("the storage did not answer in time")));
        let is_well = told.is_ok();
        machine.told(told, self.shared.clock.now());
        if is_well {
            self.told.send_if_modified(|status| {
                let is_first = !std::mem::replace(&mut status.has_been_let_in, true);
                status.trouble.take().is_some() || is_first
            });
        }
        self.tell(machine.notices());
    }

    /// How long a call may take: as long as it is until the next renewal, and not less than a slow disk needs.
    fn patience(&self) -> Duration {
        self.options.hold.max(self.options.ttl / 4)
    }

    async fn call(&self, ask: &StorageCall) -> Result<StorageAnswer, StoreError> {
        let LeadershipState { key, id, .. } = &*self.shared;
        let (ttl, skew) = (self.options.ttl, self.options.skew);
        let is_done = match ask {
            StorageCall::Look => return self.storage.look(key).await.map(StorageAnswer::Seen),
            StorageCall::Take { over } => self.storage.take(key, id, ttl, skew, over.as_ref()).await?,
            StorageCall::Renew => self.storage.renew(key, id, ttl).await?,
            StorageCall::Release { row } => self.storage.release(key, row).await?,
        };
        Ok(if is_done { StorageAnswer::Done } else { StorageAnswer::Refused })
    }

    /// Some number, for followers that must not all ask at once.
    fn random(&self) -> u64 {
        (self.uuid)().bytes().map(u64::from).sum()
    }

    /// Until that tick of the holder's.
    async fn sleep(&self, until: Tick) {
        if until == Tick::NEVER {
            return std::future::pending().await;
        }
        loop {
            let left = until.since(self.shared.clock.held());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(self.shared.nap)).await;
        }
    }

    fn tell(&self, notices: Vec<LeadershipNotice>) {
        let LeadershipState { key, id, .. } = &*self.shared;
        for notice in notices {
            match notice {
                LeadershipNotice::Elected(deadline) => {
                    let terms = self.shared.terms.fetch_add(1, Ordering::SeqCst) + 1;
                    self.shared.deadline.store(deadline.0, Ordering::SeqCst);
                    tracing::info!(target: "tenure::election", key, id, "elected");
                    self.told.send_modify(|status| {
                        *status = CandidateStatus {
                            is_leading: true,
                            leader: Some(id.clone()),
                            terms,
                            ..status.clone()
                        }
                    });
                }
                LeadershipNotice::Renewed(deadline) => {
                    self.shared.deadline.store(deadline.0, Ordering::SeqCst)
                }
                LeadershipNotice::Ended(cause) => {
                    self.told.send_modify(|status| {
                        // Whoever sees that also sees why.
                        self.shared.deadline.store(0, Ordering::SeqCst);
                        *status = CandidateStatus {
                            is_leading: false,
                            leader: None,
                            ended: Some(cause),
                            ..status.clone()
                        }
                    });
                    tracing::info!(target: "tenure::election", key, id, ?cause, "leads no more");
                }
                LeadershipNotice::Leader(leader) => {
                    let shown = leader.as_deref().unwrap_or("nobody");
                    tracing::info!(target: "tenure::election", key, id, leader = shown, "another leads, or nobody");
                    self.told.send_modify(|status| status.leader = leader);
                }
                LeadershipNotice::Failing(error) => {
                    tracing::warn!(target: "tenure::election", key, id, %error, "the storage fails");
                    self.told.send_modify(|status| status.trouble = Some(error));
                }
                LeadershipNotice::SameId => {
                    tracing::warn!(
                        target: "tenure::election", key, id,
                        "another candidate leads under this id, or did; give each its own"
                    );
                }
            }
        }
    }
}

/// A candidate whose handle was dropped stops, too.
fn heed(machine: &mut LeadershipMachine, wish: Option<CandidateCommand>) {
    match wish {
        Some(CandidateCommand::Resign) => machine.resign(),
        Some(CandidateCommand::Stop) | None => machine.stop(),
        Some(CandidateCommand::Lapse) => machine.lapse(),
    }
}
