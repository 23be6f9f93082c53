//! A section on a store in trouble, and users who change their minds. Plan: answers to anything but the operation under way
//! are ignored; trouble is retried ever less often, and many losses too; what can't pass is told to those who wait, each as
//! they asked;
//! an answer that outlasts the lease is not believed; a write that lands late is found behind one that was refused; those
//! who look are told in time; whoever stops takes nothing on; a section with nothing to do asks for nothing; what there is no
//! room for is refused by itself, and only after a look.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{BELIEF, TTL, now, tick};
use crate::sections::*;
use std::time::Duration;
use tenure_core::op::{Answer, Event, Machine, Op, OpId, Outcome};
use tenure_core::section::{
    Portion, SectionCommand, SectionLedger, SectionMachine, SectionNotice, SectionSetup,
};
use tenure_core::{Fence, LeaseId, Nonce, Record, StoreError, Stored, Tick, Version};

fn failed(op: u64, error: StoreError) -> Event<SectionCommand> {
    Event::Answer(OpId(op), Err(error))
}

fn away(op: u64) -> Event<SectionCommand> {
    failed(op, StoreError::unavailable("away"))
}

fn foreign(op: u64) -> Event<SectionCommand> {
    failed(op, StoreError::foreign("not ours"))
}

#[test]
fn answers_to_anything_but_the_operation_under_way_are_ignored() {
    let mut reading = section("a", 1);
    reading.step(now(0), acquire(ONE, "0_10"));
    let (writing, table, write) = midway();
    let stale = 99;
    let outcomes = [
        Answer::Read(None),
        Answer::Write(Outcome::Won { version: Version(7), fence: Fence(7) }),
        Answer::Write(Outcome::Lost(None)),
    ];
    let events = outcomes.map(|answer| Event::Answer(OpId(stale), Ok(answer)));
    for event in events.into_iter().chain([away(stale), foreign(stale), unknown(stale)]) {
        for machine in [&reading, &writing] {
            let mut after = machine.clone();
            let step = after.step(now(12), event.clone());
            assert_eq!((step.requests, step.notices), (vec![], vec![]), "{event:?}");
            assert_eq!(after, *machine, "{event:?}");
        }
    }
    let (mut a, mut table) = (writing, table);
    let answer = table.perform(13, &write);
    let (notices, _) = run(&mut a, &mut table, 13, Event::Answer(OpId(2), Ok(answer)));
    assert!(matches!(&notices[..], [SectionNotice::Obtained { .. }]), "{notices:?}");
}

#[test]
fn trouble_is_retried_ever_less_often() {
    let mut a = section("a", 1);
    a.step(now(0), acquire(ONE, "0_10"));
    let mut at = now(0).held;
    for (n, op) in (0..9).zip(1..) {
        let step = a.step(common_now(at), away(op));
        let pause = step.wake_at.unwrap().min(tick(5_000)).since(at);
        let longest = Duration::from_millis(5) * 2u32.pow(n.min(7));
        assert!((longest * 3 / 4..=longest).contains(&pause), "{n}: {pause:?}");
        at = step.wake_at.unwrap();
        assert_eq!(a.step(common_now(at), Event::Wake).requests.len(), 1);
    }
}

/// All clocks at a tick that need not be a whole millisecond.
fn common_now(at: Tick) -> tenure_core::Now {
    tenure_core::Now { held: at, waited: at, ..now(at.0 / 1_000_000) }
}

/// What stands in the record after another's write.
fn others(n: u64) -> Option<Stored> {
    let (mut b, mut table) = (section("b", 2), Table::default());
    run(&mut b, &mut table, 0, acquire(ONE, "80_90"));
    let record = Record { nonce: Nonce(1000 + u128::from(n)), ..table.record.unwrap() };
    Some(Stored::new(record))
}

#[test]
fn whoever_loses_all_the_time_pauses_a_little_longer_each_time() {
    let mut a = section("a", 1);
    a.step(now(0), acquire(ONE, "0_10"));
    let mut step = a.step(now(0), Event::Answer(OpId(1), Ok(Answer::Read(None))));
    let mut pauses = Vec::new();
    for n in 1..=32 * 8 {
        if step.requests.is_empty() {
            pauses.push(step.wake_at.unwrap().since(now(0).held));
            // No time passes for the clock that patience is counted by.
            let woken = common_now(step.wake_at.unwrap());
            step = a.step(woken, Event::Wake);
        }
        let op = step.requests[0].id;
        step = a.step(now(0), Event::Answer(op, Ok(Answer::Write(Outcome::Lost(others(n))))));
    }
    pauses.push(step.wake_at.unwrap().since(now(0).held));
    assert_eq!(pauses.len(), 8);
    for (n, pause) in (1..).zip(pauses) {
        let longest = Duration::from_millis(1) * 2u32.pow(u32::min(n, 6));
        assert!((longest * 3 / 4..=longest).contains(&pause), "{n}: {pause:?}");
    }
}

