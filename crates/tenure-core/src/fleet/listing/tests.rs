//! Plan: when all is listed, page by page; what sessions and units count as; what is planned of that, pins included, and who ends
//! a dead one's session; who says that it has audited. Two witnesses agree while they are less than a quarter of a ttl apart,
//! whichever says more.
use super::*;
use crate::fleet::alone::*;
use crate::fleet::look::Bump;
use crate::fleet::ring::in_ring;
use crate::values::fence::Nonce;
use crate::values::metadata::Metadata;
use crate::values::record::{Attachment, Record};
use crate::values::time::Wall;
use std::time::Duration;

/// With a session, and at rest for long: it has listed what the board shows.
fn rested() -> Worker {
    let mut worker = up();
    worker.board = Some(board(7, 1));
    worker.listed = Some(Fence(7));
    (worker.list_at, worker.audit_at) = (at(50).held, at(9000).held);
    (worker.bump, worker.listing, worker.doubts.list_at) = (Bump::Idle, None, None);
    worker.errands.clear();
    worker
}

fn page(found: &[(Key, Stored)]) -> Result<Answer, StoreError> {
    let found = found.iter().cloned();
    Ok(Answer::Listed(found.map(|(key, stored)| Listed { key, stored: Ok(stored) }).collect()))
}

/// Lists these workers and units; what it then plans.
fn lists(worker: &mut Worker, secs: u64, workers: &[(Key, Stored)], units: &[(Key, Stored)]) -> Summary {
    worker.doubts.list_at = Some(at(secs).held);
    worker.wake_listing(at(secs));
    worker.paged(at(secs), worker.lists, page(workers));
    worker.wake_listing(at(secs));
    worker.paged(at(secs), worker.lists, page(units));
    let planned = |notice| match notice {
        FleetNotice::Planned(summary) => Some(*summary),
        _ => None,
    };
    told(worker).into_iter().find_map(planned).unwrap()
}

/// A unit that is pinned to the worker 0.
fn pinned(n: usize, attachment: Option<Option<Attachment>>) -> (Key, Stored) {
    let spec = UnitSpec { pin: Some(holder(0)), ..UnitSpec::default() };
    (unit(n), record(attachment, &spec))
}

fn attachment(session: Key, fence: u64) -> Option<Option<Attachment>> {
    Some(Some(Attachment { session, fence: Fence(fence) }))
}

fn lives(n: usize, heartbeat: u128) -> (Key, Stored) {
    (session(n), session_record(n, 7, heartbeat))
}

#[test]
fn all_is_listed_when_something_may_be_new_and_else_when_it_is_time_for_an_audit() {
    let wakes = |change: &dyn Fn(&mut Worker)| {
        let mut worker = rested();
        change(&mut worker);
        let wakes = worker.listing_wakes().unwrap();
        worker.wake_listing(Now { held: Tick(wakes.0 - 1), ..at(0) });
        assert!(worker.listing.is_none());
        worker.wake_listing(Now { held: wakes, ..at(0) });
        assert!(worker.listing.is_some());
        wakes.0 / 1_000_000_000
    };
    assert_eq!(wakes(&|_| ()), 9000);
    assert_eq!(wakes(&|worker| worker.listed = Some(Fence(6))), 50);
    assert_eq!(wakes(&|worker| worker.look.blind = true), 50);
    assert_eq!(wakes(&|worker| worker.list_again(at(60).held)), 60);
    assert_eq!(wakes(&|worker| worker.list_again(at(40).held)), 50, "not all the time");
    assert_eq!(wakes(&|worker| worker.list_again(at(9060).held)), 9000);
}

