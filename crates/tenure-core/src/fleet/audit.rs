//! The audit: a listing though the board shows nothing new, for what was orphaned in some way that nobody told of. The workers
//! take turns at it. Whoever has done so says it on the board, and all count their turns from there, so that clocks whose rates
//! differ don't drive the turns apart.

use super::board;
use super::look::Bump;
use super::worker::{Errand, Worker};
use crate::bugs::Bug;
use crate::op::{Answer, Op, Outcome, Write};
use crate::values::error::StoreError;
use crate::values::key::Key;
use crate::values::record::Stored;
use crate::values::time::{Now, Tick};
use std::time::Duration;

/// The longest time between two audits of one worker.
const MOST_BETWEEN: Duration = Duration::from_secs(3600);

impl Worker {
    /// When this worker audits, if nothing happens before: so that however many workers there are, one of them does so every
    /// ten ttls, or each at least once in an hour. `after` is who did so last; without that, all have just listed.
    pub(super) fn next_audit(&self, now: Now, after: Option<&Key>) -> Tick {
        if self.has_bug(Bug::AuditForgotten) {
            return Tick::NEVER;
        }
        let place = |key: &Key| self.peers.range(..key.clone()).count() + usize::from(self.me < *key);
        let workers = self.peers.len() + 1;
        // How many others come before this worker.
        let before = match after {
            None => place(&self.me),
            Some(last) => {
                let is_here = *last == self.me || self.peers.contains_key(last);
                (place(&self.me) + 2 * workers - place(last) - usize::from(is_here)) % workers
            }
        };
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (before, workers) = (count(before), count(workers));
        let turn = self.part(1).max(Duration::from_secs(3)) * 10;
        let round = turn.saturating_mul(workers).min(turn.max(MOST_BETWEEN));
        let turn = round / workers;
        let jitter = turn / 512 * u32::from(self.nonces.jitter());
        now.held.after(turn * (before + 1) - turn / 4 + jitter)
    }

    /// Tells the others that this worker has audited. If something is about to change the board anyway, it isn't worth a write;
    /// nor is it if somebody has done so not long ago, as in fleets that are so large that somebody audits all the time.
    pub(super) fn mark_audit(&mut self, now: Now) {
        let Some(seen) = &self.board else { return };
        let lately = now.held.since(self.marked) < self.part(1) * 5;
        if self.has_bug(Bug::AuditorsDisagree)
            || lately
            || self.bump != Bump::Idle
            || self.look.blind
            || self.is_alarmed(now)
        {
            return;
        }
        let write = board::mark(self.board_key.clone(), seen, &self.me, self.nonces.draw(), now.wall);
        self.send(Errand::Mark(Box::new(write.clone())), Op::Write(Box::new(write)));
    }

