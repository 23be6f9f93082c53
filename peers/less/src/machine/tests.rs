//! Plan: each rule by itself, in a few steps: what belief rests on, which row is taken and when, what becomes of unknown outcomes,
//! how it is given up.
use super::*;
use crate::storage::Micros;
use std::time::Duration;
use tenure_core::Wall;

fn at(ms: u64) -> Now {
    let tick = Tick(0).after(Duration::from_millis(ms));
    Now { held: tick, waited: tick, wall: Wall(1_000_000 + ms) }
}

fn seen(row: Option<(&str, i64)>, now_ms: i64) -> StorageAnswer {
    let row = row.map(|(value, ms)| LeaderRow { value: value.into(), deadline: Micros(ms * 1000) });
    StorageAnswer::Seen(Seen { row, now: Micros(now_ms * 1000) })
}

fn machine() -> LeadershipMachine {
    LeadershipMachine::new(CandidateOptions::new(), "me".into())
}

/// Looks at `now`, and hears that.
fn looks(machine: &mut LeadershipMachine, ms: u64, row: Option<(&str, i64)>) -> MachineStep {
    assert_eq!(machine.step(at(ms), 0), MachineStep::Ask(StorageCall::Look), "at {ms}");
    machine.told(Ok(seen(row, ms as i64)), at(ms));
    machine.step(at(ms), 0)
}

/// One that has led since 0.
fn leader() -> LeadershipMachine {
    let mut machine = machine();
    assert_eq!(looks(&mut machine, 0, None), MachineStep::Ask(StorageCall::Take { over: None }));
    machine.told(Ok(StorageAnswer::Done), at(0));
    assert!(machine.believes(at(0).held));
    machine.notices();
    machine
}

#[test]
fn s1_belief_counts_from_before_the_write_was_sent() {
    let mut machine = machine();
    assert_eq!(looks(&mut machine, 0, None), MachineStep::Ask(StorageCall::Take { over: None }));
    machine.told(Ok(StorageAnswer::Done), at(5000));
    let end = CandidateOptions::new().belief().as_millis() as u64 + 1;
    assert!(machine.believes(at(end - 1).held) && !machine.believes(at(end).held));
}

#[test]
fn s1_an_answer_after_the_deadline_makes_no_leader() {
    let mut machine = machine();
    assert_eq!(looks(&mut machine, 0, None), MachineStep::Ask(StorageCall::Take { over: None }));
    machine.told(Ok(StorageAnswer::Done), at(9000));
    assert!(!machine.believes(at(9000).held));
    assert_eq!(
        machine.step(at(9000), 0),
        MachineStep::Ask(StorageCall::Renew),
        "the next answer may be in time"
    );
}

#[test]
fn s1_a_row_is_watched_for_a_ttl_less_the_margin_though_its_deadline_is_past() {
    let mut machine = machine();
    assert!(matches!(looks(&mut machine, 20_000, Some(("them", 1000))), MachineStep::Wait(_)));
    for ms in [22_000, 24_000, 26_000, 28_000] {
        assert!(matches!(looks(&mut machine, ms, Some(("them", 1000))), MachineStep::Wait(_)), "{ms}");
    }
    assert!(matches!(machine.step(at(29_499), 0), MachineStep::Wait(_)));
    let over = Some(LeaderRow { value: "them".into(), deadline: Micros(1_000_000) });
    assert_eq!(machine.step(at(29_500), 0), MachineStep::Ask(StorageCall::Take { over }));
}

#[test]
fn s1_a_row_that_has_changed_is_watched_anew_though_its_deadline_went_back() {
    let mut machine = machine();
    for (ms, deadline) in
        [(0, 9000), (2000, 11_000), (4000, 5000), (6000, 5000), (8000, 5000), (10_000, 5000)]
    {
        assert!(matches!(looks(&mut machine, ms, Some(("them", deadline))), MachineStep::Wait(_)), "{ms}");
    }
    assert!(
        matches!(looks(&mut machine, 12_000, Some(("them", 5000))), MachineStep::Wait(_)),
        "seen since 4 s"
    );
    assert!(matches!(machine.step(at(13_500), 0), MachineStep::Ask(StorageCall::Take { over: Some(_) })));
}

