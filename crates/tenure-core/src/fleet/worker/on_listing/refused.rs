//! Plan: for a ttl a planner tries to list, and then it gives its role up, unless a page could be listed meanwhile; it leaves it to others
//! for a ttl, for two, and so on; a plan that was told ends that; who does not plan gives nothing up, and lists for itself ever more
//! seldom; what it is to pass on waits for no listing that it may not make.
use super::*;
use crate::fleet::board;
use crate::fleet::talk::{FleetCommand, FleetNotice, RequestId};
use crate::fleet::unit::UnitSpec;
use crate::fleet::worker::alone::*;
use crate::fleet::worker::listing::Listing;
use crate::fleet::worker::planner::Targets;
use crate::holder::lease_id::LeaseId;
use crate::op::{Answer, Event, Machine, Op, Outcome, Write};
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
    let won = Answer::Write(Outcome::Won { version: Version(u128::from(from)), fence: write.record.fence });
    worker.life.joined = true;
    worker.marked(at(from + 48), write, Ok(won));
    worker.life.joined = false;
    assert!(!worker.is_planner() && worker.board.planner().is_none());
    assert_eq!(worker.advance.wanted_at(), None, "others are to take that place");
    let waits = (0..10_000).find(|secs| worker.planner.may_plan(at(from + 48 + secs), &worker.env)).unwrap();
    worker.saw_board(at(from + 48), Some(board_by(8, u128::from(from) + 1, &myself())));
    assert!(worker.is_planner());
    worker.io.in_flight.clear();
    waits
}

#[test]
fn l2_a_planner_that_cant_list_leaves_that_to_others_for_ever_longer() {
    let mut worker = led(2, true);
    assert!(worker.planner.may_plan(at(0), &worker.env));
    let waits: Vec<u64> = (0..6).map(|n| resigns(&mut worker, 1000 * (n + 1))).collect();
    assert_eq!(waits, [48, 96, 192, 384, 384, 384]);
    let listing = Listing::of_peers(BTreeMap::clone(&worker.roster));
    worker.tell_plan(at(8500), &listing, &Targets::default(), (3, 0));
    let write = board_write(&mut worker).unwrap();
    let won = Answer::Write(Outcome::Won { version: Version(8500), fence: write.record.fence });
    worker.marked(at(8500), write, Ok(won));
    assert_eq!(resigns(&mut worker, 9000), 48);
}

#[test]
fn c1_who_can_not_list_for_itself_goes_by_what_it_is_told_and_tries_ever_more_seldom() {
    let mut worker = led(2, false);
    let (mut secs, mut gaps) = (100, Vec::new());
    for _ in 0..11 {
        worker.refused_listing(at(secs), true);
        assert_eq!(worker.doubts.list_at.take(), Some(at(secs).held), "its part is read again");
        assert!(!worker.hearing.lists() && !worker.lister.may_list(at(secs)));
        let gap = worker.lister.rests_until().0.since(at(secs).held).as_secs();
        secs += gap;
        assert!(worker.lister.may_list(at(secs)));
        gaps.push(gap);
    }
    assert_eq!(gaps, [16, 16, 32, 64, 128, 256, 512, 1024, 1536, 1536, 1536]);
    let roster = Listing::of_peers(BTreeMap::clone(&worker.roster));
    worker.lister.end(at(secs), &worker.env, &roster, false);
    worker.refused_listing(at(secs), false);
    assert_eq!(worker.doubts.list_at, None);
    assert_eq!(worker.lister.rests_until().0, at(secs + 16).held);
}

#[test]
fn whoever_lists_some_or_does_not_plan_gives_nothing_up() {
    let mut worker = led(2, true);
    assert!(!worker.cannot_list(at(100)));
    worker.planner.listed_page();
    assert!(!worker.cannot_list(at(200)));
    let mut other = led(2, false);
    assert!(!other.cannot_list(at(100)) && !other.cannot_list(at(300)));
    assert_eq!(board_write(&mut other), None);
}

#[test]
fn whoever_could_not_plan_takes_that_role_later_than_others_and_not_for_what_else_it_has_to_tell() {
    let mut worker = led(2, true);
    assert!(!worker.cannot_list(at(54)) && worker.cannot_list(at(102)));
    worker.io.in_flight.clear();
    asked(&mut worker);
    let vacant = Some(board(8, 8));
    worker.life.joined = true;
    worker.saw_board(at(104), vacant.clone());
    assert_eq!(worker.advance.wanted_at(), None);
    worker.want_advance(at(104).held);
    worker.wake_advance(at(104));
    assert_eq!(board::planner(&board_write(&mut worker).unwrap().record), None);
    worker.advance.end();
    worker.saw_board(at(150), vacant);
    assert_eq!(worker.advance.wanted_at(), Some(at(158).held));
}

/// The worker 0 does not plan, and what it did for a unit ends. Who has the unit by what it writes once the store has refused to list the
/// roster, and how often it has failed; and what is told.
fn ends_unlisted(others: usize, to: Option<usize>) -> (Option<(HolderId, u32)>, Vec<FleetNotice>) {
    let mut worker = led(others, false);
    let lease = gets(&mut worker, 0);
    worker.command(at(3), ended(lease, to));
    worker.wake_listing(at(3));
    told(&mut worker);
    worker.paged(at(3), worker.lister.count(), Err(StoreError::unsupported("denied")));
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
