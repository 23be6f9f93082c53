//! What those leave who live too short to watch. Plan: a silent holder's stamp of the future is replaced, once and by those
//! alone who give up before they could judge it; a missing session is marked in the attached lease's record; with a mark, two witnesses
//! tell how old it is, and one is never enough; without ages hosts leave what their clocks show, where a stamp is doubtful or a session
//! missing, once for each host; a later process of that host takes what is silent by its own line and by the wall clocks.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::*;
use std::time::Duration;
use tenure_core::op::{Answer, Event, Machine, Op, OpId, Outcome, Step};
use tenure_core::{
    Ask, Command, Holder, Host, Letter, Mark, Notice, Now, Record, Rules, Stored, Version, WaitPolicy, Wall,
};

const TTL_MS: u64 = 10_000;

/// As a store returns it that was written so long ago.
fn aged(record: Record, ms: Option<u64>) -> Stored {
    let version = Version(record.nonce.0);
    Stored::new(record).versioned(version).aged(ms.map(Duration::from_millis))
}

/// A fresh process wants `k` and finds `stands` there.
fn finds(wait_policy: WaitPolicy, at: u64, stands: Stored) -> (Holder, Step<Notice>) {
    let mut a = holder();
    a.step(now(at), acquire("k", own(), wait_policy));
    let lost = Answer::Write(Outcome::Lost(Some(stands)));
    let step = a.step(now(at), Event::<Command>::Answer(OpId(1), Ok(lost)));
    (a, step)
}

fn written(step: &Step<Notice>) -> Option<Record> {
    match &step.requests.first()?.op {
        Op::Write(write) => Some(write.record.clone()),
        _ => None,
    }
}

#[test]
fn l1_a_silent_holders_stamp_of_the_future_is_replaced_by_who_can_not_wait() {
    let ahead = || held("b", nonce(90), nonce(91), 7, 0, 365 * 86_400_000);
    let (mut a, step) = finds(WaitPolicy::Try, 50_000, aged(ahead(), Some(12_501)));
    let mark = Record { nonce: nonce(2), stamp: now(50_000).wall, ..ahead() };
    assert_eq!(step.requests, vec![write(2, "k", unchanged(nonce(91)), mark)]);
    assert_eq!(step.notices, vec![], "it is told once that is done");
    let told = a.step(now(50_010), won(2, nonce(2), 7));
    assert!(matches!(told.notices[..], [Notice::Held(LEASE, Some(_))]) && told.requests.is_empty());
    // Whoever waits for a ttl judges by himself; what is younger may be alive; without an age nobody could tell later.
    let writes = |wait_policy, stored| written(&finds(wait_policy, 50_000, stored).1).is_some();
    assert!(!writes(WaitPolicy::Forever, aged(ahead(), Some(12_501))));
    assert!(!writes(WaitPolicy::Until(tick(60_001)), aged(ahead(), Some(12_501))));
    assert!(writes(WaitPolicy::Until(tick(59_999)), aged(ahead(), Some(12_501))));
    assert!(!writes(WaitPolicy::Try, aged(ahead(), Some(12_500))));
    assert!(!writes(WaitPolicy::Try, aged(ahead(), None)));
}

#[test]
fn a_replaced_stamp_is_judged_like_any_other() {
    let marked = || held("b", nonce(90), nonce(91), 7, 0, 50_000);
    let takes = |at, age| {
        let (_, step) = finds(WaitPolicy::Try, at, aged(marked(), Some(age)));
        written(&step).and_then(|record| record.tenure).is_some_and(|tenure| tenure.holder.as_str() == "a")
    };
    assert!(takes(50_001 + TTL_MS, TTL_MS + 1));
    assert!(!takes(50_000 + TTL_MS, TTL_MS + 1) && !takes(50_001 + TTL_MS, TTL_MS));
}

/// A fresh process finds that `k` is attached to a session that is missing.
fn misses(at: u64, attached: Record, age: Option<u64>) -> Step<Notice> {
    let (mut a, asks) = finds(WaitPolicy::Try, at, aged(attached, age));
    assert_eq!(asks.requests, vec![read(2, "session/b")]);
    a.step(now(at), seen(2, None))
}

