//! Permits of semaphores that this process holds or wants: one machine for each key, all on the process's session.

use crate::holder::Holder;
use crate::holder::command::Command;
use crate::holder::ctx::{Ctx, OpOwner};
use crate::holder::lease_id::LeaseId;
use crate::holder::loss::Loss;
use crate::holder::notice::Notice;
use crate::op::{Answer, Hint, OpId};
use crate::semaphore::{PREFIX, Semaphore, Wish};
use crate::values::error::StoreError;
use crate::values::key::Key;
use crate::values::record::Ask;
use crate::values::time::Now;
use std::collections::{BTreeMap, BTreeSet};

/// So many keys that nothing is wanted of are remembered, so that the next wish takes one write.
const IDLE: usize = 256;

/// The semaphores of a process.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Semaphores {
    machines: BTreeMap<Key, Semaphore>,
    /// Those of which something is wanted: few, beside all that a process may hold.
    wanted: BTreeSet<Key>,
    /// Which key each lease is about.
    keys: BTreeMap<LeaseId, Key>,
    /// The key whose record the audit looked at last.
    audited: Option<Key>,
}

impl Semaphores {
    /// Whether a lease is one of permits.
    pub(crate) fn has(&self, lease: LeaseId) -> bool {
        self.keys.contains_key(&lease)
    }

    /// Whether something is left of any, but for what is left to expire.
    pub(crate) fn is_open(&self) -> bool {
        self.machines.values().any(Semaphore::is_open)
    }

    /// Whether something is left to expire.
    pub(crate) fn is_lapsing(&self) -> bool {
        self.machines.values().any(Semaphore::is_lapsing)
    }

    /// Whether anything waits that a push of the store would tell sooner.
    pub(crate) fn listens(&self) -> bool {
        !self.wanted.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }
}

impl Holder {
    /// Begins to get permits: at once, or as soon as the session is up.
    pub(crate) fn acquire_permits(&mut self, now: Now, lease: LeaseId, wish: Wish) {
        if let Err(error) = wish.check() {
            return self.tell(Notice::Failed(lease, StoreError::invalid(error.to_string())));
        }
        let key = wish.key.clone();
        self.permits.keys.insert(lease, key.clone());
        self.step_semaphore(now, key.clone(), |semaphore, ctx| {
            semaphore.want(ctx, lease, wish);
            semaphore.go_on(ctx);
        });
        // It may have been refused at once.
        if !self.permits.machines.get(&key).is_some_and(|semaphore| semaphore.has(lease)) {
            self.permits.keys.remove(&lease);
        }
        self.want_session(now);
    }

    /// A command about permits: they are given up, or left to expire. Nothing else can be done with them.
    pub(crate) fn command_permits(&mut self, now: Now, command: Command) {
        let Some(lease) = command.lease() else { return };
        let Some(key) = self.permits.keys.get(&lease).cloned() else { return };
        self.step_semaphore(now, key, |semaphore, ctx| {
            match command {
                Command::Release(..)
                | Command::Finish(..)
                | Command::ReleaseNoted(..)
                | Command::Pass(..) => {
                    semaphore.release(lease);
                }
                Command::Lapse(_) => semaphore.lapse(ctx, lease),
                Command::Examine(_) => semaphore.ask(ctx),
                _ => semaphore.cannot(lease),
            }
            semaphore.go_on(ctx);
        });
    }

    pub(crate) fn answer_semaphore(
        &mut self,
        now: Now,
        key: Key,
        op: OpId,
        result: Result<Answer, StoreError>,
    ) {
        if self.permits.machines.contains_key(&key) {
            self.step_semaphore(now, key, |semaphore, ctx| semaphore.answer(ctx, op, result));
        }
    }

    pub(crate) fn wake_semaphore(&mut self, now: Now, key: Key) {
        self.step_semaphore(now, key, |semaphore, ctx| semaphore.go_on(ctx));
    }

    /// The store says that something has changed.
    pub(crate) fn semaphores_changed(&mut self, now: Now, hint: &Hint) {
        let version = if let Hint::Written(_, version) = hint { Some(*version) } else { None };
        let wanted = &self.permits.wanted;
        let meant: Vec<Key> = match hint.key() {
            Some(key) => wanted.get(key).into_iter().cloned().collect(),
            None => wanted.iter().cloned().collect(),
        };
        for key in meant {
            self.step_semaphore(now, key, |semaphore, ctx| semaphore.heard(ctx, version));
        }
    }