#[test]
fn what_cannot_pass_is_told_to_each_as_they_asked() {
    let wanting = || {
        let mut a = section("a", 1);
        a.step(now(0), acquire(ONE, "0_10"));
        a
    };
    let told = |mut a: SectionMachine| a.step(now(5), foreign(1)).notices;
    let error = StoreError::foreign("not ours");
    assert_eq!(told(wanting()), [SectionNotice::Failed(ONE, error)]);
    let mut a = wanting();
    a.step(now(1), release(ONE));
    assert_eq!(told(a), [SectionNotice::Released(ONE, false)]);
    let mut a = wanting();
    a.step(now(1), Event::Command(SectionCommand::Stop));
    assert_eq!(told(a), [SectionNotice::Stopped]);
}

#[test]
fn a_claim_that_is_known_not_to_have_landed_takes_no_write_to_be_given_up() {
    let (mut a, mut table, _) = midway();
    let before = table.record.clone();
    a.step(now(12), away(2));
    let step = a.step(now(13), release(ONE));
    let told = woken(&mut a, &mut table, &step);
    assert_eq!((told, table.record), ((vec![SectionNotice::Released(ONE, false)], 1), before));
}

#[test]
fn a_win_that_is_told_at_the_end_of_belief_or_after_it_is_not_believed_and_given_back() {
    let end = tick(11).0 + BELIEF;
    for (at, is_believed) in [(end - 1, true), (end, false), (end + 5_000_000, false)] {
        let (mut a, mut table, write) = midway();
        let answer = table.perform(12, &write);
        let step = a.step(common_now(Tick(at)), Event::Answer(OpId(2), Ok(answer)));
        let told = matches!(step.notices[..], [SectionNotice::Obtained { .. }]);
        assert_eq!(told, is_believed, "{at}: {step:?}");
        assert_eq!(step.requests.is_empty(), is_believed, "what is not believed is taken out: {step:?}");
    }
}

#[test]
fn s4_a_write_that_lands_just_before_the_next_is_found_in_the_refusal() {
    let (mut a, mut table, first) = midway();
    let step = a.step(now(13), unknown(2));
    let at = step.wake_at.unwrap().0.div_ceil(1_000_000);
    // It looks, and finds what was there before; so it writes again over that.
    let looks = a.step(now(at), Event::Wake);
    let answer = table.perform(at, &looks.requests[0].op);
    let writes = a.step(now(at + 1), Event::Answer(looks.requests[0].id, Ok(answer)));
    assert!(matches!(writes.requests[0].op, Op::Write(_)));
    // Now the first one lands after all.
    table.perform(at + 2, &first);
    let answer = table.perform(at + 3, &writes.requests[0].op);
    let (notices, ops) = run(&mut a, &mut table, at + 4, Event::Answer(writes.requests[0].id, Ok(answer)));
    assert_eq!((notices, ops), (vec![obtained(ONE, "0_80 90_100", crate::common::WALL + 11, 11)], 0));
}

#[test]
fn what_can_no_longer_stand_is_not_looked_for() {
    let (mut a, _, _) = midway();
    a.step(now(13), unknown(2));
    // Not before the lease that may have landed would be over.
    let over = tick(11).after(TTL);
    let step = a.step(common_now(over), Event::Wake);
    assert!(matches!(step.notices[..], [SectionNotice::Failed(ONE, _)]), "{step:?}");
    assert_eq!((step.requests, step.wake_at), (vec![], None));
}

#[test]
fn those_who_look_or_give_up_are_told_in_time_that_the_store_does_not_answer() {
    for command in [SectionCommand::List(ONE), SectionCommand::Reclaim(ONE)] {
        let mut a = section("a", 1);
        let step = a.step(now(0), Event::Command(command));
        assert_eq!(step.wake_at, Some(tick(10_000)));
        let told = a.step(now(10_000), Event::Wake).notices;
        assert!(matches!(&told[..], [SectionNotice::Failed(ONE, error)] if error.is_passing()), "{told:?}");
    }
    let (mut a, mut table) = (section("a", 1), Table::default());
    run(&mut a, &mut table, 0, acquire(ONE, "0_10"));
    a.step(now(9_500), release(ONE));
    // Until its end, or a second if that is longer.
    assert_eq!(a.step(now(10_400), Event::Wake).notices, []);
    assert_eq!(a.step(now(10_500), Event::Wake).notices, [SectionNotice::Released(ONE, false)]);
}