#[test]
fn l1_a_row_that_came_while_it_watched_is_taken_a_margin_after_its_deadline() {
    let mut machine = machine();
    let _wait = looks(&mut machine, 0, Some(("them", 10_500)));
    for ms in [2000, 4000, 6000, 8000, 10_000] {
        assert!(matches!(looks(&mut machine, ms, Some(("them", 10_500))), MachineStep::Wait(_)), "{ms}");
    }
    assert!(matches!(machine.step(at(10_999), 0), MachineStep::Wait(_)));
    assert!(matches!(machine.step(at(11_000), 0), MachineStep::Ask(StorageCall::Take { over: Some(_) })));
}

#[test]
fn s4_a_write_that_was_sent_before_time_was_hidden_makes_no_leader() {
    let mut machine = machine();
    assert_eq!(looks(&mut machine, 0, None), MachineStep::Ask(StorageCall::Take { over: None }));
    let mut now = at(100);
    now.wall = Wall(now.wall.0 + 1500);
    machine.told(Ok(StorageAnswer::Done), now);
    assert!(!machine.believes(now.held));
    assert_eq!(machine.step(now, 0), MachineStep::Ask(StorageCall::Renew));
}

#[test]
fn s1_a_take_of_unknown_outcome_makes_no_leader_until_a_renewal_is_answered() {
    let mut machine = machine();
    assert_eq!(looks(&mut machine, 0, None), MachineStep::Ask(StorageCall::Take { over: None }));
    machine.told(Err(StoreError::unknown("cut")), at(100));
    assert!(!machine.believes(at(100).held));
    assert_eq!(machine.step(at(2100), 0), MachineStep::Ask(StorageCall::Renew));
    machine.told(Ok(StorageAnswer::Done), at(2200));
    assert!(machine.believes(at(2200).held));
}

#[test]
fn a_take_that_surely_failed_leaves_nothing_to_renew() {
    let mut machine = machine();
    assert_eq!(looks(&mut machine, 0, None), MachineStep::Ask(StorageCall::Take { over: None }));
    machine.told(Err(StoreError::unavailable("down")), at(100));
    assert_eq!(machine.step(at(2100), 0), MachineStep::Ask(StorageCall::Look));
}

#[test]
fn s5_a_row_that_is_another_s_ends_the_leadership() {
    let mut machine = leader();
    assert_eq!(machine.step(at(2000), 0), MachineStep::Ask(StorageCall::Renew));
    machine.told(Ok(StorageAnswer::Refused), at(2010));
    assert_eq!(machine.notices(), [LeadershipNotice::Ended(EndCause::Taken)]);
    assert_eq!(machine.step(at(2010), 0), MachineStep::Ask(StorageCall::Look));
}

#[test]
fn as_many_errors_in_a_row_as_are_allowed_end_the_leadership_and_an_answer_forgives_them() {
    let mut machine = leader();
    let fails = |machine: &mut LeadershipMachine, ms| {
        assert_eq!(machine.step(at(ms), 0), MachineStep::Ask(StorageCall::Renew), "{ms}");
        machine.told(Err(StoreError::unavailable("down")), at(ms));
    };
    fails(&mut machine, 2000);
    fails(&mut machine, 4000);
    assert_eq!(machine.step(at(6000), 0), MachineStep::Ask(StorageCall::Renew));
    machine.told(Ok(StorageAnswer::Done), at(6000));
    fails(&mut machine, 8000);
    fails(&mut machine, 10_000);
    assert!(machine.believes(at(10_000).held), "the row was renewed at 6 s");
    fails(&mut machine, 12_000);
    assert!(!machine.believes(at(12_000).held));
    assert!(machine.notices().contains(&LeadershipNotice::Ended(EndCause::Errors)));
    assert_eq!(
        machine.step(at(14_000), 0),
        MachineStep::Ask(StorageCall::Renew),
        "its own row may still be there"
    );
}

