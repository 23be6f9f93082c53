//! What all clones of [`Leases`](crate::Leases), and all that is held by them, share.

use crate::belief::{AtomicBelief, LeaseCell};
use crate::bodies::Bodies;
use crate::direct::DirectStore;
use crate::driver::{Troubles, sleep_until};
use crate::home::{Driving, Home};
use crate::meters;
use crate::prefixes::Prefixes;
use crate::process::Process;
use crate::ttl::{check_drift, checked_ttl};
use crate::users::{CommandReply, HeardNotice, LeaseUsers, PendingCommand};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tenure_core::{
    Clock, Command, Drift, HolderId, InvalidInput, Key, LeaseId, Loss, Metadata, Nonce, Nonces, Notice,
    StoreError, Tick, Ttl, reserved,
};
use tenure_store::AnyStore;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) struct SharedLeases {
    pub(crate) store: AnyStore,
    /// The same, for whoever asks it without the driver.
    pub(crate) direct: DirectStore,
    /// Whose leases these are.
    pub(crate) process: Process,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) session_ttl: Ttl,
    /// How often the session is renewed, at the least.
    pub(crate) renew_every: Duration,
    /// How far the clocks' rates may be off.
    pub(crate) drift: Drift,
    /// Whether the dead may be recognised at first sight.
    pub(crate) first_sight: bool,
    pub(crate) session: AtomicBelief,
    pub(crate) holder: HolderId,
    pub(crate) session_key: Key,
    /// What the keys of sessions begin with.
    pub(crate) session_prefix: String,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) prefixes: Arc<Prefixes>,
    /// Marks writes that no machine makes.
    pub(crate) nonces: Mutex<Nonces>,
    pub(crate) users: Mutex<LeaseUsers>,
    /// Where what works in the background of these leases runs.
    pub(crate) home: Home,
    pub(crate) driving: OnceLock<Driving>,
    /// How long the last handle's end may block.
    pub(crate) linger: Duration,
    /// The store answers though the thread that waits for it does nothing else.
    pub(crate) is_elsewhere: bool,
    pub(crate) troubles: Arc<Troubles>,
    pub(crate) store_patience: Option<Duration>,
    /// Leases that outlast a stop until then, because others count on that.
    pub(crate) kept: Mutex<BTreeMap<LeaseId, Tick>>,
    /// Those that a stop ends before it gives anything up.
    pub(crate) bodies: Arc<Bodies>,
}

impl SharedLeases {
    /// Until when a lease is believed in: one that is attached, no longer than the session; by a forked child, never.
    pub(crate) fn until(&self, own: &AtomicBelief, is_attached: bool) -> Tick {
        if self.process.is_forked() {
            return Tick(0);
        }
        if is_attached { own.until().min(self.session.until()) } else { own.until() }
    }

    /// The same, if belief goes on where it is suspended.
    pub(crate) fn deadline(&self, own: &AtomicBelief, is_attached: bool) -> Tick {
        if self.process.is_forked() {
            return Tick(0);
        }
        if is_attached { own.deadline().min(self.session.deadline()) } else { own.deadline() }
    }

    pub(crate) fn users(&self) -> MutexGuard<'_, LeaseUsers> {
        // No code that can panic runs under the lock, so what it guards is whole. Nothing is told or measured under it, either: subscribers
        // and recorders may ask what is held, and those with locks of their own may be asked for them meanwhile.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `key` is free for a lease: none of tenure's own records, which a claim would write over.
    pub(crate) fn check_free(&self, key: &Key) -> Result<(), InvalidInput> {
        let is_ours = self.session_prefix.is_empty() && *key == self.session_key;
        let prefix = if is_ours { self.session_key.as_str() } else { &self.session_prefix };
        reserved::check_with_sessions(key, prefix)
    }

