//! Turns: which lease of this process is next to have a key that several of them wait for.
//!
//! Of all acquisitions of a process that wait for one key, the first asks the store. The others wait for their turn, and cost nothing. The
//! lease that gives the key up writes the next one's tenure over its own. That one write takes the place of a release, a push and a race.
//!
//! Other waiting processes have their turn, too. A process hands a key on for at most a sixteenth of a ttl. Then it vacates the key and
//! stands aside for a moment. That moment is longer without a push, since the other processes then only poll.

use crate::bugs::Bug;
use crate::holder::Holder;
use crate::holder::acquisition::{Acquisition, AcquisitionEnd, Won};
use crate::holder::ctx::Ctx;
use crate::holder::lease::{AttachedLease, LeaseState, UpdatePurpose};
use crate::holder::lease_id::LeaseId;
use crate::holder::update::{Fields, Successor, UpdateKind};
use crate::values::fence::Version;
use crate::values::key::Key;
use crate::values::record::Occupant;
use crate::values::time::{Now, Tick};
use std::collections::{BTreeMap, BTreeSet};

/// Who waits for which key, in the order in which they came.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Turns {
    lines: BTreeMap<Key, KeyQueue>,
    /// How keys are held that were handed on here, or that others ask for; also while nobody waits for them.
    streaks: BTreeMap<Key, Streak>,
}

/// Those who wait for one key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct KeyQueue {
    /// The one that asks the store.
    first: LeaseId,
    behind: BTreeSet<LeaseId>,
}

/// How this process has a key.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
struct Streak {
    /// Since when it hands the key on among its own.
    since: Option<Tick>,
    /// Another process has asked for the key: it goes to none of ours.
    asked: bool,
    /// The store has told of a change of the key.
    pushed: bool,
}

impl Turns {
    /// Whether others of this process wait for the key already: then `id` waits behind them.
    pub(crate) fn join(&mut self, key: &Key, id: LeaseId) -> bool {
        match self.lines.get_mut(key) {
            Some(line) => line.first != id && { line.behind.insert(id) | true },
            None => {
                let line = KeyQueue { first: id, behind: BTreeSet::new() };
                self.lines.insert(key.clone(), line);
                false
            }
        }
    }

    /// `id` waits no longer. Answers with who is first from now on, if that was `id` before.
    fn leave(&mut self, key: &Key, id: LeaseId) -> Option<LeaseId> {
        let line = self.lines.get_mut(key)?;
        if line.first != id {
            line.behind.remove(&id);
            return None;
        }
        match line.behind.pop_first() {
            Some(next) => line.first = next,
            None => drop(self.lines.remove(key)),
        }
        self.first(key)
    }

    fn first(&self, key: &Key) -> Option<LeaseId> {
        self.lines.get(key).map(|line| line.first)
    }

    /// The key is not held here any more, and whoever has it next here begins anew.
    pub(crate) fn over(&mut self, key: &Key) {
        self.streaks.remove(key);
    }

    /// Another process asks whoever holds the key here for it.
    pub(crate) fn asked(&mut self, key: &Key) {
        self.streaks.entry(key.clone()).or_default().asked = true;
    }

    /// The store tells of a change of this key, or of any.
    pub(crate) fn heard(&mut self, key: Option<&Key>) {
        match key {
            Some(key) => self.streaks.get_mut(key).into_iter().for_each(|streak| streak.pushed = true),
            None => self.streaks.values_mut().for_each(|streak| streak.pushed = true),
        }
    }
}

impl Holder {
    /// `id` does not want the key any more, or has it: in this version. Who is first from now on has slept meanwhile, and looks, unless it is
    /// ours.
    pub(crate) fn leave_line(&mut self, now: Now, key: &Key, id: LeaseId, ours: Option<Version>) {
        let Some(next) = self.turns.leave(key, id) else { return };
        if self.env.rules.bugs.has(Bug::TurnForgotten) {
            return;
        }
        self.with_waiting(now, next, |acquisition, ctx| acquisition.come_first(ctx, ours));
    }

    /// Nobody of these waits any more, as what they were to be attached to is lost.
    pub(crate) fn leave_lines(&mut self, now: Now, ids: &[LeaseId]) {
        self.turns.streaks.clear();
        let mut left = Vec::new();
        for id in ids {
            if let Some(LeaseState::Acquiring(acquisition)) = self.leases.get(id) {
                left.push((acquisition.key().clone(), *id));
            }
        }
        let mut first = BTreeMap::new();
        for (key, id) in left {
            if let Some(next) = self.turns.leave(&key, id) {
                first.insert(key, next);
            }
        }
        for (key, next) in first {
            if self.turns.first(&key) == Some(next) && !ids.contains(&next) {
                self.with_waiting(now, next, |acquisition, ctx| acquisition.come_first(ctx, None));
            }
        }
    }

    /// The key has just been vacated here, in this version, or it is not known what became of it: who waits here need not be told of
    /// that by the store.
    pub(crate) fn wake_first(&mut self, now: Now, key: &Key, vacated: Option<Version>) {
        let Some(first) = self.turns.first(key) else { return };
        self.with_waiting(now, first, |acquisition, ctx| match vacated {
            Some(version) => acquisition.freed(ctx, version),
            None => acquisition.not_given(ctx),
        });
    }

