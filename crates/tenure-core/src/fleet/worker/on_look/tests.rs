//! Plan: whom a look is at, and whether at the latest state; when the next one is; what is made of a board, of hints, and of units that are
//! awaited.
use super::*;
use crate::fleet::UnitSpec;
use crate::fleet::worker::Drains;
use crate::fleet::worker::alone::{
    alarm, asked, at, has, led, own_board, record, session, session_record, unit, worker,
};
use crate::fleet::worker::awaited::AWAITED;
use crate::fleet::worker::listing::Lister;
use crate::op::{Freshness, Listed};
use crate::values::fence::{Fence, Nonce, Version};
use crate::values::key::Key;
use crate::values::record::{Attachment, Record};
use crate::values::time::Tick;
use std::collections::BTreeSet;

fn looks_at(worker: &mut FleetWorker) -> (Vec<Key>, Freshness) {
    worker.look.plan(at(100).held);
    worker.wake_look(at(100));
    match asked(worker).remove(0).op {
        Op::ReadMany(keys, freshness) => (keys, freshness),
        other => panic!("{other:?}"),
    }
}

fn listed(found: Vec<(Key, Stored)>) -> Result<Answer, StoreError> {
    Ok(Answer::Listed(found.into_iter().map(|(key, stored)| Listed { key, stored: Ok(stored) }).collect()))
}

#[test]
fn a_look_is_at_the_latest_state_if_anything_may_be_news() {
    let freshness = |change: &dyn Fn(&mut FleetWorker)| {
        let mut worker = led(1, true);
        change(&mut worker);
        looks_at(&mut worker).1
    };
    assert_eq!(freshness(&|_| ()), Freshness::Recent);
    let reasons: [&dyn Fn(&mut FleetWorker); 9] = [
        &|worker| worker.look.is_to_show(true),
        &|worker| worker.board.alarms(at(99)),
        &|worker| worker.look.be_wary(at(101).held),
        &|worker| {
            worker.awaited.insert(unit(0));
        },
        &|worker| {
            has(worker, 0, Stage::Draining, Some(1));
        },
        &|worker| {
            worker.look.is_overdue(&session(1));
        },
        &|worker| worker.drains = Drains::planned(Some(at(99).held), true),
        &|worker| worker.board.reads(false),
        &|worker| worker.lister = Lister::rested(Fence(6), Tick(0), Tick::NEVER),
    ];
    for (n, reason) in reasons.iter().enumerate() {
        assert_eq!(freshness(reason), Freshness::Latest, "{n}");
    }
}

#[test]
fn a_look_that_failed_is_repeated_as_close_as_it_was() {
    for (closely, freshness) in [(true, Freshness::Latest), (false, Freshness::Recent)] {
        let mut worker = led(1, true);
        worker.look.is_to_show(closely);
        for _ in 0..3 {
            assert_eq!(looks_at(&mut worker).1, freshness);
            worker.looked(at(101), Err(StoreError::unavailable("away")));
        }
        looks_at(&mut worker);
        worker.looked(
            at(101),
            listed(vec![
                (worker.env.board_key.clone(), own_board(7, 1)),
                (session(1), session_record(1, 7, 1)),
            ]),
        );
        assert_eq!(looks_at(&mut worker).1, Freshness::Recent);
    }
}

#[test]
fn a_look_comes_at_its_time_and_not_while_another_is_under_way() {
    let mut worker = led(1, true);
    worker.look.plan(at(100).held);
    let looks = |worker: &mut FleetWorker, secs| {
        worker.wake_look(at(secs));
        asked(worker).len()
    };
    assert_eq!(looks(&mut worker, 99), 0);
    assert_eq!((looks(&mut worker, 100), worker.look.next()), (1, at(116).held));
    assert_eq!(looks(&mut worker, 200), 0);
    worker.look.end();
    assert_eq!((looks(&mut worker, 115), looks(&mut worker, 116)), (0, 1));
}

