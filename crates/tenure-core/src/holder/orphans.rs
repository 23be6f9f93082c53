//! Orphaned claims: claims of this process that may stand in the store, or land there yet, though nobody here wants them.
//!
//! A claim that renews itself dies by itself. One that is attached lives as long as the session, so it must be looked for:
//! after a write whose outcome stayed unknown, and when someone asks the session about a key that it doesn't hold.

use crate::bugs::Bug;
use crate::holder::Holder;
use crate::holder::ctx::Part;
use crate::holder::update::{Change, Token, Update};
use crate::op::{Answer, OpId};
use crate::values::error::{ErrorKind, StoreError};
use crate::values::key::Key;
use crate::values::record::Stored;
use crate::values::time::{Now, Tick};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Orphan {
    /// How long until the look after the next.
    gap: Duration,
    reading: Option<OpId>,
    update: Option<Box<Update>>,
}

impl Holder {
    /// Looks after `key` now and then for some time.
    pub(crate) fn settle_orphan(&mut self, now: Now, key: Key) {
        if self.env.rules.bugs.has(Bug::ZombieForgotten) {
            return;
        }
        let gap = self.env.identity.ttl.part(2);
        let entry = self.orphans.entry(key.clone()).or_insert(Orphan { gap, reading: None, update: None });
        entry.gap = gap;
        let busy = entry.reading.is_some() || entry.update.is_some();
        if !busy {
            self.set_wake(Part::Orphan(key), Some(now.held));
        }
    }

    pub(crate) fn wake_orphan(&mut self, now: Now, key: &Key) {
        let part = Part::Orphan(key.clone());
        self.set_wake(part.clone(), None);
        let Some(mut orphans) = self.orphans.remove(key) else { return };
        if let Some(update) = &mut orphans.update {
            self.lend(now, part.clone(), |ctx| update.wake(ctx));
            self.set_wake(part, update.wake_at());
        } else {
            let ttl = self.env.identity.ttl;
            orphans.reading = Some(self.lend(now, part, |ctx| ctx.read(key, ttl)));
        }
        self.orphans.insert(key.clone(), orphans);
    }

    pub(crate) fn answer_orphan(
        &mut self,
        now: Now,
        key: &Key,
        op: OpId,
        result: Result<Answer, StoreError>,
    ) {
        let Some(mut orphans) = self.orphans.remove(key) else { return };
        let part = Part::Orphan(key.clone());
        if let Some(mut update) = orphans.update.take() {
            if self.lend(now, part.clone(), |ctx| update.answer(ctx, op, result)).is_some() {
                return self.look_later(now, key, orphans);
            }
            self.set_wake(part, update.wake_at());
            orphans.update = Some(update);
        } else if orphans.reading == Some(op) {
            orphans.reading = None;
            match result {
                Ok(Answer::Read(Some(seen))) if self.may_be_orphaned(&seen) => {
                    let Some(token) = token_of(key, seen) else { return };
                    let update =
                        self.start_update(now, part.clone(), token, Change::Vacate, Tick::NEVER, false);
                    self.set_wake(part, update.wake_at());
                    orphans.update = Some(Box::new(update));
                }
                Ok(_) => return self.look_later(now, key, orphans),
                Err(error) => {
                    // A damaged record is in everybody's way, and somebody mends it.
                    let lasts = !error.is_passing() && error.kind() != ErrorKind::Foreign;
                    let lasts = lasts && !self.env.rules.bugs.has(Bug::RefusedLookRepeated);
                    // Trouble is no look. One that is refused, and may be for good, is repeated ever more seldom, and never let go.
                    let longest = self.env.identity.ttl.duration() * 16;
                    orphans.gap = if lasts { orphans.gap.min(longest) } else { orphans.gap / 2 };
                    return self.look_later(now, key, orphans);
                }
            }
        }
        self.orphans.insert(key.clone(), orphans);
    }

    /// A claim on the session as it is now that no lease of this process has or may be about to get.
    fn may_be_orphaned(&self, seen: &Stored) -> bool {
        let Some(tenure) = &seen.record.tenure else { return false };
        let is_attached = tenure.attachment.is_some()
            && tenure.attachment == self.session.attachment(&self.env.identity.session);
        is_attached && !self.leases.values().any(|lease| lease.may_own(tenure.id))
    }

    /// Schedules the next look, ever later, and lets go after some 64 ttls. Whatever lands after that is found when
    /// someone asks for the key (see `Ask::Confirm`).
    fn look_later(&mut self, now: Now, key: &Key, mut orphans: Orphan) {
        let ttl = self.env.identity.ttl;
        if orphans.gap > ttl.duration() * 32 {
            return;
        }
        orphans.gap = (orphans.gap * 2).max(ttl.part(4));
        self.set_wake(Part::Orphan(key.clone()), Some(now.held.after(orphans.gap)));
        self.orphans.insert(key.clone(), orphans);
    }
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
