//! What all clones of a section, and all that is held of it, share.

use super::users::SectionUsers;
use crate::belief::AtomicBelief;
use crate::bodies::Bodies;
use crate::direct::DirectStore;
use crate::home::{Driving, Home};
use crate::process::Process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tenure_core::section::{SectionCommand, SectionNotice};
use tenure_core::{Clock, HolderId, Key, LeaseId, Tick};
use tokio::sync::{mpsc, oneshot};

pub(super) struct SharedSection {
    pub(super) direct: DirectStore,
    pub(super) process: Process,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) key: Key,
    pub(super) holder: HolderId,
    pub(super) commands: mpsc::UnboundedSender<SectionCommand>,
    pub(super) last_id: AtomicU64,
    pub(super) users: Mutex<SectionUsers>,
    pub(super) bodies: Arc<Bodies>,
    pub(super) least: Duration,
    pub(super) longest: Duration,
    pub(super) grace: Option<Duration>,
    pub(super) home: Home,
    /// How long its last handle may wait for what is given up.
    pub(super) linger: Duration,
    /// Whether the store's connections are on none of the user's threads.
    pub(super) is_elsewhere: bool,
    pub(super) driving: OnceLock<Driving>,
}

impl SharedSection {
    pub(super) fn next_id(&self) -> LeaseId {
        LeaseId(self.last_id.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Whether a range was ever wanted.
    pub(super) fn was_asked(&self) -> bool {
        self.last_id.load(Ordering::Relaxed) > 0
    }

    pub(super) fn users(&self) -> MutexGuard<'_, SectionUsers> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when a lease is believed in; by a forked child, never.
    pub(super) fn until(&self, belief: &AtomicBelief) -> Tick {
        if self.process.is_forked() { Tick(0) } else { belief.until() }
    }

    pub(super) fn send(&self, command: SectionCommand) {
        // A forked child would only wake its parent's thread.
        if self.process.is_forked() {
            return;
        }
        // The driver outlives every sender but after a stop, and then there is nothing left to do.
        let _ = self.commands.send(command);
    }

    /// Does something where the driver is, whatever becomes of the caller's runtime.
    pub(super) fn beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(driving) = self.driving.get() {
            driving.spawn(work);
        }
    }

    /// Sends a command whose answer will come through the returned channel.
    pub(super) fn ask(&self, command: SectionCommand) -> oneshot::Receiver<SectionNotice> {
        let (sender, reply) = oneshot::channel();
        // In a forked child nobody would answer.
        if !self.process.is_this() {
            return reply;
        }
        if let Some(lease) = command.lease() {
            self.users().wait(lease, sender);
        }
        self.send(command);
        reply
    }

    /// Nobody waits for an answer about this lease any more.
    pub(super) fn forget(&self, lease: LeaseId) {
        if self.process.is_forked() {
            return;
        }
        self.users().take(lease);
    }
}