#[test]
fn whoever_stops_takes_nothing_on() {
    let (mut a, _, _) = midway();
    a.step(now(12), Event::Command(SectionCommand::Stop));
    for (n, command) in (5..).zip([SectionCommand::List, SectionCommand::Reclaim]) {
        let told = a.step(now(12), Event::Command(command(LeaseId(n)))).notices;
        assert!(matches!(&told[..], [SectionNotice::Failed(_, error)] if !error.is_passing()), "{told:?}");
    }
    let told = a.step(now(12), acquire(TWO, "0_10")).notices;
    assert!(matches!(&told[..], [SectionNotice::Failed(TWO, _)]), "{told:?}");
}

#[test]
fn a_section_with_nothing_to_do_asks_for_nothing() {
    let (mut a, mut table) = (section("a", 1), Table::default());
    run(&mut a, &mut table, 0, acquire(ONE, "0_10"));
    let list = a.step(now(10), Event::Command(SectionCommand::List(TWO)));
    a.step(now(11), foreign(list.requests[0].id.0));
    // It has forgotten what it saw, and holds a lease: that is no reason to look again.
    let idle = a.step(now(12), Event::Wake);
    assert_eq!((idle.requests, idle.wake_at), (vec![], None));
    let (notices, _) = run(&mut a, &mut table, 20, release(ONE));
    assert_eq!(notices, [SectionNotice::Released(ONE, true)]);
}

#[test]
fn an_operation_gets_half_of_the_time_that_is_left() {
    let mut a = section("a", 1);
    let step = a.step(now(0), acquire(ONE, "0_10"));
    assert_eq!(step.requests[0].timeout, TTL / 4, "of half a ttl");
    // Of two, the one that has more.
    let mut a = section("a", 1);
    let short = SectionCommand::Acquire(ONE, set("0_10"), tenure_core::Ttl::MIN, Portion::Free);
    let step = a.step(now(0), Event::Command(short));
    assert_eq!(step.requests[0].timeout, Duration::from_millis(20), "but not nothing");
}

#[test]
fn whoever_gives_up_before_anything_was_written_is_told_at_once() {
    let mut a = section("a", 1);
    a.step(now(0), acquire(ONE, "0_10"));
    assert_eq!(a.step(now(1), release(ONE)).notices, []);
    let told = a.step(now(2), Event::Answer(OpId(1), Ok(Answer::Read(None))));
    assert_eq!((told.requests, told.notices), (vec![], vec![SectionNotice::Released(ONE, false)]));
    let mut a = section("a", 1);
    a.step(now(0), acquire(ONE, "0_10"));
    let told = a.step(now(1), Event::Command(SectionCommand::Stop)).notices;
    assert!(matches!(told[..], [SectionNotice::Failed(ONE, _)]), "{told:?}");
    let told = a.step(now(2), Event::Answer(OpId(1), Ok(Answer::Read(None))));
    assert_eq!((told.requests, told.notices), (vec![], vec![SectionNotice::Stopped]));
}

#[test]
fn s4_whoever_stops_makes_what_may_still_land_impossible_first() {
    let (mut a, mut table, write) = midway();
    a.step(now(12), Event::Command(SectionCommand::Stop));
    let step = a.step(now(13), unknown(2));
    let (notices, ops) = woken(&mut a, &mut table, &step);
    assert_eq!((notices, ops), (vec![SectionNotice::Stopped], 2), "a look and a write");
    assert!(matches!(table.perform(99, &write), Answer::Write(Outcome::Lost(_))), "the zombie");
    assert_eq!(table.held(), [("b".into(), "80_90".into())]);
}

#[test]
fn whoever_reclaims_looks_first_and_writes_only_if_something_is_over() {
    let mut table = Table { attests: true, ..Table::default() };
    let (mut a, mut b) = (section("a", 1), section("b", 2));
    run(&mut a, &mut table, 0, acquire(ONE, "0_10"));
    // What it has written itself is what it saw last: since then others may have come and gone.
    let reclaim = |lease| Event::Command(SectionCommand::Reclaim(lease));
    let before = table.record.clone();
    let (notices, ops) = run(&mut a, &mut table, 5_000, reclaim(TWO));
    assert_eq!((notices, ops, &table.record), (vec![SectionNotice::Reclaimed(TWO, 0)], 1, &before));
    run(&mut b, &mut table, 6_000, acquire(ONE, "80_90"));
    let (notices, ops) = run(&mut a, &mut table, 30_000, reclaim(TWO));
    assert_eq!(
        (notices, ops),
        (vec![SectionNotice::Reclaimed(TWO, 2)], 2),
        "b's write is in the way of its first"
    );
}

