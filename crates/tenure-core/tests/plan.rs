//! Plan: what the fleet's plan promises, for any fleet: everybody gets the same answer; what can be covered is; nothing goes
//! where it may not; as much is covered as can be (against trying everything); counts are within one of each other, weights
//! as even as single weights allow; no more moves than needed; a plan that was carried out is left alone, and one that was carried out half goes
//! on as it began; what a plan of many workers takes.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::common::core_time;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;
use tenure_core::fleet::plan::{Load, Plan, Room, plan};
use tenure_core::fleet::{Balance, Uncovered};

pub(crate) fn free() -> Room {
    Room { units: u64::MAX, weight: u64::MAX, labels: BTreeSet::new(), leaving: false }
}

pub(crate) fn alike(owners: &[Option<usize>]) -> Vec<Load> {
    owners
        .iter()
        .map(|&owner| Load {
            weight: 1,
            needs: BTreeSet::new(),
            owner,
            pin: None,
            stays: false,
            settled: false,
            declined_by: BTreeSet::new(),
        })
        .collect()
}

pub(crate) fn plain(owner: Option<usize>) -> Load {
    alike(&[owner]).remove(0)
}

pub(crate) fn counts(plan: &Plan, workers: usize) -> Vec<usize> {
    (0..workers).map(|at| plan.iter().filter(|owner| **owner == Ok(at)).count()).collect()
}

fn moves(loads: &[Load], plan: &Plan) -> Vec<usize> {
    (0..loads.len()).filter(|&at| loads[at].owner.is_some() && plan[at].ok() != loads[at].owner).collect()
}

fn labels() -> impl Strategy<Value = BTreeSet<String>> {
    proptest::collection::btree_set("[abc]", 0..3)
}

/// Any units over any workers; some owners are gone.
fn any_fleet() -> impl Strategy<Value = (Vec<Load>, Vec<Room>)> {
    let load =
        (0..20_u64, labels(), proptest::option::of(0..9_usize), proptest::option::weighted(0.1, 0..9_usize));
    let load = load.prop_map(|(weight, needs, owner, pin)| Load {
        weight,
        needs,
        owner,
        pin,
        stays: false,
        settled: false,
        declined_by: BTreeSet::new(),
    });
    let room = (
        prop_oneof![Just(u64::MAX), 0..9_u64],
        prop_oneof![Just(u64::MAX), 0..60_u64],
        labels(),
        any::<bool>(),
    );
    let room = room.prop_map(|(units, weight, labels, leaving)| Room { units, weight, labels, leaving });
    (vec(load, 0..60), vec(room, 0..8))
}

