//! The look: in each third of a ttl one request shows a worker the board and the planner's session. While units are on their way to the
//! worker, it also shows some of those. The planner looks at all sessions instead. So the planner notices a dead worker, all workers notice a
//! dead planner, and nothing is listed before the board has changed.
//!
//! A look that expects no news asks for a recent state only, which costs some stores less. Its news is acted on only once a look at
//! the latest state has confirmed it.

mod watch;

use self::watch::Watch;
#[cfg(test)]
pub(super) use self::watch::watched_at_once;
use super::env::FleetEnv;
use super::known_board::KnownBoard;
use super::listed::Peer;
use crate::bugs::Bug;
use crate::fleet::planning::Role;
use crate::holder::failure_detector::HolderVerdict;
use crate::op::{Answer, Freshness, Listed, Op};
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::record::{Stored, Tenure};
use crate::values::time::{Now, Tick};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Look {
    under_way: bool,
    next: Tick,
    /// When the last look that was answered was sent.
    seen_from: Tick,
    sent: Tick,
    /// Something may have changed after the look that is under way had read it.
    again: bool,
    /// Whether the look under way shows the latest state.
    latest: bool,
    /// The next look is to show the latest state.
    closely: bool,
    /// The sessions that the look under way is at, and the fences that they should show.
    watched: BTreeMap<Key, Fence>,
    watch: Watch,
    /// Until then it may come to be shown: whoever knows of more who are overdue sets it again once a new generation has ended
    /// it, and who has just listed everything for that generation can afford some more looks.
    wary_until: Tick,
}

/// What a worker goes by while it looks.
pub(super) struct LookCtx<'a> {
    pub(super) now: Now,
    pub(super) env: &'a FleetEnv,
    pub(super) board: &'a KnownBoard,
    pub(super) peers: &'a BTreeMap<Key, Peer>,
    pub(super) role: Role,
}

/// What the next look is to show besides the board and sessions, and how.
#[derive(Debug)]
pub(super) struct LookNeeds {
    /// Units that are awaited.
    pub(super) units: Vec<Key>,
    /// How long until the look after it, if nothing happens.
    pub(super) pace: Duration,
    /// It is to show the latest state.
    pub(super) latest: bool,
}

/// What records show.
pub(super) type Found = BTreeMap<Key, Result<Stored, StoreError>>;

/// What a look came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LookOutcome {
    /// It was no look.
    Nothing,
    /// It showed nothing that counts: it has failed, or may be old, and another one follows.
    Missed(Option<StoreError>),
    /// It showed this, and among that these sessions, which should show these fences.
    Seen(Found, BTreeMap<Key, Fence>),
}

/// What a page of sessions came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PageOutcome {
    Nothing,
    Failed(StoreError),
    Seen(SeenPage),
}

/// What a page of sessions showed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SeenPage {
    pub(super) found: Found,
    /// Those who were to be seen on it, and the fences that they should show.
    pub(super) sessions: BTreeMap<Key, Fence>,
    /// The last one on it, and those who are still to be seen after that; none if it was the last page.
    pub(super) rest: Option<(Key, BTreeMap<Key, Fence>)>,
}

/// What is to be done about a session that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerStep {
    /// It has been silent for too long.
    End,
    /// A renewal is overdue: all are to look more often.
    Alarm,
}

impl Look {
    pub(super) fn wake_at(&self) -> Option<Tick> {
        (!self.under_way).then_some(self.next)
    }

    /// When the last look that was answered was sent.
    pub(super) fn seen_from(&self) -> Tick {
        self.seen_from
    }

    /// Whether the alarm may come to be shown.
    pub(super) fn is_wary(&self, now: Now) -> bool {
        now.held < self.wary_until
    }

    /// Whether somebody should have renewed by now.
    pub(super) fn has_overdue(&self) -> bool {
        self.watch.has_overdue()
    }

    /// The next look comes then, whatever was planned.
    pub(super) fn plan(&mut self, at: Tick) {
        self.next = at;
    }

    /// The next look comes by then.
    pub(super) fn by(&mut self, at: Tick) {
        self.next = self.next.min(at);
    }

