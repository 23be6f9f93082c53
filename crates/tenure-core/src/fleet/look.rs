//! The look: in each third of a ttl one request shows a worker the board, its neighbours in the ring of workers, and, while
//! units are on their way to it, some of those. So a dead worker is noticed by whoever watches it, and nothing is listed
//! before the board has changed.
//!
//! A look that expects no news asks for no more than a recent state, which costs some stores less. What it shows is acted on only
//! once a look at the latest state has shown it, too.

use super::board;
use super::listing::{Peer, is_attested};
use super::own::Stage;
use super::ring::watched;
use super::talk::FleetNotice;
use super::worker::{Errand, Worker};
use crate::bugs::Bug;
use crate::holder::failure_detector::Verdict;
use crate::op::{Answer, Expect, Freshness, Hint, Listed, Op, Outcome, Write};
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::record::{Record, Stored};
use crate::values::time::{Now, Tick};
use std::collections::BTreeMap;
use std::time::Duration;

/// How many others are watched where their sessions' ages aren't told, or are doubtful, so that of many who die together each
/// is watched by somebody
/// who lives.
const NEIGHBOURS: usize = 8;
/// Of how many others a worker does not lose sight though the ring gives it none of them to watch.
const IN_SIGHT: usize = 3 * NEIGHBOURS;
/// For so many ttls a worker looks often for what is on its way to it; after that, ever less often.
const DRAINS: u32 = 8;
/// How many awaited units one look shows.
const AWAITED: usize = 64;

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Look {
    pub(super) under_way: bool,
    pub(super) next: Tick,
    /// When the last look that was answered was sent.
    pub(super) seen_from: Tick,
    sent: Tick,
    /// Something may have changed after the look that is under way had read it.
    again: bool,
    /// Whether the look under way shows the latest state.
    latest: bool,
    /// The next look is to show the latest state.
    closely: bool,
    /// Those whom the ring gave to watch when the last look was sent.
    ring: Vec<Key>,
    /// Those whom the look under way is at: these, and whoever is kept in sight.
    neighbours: Vec<Key>,
    /// Others who are watched until they are seen to live beyond that, whatever becomes of the ring meanwhile: those who should
    /// have renewed by now, and those whom the ring gives to somebody else, who has not seen how long they have been silent.
    in_sight: BTreeMap<Key, Tick>,
    /// The last awaited unit that was looked at.
    cursor: Option<Key>,
    /// Since when the board shows the alarm.
    alarmed: Option<Tick>,
    /// Until then it may come to be shown: whoever knows of more who are overdue sets it again once a new generation has ended
    /// it, and who has just listed everything for that generation can afford some more looks.
    wary_until: Tick,
    /// The board's record can't be read: all is listed in each interval, until somebody mends or deletes it.
    pub(super) blind: bool,
}

impl Look {
    pub(super) fn wake_at(&self) -> Option<Tick> {
        (!self.under_way).then_some(self.next)
    }
}

/// A board that is to be raised.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Bump {
    Idle,
    At(Tick),
    Sent {
        write: Box<Write>,
        /// The generation that made the first attempt fail: a higher one than this does as well as our own.
        lost_to: Option<Fence>,
        /// Something more has happened since.
        again: bool,
    },
}

impl Bump {
    pub(super) fn wake_at(&self) -> Option<Tick> {
        if let Bump::At(at) = self { Some(*at) } else { None }
    }
}

impl Worker {
    /// A hint from the store.
    pub(super) fn hint(&mut self, now: Now, hint: &Hint) {
        match hint.key() {
            Some(key) if *key == self.board_key => self.look_now(now),
            Some(key) if self.awaited.contains(key) => self.try_unit(now, key.clone(), None),
            Some(_) => {}
            // It may be about anything, such as each write of every other user of the store.
            None if self.awaited.is_empty() => {
                self.look.closely = true;
                let soon = self.look.sent.after(self.part(32));
                self.look.next = self.look.next.min(soon.max(now.held));
            }
            None => self.look_now(now),
        }
    }

    pub(super) fn look_now(&mut self, now: Now) {
        self.look.closely = true;
        if self.look.under_way {
            self.look.again = true;
        } else {
            self.look.next = self.look.next.min(now.held);
        }
    }

