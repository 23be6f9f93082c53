//! Plan: a large fleet's sessions are watched by pages, after the look itself, each page by what it shows; a small one's one by one; where a
//! page is refused, one by one; who has come again or left meanwhile is left alone, and so are all by whoever plans no more. Who stands by
//! in a large fleet looks at all others seldom while the planner renews and records tell who is silent; at those alone that do not tell it;
//! and at all as often as the planner does while the planner is silent, or too many do not tell, or the fleet is small.
use super::*;
use crate::fleet::board::{self, ToldPlan};
use crate::fleet::worker::alone::*;
use crate::fleet::worker::look::watched_at_once;
use crate::op::Listed;
use crate::values::fence::{Fence, Nonce, Version};
use crate::values::key::Key;
use crate::values::time::Tick;
use crate::values::time::Wall;
use std::collections::BTreeSet;
use std::time::Duration;

/// The worker 0 plans for so many others.
fn planner(others: usize) -> FleetWorker {
    let mut worker = led(others, true);
    worker.look.be_wary(Tick(0));
    worker
}

/// How many sessions a page shows.
fn at_once(worker: &mut FleetWorker) -> usize {
    worker.as_looker(at(0), |_, ctx| watched_at_once(ctx))
}

/// What it asks, by the keys of a look or where a page begins.
fn asks(worker: &mut FleetWorker) -> Vec<Result<Vec<Key>, Option<Key>>> {
    let at_once = at_once(worker);
    let requests = asked(worker).into_iter().filter_map(|request| match request.op {
        Op::ReadMany(keys, _) => Some(Ok(keys)),
        Op::List { prefix, after, limit } => {
            assert_eq!((prefix, limit), (fleet().worker_prefix(), at_once));
            Some(Err(after))
        }
        // It sets the alarm, say.
        _ => None,
    });
    requests.collect()
}

/// Looks, and is shown the board as it was.
fn looks(worker: &mut FleetWorker, secs: u64) -> Vec<Key> {
    worker.look.plan(at(secs).held);
    worker.wake_look(at(secs));
    let keys = asks(worker).remove(0).unwrap();
    let shown = keys.iter().filter_map(|key| match key {
        key if *key == worker.env.board_key => worker.board.stored().cloned(),
        key => number(key).map(|n| session_record(n, 7, 1)),
    });
    let found =
        keys.iter().cloned().zip(shown).map(|(key, stored)| Listed { key, stored: Ok(stored) }).collect();
    worker.looked(at(secs), Ok(Answer::Listed(found)));
    keys
}

fn number(key: &Key) -> Option<usize> {
    (0..100).find(|n| session(*n) == *key)
}

/// A page of so many that follow, of the sessions that are there, each after a renewal with this nonce.
fn page(limit: usize, after: Option<&Key>, there: impl Fn(usize) -> bool, heartbeat: u128) -> Vec<Listed> {
    let keys: BTreeSet<Key> = (0..100).filter(|n| there(*n)).map(session).collect();
    let page = keys.into_iter().filter(|key| after.is_none_or(|after| key > after)).take(limit);
    let listed = |key: Key| {
        let n = number(&key).unwrap();
        Listed { key, stored: Ok(session_record(n, if n == 0 { 5 } else { 7 }, heartbeat)) }
    };
    page.map(listed).collect()
}

/// Reads all pages, of the sessions that are there. How many those were.
fn reads_pages(worker: &mut FleetWorker, secs: u64, there: impl Fn(usize) -> bool, heartbeat: u128) -> usize {
    let mut pages = 0;
    while let Some(Err(after)) = asks(worker).first() {
        pages += 1;
        let limit = at_once(worker);
        let page = page(limit, after.as_ref(), &there, heartbeat);
        worker.watched_page(at(secs), limit, Ok(Answer::Listed(page)));
    }
    pages
}