proptest! {
    #[test]
    fn counts_are_within_one_and_moves_are_as_few_as_can_be(
        owners in vec(proptest::option::of(0..7_usize), 0..80), workers in 1..7_usize
    ) {
        let (loads, rooms) = (alike(&owners), vec![free(); workers]);
        let planned = plan(&loads, &rooms, Balance::Count);
        let counts = counts(&planned, workers);
        prop_assert_eq!(counts.iter().sum::<usize>(), loads.len());
        prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{:?}", counts);
        // Of what a worker has, it can keep a fair share, rounded up for as many as there are units over.
        let (share, over) = (loads.len() / workers, loads.len() % workers);
        let mut kept = 0;
        let mut above = 0;
        for worker in 0..workers {
            let had = owners.iter().filter(|owner| **owner == Some(worker)).count();
            kept += had.min(share);
            above += usize::from(had > share);
        }
        kept += above.min(over);
        let stayed = (0..loads.len()).filter(|&at| planned[at].ok() == loads[at].owner && owners[at].is_some()).count();
        prop_assert_eq!(stayed, kept, "{:?}", counts);
    }

    #[test]
    fn nothing_goes_where_it_may_not((loads, rooms) in any_fleet(), by_weight: bool) {
        let balance = if by_weight { Balance::Weight } else { Balance::Count };
        let planned = plan(&loads, &rooms, balance);
        prop_assert_eq!(&planned, &plan(&loads, &rooms, balance), "the same answer everywhere");
        for (at, room) in rooms.iter().enumerate() {
            let has: Vec<&Load> = loads.iter().zip(&planned).filter(|(_, owner)| **owner == Ok(at)).map(|(load, _)| load).collect();
            prop_assert!(has.is_empty() || !room.leaving);
            prop_assert!(has.len() as u64 <= room.units);
            prop_assert!(has.iter().map(|load| load.weight.max(1)).sum::<u64>() <= room.weight);
            prop_assert!(has.iter().all(|load| load.needs.is_subset(&room.labels)));
        }
        for (load, owner) in loads.iter().zip(&planned) {
            let pinned = load.pin.filter(|pin| rooms.get(*pin).is_some_and(|room| {
                !room.leaving && load.needs.is_subset(&room.labels) && room.units == u64::MAX && room.weight == u64::MAX
            }));
            prop_assert!(pinned.is_none() || owner.ok() == pinned);
            let able: Vec<&Room> = rooms.iter().filter(|room| !room.leaving && load.needs.is_subset(&room.labels)).collect();
            match owner {
                Ok(_) => {}
                Err(Uncovered::NoWorker) => prop_assert!(rooms.iter().all(|room| room.leaving)),
                Err(Uncovered::NoLabels) => prop_assert!(able.is_empty()),
                Err(Uncovered::NoRoom) => prop_assert!(able.iter().all(|room| room.units < u64::MAX || room.weight < u64::MAX)),
                Err(other) => {
                    prop_assert!(false, "nobody has said so: {:?}", other);
                }
            }
        }
    }

    #[test]
    fn a_plan_that_was_carried_out_is_left_alone((mut loads, rooms) in any_fleet(), by_weight: bool) {
        let balance = if by_weight { Balance::Weight } else { Balance::Count };
        let planned = plan(&loads, &rooms, balance);
        for (load, owner) in loads.iter_mut().zip(&planned) {
            load.owner = owner.ok();
        }
        let again = plan(&loads, &rooms, balance);
        prop_assert_eq!(moves(&loads, &again), Vec::<usize>::new());
    }

    #[test]
    fn a_plan_that_was_carried_out_half_goes_on_as_it_began(
        owners in vec(proptest::option::of(0..7_usize), 0..80), workers in 1..7_usize, done in vec(any::<bool>(), 80)
    ) {
        let (mut loads, rooms) = (alike(&owners), vec![free(); workers]);
        let planned = plan(&loads, &rooms, Balance::Count);
        for ((load, owner), done) in loads.iter_mut().zip(&planned).zip(done) {
            if done {
                load.owner = owner.ok();
            }
        }
        prop_assert_eq!(plan(&loads, &rooms, Balance::Count), planned);
    }

    #[test]
    fn weights_are_as_even_as_single_weights_allow(weights in vec(1..50_u64, 1..80), workers in 1..7_usize) {
        let loads: Vec<Load> = weights.iter().map(|&weight| Load { weight, needs: BTreeSet::new(), owner: Some(0), pin: None, stays: false, settled: false, declined_by: BTreeSet::new() }).collect();
        let planned = plan(&loads, &vec![free(); workers], Balance::Weight);
        let sum = |at: usize| -> u64 { loads.iter().zip(&planned).filter(|(_, owner)| **owner == Ok(at)).map(|(load, _)| load.weight).sum() };
        let sums: Vec<u64> = (0..workers).map(sum).collect();
        let heaviest = weights.iter().max().unwrap();
        prop_assert!(sums.iter().max().unwrap() - sums.iter().min().unwrap() <= *heaviest, "{:?}", sums);
    }
}