#[test]
fn awaited_units_are_looked_at_in_turn() {
    for (units, turns) in [(10, vec![10, 10]), (64, vec![64, 64]), (100, vec![64, 64, 64])] {
        let mut worker = led(0, true);
        (0..units).map(unit).for_each(|unit| worker.awaited.insert(unit));
        let mut all: Vec<Key> = Vec::new();
        for turn in turns {
            worker.look.end();
            let keys = looks_at(&mut worker).0.split_off(1);
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "each once");
            assert_eq!(keys.len(), turn);
            all.extend(keys);
        }
        let seen: Vec<usize> =
            worker.awaited.iter().map(|unit| all.iter().filter(|seen| *seen == unit).count()).collect();
        assert!(seen.iter().max().unwrap() - seen.iter().min().unwrap() <= 1, "{seen:?}");
    }
}

#[test]
fn the_next_look_comes_the_sooner_the_more_there_is_to_see() {
    // An interval is 16 s, and a thirty-second of a ttl 1.5 s.
    for (push, close) in [(true, 4_000), (false, 1_500)] {
        let pace = |change: &dyn Fn(&mut FleetWorker)| {
            let mut worker = led(1, true);
            worker.env.options.push = push;
            change(&mut worker);
            worker.pace(at(100)).as_millis()
        };
        assert_eq!(pace(&|_| ()), 16_000);
        assert_eq!(pace(&|worker| worker.look.be_wary(at(100).held)), 16_000);
        assert_eq!(pace(&|worker| worker.board.alarms(at(4))), 16_000, "two ttls ago");
        assert_eq!(
            pace(&|worker| {
                has(worker, 0, Stage::Held, Some(1));
            }),
            16_000
        );
        assert_eq!(pace(&|worker| worker.look.be_wary(at(101).held)), close);
        assert_eq!(pace(&|worker| worker.board.alarms(at(5))), close);
        assert_eq!(
            pace(&|worker| {
                has(worker, 0, Stage::Draining, Some(1));
            }),
            close
        );
        assert_eq!(
            pace(&|worker| {
                worker.awaited.insert(unit(0));
            }),
            close
        );
    }
}

#[test]
fn c1_what_does_not_come_for_long_is_looked_for_ever_less_often() {
    let mut worker = led(1, true);
    worker.env.options.push = false;
    worker.awaited.insert(unit(0));
    worker.awaited.begin(at(100));
    // Eight ttls of 48 s are for drains.
    let paces =
        [484, 484 + 48, 484 + 96, 484 + 320, 484 + 512, 5000].map(|secs| worker.pace(at(secs)).as_millis());
    assert_eq!(paces, [1_500, 1_500, 3_000, 10_000, 16_000, 16_000]);
}

#[test]
fn what_drains_is_looked_for_often_for_some_time_and_then_ever_less_often() {
    let mut worker = led(1, true);
    let lease = has(&mut worker, 0, Stage::Held, Some(0));
    worker.asked(at(100), lease, crate::fleet::Reason::Asked);
    assert_eq!(worker.own[&unit(0)].stage, Stage::Draining);
    let paces = [100, 484, 484 + 48, 484 + 96, 484 + 320, 5000].map(|secs| worker.pace(at(secs)).as_millis());
    assert_eq!(paces, [1_500, 1_500, 1_500, 3_000, 10_000, 16_000]);
    // Another one begins.
    let lease = has(&mut worker, 1, Stage::Held, Some(0));
    worker.asked(at(5000), lease, crate::fleet::Reason::Asked);
    assert_eq!(worker.pace(at(5300)).as_millis(), 1_500);
}

