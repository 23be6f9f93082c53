//! Plan: the machine of a section, with whole outputs: a lease in two round trips, the next in one; parts that others hold are
//! left out; nothing left is told without a write; what was seen long ago is looked at again before "nothing" is told; a
//! refusal's record is used at once; unknown outcomes are resolved by the record, landed, lost, or still to land; dead entries are
//! collected, once seen for long enough or by two witnesses, also where only short-lived processes write; releases are conditional and
//! several wishes share a write; the cap; foreign records; a store that never answers; stopping.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{TTL, WALL, now, tick};
use crate::sections::*;
use tenure_core::op::{Answer, Event, Machine, Outcome};
use tenure_core::section::{
    FIELD, SectionCommand, SectionMachine, SectionNotice, Since, is_over, is_section,
};
use tenure_core::{Fence, LeaseId, Metadata, Nonce, Record, StoreError, Value, Wall};

#[test]
fn a_lease_takes_two_round_trips_and_the_next_one_in_the_same_process_one() {
    let (mut a, mut table) = (section("a", 1), Table::default());
    let (notices, ops) = run(&mut a, &mut table, 0, acquire(ONE, "0_10 8_20"));
    assert_eq!((notices, ops), (vec![obtained(ONE, "0_20", WALL + 1, 1)], 2));
    let (notices, ops) = run(&mut a, &mut table, 10, acquire(TWO, "10_30"));
    assert_eq!((notices, ops), (vec![obtained(TWO, "20_30", WALL + 10, 10)], 1));
    assert_eq!(table.held(), [("a".into(), "0_20".into()), ("a".into(), "20_30".into())]);
    let (notices, ops) = run(&mut a, &mut table, 20, release(ONE));
    assert_eq!((notices, ops), (vec![SectionNotice::Released(ONE, true)], 1));
    assert_eq!(table.held(), [("a".into(), "20_30".into())]);
    assert_eq!(table.record.as_ref().unwrap().fence, Fence(WALL + 10), "a release keeps the fence");
}

#[test]
fn s7_parts_that_others_hold_are_left_out_and_nothing_is_told_without_a_write() {
    let (mut a, mut b, mut table) = (section("a", 1), section("b", 2), Table::default());
    run(&mut a, &mut table, 0, acquire(ONE, "10_20 30_40"));
    let (notices, _) = run(&mut b, &mut table, 10, acquire(ONE, "0_100"));
    assert_eq!(notices, [obtained(ONE, "0_10 20_30 40_100", WALL + 11, 11)]);
    let before = table.record.clone();
    let (notices, ops) = run(&mut a, &mut table, 20, acquire(TWO, "8_48"));
    // Its first write is refused; the record that comes with the refusal leaves nothing.
    assert_eq!((notices, ops, &table.record), (vec![nothing(TWO, 21)], 1, &before));
}

#[test]
fn who_wants_all_or_nothing_has_all_by_one_write_or_nothing_without_one() {
    let (mut a, mut b, mut table) = (section("a", 1), section("b", 2), Table::default());
    run(&mut a, &mut table, 0, acquire(ONE, "10_20"));
    let before = table.record.clone();
    let (notices, ops) = run(&mut b, &mut table, 10, acquire_all(ONE, "0_4 19_21"));
    assert_eq!((notices, ops, &table.record), (vec![nothing(ONE, 11)], 1, &before));
    let (notices, ops) = run(&mut b, &mut table, 20, acquire_all(TWO, "0_4 20_30"));
    assert_eq!((notices, ops), (vec![obtained(TWO, "0_4 20_30", WALL + 20, 20)], 1));
    // What was seen long ago is no reason for nothing.
    run(&mut a, &mut table, 30, release(ONE));
    let (notices, _) = run(&mut b, &mut table, 40, acquire_all(LeaseId(3), "4_20"));
    assert_eq!(notices, [obtained(LeaseId(3), "4_20", WALL + 41, 41)]);
    // Of those that a process wants at a time, the first has it.
    let (mut both, mut table) = (section("a", 1), Table::default());
    let first = both.step(now(0), acquire_all(ONE, "0_10"));
    assert!(both.step(now(0), acquire_all(TWO, "8_20")).requests.is_empty());
    let answer = table.perform(1, &first.requests[0].op);
    let (notices, _) = run(&mut both, &mut table, 1, Event::Answer(tenure_core::op::OpId(1), Ok(answer)));
    assert_eq!(notices, [obtained(ONE, "0_10", WALL + 1, 1), nothing(TWO, 2)]);
}

