//! A planner that can't plan. It lives, but the store does not let it list, or tell others their parts. It gives its role up. It takes the
//! role again only if no other worker does, and ever more seldom while that fails.

use super::{FleetWorker, InFlight};
use crate::backoff::refusal::LastingRefusal;
use crate::bugs::Bug;
use crate::fleet::board;
use crate::op::Op;
use crate::values::time::{Now, Tick};

/// After at the most so many ttls a worker that could not plan tries again, if nobody else plans.
const LONGEST: u32 = 8;

/// What a worker knows of its own attempts at planning.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Unfit {
    /// Since when no page could be listed, and no plan be told.
    lists: Option<Tick>,
    tells: Option<Tick>,
    /// How often in a row it has given up its role, and until when it leaves that to others.
    resigned: Option<(u32, Tick)>,
    /// It is giving it up.
    resigns: bool,
    /// It can't list for itself.
    refused: Option<LastingRefusal>,
}

impl Unfit {
    /// Whether it could not plan when it last tried.
    pub(super) fn is_known(&self) -> bool {
        self.resigned.is_some()
    }

    /// The worker plans from now on, or does so no more.
    pub(super) fn begin(&mut self) {
        *self = Unfit { resigned: self.resigned, refused: self.refused, ..Unfit::default() };
    }

    /// A page could be listed.
    pub(super) fn listed(&mut self) {
        self.lists = None;
    }

    /// All pages of a listing could be listed.
    pub(super) fn listed_all(&mut self) {
        self.refused = None;
    }

    /// A whole plan was told.
    pub(super) fn told(&mut self) {
        *self = Unfit::default();
    }
}

impl FleetWorker {
    /// Whether this worker may plan if nobody does.
    pub(super) fn may_plan(&self, now: Now) -> bool {
        let waits = self.lead.unfit.resigned.is_some_and(|(_, until)| now.held < until);
        !waits || self.env.has_bug(Bug::UnfitPlansAgain)
    }

    /// Whether this worker may list for itself.
    pub(super) fn may_list(&self, now: Now) -> bool {
        !self.lead.unfit.refused.is_some_and(|refusal| refusal.waits(now))
    }

    /// The store does not let this worker list, which does not plan.
    pub(super) fn refused_listing(&mut self, now: Now, was_told_to: bool) {
        let refusal = LastingRefusal::next(self.lead.unfit.refused, now, self.env.part(1), false);
        let refusal = refusal.at_the_soonest(now.held.after(self.env.interval()));
        self.lead.unfit.refused = Some(refusal);
        self.list_at = refusal.again_at;
        self.hearing.give_up_listing();
        // What is done for these units has ended: they can't wait for what may last for ever.
        self.choose_from_roster(now);
        if was_told_to {
            // Its part says besides what it has.
            self.list_again(now.held);
        }
    }

    /// The store does not let this planner list. Whether it gives its role up.
    pub(super) fn cannot_list(&mut self, now: Now) -> bool {
        let since = *self.lead.unfit.lists.get_or_insert(now.held);
        self.give_up_planning(now, since)
    }

    /// The store does not let this planner tell somebody its part. Whether it gives its role up.
    pub(super) fn cannot_tell(&mut self, now: Now) -> bool {
        let since = *self.lead.unfit.tells.get_or_insert(now.held);
        self.give_up_planning(now, since)
    }

    /// What has lasted for a ttl may last.
    fn give_up_planning(&mut self, now: Now, since: Tick) -> bool {
        let is_marking = self.io.in_flight.values().any(|flight| matches!(flight, InFlight::ToldPlan(_)));
        if !self.is_planner() || is_marking || now.held.since(since) < self.env.part(1) {
            return false;
        }
        let Some(seen) =
            self.board.stored().filter(|_| !self.board.is_blind() && !self.env.has_bug(Bug::UnfitPlans))
        else {
            return false;
        };
        let write = board::resign(self.env.board_key.clone(), seen, self.env.nonces.draw(), now.wall);
        let again = u32::from(!std::mem::replace(&mut self.lead.unfit.resigns, true));
        let times = self.lead.unfit.resigned.map_or(0, |(times, _)| times + again);
        let wait = self.env.part(1) * (1 << times.min(LONGEST.ilog2()));
        self.lead.unfit.resigned = Some((times, now.held.after(wait)));
        self.telling.end();
        self.send(InFlight::ToldPlan(Box::new(write.clone())), Op::Write(Box::new(write)));
        true
    }
}