#[test]
fn a_small_fleet_is_watched_one_by_one_and_a_large_one_by_pages() {
    for (others, alone, pages) in [(31, 32, 0), (32, 1, 3), (50, 1, 5)] {
        let mut worker = planner(others);
        assert_eq!(looks(&mut worker, 100).len(), alone, "{others}");
        assert_eq!(worker.look.is_under_way(), pages > 0);
        assert_eq!(reads_pages(&mut worker, 100, |n| n <= others, 1), pages);
        assert!(!worker.look.is_under_way() && worker.advance.is_idle() && worker.look.overdue().is_empty());
        assert_eq!(worker.look.wake_at(), Some(at(116).held));
        assert_eq!(looks(&mut worker, 110), [worker.env.board_key.clone()], "it is not yet time");
        assert!(!worker.look.is_under_way());
    }
}

#[test]
fn l1_whoever_is_gone_or_overdue_is_noticed_on_each_page() {
    for who in [1, 25, 40] {
        let mut worker = planner(40);
        looks(&mut worker, 100);
        reads_pages(&mut worker, 100, |n| n <= 40 && n != who, 1);
        assert_eq!(worker.advance.wanted_at(), Some(at(100).held), "{who} has stopped");
        assert!(!worker.roster.contains_key(&session(who)));
        let mut worker = planner(40);
        for (secs, silent) in [(100, 1), (116, 1), (132, 1)] {
            looks(&mut worker, secs);
            while let Some(Err(after)) = asks(&mut worker).first() {
                let limit = at_once(&mut worker);
                let mut page = page(limit, after.as_ref(), |n| n <= 40, u128::from(secs));
                for listed in page.iter_mut().filter(|listed| listed.key == session(who)) {
                    listed.stored = Ok(session_record(who, 7, silent));
                }
                worker.watched_page(at(secs), limit, Ok(Answer::Listed(page)));
            }
        }
        assert_eq!(worker.look.overdue(), [session(who)]);
        assert!(looks(&mut worker, 134).contains(&session(who)), "it is looked at alone");
    }
}

#[test]
fn where_a_page_is_refused_all_are_read_one_by_one_at_once_and_later_by_pages() {
    let (passing, lasting) = (StoreError::unavailable("away"), StoreError::invalid("denied"));
    // A store that is busy, say, is asked for pages again: one by one costs ten times as much.
    for (error, shown) in [(passing, 1), (lasting, 41)] {
        let mut worker = planner(40);
        looks(&mut worker, 100);
        assert_eq!(asks(&mut worker), [Err(None)]);
        let limit = at_once(&mut worker);
        worker.watched_page(at(101), limit, Err(error.clone()));
        assert_eq!(worker.look.wake_at(), Some(at(104).held));
        assert_eq!(told(&mut worker), [FleetNotice::Trouble(error)]);
        assert_eq!(looks(&mut worker, 104).len(), shown);
        assert_eq!(worker.look.is_under_way(), shown == 1);
        assert_eq!(reads_pages(&mut worker, 104, |n| n <= 40, 1), if shown == 1 { 4 } else { 0 });
        assert!(!worker.look.is_under_way() && worker.advance.is_idle());
        assert_eq!(looks(&mut worker, 120).len(), 1);
        assert!(worker.look.is_under_way());
    }
}

#[test]
fn a_page_has_up_to_a_quarter_more_where_that_spares_one() {
    let mut worker = planner(40);
    for (page, limit) in [(1000, 1000), (41, 42), (34, 42), (33, 33), (10, 11), (2, 2), (1, 1)] {
        worker.env.options.page = page;
        assert_eq!(at_once(&mut worker), limit, "{page}");
    }
}

#[test]
fn who_has_left_or_come_again_since_the_look_began_is_left_alone() {
    let mut worker = planner(40);
    looks(&mut worker, 100);
    worker.roster.remove(&session(1));
    worker.roster.get_mut(&session(25)).unwrap().fence = Fence(8);
    reads_pages(&mut worker, 100, |n| n <= 40 && n != 1 && n != 25, 1);
    assert!(worker.advance.is_idle());
}