    pub(super) fn wake_look(&mut self, now: Now) {
        if self.look.under_way || now.held < self.look.next {
            return;
        }
        let mut keys = vec![self.board_key.clone()];
        // Only where all see at about the same time who is dead, a run of dead ones need not be watched from one place.
        let count = if self.peers.values().all(|peer| peer.attested) { 1 } else { NEIGHBOURS };
        let side_by_side = self.has_bug(Bug::NextInRingOnly);
        let ring = watched(&self.me, self.peers.keys(), count, side_by_side);
        for left in std::mem::replace(&mut self.look.ring, ring) {
            if let (false, Some(peer)) = (self.look.ring.contains(&left), self.peers.get(&left)) {
                self.keep_in_sight(left, now.held.after(peer.ttl.duration()));
            }
        }
        self.look.in_sight.retain(|key, _| self.peers.contains_key(key));
        let in_sight = self.look.in_sight.keys().filter(|key| !self.look.ring.contains(key));
        self.look.neighbours = self.look.ring.iter().chain(in_sight).cloned().collect();
        keys.extend(self.look.neighbours.iter().cloned());
        keys.extend(self.next_awaited());
        self.look.under_way = true;
        self.look.again = false;
        self.look.sent = now.held;
        let pace = self.pace(now);
        self.look.next = now.held.after(pace);
        let latest = std::mem::take(&mut self.look.closely)
            || pace < self.interval()
            || !self.look.in_sight.is_empty()
            || self.drain_due
            || self.look.blind
            || self.is_behind();
        self.look.latest = latest || self.has_bug(Bug::StaleLookTrusted);
        let freshness = if latest { Freshness::Latest } else { Freshness::Recent };
        self.send(Errand::Look, Op::ReadMany(keys, freshness));
    }

    /// Whether a look shows nothing but what was to be expected: the board as it was, and neighbours that have renewed.
    fn is_no_news(&self, found: &BTreeMap<Key, Result<Stored, StoreError>>) -> bool {
        let board = match found.get(&self.board_key) {
            Some(Ok(board)) => Some(board.version),
            Some(Err(_)) => return false,
            None => None,
        };
        board == self.board.as_ref().map(|board| board.version)
            && self.look.neighbours.iter().all(|key| {
                let (Some(peer), Some(Ok(stored))) = (self.peers.get(key), found.get(key)) else {
                    return false;
                };
                stored.record.tenure.is_some() && stored.record.fence == peer.fence
            })
    }

    /// How long until the next look, if nothing happens.
    fn pace(&self, now: Now) -> Duration {
        let alarmed = self.is_alarmed(now) || now.held < self.look.wary_until;
        let drains = self.own.values().any(|own| own.stage == Stage::Draining);
        let often = if self.options.push { self.interval() / 4 } else { self.part(32) };
        // What does not come though drains have had their time may never come, as a unit whose owner the store does not let give it up.
        let long = if self.has_bug(Bug::AwaitedForEver) {
            Tick::NEVER
        } else {
            self.awaited_from.after(self.part(1) * DRAINS)
        };
        let waited = now.held.since(long) / 32;
        match () {
            () if alarmed || drains => often,
            () if !self.awaited.is_empty() => waited.max(often).min(self.interval()),
            () => self.interval(),
        }
    }

    fn next_awaited(&mut self) -> Vec<Key> {
        let after = self.look.cursor.take();
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let mut next: Vec<Key> =
            self.awaited.range((from, std::ops::Bound::Unbounded)).take(AWAITED).cloned().collect();
        let rest = AWAITED.min(self.awaited.len()) - next.len();
        next.extend(self.awaited.iter().take(rest).cloned());
        self.look.cursor = next.last().cloned();
        next
    }

    pub(super) fn looked(&mut self, now: Now, result: Result<Answer, StoreError>) {
        self.look.under_way = false;
        let found = match result {
            Ok(Answer::Listed(found)) => found,
            Ok(_) => return,
            Err(error) => {
                self.look.closely |= self.look.latest;
                self.look.next = self.look.next.min(now.held.after(self.part(16)));
                return self.tell(FleetNotice::Trouble(error));
            }
        };
        let mut found: BTreeMap<Key, Result<Stored, StoreError>> =
            found.into_iter().map(|Listed { key, stored }| (key, stored)).collect();
        if self.look.latest {
            self.look.seen_from = self.look.sent;
        } else if !self.is_no_news(&found) {
            return self.look_now(now);
        }
        match found.remove(&self.board_key).transpose() {
            Ok(board) => {
                self.look.blind = false;
                self.saw_board(now, board);
            }
            Err(error) => {
                self.look.blind = !self.has_bug(Bug::BoardTrusted);
                self.tell(FleetNotice::Trouble(error));
            }
        }
        for key in std::mem::take(&mut self.look.neighbours) {
            self.saw_neighbour(now, &key, found.remove(&key));
        }
        for (key, stored) in found {
            if let (true, Ok(stored)) = (self.awaited.contains(&key), stored) {
                self.saw_awaited(now, key, stored);
            }
        }
        if self.look.again {
            self.look_now(now);
        }
    }