proptest! {
    #[test]
    fn no_single_move_would_even_it_out_more_and_nothing_is_left_that_fits(
        (loads, rooms) in any_fleet(), by_weight: bool
    ) {
        let balance = if by_weight { Balance::Weight } else { Balance::Count };
        let planned = plan(&loads, &rooms, balance);
        let weight = |load: &Load| load.weight.max(1);
        let had = |at: usize| loads.iter().zip(&planned).filter(move |(_, to)| **to == Ok(at)).map(|(load, _)| load);
        let units: Vec<u64> = (0..rooms.len()).map(|at| had(at).count() as u64).collect();
        let weights: Vec<u64> = (0..rooms.len()).map(|at| had(at).map(weight).sum()).collect();
        let has = if by_weight { &weights } else { &units };
        // A weight counts where it is evened out, or where some worker has no room for any weight.
        let weighs = by_weight || rooms.iter().any(|room| room.weight != u64::MAX);
        let takes = |at: usize, load: &Load| {
            let added = if weighs { weight(load) } else { 1 };
            let room = &rooms[at];
            !room.leaving && load.needs.is_subset(&room.labels) && units[at] < room.units
                && weights[at].saturating_add(added) <= room.weight
        };
        for (load, to) in loads.iter().zip(&planned) {
            let cost = if by_weight { weight(load) } else { 1 };
            let mut others = (0..rooms.len()).filter(|at| takes(*at, load));
            match *to {
                Err(_) => prop_assert_eq!(others.next(), None, "it has room"),
                Ok(at) if load.pin == Some(at) => {}
                Ok(at) => {
                    prop_assert!(load.pin.is_none_or(|pin| pin >= rooms.len() || !takes(pin, load)), "a pin holds");
                    let better = others.find(|other| has[at].saturating_sub(has[*other]) > cost);
                    prop_assert_eq!(better, None, "{:?}", has);
                }
            }
        }
    }
}

/// Few units over few workers with little room.
fn any_small_fleet() -> impl Strategy<Value = (Vec<Load>, Vec<Room>)> {
    let labels = || proptest::collection::btree_set("[ab]", 0..2);
    let load = (labels(), proptest::option::of(0..4_usize));
    let load = load.prop_map(|(needs, owner)| Load {
        weight: 1,
        needs,
        owner,
        pin: None,
        stays: false,
        settled: false,
        declined_by: BTreeSet::new(),
    });
    let room = (0..4_u64, proptest::collection::btree_set("[ab]", 0..3), proptest::bool::weighted(0.1));
    let room = room.prop_map(|(units, labels, leaving)| Room { units, weight: u64::MAX, labels, leaving });
    (vec(load, 0..7), vec(room, 1..5))
}

/// The most units that can be covered, and the least sum of squared counts with that: by trying everything.
fn best_of_all(loads: &[Load], rooms: &[Room], counts: &mut Vec<u64>, covered: usize) -> (usize, u64) {
    let Some((load, rest)) = loads.split_first() else {
        return (covered, counts.iter().map(|count| count * count).sum());
    };
    let better = |one: (usize, u64), other: (usize, u64)| {
        std::cmp::max_by_key(one, other, |found| (found.0, std::cmp::Reverse(found.1)))
    };
    let mut best = best_of_all(rest, rooms, counts, covered);
    for at in 0..rooms.len() {
        let room = &rooms[at];
        if !room.leaving && counts[at] < room.units && load.needs.is_subset(&room.labels) {
            counts[at] += 1;
            best = better(best, best_of_all(rest, rooms, counts, covered + 1));
            counts[at] -= 1;
        }
    }
    best
}

proptest! {
    #[test]
    fn as_many_as_can_be_are_covered_and_as_evenly_as_labels_and_room_allow((loads, rooms) in any_small_fleet()) {
        let planned = plan(&loads, &rooms, Balance::Count);
        let counts = counts(&planned, rooms.len());
        let squares = counts.iter().map(|&count| (count * count) as u64).sum::<u64>();
        let best = best_of_all(&loads, &rooms, &mut vec![0; rooms.len()], 0);
        prop_assert_eq!((counts.iter().sum::<usize>(), squares), best, "{:?}", counts);
    }
}

fn gpu() -> BTreeSet<String> {
    BTreeSet::from(["gpu".to_owned()])
}