#[test]
fn l1_a_missing_session_is_marked_and_two_witnesses_tell_since_when() {
    let attached = || attached_to(held("b", nonce(90), nonce(90), 7, 0, 0), "session/b", 3);
    let mark = written(&misses(500_000, attached(), Some(500_000))).unwrap();
    let tenure = mark.tenure.clone().unwrap();
    assert_eq!(tenure.mail, vec![Letter::new(key("k"), Ask::Confirm)]);
    assert_eq!((tenure.id, tenure.heartbeat, mark.stamp), (nonce(90), nonce(90), now(500_000).wall));
    assert_eq!(written(&misses(500_000, attached(), None)), None, "without ages nobody could tell later");
    let later = |ms, age| {
        let record = written(&misses(500_000 + ms, mark.clone(), Some(age)));
        record.map(|record| record.tenure.unwrap().holder.as_str().to_owned())
    };
    assert_eq!(later(TTL_MS + 1, TTL_MS + 1).as_deref(), Some("a"));
    assert_eq!(later(TTL_MS, TTL_MS + 1), None, "the wall clocks say less");
    assert_eq!(later(3_600_000, TTL_MS), None, "the store says less");
    assert_eq!(
        later(0, TTL_MS + 2_501).as_deref(),
        Some("b"),
        "by a clock that was ahead: it is marked anew"
    );
}

#[test]
fn a_mark_says_nothing_of_a_session_that_is_there() {
    let mut attached = attached_to(held("b", nonce(90), nonce(90), 7, 0, 0), "session/b", 3);
    attached.tenure.as_mut().unwrap().mail = vec![Letter::new(key("k"), Ask::Confirm)];
    let (mut a, _) = finds(WaitPolicy::Try, 500_000, aged(attached, Some(19_000)));
    let session = held("b", nonce(91), nonce(92), 3, 0, 499_000);
    let told = a.step(now(500_000), seen(2, Some(session)));
    assert!(matches!(told.notices[..], [Notice::Held(..)]), "{told:?}");
}

/// A process that began so many milliseconds after its host, whose present it is given in the host's time.
fn on_host(boot: u64, began: u64) -> (Holder, impl Fn(u64) -> Now) {
    let host = Host { boot, held: tick(began), waited: tick(began) };
    let a = holder_by(Rules { poll: TTL, audit: 0, host: Some(host), ..Rules::default() });
    (a, move |ms: u64| Now { wall: Wall(WALL + ms), ..now(ms - began) })
}

/// What that process does about `k`, where this stands without an age: the record that it writes, if any.
fn meets(boot: u64, wait_policy: WaitPolicy, ms: u64, wall_off: i64, stands: Record) -> Option<Record> {
    let (mut a, at) = on_host(boot, ms - 1_000);
    let at = Now { wall: Wall(WALL.saturating_add_signed(ms as i64 + wall_off)), ..at(ms) };
    a.step(at, acquire("k", own(), wait_policy));
    let lost = Answer::Write(Outcome::Lost(Some(aged(stands, None))));
    let step = a.step(at, Event::<Command>::Answer(OpId(1), Ok(lost)));
    written(&step)
}

fn is_taken(record: Option<Record>) -> bool {
    record.and_then(|record| record.tenure).is_some_and(|tenure| tenure.holder.as_str() == "a")
}

/// A claim of a holder whose last heartbeat was at 0 by its own wall clock.
fn silent() -> Record {
    held("b", nonce(90), nonce(91), 7, 0, 0)
}

#[test]
fn l1_without_ages_a_host_leaves_what_its_clocks_show_and_takes_what_is_silent_by_two_witnesses() {
    let mark = meets(1, WaitPolicy::Try, 50_000, 0, silent()).unwrap();
    let left = Mark { boot: 1, held: tick(50_000), waited: tick(50_000), wall: Wall(WALL + 50_000) };
    let expected =
        |record: Record| Record { tenure: record.tenure.map(|it| with_marks(it, vec![left])), ..record };
    assert_eq!(
        mark,
        Record { nonce: mark.nonce, ..expected(silent()) },
        "nothing is prolonged, and the stamp stays"
    );
    let later = |ms, off| meets(1, WaitPolicy::Try, 50_000 + ms, off, mark.clone());
    assert!(is_taken(later(TTL_MS + 1, 0)));
    assert_eq!(later(TTL_MS, 0), None, "it is young, and nothing is written");
    assert_eq!(later(TTL_MS + 1, -1), None, "the wall clocks say less");
    let again = later(TTL_MS + 1, 3_600_000).unwrap();
    assert_eq!(again.tenure.unwrap().marks.len(), 2, "the wall clock has jumped: it is marked anew");
    let other = meets(2, WaitPolicy::Try, 60_001, 0, mark).unwrap();
    let marks = other.tenure.clone().unwrap().marks;
    assert_eq!((marks.len(), marks[1].boot), (2, 2), "another host leaves its own");
    assert!(is_taken(meets(1, WaitPolicy::Try, 70_000, 0, other)), "beside which the first one counts on");
}

