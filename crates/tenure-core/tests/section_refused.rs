//! A section whose requests the store refuses, for a moment or for good. Plan: whoever waits is told at once; what is to be taken
//! out is tried ever more seldom until its time is over, though looks go well; a new request and a stop wait for no such pause.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::now;
use crate::sections::*;
use std::time::Duration;
use tenure_core::op::{Event, Machine, Op, OpId};
use tenure_core::section::{Portion, SectionCommand, SectionNotice};
use tenure_core::{Metadata, Nonce, Now, Record, StoreError, Tick, Ttl};

/// All clocks at a tick that need not be a whole millisecond.
fn at_tick(at: Tick) -> Now {
    Now { held: at, waited: at, ..now(at.0 / 1_000_000) }
}

/// For ten minutes.
fn acquire_long() -> Event<SectionCommand> {
    Event::Command(SectionCommand::Acquire(ONE, set("0_10"), Ttl::clamped(600_000), Portion::Free))
}

fn denied(op: u64) -> Event<SectionCommand> {
    Event::Answer(OpId(op), Err(StoreError::invalid("access denied")))
}

#[test]
fn a_release_that_the_store_refuses_for_a_moment_is_not_forgotten() {
    let (mut a, mut table) = (section("a", 1), Table::default());
    run(&mut a, &mut table, 0, acquire(ONE, "0_10"));
    let writes = a.step(now(100), release(ONE));
    let step = a.step(now(101), denied(writes.requests[0].id.0));
    assert_eq!((&step.notices[..], step.requests.len()), (&[SectionNotice::Released(ONE, false)][..], 0));
    let told = woken(&mut a, &mut table, &step);
    assert_eq!((told, table.held()), ((vec![], 2), vec![]), "a look and a write");
    assert_eq!(a.step(now(60_000), Event::Wake).wake_at, None);
}

#[test]
fn s4_what_may_have_landed_is_taken_out_though_the_store_refuses_that_for_a_moment() {
    for is_given_up in [false, true] {
        let (mut a, mut table, write) = midway();
        let mut step = a.step(now(13), unknown(2));
        table.perform(14, &write);
        if is_given_up {
            step = a.step(now(15), release(ONE));
        }
        let looks = a.step(now_at(step.wake_at.unwrap()), Event::Wake);
        let step = a.step(now(30), denied(looks.requests[0].id.0));
        assert_eq!(step.notices.len(), 1, "{step:?}");
        assert_eq!(table.held().len(), 2);
        let told = woken(&mut a, &mut table, &step);
        assert_eq!((told, table.held()), ((vec![], 2), vec![("b".into(), "80_90".into())]));
    }
}

#[test]
fn c1_what_the_store_refuses_is_tried_ever_more_seldom_until_it_is_over_anyway() {
    let (mut a, mut table) = (section("a", 1), Table::default());
    run(&mut a, &mut table, 0, acquire_long());
    let mut step = a.step(now(0), release(ONE));
    let (mut at, mut pauses) = (now(0).held, Vec::new());
    while let Some(request) = step.requests.first() {
        step = a.step(at_tick(at), denied(request.id.0));
        let Some(next) = step.wake_at else { break };
        pauses.push(next.since(at));
        at = next;
        step = a.step(at_tick(at), Event::Wake);
    }
    assert_eq!((step.requests.len(), step.wake_at), (0, None), "its time is over");
    assert!((600_000..600_010).contains(&(at.0 / 1_000_000)), "{at:?}");
    pauses.pop();
    assert!((9..=12).contains(&pauses.len()), "{pauses:?}");
    for (n, pause) in (0..).zip(&pauses) {
        let longest = Duration::from_secs(1) * 2u32.pow(u32::min(n, 7));
        assert!((longest * 3 / 4..=longest).contains(pause), "{n}: {pause:?}");
    }
}

#[test]
fn whoever_asks_for_something_waits_for_no_pause_after_a_refusal_and_takes_along_what_was_refused() {
    let (mut a, mut table) = (section("a", 1), Table::default());
    run(&mut a, &mut table, 0, acquire(ONE, "0_10"));
    let writes = a.step(now(100), release(ONE));
    a.step(now(101), denied(writes.requests[0].id.0));
    let (notices, ops) = run(&mut a, &mut table, 102, acquire(TWO, "0_10"));
    assert!(matches!(&notices[..], [SectionNotice::Obtained { lease: TWO, fence: Some(_), .. }]));
    assert_eq!((ops, table.held().len()), (2, 1));
    // A stop tries once more, and not for long.
    for is_denied in [false, true] {
        let (mut a, mut table) = (a.clone(), Table { record: table.record.clone(), ..Table::default() });
        let writes = a.step(now(200), release(TWO));
        a.step(now(201), denied(writes.requests[0].id.0));
        if is_denied {
            let looks = a.step(now(202), Event::Command(SectionCommand::Stop));
            let step = a.step(now(203), denied(looks.requests[0].id.0));
            assert_eq!((step.notices, step.wake_at), (vec![SectionNotice::Stopped], None));
        } else {
            let told = run(&mut a, &mut table, 202, Event::Command(SectionCommand::Stop));
            assert_eq!((told, table.held()), ((vec![SectionNotice::Stopped], 2), vec![]));
        }
    }
}

#[test]
fn a_record_that_is_no_section_s_for_a_while_is_looked_at_ever_more_seldom() {
    let (mut a, mut table) = (section("a", 1), Table::default());
    run(&mut a, &mut table, 0, acquire_long());
    let sound = table.record.clone();
    let (nonce, metadata) = (Nonce(5), Metadata::new());
    table.record = sound.clone().map(|record| Record { nonce, metadata, ..record });
    let (notices, ops) = run(&mut a, &mut table, 10, release(ONE));
    assert_eq!((notices, ops), (vec![SectionNotice::Released(ONE, false)], 1));
    let (mut at, mut looks) = (11, 0);
    while at < 8_000 {
        let step = a.step(now(at), Event::Wake);
        if step.requests.is_empty() {
            at = step.wake_at.unwrap().0.div_ceil(1_000_000);
            continue;
        }
        let answer = table.perform(at, &step.requests[0].op);
        a.step(now(at), Event::Answer(step.requests[0].id, Ok(answer)));
        looks += 1;
    }
    assert_eq!(looks, 3);
    table.record = sound;
    run(&mut a, &mut table, 16_000, Event::Wake);
    assert_eq!(table.held(), []);
}

#[test]
fn c1_writes_that_are_refused_while_looks_go_well_become_rare() {
    let (mut a, mut table) = (section("a", 1), Table::default());
    run(&mut a, &mut table, 0, acquire_long());
    let mut step = a.step(now(0), release(ONE));
    let (mut at, mut writes) = (now(0).held, 0);
    loop {
        while let Some(request) = step.requests.first() {
            let event = if matches!(request.op, Op::Write(_)) {
                writes += 1;
                denied(request.id.0)
            } else {
                Event::Answer(request.id, Ok(table.perform(at.0 / 1_000_000, &request.op)))
            };
            step = a.step(at_tick(at), event);
        }
        let Some(next) = step.wake_at else { break };
        at = next;
        step = a.step(at_tick(at), Event::Wake);
    }
    assert!((9..=13).contains(&writes), "{writes}");
}
