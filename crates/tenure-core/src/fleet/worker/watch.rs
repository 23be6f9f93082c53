//! The watch: once in each interval the planner and the standbys look at all sessions. They read them one by one, in the look
//! itself. In a large fleet they read them page by page after it. The price of a page is its size, and a thousand sessions are small.
//!
//! A standby needs to know how long each worker has been silent if the planner dies. Where records tell that at first sight, it looks at
//! all sessions of a large fleet only while the planner is silent, and once in a long while: wall clocks may have been set meanwhile.

use super::listed::Peer;
use super::{FleetWorker, InFlight};
use crate::bugs::Bug;
use crate::fleet::talk::FleetNotice;
use crate::holder::failure_detector;
use crate::op::{Answer, Listed, Op};
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::record::{Stored, Tenure};
use crate::values::time::{Now, Tick};
use std::collections::BTreeMap;

/// In so many intervals a standby looks at all sessions once, though it need not.
const SELDOM: u32 = 24;

/// Records tell enough if ages fall short of the truth by no more than this part of a ttl, and the wall clocks by [`CLOCKS`] more: a death
/// is judged later by as much, which is within the time that observing it takes.
const AGES: u32 = 3;
const CLOCKS: u32 = 16;

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    /// When all who are to be watched then were looked at last.
    pub(super) at: Option<Tick>,
    /// When those were all others.
    whole: Option<Tick>,
    /// This worker left the others to the planner by its last look.
    leaves: bool,
    /// Those who are still to be seen on a page, and the fences that they should show.
    left: Option<BTreeMap<Key, Fence>>,
    /// The store has refused a page: one by one, they may be read.
    refused: bool,
}

impl Watch {
    /// All whom the last look was at, or pages after it, are to be looked at again.
    pub(super) fn again(&mut self) {
        (self.at, self.left) = (None, None);
        self.whole = self.whole.filter(|_| self.leaves);
    }

    /// The worker has another role from now on.
    pub(super) fn begin(&mut self) {
        *self = Watch { refused: self.refused, ..Watch::default() };
    }
}

impl FleetWorker {
    /// The look is over, and whoever watches may look at all again.
    fn end_watch(&mut self) {
        self.look.under_way = false;
        self.look.watch.left = None;
    }

    /// Whether this worker is to notice that others are dead.
    pub(super) fn is_watcher(&self) -> bool {
        self.is_planner() || self.is_standby()
    }

    /// Whether a fleet is so large that its sessions are read by pages.
    fn watches_many(&self) -> bool {
        self.peers.len() >= 2 * self.env.options.lookers
    }

    /// Whether a session's record tells at first sight how long its worker has been silent.
    pub(super) fn is_attested(&self, now: Now, stored: &Stored, tenure: &Tenure) -> bool {
        let told = self.env.options.age_error.is_some_and(|error| error <= tenure.ttl.part(AGES));
        let within = tenure.ttl.part(CLOCKS);
        told && failure_detector::is_attested(now, stored, within, self.holder.rules())
    }

    /// Whether this worker leaves it to the planner to watch all others. If both die, the others' records tell it enough; those that don't
    /// are few.
    fn leaves_watching(&self, now: Now) -> bool {
        let Some(planner) = self.board.planner().filter(|planner| planner.session != self.env.me) else {
            return false;
        };
        let silent = self.look.overdue.contains(&planner.session)
            || self.look.suspected.contains_key(&planner.session)
            || self.board.has_gone(planner);
        let lately =
            self.look.watch.whole.is_some_and(|at| now.held.since(at) < self.env.interval() * SELDOM);
        let odd = self.peers.values().filter(|peer| !self.tells_silence(peer)).count();
        self.watches_many()
            && lately
            && (!silent || self.env.has_bug(Bug::SilentPlannerTrusted))
            && odd < 2 * self.env.options.lookers
    }

    /// The look has shown that the planner is silent, say: who left the others to it looks at them at once.
    pub(super) fn resume_watching(&mut self, now: Now) {
        if self.look.watch.leaves && self.is_standby() && !self.leaves_watching(now) {
            self.look_now(now);
        }
    }

    fn tells_silence(&self, peer: &Peer) -> bool {
        peer.attested || self.env.has_bug(Bug::AgesTrusted)
    }

