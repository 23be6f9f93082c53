//! What this worker leaves alone for a while: units that it could not get, and dead sessions that others are to end first.

use super::ring::is_first;
use super::worker::Worker;
use crate::command::LeaseId;
use crate::key::Key;
use crate::record::Stored;
use crate::time::{Now, Tick};
use std::collections::{BTreeMap, BTreeSet};

/// In how many spans, each twice as long as the one before, all are asked to look again after a unit that can't be had.
const ROUNDS: u32 = 3;
/// The most units that a worker says it has declined.
const DECLINED: usize = 64;

/// A unit that is planned for this worker, and was not to be had.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Miss {
    rounds: u32,
    /// Until then, another miss is the same one.
    until: Tick,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Doubts {
    missed: BTreeMap<Key, Miss>,
    /// Dead sessions that others are to end, as they were listed.
    dead: Vec<(Key, Stored)>,
    end_at: Tick,
    /// When to list again, of one's own accord.
    pub(super) list_at: Option<Tick>,
}

impl Doubts {
    pub(super) fn wake_at(&self) -> Option<Tick> {
        (!self.dead.is_empty()).then_some(self.end_at)
    }

    /// It was got, or is nobody's concern any more.
    pub(super) fn settle(&mut self, unit: &Key) {
        self.missed.remove(unit);
    }

    /// Only these are planned for this worker.
    pub(super) fn keep(&mut self, planned: impl Fn(&Key) -> bool) {
        self.missed.retain(|unit, _| planned(unit));
    }
}

impl Worker {
    /// Somebody else has it. Whether that is right, time will tell.
    pub(super) fn missed(&mut self, now: Now, lease: LeaseId) {
        let Some(key) = self.forget(lease) else { return };
        let interval = self.interval();
        let miss = self.doubts.missed.entry(key.clone()).or_insert(Miss { rounds: 0, until: Tick(0) });
        let is_new = now.held >= miss.until;
        if is_new {
            miss.rounds += 1;
            miss.until = now.held.after(interval * (1 << miss.rounds.min(ROUNDS + 1)));
        }
        let Miss { rounds, until } = *miss;
        if rounds > ROUNDS {
            // Whatever is wrong there, asking more often does not mend it: it is tried again when all is listed again.
            return;
        }
        self.awaited.insert(key);
        self.look.next = self.look.next.min(now.held.after(self.part(16)));
        if is_new {
            // Whoever made another plan has done some of it by now: seen again, the rest may be free.
            self.list_again(now.held.after(self.part(16)));
            // If it is still somebody else's by then, plans differ, and all have to look again.
            self.want_bump(until);
        }
    }

    /// Keeps a unit that was declined from being planned for this worker, for a while: all read so in its session's record.
    pub(super) fn note_declined(&mut self, now: Now, unit: Key, until: Tick) {
        self.declined.insert(unit, until);
        if self.declined.len() > DECLINED {
            let first = self.declined.iter().min_by_key(|(_, until)| **until).map(|(unit, _)| unit.clone());
            first.map(|unit| self.declined.remove(&unit));
        }
        self.offer_declined(now);
    }

    pub(super) fn declined_wakes(&self) -> Option<Tick> {
        self.declined.values().copied().min()
    }

    fn offer_declined(&mut self, now: Now) {
        let names = self.declined.keys().filter_map(|unit| self.options.fleet.unit_of(unit));
        let names = names.map(str::to_owned).collect();
        self.options.about.declines = names;
        self.announce(now);
    }

    /// Ends the sessions of those who were listed as dead, if it is this worker's turn: whoever stands closest before them in
    /// the ring is first, and whoever takes what they had, which would end them anyway, and tell nobody. The others do so
    /// after a while, if nothing has come of it.
    pub(super) fn bury(
        &mut self,
        now: Now,
        dead: Vec<(Key, Stored)>,
        live: &BTreeSet<Key>,
        heir_of: &BTreeSet<Key>,
    ) {
        let is_first = is_first(&self.me, live);
        let is_mine = |(key, _): &(Key, Stored)| is_first(key) || heir_of.contains(key);
        let (mine, others) = dead.into_iter().partition::<Vec<_>, _>(is_mine);
        self.doubts.dead = others;
        self.doubts.end_at = now.held.after(self.interval() / 2);
        for (key, stored) in mine {
            self.fence_neighbour(now, key, stored);
        }
    }

    pub(super) fn wake_doubts(&mut self, now: Now) {
        if self.declined_wakes().is_some_and(|at| now.held >= at) {
            self.declined.retain(|_, until| now.held < *until);
            self.offer_declined(now);
        }
        if self.doubts.wake_at().is_some_and(|at| now.held >= at) {
            for (key, stored) in std::mem::take(&mut self.doubts.dead) {
                self.fence_neighbour(now, key, stored);
            }
        }
    }
}