#[test]
fn a_unit_makes_room_for_one_that_can_go_nowhere_else() {
    let rooms = [Room { units: 1, labels: gpu(), ..free() }, free()];
    let plain = Load {
        weight: 1,
        needs: BTreeSet::new(),
        owner: Some(0),
        pin: None,
        stays: false,
        settled: false,
        declined_by: BTreeSet::new(),
    };
    let picky = Load { needs: gpu(), owner: None, ..plain.clone() };
    for balance in [Balance::Count, Balance::Weight] {
        assert_eq!(plan(&[plain.clone(), picky.clone()], &rooms, balance), [Ok(1), Ok(0)]);
    }
    // And one that may not be moved does not.
    let pinned = Load { pin: Some(0), ..plain };
    assert_eq!(plan(&[pinned, picky], &rooms, Balance::Count), [Ok(0), Err(Uncovered::NoRoom)]);
}

#[test]
fn counts_are_evened_out_through_a_third_worker() {
    let labels = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let rooms = [&["a"][..], &["a", "b"], &["b"]].map(|names| Room { labels: labels(names), ..free() });
    let load = |name: &str, owner| Load {
        weight: 1,
        needs: labels(&[name]),
        owner: Some(owner),
        pin: None,
        stays: false,
        settled: false,
        declined_by: BTreeSet::new(),
    };
    let loads = [load("a", 0), load("a", 0), load("a", 0), load("b", 1), load("b", 1), load("b", 2)];
    assert_eq!(counts(&plan(&loads, &rooms, Balance::Count), 3), [2, 2, 2]);
}

#[test]
fn a_heavy_unit_is_swapped_for_a_lighter_one_where_no_move_helps() {
    let load = |weight, owner| Load {
        weight,
        needs: BTreeSet::new(),
        owner: Some(owner),
        pin: None,
        stays: false,
        settled: false,
        declined_by: BTreeSet::new(),
    };
    let loads = [load(60, 0), load(50, 0), load(50, 1), load(40, 1)];
    let planned = plan(&loads, &[free(), free()], Balance::Weight);
    let sum = |at: usize| -> u64 {
        loads.iter().zip(&planned).filter(|(_, owner)| **owner == Ok(at)).map(|(load, _)| load.weight).sum()
    };
    assert_eq!((sum(0), sum(1)), (100, 100));
    assert_eq!(moves(&loads, &planned).len(), 2);
    // The one that closes the gap best, whatever else would do.
    let loads = [load(60, 0), load(50, 0), load(40, 0), load(50, 1), load(47, 1), load(33, 1)];
    let planned = plan(&loads, &[free(), free()], Balance::Weight);
    assert_eq!(planned, [1, 0, 0, 0, 1, 1].map(Ok));
    // A gap of less than a twentieth is left alone.
    let loads = [load(60, 0), load(50, 0), load(58, 1), load(49, 1)];
    let planned = plan(&loads, &[free(), free()], Balance::Weight);
    assert_eq!(moves(&loads, &planned), Vec::<usize>::new());
}

#[test]
fn weights_are_evened_out_past_whoever_is_full() {
    let load = |owner| Load {
        weight: 1,
        needs: BTreeSet::new(),
        owner: Some(owner),
        pin: None,
        stays: false,
        settled: false,
        declined_by: BTreeSet::new(),
    };
    let loads: Vec<Load> = [0, 0, 0, 0, 0, 1, 2, 2, 2].map(load).into();
    let sums = |rooms: &[Room]| counts(&plan(&loads, rooms, Balance::Weight), 3);
    for full in [Room { units: 1, ..free() }, Room { weight: 1, ..free() }] {
        assert_eq!(sums(&[free(), full.clone(), free()]), [4, 1, 4]);
        // Nor is one that has some room, but not for any number.
        for roomy in [Room { units: 9, ..free() }, Room { weight: 9, ..free() }] {
            assert_eq!(sums(&[free(), full.clone(), roomy]), [4, 1, 4]);
        }
    }
    assert_eq!(sums(&[free(), free(), free()]), [3, 3, 3]);
}