#[test]
fn l2_all_that_were_written_after_long_drains_are_seen_in_the_next_looks() {
    let mut worker = led(1, true);
    (0..200).map(unit).for_each(|unit| worker.awaited.insert(unit));
    worker.awaited.begin(at(0));
    worker.look.plan(at(900).held);
    for n in 50..200 {
        worker.hint(at(500), &Hint::Key(unit(n)));
    }
    let (mut seen, mut took) = (BTreeSet::new(), Vec::new());
    for turn in 0..4 {
        let soon = worker.look.next();
        took.push(soon.since(at(500).held));
        let now = Now { held: soon, ..at(500) };
        worker.wake_look(now);
        let Op::ReadMany(keys, Freshness::Latest) = asked(&mut worker).remove(0).op else {
            panic!("it looks")
        };
        assert!(keys.len() <= AWAITED + 2, "{}", keys.len());
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "each once");
        // The second one fails, and shows nothing.
        if turn == 1 {
            worker.looked(now, Err(StoreError::unavailable("away")));
        } else {
            seen.extend(keys);
            let board = (worker.env.board_key.clone(), own_board(7, 1));
            worker.looked(now, listed(vec![board, (session(1), session_record(1, 7, 1))]));
        }
    }
    assert!((50..200).all(|n| seen.contains(&unit(n))), "{}", seen.len());
    assert!(took[3] <= worker.env.interval(), "{took:?}");
    assert!(worker.look.next() > worker.look.sent().after(worker.env.part(32) * 2), "and then as before");
}

/// The writes of its owner, while that goes on.
#[test]
fn hints_about_what_has_been_awaited_for_long_bring_looks_and_not_many() {
    for (secs, hint, claims) in
        [(500, Hint::Any, false), (500, Hint::Key(unit(1)), false), (100, Hint::Key(unit(1)), true)]
    {
        let mut worker = led(1, true);
        [0, 1].map(unit).into_iter().for_each(|unit| worker.awaited.insert(unit));
        worker.look.rest_from(at(secs).held);
        worker.look.plan(at(900).held);
        worker.hint(Now { held: at(secs).held.after(Duration::from_millis(100)), ..at(secs) }, &hint);
        let next = if claims { at(900).held } else { at(secs).held.after(worker.env.part(32)) };
        assert_eq!((worker.own.contains_key(&unit(1)), worker.look.next()), (claims, next), "{hint:?}");
        if let (false, Hint::Key(key)) = (claims, hint) {
            assert_eq!(worker.awaited.next_look().first(), Some(&key));
        }
    }
}

#[test]
fn a_hint_of_no_key_is_followed_at_once_only_if_something_is_awaited() {
    for (awaits, next) in [(false, 101_500), (true, 100_100)] {
        let mut worker = led(1, true);
        looks_at(&mut worker);
        worker.look.end();
        if awaits {
            worker.awaited.insert(unit(0));
        }
        worker.hint(Now { held: Tick(100_100_000_000), ..at(100) }, &Hint::Any);
        assert_eq!(worker.look.next(), Tick(next * 1_000_000));
    }
}

#[test]
fn what_a_recent_look_shows_is_looked_at_once_more_if_it_is_news() {
    let vacated = |stored: Stored| Stored { record: Record { tenure: None, ..stored.record }, ..stored };
    let board_at = |version| (worker(0).env.board_key, own_board(7, version));
    let watched = |fence, heartbeat| (session(1), session_record(1, fence, heartbeat));
    for (found, is_news) in [
        (vec![board_at(1), watched(7, 1)], false),
        (vec![board_at(1), watched(7, 2)], false),
        (vec![board_at(2), watched(7, 2)], true),
        (vec![watched(7, 2)], true),
        (vec![board_at(1), watched(8, 2)], true),
        (vec![board_at(1)], true),
        (vec![board_at(1), (session(1), vacated(session_record(1, 7, 2)))], true),
        (vec![board_at(1), (session(1), vacated(session_record(1, 8, 2)))], true),
    ] {
        let mut worker = led(1, true);
        assert_eq!(looks_at(&mut worker).1, Freshness::Recent);
        let says = format!("{found:?}");
        worker.looked(at(101), listed(found));
        assert_eq!(worker.look.next() == at(101).held, is_news, "{says}");
        assert!(worker.roster.contains_key(&session(1)) && worker.advance.is_idle(), "{says}");
        assert_eq!(worker.board.stored().map(|board| board.version.0), Some(1), "{says}");
    }
}