    /// The ttl of a lease that renews itself, if these leases can keep it.
    pub(crate) fn checked_ttl(&self, ttl: Duration) -> Result<Ttl, InvalidInput> {
        let ttl = checked_ttl(&self.store, ttl)?;
        check_drift(self.drift, ttl, self.renew_every)?;
        Ok(ttl)
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<LeaseId, Tick>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives `lease` up once it is that late; what is stopped before leaves it to expire. Told with what comes of it.
    pub(crate) fn release_at(
        self: &Arc<Self>,
        lease: LeaseId,
        metadata: Option<Metadata>,
        at: Tick,
    ) -> oneshot::Receiver<bool> {
        let (sender, released) = oneshot::channel();
        let (inner, clock) = (Arc::downgrade(self), Arc::clone(&self.clock));
        self.beside(async move {
            sleep_until(&*clock, Some(at)).await;
            let Some(inner) = inner.upgrade() else { return };
            inner.keep_no_longer(lease);
            let reply = inner.ask(lease, Command::Release(lease, metadata));
            drop(inner);
            // Mostly nobody waits.
            let _ = sender.send(matches!(reply.await, Ok(CommandReply::Released(true))));
        });
        released
    }

    /// Ends `lease` once it is that late, if it is held then: its holder is told, and its record is left to expire, as its holder may act still.
    /// Nothing is left of that once what is returned is dropped.
    pub(crate) fn end_at(
        self: &Arc<Self>,
        lease: LeaseId,
        cell: &Arc<LeaseCell>,
        at: Tick,
        most: Duration,
    ) -> DropGuard {
        let (inner, cell, clock) = (Arc::downgrade(self), Arc::downgrade(cell), Arc::clone(&self.clock));
        let dropped = CancellationToken::new();
        let limit = dropped.clone().drop_guard();
        self.beside(async move {
            tokio::select! {
                () = sleep_until(&*clock, Some(at)) => {}
                () = dropped.cancelled() => return,
            }
            let (Some(inner), Some(cell)) = (inner.upgrade(), cell.upgrade()) else { return };
            let now = clock.held();
            let mut users = inner.users();
            // It is being given up: that may take a while, and would not go on. Whoever does so first ends belief, and asks for it after that.
            if cell.belief.deadline() == Tick(0) {
                return;
            }
            let ended = users.cells.end(lease, now);
            if ended.is_some() {
                // First, or a guard that is dropped on the news, in another thread, would give the key up at once.
                inner.send(Command::Lapse(lease));
                // A change of it that is under way may still come to stand, and nothing more is told of that.
                users.over(lease, &Loss::Overran);
            }
            drop(users);
            if let Some(ended) = ended {
                ended.measure(&inner.prefixes);
                meters::lease_lost(&Loss::Overran, inner.prefixes.of(lease));
                cell.tell_overrun(&inner.holder, most);
                cell.lost(Loss::Overran);
            }
        });
        limit
    }

    pub(crate) fn beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(driving) = self.driving.get() {
            driving.spawn(work);
        }
    }

    /// From now until then, or until it is released, `lease` outlasts a stop. It renews itself, or leaves its session to expire.
    pub(crate) fn keep_until(&self, lease: LeaseId, at: Tick) {
        self.kept().insert(lease, at);
    }

    pub(crate) fn keep_no_longer(&self, lease: LeaseId) {
        self.kept().remove(&lease);
    }

    /// Gives everything up once bodies have ended. From now on none begins, and nothing more can be acquired.
    pub(crate) fn stop(self: &Arc<Self>) {
        self.bodies.stop();
        if !self.bodies.any_runs() {
            return self.give_all_up(&self.bodies.stuck());
        }
        let inner = Arc::clone(self);
        self.beside(async move {
            let unended = inner.bodies.ended().await;
            inner.give_all_up(&unended);
        });
    }

    /// Gives up all but leases under which bodies run on: those are left to expire.
    fn give_all_up(&self, unended: &[LeaseId]) {
        // First, or a guard that is dropped on the news, in another thread, would give the key up at once.
        for lease in unended {
            self.send(Command::Lapse(*lease));
        }
        let mut users = self.users();
        users.is_stopping = true;
        for cell in users.cells.iter() {
            cell.lost(Loss::Stopped);
        }
        drop(users);
        self.keep();
        self.send(Command::Stop);
    }

    /// Leaves to expire what must not be free yet.
    pub(crate) fn keep(&self) {
        let now = self.clock.held();
        for (lease, at) in std::mem::take(&mut *self.kept()) {
            if at > now {
                self.send(Command::Lapse(lease));
            }
        }
    }

    pub(crate) fn nonce(&self) -> Nonce {
        self.nonces.lock().unwrap_or_else(PoisonError::into_inner).draw()
    }