    /// Who holds `key`, as far as others know who wait for it here.
    pub(crate) fn known_occupant(&self, key: &Key) -> Option<Occupant> {
        let first = self.turns.first(key).and_then(|first| self.leases.get(&first));
        if let Some(LeaseState::Acquiring(acquisition)) = first
            && let Some(occupant) = acquisition.occupant()
        {
            return Some(occupant.clone());
        }
        self.leases.values().find_map(|lease| match lease {
            LeaseState::Attached(attached) if attached.key() == key => Some(Occupant {
                holder: self.env.identity.holder.clone(),
                fence: attached.fence(),
                since: attached.since(),
            }),
            _ => None,
        })
    }

    fn with_waiting(
        &mut self,
        now: Now,
        id: LeaseId,
        f: impl FnOnce(&mut Acquisition, &mut Ctx<'_>) -> Option<AcquisitionEnd>,
    ) {
        match self.leases.remove(&id) {
            Some(LeaseState::Acquiring(acquisition)) => self.step_acquisition(now, id, acquisition, f),
            Some(lease) => self.put(id, lease),
            None => {}
        }
    }

    /// Gives up what `attached` holds: to the next one of this process if it may have it, else to whoever comes.
    pub(crate) fn give_up(
        &mut self,
        now: Now,
        id: LeaseId,
        attached: AttachedLease,
        fields: Fields,
        purpose: UpdatePurpose,
    ) {
        let key = attached.key().clone();
        let is_plain = fields == Fields::Keep && !attached.is_capped();
        if let Some(next) = self.next(now, &key).filter(|_| is_plain) {
            let token = self.token_of_attached(&attached);
            return self.part_with(now, id, token, UpdateKind::Next(Box::new(next)), purpose, fields);
        }
        self.turns.streaks.remove(&key);
        self.vacate(now, id, attached, fields, purpose);
    }

    /// Who of this process has the key next, if that is nobody else's turn.
    fn next(&mut self, now: Now, key: &Key) -> Option<Successor> {
        let attachment = self.session.attachment()?;
        let (ttl, bugs) = (self.env.identity.ttl, self.env.rules.bugs);
        let first = self.turns.first(key)?;
        let Some(LeaseState::Acquiring(acquisition)) = self.leases.get_mut(&first) else { return None };
        if self.stopping {
            return None;
        }
        let streak = self.turns.streaks.entry(key.clone()).or_default();
        let since = *streak.since.get_or_insert(now.held);
        let is_long = now.held.since(since) > ttl.part(16) && !bugs.has(Bug::TurnsUnending);
        if streak.asked || is_long {
            let aside = ttl.part(if streak.pushed { 512 } else { 64 });
            acquisition.leave_alone(now.held.after(aside));
            return None;
        }
        let metadata = acquisition.takes_from_here(now, &attachment)?;
        Some(Successor { lease: first, attachment, ttl, metadata })
    }

    /// The record shows the next one's tenure. If nobody wants it any more, it is given up in turn.
    pub(crate) fn handed_on(&mut self, now: Now, id: LeaseId, key: Key, next: LeaseId, won: Won) {
        self.env.detector.end(&key);
        let is_gone = match self.leases.get(&next) {
            Some(LeaseState::Acquiring(acquisition)) => !acquisition.may_be_given(won.sent),
            _ => true,
        };
        if is_gone && !self.env.rules.bugs.has(Bug::TurnOfTheGone) {
            return self.give_up(now, id, AttachedLease::new(key, won), Fields::Keep, UpdatePurpose::Vacate);
        }
        // Only with that bug may it be abandoned here. Then it vanishes, and nobody is told.
        if let Some(LeaseState::Acquiring(acquisition)) = self.leases.remove(&next)
            && !acquisition.is_abandoned()
        {
            self.after_acquisition(now, next, acquisition, Some(AcquisitionEnd::Won(won)));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: nothing is kept of a key that others asked for, once it is not held here any more, however that came.
    use super::*;
    use crate::holder::Identity;
    use crate::holder::update::Transferee;
    use crate::rules::Rules;
    use crate::values::fence::{Fence, Nonce};
    use crate::values::key::HolderId;
    use crate::values::metadata::Metadata;
    use crate::values::record::Attachment;
    use crate::values::time::{Ttl, Wall};

    #[test]
    fn nothing_is_kept_of_a_key_that_others_asked_for_once_it_is_not_held_here() {
        let (id, key, session) = (LeaseId(1), Key::new("k").unwrap(), Key::new("session/b").unwrap());
        let other = || Transferee {
            holder: HolderId::new("b").unwrap(),
            attachment: Attachment { session: session.clone(), fence: Fence(7) },
            ttl: Ttl::MAX,
        };
        let ends: [&dyn Fn(&mut Holder); 4] = [
            &|holder| holder.lapse(Now::default(), id),
            &|holder| holder.pass(Now::default(), id, other(), Metadata::new()),
            &|holder| holder.detach(Now::default(), id, Ttl::MAX),
            &|holder| holder.release(Now::default(), id, Fields::Keep),
        ];
        for (n, end) in ends.iter().enumerate() {
            let identity = Identity {
                holder: HolderId::new("a").unwrap(),
                session: Key::new("session/a").unwrap(),
                ttl: Ttl::MAX,
                about: Metadata::new(),
                instance: 1,
            };
            let mut holder = Holder::new(identity, Rules::default());
            let won = Won {
                id: Nonce(1),
                fence: Fence(3),
                version: Version(1),
                sent: Tick(0),
                wall: Wall(0),
                since: Wall(0),
                metadata: Metadata::new(),
            };
            holder.leases.insert(id, LeaseState::Attached(AttachedLease::new(key.clone(), won)));
            holder.turns.asked(&key);
            end(&mut holder);
            assert!(holder.turns.streaks.is_empty(), "{n}");
        }
    }
}