#[cfg(test)]
mod tests {
    //! Plan: for a ttl a planner tries to list, and then it gives its role up, unless a page could be listed meanwhile; it leaves it to others
    //! for a ttl, for two, and so on; a plan that was told ends that; who does not plan gives nothing up, and lists for itself ever more
    //! seldom; what it is to pass on waits for no listing that it may not make.
    use super::*;
    use crate::fleet::talk::{FleetCommand, FleetNotice, RequestId};
    use crate::fleet::unit::UnitSpec;
    use crate::fleet::worker::alone::*;
    use crate::holder::lease_id::LeaseId;
    use crate::op::{Answer, Event, Machine, Outcome, Write};
    use crate::values::error::StoreError;
    use crate::values::fence::Version;
    use crate::values::key::HolderId;

    fn board_write(worker: &mut FleetWorker) -> Option<Write> {
        let write = |op| if let Op::Write(write) = op { Some(*write) } else { None };
        asked(worker)
            .into_iter()
            .filter_map(|request| write(request.op))
            .find(|write| write.key == worker.env.board_key)
    }

    /// Fails to list from then on, until it gives its role up. When it may plan again, in seconds after that.
    fn resigns(worker: &mut FleetWorker, from: u64) -> u64 {
        for secs in [from, from + 16, from + 47] {
            assert!(!worker.cannot_list(at(secs)), "{secs}");
        }
        assert!(worker.cannot_list(at(from + 48)));
        let write = board_write(worker).unwrap();
        assert_eq!(board::planner(&write.record), None);
        let won =
            Answer::Write(Outcome::Won { version: Version(u128::from(from)), fence: write.record.fence });
        worker.life.joined = true;
        worker.marked(at(from + 48), write, Ok(won));
        worker.life.joined = false;
        assert!(!worker.is_planner() && worker.board.planner().is_none());
        assert_eq!(worker.advance.wake_at(), None, "others are to take that place");
        let waits = (0..10_000).find(|secs| worker.may_plan(at(from + 48 + secs))).unwrap();
        worker.saw_board(at(from + 48), Some(board_by(8, u128::from(from) + 1, &myself())));
        assert!(worker.is_planner());
        worker.io.in_flight.clear();
        waits
    }

    #[test]
    fn l2_a_planner_that_cant_list_leaves_that_to_others_for_ever_longer() {
        let mut worker = led(2, true);
        assert!(worker.may_plan(at(0)));
        let waits: Vec<u64> = (0..6).map(|n| resigns(&mut worker, 1000 * (n + 1))).collect();
        assert_eq!(waits, [48, 96, 192, 384, 384, 384]);
        worker.lead.unfit.told();
        assert_eq!(resigns(&mut worker, 9000), 48);
    }

    #[test]
    fn c1_who_can_not_list_for_itself_goes_by_what_it_is_told_and_tries_ever_more_seldom() {
        let mut worker = led(2, false);
        let (mut secs, mut gaps) = (100, Vec::new());
        for _ in 0..11 {
            worker.refused_listing(at(secs), true);
            assert_eq!(worker.doubts.list_at.take(), Some(at(secs).held), "its part is read again");
            assert!(!worker.hearing.lists() && !worker.may_list(at(secs)));
            let gap = worker.list_at.since(at(secs).held).as_secs();
            secs += gap;
            assert!(worker.may_list(at(secs)));
            gaps.push(gap);
        }
        assert_eq!(gaps, [16, 16, 32, 64, 128, 256, 512, 1024, 1536, 1536, 1536]);
        worker.lead.unfit.listed_all();
        worker.refused_listing(at(secs), false);
        assert_eq!(worker.doubts.list_at, None);
        assert_eq!(worker.list_at, at(secs + 16).held);
    }

