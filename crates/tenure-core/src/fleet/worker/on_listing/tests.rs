//! Plan: when all is listed, page by page, and by whom, and what is kept of that; what sessions and units count as, those of another layout
//! among them; what is planned of that, pins included.
use super::*;
use crate::fleet::layout::other_layout;
use crate::fleet::plan::Cause;
use crate::fleet::talk::{FleetNotice, RequestId};
use crate::fleet::unit::UnitSpec;
use crate::fleet::worker::alone::*;
use crate::fleet::worker::choice::EndedUnit;
use crate::fleet::worker::listing::Lister;
use crate::fleet::worker::own::Stage;
use crate::op::{Answer, Listed, Op};
use crate::values::fence::Fence;
use crate::values::metadata::{Metadata, RESERVED, Value};
use crate::values::record::Stored;
use crate::values::record::{Attachment, Record};

/// With a session, and at rest for long: it has listed what the board shows.
fn rested() -> FleetWorker {
    let mut worker = led(0, true);
    worker.lister = Lister::rested(Fence(7), at(50).held, at(9000).held);
    worker.advance.end();
    worker.doubts.list_at = None;
    worker.io.in_flight.clear();
    worker
}

fn page(found: &[(Key, Stored)]) -> Result<Answer, StoreError> {
    let found = found.iter().cloned();
    Ok(Answer::Listed(found.map(|(key, stored)| Listed { key, stored: Ok(stored) }).collect()))
}