#[test]
fn a_listing_goes_on_page_by_page_after_trouble_too_and_takes_no_others_pages() {
    let mut worker = rested();
    let listings = |worker: &mut Worker| {
        let listing = |op| match op {
            Op::List { prefix, after, .. } => Some((prefix, after)),
            _ => None,
        };
        asked(worker).into_iter().filter_map(|asked| listing(asked.op)).collect::<Vec<_>>()
    };
    let (workers, units) = (fleet().worker_prefix(), fleet().unit_prefix());
    worker.list_again(at(100).held);
    worker.wake_listing(at(100));
    assert_eq!(listings(&mut worker), [(workers.clone(), None)]);
    worker.paged(at(101), worker.lists, Err(StoreError::unavailable("away")));
    worker.wake_listing(at(103));
    assert_eq!(listings(&mut worker), []);
    worker.wake_listing(at(104));
    assert_eq!(listings(&mut worker), [(workers.clone(), None)]);
    // A full page: there may be more.
    let full: Vec<_> = (1..=10).map(|n| lives(n, 1)).collect();
    worker.paged(at(105), worker.lists, page(&full));
    worker.wake_listing(at(105));
    assert_eq!(listings(&mut worker), [(workers.clone(), Some(session(10)))]);
    worker.paged(at(106), worker.lists, page(&[]));
    worker.wake_listing(at(106));
    assert_eq!(listings(&mut worker), [(units, None)]);
    let before = worker.lists;
    worker.paged(at(107), before, page(&[]));
    assert_eq!((worker.listing.is_some(), worker.peers.len()), (false, 10));
    // Late pages of that one.
    worker.list_again(at(200).held);
    worker.wake_listing(at(200));
    worker.paged(at(201), before, page(&[]));
    worker.wake_listing(at(201));
    assert_eq!(listings(&mut worker), [(workers, None)], "it still waits for the first page");
}

#[test]
fn l3_what_is_listed_alone_puts_off_no_audit() {
    let audits_at = |secs, generation| {
        let mut worker = rested();
        worker.board = Some(board(generation, 1));
        worker.list_at = at(0).held;
        // Its session is to last.
        worker.ttl = Ttl::new(Duration::from_secs(80_000)).unwrap();
        lists(&mut worker, secs, &[], &[]);
        worker.audit_at
    };
    assert_eq!(audits_at(20, 7), at(9000).held);
    assert!(audits_at(20, 8) < at(800).held, "all list that, and count from there");
}

#[test]
fn c1_a_refusal_is_remembered_until_somebody_else_has_the_unit() {
    // When it lists again after another refusal, in seconds.
    let again = |attachment: Option<Option<Attachment>>| {
        let mut worker = rested();
        worker.list_at = at(0).held;
        let refused = |worker: &mut Worker, secs, units: &[(Key, Stored)]| {
            lists(worker, secs, &[lives(1, 1)], units);
            worker.list_at = at(0).held;
            worker.awaited.clear();
            worker.doubts.list_at = None;
            worker.try_unit(at(secs), unit(0), None);
            let lease = worker.own[&unit(0)].lease;
            worker.failed(at(secs), lease, StoreError::unsupported("denied"));
            worker.doubts.list_at.unwrap().since(at(secs).held).as_secs()
        };
        assert_eq!(refused(&mut worker, 2, &[pinned(0, None)]), 3);
        refused(&mut worker, 9, &[pinned(0, attachment)])
    };
    assert_eq!(again(None), 7);
    assert_eq!(again(attachment(session(0), 5)), 7, "its own record");
    assert_eq!(again(attachment(session(1), 7)), 3);
}

#[test]
fn what_comes_to_be_awaited_is_looked_for_often_from_then_on() {
    let mut worker = rested();
    let has = |n| pinned(n, attachment(session(1), 7));
    let mut from = |secs, units: &[(Key, Stored)]| {
        worker.list_at = at(0).held;
        lists(&mut worker, secs, &[lives(1, 1)], units);
        worker.awaited_from
    };
    assert_eq!(from(2, &[has(0)]), at(2).held);
    assert_eq!(from(5, &[has(0)]), at(2).held);
    assert_eq!(from(8, &[has(0), has(1)]), at(8).held);
    assert_eq!(from(11, &[has(1)]), at(8).held);
}