#[test]
fn who_wants_all_or_nothing_is_refused_where_a_part_fits() {
    let (mut a, mut table) = (section("a", 1), Table::default());
    run(&mut a, &mut table, 0, acquire(ONE, "0_1 2_3 4_5 6_7"));
    let before = table.record.clone();
    let (notices, _) = run(&mut a, &mut table, 10, acquire_all(TWO, "8_9 a_b"));
    let [SectionNotice::Failed(TWO, error)] = &notices[..] else { panic!("{notices:?}") };
    assert!(error.to_string().contains("holds 4 ranges, 2 more are wanted, and its limit is 5"), "{error}");
    assert_eq!(table.record, before);
    assert_eq!(table.held().len(), 1);
    run(&mut a, &mut table, 20, acquire_all(LeaseId(3), "8_b"));
    assert_eq!(table.held().len(), 2);
}

#[test]
fn what_was_seen_long_ago_is_looked_at_again_before_nothing_is_told() {
    let (mut a, mut b, mut table) = (section("a", 1), section("b", 2), Table::default());
    run(&mut a, &mut table, 0, acquire(ONE, "0_10"));
    run(&mut b, &mut table, 10, acquire(ONE, "0_10"));
    run(&mut a, &mut table, 20, release(ONE));
    let (notices, ops) = run(&mut b, &mut table, 30, acquire(TWO, "0_10"));
    assert_eq!((notices, ops), (vec![obtained(TWO, "0_10", WALL + 31, 31)], 2), "b believed it to be held");
}

#[test]
fn several_wishes_share_a_write_and_have_a_fence_each() {
    let (mut a, mut table) = (section("a", 1), Table::default());
    let first = a.step(now(0), acquire(ONE, "0_10"));
    assert!(a.step(now(0), acquire(TWO, "8_20")).requests.is_empty());
    assert!(a.step(now(0), Event::Command(SectionCommand::List(LeaseId(3)))).requests.is_empty());
    let answer = table.perform(1, &first.requests[0].op);
    let step = a.step(now(1), Event::Answer(tenure_core::op::OpId(1), Ok(answer)));
    assert_eq!(step.notices, [], "the list was asked for after this look began");
    let answer = table.perform(2, &step.requests[0].op);
    let step = a.step(now(2), Event::Answer(tenure_core::op::OpId(2), Ok(answer)));
    let listed = SectionNotice::Listed(LeaseId(3), table.ledger().entries);
    assert_eq!(
        step.notices,
        [obtained(ONE, "0_10", WALL + 1, 1), obtained(TWO, "10_20", WALL + 2, 1), listed]
    );
    let (one, two) = (release(ONE), release(TWO));
    let step = a.step(now(3), one);
    a.step(now(3), two);
    let answer = table.perform(4, &step.requests[0].op);
    let (notices, ops) = run(&mut a, &mut table, 4, Event::Answer(tenure_core::op::OpId(3), Ok(answer)));
    assert_eq!((notices.len(), ops, table.held().len()), (2, 1, 0));
}

