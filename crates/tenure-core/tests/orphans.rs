//! Orphaned claims: claims of this process that may stand though nobody here wants them. Plan: what is another's, or wanted, or
//! not on the session, is left alone, also what has become plain data since the look; a look that fails is no look; one that is
//! under way is not sent again; looks become rare and end.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which may fail")]

use crate::common::*;
use std::time::Duration;
use tenure_core::op::{Event, Machine, Op, OpId, Request, Step};
use tenure_core::{
    Ask, Command, Holder, KeepAlive, Letter, Loss, Metadata, Nonce, Notice, Record, StoreError, WaitPolicy,
};

/// The session's renewal at `ms`, by operation `op`, shows a question about `about`; the one after that is sent.
fn asked_about(a: &mut Holder, ms: u64, op: u64, about: &str) -> Step<Notice> {
    a.step(now(ms), Event::Wake);
    let mut record = held("a", nonce(1), nonce(1), 3, 0, 0);
    record.nonce = Nonce(90 + u128::from(op));
    if let Some(tenure) = &mut record.tenure {
        tenure.mail = vec![Letter::new(key(about), Ask::Confirm)];
    }
    a.step(now(ms + 6), lost(op, Some(record)))
}

/// Asked about `orphan`, `a` reads it by operation 5.
fn looking() -> Holder {
    let mut a = holding_on_session();
    asked_about(&mut a, 3_334, 3, "orphan");
    assert_eq!(a.step(now(3_341), Event::Wake).requests, vec![read(5, "orphan")]);
    a
}

fn pause(step: &Step<Notice>, ms: u64) -> Duration {
    step.wake_at.unwrap().since(tick(ms))
}

#[test]
fn s3_what_is_anothers_or_is_not_attached_to_the_session_or_is_wanted_is_left_alone() {
    let orphan = |holder: &str, id: u128| held(holder, nonce(id), nonce(id), 4, 0, 0);
    let records: [Option<Record>; 5] = [
        None,
        Some(vacant(nonce(99), 4, 0)),
        Some(attached_to(orphan("b", 99), "session/b", 3)),
        Some(orphan("a", 99)),
        // The tenure that `a` holds under another key: whatever that is, it is one that it has.
        Some(attached_to(orphan("a", 2), "session/a", 3)),
    ];
    for record in records {
        let step = looking().step(now(3_345), seen(5, record.clone()));
        assert_eq!((step.requests, step.notices), (vec![], vec![]), "{record:?}");
    }
    let earlier = attached_to(orphan("a", 99), "session/a", 2);
    assert_eq!(looking().step(now(3_345), seen(5, Some(earlier))).requests, vec![], "of an earlier session");
    let taken = attached_to(orphan("a", 99), "session/a", 3);
    assert_eq!(looking().step(now(3_345), seen(5, Some(taken))).requests.len(), 1);
}

#[test]
fn a_look_that_fails_is_no_look() {
    let mut a = looking();
    let error = StoreError::unavailable("away");
    let failed = a.step(now(3_345), Event::Answer(OpId(5), Err(error)));
    // The session's renewal comes first; then the look is due half a ttl after the failed one, as it would have been.
    a.step(now(3_346), won(4, nonce(4), 3));
    assert!(failed.notices.is_empty() && failed.requests.is_empty());
    assert_eq!(a.step(now(6_700), Event::Wake).requests.len(), 1, "the renewal");
    a.step(now(6_705), won(6, nonce(6), 3));
    let looks = a.step(now(8_346), Event::Wake);
    assert_eq!(looks.requests, vec![read(7, "orphan")]);
}

#[test]
fn a_look_that_is_under_way_is_not_sent_again() {
    let mut a = looking();
    a.step(now(3_346), won(4, nonce(4), 3));
    let asked = asked_about(&mut a, 6_700, 6, "orphan");
    assert!(asked.wake_at > Some(tick(6_706)), "{asked:?}");
    let idle = a.step(now(6_707), Event::Wake);
    assert_eq!(idle.requests, vec![]);
    assert!(pause(&idle, 6_707) > Duration::ZERO);
}

/// When it looks, by the thousandth second, if each look is answered like that.
fn looks_answered(by: impl Fn(u64) -> Event<Command>, end_ms: u64) -> Vec<u64> {
    looks_and_releases(by, |op, version| won(op, version, 3), end_ms)
}

/// The same where releases of what a look shows are answered like that.
fn looks_and_releases(
    by: impl Fn(u64) -> Event<Command>,
    release: impl Fn(u64, Nonce) -> Event<Command>,
    end_ms: u64,
) -> Vec<u64> {
    let mut a = looking();
    let (mut ms, mut looks) = (3_345, vec![3_345]);
    a.step(now(ms), won(4, nonce(4), 3));
    let mut step = a.step(now(ms), by(5));
    // As long as the session is kept up.
    while ms < end_ms {
        let Some(request) = step.requests.first() else {
            ms = later(&step, ms);
            step = a.step(now(ms), Event::Wake);
            continue;
        };
        let op = request.id.0;
        step = match &request.op {
            Op::Write(write) if write.key == key("orphan") => {
                a.step(now(ms), release(op, write.record.nonce))
            }
            Op::Write(write) => a.step(now(ms), won(op, write.record.nonce, 3)),
            _ => {
                looks.push(ms);
                a.step(now(ms), by(op))
            }
        };
    }
    looks
}

