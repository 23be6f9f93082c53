//! The audit of what rides on a session. Plan: after each renewal so many records are looked at, in turn; what a recent state seems
//! to show is looked at in the latest one; each way to lose a record is told with its reason; what is as it should be, can't be read, or
//! couldn't be asked is left alone; a withdrawn lease's end is told; a release that the store refuses is tried again.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use common::*;
use std::time::Duration;
use tenure_core::op::{Answer, Event, Freshness, Listed, Machine, Op, OpId, Request};
use tenure_core::{
    Ask, Beat, Carry, Command, Holder, LeaseId, Letter, Loss, Metadata, Nonce, Notice, Patience, Record,
    Rules, StoreError, Want,
};

/// A holder that has begun its session (fence 3) and acquired k0, k1, … on it, as leases 0, 1, … with fences 7, 8, …
fn riders(n: u64, audit: usize) -> Holder {
    let mut a = holder_by(Rules { poll: TTL, audit, ..Rules::default() });
    for id in 0..n {
        let (key, carry) = (key(&format!("k{id}")), Carry::Replace(Metadata::new()));
        let want = Want { key, beat: Beat::Session, carry, patience: Patience::Try };
        a.step(now(0), Event::Command(Command::Acquire(LeaseId(id), want)));
    }
    a.step(now(5), won(1, nonce(1), 3));
    for id in 0..n {
        a.step(now(10), won(2 + id, nonce(2 + u128::from(id)), 7 + id));
    }
    a
}

/// Renews the session for the `nth` time, by operation `op`, and says what is looked at.
fn renewed(a: &mut Holder, nth: u64, op: u64) -> Vec<Request> {
    let ms = nth * 3_334;
    a.step(now(ms), Event::Wake);
    a.step(now(ms + 5), won(op, Nonce(1000 + u128::from(op)), 3)).requests
}

fn looks(op: u64, keys: &[&str], freshness: Freshness) -> Request {
    let keys = keys.iter().map(|name| key(name)).collect();
    let op = (OpId(op), Op::ReadMany(keys, freshness));
    Request { id: op.0, op: op.1, timeout: Duration::from_millis(2500), urgent: false }
}

fn shown(op: u64, records: Vec<(&str, Record)>) -> Event<Command> {
    let listed =
        records.into_iter().map(|(name, record)| Listed { key: key(name), stored: Ok(stored(record)) });
    Event::Answer(OpId(op), Ok(Answer::Listed(listed.collect())))
}

fn own(id: u64) -> Record {
    let claimed = nonce(2 + u128::from(id));
    riding(held("a", claimed, claimed, 7 + id, 0, 0), "session/a", 3)
}

#[test]
fn c1_so_many_are_looked_at_after_each_renewal_whatever_their_number() {
    let mut a = riders(5, 2);
    for (nth, keys) in
        [["k0", "k1"].as_slice(), &["k2", "k3"], &["k4"], &["k0", "k1"]].into_iter().enumerate()
    {
        let op = 7 + 2 * nth as u64;
        assert_eq!(renewed(&mut a, nth as u64 + 1, op), [looks(op + 1, keys, Freshness::Recent)]);
        let records = keys.iter().map(|name| (*name, own(name[1..].parse().unwrap()))).collect();
        let step = a.step(now(nth as u64 * 3_334 + 3_350), shown(op + 1, records));
        assert_eq!((step.requests, step.notices), (vec![], vec![]));
    }
    assert_eq!(renewed(&mut riders(3, 0), 1, 5), [], "unless that is switched off");
}