#[test]
fn what_a_unit_is_attached_to_says_who_has_it() {
    let mut worker = rested();
    // The worker 2 has stopped, and 3 began anew.
    let stopped = Stored { record: Record { tenure: None, ..board(7, 1).record }, ..board(7, 1) };
    let workers = [lives(1, 1), (session(2), stopped), lives(3, 1)];
    let elsewhere = Key::new("session/x").unwrap();
    let units = [
        pinned(0, None),
        pinned(1, attachment(session(1), 7)),
        pinned(2, attachment(session(2), 6)),
        pinned(3, attachment(session(3), 6)),
        pinned(4, attachment(session(4), 6)),
        pinned(5, attachment(elsewhere, 6)),
        pinned(6, Some(None)),
    ];
    // Before its session would have to be renewed.
    worker.list_at = at(0).held;
    let summary = lists(&mut worker, 10, &workers, &units);
    assert_eq!((summary.workers, summary.units, summary.planned), (3, 5, 5), "a pin holds");
    assert_eq!(worker.awaited, [unit(1)].into());
    let claimed: Vec<&Key> = worker.own.keys().collect();
    assert_eq!(claimed, [&unit(0), &unit(2), &unit(3)]);
    let asks = worker.errands.values().filter(|errand| matches!(errand, Errand::Missing(..))).count();
    assert_eq!(asks, 1, "whether the session of the worker 4 is really missing");
}

#[test]
fn a_plan_says_how_many_each_has_and_what_is_uncovered() {
    let mut worker = rested();
    let odd = |n: usize| {
        (
            session(n),
            Stored { record: Record { metadata: Metadata::new(), ..lives(n, 1).1.record }, ..lives(n, 1).1 },
        )
    };
    let spec = |status| UnitSpec { status, ..UnitSpec::default() };
    let mut units: Vec<_> = (0..7).map(|n| (unit(n), record(None, &spec(Status::Open)))).collect();
    units.push((unit(7), record(attachment(session(9), 7), &spec(Status::Open))));
    units.push((unit(8), record(attachment(session(9), 7), &spec(Status::Done))));
    let summary = lists(&mut worker, 100, &[lives(1, 1), lives(2, 1), odd(9)], &units);
    assert_eq!((summary.units, summary.planned), (7, 3));
    assert_eq!(summary.uncovered, [(unit(7), Uncovered::Foreign)]);
    let planned: Vec<u64> = worker.peers.values().map(|peer| peer.planned).collect();
    assert_eq!(planned, [2, 2]);
}

#[test]
fn ages_are_trusted_where_that_is_wanted_and_the_wall_clocks_agree() {
    for (first_sight, age, attested) in [(true, 40, true), (false, 40, false), (true, 10, false)] {
        let mut worker = rested();
        worker.holder.env.rules.first_sight = first_sight;
        // Its stamp is of 0 s.
        let (key, stored) = lives(1, 1);
        let stored = stored.aged(Some(Duration::from_secs(age)));
        worker.list_at = at(0).held;
        lists(&mut worker, 40, &[(key, stored)], &[]);
        assert_eq!(worker.peers[&session(1)].attested, attested, "{first_sight} {age}");
    }
}

#[test]
fn whoever_takes_what_a_dead_one_had_ends_its_session_at_once() {
    let mut ring: Vec<Key> = (0..10).map(session).collect();
    ring = in_ring(&ring).into_iter().cloned().collect();
    let me = ring.iter().position(|key| *key == session(0)).unwrap();
    // Five stand between this worker and the dead one.
    let gone = &ring[(me + 6) % 10];
    let gone = (1..10).find(|n| session(*n) == *gone).unwrap();
    for (pin, ends) in [(0, true), (if gone == 1 { 2 } else { 1 }, false)] {
        let mut worker = rested();
        let spec = UnitSpec { pin: Some(holder(pin)), ..UnitSpec::default() };
        let units = [(unit(0), record(attachment(session(gone), 7), &spec))];
        let workers =
            |heartbeat| (1..10).map(|n| lives(n, if n == gone { 1 } else { heartbeat })).collect::<Vec<_>>();
        lists(&mut worker, 100, &workers(1), &units);
        assert!(!worker.is_fencing(&session(gone)));
        let summary = lists(&mut worker, 150, &workers(2), &units);
        assert_eq!((summary.workers, worker.is_fencing(&session(gone))), (9, ends), "{pin}");
    }
}

