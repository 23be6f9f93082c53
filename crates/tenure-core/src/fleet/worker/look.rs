//! The look: in each third of a ttl one request shows a worker the board and the planner's session. While units are on their way to the
//! worker, it also shows some of those. The planner looks at all sessions instead. So the planner notices a dead worker, all workers notice a
//! dead planner, and nothing is listed before the board has changed.
//!
//! A look that expects no news asks for a recent state only, which costs some stores less. Its news is acted on only once a look at
//! the latest state has confirmed it.

use super::own::Stage;
use super::watch::Watch;
use super::{FleetWorker, InFlight};
use crate::bugs::Bug;
use crate::fleet::board;
use crate::fleet::talk::FleetNotice;
use crate::op::{Answer, Freshness, Hint, Listed, Op};
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::record::Stored;
use crate::values::time::{Now, Tick};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// For so many ttls a worker looks often for what is on its way to it or drains; after that, ever less often.
const DRAINS: u32 = 8;

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Look {
    pub(super) under_way: bool,
    pub(super) next: Tick,
    /// When the last look that was answered was sent.
    pub(super) seen_from: Tick,
    sent: Tick,
    /// Something may have changed after the look that is under way had read it.
    pub(super) again: bool,
    /// Whether the look under way shows the latest state.
    pub(super) latest: bool,
    /// The next look is to show the latest state.
    closely: bool,
    /// The sessions that the look under way is at, and the fences that they should show.
    watched: BTreeMap<Key, Fence>,
    /// Those who should have renewed by now.
    pub(super) overdue: BTreeSet<Key>,
    /// Those who have been silent for a ttl, since when that is known here.
    pub(super) suspected: BTreeMap<Key, Tick>,
    pub(super) watch: Watch,
    /// Until then it may come to be shown: whoever knows of more who are overdue sets it again once a new generation has ended
    /// it, and who has just listed everything for that generation can afford some more looks.
    pub(super) wary_until: Tick,
}

impl Look {
    pub(super) fn wake_at(&self) -> Option<Tick> {
        (!self.under_way).then_some(self.next)
    }
}

impl FleetWorker {
    /// A hint from the store.
    pub(super) fn hint(&mut self, now: Now, hint: &Hint) {
        match hint.key() {
            Some(key) if *key == self.env.board_key => self.look_now(now),
            Some(key) if self.awaited.contains(key) && self.has_waited(now).is_zero() => {
                self.try_unit(now, key.clone(), None);
                if let Some(own) = self.own.get_mut(key) {
                    own.hinted = true;
                }
            }
            // Its owner may go on writing it for hours, and drain no sooner for that.
            Some(key) if self.awaited.contains(key) => {
                self.awaited.wrote(key);
                self.look_soon(now);
            }
            Some(_) => {}
            // It may be about anything, such as each write of every other user of the store.
            None if self.awaited.is_empty() || !self.has_waited(now).is_zero() => self.look_soon(now),
            None => self.look_now(now),
        }
    }

    /// Not much sooner after the last look than those come that look often.
    fn look_soon(&mut self, now: Now) {
        self.look.closely = true;
        let soon = self.look.sent.after(self.env.part(32));
        self.look.next = self.look.next.min(soon.max(now.held));
    }

    pub(super) fn look_now(&mut self, now: Now) {
        self.look.closely = true;
        if self.look.under_way {
            self.look.again = true;
        } else {
            self.look.next = self.look.next.min(now.held);
        }
    }

    /// What may be old shows news: the latest state of the same is to show it, too.
    pub(super) fn look_again(&mut self, now: Now) {
        self.look.watch.again();
        self.look_now(now);
    }

    pub(super) fn wake_look(&mut self, now: Now) {
        if self.look.under_way || now.held < self.look.next {
            return;
        }
        let mut keys = vec![self.env.board_key.clone()];
        self.look.watched = self.watched(now);
        keys.extend(self.look.watched.keys().cloned());
        keys.extend(self.awaited.next_look());
        self.look.under_way = true;
        self.look.again = false;
        self.look.sent = now.held;
        let pace = self.pace(now);
        self.look.next = now.held.after(pace);
        if let Some(at) = self.look.watch.at.filter(|_| self.is_watcher()) {
            self.look.next = self.look.next.min(at.after(self.env.interval()));
        }
        let latest = std::mem::take(&mut self.look.closely)
            || pace < self.env.interval()
            || !self.look.overdue.is_empty()
            || self.drains.are_due()
            || self.board.is_blind()
            || self.is_planner() && self.is_behind();
        self.look.latest = latest || self.env.has_bug(Bug::StaleLookTrusted);
        let freshness = if latest { Freshness::Latest } else { Freshness::Recent };
        self.send(InFlight::Look, Op::ReadMany(keys, freshness));
        if self.awaited.has_more() {
            self.look_soon(now);
        }
    }