#[test]
fn a_lease_of_a_day_is_collected_after_a_day_however_often_others_write() {
    let mut table = Table { attests: true, ..Table::default() };
    let hour = 3_600_000;
    let long = SectionCommand::Acquire(ONE, set("0_10"), tenure_core::Ttl::MAX, Portion::Free);
    run(&mut section("a", 1), &mut table, 0, Event::Command(long));
    for (instance, hours) in [(2, 13), (3, 23)] {
        let mut other = section("other", instance);
        run(&mut other, &mut table, hours * hour, acquire(ONE, "80_90"));
        run(&mut other, &mut table, hours * hour + 10, release(ONE));
        assert_eq!(table.held(), [("a".into(), "0_10".into())], "after {hours} hours");
    }
    let (notices, _) = run(&mut section("b", 4), &mut table, 24 * hour + 1_000, acquire(ONE, "0_10"));
    assert!(matches!(&notices[..], [SectionNotice::Obtained { fence: Some(_), .. }]), "{notices:?}");
}

fn with_room_for(most_bytes: usize) -> SectionMachine {
    let setup = SectionSetup {
        key: tenure_core::section::key("s").unwrap(),
        holder: tenure_core::HolderId::new("a").unwrap(),
        instance: 1,
        rules: tenure_core::Rules::default(),
        most_parts: 1000,
        most_bytes,
    };
    SectionMachine::new(setup)
}

#[test]
fn what_the_store_has_no_room_for_is_refused_and_a_release_never_is() {
    let (mut a, mut table) = (with_room_for(1000), Table::default());
    run(&mut a, &mut table, 0, acquire(ONE, "0_1"));
    // At once, as the time that an entry has stood takes room, too.
    run(&mut a, &mut table, 2, acquire(TWO, "2_3"));
    let size = SectionLedger::into_cover(table.ledger()).1;
    // Exactly as much as that needs is enough.
    let (mut b, mut other) = (with_room_for(size), Table::default());
    run(&mut b, &mut other, 0, acquire(ONE, "0_1"));
    let (notices, _) = run(&mut b, &mut other, 2, acquire(TWO, "2_3"));
    assert!(matches!(&notices[..], [SectionNotice::Obtained { fence: Some(_), .. }]), "{notices:?}");
    let (mut b, mut other) = (with_room_for(size - 1), Table::default());
    run(&mut b, &mut other, 0, acquire(ONE, "0_1"));
    let (notices, _) = run(&mut b, &mut other, 2, acquire(TWO, "2_3"));
    let [SectionNotice::Failed(TWO, error)] = &notices[..] else { panic!("{notices:?}") };
    assert!(error.to_string().contains("bytes") && !error.is_passing(), "{error}");
    assert_eq!(other.held().len(), 1);
    // Some of several ranges fit: that is something for who wants what there is, and nothing for who wants all.
    let many: Vec<String> = (1..30).map(|n| format!("{n}0_{n}8")).collect();
    let (notices, _) = run(&mut b, &mut other, 20, acquire_all(TWO, &many.join(" ")));
    let [SectionNotice::Failed(TWO, error)] = &notices[..] else { panic!("{notices:?}") };
    assert!(error.to_string().contains("bytes") && !error.is_passing(), "{error}");
    assert_eq!(other.held().len(), 1);
    // What was seen long ago is looked at again before nothing fits.
    let (mut all, mut roomy, mut other) = (with_room_for(size), with_room_for(10_000), Table::default());
    run(&mut roomy, &mut other, 0, acquire(ONE, &many.join(" ")));
    let (notices, _) = run(&mut all, &mut other, 10, acquire_all(ONE, "0_1"));
    assert!(matches!(&notices[..], [SectionNotice::Failed(ONE, _)]), "{notices:?}");
    run(&mut roomy, &mut other, 20, release(ONE));
    let (notices, _) = run(&mut all, &mut other, 30, acquire_all(TWO, "0_1"));
    assert!(matches!(&notices[..], [SectionNotice::Obtained { fence: Some(_), .. }]), "{notices:?}");
    // Another process has more room; what is written to give something back is too large for this one all the same.
    let (mut roomy, mut own) = (with_room_for(10_000), with_room_for(size));
    let mut table = Table::default();
    run(&mut own, &mut table, 0, acquire(ONE, "0_1"));
    for n in 2..9 {
        run(&mut roomy, &mut table, n * 10, acquire(LeaseId(n), &format!("{n}0_{n}1")));
    }
    assert_eq!(run(&mut own, &mut table, 100, release(ONE)).0, [SectionNotice::Released(ONE, true)]);
}

