//! Loose ends: claims of this process that may stand in the store, or land there yet, though nobody here wants them.
//!
//! A claim that beats for itself dies by itself. One that rides lives as long as the session, so it must be looked for:
//! after a write whose outcome stayed unknown, and when someone asks the session about a key that it doesn't hold.

use crate::bugs::Bug;
use crate::ctx::Part;
use crate::edit::{Change, Edit, Token};
use crate::error::{ErrorKind, StoreError};
use crate::holder::Holder;
use crate::key::Key;
use crate::op::{Answer, OpId};
use crate::record::Stored;
use crate::time::{Now, Tick};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Loose {
    /// How long until the look after the next.
    gap: Duration,
    reading: Option<OpId>,
    edit: Option<Box<Edit>>,
}

impl Holder {
    /// Looks after `key` now and then for some time.
    pub(crate) fn tie_up(&mut self, now: Now, key: Key) {
        if self.desk.rules.bugs.has(Bug::ZombieForgotten) {
            return;
        }
        let gap = self.desk.identity.ttl.part(2);
        let entry = self.loose.entry(key.clone()).or_insert(Loose { gap, reading: None, edit: None });
        entry.gap = gap;
        let busy = entry.reading.is_some() || entry.edit.is_some();
        if !busy {
            self.set_wake(Part::Loose(key), Some(now.held));
        }
    }

    pub(crate) fn wake_loose(&mut self, now: Now, key: &Key) {
        let part = Part::Loose(key.clone());
        self.set_wake(part.clone(), None);
        let Some(mut loose) = self.loose.remove(key) else { return };
        if let Some(edit) = &mut loose.edit {
            self.lend(now, part.clone(), |ctx| edit.wake(ctx));
            self.set_wake(part, edit.wake_at());
        } else {
            let ttl = self.desk.identity.ttl;
            loose.reading = Some(self.lend(now, part, |ctx| ctx.read(key, ttl)));
        }
        self.loose.insert(key.clone(), loose);
    }

    pub(crate) fn answer_loose(&mut self, now: Now, key: &Key, op: OpId, result: Result<Answer, StoreError>) {
        let Some(mut loose) = self.loose.remove(key) else { return };
        let part = Part::Loose(key.clone());
        if let Some(mut edit) = loose.edit.take() {
            if self.lend(now, part.clone(), |ctx| edit.answer(ctx, op, result)).is_some() {
                return self.look_later(now, key, loose);
            }
            self.set_wake(part, edit.wake_at());
            loose.edit = Some(edit);
        } else if loose.reading == Some(op) {
            loose.reading = None;
            match result {
                Ok(Answer::Read(Some(seen))) if self.is_stray(&seen) => {
                    let Some(token) = token_of(key, seen) else { return };
                    let edit = self.start_edit(now, part.clone(), token, Change::Vacate, Tick::NEVER, false);
                    self.set_wake(part, edit.wake_at());
                    loose.edit = Some(Box::new(edit));
                }
                Ok(_) => return self.look_later(now, key, loose),
                Err(error) => {
                    // A damaged record is in everybody's way, and somebody mends it.
                    let lasts = !error.is_passing() && error.kind() != ErrorKind::Foreign;
                    let lasts = lasts && !self.desk.rules.bugs.has(Bug::RefusedLookRepeated);
                    // Trouble is no look. One that is refused, and may be for good, is repeated ever more seldom, and never let go.
                    let longest = self.desk.identity.ttl.duration() * 16;
                    loose.gap = if lasts { loose.gap.min(longest) } else { loose.gap / 2 };
                    return self.look_later(now, key, loose);
                }
            }
        }
        self.loose.insert(key.clone(), loose);
    }

    /// A claim on the session as it is now that no lease of this process has or may be about to get.
    fn is_stray(&self, seen: &Stored) -> bool {
        let Some(tenure) = &seen.record.tenure else { return false };
        let rides = tenure.ride.is_some() && tenure.ride == self.session.ride(&self.desk.identity.session);
        rides && !self.leases.values().any(|lease| lease.may_own(tenure.id))
    }

    /// Schedules the next look, ever later, and lets go after some 64 ttls. Whatever lands after that is found when
    /// someone asks for the key (see `Ask::Confirm`).
    fn look_later(&mut self, now: Now, key: &Key, mut loose: Loose) {
        let ttl = self.desk.identity.ttl;
        if loose.gap > ttl.duration() * 32 {
            return;
        }
        loose.gap = (loose.gap * 2).max(ttl.part(4));
        self.set_wake(Part::Loose(key.clone()), Some(now.held.after(loose.gap)));
        self.loose.insert(key.clone(), loose);
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