    /// Whom the next look is at: the planner, and those who are overdue. Whoever watches looks at all once an interval, unless it reads them by pages
    /// after that, or leaves it to the planner.
    pub(super) fn watched(&mut self, now: Now) -> BTreeMap<Key, Fence> {
        let planner = self.board.planner().into_iter().filter(|planner| planner.session != self.env.me);
        let planner = planner.filter(|_| !self.env.has_bug(Bug::PlannerUnwatched));
        let mut watched: BTreeMap<Key, Fence> =
            planner.map(|planner| (planner.session.clone(), planner.fence)).collect();
        self.look.watch.left = None;
        if self.is_planner() || self.is_standby() && !self.env.has_bug(Bug::StandbyIdle) {
            let leaves = self.leaves_watching(now);
            self.look.watch.leaves = leaves;
            let last = if leaves { self.look.watch.at } else { self.look.watch.whole };
            let due = last.is_none_or(|at| now.held.since(at) >= self.env.interval() * 7 / 8);
            let (mut all, some) = (due && !leaves, due && leaves);
            if due {
                self.look.watch.at = Some(now.held);
            }
            if all {
                self.look.watch.whole = Some(now.held);
                let refused = std::mem::take(&mut self.look.watch.refused);
                if self.watches_many() && !refused {
                    let all_others = self.peers.iter().map(|(key, peer)| (key.clone(), peer.fence));
                    self.look.watch.left = Some(all_others.collect());
                    all = false;
                }
            }
            for (key, peer) in &self.peers {
                if !(all || some && !self.tells_silence(peer) || self.look.overdue.contains(key)) {
                    continue;
                }
                watched.entry(key.clone()).or_insert(peer.fence);
            }
        }
        self.look.overdue.retain(|key| watched.contains_key(key));
        self.look.suspected.retain(|key, _| watched.contains_key(key));
        watched
    }

    /// The look itself was answered: the pages follow, if there are any.
    pub(super) fn turn_to_pages(&mut self, now: Now) {
        if self.look.watch.left.is_none() || !self.is_watcher() {
            self.end_watch();
            if self.look.again {
                self.look_now(now);
            }
            return;
        }
        self.look.under_way = true;
        // What a page shows is the latest state.
        self.look.latest = true;
        self.next_page(None);
    }

    fn next_page(&mut self, after: Option<Key>) {
        let (prefix, limit) = (self.env.fleet().worker_prefix(), self.watched_at_once());
        self.send(InFlight::Watch(limit), Op::List { prefix, after, limit });
    }

    /// How many sessions a page shows: up to a quarter more than other pages, if that spares one. A store in shards asks each of them for the
    /// last page, too, however little is on it.
    fn watched_at_once(&self) -> usize {
        let page = self.env.options.page.max(1);
        // This worker's own session is there, too; and one more tells that it was the last page.
        let all = self.peers.len() + 2;
        let pages = all.div_ceil(page + page / 4).max(1);
        all.div_ceil(pages).max(page)
    }

    pub(super) fn watched_page(&mut self, now: Now, asked: usize, result: Result<Answer, StoreError>) {
        let page = match result {
            Ok(Answer::Listed(page)) => page,
            Ok(_) => return self.end_watch(),
            Err(error) => {
                self.end_watch();
                self.look.watch.again();
                // Where it may be answered the next time, one by one would cost a busy store ten times as much.
                self.look.watch.refused = !error.is_passing();
                self.look.next = self.look.next.min(now.held.after(self.env.pause(16, &error)));
                return self.tell(FleetNotice::Trouble(error));
            }
        };
        let is_last = page.len() < asked;
        let last = page.last().map(|listed| listed.key.clone()).filter(|_| !is_last);
        let mut found: BTreeMap<Key, Result<Stored, StoreError>> =
            page.into_iter().map(|Listed { key, stored }| (key, stored)).collect();
        let left = self.look.watch.left.take().unwrap_or_default();
        let (here, beyond): (BTreeMap<_, _>, BTreeMap<_, _>) =
            left.into_iter().partition(|(key, _)| last.as_ref().is_none_or(|last| key <= last));
        for (key, fence) in here {
            // Meanwhile it may have been found to be gone, or to have come again.
            if self.peers.get(&key).is_some_and(|peer| peer.fence == fence) {
                self.saw_session(now, &key, fence, found.remove(&key));
            }
        }
        self.look.watch.left = last.as_ref().map(|_| beyond);
        match last {
            Some(last) if self.is_watcher() && !self.env.has_bug(Bug::OnePageWatched) => {
                self.next_page(Some(last))
            }
            _ => {
                self.look.watch.left = None;
                self.turn_to_pages(now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
