//! Orphaned claims: claims of this process that may stand in the store, or land there yet, though no caller here wants them.
//!
//! A claim that renews itself dies by itself. An attached claim lives as long as the session. So it must be looked for
//! after a write with an unknown outcome, and when another process asks the session about a key that it doesn't hold.
//!
//! Each such key is *waited* for, *read*, and, if it shows an orphaned claim, *vacated*. Then it is waited for again, ever longer, and
//! dropped after some 64 ttls, unless the store refuses a look or the release. A claim that lands later is found when another process asks for the key (see `Ask::Confirm`).

use crate::bugs::Bug;
use crate::holder::Holder;
use crate::holder::ctx::{Ctx, OpOwner};
use crate::holder::update::{Token, Update, UpdateEnd, UpdateKind};
use crate::op::{Answer, OpId, Outcome};
use crate::values::error::{ErrorKind, StoreError};
use crate::values::key::Key;
use crate::values::record::Stored;
use crate::values::time::{Now, Tick, Ttl};
use std::collections::BTreeMap;
use std::time::Duration;

/// Keys that are looked at, each at its time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Orphans {
    /// The session's.
    ttl: Ttl,
    entries: BTreeMap<Key, Orphan>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Orphan {
    /// How long until the look after the next.
    gap: Duration,
    state: OrphanState,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum OrphanState {
    Waiting(Tick),
    Reading(OpId),
    Vacating(Box<Update>),
}

impl Orphans {
    /// None.
    pub(crate) fn new(ttl: Ttl) -> Orphans {
        Orphans { ttl, entries: BTreeMap::new() }
    }

    /// Nothing is attached to the session any more.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// When to come back for `key` if nothing happens.
    pub(crate) fn wake_at(&self, key: &Key) -> Option<Tick> {
        match &self.entries.get(key)?.state {
            OrphanState::Waiting(until) => Some(*until),
            OrphanState::Reading(_) => None,
            OrphanState::Vacating(update) => update.wake_at(),
        }
    }

    /// Looks after `key` now and then for some time.
    fn settle(&mut self, ctx: &Ctx<'_>, key: Key) {
        if ctx.rules.bugs.has(Bug::ZombieForgotten) {
            return;
        }
        let (gap, now) = (self.ttl.part(2), OrphanState::Waiting(ctx.now.held));
        match self.entries.get_mut(&key) {
            Some(orphan @ Orphan { state: OrphanState::Waiting(_), .. }) => {
                *orphan = Orphan { gap, state: now }
            }
            Some(orphan) => orphan.gap = gap,
            None => drop(self.entries.insert(key, Orphan { gap, state: now })),
        }
    }

    fn wake(&mut self, ctx: &mut Ctx<'_>, key: &Key) {
        let ttl = self.ttl;
        let Some(orphan) = self.entries.get_mut(key) else { return };
        match &mut orphan.state {
            OrphanState::Vacating(update) => update.wake(ctx),
            state @ OrphanState::Waiting(_) => *state = OrphanState::Reading(ctx.read(key, ttl)),
            OrphanState::Reading(_) => {}
        }
    }

    fn answer(&mut self, ctx: &mut Ctx<'_>, key: &Key, op: OpId, result: Result<Answer, StoreError>) {
        let ttl = self.ttl;
        let Some(orphan) = self.entries.get_mut(key) else { return };
        let look = match (&mut orphan.state, result) {
            // What stands there instead may be wanted, or plain data by now: it is judged like what a look shows.
            (OrphanState::Vacating(update), Ok(Answer::Write(Outcome::Lost(current))))
                if update.awaits(op) && !ctx.rules.bugs.has(Bug::ReleaseUnconditional) =>
            {
                Some(Ok(Answer::Read(current)))
            }
            (OrphanState::Vacating(update), result) => match update.answer(ctx, op, result) {
                None => return,
                // Who may look and may not release may be let release later.
                Some(UpdateEnd::GaveUp(error)) => Some(Err(error)),
                Some(_) => None,
            },
            (OrphanState::Reading(reading), result) if *reading == op => Some(result),
            (OrphanState::Reading(_) | OrphanState::Waiting(_), _) => return,
        };
        if let Some(result) = look {
            match result {
                Ok(Answer::Read(Some(seen))) if is_orphaned(&seen, ctx) => {
                    match token_of(key, seen) {
                        Some(token) => {
                            let update = Update::start(token, None, UpdateKind::Vacate, Tick::NEVER, ctx);
                            orphan.state = OrphanState::Vacating(Box::new(update));
                        }
                        None => drop(self.entries.remove(key)),
                    }
                    return;
                }
                Ok(_) => {}
                Err(error) => {
                    // A damaged record is in everybody's way, and somebody mends it.
                    let lasts = !error.is_passing() && error.kind() != ErrorKind::Foreign;
                    let lasts = lasts && !ctx.rules.bugs.has(Bug::RefusedLookRepeated);
                    // Trouble is no look. One that is refused, and may be for good, is repeated ever more seldom, and never let go.
                    orphan.gap = if lasts { orphan.gap.min(ttl.duration() * 16) } else { orphan.gap / 2 };
                }
            }
        }
        self.look_later(ctx, key);
    }

    /// A look that is under way may be answered by what was there before a loss that has just been learned of: it is made again.
    fn look_anew(&mut self, ctx: &Ctx<'_>, key: &Key) {
        if let Some(orphan) = self.entries.get_mut(key)
            && matches!(orphan.state, OrphanState::Reading(_))
        {
            orphan.state = OrphanState::Waiting(ctx.now.held);
        }
    }

    fn look_later(&mut self, ctx: &Ctx<'_>, key: &Key) {
        let Some(orphan) = self.entries.get_mut(key) else { return };
        if orphan.gap > self.ttl.duration() * 32 {
            self.entries.remove(key);
            return;
        }
        orphan.gap = (orphan.gap * 2).max(self.ttl.part(4));
        orphan.state = OrphanState::Waiting(ctx.now.held.after(orphan.gap));
    }
}

impl Holder {
    /// Looks after `key` now and then for some time: see [`Orphans`].
    pub(crate) fn settle_orphan(&mut self, now: Now, key: Key) {
        self.step_orphan(now, &key.clone(), |orphans, ctx| orphans.settle(ctx, key));
    }

    pub(crate) fn wake_orphan(&mut self, now: Now, key: &Key) {
        self.step_orphan(now, key, |orphans, ctx| orphans.wake(ctx, key));
    }

    pub(crate) fn answer_orphan(
        &mut self,
        now: Now,
        key: &Key,
        op: OpId,
        result: Result<Answer, StoreError>,
    ) {
        self.step_orphan(now, key, |orphans, ctx| orphans.answer(ctx, key, op, result));
    }

    /// A lease of `key` is lost: what a look shows that was sent before is not gone by.
    pub(crate) fn look_anew_for_orphan(&mut self, now: Now, key: &Key) {
        self.step_orphan(now, key, |orphans, ctx| orphans.look_anew(ctx, key));
    }

    fn step_orphan(&mut self, now: Now, key: &Key, step: impl FnOnce(&mut Orphans, &mut Ctx<'_>)) {
        let part = OpOwner::Orphan(key.clone());
        let (mut ctx, _, orphans) = self.split(now, part.clone());
        step(orphans, &mut ctx);
        self.set_wake(part, self.orphans.wake_at(key));
    }
}

/// A claim on the session as it is now that no lease of this process has or may be about to get.
fn is_orphaned(seen: &Stored, ctx: &Ctx<'_>) -> bool {
    let Some(tenure) = &seen.record.tenure else { return false };
    let is_attached = tenure.attachment.is_some() && tenure.attachment == ctx.session;
    is_attached && !ctx.is_ours(tenure.id)
}

/// What is needed to vacate the claim that `seen` shows.
fn token_of(key: &Key, seen: Stored) -> Option<Token> {
    let tenure = seen.record.tenure?;
    Some(Token {
        key: key.clone(),
        fence: seen.record.fence,
        id: tenure.id,
        version: seen.version,
        holder: tenure.holder,
        ttl: tenure.ttl,
        since: tenure.since,
        metadata: seen.record.metadata,
    })
}
