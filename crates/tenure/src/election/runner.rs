//! The task of a candidate: it steps the machine, gives its commands to the process's leases, and tells its users.

use super::bodies::{CandidateRequest, LeadershipScope, Permit};
use super::status::{Leader, Status};
use crate::belief::LeaseCell;
use crate::body;
use crate::cancelled::Cancelled;
use crate::driver::sleep_until;
use crate::guard::Guard;
use crate::leases::Leases;
use crate::meters::{self, WaitMeter};
use crate::prefixes::LeaseKind;
use crate::users::HeardNotice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tenure_core::election::{Change, Election, Input, Output, Standing, Term, Terms};
use tenure_core::{Bugs, Command, Fence, Key, LeaseId, Tick, Ttl};
use tenure_store::tell;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::field::display;

/// All that a candidate goes by, checked.
pub(super) struct CandidatePlan {
    pub(super) leases: Leases,
    /// Made for this candidate, and to be stopped with it.
    pub(super) owned: bool,
    pub(super) terms: Terms,
    pub(super) grace: Duration,
}

impl CandidatePlan {
    /// Release builds have none.
    pub(super) fn bugs(&self) -> Bugs {
        Bugs::default()
    }
}

/// What a candidate's task and its handles share.
pub(super) struct SharedCandidate {
    pub(super) leases: Leases,
    pub(super) key: Key,
    pub(super) ttl: Ttl,
    pub(super) grace: Duration,
    pub(super) status: watch::Sender<Status>,
    /// Cancelled when the task has ended.
    pub(super) over: CancellationToken,
    scope: RwLock<Option<Arc<LeadershipScope>>>,
    /// The lease whose notices are passed on to the task.
    listening: Mutex<Option<LeaseId>>,
}

impl SharedCandidate {
    fn listening(&self) -> MutexGuard<'_, Option<LeaseId>> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn scope(&self) -> Option<Arc<LeadershipScope>> {
        self.scope.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_scope(&self, scope: Option<Arc<LeadershipScope>>) {
        *self.scope.write().unwrap_or_else(PoisonError::into_inner) = scope;
    }

    pub(super) fn is_leader(&self) -> bool {
        // First: a thread of the parent's may have had the lock as it forked.
        if self.leases.inner.process.is_forked() {
            return false;
        }
        let scope = self.scope.read().unwrap_or_else(PoisonError::into_inner);
        scope.as_ref().is_some_and(|scope| scope.guard.is_held())
    }

    pub(super) fn leadership(&self) -> Option<Term> {
        if self.leases.inner.process.is_forked() {
            return None;
        }
        let scope = self.scope.read().unwrap_or_else(PoisonError::into_inner);
        let guard = &scope.as_ref()?.guard;
        let valid_for = guard.remaining();
        (!valid_for.is_zero()).then(|| Term::new(guard.fence(), valid_for))
    }
}

impl SharedCandidate {
    /// Nobody has a handle any more. The task hears of that, too; but where its runtime stands still, what it leads would be renewed for ever.
    pub(super) fn leave(&self) {
        let inner = &self.leases.inner;
        // First: a thread of the parent's may have had the lock as it forked.
        if inner.process.is_forked() || self.over.is_cancelled() {
            return;
        }
        let scope = {
            let scope = self.scope.read().unwrap_or_else(PoisonError::into_inner);
            // A body keeps the key until it is over; or the task is at work, and hears of it.
            if scope.as_ref().is_some_and(|scope| Arc::strong_count(scope) > 1) {
                return;
            }
            scope.clone()
        };
        if let Some(scope) = scope {
            scope.guard.cell().belief.end();
            scope.over.cancel();
        }
        let lease = *self.listening();
        if let Some(lease) = lease {
            inner.forget(lease);
            inner.send(Command::Release(lease, None));
        }
    }

    /// The word that this leadership ends; given already where there is none.
    pub(super) fn cancelled(&self) -> Cancelled {
        let process = &self.leases.inner.process;
        // First: a thread of the parent's may have had the lock as it forked.
        let scope = if process.is_forked() { None } else { self.scope() };
        let over = scope.filter(|scope| scope.guard.is_held()).map(|scope| scope.over.clone());
        let none = || {
            let over = CancellationToken::new();
            over.cancel();
            over
        };
        Cancelled::by(&over.unwrap_or_else(none), process)
    }
}

/// Starts the task.
pub(super) fn start(
    plan: CandidatePlan,
    observes: bool,
) -> (Arc<SharedCandidate>, mpsc::UnboundedSender<CandidateRequest>) {
    let (wishes, wished) = mpsc::unbounded_channel();
    let (tell, told) = mpsc::unbounded_channel();
    let standing = if observes { Standing::Observing } else { Standing::Following };
    let shared = Arc::new(SharedCandidate {
        leases: plan.leases.clone(),
        key: plan.terms.key.clone(),
        ttl: plan.terms.ttl,
        grace: plan.grace,
        status: watch::Sender::new(Status { standing, leader: None }),
        over: CancellationToken::new(),
        scope: RwLock::new(None),
        listening: Mutex::new(None),
    });
    let runner = CandidateRunner {
        machine: Election::new(plan.terms.clone(), plan.bugs()),
        shared: Arc::clone(&shared),
        leases: plan.leases,
        owned: plan.owned,
        wishes: wishes.downgrade(),
        wished,
        tell,
        told,
        is_unheard: false,
        is_wished: true,
        cell: None,
        resigning: Vec::new(),
        wake_at: None,
        led: None,
        waiting: None,
        leader: None,
    };
    tokio::spawn(runner.run(if observes { Input::Observe } else { Input::Start }));
    (shared, wishes)
}

