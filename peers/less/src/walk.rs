//! Worlds of candidates on one row: ours, and less's as their source describes them.
//!
//! Plan: calls take time, are lost before or after they took effect, and land late; the storage refuses calls for a while; leaders resign, lapse, stop
//! and begin anew; processes stall; clocks run at different rates; the storage's clock jumps. At every event at most one of ours believes that it
//! leads. Where nothing stalls and no call is lost, at most one of all does, theirs included. Nobody leads before the row of one that lapsed is past
//! its deadline. Whoever resigned leads again only after the row was free for long enough, or another had it. Once all is calm, somebody leads in
//! bounded time. Each world is one seed, and repeats exactly.

mod world;

use world::{LessWorld, WalkFaults};

const TTL: u64 = 10_000_000;
const SKEW: u64 = 500_000;
const RATE: u64 = 2_000_000;
/// When the wall clocks start, in microseconds.
const EPOCH: u64 = 1_790_000_000_000_000;

/// Runs worlds of a kind through rough times and calm ones.
fn worlds(faults: WalkFaults) {
    let (mut terms, mut resignations, mut lapses) = (0, 0, 0);
    for seed in 0..150 {
        let mut world = LessWorld::new(seed, faults);
        world.run(300_000_000);
        let healed = world.at + 25_000_000 + 15_000_000;
        world.run(healed);
        let bound = 2 * (TTL + SKEW) + 2 * RATE;
        world.run(healed + bound);
        let leads = world.leaders() > 0;
        assert!(leads, "seed {seed}: nobody leads {bound} µs after all is well: {:?}", world.row);
        terms += world.terms;
        resignations += world.checks.resignations;
        lapses += world.checks.lapses;
    }
    assert!(terms > 150, "only {terms} terms: these worlds show nothing");
    assert!(!faults.resigns || resignations > 150, "only {resignations} resignations");
    assert!(!faults.ends || lapses > 150, "only {lapses} lapses");
}

const CALM: WalkFaults = WalkFaults {
    stalls: false,
    losses: false,
    jumps: false,
    resigns: false,
    refuses: false,
    ends: false,
    theirs: 0,
};

#[test]
fn s1_one_of_ours_leads_whatever_stalls_or_is_lost() {
    worlds(WalkFaults { stalls: true, losses: true, resigns: true, ..CALM });
}

#[test]
fn s1_one_of_ours_leads_beside_candidates_that_renew_whatever_is_there() {
    worlds(WalkFaults { stalls: true, losses: true, resigns: true, theirs: 3, ..CALM });
}

#[test]
fn s1_one_of_ours_leads_though_the_storage_s_clock_jumps_ahead() {
    worlds(WalkFaults { stalls: true, losses: true, jumps: true, resigns: true, ..CALM });
}

#[test]
fn whoever_resigns_while_the_storage_refuses_calls_lets_others_go_first() {
    worlds(WalkFaults { resigns: true, refuses: true, ..CALM });
    worlds(WalkFaults { stalls: true, losses: true, resigns: true, refuses: true, ..CALM });
}

#[test]
fn s6_nobody_leads_before_the_row_of_one_that_lapsed_is_past_its_deadline() {
    worlds(WalkFaults { ends: true, ..CALM });
    worlds(WalkFaults { stalls: true, losses: true, resigns: true, refuses: true, ends: true, ..CALM });
}

#[test]
fn s1_one_of_all_leads_where_nothing_stalls_and_clocks_are_within_the_margin() {
    for seed in 0..100 {
        LessWorld::new(seed, WalkFaults { theirs: 3, ..CALM }).run(120_000_000);
    }
}

#[test]
fn l1_a_dead_leader_s_row_is_taken_a_ttl_after_it_was_seen() {
    for seed in 0..50 {
        let mut world = LessWorld::new(seed, CALM);
        world.run(30_000_000);
        let leader = world.believers()[0];
        let died = world.at;
        world.ours[leader].frozen = u64::MAX;
        let deadline = world.row.clone().unwrap().1 - EPOCH;
        while world.believers().iter().all(|n| *n == leader) {
            let next = world.at + 10_000;
            world.run(next);
        }
        // Seen a follower's rate after it was written, at the latest. A clock that is slow by a tenth waits longer by that.
        let took = world.at - died;
        let bound = (deadline - TTL + RATE).saturating_sub(died) + (TTL - SKEW) * 10 / 9 + 3 * SKEW;
        assert!(took <= bound, "seed {seed}: {took} µs, where {bound} are allowed");
    }
}
