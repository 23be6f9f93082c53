//! The watch: once in each interval the planner and the standbys look at all sessions. They read them one by one, in the look
//! itself. In a large fleet they read them page by page after it. The price of a page is its size, and a thousand sessions are small.
//!
//! A standby needs to know how long each worker has been silent if the planner dies. Where records tell that at first sight, it looks at
//! all sessions of a large fleet only while the planner is silent, and once in a long while: wall clocks may have been set meanwhile.
//!
//! It is a part of the look, which knows when it is due.

use super::{LookCtx, SeenPage};
use crate::bugs::Bug;
use crate::fleet::planning::Role;
use crate::fleet::worker::env::FleetEnv;
use crate::fleet::worker::listed::Peer;
use crate::op::{Listed, Op};
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::time::{Now, Tick};
use std::collections::{BTreeMap, BTreeSet};

/// In so many intervals a standby looks at all sessions once, though it need not.
const SELDOM: u32 = 24;

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    /// When all who are to be watched then were looked at last.
    at: Option<Tick>,
    /// When those were all others.
    whole: Option<Tick>,
    /// This worker left the others to the planner by its last look.
    leaves: bool,
    /// Those who are still to be seen on a page, and the fences that they should show.
    left: Option<BTreeMap<Key, Fence>>,
    /// The store has refused a page: one by one, they may be read.
    refused: bool,
    /// Those who should have renewed by now.
    overdue: BTreeSet<Key>,
    /// Those who have been silent for a ttl, since when that is known here.
    suspected: BTreeMap<Key, Tick>,
}

impl Watch {
    pub(super) fn at(&self) -> Option<Tick> {
        self.at
    }

    pub(super) fn has_overdue(&self) -> bool {
        !self.overdue.is_empty()
    }

    /// It should have renewed by now.
    pub(super) fn overdue(&mut self, key: &Key) {
        self.overdue.insert(key.clone());
    }

    /// It has been silent for a ttl; since when that is known.
    pub(super) fn suspected(&mut self, now: Now, key: &Key) -> Tick {
        *self.suspected.entry(key.clone()).or_insert(now.held)
    }

    pub(super) fn lives(&mut self, key: &Key) {
        self.overdue.remove(key);
        self.suspected.remove(key);
    }

    pub(super) fn left(&mut self, key: &Key) {
        self.overdue.remove(key);
    }

    /// All whom the last look was at, or pages after it, are to be looked at again.
    pub(super) fn again(&mut self) {
        (self.at, self.left) = (None, None);
        self.whole = self.whole.filter(|_| self.leaves);
    }

    /// The worker has another role from now on.
    pub(super) fn begin(&mut self) {
        let (overdue, suspected) = (std::mem::take(&mut self.overdue), std::mem::take(&mut self.suspected));
        *self = Watch { refused: self.refused, overdue, suspected, ..Watch::default() };
    }

    /// Whether this worker leaves it to the planner to watch all others. If both die, the others' records tell it enough; those that don't
    /// are few.
    fn leaves_watching(&self, ctx: &LookCtx<'_>) -> bool {
        let Some(planner) = ctx.board.planner().filter(|planner| planner.session != ctx.env.me) else {
            return false;
        };
        let silent = self.overdue.contains(&planner.session)
            || self.suspected.contains_key(&planner.session)
            || ctx.board.has_gone(planner);
        let lately = self.whole.is_some_and(|at| ctx.now.held.since(at) < ctx.env.interval() * SELDOM);
        let odd = ctx.peers.values().filter(|peer| !tells_silence(ctx.env, peer)).count();
        watches_many(ctx)
            && lately
            && (!silent || ctx.env.has_bug(Bug::SilentPlannerTrusted))
            && odd < 2 * ctx.env.options.lookers
    }

    /// Whether the others were left to the planner, and can't be any more.
    pub(super) fn resumes(&self, ctx: &LookCtx<'_>) -> bool {
        self.leaves && ctx.role == Role::Standby && !self.leaves_watching(ctx)
    }