/// Room is made for the lighter one, though none could be made for the heavier one.
#[test]
fn what_is_too_heavy_takes_no_place_from_what_is_lighter() {
    let rooms = [Room { weight: 4, labels: gpu(), ..free() }, Room { weight: 4, ..free() }];
    let load = |weight, owner, needs| Load {
        weight,
        needs,
        owner,
        pin: None,
        stays: false,
        settled: false,
        declined_by: BTreeSet::new(),
    };
    let loads = [load(4, Some(0), BTreeSet::new()), load(5, None, gpu()), load(1, None, gpu())];
    for balance in [Balance::Count, Balance::Weight] {
        assert_eq!(plan(&loads, &rooms, balance), [Ok(1), Err(Uncovered::NoRoom), Ok(0)]);
    }
}

#[test]
fn many_light_units_are_within_five_percent_by_weight() {
    let loads: Vec<Load> = (0..1000_u64)
        .map(|n| Load {
            weight: 1 + n * 7 % 13,
            needs: BTreeSet::new(),
            owner: None,
            pin: None,
            stays: false,
            settled: false,
            declined_by: BTreeSet::new(),
        })
        .collect();
    let planned = plan(&loads, &vec![free(); 10], Balance::Weight);
    let sum = |at: usize| -> u64 {
        loads.iter().zip(&planned).filter(|(_, owner)| **owner == Ok(at)).map(|(load, _)| load.weight).sum()
    };
    let total: u64 = (0..10).map(sum).sum();
    assert!((0..10).all(|at| sum(at).abs_diff(total / 10) * 20 <= total / 10));
}

/// Or whoever sees a plan half carried out would give the rest to others than those who carry it out.
#[test]
fn weights_make_no_difference_where_nothing_is_weighed() {
    let load = |weight, owner| Load {
        weight,
        needs: BTreeSet::new(),
        owner,
        pin: None,
        stays: false,
        settled: false,
        declined_by: BTreeSet::new(),
    };
    let room = || Room { units: u64::MAX, weight: u64::MAX, labels: BTreeSet::new(), leaving: false };
    let rooms = [room(), room(), room()];
    let weighed: Vec<Load> = (0..9).map(|n| load(1 + n % 4, None)).collect();
    let plain: Vec<Load> = (0..9).map(|_| load(1, None)).collect();
    let whole = plan(&weighed, &rooms, Balance::Count);
    assert_eq!(whole, plan(&plain, &rooms, Balance::Count));
    let half: Vec<Load> = (0..9)
        .map(|n| load(1 + n as u64 % 4, whole[n].as_ref().ok().copied().filter(|_| n % 3 == 0)))
        .collect();
    assert_eq!(plan(&half, &rooms, Balance::Count), whole, "the rest of it is planned as before");
}

#[test]
fn l4_a_large_fleet_that_labels_divide_is_planned_in_time() {
    let labels = |at: usize| if at < 600 { gpu() } else { BTreeSet::new() };
    // Those with the label are the fullest, and nobody else may relieve them. Some who have just joined relieve the rest.
    let rooms: Vec<Room> = (0..1200).map(|at| Room { labels: labels(at), ..free() }).collect();
    let mut loads = Vec::new();
    for at in 0..900 {
        let (needs, many) = if at < 600 { (gpu(), 9) } else { (BTreeSet::new(), 6) };
        loads.extend((0..many).map(|_| Load { needs: needs.clone(), ..plain(Some(at)) }));
    }
    let began = core_time();
    let plan = plan(&loads, &rooms, Balance::Count);
    let took = core_time() - began;
    let counts = counts(&plan, 1200);
    assert!(counts[..600].iter().all(|count| *count == 9) && counts[600..].iter().all(|count| *count == 3));
    // It took a minute and a half when each move asked all workers again.
    assert!(took.as_secs() < 15, "{took:?}");
}