#[test]
fn s4_the_deadline_ends_it_while_a_call_hangs() {
    let mut machine = leader();
    let end = CandidateOptions::new().belief().as_millis() as u64;
    assert_eq!(machine.step(at(2000), 0), MachineStep::Ask(StorageCall::Renew));
    assert_eq!(
        machine.step(at(2000), 0),
        MachineStep::Wait(at(0).held.after(CandidateOptions::new().belief()))
    );
    let _wait = machine.step(at(end + 1), 0);
    assert_eq!(machine.notices(), [LeadershipNotice::Ended(EndCause::Deadline)]);
}

#[test]
fn s4_time_that_was_hidden_ends_it() {
    let mut machine = leader();
    let mut now = at(1000);
    now.wall = Wall(now.wall.0 + 1500);
    let _ask = machine.step(now, 0);
    assert_eq!(machine.notices(), [LeadershipNotice::Ended(EndCause::HiddenTime)]);
}

/// Looks for its own row, to give it back, and hears that.
fn looks_for_its_own(machine: &mut LeadershipMachine, ms: u64, row: Option<(&str, i64)>) -> MachineStep {
    assert_eq!(machine.step(at(ms), 0), MachineStep::Ask(StorageCall::Look), "at {ms}");
    machine.told(Ok(seen(row, ms as i64)), at(ms));
    machine.step(at(ms), 0)
}

fn releases(value: &str, deadline_ms: i64) -> MachineStep {
    let row = LeaderRow { value: value.into(), deadline: Micros(deadline_ms * 1000) };
    MachineStep::Ask(StorageCall::Release { row })
}

#[test]
fn who_resigns_gives_the_row_back_and_stands_back() {
    let mut machine = leader();
    machine.resign();
    assert_eq!(looks_for_its_own(&mut machine, 1000, Some(("me", 10_000))), releases("me", 10_000));
    assert_eq!(machine.notices(), [LeadershipNotice::Ended(EndCause::Resigned)], "before the row is free");
    machine.told(Ok(StorageAnswer::Done), at(1010));
    assert_eq!(machine.step(at(1010), 0), MachineStep::Wait(at(5010).held));
    assert_eq!(looks(&mut machine, 5010, None), MachineStep::Ask(StorageCall::Take { over: None }));
}

#[test]
fn who_stops_gives_the_row_back_or_leaves_it_to_expire() {
    let mut machine = leader();
    machine.stop();
    assert_eq!(looks_for_its_own(&mut machine, 1000, Some(("me", 10_000))), releases("me", 10_000));
    machine.told(Err(StoreError::unknown("cut")), at(1010));
    assert_eq!(machine.step(at(1010), 0), MachineStep::Wait(at(1510).held), "trouble may pass");
    assert_eq!(looks_for_its_own(&mut machine, 1510, Some(("me", 10_000))), releases("me", 10_000));
    machine.told(Err(StoreError::unknown("cut")), at(1520));
    assert_eq!(machine.step(at(1520), 0), MachineStep::Over);
}

#[test]
fn a_row_that_was_renewed_meanwhile_is_looked_at_again_and_another_s_is_left_alone() {
    let mut machine = leader();
    machine.stop();
    assert_eq!(looks_for_its_own(&mut machine, 1000, Some(("me", 10_000))), releases("me", 10_000));
    machine.told(Ok(StorageAnswer::Refused), at(1010));
    assert_eq!(looks_for_its_own(&mut machine, 1020, Some(("me", 11_000))), releases("me", 11_000));
    let mut machine = leader();
    machine.stop();
    assert_eq!(looks_for_its_own(&mut machine, 1000, Some(("them", 10_000))), MachineStep::Over);
}

#[test]
fn who_stops_and_can_t_look_leaves_the_row_to_expire() {
    let mut machine = leader();
    machine.stop();
    for ms in [1000, 1500] {
        assert_eq!(machine.step(at(ms), 0), MachineStep::Ask(StorageCall::Look));
        machine.told(Err(StoreError::unavailable("down")), at(ms));
    }
    assert_eq!(machine.step(at(1500), 0), MachineStep::Over);
}