#[test]
fn s4_an_unknown_write_that_landed_is_ours_from_when_it_was_sent() {
    let (mut a, mut table, write) = midway();
    table.perform(12, &write);
    let step = a.step(now(13), unknown(2));
    assert_eq!((step.notices.len(), step.requests.len()), (0, 0), "neither success nor failure");
    let (notices, ops) = woken(&mut a, &mut table, &step);
    assert_eq!((notices, ops), (vec![obtained(ONE, "0_80 90_100", WALL + 11, 11)], 1));
}

#[test]
fn s4_an_unknown_write_that_may_still_land_is_made_impossible_by_the_next() {
    let (mut a, mut table, write) = midway();
    let step = a.step(now(13), unknown(2));
    let (notices, ops) = woken(&mut a, &mut table, &step);
    assert!(matches!(&notices[..], [SectionNotice::Obtained { .. }]) && ops == 2, "{notices:?}");
    let after = table.record.clone();
    assert!(matches!(table.perform(99, &write), Answer::Write(Outcome::Lost(_))), "the zombie");
    assert_eq!(table.record, after);
}

#[test]
fn s4_an_attempt_that_nobody_wants_any_more_leaves_nothing_behind() {
    for lands in [true, false] {
        let (mut a, mut table, write) = midway();
        if lands {
            table.perform(12, &write);
        }
        a.step(now(12), release(ONE));
        let step = a.step(now(13), unknown(2));
        let (notices, _) = woken(&mut a, &mut table, &step);
        assert_eq!(notices, [SectionNotice::Released(ONE, lands)]);
        assert_eq!(table.held(), [("b".into(), "80_90".into())]);
        assert!(matches!(table.perform(99, &write), Answer::Write(Outcome::Lost(_))), "the zombie");
    }
}

#[test]
fn s3_a_release_takes_out_nothing_but_its_own_entry() {
    let (mut a, mut b, mut table) =
        (section("a", 1), section("b", 2), Table { attests: true, ..Table::default() });
    run(&mut a, &mut table, 0, acquire(ONE, "0_10"));
    // Past its end b collects it, at first sight, and holds the same range.
    run(&mut b, &mut table, 10_500, acquire(ONE, "0_10"));
    assert_eq!(table.held(), [("b".into(), "0_10".into())]);
    let (notices, _) = run(&mut a, &mut table, 10_600, release(ONE));
    assert_eq!(notices, [SectionNotice::Released(ONE, false)]);
    assert_eq!(table.held(), [("b".into(), "0_10".into())]);
}

#[test]
fn a_dead_entry_is_collected_once_seen_for_its_duration_where_no_ages_are_told() {
    let (mut a, mut b, mut table) = (section("a", 1), section("b", 2), Table::default());
    run(&mut a, &mut table, 0, acquire(ONE, "0_10"));
    let tries =
        |b: &mut SectionMachine, table: &mut Table, ms| run(b, table, ms, acquire(LeaseId(ms), "0_10")).0;
    assert_eq!(
        tries(&mut b, &mut table, 9_000),
        [nothing(LeaseId(9_000), 9_001)],
        "the wall clock alone says nothing"
    );
    assert_eq!(tries(&mut b, &mut table, 18_000), [nothing(LeaseId(18_000), 18_001)]);
    // First seen at 9,001 ms.
    assert_eq!(tries(&mut b, &mut table, 19_001), [obtained(LeaseId(19_001), "0_10", WALL + 19_001, 19_001)]);
}

#[test]
fn a_dead_entry_is_collected_by_processes_that_all_live_shorter_than_its_duration() {
    let mut table = Table { attests: true, ..Table::default() };
    run(&mut section("a", 1), &mut table, 0, acquire(ONE, "0_10"));
    // Every second another process writes, so the record is never old.
    for n in 1..=9 {
        let mut other = section("other", 100 + n);
        run(&mut other, &mut table, n * 1000, acquire(ONE, "80_90"));
        run(&mut other, &mut table, n * 1000 + 100, release(ONE));
        assert_eq!(table.held(), [("a".into(), "0_10".into())], "{n}");
    }
    let (notices, _) = run(&mut section("b", 2), &mut table, 11_000, acquire(ONE, "0_10"));
    assert!(
        matches!(&notices[..], [SectionNotice::Obtained { parts, .. }] if *parts == set("0_10")),
        "{notices:?}"
    );
}

