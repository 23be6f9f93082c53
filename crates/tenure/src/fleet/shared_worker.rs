//! What the driver of a worker and all that stands for it share.

use super::catalogue::Fleet;
use super::membership::Membership;
use super::users::{EndedByCommand, UnitReply, WorkerUsers};
use crate::belief::AtomicBelief;
use crate::process::Process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure_core::fleet::{FleetCommand, Planning, RequestId, Role, Summary};
use tenure_core::{Clock, HolderId, LeaseId, Loss, StoreError, Tick, Ttl};
use tokio::sync::{Notify, mpsc, oneshot, watch};

pub(super) struct SharedWorker {
    pub(super) fleet: Fleet,
    pub(super) process: Process,
    pub(super) session: AtomicBelief,
    pub(super) ttl: Ttl,
    pub(super) holder: HolderId,
    pub(super) summary: watch::Sender<Summary>,
    pub(super) trouble: watch::Sender<Option<StoreError>>,
    pub(super) planning: watch::Sender<(Role, Planning)>,
    /// Whether it takes part.
    pub(super) entry: watch::Sender<Membership>,
    commands: mpsc::UnboundedSender<FleetCommand>,
    /// It was told to leave or to stop.
    is_leaving: AtomicBool,
    /// Its driver has ended before the worker had stopped.
    has_crashed: AtomicBool,
    pub(super) users: Mutex<WorkerUsers>,
    /// Notified when there is news, or there won't be any more.
    pub(super) told: Notify,
}

impl SharedWorker {
    pub(super) fn new(
        fleet: Fleet,
        ttl: Ttl,
        holder: HolderId,
        commands: mpsc::UnboundedSender<FleetCommand>,
    ) -> SharedWorker {
        let (session, summary, trouble) =
            (AtomicBelief::default(), watch::Sender::default(), watch::Sender::default());
        let (users, told) = (Mutex::default(), Notify::new());
        let (planning, entry) = (watch::Sender::default(), watch::Sender::default());
        let process = Process::this();
        SharedWorker {
            fleet,
            process,
            session,
            ttl,
            holder,
            summary,
            trouble,
            planning,
            entry,
            commands,
            is_leaving: AtomicBool::new(false),
            has_crashed: AtomicBool::new(false),
            users,
            told,
        }
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        self.fleet.clock()
    }

    pub(super) fn users(&self) -> MutexGuard<'_, WorkerUsers> {
        // No code that can panic runs under the lock, so what it guards is whole. Nothing is told or measured under it, as for leases.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when its session, and what is attached to it, is believed in; by a forked child, never.
    pub(super) fn until(&self) -> Tick {
        if self.process.is_forked() { Tick(0) } else { self.session.until() }
    }

    /// Whether it was told to leave or to stop: then it is on purpose that it holds nothing any more.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::SeqCst)
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.has_crashed.load(Ordering::SeqCst)
    }

    /// The driver is gone, and nothing more is done for the worker. All hear that.
    pub(super) fn abandoned(&self) {
        self.entry.send_if_modified(Membership::leaves);
        let mut users = self.users();
        if !users.ending.is_over() {
            self.has_crashed.store(true, Ordering::SeqCst);
            users.end();
        }
        drop(users);
        self.told.notify_waiters();
    }

    pub(super) fn send(&self, command: FleetCommand) {
        // A forked child would only wake its parent's thread.
        if self.process.is_forked() {
            return;
        }
        if matches!(command, FleetCommand::Leave | FleetCommand::Stop) {
            self.is_leaving.store(true, Ordering::SeqCst);
            self.entry.send_if_modified(Membership::leaves);
        }
        // The driver only ends after everything is given up.
        let _ = self.commands.send(command);
    }

    /// Gives a command about a unit and waits for the answer; none when the worker has stopped.
    pub(super) async fn ask(
        &self,
        lease: LeaseId,
        ends: EndedByCommand,
        command: impl FnOnce(RequestId) -> FleetCommand,
    ) -> Option<UnitReply> {
        // First: a thread of the parent's may have had the lock as it forked.
        if !self.process.is_this() {
            return None;
        }
        let (sender, reply) = oneshot::channel();
        let request = {
            let mut users = self.users();
            if users.ending.is_over() {
                return None;
            }
            let request = users.draw();
            users.replies.insert((lease, request), (ends, sender));
            request
        };
        self.send(command(request));
        reply.await.ok()
    }

    /// Gives everything up at once.
    pub(super) fn stop(&self) {
        if !self.process.is_this() {
            return;
        }
        for share in self.users().shares.values() {
            share.lost(Loss::Stopped);
        }
        self.send(FleetCommand::Stop);
    }
}