    /// Not much sooner after the last look than those come that look often.
    pub(super) fn soon(&mut self, now: Now, env: &FleetEnv) {
        self.closely = true;
        let soon = self.sent.after(env.part(32));
        self.by(soon.max(now.held));
    }

    pub(super) fn now(&mut self, now: Now) {
        self.closely = true;
        if self.under_way {
            self.again = true;
        } else {
            self.by(now.held);
        }
    }

    /// What may be old shows news: the latest state of the same is to show it, too.
    fn again(&mut self, now: Now) {
        self.watch.again();
        self.now(now);
    }

    /// The worker has another role from now on.
    pub(super) fn begin_role(&mut self) {
        self.watch.begin();
    }

    /// The board shows another generation.
    pub(super) fn saw_generation(&mut self, now: Now, env: &FleetEnv) {
        if !env.options.push {
            self.wary_until = now.held.after(env.part(8));
        }
    }

    /// Begins a look, whose time has come.
    pub(super) fn begin(&mut self, ctx: &LookCtx<'_>, needs: LookNeeds) -> Op {
        let now = ctx.now.held;
        let mut keys = vec![ctx.env.board_key.clone()];
        self.watched = self.watch.whom(ctx);
        keys.extend(self.watched.keys().cloned());
        keys.extend(needs.units);
        self.under_way = true;
        self.again = false;
        self.sent = now;
        self.next = now.after(needs.pace);
        if let Some(at) = self.watch.at().filter(|_| ctx.role != Role::Member) {
            self.by(at.after(ctx.env.interval()));
        }
        let latest = std::mem::take(&mut self.closely)
            || needs.pace < ctx.env.interval()
            || self.has_overdue()
            || needs.latest;
        self.latest = latest || ctx.env.has_bug(Bug::StaleLookTrusted);
        Op::ReadMany(keys, if latest { Freshness::Latest } else { Freshness::Recent })
    }

    pub(super) fn answered(
        &mut self,
        now: Now,
        env: &FleetEnv,
        board: &KnownBoard,
        result: Result<Answer, StoreError>,
    ) -> LookOutcome {
        self.under_way = false;
        let found = match result {
            Ok(Answer::Listed(found)) => found,
            Ok(_) => return LookOutcome::Nothing,
            Err(error) => {
                self.watch.again();
                self.closely |= self.latest;
                self.by(now.held.after(env.pause(16, &error)));
                return LookOutcome::Missed(Some(error));
            }
        };
        let found: Found = found.into_iter().map(|Listed { key, stored }| (key, stored)).collect();
        if self.latest {
            self.seen_from = self.sent;
        } else if !self.is_no_news(env, board, &found) {
            self.again(now);
            return LookOutcome::Missed(None);
        }
        LookOutcome::Seen(found, std::mem::take(&mut self.watched))
    }

    /// Whether a look shows nothing but what was to be expected: the board as it was, and sessions that were renewed.
    fn is_no_news(&self, env: &FleetEnv, known: &KnownBoard, found: &Found) -> bool {
        let board = match found.get(&env.board_key) {
            Some(Ok(board)) => Some(board),
            Some(Err(_)) => return false,
            None => None,
        };
        known.is_same(board)
            && self.watched.iter().all(|(key, fence)| {
                let Some(Ok(stored)) = found.get(key) else { return false };
                stored.record.tenure.is_some() && stored.record.fence == *fence
            })
    }

    /// A session was seen, which has this tenure, and lives or does not by this verdict.
    pub(super) fn judged(
        &mut self,
        ctx: &LookCtx<'_>,
        key: &Key,
        tenure: &Tenure,
        verdict: HolderVerdict,
    ) -> Option<PeerStep> {
        match verdict {
            // What is seen may be old, and then it has renewed since.
            HolderVerdict::Suspected if !self.latest => self.again(ctx.now),
            HolderVerdict::Suspected => {
                let at = self.watch.suspected(ctx.now, key).after(ctx.env.part(16));
                // If the planner does not see to that, whoever stands by does.
                if ctx.role == Role::Planner || ctx.board.names_planner(key) || ctx.now.held >= at {
                    return Some(PeerStep::End);
                }
                self.watch.overdue(key);
                self.by(at);
            }
            HolderVerdict::Live { until } => {
                self.by(until);
                self.watch.lives(key);
                if until.since(ctx.now.held) >= tenure.ttl.duration() * 7 / 12 {
                    return None;
                }
                // A renewal, which is due every third of a ttl, is overdue.
                if self.latest {
                    self.watch.overdue(key);
                    return Some(PeerStep::Alarm);
                }
                self.again(ctx.now);
            }
        }
        None
    }