#[test]
fn reclaiming_collects_what_is_over_and_tells_how_much() {
    let mut table = Table { attests: true, ..Table::default() };
    run(&mut section("a", 1), &mut table, 0, acquire(ONE, "0_10"));
    let reclaim = || Event::Command(SectionCommand::Reclaim(ONE));
    assert_eq!(run(&mut section("b", 2), &mut table, 9_000, reclaim()).0, [SectionNotice::Reclaimed(ONE, 0)]);
    assert_eq!(
        run(&mut section("b", 3), &mut table, 11_000, reclaim()).0,
        [SectionNotice::Reclaimed(ONE, 1)]
    );
    assert_eq!(table.held(), []);
}

#[test]
fn what_was_read_before_it_was_asked_for_answers_no_reclaim() {
    let mut table = Table { attests: true, ..Table::default() };
    run(&mut section("a", 1), &mut table, 0, acquire(ONE, "0_10"));
    let mut b = section("b", 2);
    let listing = b.step(now(9_000), Event::Command(SectionCommand::List(TWO))).requests.remove(0);
    b.step(now(9_001), Event::Command(SectionCommand::Reclaim(ONE)));
    let mut step = b.step(now(9_002), Event::Answer(listing.id, Ok(table.perform(9_001, &listing.op))));
    assert!(matches!(step.notices[..], [SectionNotice::Listed(TWO, _)]), "{step:?}");
    let look = step.requests.remove(0);
    let answer = Event::Answer(look.id, Ok(table.perform(9_003, &look.op)));
    assert_eq!(run(&mut b, &mut table, 9_004, answer), (vec![SectionNotice::Reclaimed(ONE, 0)], 0));
}

#[test]
fn a_section_that_is_almost_full_gives_what_fits_and_a_full_one_hints_to_shard() {
    let (mut a, mut table) = (section("a", 1), Table::default());
    run(&mut a, &mut table, 0, acquire(ONE, "0_1 2_3 4_5 6_7"));
    let (notices, _) = run(&mut a, &mut table, 10, acquire(TWO, "0_9"));
    let [SectionNotice::Obtained { lease: TWO, parts, .. }] = &notices[..] else { panic!("{notices:?}") };
    assert_eq!(parts.to_string(), "1_2", "the lowest keys first, and five in all");
    let before = table.record.clone();
    let (notices, _) = run(&mut a, &mut table, 20, acquire(LeaseId(3), "5_6"));
    let [SectionNotice::Failed(LeaseId(3), error)] = &notices[..] else { panic!("{notices:?}") };
    assert!(error.to_string().contains("is full") && error.to_string().contains("shard"), "{error}");
    assert_eq!(table.record, before);
}

#[test]
fn a_record_that_is_no_section_is_left_alone() {
    let vacant =
        |metadata| Record { fence: Fence(5), nonce: Nonce(9), stamp: Wall(1), tenure: None, metadata };
    let damaged: Metadata = [(FIELD.to_owned(), Value::Bytes(vec![1, 0xff]))].into();
    let held = crate::common::held("b", Nonce(1), Nonce(1), 7, 0, 0);
    for record in [vacant(Metadata::new()), vacant(damaged), held] {
        let mut table = Table { record: Some(record.clone()), ..Table::default() };
        let (notices, _) = run(&mut section("a", 1), &mut table, 0, acquire(ONE, "0_10"));
        assert!(
            matches!(&notices[..], [SectionNotice::Failed(ONE, error)] if !error.is_passing()),
            "{notices:?}"
        );
        assert_eq!(table.record, Some(record));
    }
}

