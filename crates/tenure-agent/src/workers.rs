//! Workers of fleets that clients have here: each takes part for as long as its client asks for units.

use crate::lease_table::LeaseTerms;
use crate::peer::ClientIdentity;
use crate::problem::Problem;
use crate::wire::OnExit;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure::clock::boottime;
use tenure::fleet::{Assignment, Event, Worker};
use tokio::sync::Notify;

/// The workers that clients have. Each has a session of its own, as it is by sessions that a fleet knows its workers.
#[derive(Default)]
pub(crate) struct Workers {
    state: Mutex<WorkersState>,
}

#[derive(Default)]
struct WorkersState {
    members: BTreeMap<String, Arc<ClientWorker>>,
    is_stopping: bool,
}

impl WorkersState {
    fn check_open(&self) -> Result<(), Problem> {
        if self.is_stopping { Err(Problem::stopping()) } else { Ok(()) }
    }

    fn check_room(&self) -> Result<(), Problem> {
        self.check_open()?;
        if self.members.len() >= Workers::MOST {
            return Err(Problem::too_many_workers(Workers::MOST));
        }
        Ok(())
    }
}

/// A worker, and what its client asked for.
pub(crate) struct ClientWorker {
    pub(crate) worker: Worker,
    /// Of each unit.
    pub(crate) terms: LeaseTerms,
    /// It leaves when its client has not asked for a unit for so long.
    patience: Duration,
    wanted: Mutex<Wanted>,
    left: Notify,
}

/// For how long its client wants a worker.
struct Wanted {
    /// Requests that wait for a unit. As long as there is one, the worker is wanted.
    askers: usize,
    /// By CLOCK_BOOTTIME, if nobody asks before.
    until: Duration,
}

impl ClientWorker {
    pub(crate) fn new(worker: Worker, terms: LeaseTerms, patience: Duration) -> ClientWorker {
        let wanted = Mutex::new(Wanted { askers: 0, until: boottime().saturating_add(patience) });
        ClientWorker { worker, terms, patience, wanted, left: Notify::new() }
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        // No code that can panic runs under the lock.
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long it is wanted at least, from now on. Zero: its client wants it no more.
    fn wanted_for(&self) -> Duration {
        let wanted = self.wanted();
        if wanted.askers > 0 { self.patience } else { wanted.until.saturating_sub(boottime()) }
    }

    /// The next unit that it was given, if that is within this time.
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&self, wait: Duration) -> Result<Option<Assignment>, Problem> {
        let _asking = self.asks();
        let next = async {
            loop {
                match self.worker.next().await {
                    Some(Event::Assigned(unit)) => return Some(unit),
                    // The unit's own entry tells of it.
                    Some(_) => {}
                    None => return None,
                }
            }
        };
        match tokio::time::timeout(wait, next).await {
            Ok(Some(unit)) => Ok(Some(unit)),
            Ok(None) => Err(Problem::over(LEFT)),
            Err(_) => Ok(None),
        }
    }

    /// Its client asks for a unit, until what is returned is dropped.
    pub(crate) fn asks(&self) -> Asking<'_> {
        self.wanted().askers += 1;
        Asking(self)
    }

    /// Until nobody wants it any more.
    async fn unwanted(&self) {
        /// A clock that counts suspends runs ahead of the timer's.
        const LONGEST: Duration = Duration::from_secs(1);
        loop {
            let left = self.wanted_for();
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = self.left.notified() => return,
                () = tokio::time::sleep(left.min(LONGEST)) => {}
            }
        }
    }
}

/// A request waits for a unit, however long that takes. Its client wants the worker for a while after that.
pub(crate) struct Asking<'a>(&'a ClientWorker);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut wanted = self.0.wanted();
        wanted.askers = wanted.askers.saturating_sub(1);
        wanted.until = boottime().saturating_add(self.0.patience);
    }
}

const LEFT: &str = "the worker has left its fleet: its client did not ask for units any more, or said so";

impl Workers {
    /// More are refused.
    pub(crate) const MOST: usize = 256;

    fn state(&self) -> MutexGuard<'_, WorkersState> {
        // No code that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room for one more.
    pub(crate) fn check_room(&self) -> Result<(), Problem> {
        self.state().check_room()
    }

    /// Takes in a client's worker, and looks after it until it has left.
    pub(crate) fn enter(
        self: &Arc<Self>,
        member: ClientWorker,
        peer: &Arc<ClientIdentity>,
    ) -> Result<String, Problem> {
        let (id, member) = (tenure::clock::uuid(), Arc::new(member));
        let peer = (member.terms.on_exit == OnExit::Release).then(|| Arc::clone(peer));
        {
            let mut state = self.state();
            // Others may have joined since this one was let in.
            state.check_room()?;
            state.members.insert(id.clone(), Arc::clone(&member));
        }
        let (workers, own) = (Arc::clone(self), id.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = member.unwanted() => {}
                () = ClientIdentity::any_ended(peer.as_deref()) => {}
            }
            // It takes no more units from here on. Those that it has are let go of one by one, each no sooner than its client is done with it or its
            // deadline is over.
            workers.state().members.remove(&own);
            member.worker.leave().await;
        });
        Ok(id)
    }

    pub(crate) fn find(&self, id: &str) -> Result<Arc<ClientWorker>, Problem> {
        let state = self.state();
        state.check_open()?;
        let member = state.members.get(id).cloned();
        member.ok_or_else(|| {
            Problem::not_found(
                "this agent has no worker of that id; it has left its fleet, or the agent was started anew",
            )
        })
    }

    /// Its client wants it no more. Waits until its units have gone to others.
    pub(crate) async fn leave(&self, id: &str) -> Result<(), Problem> {
        let member = self.find(id)?;
        self.state().members.remove(id);
        member.left.notify_one();
        member.worker.leave().await;
        Ok(())
    }

    /// All leave, and no more come.
    pub(crate) async fn stop(&self) {
        let members = {
            let mut state = self.state();
            state.is_stopping = true;
            std::mem::take(&mut state.members)
        };
        for member in members.values() {
            member.left.notify_one();
        }
        futures_util::future::join_all(members.values().map(|member| member.worker.leave())).await;
    }
}
