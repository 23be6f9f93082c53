//! Workers that rest: in a large fleet each looks at the board once in many intervals. The planner says how seldom, and tells by letters those of whom the
//! board says something new.

use crate::bugs::Bug;
use crate::fleet::board::{self, ToldPlan};
use crate::fleet::worker::env::FleetEnv;
use crate::values::key::HolderId;
use crate::values::record::Stored;
use crate::values::time::{Now, Tick};
use std::collections::BTreeSet;

/// What the planner knows of those who rest.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Resters {
    /// Until then some may rest by what the board said before, as where most of a large fleet have died.
    told_until: Tick,
    /// Those who were told by this planner that they stand by.
    stand: BTreeSet<HolderId>,
}

impl Resters {
    /// This worker plans no more, or anew.
    pub(super) fn end(&mut self) {
        self.stand.clear();
    }

    /// In how many intervals each of so many workers is to look once, so that enough of them look in each.
    pub(super) fn next(&mut self, now: Now, env: &FleetEnv, board: Option<&Stored>, workers: usize) -> u32 {
        let longest = 2 * board.map_or(1, |board| board::rest(&board.record));
        if longest > 2 {
            let until = now.held.after(env.heard_within() * longest);
            self.told_until = self.told_until.max(until);
        }
        let rest = u32::try_from(workers / env.options.lookers.max(1)).unwrap_or(board::LONGEST_REST);
        rest.clamp(1, board::LONGEST_REST)
    }

    /// The board was marked. Those of whom it says something new, and who may rest: whom the plan concerns, and who is to stand by. Those who were told
    /// so before look in each interval.
    pub(super) fn marked(
        &mut self,
        now: Now,
        env: &FleetEnv,
        mark: &ToldPlan,
        standbys: BTreeSet<HolderId>,
    ) -> Vec<HolderId> {
        let stood = std::mem::replace(&mut self.stand, standbys);
        let all_look = mark.rest <= 1 && now.held >= self.told_until;
        if all_look || env.has_bug(Bug::RestersUntold) {
            return Vec::new();
        }
        let told: BTreeSet<HolderId> = mark.told.iter().flatten().chain(&self.stand).cloned().collect();
        told.difference(&stood).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    //! Plan: how seldom workers of a fleet look; who is told by a letter, and until when; no board has anybody rest, and be told, for longer than it may.
    use super::*;
    use crate::fleet::worker::alone::*;
    use crate::values::metadata::Value;

    fn mark(rest: u32, told: &[usize]) -> ToldPlan {
        let told = told.iter().map(|n| holder(*n)).collect();
        ToldPlan { number: 1, told: Some(told), counts: (3, 9), ttls: (ttl(), ttl()), rest }
    }

    fn env() -> FleetEnv {
        worker(0).env
    }

    /// A board that has workers rest for so many intervals.
    fn board_of(rest: impl Into<Value>) -> Stored {
        let mut board = own_board(7, 1);
        board.record.metadata.insert("rest".to_owned(), rest.into());
        board
    }

    /// Who is told by a letter.
    fn told(resters: &mut Resters, secs: u64, mark: &ToldPlan, standbys: &[usize]) -> Vec<HolderId> {
        resters.marked(at(secs), &env(), mark, standbys.iter().map(|n| holder(*n)).collect())
    }

    #[test]
    fn some_of_a_large_fleet_look_in_each_interval() {
        let mut resters = Resters::default();
        let board = board_of(1);
        let rests = [0, 1, 31, 32, 1000, 100_000];
        let rests = rests.map(|workers| resters.next(at(0), &env(), Some(&board), workers));
        assert_eq!(rests, [1, 1, 1, 2, 62, 64]);
    }

    #[test]
    fn whom_a_plan_concerns_and_who_is_to_stand_by_are_told_by_letters() {
        let mut resters = Resters::default();
        assert_eq!(told(&mut resters, 0, &mark(4, &[1, 2]), &[2, 3]), [1, 2, 3].map(holder));
        let again = told(&mut resters, 1, &mark(4, &[3, 5]), &[3, 4]);
        assert_eq!(again, [4, 5].map(holder), "who stands by looks anyway");
        resters.end();
        assert_eq!(told(&mut resters, 2, &mark(4, &[]), &[6]), [holder(6)]);
        let mut resters = Resters::default();
        assert_eq!(told(&mut resters, 0, &mark(1, &[1, 2]), &[3]), [], "all look");
    }

    #[test]
    fn those_who_rest_by_what_the_board_said_before_are_told_for_as_long_as_that() {
        let mut resters = Resters::default();
        assert_eq!(resters.next(at(100), &env(), Some(&board_of(4)), 8), 1, "most have died");
        for (secs, is_told) in [(100, true), (100 + 8 * 16 - 1, true), (100 + 8 * 16, false)] {
            let who = told(&mut resters, secs, &mark(1, &[1]), &[]);
            assert_eq!(who == [holder(1)], is_told, "{secs}");
        }
    }

    #[test]
    fn whatever_a_board_says_nobody_is_told_for_longer_than_it_may_rest() {
        for said in [1 << 31, (1 << 31) - 1, -1, 65, i64::MAX, i64::MIN] {
            let mut resters = Resters::default();
            resters.next(at(100), &env(), Some(&board_of(said)), 8);
            assert_eq!(told(&mut resters, 100 + 128 * 16, &mark(1, &[1]), &[]), [], "{said}");
        }
    }
}