#[test]
fn whoever_saw_a_full_section_long_ago_looks_again_before_less_is_had() {
    let many: Vec<String> = (1..30).map(|n| format!("{n}0_{n}8")).collect();
    // As long as the others are there, room is left for none of three ranges, or for one.
    for room in [10, 42] {
        let (mut roomy, mut table) = (with_room_for(10_000), Table::default());
        run(&mut roomy, &mut table, 0, acquire(ONE, &many.join(" ")));
        run(&mut roomy, &mut table, 10, acquire(TWO, "0_1"));
        let mut full = with_room_for(SectionLedger::into_cover(table.ledger()).1 + room);
        run(&mut roomy, &mut table, 20, release(TWO));
        run(&mut full, &mut table, 30, acquire(ONE, "0_1"));
        run(&mut roomy, &mut table, 40, release(ONE));
        let (notices, _) = run(&mut full, &mut table, 1_000, acquire(TWO, "2_3 4_5 6_7"));
        let [SectionNotice::Obtained { parts, .. }] = &notices[..] else { panic!("{notices:?}") };
        assert_eq!(*parts, set("2_3 4_5 6_7"));
    }
}

#[test]
fn a_lease_that_does_not_fit_takes_no_other_down() {
    let two = |most_bytes| {
        let (mut a, mut table) = (with_room_for(most_bytes), Table::default());
        let step = a.step(now(0), acquire(ONE, "0_1"));
        a.step(now(0), acquire(TWO, "2_3"));
        let answer = Ok(table.perform(1, &step.requests[0].op));
        let (notices, _) = run(&mut a, &mut table, 1, Event::Answer(step.requests[0].id, answer));
        (notices, table)
    };
    let (notices, table) = two(1000);
    assert_eq!((notices.len(), table.held().len()), (2, 2));
    let size = SectionLedger::into_cover(table.ledger()).1;
    let (notices, table) = two(size - 1);
    let [SectionNotice::Obtained { lease: ONE, fence: Some(_), .. }, SectionNotice::Failed(TWO, error)] =
        &notices[..]
    else {
        panic!("{notices:?}")
    };
    assert!(error.to_string().contains("bytes") && !error.is_passing(), "{error}");
    assert_eq!(table.held(), [("a".into(), "0_1".into())]);
}

#[test]
fn commands_name_their_leases() {
    let acquires = SectionCommand::Acquire(ONE, set(""), tenure_core::Ttl::MIN, Portion::Free);
    for command in [
        acquires,
        SectionCommand::Release(ONE),
        SectionCommand::Lapse(ONE),
        SectionCommand::List(ONE),
        SectionCommand::Reclaim(ONE),
    ] {
        assert_eq!(command.lease(), Some(ONE), "{command:?}");
    }
    assert_eq!(SectionCommand::Stop.lease(), None);
}

#[test]
fn a_pause_that_nobody_waits_for_wakes_nobody() {
    let mut a = section("a", 1);
    let mut step = a.step(now(0), Event::Command(SectionCommand::List(ONE)));
    let mut at = now(0).held;
    while step.notices.is_empty() {
        if let Some(request) = step.requests.first() {
            step = a.step(common_now(at), away(request.id.0));
        }
        let next = step.wake_at.unwrap();
        assert!(next > at && next <= tick(10_000), "{step:?}");
        at = next;
        step = a.step(common_now(at), Event::Wake);
    }
    // The last pause, of half a second or more, would have lasted longer than the time for looking.
    assert!(matches!(step.notices[..], [SectionNotice::Failed(ONE, _)]), "{step:?}");
    assert_eq!((step.requests, step.wake_at), (vec![], None));
    assert!(at == tick(10_000));
}

#[test]
fn while_an_operation_is_under_way_no_pause_wakes_anybody() {
    let mut a = section("a", 1);
    a.step(now(0), acquire(ONE, "0_10"));
    let step = a.step(now(1), away(1));
    let at = step.wake_at.unwrap();
    let reads = a.step(common_now(at), Event::Wake);
    assert_eq!((reads.requests.len(), reads.wake_at), (1, Some(tick(5_000))));
}