/// Lists these workers and units; what it then plans.
fn lists(worker: &mut FleetWorker, secs: u64, workers: &[(Key, Stored)], units: &[(Key, Stored)]) -> Summary {
    worker.doubts.list_at = Some(at(secs).held);
    worker.wake_listing(at(secs));
    worker.paged(at(secs), worker.lister.count(), page(workers));
    worker.wake_listing(at(secs));
    worker.paged(at(secs), worker.lister.count(), page(&[]));
    worker.wake_listing(at(secs));
    worker.paged(at(secs), worker.lister.count(), page(units));
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
fn all_is_listed_when_something_may_be_new_and_else_when_it_is_time_for_that() {
    let wakes = |change: &dyn Fn(&mut FleetWorker)| {
        let mut worker = rested();
        change(&mut worker);
        let wakes = worker.listing_wake_at().unwrap();
        worker.wake_listing(Now { held: Tick(wakes.0 - 1), ..at(0) });
        assert!(!worker.lister.is_listing());
        worker.wake_listing(Now { held: wakes, ..at(0) });
        assert!(worker.lister.is_listing());
        wakes.0 / 1_000_000_000
    };
    assert_eq!(wakes(&|_| ()), 9000);
    assert_eq!(wakes(&|worker| worker.lister = Lister::rested(Fence(6), at(50).held, at(9000).held)), 50);
    assert_eq!(wakes(&|worker| worker.board.reads(false)), 50);
    assert_eq!(wakes(&|worker| worker.list_again(at(60).held)), 60);
    assert_eq!(wakes(&|worker| worker.list_again(at(40).held)), 50, "not all the time");
    assert_eq!(wakes(&|worker| worker.list_again(at(9060).held)), 9000);
}

#[test]
fn a_listing_goes_on_page_by_page_after_trouble_too_and_takes_no_others_pages() {
    let mut worker = rested();
    let listings = |worker: &mut FleetWorker| {
        let listing = |op| match op {
            Op::List { prefix, after, .. } => Some((prefix, after)),
            _ => None,
        };
        asked(worker).into_iter().filter_map(|asked| listing(asked.op)).collect::<Vec<_>>()
    };
    let (workers, parts, units) = (fleet().worker_prefix(), fleet().plan_prefix(), fleet().unit_prefix());
    worker.list_again(at(100).held);
    worker.wake_listing(at(100));
    assert_eq!(listings(&mut worker), [(workers.clone(), None)]);
    worker.paged(at(101), worker.lister.count(), Err(StoreError::unavailable("away")));
    worker.wake_listing(at(103));
    assert_eq!(listings(&mut worker), []);
    worker.wake_listing(at(104));
    assert_eq!(listings(&mut worker), [(workers.clone(), None)]);
    // A full page: there may be more.
    let full: Vec<_> = (1..=10).map(|n| lives(n, 1)).collect();
    worker.paged(at(105), worker.lister.count(), page(&full));
    worker.wake_listing(at(105));
    assert_eq!(listings(&mut worker), [(workers.clone(), Some(session(10)))]);
    worker.paged(at(106), worker.lister.count(), page(&[]));
    worker.wake_listing(at(106));
    assert_eq!(listings(&mut worker), [(parts, None)]);
    worker.paged(at(106), worker.lister.count(), page(&[]));
    worker.wake_listing(at(106));
    assert_eq!(listings(&mut worker), [(units, None)]);
    let before = worker.lister.count();
    worker.paged(at(107), before, page(&[]));
    assert_eq!((worker.lister.is_listing(), worker.roster.len()), (false, 10));
    // Late pages of that one.
    worker.list_again(at(200).held);
    worker.wake_listing(at(200));
    worker.paged(at(201), before, page(&[]));
    worker.wake_listing(at(201));
    assert_eq!(listings(&mut worker), [(workers, None)], "it still waits for the first page");
}

#[test]
fn whoever_plans_lists_anew_about_ten_ttls_after_it_has_listed_all() {
    let mut worker = rested();
    worker.lister.hasten(at(0).held);
    lists(&mut worker, 20, &[], &[]);
    let (least, most) = (at(20 + 75 * 48 / 10).held, at(20 + 125 * 48 / 10).held);
    assert!((least..=most).contains(&worker.lister.rests_until().1), "{:?}", worker.lister.rests_until().1);
}

#[test]
fn others_list_only_what_they_can_not_be_told() {
    let wakes = |change: &dyn Fn(&mut FleetWorker)| {
        let mut worker = led(1, false);
        worker.lister = Lister::rested(Fence(6), at(50).held, at(60).held);
        change(&mut worker);
        let wakes = worker.listing_wake_at();
        if let Some(wakes) = wakes {
            worker.wake_listing(Now { held: wakes, ..at(0) });
        }
        (wakes.is_some(), worker.lister.under_way().map(|listing| listing.purpose))
    };
    assert_eq!(wakes(&|_| ()), (false, None));
    assert_eq!(wakes(&|worker| worker.list_again(at(70).held)), (false, None));
    assert_eq!(wakes(&|worker| worker.board.reads(false)), (true, Some(Purpose::Own)));
    let declines = |worker: &mut FleetWorker| {
        let lease = has(worker, 0, crate::fleet::worker::own::Stage::Held, Some(0));
        worker.choose(at(10), lease, crate::fleet::RequestId(1), EndedUnit::Failed);
    };
    assert_eq!(wakes(&declines), (true, Some(Purpose::Roster)));
}

#[test]
fn c1_a_refusal_is_remembered_until_somebody_else_has_the_unit() {
    // When it lists again after another refusal, in seconds.
    let again = |attachment: Option<Option<Attachment>>| {
        let mut worker = rested();
        worker.lister.hasten(at(0).held);
        let refused = |worker: &mut FleetWorker, secs, units: &[(Key, Stored)]| {
            lists(worker, secs, &[lives(1, 1)], units);
            worker.lister.hasten(at(0).held);
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
        worker.lister.hasten(at(0).held);
        lists(&mut worker, secs, &[lives(1, 1)], units);
        worker.awaited.since()
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
    worker.lister.hasten(at(0).held);
    let summary = lists(&mut worker, 10, &workers, &units);
    assert_eq!((summary.workers, summary.units, summary.planned), (3, 5, 5), "a pin holds");
    assert_eq!(*worker.awaited, [unit(1)].into());
    let claimed: Vec<&Key> = worker.own.keys().collect();
    assert_eq!(claimed, [&unit(0), &unit(2), &unit(3)]);
    let asks = worker.io.in_flight.values().filter(|flight| matches!(flight, InFlight::Missing(..))).count();
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
    let planned: Vec<u64> = worker.roster.values().map(|peer| peer.planned).collect();
    assert_eq!(planned, [2, 2]);
}

#[test]
fn what_changes_while_all_is_listed_is_listed_again() {
    let mut worker = rested();
    worker.list_again(at(100).held);
    worker.wake_listing(at(100));
    worker.paged(at(101), worker.lister.count(), page(&[lives(1, 1)]));
    // Somebody joins behind what was listed already.
    worker.saw_board(at(102), Some(board_by(8, 2, &myself())));
    for _ in 0..2 {
        worker.wake_listing(at(103));
        worker.paged(at(103), worker.lister.count(), page(&[]));
    }
    assert!(!worker.lister.is_listing() && worker.is_behind());
    assert_eq!(
        worker.own.planned_from(),
        at(100).held,
        "what was planned is as old as that listing's beginning"
    );
    let again = worker.listing_wake_at().unwrap();
    assert!(again < at(120).held, "{again:?}");
    worker.wake_listing(Now { held: again, ..at(120) });
    assert_eq!(worker.lister.under_way().map(|listing| listing.generation), Some(Fence(8)));
}

#[test]
fn a_page_that_fails_is_asked_for_again_and_nothing_is_planned_without_it() {
    let mut worker = rested();
    worker.list_again(at(100).held);
    worker.wake_listing(at(100));
    worker.paged(at(101), worker.lister.count(), page(&[lives(1, 1)]));
    worker.wake_listing(at(101));
    worker.paged(at(101), worker.lister.count(), page(&[]));
    worker.wake_listing(at(101));
    let full: Vec<_> = (0..10).map(|n| (unit(n), record(None, &UnitSpec::default()))).collect();
    worker.paged(at(102), worker.lister.count(), page(&full));
    worker.wake_listing(at(102));
    asked(&mut worker);
    worker.paged(at(103), worker.lister.count(), Err(StoreError::unavailable("away")));
    assert!(worker.own.is_empty() && worker.lister.is_listing());
    worker.wake_listing(at(106));
    let Op::List { after, .. } = asked(&mut worker).remove(0).op else { panic!("it lists") };
    assert_eq!(after, Some(unit(9)));
}

#[test]
fn a_worker_of_an_older_layout_is_left_out_and_told_and_what_it_has_stays_there() {
    let mut worker = rested();
    let (older, mut stored) = lives(1, 1);
    if let Some(Value::Map(own)) = stored.record.metadata.get_mut(RESERVED) {
        own.remove("layout");
    }
    let units = [pinned(0, attachment(older.clone(), 7)), pinned(1, None)];
    worker.doubts.list_at = Some(at(100).held);
    worker.wake_listing(at(100));
    worker.paged(at(100), worker.lister.count(), page(&[(older.clone(), stored), lives(2, 2)]));
    worker.wake_listing(at(100));
    worker.paged(at(100), worker.lister.count(), page(&[]));
    worker.wake_listing(at(100));
    worker.paged(at(100), worker.lister.count(), page(&units));
    let (mut troubles, mut uncovered) = (Vec::new(), Vec::new());
    for notice in told(&mut worker) {
        match notice {
            FleetNotice::Trouble(error) => troubles.push(error),
            FleetNotice::Planned(summary) => uncovered.extend(summary.uncovered),
            _ => {}
        }
    }
    assert_eq!(troubles, [other_layout(&fleet(), &holder(1))]);
    assert_eq!(uncovered, [(unit(0), Uncovered::Foreign)]);
    assert!(worker.roster.contains_key(&session(2)) && !worker.roster.contains_key(&older));
}

#[test]
fn the_planner_tells_how_many_units_move_and_why_and_nobody_else_does() {
    let of = |n: usize, owner: usize| (unit(n), record(attachment(session(owner), 7), &UnitSpec::default()));
    let vacant = |n: usize| (unit(n), *vacant());
    let moves = |plans: bool, secs: u64, units: &[(Key, Stored)]| {
        let mut worker = rested();
        if !plans {
            worker.board.see(Some(board_by(7, 1, &Attachment { session: session(1), fence: Fence(7) })));
            worker.board.reads(false);
        }
        let relist_at = if plans { at(secs).held } else { Tick::NEVER };
        worker.lister = Lister::rested(Fence(7), at(secs).held, relist_at);
        worker.wake_listing(at(secs));
        let number = worker.lister.count();
        worker.paged(at(secs), number, page(&[lives(1, 1)]));
        worker.wake_listing(at(secs));
        if plans {
            worker.paged(at(secs), number, page(&[]));
            worker.wake_listing(at(secs));
        }
        worker.paged(at(secs), number, page(units));
        let planned =
            |notice| if let FleetNotice::Planned(summary) = notice { Some(summary.moves) } else { None };
        told(&mut worker).into_iter().find_map(planned).unwrap()
    };
    let units = [of(0, 1), of(1, 9), vacant(2), vacant(3)];
    let both = BTreeMap::from([(Cause::Vacant, 2), (Cause::Gone, 1)]);
    assert_eq!(moves(true, 100, &units), both);
    assert_eq!(moves(false, 100, &units), BTreeMap::new());
    let uneven = [of(0, 1), of(1, 1)];
    assert_eq!(moves(true, 100, &uneven), BTreeMap::from([(Cause::Evenness, 1)]));
    let mine: Vec<_> =
        (0..2).map(|n| (unit(n), record(attachment(session(0), 5), &UnitSpec::default()))).collect();
    assert_eq!(moves(true, 100, &mine), BTreeMap::from([(Cause::Join, 1)]));
    assert_eq!(moves(true, 481, &mine), BTreeMap::from([(Cause::Evenness, 1)]));
}

#[test]
fn a_unit_that_is_like_most_takes_little_room() {
    assert!(size_of::<Unit>() <= 104, "{}", size_of::<Unit>());
}

#[test]
fn parts_of_workers_that_are_not_listed_are_not_kept() {
    let mut worker = rested();
    worker.env.options.page = 2000;
    worker.doubts.list_at = Some(at(100).held);
    worker.wake_listing(at(100));
    worker.paged(at(100), worker.lister.count(), page(&[lives(1, 1), lives(2, 1)]));
    worker.wake_listing(at(100));
    let part = |n: usize| (fleet().part(&holder(n)).unwrap(), *vacant());
    let parts: Vec<(Key, Stored)> = [1, 2].into_iter().chain(1000..2000).map(part).collect();
    worker.paged(at(100), worker.lister.count(), page(&parts));
    let kept = &worker.lister.under_way().unwrap().parts;
    assert!(kept.len() == 2 && [1, 2].iter().all(|n| kept.contains_key(&part(*n).0)), "{}", kept.len());
}

#[test]
fn a_unit_that_is_to_go_to_another_waits_for_no_roster_once_all_was_listed() {
    let mut worker = led(1, false);
    let lease = gets(&mut worker, 0);
    worker.choose(at(20), lease, RequestId(4), EndedUnit::HandedTo(holder(1)));
    // It comes to plan before the roster was listed for that.
    worker.board.see(Some(board_by(8, 2, &myself())));
    let (list, open) = (vec![lives(1, 1)], UnitSpec::default());
    lists(&mut worker, 30, &list, &[(unit(0), record(attachment(session(0), 5), &open))]);
    assert!(!worker.roster.is_awaited());
    assert_eq!(worker.own.get(&unit(0)).map(|own| own.stage), Some(Stage::Going));
}