    pub(super) fn saw_board(&mut self, now: Now, board: Option<Stored>) {
        let same =
            self.board.as_ref().map(|board| board.version) == board.as_ref().map(|board| board.version);
        if !same || !board::is_alarmed(board.as_ref()) {
            let shows = board::is_alarmed(board.as_ref());
            let grew = board::generation(board.as_ref()) != board::generation(self.board.as_ref());
            if grew && !self.options.push {
                self.look.wary_until = now.held.after(self.part(8));
            }
            self.look.alarmed = shows.then_some(now.held);
            if let (false, Some(last)) =
                (same, board.as_ref().and_then(|board| board::auditor(&board.record)))
            {
                self.marked = now.held;
                self.audit_at = self.next_audit(now, Some(&last));
            }
            self.look.next = self.look.next.min(now.held.after(self.pace(now)));
        }
        self.board = board;
    }

    fn saw_neighbour(&mut self, now: Now, key: &Key, found: Option<Result<Stored, StoreError>>) {
        let Some(Peer { fence, .. }) = self.peers.get(key) else { return };
        let stored = match found {
            Some(Ok(stored)) => stored,
            // Whoever deletes or damages a session has it counted as gone once the roster is listed again.
            Some(Err(_)) | None => return self.neighbour_left(now, key),
        };
        let tenure = match &stored.record.tenure {
            Some(tenure) if stored.record.fence == *fence => tenure.clone(),
            _ => return self.neighbour_left(now, key),
        };
        let Worker { holder, peers, .. } = self;
        let rules = holder.env.rules.clone();
        if let Some(peer) = peers.get_mut(key) {
            peer.attested = rules.first_sight && is_attested(now, &stored, tenure.ttl);
        }
        let verdict = holder.env.detector.judge(now, key, &stored, &tenure, &rules);
        if rules.bugs.has(Bug::NeighbourSilenceForgotten) {
            holder.env.detector.end(key);
        }
        match verdict {
            // What is seen may be old, and then it has renewed since.
            Verdict::Suspected if !self.look.latest => self.look_now(now),
            Verdict::Suspected => self.fence_neighbour(now, key.clone(), stored),
            Verdict::Live { until } => {
                self.look.next = self.look.next.min(until);
                let left = until.since(now.held);
                if self.look.in_sight.get(key).is_some_and(|beyond| until > *beyond) {
                    self.look.in_sight.remove(key);
                }
                if left >= tenure.ttl.duration() * 7 / 12 {
                    return;
                }
                // A renewal, which is due every third of a ttl, is overdue.
                if !self.look.latest {
                    return self.look_now(now);
                }
                self.keep_in_sight(key.clone(), until);
                self.raise_alarm(now);
            }
        }
    }

    /// Watches it until it is seen to live beyond that.
    fn keep_in_sight(&mut self, key: Key, beyond: Tick) {
        if self.look.in_sight.len() < IN_SIGHT {
            self.look.in_sight.entry(key).or_insert(beyond);
        }
    }

    /// It has stopped, or its session is a new one.
    fn neighbour_left(&mut self, now: Now, key: &Key) {
        let leaving = self.peers.remove(key).is_some_and(|peer| peer.about.leaving);
        if !leaving {
            self.want_bump(now.held);
        }
    }

    /// Its units can be taken once its session can't be renewed any more.
    pub(super) fn fence_neighbour(&mut self, now: Now, key: Key, stored: Stored) {
        self.peers.remove(&key);
        if self.is_fencing(&key) || self.has_bug(Bug::DeadNeighbourIgnored) {
            return;
        }
        let Ok(fence) = stored.record.fence.next(Fence::floor(now.wall)) else { return };
        let record =
            Record { fence, nonce: self.nonces.draw(), stamp: now.wall, tenure: None, ..stored.record };
        let write = Write { key: key.clone(), expect: Expect::Unchanged(stored.version), record };
        self.send(Errand::Fence(key), Op::Write(Box::new(write)));
    }