#[test]
fn whoever_plans_no_more_asks_for_no_further_page_and_looks_again_if_there_was_a_hint() {
    let mut worker = planner(40);
    looks(&mut worker, 100);
    let first = asks(&mut worker);
    assert_eq!(first, [Err(None)]);
    worker.look.now(at(101));
    assert_eq!(worker.look.wake_at(), None, "a page is under way");
    worker.board.see(None);
    worker.watched_page(at(102), 10, Ok(Answer::Listed(page(10, None, |n| n <= 40, 1))));
    assert!(asks(&mut worker).is_empty());
    assert_eq!(worker.look.wake_at(), Some(at(102).held));
}

/// The worker 0 stands by in a fleet of so many others, of whom the worker 1 plans, on a store whose ages fall short by up to so much.
fn standby(others: usize, age_error: Option<Duration>) -> FleetWorker {
    let mut worker = led(others, false);
    worker.env.options.age_error = age_error;
    let mark =
        ToldPlan { number: 1, told: Some(BTreeSet::new()), counts: (3, 9), ttls: (ttl(), ttl()), rest: 4 };
    let (seen, by) = (worker.board.stored().unwrap().clone(), BTreeSet::from([holder(0)]));
    let write = board::mark(worker.env.board_key.clone(), &seen, &mark, &by, Nonce(1), at(0).wall);
    worker.board.see(Some(Stored::new(write.record).versioned(Version(9))));
    worker.look.be_wary(Tick(0));
    assert!(worker.is_standby());
    worker.roster.values_mut().for_each(|peer| peer.attested = age_error.is_some());
    worker
}

/// What the look of one who stands by is at beside the board and the planner, and how many pages it reads. All sessions were renewed two
/// seconds ago, or the planner's at that time; and the wall clocks of some are an hour ahead.
fn stands_by(worker: &mut FleetWorker, secs: u64, planner: u64, ahead: &[usize]) -> (Vec<usize>, usize) {
    let shown = |n: usize, fence: u64| {
        let renewed = if n == 1 { planner } else { secs - 2 };
        let mut stored = session_record(n, fence, u128::from(renewed));
        let by_wall = renewed + if ahead.contains(&n) { 3600 } else { 0 };
        stored.record.stamp = Wall(by_wall * 1000);
        stored.aged(Some(Duration::from_secs(secs - renewed)))
    };
    worker.look.plan(at(secs).held);
    worker.wake_look(at(secs));
    let keys = asks(worker).remove(0).unwrap();
    let seen: Vec<usize> = keys.iter().filter_map(number).collect();
    let board = worker.board.stored().unwrap().clone();
    let mut found = vec![Listed { key: worker.env.board_key.clone(), stored: Ok(board) }];
    found.extend(seen.iter().map(|n| Listed { key: session(*n), stored: Ok(shown(*n, 7)) }));
    worker.looked(at(secs), Ok(Answer::Listed(found)));
    let mut pages = 0;
    while let Some(Err(after)) = asks(worker).first() {
        pages += 1;
        let limit = at_once(worker);
        let keys: BTreeSet<Key> = (0..100).filter(|n| *n <= worker.roster.len()).map(session).collect();
        let page = keys.into_iter().filter(|key| after.as_ref().is_none_or(|after| key > after)).take(limit);
        let page = page.map(|key| (number(&key).unwrap(), key));
        let page = page.map(|(n, key)| Listed { key, stored: Ok(shown(n, if n == 0 { 5 } else { 7 })) });
        let page = page.collect();
        worker.watched_page(at(secs), limit, Ok(Answer::Listed(page)));
    }
    (seen.into_iter().filter(|n| *n != 1).collect(), pages)
}

const WELL: Option<Duration> = Some(Duration::from_millis(1));

#[test]
fn c1_who_stands_by_in_a_large_fleet_looks_at_all_others_seldom_where_records_tell_who_is_silent() {
    let mut worker = standby(40, WELL);
    let looks: Vec<u64> =
        (0..50).map(|n| 100 + 16 * n).filter(|t| stands_by(&mut worker, *t, *t, &[]).1 > 0).collect();
    assert_eq!(looks, [100, 100 + 16 * 24, 100 + 16 * 48]);
    assert!(worker.advance.is_idle() && worker.look.overdue().is_empty());
}