    /// Somebody asks something about a semaphore. True if it is one.
    pub(crate) fn asked_about_permits(&mut self, now: Now, key: &Key, ask: Ask) -> bool {
        if !key.as_str().starts_with(PREFIX) {
            return false;
        }
        let held = self.permits.machines.get(key).into_iter().flat_map(Semaphore::held);
        let held: Vec<LeaseId> = held.filter(|_| !ask.is_question()).collect();
        for lease in held {
            self.tell(Notice::Asked(lease, ask));
        }
        self.step_semaphore(now, key.clone(), |semaphore, ctx| semaphore.ask(ctx));
        true
    }

    /// The session was renewed: the record of the next semaphore is looked at of which something is held.
    pub(crate) fn audit_permits(&mut self, now: Now) {
        if self.env.rules.audit == 0 || self.env.rules.bugs.has(crate::Bug::PermitsUnaudited) {
            return;
        }
        let last = self.permits.audited.take();
        let is_next = |key: &Key| last.as_ref().is_none_or(|last| key > last);
        let holding = || self.permits.machines.iter().filter(|(_, machine)| machine.holds());
        let next = holding().find(|(key, _)| is_next(key)).or_else(|| holding().next());
        self.permits.audited = next.map(|(key, _)| key.clone());
        if let Some(key) = self.permits.audited.clone() {
            self.step_semaphore(now, key, |semaphore, ctx| semaphore.ask(ctx));
        }
    }

    /// The session is up: all semaphores go on.
    pub(crate) fn permits_go_on(&mut self, now: Now) {
        self.step_semaphores(now, |semaphore, ctx| semaphore.go_on(ctx));
    }

    pub(crate) fn permits_failed(&mut self, now: Now, error: &StoreError) {
        self.step_semaphores(now, |semaphore, ctx| semaphore.session_failed(ctx.now, error));
    }

    /// The session is gone, and all permits with it.
    pub(crate) fn permits_lost(&mut self, now: Now, loss: &Loss) {
        self.step_semaphores(now, |semaphore, ctx| semaphore.session_lost(ctx, loss));
        if self.permits.listens() {
            self.want_session(now);
        }
    }

    /// Gives up all permits.
    pub(crate) fn release_all_permits(&mut self, now: Now) {
        self.step_semaphores(now, |semaphore, ctx| semaphore.stop(ctx));
    }

    /// Has each semaphore take a step.
    fn step_semaphores(&mut self, now: Now, step: impl Fn(&mut Semaphore, &mut Ctx<'_>)) {
        for key in self.permits.machines.keys().cloned().collect::<Vec<_>>() {
            self.step_semaphore(now, key, &step);
        }
    }

    fn step_semaphore(&mut self, now: Now, key: Key, step: impl FnOnce(&mut Semaphore, &mut Ctx<'_>)) {
        let (ttl, most) = (self.env.identity.ttl, self.env.rules.semaphore_bytes);
        let mut semaphore = match self.permits.machines.remove(&key) {
            Some(semaphore) => semaphore,
            None => Semaphore::new(key.clone(), ttl, most),
        };
        let part = OpOwner::Semaphore(key.clone());
        let before: Vec<LeaseId> = semaphore.leases().collect();
        self.lend(now, part.clone(), |ctx| step(&mut semaphore, ctx));
        for notice in semaphore.take_notices() {
            self.tell(notice);
        }
        self.set_wake(part, semaphore.wake_at(now, self.session.attachment().is_some()));
        for lease in before.iter().filter(|lease| !semaphore.has(**lease)) {
            self.permits.keys.remove(lease);
        }
        if !semaphore.listens() {
            self.permits.wanted.remove(&key);
        } else if !self.permits.wanted.contains(&key) {
            self.permits.wanted.insert(key.clone());
        }
        if !semaphore.is_idle() || self.permits.machines.len() < IDLE {
            self.permits.machines.insert(key, semaphore);
        }
    }
}
