//! Plan: who has seen the planner renew rests, and who has not, or waits for something, does not; no board has anybody rest for longer than it may; a letter
//! about one's own part asks for a look, and one about another's does not.
use super::*;
use crate::fleet::board::{self, ToldPlan};
use crate::fleet::worker::alone::*;
use crate::fleet::worker::hear::Hearing;
use crate::values::fence::{Fence, Version};
use crate::values::metadata::Value;
use crate::values::record::Attachment;
use std::collections::{BTreeMap, BTreeSet};

fn mark(rest: u32, told: &[usize]) -> ToldPlan {
    let told = told.iter().map(|n| holder(*n)).collect();
    ToldPlan { number: 1, told: Some(told), counts: (3, 9), ttls: (ttl(), ttl()), rest }
}

/// The worker 0, which knows so many others and a board that says how long they rest.
fn by_board(others: usize, plans: bool, rest: u32) -> FleetWorker {
    let mut worker = led(others, plans);
    let planner = if plans { myself() } else { Attachment { session: session(1), fence: Fence(7) } };
    let (seen, none) = (board_by(7, 1, &planner), BTreeSet::new());
    let write =
        board::mark(worker.env.board_key.clone(), &seen, &mark(rest, &[]), &none, Nonce(1), at(0).wall);
    worker.board.see(Some(Stored::new(write.record).versioned(Version(9))));
    worker.hearing = Hearing::after(planner, 1);
    worker.look.be_wary(Tick(0));
    worker
}

/// In how many intervals of 16 s it looks again after looks that showed these heartbeats of the planner at these times.
fn rests(worker: &mut FleetWorker, beats: &[(u64, u128)]) -> u64 {
    for (secs, beat) in beats {
        worker.look.plan(at(secs + 16).held);
        worker.rest_after(at(*secs), Some(&session_record(1, 7, *beat)));
    }
    worker.look.next().since(at(beats.last().unwrap().0).held).as_secs() / 16
}

#[test]
fn who_has_seen_the_planner_renew_rests_each_time_and_each_worker_for_another_while() {
    let mut drawn: BTreeMap<u64, u32> = BTreeMap::new();
    let mut firsts = BTreeSet::new();
    for n in 0..50 {
        let mut worker = by_board(2, false, 4);
        worker.env.me = session(n);
        for time in 0..20 {
            let secs = 100 + time * 1000;
            let rests = rests(&mut worker, &[(secs, 1), (secs + 16, 2)]);
            *drawn.entry(rests).or_default() += 1;
            if time == 0 {
                firsts.insert(rests);
            }
        }
    }
    assert!(drawn.keys().copied().eq(1..=8), "{drawn:?}");
    assert!(drawn.values().all(|times| (80..=175).contains(times)), "{drawn:?}");
    assert!(firsts.len() >= 6, "those who began at once do not look at once: {firsts:?}");
}

#[test]
fn who_has_not_seen_it_renew_goes_on_looking() {
    for beats in [&[(100, 1)][..], &[(100, 1), (116, 1)], &[(100, 1), (148, 2)]] {
        assert_eq!(rests(&mut by_board(2, false, 32), beats), 1, "{beats:?}");
    }
}

#[test]
fn who_waits_for_something_goes_on_looking() {
    let reasons: [&dyn Fn(&mut FleetWorker); 8] = [
        &|worker| worker.awaited.insert(unit(0)),
        &|worker| {
            has(worker, 0, Stage::Held, Some(1));
        },
        &|worker| {
            has(worker, 0, Stage::Draining, None);
        },
        &|worker| worker.board.reads(false),
        &|worker| worker.look.is_overdue(&session(1)),
        &|worker| worker.advance.want(at(200).held),
        &|worker| worker.life.leaving = true,
        &|worker| worker.doubts.list_at = Some(at(200).held),
    ];
    for (n, change) in reasons.iter().enumerate() {
        let mut worker = by_board(2, false, 32);
        change(&mut worker);
        assert_eq!(rests(&mut worker, &[(100, 1), (116, 2)]), 1, "{n}");
    }
    assert_eq!(
        rests(&mut by_board(2, false, 1), &[(100, 1), (116, 2)]),
        1,
        "where all look in each interval"
    );
    assert_eq!(rests(&mut by_board(2, true, 32), &[(100, 1), (116, 2)]), 1, "who plans");
}

#[test]
fn a_letter_about_its_own_part_has_a_worker_look() {
    for (about, looks) in [(0, true), (1, false)] {
        let mut worker = by_board(2, false, 32);
        worker.got_letter(at(100), fleet().part(&holder(about)).unwrap());
        assert_eq!(worker.look.next() == at(100).held, looks, "{about}");
    }
}

#[test]
fn whatever_a_board_says_workers_rest_for_no_longer_than_they_may() {
    for said in [1 << 31, (1 << 31) - 1, -1, 65, i64::MAX, i64::MIN] {
        for plans in [false, true] {
            let mut worker = by_board(2, plans, 32);
            let mut board = worker.board.stored().unwrap().clone();
            board.record.metadata.insert("rest".to_owned(), Value::from(said));
            worker.board.see(Some(board));
            for n in 0..20 {
                let secs = 100 + n * 10_000;
                assert!(rests(&mut worker, &[(secs, 1), (secs + 16, 2)]) <= 128, "{said}");
            }
        }
    }
}