#[test]
fn a_store_that_never_answers_is_told_in_time_and_a_late_win_is_given_back() {
    let (mut a, mut table, write) = midway();
    let give_up = tick(10).after(TTL / 2);
    let step = a.step(now_at(give_up), Event::Wake);
    assert!(
        matches!(&step.notices[..], [SectionNotice::Failed(ONE, error)] if error.is_passing()),
        "{step:?}"
    );
    let answer = table.perform(12, &write);
    run(&mut a, &mut table, 6_000, Event::Answer(tenure_core::op::OpId(2), Ok(answer)));
    assert_eq!(table.held(), [("b".into(), "80_90".into())]);
}

#[test]
fn trouble_is_retried_with_a_pause_and_no_wake_up_asks_for_the_present() {
    let mut a = section("a", 1);
    let mut step = a.step(now(0), acquire(ONE, "0_10"));
    for (n, op) in (1..6).enumerate() {
        let at = now(100 * n as u64);
        step = a.step(at, Event::Answer(tenure_core::op::OpId(op), Err(StoreError::unavailable("down"))));
        assert_eq!((step.notices.len(), step.requests.len()), (0, 0), "{n}");
        assert!(step.wake_at.unwrap() > at.held, "{n}");
        step = a.step(now_at(step.wake_at.unwrap()), Event::Wake);
        assert_eq!(step.requests.len(), 1, "{n}");
    }
    assert!(step.wake_at.unwrap() > tick(500));
}

#[test]
fn stopping_leaves_what_is_held_to_expire_and_finishes_what_is_under_way() {
    let (mut a, mut table) = (section("a", 1), Table::default());
    run(&mut a, &mut table, 0, acquire(ONE, "0_10"));
    run(&mut a, &mut table, 5, acquire(TWO, "10_20"));
    let step = a.step(now(10), release(TWO));
    assert!(a.step(now(10), Event::Command(SectionCommand::Stop)).notices.is_empty());
    let answer = table.perform(11, &step.requests[0].op);
    let step = a.step(now(11), Event::Answer(step.requests[0].id, Ok(answer)));
    assert_eq!(step.notices, [SectionNotice::Released(TWO, true), SectionNotice::Stopped]);
    assert_eq!((step.wake_at, table.held()), (None, vec![("a".into(), "0_10".into())]));
}

#[test]
fn who_waits_when_a_section_is_stopped_is_answered_before_the_end_is_told() {
    let (mut a, mut table) = (section("a", 1), Table::default());
    run(&mut a, &mut table, 0, acquire(ONE, "0_10"));
    run(&mut a, &mut table, 5, Event::Command(SectionCommand::List(TWO)));
    let [three, four, five, six] = [3, 4, 5, 6].map(LeaseId);
    let write = a.step(now(10), acquire(three, "20_30")).requests.remove(0);
    a.step(now(10), release(three));
    a.step(now(10), acquire(four, "40_50"));
    a.step(now(10), Event::Command(SectionCommand::List(five)));
    a.step(now(10), Event::Command(SectionCommand::Reclaim(six)));
    let step = a.step(now(10), Event::Command(SectionCommand::Stop));
    assert!(matches!(&step.notices[..], [SectionNotice::Failed(lease, _)] if *lease == four), "{step:?}");
    let answer = Event::Answer(write.id, Ok(table.perform(11, &write.op)));
    let (told, _) = run(&mut a, &mut table, 11, answer);
    let of = |notice: &SectionNotice| match notice {
        SectionNotice::Released(lease, _)
        | SectionNotice::Listed(lease, _)
        | SectionNotice::Reclaimed(lease, _) => Some(*lease),
        _ => None,
    };
    let leases: Vec<LeaseId> = told.iter().filter_map(of).collect();
    assert_eq!((leases, told.last()), (vec![three, six, five], Some(&SectionNotice::Stopped)), "{told:?}");
    assert_eq!(table.held(), [("a".into(), "0_10".into())]);
}