#[test]
fn l1_who_stands_by_looks_at_all_others_where_records_do_not_tell_enough_or_the_fleet_is_small() {
    let short = Some(ttl().part(3));
    let too_short = Some(ttl().part(3) + Duration::from_millis(1));
    for (others, age_error, alone, pages) in
        [(40, None, 0, 4), (40, too_short, 0, 4), (40, short, 0, 0), (31, WELL, 30, 0)]
    {
        let mut worker = standby(others, age_error);
        stands_by(&mut worker, 100, 100, &[]);
        for secs in [116, 132] {
            let (seen, read) = stands_by(&mut worker, secs, secs, &[]);
            assert_eq!((seen.len(), read), (alone, pages), "{others} {age_error:?}");
        }
    }
}

#[test]
fn l1_who_stands_by_looks_at_those_alone_whose_records_do_not_tell_and_at_all_if_those_are_many() {
    let mut worker = standby(40, WELL);
    stands_by(&mut worker, 100, 100, &[5, 9]);
    assert_eq!(stands_by(&mut worker, 116, 116, &[5, 9]), (vec![5, 9], 0));
    assert_eq!(stands_by(&mut worker, 124, 124, &[5, 9]), (vec![], 0), "it is not yet time");
    assert_eq!(stands_by(&mut worker, 132, 132, &[5]), (vec![5, 9], 0));
    assert_eq!(stands_by(&mut worker, 148, 148, &[5]), (vec![5], 0), "one tells again");
    let many: Vec<usize> = (2..34).collect();
    let mut worker = standby(40, WELL);
    stands_by(&mut worker, 100, 100, &many);
    assert_eq!(stands_by(&mut worker, 116, 116, &many), (vec![], 4));
    assert_eq!(stands_by(&mut worker, 132, 132, &many[1..]), (vec![], 4));
    assert_eq!(stands_by(&mut worker, 148, 148, &many[1..]).0.len(), 31, "one fewer");
}

#[test]
fn l1_who_stands_by_looks_at_all_others_as_soon_as_the_planner_is_silent() {
    let mut worker = standby(40, WELL);
    stands_by(&mut worker, 100, 100, &[]);
    assert_eq!(stands_by(&mut worker, 116, 116, &[]), (vec![], 0));
    // 5/12 of a ttl is 20 s. What the first look shows may be old.
    stands_by(&mut worker, 137, 116, &[]);
    assert!(worker.look.overdue().is_empty());
    assert_eq!(worker.look.wake_at(), Some(at(137).held));
    assert_eq!(stands_by(&mut worker, 137, 116, &[]), (vec![], 0));
    assert!(worker.look.overdue().contains(&session(1)));
    assert_eq!(worker.look.wake_at(), Some(at(137).held), "the latest state shows the same");
    assert_eq!(stands_by(&mut worker, 137, 116, &[]), (vec![], 4));
    assert_eq!(stands_by(&mut worker, 140, 116, &[]), (vec![], 0));
    assert_eq!(stands_by(&mut worker, 153, 116, &[]), (vec![], 4), "once in each interval");
    assert_eq!(stands_by(&mut worker, 169, 169, &[]), (vec![], 4), "it renews again, as this look shows");
    assert_eq!(stands_by(&mut worker, 185, 185, &[]), (vec![], 0));
}

#[test]
fn a_look_that_failed_counts_as_none_and_the_next_one_is_at_all_again() {
    let mut worker = planner(3);
    let all = looks(&mut worker, 100).len();
    assert_eq!(looks(&mut worker, 105).len(), 1, "the board alone");
    worker.look.plan(at(120).held);
    worker.wake_look(at(120));
    assert_eq!(asks(&mut worker).len(), 1);
    worker.looked(at(121), Err(StoreError::unavailable("away")));
    assert_eq!(looks(&mut worker, 122).len(), all);
}