#[test]
fn s10_a_record_that_shows_another_tenure_or_none_is_a_loss_with_its_reason() {
    let other = || held("b", nonce(99), nonce(99), 9, 0, 0);
    let same_name = held("a", nonce(98), nonce(98), 8, 0, 0);
    let cases = [
        (None, Loss::Deleted),
        (Some(vacant(nonce(99), 6, 0)), Loss::Deleted),
        (Some(held("b", nonce(99), nonce(99), 5, 0, 0)), Loss::Deleted),
        (Some(vacant(nonce(99), 7, 0)), Loss::Released),
        (Some(other()), Loss::Taken(tenure_core::Occupant::of(&other()))),
        (Some(same_name.clone()), Loss::Taken(tenure_core::Occupant::of(&same_name))),
        // A claim that was repeated after its end has the same nonce, and a higher fence.
        (
            Some(Record { fence: tenure_core::Fence(8), ..own(0) }),
            Loss::Taken(tenure_core::Occupant::of(&Record { fence: tenure_core::Fence(8), ..own(0) })),
        ),
    ];
    for (record, loss) in cases {
        let mut a = riders(1, 8);
        let records = || record.clone().map(|record| ("k0", record)).into_iter().collect::<Vec<_>>();
        assert_eq!(renewed(&mut a, 1, 3), [looks(4, &["k0"], Freshness::Recent)]);
        let doubted = a.step(now(3_345), shown(4, records()));
        assert_eq!((doubted.requests, doubted.notices), (vec![looks(5, &["k0"], Freshness::Latest)], vec![]));
        let told = a.step(now(3_350), shown(5, records()));
        assert_eq!(told.notices, [Notice::Lost(LeaseId(0), loss)], "{record:?}");
        assert_eq!(a.leases(), 0);
    }
}

#[test]
fn what_is_as_it_should_be_in_the_latest_state_is_kept_and_trouble_is_no_look() {
    let mut a = riders(1, 8);
    renewed(&mut a, 1, 3);
    a.step(now(3_345), shown(4, vec![]));
    let failed = a.step(now(3_350), Event::Answer(OpId(5), Err(StoreError::unavailable("away"))));
    assert_eq!((failed.requests, failed.notices), (vec![], vec![]));
    assert_eq!(renewed(&mut a, 2, 6), [looks(7, &["k0"], Freshness::Latest)], "it is still in doubt");
    let step = a.step(now(6_690), shown(7, vec![("k0", own(0))]));
    assert_eq!((step.requests, step.notices, a.leases()), (vec![], vec![], 1));
    let examined = a.step(now(6_700), Event::Command(Command::Examine(LeaseId(0))));
    assert_eq!(examined.requests, [looks(8, &["k0"], Freshness::Latest)]);
    let unread = Listed { key: key("k0"), stored: Err(StoreError::foreign("damaged")) };
    let step = a.step(now(6_710), Event::Answer(OpId(8), Ok(Answer::Listed(vec![unread]))));
    assert_eq!((step.notices, a.leases()), (vec![], 1), "what can't be read can't be had by anyone else");
}

#[test]
fn s10_the_end_of_a_withdrawn_lease_is_told_as_its_session_goes_on() {
    let mut a = riders(2, 0);
    a.step(now(3_334), Event::Wake);
    let mut record = held("a", nonce(1), nonce(1), 3, 0, 0);
    record.nonce = Nonce(90);
    if let Some(tenure) = &mut record.tenure {
        tenure.mail = vec![Letter { key: key("k1"), ask: Ask::Revoke }];
    }
    let told = a.step(now(3_340), lost(4, Some(record))).notices;
    let until = until(0);
    assert_eq!(told, [Notice::Valid(LeaseId(1), until), Notice::Asked(LeaseId(1), Ask::Revoke)]);
}

#[test]
fn a_release_that_the_store_refuses_for_a_moment_is_not_forgotten() {
    let mut a = riders(1, 0);
    let given_up = a.step(now(20), Event::Command(Command::Release(LeaseId(0), None)));
    assert_eq!(given_up.requests.len(), 1);
    let denied = StoreError::unsupported("the signature has expired");
    let told = a.step(now(25), Event::Answer(OpId(3), Err(denied)));
    assert_eq!(told.notices, [Notice::Released(LeaseId(0), false)]);
    let looks_again = a.step(now(26), Event::Wake);
    assert_eq!(looks_again.requests, [read(4, "k0")]);
    let vacates = a.step(now(30), seen(4, Some(own(0))));
    assert!(matches!(&vacates.requests[0].op, Op::Write(write) if write.record.tenure.is_none()));
}
