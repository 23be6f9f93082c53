//! Plan: what the fleet's plan does with units that fail: they stay, or are spread over all, and what does not fail is as even as without them;
//! what was passed on until somebody could do it is moved last.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::plan::{alike, counts, free, plain};
use proptest::collection::vec;
use proptest::prelude::*;
use tenure_core::fleet::Balance;
use tenure_core::fleet::plan::{Load, Room, plan};

#[test]
fn what_fails_stays_where_it_is_and_counts_for_room_only() {
    let fails = |owner| Load { stays: true, settled: true, owner, ..plain(None) };
    let rooms = |units| vec![Room { units, ..free() }; 2];
    let even = |first: Vec<Load>, units| {
        let loads: Vec<Load> = first.into_iter().chain((0..4).map(|n| plain(Some(n % 2)))).collect();
        let plan = plan(&loads, &rooms(units), Balance::Count);
        plan.into_iter().map(|to| to.ok()).collect::<Vec<_>>()
    };
    let rest = [Some(0), Some(1), Some(0), Some(1)];
    // All four that fail are with the second, and the others are even as they are.
    assert_eq!(even(vec![fails(Some(1)); 4], u64::MAX), [vec![Some(1); 4], rest.to_vec()].concat());
    // One that nobody has makes no difference to them, either: whoever plans before it is claimed plans as one who does so after that.
    assert_eq!(even(vec![fails(None)], u64::MAX)[1..], rest);
    // The second has room for three.
    let full = even(vec![fails(Some(1)); 2], 3);
    let has = |at| full.iter().filter(|to| **to == Some(at)).count();
    assert_eq!((has(0), has(1)), (3, 3), "{full:?}");
}

#[test]
fn what_fails_and_nobody_has_comes_to_those_who_have_least_of_that_kind() {
    let fails = |owner| Load { stays: true, settled: true, owner, ..plain(None) };
    // A worker has died, or is leaving, while all that it had failed.
    let dead = plan(&vec![fails(None); 30], &vec![free(); 3], Balance::Count);
    assert_eq!(counts(&dead, 3), [10, 10, 10]);
    let leaves = Room { leaving: true, ..free() };
    let left = plan(&vec![fails(Some(0)); 30], &[leaves, free(), free()], Balance::Count);
    assert_eq!(counts(&left, 3), [0, 15, 15]);
    for balance in [Balance::Count, Balance::Weight] {
        // Others have some already, and of those who have as many the one with less besides has the next.
        let loads =
            [fails(Some(0)), plain(Some(0)), plain(Some(1)), plain(Some(2)), fails(None), fails(None)];
        assert_eq!(plan(&loads, &vec![free(); 3], balance)[4..], [Ok(1), Ok(2)]);
        // What does not fail goes to whoever has nothing, and not by names.
        assert_eq!(plan(&[fails(Some(0)), plain(None)], &vec![free(); 2], balance), [Ok(0), Ok(1)]);
    }
}

/// Every so manyth of them fails.
fn failing(owners: &[Option<usize>], every: usize) -> Vec<Load> {
    let mut loads = alike(owners);
    loads.iter_mut().step_by(every).for_each(|load| (load.stays, load.settled) = (true, true));
    loads
}

proptest! {
    #[test]
    fn what_fails_stays_or_is_spread(
        owners in vec(proptest::option::of(0..7_usize), 0..80), workers in 1..7_usize, every in 1..4_usize
    ) {
        let (loads, rooms) = (failing(&owners, every), vec![free(); workers]);
        let planned = plan(&loads, &rooms, Balance::Count);
        let fails = |at: usize| (0..owners.len()).step_by(every).filter(|unit| planned[*unit] == Ok(at)).count();
        for unit in (0..owners.len()).step_by(every) {
            let to = planned[unit].unwrap();
            if loads[unit].owner.is_some_and(|owner| owner < workers) {
                prop_assert_eq!(Some(to), loads[unit].owner);
            } else {
                prop_assert!((0..workers).all(|at| fails(to) <= fails(at) + 1), "{:?}", planned);
            }
        }
        let counted = |at: usize| counts(&planned, workers)[at] - fails(at);
        prop_assert!((0..workers).all(|at| (0..workers).all(|other| counted(at) <= counted(other) + 1)));
    }

    #[test]
    fn where_all_fails_a_plan_that_was_carried_out_half_goes_on_as_it_began(
        owners in vec(proptest::option::of(0..7_usize), 0..80), workers in 1..7_usize, done in vec(any::<bool>(), 80)
    ) {
        let (mut loads, rooms) = (failing(&owners, 1), vec![free(); workers]);
        let planned = plan(&loads, &rooms, Balance::Count);
        for ((load, owner), done) in loads.iter_mut().zip(&planned).zip(done) {
            if done {
                load.owner = owner.ok();
            }
        }
        prop_assert_eq!(plan(&loads, &rooms, Balance::Count), planned);
    }
}

#[test]
fn others_move_before_what_was_passed_on_until_somebody_could_do_it() {
    let settled = Load { settled: true, ..plain(Some(0)) };
    let loads = vec![settled, plain(Some(0)), plain(Some(0))];
    let rooms = vec![free(), free()];
    assert_eq!(plan(&loads, &rooms, Balance::Count), [Ok(0), Ok(1), Ok(0)]);
    let loads = vec![loads[0].clone(), loads[0].clone()];
    assert_eq!(plan(&loads, &rooms, Balance::Count), [Ok(1), Ok(0)], "if there are any");
}