    /// A session is over, or is another one now.
    pub(super) fn left(&mut self, key: &Key) {
        self.watch.left(key);
    }

    /// The look has shown that the planner is silent, say: who left the others to it looks at them at once.
    pub(super) fn resume_watching(&mut self, ctx: &LookCtx<'_>) {
        if self.watch.resumes(ctx) {
            self.now(ctx.now);
        }
    }

    /// The look itself was answered: the pages follow, if there are any. The request for the first one, and how many it shows.
    pub(super) fn turn_to_pages(&mut self, ctx: &LookCtx<'_>) -> Option<(usize, Op)> {
        if !self.watch.has_pages() || ctx.role == Role::Member {
            self.end_watch();
            if self.again {
                self.now(ctx.now);
            }
            return None;
        }
        self.under_way = true;
        // What a page shows is the latest state.
        self.latest = true;
        Some(self.watch.ask(ctx, None))
    }

    pub(super) fn page(
        &mut self,
        now: Now,
        env: &FleetEnv,
        asked: usize,
        result: Result<Answer, StoreError>,
    ) -> PageOutcome {
        match result {
            Ok(Answer::Listed(page)) => PageOutcome::Seen(self.watch.page(page, asked)),
            Ok(_) => {
                self.end_watch();
                PageOutcome::Nothing
            }
            Err(error) => {
                self.end_watch();
                self.watch.refused(&error);
                self.by(now.held.after(env.pause(16, &error)));
                PageOutcome::Failed(error)
            }
        }
    }

    /// What a page has shown was seen to: the next one follows, or the watch is over.
    pub(super) fn next_page(
        &mut self,
        ctx: &LookCtx<'_>,
        rest: Option<(Key, BTreeMap<Key, Fence>)>,
    ) -> Option<(usize, Op)> {
        if let Some((last, beyond)) = rest
            && ctx.role != Role::Member
            && !ctx.env.has_bug(Bug::OnePageWatched)
        {
            self.watch.leave(beyond);
            return Some(self.watch.ask(ctx, Some(last)));
        }
        self.watch.end();
        self.turn_to_pages(ctx)
    }

    /// The look is over, and whoever watches may look at all again.
    fn end_watch(&mut self) {
        self.under_way = false;
        self.watch.end();
    }
}

#[cfg(test)]
impl Look {
    pub(super) fn next(&self) -> Tick {
        self.next
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.under_way
    }

    pub(super) fn wary_until(&self) -> Tick {
        self.wary_until
    }

    pub(super) fn sent(&self) -> Tick {
        self.sent
    }

    pub(super) fn overdue(&self) -> Vec<Key> {
        self.watch.all_overdue()
    }

    /// No look is under way, and the last one was sent then.
    pub(super) fn rest_from(&mut self, sent: Tick) {
        (self.under_way, self.sent) = (false, sent);
    }

    /// No look is under way.
    pub(super) fn end(&mut self) {
        self.under_way = false;
    }

    /// What is shown is the latest state, or may be old.
    pub(super) fn shows(&mut self, latest: bool) {
        self.latest = latest;
    }

    /// The next look is to show the latest state, or need not.
    pub(super) fn is_to_show(&mut self, latest: bool) {
        self.closely = latest;
    }

    /// The last look that was answered was sent then.
    pub(super) fn answered_from(&mut self, at: Tick) {
        self.seen_from = at;
    }

    pub(super) fn be_wary(&mut self, until: Tick) {
        self.wary_until = until;
    }

    pub(super) fn is_overdue(&mut self, key: &Key) {
        self.watch.overdue(key);
    }
}