    pub(super) fn marked(&mut self, now: Now, write: Write, result: Result<Answer, StoreError>) {
        match result {
            Ok(Answer::Write(Outcome::Won { version, .. })) => {
                self.saw_board(now, Some(Stored::new(write.record).versioned(version)));
            }
            Ok(Answer::Write(Outcome::Lost(current))) => self.saw_board(now, current),
            Ok(_) => {}
            Err(error) => self.tell(super::talk::FleetNotice::Trouble(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: after a listing by all, and after each one's audit, every worker's turn is another one, in the order of their
    //! names from there; whoever is not on the roster any more still counts from its place; no round is longer than an hour.
    //! An audit is told on the board, but not too often, and only if that helps anybody.
    use super::*;
    use crate::fleet::listing::Peer;
    use crate::fleet::{About, FleetName, Options};
    use crate::holder::Identity;
    use crate::rules::Rules;
    use crate::values::fence::{Fence, Nonce, Version};
    use crate::values::key::HolderId;
    use crate::values::time::{Ttl, Wall};
    use std::collections::BTreeMap;

    const TTL: u64 = 10;

    fn key(n: usize) -> Key {
        FleetName::new("f").unwrap().worker(&HolderId::new(format!("w{n:03}")).unwrap()).unwrap()
    }

    /// The `me`-th of so many workers.
    fn worker(me: usize, of: usize) -> Worker {
        let ttl = Ttl::new(Duration::from_secs(TTL)).unwrap();
        let identity = Identity {
            holder: HolderId::new(format!("w{me:03}")).unwrap(),
            session: Key::new("unset").unwrap(),
            ttl,
            about: BTreeMap::new(),
            instance: me as u64,
        };
        let options = Options {
            fleet: FleetName::new("f").unwrap(),
            about: About::default(),
            drain: Duration::ZERO,
            push: false,
            page: 10,
        };
        let mut worker = Worker::new(identity, Rules::default(), options).unwrap();
        for other in (0..of).filter(|other| *other != me) {
            let holder = HolderId::new(format!("w{other:03}")).unwrap();
            let about = About::default();
            let peer = Peer {
                holder,
                fence: Fence(1),
                ttl,
                about,
                attested: true,
                planned: 0,
                counted: 0,
                letters: true,
            };
            worker.peers.insert(key(other), peer);
        }
        worker
    }

    /// Which turn is whose, each `secs` long.
    fn turns(of: usize, after: Option<usize>, secs: u64) -> Vec<usize> {
        let now = Now { held: Tick(0), waited: Tick(0), wall: Wall(0) };
        let turn = Duration::from_secs(secs).as_nanos() as u64;
        let at = |me| worker(me, of).next_audit(now, after.map(key).as_ref()).0;
        // A quarter before its time at the earliest, and a quarter after it at the latest.
        assert!((0..of).all(|me| (at(me) + turn / 4) % turn <= turn / 2));
        let mut turns: Vec<(u64, usize)> = (0..of).map(|me| ((at(me) + turn / 4) / turn, me)).collect();
        turns.sort_unstable();
        assert!(turns.iter().map(|(turn, _)| *turn).eq(1..=of as u64), "{turns:?}");
        turns.into_iter().map(|(_, me)| me).collect()
    }

    #[test]
    fn the_workers_take_turns_from_whoever_audited_last() {
        assert_eq!(turns(4, None, 100), [0, 1, 2, 3]);
        assert_eq!(turns(4, Some(0), 100), [1, 2, 3, 0]);
        assert_eq!(turns(4, Some(2), 100), [3, 0, 1, 2]);
        assert_eq!(turns(4, Some(3), 100), [0, 1, 2, 3]);
        assert_eq!(turns(1, None, 100), [0]);
        assert_eq!(turns(1, Some(0), 100), [0]);
    }

    #[test]
    fn each_audits_once_in_an_hour_at_least() {
        assert_eq!(turns(72, Some(70), 50)[..3], [71, 0, 1]);
    }

    #[test]
    fn turns_count_from_the_place_of_whoever_has_gone_since() {
        assert_eq!(turns(3, Some(7), 100), [0, 1, 2]);
        assert_eq!(turns(1, Some(7), 100), [0]);
    }

    fn at(secs: u64) -> Now {
        Now { held: Tick(secs * 1_000_000_000), waited: Tick(0), wall: Wall(0) }
    }

    /// The first of three, which has seen this board; another was marked at 100 s.
    fn auditor(seen: &Stored) -> Worker {
        let mut worker = worker(0, 3);
        worker.board = Some(seen.clone());
        worker.marked = at(100).held;
        worker
    }

    fn stands(write: Write) -> Stored {
        Stored::new(write.record).versioned(Version(5))
    }

    #[test]
    fn an_audit_is_told_unless_that_was_done_lately_or_is_of_no_use() {
        let board = FleetName::new("f").unwrap().board().unwrap();
        let seen = stands(board::bump(board.clone(), None, Nonce(1), Wall(0)).unwrap());
        let alarmed = stands(board::alarm(board, &seen, Nonce(2), Wall(0)));
        let alarmed = alarmed.versioned(Version(6));
        let tells = |change: &dyn Fn(&mut Worker)| {
            let mut worker = auditor(&seen);
            change(&mut worker);
            worker.mark_audit(at(100 + 5 * TTL));
            worker.errands.len()
        };
        assert_eq!(tells(&|_| ()), 1);
        assert_eq!(tells(&|worker| worker.marked.0 += 1), 0, "lately");
        assert_eq!(tells(&|worker| worker.want_bump(at(200).held)), 0, "the board is to be raised");
        assert_eq!(tells(&|worker| worker.look.blind = true), 0, "nobody can read it");
        assert_eq!(tells(&|worker| worker.saw_board(at(149), Some(alarmed.clone()))), 0, "it has an alarm");
        assert_eq!(tells(&|worker| worker.board = None), 0, "there is none");
    }

    #[test]
    fn the_auditor_knows_at_once_what_the_board_shows_then() {
        let board = FleetName::new("f").unwrap().board().unwrap();
        let seen = stands(board::bump(board, None, Nonce(1), Wall(0)).unwrap());
        let other = seen.clone().versioned(Version(9));
        let won = |write: &Write| Outcome::Won { version: Version(7), fence: write.record.fence };
        for lost in [false, true] {
            let mut worker = auditor(&seen);
            worker.mark_audit(at(200));
            let Some((_, Errand::Mark(write))) = worker.errands.pop_first() else {
                panic!("it tells nobody")
            };
            let outcome = if lost { Outcome::Lost(Some(other.clone())) } else { won(&write) };
            worker.marked(at(201), *write, Ok(Answer::Write(outcome)));
            let shows = worker.board.as_ref().map(|board| (board.version, board::auditor(&board.record)));
            let expected = if lost { (Version(9), None) } else { (Version(7), Some(key(0))) };
            assert_eq!(shows, Some(expected));
            assert_eq!(worker.marked, if lost { at(100).held } else { at(201).held });
        }
    }
}