#[test]
fn a_section_is_removable_only_when_nothing_in_it_is_held_by_both_witnesses() {
    let mut table = Table { attests: true, ..Table::default() };
    run(&mut section("a", 1), &mut table, 0, acquire(ONE, "0_10"));
    let over = |table: &Table, ms: u64, wall: u64| is_over(&table.stored(ms).unwrap(), Wall(WALL + wall));
    assert!(is_section(table.record.as_ref().unwrap()));
    assert!(!over(&table, 10_000, 11_000) && !over(&table, 11_000, 10_000) && over(&table, 10_100, 10_100));
    run(&mut section("b", 2), &mut table, 20_000, acquire(ONE, "0_10"));
    run(&mut section("b", 3), &mut table, 20_001, Event::Command(SectionCommand::List(ONE)));
    assert!(!over(&table, 29_000, 29_000) && over(&table, 31_000, 31_000));
    let empty = Table {
        record: Some(Record {
            metadata: table.record.clone().unwrap().metadata,
            ..table.record.clone().unwrap()
        }),
        ..Table::default()
    };
    assert!(!over(&empty, 31_000, 31_000), "no age, no witness");
    let behind = |wall| is_over(&table.stored(31_000).unwrap(), Wall(wall));
    assert!(!behind(WALL - 1), "a new record would begin with a lower fence");
}

#[test]
fn whoever_loses_tries_again_at_once_and_pauses_only_after_many_losses() {
    let (mut a, mut b, mut table) = (section("a", 1), section("b", 2), Table::default());
    let mut step = a.step(now(0), acquire(ONE, "0_10"));
    let mut pauses = 0;
    for n in 0..64 {
        // Between any two operations of a, b is quicker.
        let ms = n * 100;
        run(&mut b, &mut table, ms, acquire(LeaseId(n), "80_90"));
        run(&mut b, &mut table, ms + 10, release(LeaseId(n)));
        if step.requests.is_empty() {
            pauses += 1;
            step = a.step(now_at(step.wake_at.unwrap()), Event::Wake);
        }
        let Some(request) = step.requests.pop() else { break };
        let answer = table.perform(ms + 20, &request.op);
        step = a.step(now(ms.min(4_900)), Event::Answer(request.id, Ok(answer)));
        if !step.notices.is_empty() {
            break;
        }
    }
    assert_eq!(pauses, 1, "{step:?}");
}

#[test]
fn s7_each_of_several_parts_that_others_hold_is_left_out() {
    let (mut a, mut b, mut table) = (section("a", 1), section("b", 2), Table::default());
    run(&mut a, &mut table, 0, acquire(ONE, "20_28 50_58"));
    let (notices, _) = run(&mut b, &mut table, 10, acquire(ONE, "0_24 48_60"));
    assert_eq!(notices, [obtained(ONE, "0_20 48_50 58_60", WALL + 11, 11)]);
    let (notices, _) = run(&mut b, &mut table, 20, acquire(TWO, "22_26 50_59"));
    assert_eq!(notices, [nothing(TWO, 21)], "the next part and the last one are held");
}

#[test]
fn l1_a_dead_range_is_free_when_its_time_is_over_however_often_others_write_and_whatever_ages_lose() {
    // As a service that dates its answers to the second: no single age of a record ever shows a whole second.
    let mut table = Table { attests: true, short: 2_000, ..Table::default() };
    run(&mut section("a", 1), &mut table, 0, acquire(ONE, "0_10"));
    let mut tries = |ms: u64| {
        let mut other = section("other", 100 + ms);
        run(&mut other, &mut table, ms, acquire(TWO, "80_90"));
        run(&mut other, &mut table, ms + 100, release(TWO));
        run(&mut section("b", 10_000 + ms), &mut table, ms + 200, acquire(ONE, "0_10")).0
    };
    for n in 1..=23 {
        let told = tries(n * 500);
        assert_eq!(told, [nothing(ONE, n * 500 + 201)], "{n}");
    }
    let told = tries(12_000);
    assert!(
        matches!(&told[..], [SectionNotice::Obtained { parts, .. }] if *parts == set("0_10")),
        "{told:?}"
    );
}