    #[test]
    fn whoever_lists_some_or_does_not_plan_gives_nothing_up() {
        let mut worker = led(2, true);
        assert!(!worker.cannot_list(at(100)));
        worker.lead.unfit.listed();
        assert!(!worker.cannot_list(at(200)));
        let mut other = led(2, false);
        assert!(!other.cannot_list(at(100)) && !other.cannot_list(at(300)));
        assert_eq!(board_write(&mut other), None);
    }

    #[test]
    fn whoever_could_not_plan_takes_that_role_later_than_others_and_not_for_what_else_it_has_to_tell() {
        let mut worker = led(2, true);
        worker.lead.unfit.resigned = Some((0, at(150).held));
        let vacant = Some(board(8, 8));
        worker.life.joined = true;
        worker.saw_board(at(100), vacant.clone());
        assert_eq!(worker.advance.wake_at(), None);
        worker.want_advance(at(100).held);
        worker.wake_advance(at(100));
        assert_eq!(board::planner(&board_write(&mut worker).unwrap().record), None);
        worker.advance = super::super::advance::Advance::Idle;
        worker.saw_board(at(150), vacant);
        assert_eq!(worker.advance.wake_at(), Some(at(158).held));
    }

    /// The worker 0 does not plan, and what it did for a unit ends. Who has the unit by what it writes once the store has refused to list the
    /// roster, and how often it has failed; and what is told.
    fn ends_unlisted(others: usize, to: Option<usize>) -> (Option<(HolderId, u32)>, Vec<FleetNotice>) {
        let mut worker = led(others, false);
        let lease = gets(&mut worker, 0);
        worker.command(at(3), ended(lease, to));
        worker.wake_listing(at(3));
        told(&mut worker);
        worker.paged(at(3), worker.lists, Err(StoreError::unsupported("denied")));
        let step = worker.step(at(3), Event::Wake);
        let left = step.requests.into_iter().find_map(|request| match request.op {
            Op::Write(write) if write.key == unit(0) => Some(write.record),
            _ => None,
        });
        let left = left.map(|record| {
            let (spec, _) = UnitSpec::parse(record.metadata).unwrap();
            (record.tenure.unwrap().holder, spec.retry.map_or(0, |retry| retry.failures))
        });
        let is_told = |told: &FleetNotice| !matches!(told, FleetNotice::Trouble(_));
        (left, step.notices.into_iter().filter(is_told).collect())
    }

    /// It has failed, or is to go to this worker.
    fn ended(lease: LeaseId, to: Option<usize>) -> FleetCommand {
        match to {
            None => FleetCommand::Decline(lease, RequestId(9)),
            Some(to) => FleetCommand::HandTo(lease, RequestId(9), holder(to)),
        }
    }

    #[test]
    fn who_can_not_list_the_roster_goes_by_whom_it_knows() {
        assert_eq!(ends_unlisted(1, None), (Some((holder(1), 1)), vec![]));
        assert_eq!(ends_unlisted(0, None), (Some((holder(0), 1)), vec![]), "it rests here");
        assert_eq!(ends_unlisted(1, Some(1)), (Some((holder(1), 0)), vec![]));
        let (left, told) = ends_unlisted(1, Some(2));
        assert!(left.is_none() && matches!(told[..], [FleetNotice::Failed(..)]), "{left:?} {told:?}");
    }

    #[test]
    fn while_a_worker_may_not_list_what_it_gives_up_waits_for_no_listing() {
        let mut worker = led(1, false);
        let lease = gets(&mut worker, 0);
        worker.refused_listing(at(3), true);
        worker.command(at(4), ended(lease, None));
        let (_, left) = writes_unit(&mut worker, 0).unwrap();
        assert_eq!(left.record.tenure.map(|tenure| tenure.holder), Some(holder(1)));
    }
}
