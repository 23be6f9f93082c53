//! Random walks of the worker's machine: two to four of ours, and peers that write as the KCL's and a8m's do, on one table.
//!
//! Plan: requests are late, lost before or after they are performed, or answered late; processes stand still, also between two
//! readings of their clock; clock rates differ by as much as is allowed; ours are killed, stopped and started again; peers steal
//! what is alive, evict their own and each other's, and die; rows are deleted and made anew while ours have them; in worlds of
//! their own, leases with updates that wait are left to expire, and nothing is done with them any more; in others, all but one may take
//! no more than one lease, and the rest is that one's. Throughout, two of ours never believe in one lease at once, however
//! short, fences grow in the order in which leases are told, and each is told by the
//! answer to a request that has just won. When all is well again, every lease is held.

mod peers;
mod time;
mod world;

use super::format::Format;
use world::{KclWorld, WalkTerms};

const WORLDS: u64 = 250;

#[test]
fn two_of_ours_never_believe_at_once() {
    let (mut told, mut remade) = (0, 0);
    for seed in 0..WORLDS {
        let format = if seed % 2 == 0 { Format::kcl() } else { Format::a8m() };
        let mut world = KclWorld::new(WalkTerms::usual(seed, format));
        told += world.run().unwrap_or_else(|text| panic!("world {seed}: {text}"));
        remade += world.remade;
    }
    assert!(remade > WORLDS / 4, "too few rows were deleted and made anew: {remade}");
    assert!(told > WORLDS * 10, "too little happened to tell: {told} leases were told");
}

#[test]
fn s6_nothing_is_done_with_a_lease_that_was_left_to_expire_whatever_waited_for_it() {
    let mut lapses = 0;
    for seed in 0..WORLDS / 2 {
        let format = if seed % 2 == 0 { Format::kcl() } else { Format::a8m() };
        let mut world = KclWorld::new(WalkTerms { lapses: true, ..WalkTerms::usual(seed, format) });
        world.run().unwrap_or_else(|text| panic!("world {seed}: {text}"));
        lapses += world.lapses;
    }
    assert!(lapses > WORLDS, "too few leases lapsed: {lapses}");
}

#[test]
fn no_lease_stays_nobody_s_while_a_worker_has_room_however_few_the_others_may_take() {
    for seed in 0..WORLDS / 2 {
        let format = if seed % 2 == 0 { Format::kcl() } else { Format::a8m() };
        let mut world = KclWorld::new(WalkTerms { unequal: true, ..WalkTerms::usual(seed, format) });
        world.run().unwrap_or_else(|text| panic!("world {seed}: {text}"));
    }
}

#[test]
fn the_same_seed_is_the_same_world() {
    let trace = || {
        let mut world = KclWorld::new(WalkTerms::usual(4, Format::kcl()));
        let told = world.run();
        (told, world.table())
    };
    assert_eq!(trace(), trace());
}