#[test]
fn since_when_an_entry_stands_is_told_by_who_wrote_it_until_the_store_has_told_it() {
    let mut table = Table { attests: true, ..Table::default() };
    let mut a = section("a", 1);
    run(&mut a, &mut table, 0, acquire(ONE, "0_10"));
    assert_eq!(table.ledger().entries[0].since, Since::NEW, "nobody knows the time of a write that is to be");
    run(&mut a, &mut table, 3_000, acquire(TWO, "20_30"));
    let Since::Written(stood) = table.ledger().entries[0].since else { panic!("{:?}", table.ledger()) };
    assert_eq!(stood.as_millis(), 2_998, "measured by its writer since 2 ms");
    run(&mut section("b", 2), &mut table, 6_000, acquire(ONE, "80_90"));
    let clock = |ms: u64| Since::Clock { clock: 0, at: (1_000 + ms) * 1_000 };
    let since = table.ledger().entries.into_iter().map(|entry| entry.since).collect::<Vec<_>>();
    assert_eq!(since, [clock(table_time(3_000) - 2_998), clock(table_time(3_000)), Since::NEW]);
    run(&mut section("c", 3), &mut table, 8_000, acquire(ONE, "a0_b0"));
    assert_eq!(table.ledger().entries[0].since, clock(table_time(3_000) - 2_998), "for good");
}

/// When the only write of a command that was given then landed.
fn table_time(ms: u64) -> u64 {
    ms + 1
}

#[test]
fn l1_after_a_store_s_clock_was_set_back_a_look_makes_time_count_anew() {
    let mut table = Table { attests: true, ..Table::default() };
    run(&mut section("a", 1), &mut table, 0, acquire(ONE, "0_10"));
    table.written += 3_600_000;
    let mut tries = |ms| run(&mut section("b", ms), &mut table, ms, acquire(ONE, "0_10"));
    let (told, ops) = tries(5_000);
    assert_eq!((told, ops), (vec![nothing(ONE, 5_001)], 2), "a look, and a write for those who come later");
    assert_eq!(tries(15_000), (vec![nothing(ONE, 15_001)], 1), "which is made once");
    let (told, _) = tries(15_100);
    assert!(matches!(&told[..], [SectionNotice::Obtained { fence: Some(_), .. }]), "{told:?}");
}

#[test]
fn a_section_in_which_one_lease_of_several_is_over_is_kept() {
    let mut table = Table { attests: true, ..Table::default() };
    run(&mut section("a", 1), &mut table, 0, acquire(ONE, "0_10"));
    run(&mut section("b", 2), &mut table, 6_000, acquire(ONE, "80_90"));
    let is_over = |ms| is_over(&table.stored(ms).unwrap(), Wall(WALL + ms));
    assert!(!is_over(11_000), "b's lease lasts until 16 s");
    assert!(is_over(16_100));
}

#[test]
fn a_reclaim_that_is_asked_for_during_a_write_is_not_answered_by_it() {
    let mut table = Table { attests: true, ..Table::default() };
    run(&mut section("a", 1), &mut table, 0, acquire(ONE, "0_10"));
    let mut b = section("b", 2);
    run(&mut b, &mut table, 100, Event::Command(SectionCommand::List(ONE)));
    let write = b.step(now(200), acquire(TWO, "80_90")).requests.remove(0);
    b.step(now(10_500), Event::Command(SectionCommand::Reclaim(ONE)));
    let answer = Event::Answer(write.id, Ok(table.perform(300, &write.op)));
    let (told, _) = run(&mut b, &mut table, 10_501, answer);
    assert_eq!(told.last(), Some(&SectionNotice::Reclaimed(ONE, 1)), "{told:?}");
}