fn gaps(looks: &[u64]) -> Vec<u64> {
    looks.windows(2).map(|pair| (pair[1] - pair[0]) / 10_000).collect()
}

#[test]
fn looks_become_rare_and_end() {
    let looks = looks_answered(|op| seen(op, None), 1_500_000);
    assert_eq!(gaps(&looks), [1, 2, 4, 8, 16, 32, 64]);
}

#[test]
fn c1_looks_that_are_refused_become_rare_and_do_not_end() {
    let refused = |op| Event::Answer(OpId(op), Err(StoreError::unsupported("access denied")));
    let looks = looks_answered(refused, 1_500_000);
    assert_eq!(gaps(&looks), [1, 2, 4, 8, 16, 32, 32, 32]);
}

#[test]
fn c1_releases_that_are_refused_become_rare_and_do_not_end() {
    let orphan = attached_to(held("a", Nonce(99), Nonce(99), 4, 0, 0), "session/a", 3);
    let refused = |op, _| Event::Answer(OpId(op), Err(StoreError::unsupported("access denied")));
    let looks = looks_and_releases(|op| seen(op, Some(orphan.clone())), refused, 1_500_000);
    assert_eq!(gaps(&looks), [1, 2, 4, 8, 16, 32, 32, 32]);
}

#[test]
fn s1_what_has_become_plain_data_since_the_look_is_left_alone() {
    let mut a = holder();
    a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Forever));
    a.step(now(5), won(1, nonce(1), 3));
    a.step(now(10), unknown(2));
    a.step(now(156), Event::Wake);
    // The claim has landed all the same. As others of the kind may land yet, the key is looked at again.
    let claimed = attached_to(held("a", nonce(2), nonce(2), 7, 5, 5), "session/a", 3);
    assert!(matches!(
        a.step(now(160), seen(3, Some(claimed.clone()))).notices[..],
        [Notice::Acquired { .. }]
    ));
    assert_eq!(a.step(now(161), Event::Wake).requests, vec![read(4, "k")]);
    a.step(now(162), Event::Command(Command::Detach(LEASE, ttl())));
    let detached = a.step(now(165), won(5, nonce(3), 7));
    assert!(matches!(detached.notices[..], [Notice::Detached(..)]), "{detached:?}");
    // That look was served before the lease became plain data, and is answered after it.
    let vacates = a.step(now(166), seen(4, Some(claimed)));
    let [Request { op: Op::Write(write), .. }] = &vacates.requests[..] else { panic!("{vacates:?}") };
    assert_eq!((write.expect, &write.record.tenure), (unchanged(nonce(2)), &None));
    let refused = a.step(now(170), lost(6, Some(held("a", nonce(2), nonce(3), 7, 5, 162))));
    assert_eq!((refused.requests, refused.notices), (vec![], vec![]));
}

#[test]
fn s3_what_was_seen_before_a_loss_is_not_vacated_after_it() {
    let mut a = holder();
    a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Forever));
    a.step(now(5), won(1, nonce(1), 3));
    a.step(now(10), unknown(2));
    a.step(now(156), Event::Wake);
    let claimed = attached_to(held("a", nonce(2), nonce(2), 7, 5, 5), "session/a", 3);
    a.step(now(160), seen(3, Some(claimed.clone())));
    assert_eq!(a.step(now(161), Event::Wake).requests, vec![read(4, "k")]);
    a.step(now(162), Event::Command(Command::Update(LEASE, Metadata::new())));
    let taken = a.step(now(165), lost(5, Some(held("b", Nonce(50), Nonce(50), 8, 164, 164))));
    assert!(matches!(taken.notices[..], [Notice::Lost(LEASE, Loss::Taken(_))]), "{taken:?}");
    // That look was served before the other one took the key, and is answered after the loss.
    let late = a.step(now(170), seen(4, Some(claimed)));
    let writes = late.requests.iter().filter(|request| matches!(request.op, Op::Write(_)));
    assert_eq!(writes.count(), 0, "{late:?}");
    let again = a.step(now(171), Event::Wake);
    let looked = [taken, late, again].iter().any(|step| step.requests.contains(&read(6, "k")));
    assert!(looked, "what stands there is found out all the same");
}

#[test]
fn an_orphan_that_something_else_was_written_into_is_vacated_as_it_stands() {
    let orphan = attached_to(held("a", Nonce(99), Nonce(99), 4, 0, 0), "session/a", 3);
    let mut a = looking();
    assert_eq!(a.step(now(3_345), seen(5, Some(orphan.clone()))).requests.len(), 1);
    a.step(now(3_346), won(4, nonce(4), 3));
    let asked = Record { nonce: Nonce(100), ..orphan };
    let again = a.step(now(3_350), lost(6, Some(asked)));
    let [Request { op: Op::Write(write), .. }] = &again.requests[..] else { panic!("{again:?}") };
    assert_eq!((write.expect, &write.record.tenure), (unchanged(Nonce(100)), &None));
}