    /// Whom the next look is at: the planner, and those who are overdue. Whoever watches looks at all once an interval, unless it reads them by pages
    /// after that, or leaves it to the planner.
    pub(super) fn whom(&mut self, ctx: &LookCtx<'_>) -> BTreeMap<Key, Fence> {
        let planner = ctx.board.planner().into_iter().filter(|planner| planner.session != ctx.env.me);
        let planner = planner.filter(|_| !ctx.env.has_bug(Bug::PlannerUnwatched));
        let mut watched: BTreeMap<Key, Fence> =
            planner.map(|planner| (planner.session.clone(), planner.fence)).collect();
        self.left = None;
        let stands_by = ctx.role == Role::Standby && !ctx.env.has_bug(Bug::StandbyIdle);
        if ctx.role == Role::Planner || stands_by {
            let leaves = self.leaves_watching(ctx);
            self.leaves = leaves;
            let last = if leaves { self.at } else { self.whole };
            let due = last.is_none_or(|at| ctx.now.held.since(at) >= ctx.env.interval() * 7 / 8);
            let (mut all, some) = (due && !leaves, due && leaves);
            if due {
                self.at = Some(ctx.now.held);
            }
            if all {
                self.whole = Some(ctx.now.held);
                let refused = std::mem::take(&mut self.refused);
                if watches_many(ctx) && !refused {
                    let all_others = ctx.peers.iter().map(|(key, peer)| (key.clone(), peer.fence));
                    self.left = Some(all_others.collect());
                    all = false;
                }
            }
            for (key, peer) in ctx.peers {
                if !(all || some && !tells_silence(ctx.env, peer) || self.overdue.contains(key)) {
                    continue;
                }
                watched.entry(key.clone()).or_insert(peer.fence);
            }
        }
        self.overdue.retain(|key| watched.contains_key(key));
        self.suspected.retain(|key, _| watched.contains_key(key));
        watched
    }

    /// Whether some are to be seen on pages.
    pub(super) fn has_pages(&self) -> bool {
        self.left.is_some()
    }

    /// These are still to be seen on pages.
    pub(super) fn leave(&mut self, left: BTreeMap<Key, Fence>) {
        self.left = Some(left);
    }

    /// Nobody is to be seen on a page any more.
    pub(super) fn end(&mut self) {
        self.left = None;
    }

    /// The request for the page after this session, and how many it shows.
    pub(super) fn ask(&self, ctx: &LookCtx<'_>, after: Option<Key>) -> (usize, Op) {
        let (prefix, limit) = (ctx.env.fleet().worker_prefix(), watched_at_once(ctx));
        (limit, Op::List { prefix, after, limit })
    }

    /// A page has come, of so many at the most. Whom it shows of those who were to be seen.
    pub(super) fn page(&mut self, page: Vec<Listed>, asked: usize) -> SeenPage {
        let is_last = page.len() < asked;
        let last = page.last().map(|listed| listed.key.clone()).filter(|_| !is_last);
        let found = page.into_iter().map(|Listed { key, stored }| (key, stored)).collect();
        let left = self.left.take().unwrap_or_default();
        let (sessions, beyond): (BTreeMap<_, _>, BTreeMap<_, _>) =
            left.into_iter().partition(|(key, _)| last.as_ref().is_none_or(|last| key <= last));
        SeenPage { found, sessions, rest: last.map(|last| (last, beyond)) }
    }

    /// A page could not be had.
    pub(super) fn refused(&mut self, error: &StoreError) {
        self.again();
        // Where it may be answered the next time, one by one would cost a busy store ten times as much.
        self.refused = !error.is_passing();
    }
}

/// Whether a fleet is so large that its sessions are read by pages.
fn watches_many(ctx: &LookCtx<'_>) -> bool {
    ctx.peers.len() >= 2 * ctx.env.options.lookers
}

fn tells_silence(env: &FleetEnv, peer: &Peer) -> bool {
    peer.attested || env.has_bug(Bug::AgesTrusted)
}

/// How many sessions a page shows: up to a quarter more than other pages, if that spares one. A store in shards asks each of them for the
/// last page, too, however little is on it.
pub(in crate::fleet::worker) fn watched_at_once(ctx: &LookCtx<'_>) -> usize {
    let page = ctx.env.options.page.max(1);
    // This worker's own session is there, too; and one more tells that it was the last page.
    let all = ctx.peers.len() + 2;
    let pages = all.div_ceil(page + page / 4).max(1);
    all.div_ceil(pages).max(page)
}

#[cfg(test)]
impl Watch {
    pub(super) fn all_overdue(&self) -> Vec<Key> {
        self.overdue.iter().cloned().collect()
    }
}