fn with_marks(tenure: tenure_core::Tenure, marks: Vec<Mark>) -> tenure_core::Tenure {
    tenure_core::Tenure { marks, ..tenure }
}

#[test]
fn c1_without_ages_only_what_is_doubtful_is_marked_and_only_by_who_can_not_wait() {
    let stamped = |ms| held("b", nonce(90), nonce(91), 7, 0, ms);
    let marks = |wait_policy, stamp| meets(1, wait_policy, 50_000, 0, stamped(stamp)).is_some();
    assert!(marks(WaitPolicy::Try, 37_499) && !marks(WaitPolicy::Try, 37_500), "it is old by its stamp");
    assert!(marks(WaitPolicy::Try, 52_501) && !marks(WaitPolicy::Try, 52_500), "or of the future");
    // These ticks are the process's own, which began a second before.
    assert!(marks(WaitPolicy::Until(tick(10_999)), 0));
    assert!(!marks(WaitPolicy::Until(tick(11_001)), 0) && !marks(WaitPolicy::Forever, 0));
    let mut a = holder();
    a.step(now(50_000), acquire("k", own(), WaitPolicy::Try));
    let lost = Answer::Write(Outcome::Lost(Some(aged(silent(), None))));
    let step = a.step(now(50_000), Event::<Command>::Answer(OpId(1), Ok(lost)));
    assert!(step.requests.is_empty(), "a host that nothing names leaves nothing");
}

#[test]
fn who_waits_for_less_than_a_ttl_leaves_one_mark_and_looks_again_later() {
    let (mut a, at) = on_host(1, 49_000);
    a.step(at(50_000), acquire("k", own(), WaitPolicy::Until(tick(6_000))));
    let lost = Answer::Write(Outcome::Lost(Some(aged(silent(), None))));
    let marking = a.step(at(50_000), Event::<Command>::Answer(OpId(1), Ok(lost)));
    assert!(written(&marking).is_some());
    let step = a.step(at(50_010), won(2, nonce(2), 7));
    let pause = step.wake_at.unwrap().since(tick(1_010));
    assert!(step.requests.is_empty() && pause >= TTL * 3 / 16, "{step:?}");
}

#[test]
fn l1_without_ages_a_missing_session_is_marked_in_the_attached_lease_s_record_and_a_silent_one_in_its_own() {
    let attached = || attached_to(held("b", nonce(90), nonce(90), 7, 0, 0), "session/b", 3);
    let meets = |ms: u64, attached: Record, session: Option<Record>| {
        let (mut a, at) = on_host(1, ms);
        a.step(at(ms), acquire("k", own(), WaitPolicy::Try));
        let lost = Answer::Write(Outcome::Lost(Some(aged(attached, None))));
        let asks = a.step(at(ms), Event::<Command>::Answer(OpId(1), Ok(lost)));
        assert_eq!(asks.requests, vec![read(2, "session/b")]);
        let session = Answer::Read(session.map(|record| aged(record, None)));
        let step = a.step(at(ms), Event::<Command>::Answer(OpId(2), Ok(session)));
        let Some(Op::Write(write)) = step.requests.into_iter().next().map(|request| request.op) else {
            return None;
        };
        Some((write.key, write.record))
    };
    // Missing.
    let (at, mark) = meets(500_000, attached(), None).unwrap();
    assert_eq!((at, mark.tenure.as_ref().unwrap().marks.len()), (key("k"), 1));
    let taken = meets(510_001, mark.clone(), None).unwrap();
    assert_eq!((taken.0, taken.1.tenure.unwrap().holder.as_str()), (key("k"), "a"));
    assert_eq!(meets(510_000, mark, None), None);
    // Silent: it is marked in the same write by which its session is asked about what may be orphaned.
    let session = held("b", nonce(91), nonce(92), 3, 0, 0);
    let (at, asked) = meets(500_000, attached(), Some(session)).unwrap();
    let tenure = asked.tenure.clone().unwrap();
    assert_eq!((at, tenure.mail.len(), tenure.marks.len()), (key("session/b"), 1, 1));
    assert_eq!(meets(510_000, attached(), Some(asked.clone())), None);
    let fenced = meets(510_001, attached(), Some(asked)).unwrap();
    assert_eq!(
        (fenced.0, fenced.1.tenure, fenced.1.fence > tenure_core::Fence(3)),
        (key("session/b"), None, true)
    );
}