#[test]
fn a_board_is_alarming_from_when_on_it_first_showed_the_alarm_until_it_shows_none() {
    for push in [false, true] {
        let mut worker = led(1, true);
        worker.env.options.push = push;
        // It counts for two ttls.
        let since = |worker: &FleetWorker| {
            let ends = (0..999).rev().find(|secs| worker.board.is_alarmed(at(*secs), &worker.env));
            ends.map(|secs| secs + 1 - 96)
        };
        worker.saw_board(at(100), Some(alarm(&own_board(7, 1), 2)));
        assert_eq!((since(&worker), worker.look.wary_until()), (Some(100), Tick(0)));
        let soon = at(100).held.after(worker.pace(at(100)));
        assert!(worker.pace(at(100)) < worker.env.interval() && worker.look.next() == soon);
        worker.saw_board(at(150), Some(alarm(&own_board(7, 1), 2)));
        assert_eq!(since(&worker), Some(100), "the same one");
        worker.saw_board(at(160), Some(alarm(&own_board(7, 1), 3)));
        assert_eq!(since(&worker), Some(160), "another one");
        worker.saw_board(at(170), Some(own_board(8, 4)));
        // Whoever has a push hears of the next alarm anyway.
        let wary = if push { Tick(0) } else { at(176).held };
        assert_eq!((since(&worker), worker.look.wary_until()), (None, wary));
    }
}

#[test]
fn what_is_awaited_is_claimed_when_a_look_shows_that_its_owner_is_gone() {
    let mut worker = led(1, true);
    [0, 1].map(unit).into_iter().for_each(|unit| worker.awaited.insert(unit));
    looks_at(&mut worker);
    let attachment = |fence| Some(Some(Attachment { session: session(1), fence: Fence(fence) }));
    let spec = UnitSpec::default();
    let board = (worker.env.board_key.clone(), own_board(7, 1));
    let watched = (session(1), session_record(1, 7, 1));
    let units = [(unit(0), record(attachment(7), &spec)), (unit(1), record(attachment(6), &spec))];
    worker.looked(at(101), listed([board, watched].into_iter().chain(units).collect()));
    assert_eq!(*worker.awaited, [unit(0)].into());
    assert!(worker.own.contains_key(&unit(1)));
}

#[test]
fn news_that_come_during_a_look_are_looked_at_after_it() {
    let mut worker = led(1, true);
    looks_at(&mut worker);
    worker.hint(at(100), &Hint::Key(worker.env.board_key.clone()));
    assert_eq!(worker.look.wake_at(), None, "one at a time");
    let shows = vec![(worker.env.board_key.clone(), own_board(7, 1)), (session(1), session_record(1, 7, 1))];
    worker.looked(at(101), listed(shows));
    assert_eq!(worker.look.wake_at(), Some(at(101).held));
}

#[test]
fn whoever_plans_or_stands_by_looks_at_all_once_an_interval_and_others_at_the_planner() {
    let keys = |worker: &mut FleetWorker| looks_at(worker).0.split_off(1);
    let mut planner = led(3, true);
    assert_eq!(keys(&mut planner), [session(1), session(2), session(3)]);
    planner.look.end();
    planner.look.is_overdue(&session(2));
    assert_eq!(keys(&mut planner), [session(2)], "meanwhile at who is overdue");
    let mut other = led(3, false);
    assert_eq!(keys(&mut other), [session(1)]);
    let mut standby = led(3, false);
    let ttls = (standby.env.ttl, standby.env.ttl);
    let standbys = BTreeSet::from([standby.env.id.clone()]);
    let mark = board::ToldPlan { number: 1, told: None, counts: (4, 0), ttls, rest: 1 };
    let seen = standby.board.stored().unwrap().clone();
    let write = board::mark(standby.env.board_key.clone(), &seen, &mark, &standbys, Nonce(4), at(0).wall);
    standby.board.see(Some(Stored::new(write.record).versioned(Version(4))));
    assert_eq!(keys(&mut standby), [session(1), session(2), session(3)]);
}