struct CandidateRunner {
    machine: Election,
    shared: Arc<SharedCandidate>,
    leases: Leases,
    owned: bool,
    wishes: mpsc::WeakUnboundedSender<CandidateRequest>,
    wished: mpsc::UnboundedReceiver<CandidateRequest>,
    tell: mpsc::UnboundedSender<HeardNotice>,
    told: mpsc::UnboundedReceiver<HeardNotice>,
    /// The leases take no more requests: nothing more comes of it.
    is_unheard: bool,
    /// Somebody may still wish something.
    is_wished: bool,
    /// What the leases' driver and the guard of the lease that was won last share.
    cell: Option<Arc<LeaseCell>>,
    resigning: Vec<oneshot::Sender<bool>>,
    wake_at: Option<Tick>,
    /// The fence of its last term.
    led: Option<Fence>,
    /// It wants to lead, and does not.
    waiting: Option<WaitMeter>,
    /// Who leads, for its users to see together with where it stands.
    leader: Option<Leader>,
}

impl CandidateRunner {
    async fn run(mut self, first: Input<'static>) {
        meters::begin_elections();
        let (key, holder) = (self.shared.key.clone(), self.leases.holder().clone());
        tell!(debug, name: "election.started", target: "tenure::election", %key, %holder, "candidate follows the key");
        self.input(first);
        while self.machine.standing() != Standing::Stopped {
            if self.is_unheard {
                // Its drop tells all who wait.
                return;
            }
            let clock = Arc::clone(&self.leases.inner.clock);
            tokio::select! {
                biased;
                Some(news) = self.told.recv() => self.hear(news),
                wish = self.wished.recv(), if self.is_wished => {
                    self.is_wished = wish.is_some();
                    self.grant(wish.unwrap_or(CandidateRequest::Stop));
                }
                () = sleep_until(&*clock, self.wake_at) => self.input(Input::Wake),
            }
        }
        self.leases.inner.stop_listening(*self.shared.listening());
        tell!(debug, name: "election.stopped", target: "tenure::election", %key, %holder, "candidate stopped");
        if self.owned {
            self.leases.stop().await;
        }
        self.shared.over.cancel();
    }

    fn hear(&mut self, news: HeardNotice) {
        if news.cell.is_some() {
            self.cell = news.cell;
        }
        self.input(Input::Told(&news.notice));
    }

    fn grant(&mut self, wish: CandidateRequest) {
        match wish {
            CandidateRequest::Resign(done) => {
                let leads = matches!(self.machine.standing(), Standing::Leading | Standing::SteppingDown);
                if leads {
                    self.resigning.push(done);
                    self.input(Input::Resign);
                }
            }
            CandidateRequest::Stop => self.input(Input::Stop),
            CandidateRequest::Body(reply) => {
                let scope = self.shared.scope().filter(|scope| {
                    let standing = self.machine.standing();
                    standing == Standing::Leading && body::may_begin(&scope.guard, self.shared.grace)
                });
                let permit =
                    scope.zip(self.wishes.upgrade()).map(|(scope, wishes)| Permit::new(scope, wishes));
                if permit.is_some() {
                    self.input(Input::BodyBegan);
                }
                // If nobody waits for it any more, the permit's drop says that the body has ended.
                let _ = reply.send(permit);
            }
            CandidateRequest::BodyEnded { joined } => self.input(Input::BodyEnded { joined }),
        }
    }

    fn input(&mut self, input: Input<'_>) {
        let (inner, key) = (Arc::clone(&self.leases.inner), &self.shared.key);
        let Output { changes, commands, wake_at } = self
            .machine
            .step(inner.clock.now(), input, &mut || inner.prefixes.next_id(key, LeaseKind::Leadership));
        self.wake_at = wake_at;
        for change in changes {
            self.change(change);
        }
        let standing = self.machine.standing();
        let shown = Status { standing, leader: self.leader.clone() };
        self.shared.status.send_if_modified(|status| {
            let is_news = *status != shown;
            *status = shown;
            is_news
        });
        self.wait(standing);
        for command in commands {
            // Held until it is sent: whoever had a handle last gives up what it finds here.
            let mut listening = self.shared.listening();
            if let Command::Acquire(lease, _) = &command {
                if self.wishes.upgrade().is_none() {
                    continue;
                }
                inner.stop_listening(listening.replace(*lease));
                self.is_unheard = !inner.listen_to(*lease, self.tell.clone());
            }
            if !self.is_unheard {
                inner.send(command);
            }
        }
        if !matches!(standing, Standing::Leading | Standing::SteppingDown) {
            for done in self.resigning.drain(..) {
                let _ = done.send(true);
            }
        }
    }