    /// Whether a look shows nothing but what was to be expected: the board as it was, and sessions that were renewed.
    fn is_no_news(&self, found: &BTreeMap<Key, Result<Stored, StoreError>>) -> bool {
        let board = match found.get(&self.env.board_key) {
            Some(Ok(board)) => Some(board.version),
            Some(Err(_)) => return false,
            None => None,
        };
        board == self.board.stored().map(|board| board.version)
            && self.look.watched.iter().all(|(key, fence)| {
                let Some(Ok(stored)) = found.get(key) else { return false };
                stored.record.tenure.is_some() && stored.record.fence == *fence
            })
    }

    /// How long until the next look, if nothing happens.
    fn pace(&self, now: Now) -> Duration {
        let expects = self.hearing.expects(now) && !self.is_planner() && !self.env.options.push;
        let alarmed = self.board.is_alarmed(now, &self.env) || now.held < self.look.wary_until || expects;
        let drains = self.own.values().any(|own| own.stage == Stage::Draining);
        let often = if self.env.options.push { self.env.interval() / 4 } else { self.env.part(32) };
        match () {
            () if alarmed => often,
            () if drains || !self.awaited.is_empty() => {
                (self.has_waited(now) / 32).max(often).min(self.env.interval())
            }
            () => self.env.interval(),
        }
    }

    /// For how long what is on its way to this worker, or from it, has taken longer than drains take. It may never come, as a unit whose
    /// owner the store does not let give it up, or take hours, as a body that its user does not end.
    fn has_waited(&self, now: Now) -> Duration {
        if self.env.has_bug(Bug::AwaitedForEver) {
            return Duration::ZERO;
        }
        now.held.since(self.awaited.since().max(self.drains.began()).after(self.env.part(1) * DRAINS))
    }

    pub(super) fn looked(&mut self, now: Now, result: Result<Answer, StoreError>) {
        self.look.under_way = false;
        let found = match result {
            Ok(Answer::Listed(found)) => found,
            Ok(_) => return,
            Err(error) => {
                self.awaited.missed();
                self.look.watch.again();
                self.look.closely |= self.look.latest;
                self.look.next = self.look.next.min(now.held.after(self.env.pause(16, &error)));
                return self.tell(FleetNotice::Trouble(error));
            }
        };
        let mut found: BTreeMap<Key, Result<Stored, StoreError>> =
            found.into_iter().map(|Listed { key, stored }| (key, stored)).collect();
        if self.look.latest {
            self.look.seen_from = self.look.sent;
        } else if !self.is_no_news(&found) {
            self.awaited.missed();
            return self.look_again(now);
        }
        match found.remove(&self.env.board_key).transpose() {
            Ok(board) => {
                self.board.reads(true);
                self.saw_board(now, board);
            }
            Err(error) => {
                self.board.reads(self.env.has_bug(Bug::BoardTrusted));
                self.tell(FleetNotice::Trouble(error));
            }
        }
        let planner = self.board.planner().and_then(|planner| found.get(&planner.session)?.as_ref().ok());
        let planner = planner.cloned();
        for (key, fence) in std::mem::take(&mut self.look.watched) {
            self.saw_session(now, &key, fence, found.remove(&key));
        }
        self.mark_plan(now);
        for (key, stored) in found {
            if let (true, Ok(stored)) = (self.awaited.contains(&key), stored) {
                self.saw_awaited(now, key, stored);
            }
        }
        self.rest_after(now, planner.as_ref());
        self.turn_to_pages(now);
        self.resume_watching(now);
    }

    pub(super) fn saw_board(&mut self, now: Now, board: Option<Stored>) {
        let same = self.board.is_same(board.as_ref());
        if !same || !board::is_alarmed(board.as_ref()) {
            let grew = board::generation(board.as_ref()) != self.generation();
            if grew && !self.env.options.push {
                self.look.wary_until = now.held.after(self.env.part(8));
            }
            self.board.see_alarm(now, board.as_ref());
            self.look.next = self.look.next.min(now.held.after(self.pace(now)));
        }
        let was_planner = self.is_planner();
        self.board.see(board);
        if was_planner != self.is_planner() {
            self.planner.begin();
            self.lister.begin_role(now);
            self.look.watch.begin();
        }
        if !same {
            self.tell_planning();
        }
        self.fill_vacancy(now);
    }
}

#[cfg(test)]
mod tests;