    pub(super) fn fenced(&mut self, now: Now, key: &Key, result: Result<Answer, StoreError>) {
        if let Err(error) = result {
            self.tell(FleetNotice::Trouble(error));
        } else {
            self.holder.env.detector.end(key);
        }
        // Won or lost or unknown, the roster shows what it came to.
        if !self.has_bug(Bug::DeathNotTold) {
            self.want_bump(now.held);
        }
    }

    /// Whether an alarm stands. One that was raised long ago was a false one, and nobody looks more often for it any more.
    pub(super) fn is_alarmed(&self, now: Now) -> bool {
        self.look.alarmed.is_some_and(|since| now.held.since(since) < self.part(1) * 2)
    }

    /// Without a push, the others would learn of a death only at their next regular look.
    fn raise_alarm(&mut self, now: Now) {
        if self.options.push || self.is_alarmed(now) || self.look.blind || self.has_bug(Bug::AlarmNotRaised) {
            return;
        }
        if let Some(board) = &self.board {
            self.look.alarmed = Some(now.held);
            let write = board::alarm(self.board_key.clone(), board, self.nonces.draw(), now.wall);
            self.send(Errand::Alarm, Op::Write(Box::new(write)));
        } else {
            // Somebody has deleted it.
            self.want_bump(now.held);
        }
    }

    pub(super) fn alarmed(&mut self, now: Now, result: Result<Answer, StoreError>) {
        match result {
            Ok(Answer::Write(Outcome::Lost(current))) => {
                self.saw_board(now, current);
                if !self.is_alarmed(now) {
                    // Somebody wrote something else there: what that is, and whether it still takes an alarm, the next look shows.
                    self.look_now(now);
                }
            }
            Ok(_) => self.look_now(now),
            Err(error) => self.tell(FleetNotice::Trouble(error)),
        }
    }

    /// Something has changed that the others should look into.
    pub(super) fn want_bump(&mut self, at: Tick) {
        if self.look.blind {
            // Nobody can be told, this worker included.
            self.list_at = self.list_at.min(at);
        }
        match &mut self.bump {
            Bump::Idle => self.bump = Bump::At(at),
            Bump::At(planned) => *planned = (*planned).min(at),
            Bump::Sent { again, .. } => *again = true,
        }
    }

    pub(super) fn wake_bump(&mut self, now: Now) {
        if matches!(self.bump, Bump::At(at) if now.held >= at) {
            let seen = self.board.clone();
            self.send_bump(now, seen.as_ref(), None);
        }
    }

    fn send_bump(&mut self, now: Now, seen: Option<&Stored>, lost_to: Option<Fence>) {
        match board::bump(self.board_key.clone(), seen, self.nonces.draw(), now.wall) {
            Ok(write) => {
                let again = matches!(self.bump, Bump::Sent { again: true, .. });
                self.send(Errand::Bump, Op::Write(Box::new(write.clone())));
                self.bump = Bump::Sent { write: Box::new(write), lost_to, again };
            }
            Err(error) => {
                self.bump = Bump::Idle;
                self.tell(FleetNotice::Trouble(error));
            }
        }
    }

    pub(super) fn bumped(&mut self, now: Now, result: Result<Answer, StoreError>) {
        let Bump::Sent { write, lost_to, again } = &self.bump else { return };
        let (lost_to, again) = (*lost_to, *again);
        let retry = now.held.after(if self.look.blind { self.interval() } else { self.part(32) });
        match result {
            Ok(Answer::Write(Outcome::Won { version, .. })) => {
                let board = Stored::new(write.record.clone()).versioned(version);
                self.bump = if again { Bump::At(retry) } else { Bump::Idle };
                self.saw_board(now, Some(board));
            }
            Ok(Answer::Write(Outcome::Lost(current))) => {
                self.saw_board(now, current.clone());
                let standing = board::generation(current.as_ref());
                match lost_to {
                    // Between the two attempts, and so after what we have to tell, somebody else has raised it.
                    Some(before) if standing > before => {
                        self.bump = if again { Bump::At(retry) } else { Bump::Idle };
                    }
                    before => self.send_bump(now, current.as_ref(), Some(before.unwrap_or(standing))),
                }
            }
            Ok(_) => self.bump = Bump::Idle,
            Err(error) => {
                self.bump = Bump::At(retry);
                self.tell(FleetNotice::Trouble(error));
            }
        }
    }
}

#[cfg(test)]
mod tests;