#[test]
fn s6_who_lapses_leaves_the_row_to_expire() {
    let mut machine = leader();
    machine.lapse();
    assert_eq!(machine.step(at(1000), 0), MachineStep::Over);
    assert_eq!(machine.notices(), [LeadershipNotice::Ended(EndCause::Stopped)]);
}

#[test]
fn s6_a_lapse_outlasts_the_stop_that_follows_when_the_handle_is_dropped() {
    let mut machine = leader();
    assert_eq!(machine.step(at(2000), 0), MachineStep::Ask(StorageCall::Renew));
    machine.lapse();
    assert!(matches!(machine.step(at(2010), 0), MachineStep::Wait(_)), "the call is under way");
    machine.stop();
    assert!(matches!(machine.step(at(2020), 0), MachineStep::Wait(_)), "the call is under way");
    machine.told(Ok(StorageAnswer::Done), at(2030));
    assert_eq!(machine.step(at(2030), 0), MachineStep::Over, "its row is left alone");
}

#[test]
fn who_resigns_in_a_moment_of_trouble_gives_the_row_back_after_it() {
    let mut machine = leader();
    machine.resign();
    let mut now = 1000;
    for _ in 0..3 {
        assert_eq!(machine.step(at(now), 0), MachineStep::Ask(StorageCall::Look), "at {now}");
        machine.told(Err(StoreError::unavailable("refused")), at(now));
        let MachineStep::Wait(until) = machine.step(at(now), 0) else { panic!("no pause after {now}") };
        now = until.0 / 1_000_000;
    }
    assert!(now > 1200, "three attempts by {now}");
    assert_eq!(looks_for_its_own(&mut machine, now, Some(("me", 10_000))), releases("me", 10_000));
    machine.told(Ok(StorageAnswer::Done), at(now));
    assert_eq!(machine.step(at(now), 0), MachineStep::Wait(at(now + 4000).held), "others go first");
}

#[test]
fn who_resigns_and_can_t_give_the_row_back_leaves_it_to_others() {
    let mut machine = leader();
    machine.resign();
    let mut now = 1000;
    loop {
        match machine.step(at(now), 0) {
            MachineStep::Ask(StorageCall::Look) if now < 12_000 => {
                machine.told(Err(StoreError::unavailable("refused")), at(now));
            }
            MachineStep::Wait(until) => now = until.0 / 1_000_000,
            step => {
                assert_eq!(step, MachineStep::Ask(StorageCall::Look), "not as its own row, at {now}");
                break;
            }
        }
    }
    // By a renewal that landed late, its row lasts until 30 s; others may take it half a second later.
    machine.told(Ok(seen(Some(("me", 30_000)), now as i64)), at(now));
    while now < 34_500 {
        match machine.step(at(now), 0) {
            MachineStep::Wait(until) => now = until.0 / 1_000_000,
            step => {
                assert_eq!(step, MachineStep::Ask(StorageCall::Look), "others go first, at {now}");
                machine.told(Ok(seen(Some(("me", 30_000)), now as i64)), at(now));
            }
        }
    }
    let step = machine.step(at(34_500), 0);
    assert!(matches!(step, MachineStep::Ask(StorageCall::Take { over: Some(_) })), "at {now}: {step:?}");
}

#[test]
fn a_claim_that_may_still_land_is_given_back_by_who_stops() {
    let mut machine = machine();
    assert_eq!(looks(&mut machine, 0, None), MachineStep::Ask(StorageCall::Take { over: None }));
    machine.stop();
    assert!(matches!(machine.step(at(10), 0), MachineStep::Wait(_)), "the call is under way");
    machine.told(Err(StoreError::unknown("cut")), at(100));
    assert_eq!(looks_for_its_own(&mut machine, 100, Some(("me", 10_000))), releases("me", 10_000));
}

#[test]
fn a_row_with_its_own_id_that_it_did_not_write_is_another_s() {
    let mut machine = machine();
    assert!(matches!(looks(&mut machine, 0, Some(("me", 9000))), MachineStep::Wait(_)));
    assert!(machine.notices().contains(&LeadershipNotice::SameId));
}