    pub(crate) fn send(&self, command: Command) {
        // A forked child would only wake its parent's thread.
        if self.process.is_forked() {
            return;
        }
        // The driver outlives every sender but after a stop, and then there is nothing left to do.
        let _ = self.commands.send(command);
    }

    /// Sends a command about `id` whose answer will come through the returned channel.
    pub(crate) fn ask(&self, id: LeaseId, command: Command) -> oneshot::Receiver<CommandReply> {
        let (sender, reply) = oneshot::channel();
        let asked = PendingCommand::of(&command);
        // What would be given up again at once is not asked for. The sender is dropped, and with it the wait ends.
        if asked == PendingCommand::Acquire && self.bodies.is_stopping() {
            return reply;
        }
        // First: a thread of the parent's may have had the lock as it forked.
        if !self.process.is_this() {
            return reply;
        }
        {
            let mut users = self.users();
            if asked == PendingCommand::Update && users.is_changing(id) {
                // Its answer and this one's could not be told apart.
                let text = "an earlier change of the lease is still under way; try again when it has ended";
                let _waits = sender.send(CommandReply::Gone(StoreError::unavailable(text).into()));
                return reply;
            }
            // After a stop nobody would answer.
            if !users.ending.is_over() {
                users.replies.insert(id, (asked, sender));
            }
        }
        self.send(command);
        reply
    }

    /// From now on, all that is told of `lease`, which is about to be acquired, goes to `listener`, and all that is told of the session,
    /// beginning with how it is now. False if nothing is told: it is too late for a lease, or this is a forked child.
    pub(crate) fn listen_to(&self, lease: LeaseId, listener: mpsc::UnboundedSender<HeardNotice>) -> bool {
        // What would be given up again at once is not acquired.
        let is_stopping = self.bodies.is_stopping();
        if is_stopping || !self.process.is_this() {
            return false;
        }
        let mut users = self.users();
        let is_told = !users.ending.is_over();
        if is_told {
            // Under the same lock as what is told, so that nothing comes in between.
            let notice = Notice::SessionValid(self.session.until());
            let _ = listener.send(HeardNotice { notice, cell: None });
            users.listeners.insert(lease, listener);
        }
        is_told
    }

    pub(crate) fn stop_listening(&self, lease: Option<LeaseId>) {
        if let Some(lease) = lease {
            self.users().listeners.remove(&lease);
        }
    }

    /// Nobody has it any more, nor believes in it.
    pub(crate) fn forget(&self, id: LeaseId) {
        if self.process.is_forked() {
            return;
        }
        let now = self.clock.held();
        let ended = self.users().cells.end(id, now);
        if let Some(ended) = ended {
            ended.cell.belief.end();
            ended.measure(&self.prefixes);
        }
    }
}

/// What was yet to be given up is not had any more: the driver has nobody left to tell what becomes of it.
impl Drop for SharedLeases {
    fn drop(&mut self) {
        // A recorder of the parent's may have been locked as it forked.
        if self.process.is_forked() {
            return;
        }
        let now = self.clock.held();
        let left = self.users().cells.end_all(now);
        left.iter().for_each(|ended| ended.measure(&self.prefixes));
    }
}

/// The end of time as a tick, or that of `patience` from now.
pub(crate) fn end_of(clock: &dyn Clock, patience: Duration) -> Tick {
    clock.held().after(patience)
}

#[cfg(test)]
mod tests {
    //! Plan: nothing is left of a least time once a lease is left to expire, or has become plain data.
    use crate::Leases;
    use std::time::Duration;

    #[tokio::test]
    async fn of_a_least_time_nothing_is_left_once_its_lease_is_out_of_our_hands() {
        let leases = Leases::builder(crate::memory()).start().unwrap();
        for n in 0..10 {
            let lock = leases.lock(format!("k{n}"));
            lock.at_least_for(Duration::from_secs(3600)).try_acquire().await.unwrap().lapse().await;
            let lock = leases.lock(format!("t{n}"));
            let guard = lock.at_least_for(Duration::from_millis(1)).try_acquire().await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
            guard.into_token().await.unwrap();
        }
        assert_eq!(leases.inner.kept().len(), 0);
    }
}