    /// Measures how long it follows until it leads.
    fn wait(&mut self, standing: Standing) {
        let (inner, key) = (&self.leases.inner, &self.shared.key);
        match standing {
            Standing::Following if self.waiting.is_none() => {
                let of = inner.prefixes.of_key(key, LeaseKind::Leadership);
                self.waiting = Some(WaitMeter::for_lease(of, 0, inner.clock.held()));
            }
            Standing::Following => {}
            Standing::Leading => {
                if let Some(waiting) = self.waiting.take() {
                    waiting.over(inner.clock.held());
                }
            }
            _ => self.waiting = None,
        }
    }

    fn change(&mut self, change: Change) {
        let (key, holder) = (&self.shared.key, self.leases.holder());
        let fence = self.shared.scope().map(|scope| display(scope.guard.fence()));
        match change {
            Change::Elected { lease, fence } => {
                tell!(
                    info, name: "election.elected", target: "tenure::election", %key, %fence, %holder, "elected: it leads the key"
                );
                meters::leadership_begun();
                self.elected(lease, fence);
            }
            Change::StepDown(cause) => {
                tell!(
                    info, name: "election.step_down", target: "tenure::election", %key, fence, %holder, reason = %cause,
                    "stepping down"
                );
                if let Some(scope) = self.shared.scope() {
                    scope.stop.cancel();
                }
            }
            Change::Ended(cause) => {
                meters::leadership_ended(&cause);
                self.ended();
                tell!(
                    info, name: "election.ended", target: "tenure::election", %key, fence, %holder, reason = %cause,
                    "leadership ended"
                );
            }
            Change::Leader(sighting) => {
                let leader = sighting.map(Leader::from);
                self.mind_namesake(leader.as_ref());
                let is_news = leader.is_some() || self.leader.is_some();
                if is_news {
                    let by = leader.as_ref().map(|leader| (display(&leader.holder), display(leader.fence)));
                    let (by, fence) = by.unzip();
                    tell!(
                        info, name: "election.leader", target: "tenure::election", %key, fence, %holder, leader = by,
                        "who leads has changed"
                    );
                }
                self.leader = leader;
            }
            Change::Failing(error) => {
                tell!(
                    warn, name: "election.failing", target: "tenure::election", %key, %holder, reason = %error,
                    "the key can't be followed for now"
                );
            }
            Change::Stopped => self.leader = None,
        }
    }

    /// Warns of a leader that has this candidate's own name, and none of the terms that it knows of.
    fn mind_namesake(&self, leader: Option<&Leader>) {
        if !self.owned {
            // Others lead under the name of these leases, too: a lock, or another candidate. Their session tells of namesakes.
            return;
        }
        let (key, holder) = (&self.shared.key, self.leases.holder());
        let Some(leader) = leader.filter(|leader| leader.holder == *holder && self.led < Some(leader.fence))
        else {
            return;
        };
        tell!(
            warn, name: "election.namesake", target: "tenure::election", %key, fence = %leader.fence, %holder,
            "a term that this candidate knows nothing of has its id; give each start of a process its own"
        );
    }

    fn elected(&mut self, lease: LeaseId, fence: Fence) {
        self.led = Some(fence);
        let terms = self.machine.terms();
        let cell = self.cell.take().unwrap_or_default();
        let (leases, key) = (self.leases.clone(), terms.key.clone());
        let guard = Guard::borrowed(leases, lease, key, fence, terms.ttl, terms.is_attached, cell);
        let leader = Leader {
            holder: self.leases.holder().clone(),
            fence,
            since: self.leases.inner.clock.now().wall,
            metadata: terms.labels.clone(),
        };
        let stop = CancellationToken::new();
        let over = stop.child_token();
        self.shared.set_scope(Some(Arc::new(LeadershipScope { guard, stop, over })));
        self.leader = Some(leader);
    }

    /// Nobody here believes from now on, whoever still has the guard included.
    fn ended(&self) {
        if let Some(scope) = self.shared.scope() {
            scope.guard.cell().belief.end();
            scope.over.cancel();
        }
        self.shared.set_scope(None);
    }
}

/// The task is gone before the candidate was stopped, with its runtime or since its leases were stopped: nobody is to wait for it, nor to believe, and what it led is not led
/// on. A body that goes on keeps the key until it is over.
impl Drop for CandidateRunner {
    fn drop(&mut self) {
        if self.shared.over.is_cancelled() {
            return;
        }
        let scope = self.shared.scope();
        self.ended();
        let listening = *self.shared.listening();
        if let Some(lease) = listening {
            let inner = &self.leases.inner;
            inner.stop_listening(Some(lease));
            inner.forget(lease);
            let has_bodies = scope.is_some_and(|scope| {
                scope.stop.cancel();
                Arc::into_inner(scope).is_none()
            });
            inner.send(if has_bodies { Command::Lapse(lease) } else { Command::Release(lease, None) });
        }
        self.shared
            .status
            .send_modify(|status| *status = Status { standing: Standing::Stopped, leader: None });
        self.shared.over.cancel();
    }
}
