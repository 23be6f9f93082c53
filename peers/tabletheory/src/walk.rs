//! Random walks of the machines: managers of ours beside a process of TableTheory's, on one item.
//!
//! Plan: three processes of ours, one with two callers, acquire, refresh and release as users may: also what they have lost, given back
//! in vain, or know by its token alone. Requests are late, lost before or after they are performed, or refused; callers stop waiting;
//! processes stand still, and die; wall clocks are set within what they may differ by, and those of processes that stand still far
//! beyond; an operator deletes the item, or puts another one in its place; DynamoDB deletes it by its ttl. At every event one of ours
//! holds at the most, and the item is its own for as long as it believes. Where clocks differ by more than the margin, two hold for no
//! longer than what is beyond it. No row of another is written over, prolonged or deleted. What an operation is told is true, a release
//! included. A claim that nobody waits for stands in no way of its own process. Once all is calm, ours acquire again. Each world is one
//! seed, and repeats exactly.

mod caller;
mod counts;
mod table;
mod world;

use counts::ManagersCounts;
use world::{ManagersFaults, ManagersWorld};

/// The margin of all processes, in milliseconds.
const SKEW: u64 = 500;
/// How long after its end an item may be deleted, in seconds.
const BUFFER: u64 = 2;
/// How long a request is waited for, in milliseconds.
const PATIENCE: u64 = 1_500;
/// When the worlds begin, in milliseconds.
const EPOCH: u64 = 1_790_000_000_000;

/// The second of a wall clock.
fn seconds_of(at: u64) -> i64 {
    i64::try_from(at / 1000).unwrap()
}

const ALL: ManagersFaults = ManagersFaults {
    losses: true,
    storms: false,
    stalls: true,
    sets_back: false,
    crashes: true,
    drops: true,
    hands: true,
    hands_over: true,
    bare: false,
    without_ttl: false,
    apart: SKEW,
    peers: 1,
};

/// Runs as many worlds of a kind through rough times and calm ones.
fn worlds(many: u64, faults: ManagersFaults) -> ManagersCounts {
    let mut all = ManagersCounts::default();
    for seed in 0..many {
        let mut world = ManagersWorld::new(seed, faults);
        world.run(200_000);
        // Until all that is late has landed, and what it has left is over.
        world.run(50_000);
        let before = world.counts.acquired;
        world.run(50_000);
        assert!(world.counts.acquired > before, "seed {seed}: nobody acquires any more");
        all.add(&world.counts);
    }
    all
}

#[test]
fn s1_one_of_ours_holds_whatever_is_lost_late_or_deleted() {
    let counts = worlds(60, ALL);
    assert!(counts.are_enough(), "these worlds show little: {counts:?}");
    worlds(50, ManagersFaults { bare: true, ..ALL });
    worlds(50, ManagersFaults { without_ttl: true, peers: 2, ..ALL });
}

#[test]
fn s1_one_of_ours_holds_where_nobody_else_interferes() {
    worlds(50, ManagersFaults { hands: false, hands_over: false, crashes: false, peers: 0, ..ALL });
}

#[test]
fn whoever_asks_again_has_what_was_won_however_much_is_lost() {
    worlds(
        250,
        ManagersFaults { storms: true, stalls: false, crashes: false, hands: false, peers: 0, ..ALL },
    );
}

#[test]
fn s1_one_of_ours_holds_though_clocks_of_processes_that_stand_still_are_set_back() {
    worlds(50, ManagersFaults { sets_back: true, ..ALL });
}

#[test]
fn the_same_seed_is_the_same_world() {
    let counts = || {
        let mut world = ManagersWorld::new(7, ALL);
        world.run(200_000);
        world.counts
    };
    assert_eq!(counts(), counts());
}

#[test]
fn where_clocks_differ_by_more_than_the_margin_two_hold_for_no_longer_than_that() {
    worlds(50, ManagersFaults { apart: 4 * SKEW, ..ALL });
}