#[test]
fn whose_turn_it_was_says_that_it_has_audited() {
    for (turn, behind, says) in
        [(true, false, true), (true, true, false), (false, false, false), (false, true, false)]
    {
        let mut worker = rested();
        worker.audit_at = at(if turn { 990 } else { 9000 }).held;
        worker.listed = Some(Fence(if behind { 6 } else { 7 }));
        lists(&mut worker, 1000, &[lives(1, 1)], &[]);
        let marks = worker.errands.values().any(|errand| matches!(errand, Errand::Mark(_)));
        assert_eq!(marks, says, "{turn} {behind}");
        assert!(worker.audit_at > at(1000).held);
    }
}
#[test]
fn an_age_is_attested_if_the_wall_clocks_say_nearly_the_same() {
    let ttl = Ttl::new(Duration::from_secs(10)).unwrap();
    let now = Now { held: Tick(0), waited: Tick(0), wall: Wall(100_000) };
    let record = |stamp| Record {
        fence: Fence(1),
        nonce: Nonce(1),
        stamp: Wall(stamp),
        tenure: None,
        metadata: Metadata::new(),
    };
    let stored = |age| Stored::new(record(95_000)).aged(age);
    for (millis, agree) in [(2_500, false), (2_501, true), (5_000, true), (7_499, true), (7_500, false)] {
        let age = Some(Duration::from_millis(millis));
        assert_eq!(is_attested(now, &stored(age), ttl), agree, "{millis}");
    }
    assert!(!is_attested(now, &stored(None), ttl));
}

#[test]
fn what_changes_while_all_is_listed_is_listed_again() {
    let mut worker = rested();
    worker.list_again(at(100).held);
    worker.wake_listing(at(100));
    worker.paged(at(101), worker.lists, page(&[lives(1, 1)]));
    // Somebody joins behind what was listed already.
    worker.saw_board(at(102), Some(board(8, 2)));
    worker.wake_listing(at(103));
    worker.paged(at(103), worker.lists, page(&[]));
    assert!(worker.listing.is_none() && worker.is_behind());
    assert_eq!(worker.planned_from, at(100).held, "what was planned is as old as that listing's beginning");
    let again = worker.listing_wakes().unwrap();
    assert!(again < at(120).held, "{again:?}");
    worker.wake_listing(Now { held: again, ..at(120) });
    assert_eq!(worker.listing.as_ref().map(|listing| listing.generation), Some(Fence(8)));
}

#[test]
fn a_page_that_fails_is_asked_for_again_and_nothing_is_planned_without_it() {
    let mut worker = rested();
    worker.list_again(at(100).held);
    worker.wake_listing(at(100));
    worker.paged(at(101), worker.lists, page(&[lives(1, 1)]));
    worker.wake_listing(at(101));
    let full: Vec<_> = (0..10).map(|n| (unit(n), record(None, &UnitSpec::default()))).collect();
    worker.paged(at(102), worker.lists, page(&full));
    worker.wake_listing(at(102));
    asked(&mut worker);
    worker.paged(at(103), worker.lists, Err(StoreError::unavailable("away")));
    assert!(worker.own.is_empty() && worker.listing.is_some());
    worker.wake_listing(at(106));
    let Op::List { after, .. } = asked(&mut worker).remove(0).op else { panic!("it lists") };
    assert_eq!(after, Some(unit(9)));
}
