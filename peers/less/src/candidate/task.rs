//! The task that drives a candidate's machine: makes its calls, minds its deadline and its user's wishes, and tells what has changed.

use super::{CandidateCommand, CandidateStatus, LeadershipState};
use crate::machine::{LeadershipMachine, LeadershipNotice, MachineStep, StorageAnswer, StorageCall};
use crate::options::CandidateOptions;
use crate::storage::Storage;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tenure_core::{ErrorKind, StoreError, Tick};
use tenure_store::parts::{caught, sleep_while};
use tenure_store::tell;
use tokio::sync::{mpsc, watch};

/// What drives the machine.
pub(super) struct CandidateTask {
    pub(super) shared: Arc<LeadershipState>,
    pub(super) storage: Arc<dyn Storage>,
    pub(super) options: CandidateOptions,
    pub(super) told: watch::Sender<CandidateStatus>,
    pub(super) uuid: fn() -> String,
}

impl CandidateTask {
    pub(super) async fn run(
        self,
        mut machine: LeadershipMachine,
        mut wished: mpsc::UnboundedReceiver<CandidateCommand>,
    ) {
        let (key, holder) = (self.shared.key.clone(), self.shared.id.clone());
        tell!(debug, name: "election.started", target: "tenure::election", key, holder, "candidate follows the key");
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
        tell!(debug, name: "election.stopped", target: "tenure::election", key, holder, "candidate stopped");
    }

    /// Makes a call, during which the deadline and the users' wishes are minded.
    async fn ask(
        &self,
        ask: StorageCall,
        machine: &mut LeadershipMachine,
        wished: &mut mpsc::UnboundedReceiver<CandidateCommand>,
    ) {
        let mut call =
            pin!(tokio::time::timeout(self.patience(), caught(ErrorKind::Unknown, self.call(&ask))));
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
        sleep_while(|| until.since(self.shared.clock.held()), self.shared.late).await;
    }

    fn tell(&self, notices: Vec<LeadershipNotice>) {
        let LeadershipState { key, id: holder, .. } = &*self.shared;
        for notice in notices {
            match notice {
                LeadershipNotice::Elected(deadline) => {
                    let terms = self.shared.terms.fetch_add(1, Ordering::SeqCst) + 1;
                    self.shared.deadline.store(deadline.0, Ordering::SeqCst);
                    tell!(info, name: "election.elected", target: "tenure::election", key, holder, "elected: it leads the key");
                    self.told.send_modify(|status| {
                        *status = CandidateStatus {
                            is_leading: true,
                            leader: Some(holder.clone()),
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
                    tell!(
                        info, name: "election.ended", target: "tenure::election", key, holder, reason = %cause, "leadership ended"
                    );
                }
                LeadershipNotice::Leader(leader) => {
                    let by = leader.as_deref();
                    tell!(
                        info, name: "election.leader", target: "tenure::election", key, holder, leader = by, "who leads has changed"
                    );
                    self.told.send_modify(|status| status.leader = leader);
                }
                LeadershipNotice::Failing(error) => {
                    tell!(
                        warn, name: "election.failing", target: "tenure::election", key, holder, reason = %error,
                        "the key can't be followed for now"
                    );
                    self.told.send_modify(|status| status.trouble = Some(error));
                }
                LeadershipNotice::SameId => {
                    tell!(
                        warn, name: "election.namesake", target: "tenure::election", key, holder,
                        "a term that this candidate knows nothing of has its id; give each start of a process its own"
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
