//! Leases whose records are being changed, and what else comes meanwhile. Plan: a change that fails is repeated ever less
//! often, and given up with the session's time; from lease to plain data and back; a lease that is let go of in any
//! state; what was let go of is counted; what its session's loss does to each.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use crate::common::*;
use tenure_core::op::{Event, Expect, Hint, Machine, Op, OpId, Step};
use tenure_core::{
    Attachment, Command, Fence, Holder, HolderId, KeepAlive, LeaseId, Loss, Metadata, MetadataPolicy, Nonce,
    Notice, Record, StoreError, Tick, Token, Transferee, Ttl, WaitPolicy, Want,
};

const SECOND: LeaseId = LeaseId(2);

fn command(command: Command) -> Event<Command> {
    Event::Command(command)
}

fn unavailable(op: u64) -> Event<Command> {
    Event::Answer(OpId(op), Err(StoreError::unavailable("away")))
}

fn fields() -> Metadata {
    Metadata::from([("point".to_owned(), 7.into())])
}

fn update() -> Event<Command> {
    command(Command::Update(LEASE, fields()))
}

fn release() -> Event<Command> {
    command(Command::Release(LEASE, None))
}

fn lapse() -> Event<Command> {
    command(Command::Lapse(LEASE))
}

/// The session is renewed at 3.334 s, and at each third of the ttl after that, by operations from `op` on. What else is sent
/// or told meanwhile is returned.
fn keep_up(a: &mut Holder, end_ms: u64) -> Vec<(u64, Step<Notice>)> {
    let mut others = Vec::new();
    for ms in (3_334..end_ms).step_by(3_334) {
        let step = a.step(now(ms), Event::Wake);
        let renewal = step.requests.iter().find(|request| request.urgent);
        if let Some(renewal) = renewal {
            let Op::Write(write) = &renewal.op else { panic!("{renewal:?}") };
            let done = a.step(now(ms + 1), won(renewal.id.0, write.record.nonce, 3));
            others.push((ms + 1, done));
        }
        others.push((ms, step));
    }
    others
}

/// The records that a step writes, by key, other than renewals.
fn writes(step: &Step<Notice>) -> Vec<(String, Record)> {
    let plain = step.requests.iter().filter(|request| request.timeout != TTL / 6);
    let write = plain.filter_map(|request| match &request.op {
        Op::Write(write) => Some((write.key.as_str().to_owned(), write.record.clone())),
        _ => None,
    });
    write.collect()
}

#[test]
fn a_change_that_fails_is_repeated_ever_less_often_and_given_up_with_the_sessions_time() {
    let mut a = holding_on_session();
    let (mut ms, mut op) = (10, 3);
    let mut sent = a.step(now(ms), update());
    let mut pauses = Vec::new();
    let told = loop {
        assert_eq!(sent.requests.len(), 1, "{sent:?}");
        op = sent.requests[0].id.0.max(op);
        let failed = a.step(now(ms), unavailable(op));
        if !failed.notices.is_empty() {
            break failed;
        }
        let at = failed.wake_at.unwrap();
        if at >= tick(3_333) {
            // The session's renewal comes first.
            break a.step(now(3_000), Event::Wake);
        }
        pauses.push(at.since(tick(ms)));
        ms = later(&failed, ms);
        sent = a.step(now(ms), Event::Wake);
    };
    assert_eq!(told.notices, vec![], "the session lives on");
    for (pause, part) in pauses.iter().zip([64, 32, 16, 8]) {
        assert!((TTL / part * 3 / 4..=TTL / part).contains(pause), "{pauses:?}");
    }
    assert!(pauses.len() >= 4, "{pauses:?}");
}

#[test]
fn a_change_that_would_outlast_the_session_is_given_up_and_the_lease_is_held() {
    let mut a = holding_on_session();
    a.step(now(3_334), Event::Wake);
    a.step(now(5_000), unavailable(3));
    a.step(now(7_999), Event::Wake);
    a.step(now(8_000), update());
    let update = 5;
    assert_eq!(a.step(now(8_001), unavailable(update)).notices, vec![], "there is time for another attempt");
    let mut ms = 8_001;
    let told = loop {
        ms += 20;
        let step = a.step(now(ms), Event::Wake);
        if let Some(request) = step.requests.iter().find(|request| !request.urgent) {
            let told = a.step(now(ms), unavailable(request.id.0));
            if !told.notices.is_empty() {
                break told;
            }
        }
        assert!(step.notices.is_empty() && ms < 8_181, "at {ms}: {step:?}");
    };
    assert_eq!(told.notices, vec![Notice::Failed(LEASE, StoreError::unavailable("away"))]);
    assert_eq!(a.leases(), 1);
}

#[test]
fn a_release_is_tried_for_a_ttl_and_no_longer() {
    let mut a = holding();
    let mut step = a.step(now(1_000), release());
    let mut ms = 1_000;
    while let Some(request) = step.requests.first() {
        let failed = a.step(now(ms), unavailable(request.id.0));
        if failed.wake_at.is_none() {
            assert_eq!(failed.notices, vec![Notice::Released(LEASE, false)]);
            break;
        }
        assert_eq!(failed.notices, vec![]);
        ms = later(&failed, ms);
        step = a.step(now(ms), Event::Wake);
    }
    assert!((8_500..=11_000).contains(&ms), "given up at {ms}");
    assert_eq!(a.leases(), 0);
}

#[test]
fn a_lease_that_becomes_plain_data_is_attached_no_more_and_lasts_as_asked() {
    let mut a = holding_on_session();
    let ttl = Ttl::new(TTL * 2).unwrap();
    let sends = a.step(now(1_000), command(Command::Detach(LEASE, ttl)));
    let writes = writes(&sends);
    let tenure = writes[0].1.tenure.clone().unwrap();
    assert_eq!((tenure.attachment, tenure.ttl, tenure.id), (None, ttl, nonce(2)));
}

#[test]
fn a_token_is_refreshed_for_its_holder_adopted_by_another_and_returned_vacant() {
    let sends = |make: fn(LeaseId, Box<Token>) -> Command| {
        let step = holder().step(now(0), command(make(LEASE, Box::new(token("t")))));
        writes(&step)[0].1.tenure.clone().map(|tenure| tenure.holder.to_string())
    };
    assert_eq!(sends(Command::Refresh).as_deref(), Some("z"));
    assert_eq!(sends(Command::Adopt).as_deref(), Some("a"));
    assert_eq!(sends(Command::Return), None);
}

#[test]
fn a_refresh_that_landed_unknown_is_found_behind_mail() {
    let mut a = holder();
    a.step(now(0), command(Command::Refresh(LEASE, Box::new(token("t")))));
    a.step(now(2_500), unknown(1));
    let again = a.step(now(2_700), Event::Wake);
    assert_eq!(again.requests.len(), 1);
    let mut record = held("z", Nonce(40), nonce(1), 7, 0, 0);
    record.nonce = Nonce(60);
    let told = a.step(now(2_705), lost(2, Some(record)));
    assert!(matches!(told.notices[..], [Notice::Detached(LEASE, _)]), "{told:?}");
    assert_eq!(told.requests, vec![]);
}

#[test]
fn an_adoption_whose_answer_outlasts_the_lease_is_not_believed_but_repeated() {
    let mut a = holder();
    a.step(now(0), command(Command::Adopt(LEASE, Box::new(token("t")))));
    let late = a.step(now(8_182), won(1, nonce(1), 7));
    assert_eq!((late.notices.len(), writes(&late).len()), (0, 1), "{late:?}");
    let told = a.step(now(8_190), won(2, nonce(2), 7));
    assert_eq!(told.notices, vec![acquired(LEASE, 7, until(8_182))]);
}

fn transferee() -> Box<Transferee> {
    let attachment = Attachment { session: key("session/b"), fence: Fence(9) };
    Box::new(Transferee { holder: HolderId::new("b").unwrap(), attachment, ttl: ttl() })
}

#[test]
fn a_lease_that_is_given_up_already_is_not_passed_on_and_its_end_is_told_once() {
    let mut a = holding_on_session();
    a.step(now(1_000), release());
    let pass = a.step(now(1_001), command(Command::Pass(LEASE, transferee(), Metadata::new())));
    assert_eq!((pass.requests, pass.notices), (vec![], vec![]));
    assert_eq!(a.step(now(1_005), won(3, nonce(3), 7)).notices, vec![Notice::Released(LEASE, true)]);
    // What has become plain data by then is nobody's to pass on either.
    let mut a = holding_on_session();
    a.step(now(1_000), command(Command::Detach(LEASE, ttl())));
    a.step(now(1_001), command(Command::Pass(LEASE, transferee(), Metadata::new())));
    let vacates = a.step(now(1_005), won(3, nonce(3), 7));
    assert_eq!(writes(&vacates), vec![("k".to_owned(), vacant(nonce(4), 7, 1_005))]);
}

#[test]
fn whoever_stops_gets_no_new_lease() {
    let mut a = holding();
    assert_eq!(a.leases(), 1);
    a.step(now(1_000), command(Command::Stop));
    let want = Want {
        key: key("x"),
        keep_alive: own(),
        metadata_policy: MetadataPolicy::Replace(Metadata::new()),
        wait_policy: WaitPolicy::Try,
    };
    let told = a.step(now(1_001), command(Command::Acquire(SECOND, want)));
    assert!(matches!(told.notices[..], [Notice::Failed(SECOND, _)]), "{told:?}");
    assert_eq!(told.requests, vec![]);
}

#[test]
fn s6_a_claim_under_way_that_is_let_go_of_is_still_undone() {
    for first in [lapse(), release()] {
        let mut a = holder();
        a.step(now(0), acquire("k", own(), WaitPolicy::Forever));
        let mut told = a.step(now(1), first).notices;
        told.extend(a.step(now(2), lapse()).notices);
        let undone = a.step(now(5), won(1, nonce(1), 7));
        assert_eq!(writes(&undone), vec![("k".to_owned(), vacant(nonce(2), 7, 5))]);
        told.extend(undone.notices);
        assert!(!told.contains(&acquired(LEASE, 7, until(0))), "{told:?}");
    }
}

#[test]
fn s6_a_lease_that_is_let_go_of_again_expires_by_the_last_time() {
    let mut a = holding_on_session();
    a.step(now(1_000), lapse());
    a.step(now(2_000), lapse());
    for (ms, step) in keep_up(&mut a, 11_900) {
        assert_eq!(writes(&step), vec![], "at {ms}");
    }
    let vacates = a.step(now(12_000), Event::Wake);
    assert_eq!(writes(&vacates)[0].0, "k");
}

#[test]
fn s6_a_lease_that_is_let_go_of_while_it_is_changed_is_vacated_after_a_ttl() {
    let mut a = holding_on_session();
    a.step(now(1_000), update());
    let told = a.step(now(1_001), lapse());
    assert_eq!((told.requests, told.notices), (vec![], vec![Notice::Released(LEASE, false)]));
    assert_eq!(a.step(now(1_005), won(3, nonce(3), 7)).notices, vec![], "whatever becomes of the change");
    for (ms, step) in keep_up(&mut a, 10_900) {
        assert_eq!(writes(&step), vec![], "at {ms}");
    }
    let vacates = a.step(now(11_002), Event::Wake);
    assert_eq!(writes(&vacates)[0].0, "k");
    // A stop before that leaves the session to expire with it.
    let mut a = holding_on_session();
    a.step(now(1_000), update());
    a.step(now(1_001), lapse());
    let stopped = a.step(now(1_002), command(Command::Stop));
    assert_eq!((stopped.requests, stopped.notices.last()), (vec![], Some(&Notice::Stopped)));
}

#[test]
fn a_release_under_way_goes_on_when_the_lease_is_let_go_of() {
    // On the session nothing else would free the key.
    let mut a = holding_on_session();
    a.step(now(1_000), release());
    assert_eq!(a.step(now(1_001), lapse()).notices, vec![]);
    assert_eq!(a.step(now(1_005), won(3, nonce(3), 7)).notices, vec![Notice::Released(LEASE, true)]);
    // One that renews itself expires.
    let mut a = holding();
    a.step(now(1_000), release());
    assert_eq!(a.step(now(1_001), lapse()).notices, vec![Notice::Released(LEASE, false)]);
    assert_eq!(a.step(now(1_005), won(2, nonce(2), 7)).notices, vec![]);
    assert_eq!(a.leases(), 0);
}

/// Whether a stop vacates the session's record.
fn stop_vacates(a: &mut Holder, ms: u64) -> bool {
    let step = a.step(now(ms), command(Command::Stop));
    writes(&step).iter().any(|(key, _)| key == "session/a")
}

#[test]
fn once_what_was_let_go_of_is_vacated_a_stop_ends_the_session() {
    let mut a = holding_on_session();
    a.step(now(1_000), lapse());
    keep_up(&mut a, 10_900);
    let vacates = a.step(now(11_001), Event::Wake);
    let op = vacates.requests.iter().find(|request| !request.urgent).unwrap().id.0;
    assert_eq!(
        a.step(now(11_003), lapse()).notices,
        vec![Notice::Released(LEASE, false)],
        "whoever asks is told"
    );
    a.step(now(11_005), won(op, Nonce(0), 7));
    assert_eq!(a.leases(), 0);
    assert!(stop_vacates(&mut a, 11_010));
}

#[test]
fn what_was_let_go_of_and_lost_with_the_session_holds_up_no_stop_of_the_next_one() {
    let mut a = holding_on_session();
    a.step(now(1_000), lapse());
    a.step(now(8_182), Event::Wake);
    assert_eq!(a.leases(), 0);
    a.step(now(8_200), command(Command::Start));
    a.step(now(8_205), won(3, nonce(3), 5));
    assert!(a.session_fence().is_some());
    assert!(stop_vacates(&mut a, 8_210));
}

fn at_the_sessions_end(mut a: Holder) -> (Holder, Vec<Notice>) {
    let over = a.step(now(8_182), Event::Wake);
    let told = over.notices.into_iter().filter(|told| *told != Notice::SessionValid(Tick(0))).collect();
    (a, told)
}

#[test]
fn s5_what_is_changed_or_given_up_is_lost_with_the_session() {
    let mut a = holding_on_session();
    a.step(now(3_000), update());
    let (a, told) = at_the_sessions_end(a);
    assert_eq!((a.leases(), told), (0, vec![Notice::Lost(LEASE, Loss::Expired)]));
    let mut a = holding_on_session();
    a.step(now(3_000), command(Command::Detach(LEASE, ttl())));
    a.step(now(3_001), release());
    let (a, told) = at_the_sessions_end(a);
    let both = vec![Notice::Lost(LEASE, Loss::Expired), Notice::Released(LEASE, false)];
    assert_eq!((a.leases(), told), (0, both));
    let mut a = holding_on_session();
    a.step(now(3_000), release());
    let (a, told) = at_the_sessions_end(a);
    assert_eq!((a.leases(), told), (0, vec![Notice::Released(LEASE, false)]));
}

#[test]
fn what_renews_itself_outlives_the_session() {
    let also = |wait_policy| {
        let mut a = holding_on_session();
        let want = Want {
            key: key("own"),
            keep_alive: own(),
            metadata_policy: MetadataPolicy::Replace(Metadata::new()),
            wait_policy,
        };
        a.step(now(3_000), command(Command::Acquire(SECOND, want)));
        a
    };
    // One that is being got, one that is held, one that is given up.
    let (mut a, told) = at_the_sessions_end(also(WaitPolicy::Forever));
    assert!(matches!(told[..], [Notice::Lost(LEASE, _)]), "{told:?}");
    assert_eq!(a.step(now(8_190), won(3, nonce(3), 7)).notices, vec![acquired(SECOND, 7, until(3_000))]);
    let mut a = also(WaitPolicy::Forever);
    a.step(now(3_005), won(3, nonce(3), 7));
    a.step(now(6_000), command(Command::Release(SECOND, None)));
    let (mut a, told) = at_the_sessions_end(a);
    assert!(matches!(told[..], [Notice::Lost(LEASE, _)]), "{told:?}");
    assert_eq!(a.step(now(8_190), won(5, nonce(5), 7)).notices, vec![Notice::Released(SECOND, true)]);
}

/// A session, and a lease on it that waits for `k`, which another holds; it is looked at again by 4 s at the latest.
fn waiting_on_session() -> Holder {
    let mut a = holder();
    a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Forever));
    a.step(now(5), won(1, nonce(1), 3));
    let other = held("b", Nonce(50), Nonce(50), 8, 0, 0);
    assert_eq!(a.step(now(10), lost(2, Some(other))).notices, vec![]);
    a
}

#[test]
fn who_waits_for_a_key_waits_on_when_the_session_is_lost_at_that_moment() {
    let mut a = waiting_on_session();
    // Both the session and the acquisition are due.
    let over = a.step(now(9_000), Event::Wake);
    assert_eq!(over.notices, vec![Notice::SessionValid(Tick(0))]);
    assert_eq!(writes(&over)[0].0, "session/a", "the next session begins: {over:?}");
    // Hints are not for those who wait for the session.
    assert_eq!(a.step(now(9_001), Event::Changed(Hint::Any)).notices, vec![]);
    let op = over.requests[0].id.0;
    let up = a.step(now(9_005), won(op, nonce(3), 5));
    let is_attached = writes(&up);
    let attachment = is_attached[0].1.tenure.as_ref().and_then(|tenure| tenure.attachment.clone());
    assert_eq!(attachment, Some(Attachment { session: key("session/a"), fence: Fence(5) }), "{up:?}");
}

/// A claim on this session under an id that nobody here has, at a key that is being got while `a` also has other leases.
#[test]
fn a_claim_that_nobody_wants_is_taken_whatever_else_is_held() {
    let own_lease = || {
        let mut a = holding_on_session();
        let want = Want {
            key: key("own"),
            keep_alive: own(),
            metadata_policy: MetadataPolicy::Replace(Metadata::new()),
            wait_policy: WaitPolicy::Try,
        };
        a.step(now(20), command(Command::Acquire(SECOND, want)));
        a.step(now(25), won(3, nonce(3), 7));
        a
    };
    let changing = || {
        let mut a = own_lease();
        a.step(now(26), update());
        a
    };
    for mut a in [own_lease(), changing()] {
        let want = Want {
            key: key("x"),
            keep_alive: KeepAlive::Session,
            metadata_policy: MetadataPolicy::Replace(Metadata::new()),
            wait_policy: WaitPolicy::Forever,
        };
        let sends = a.step(now(30), command(Command::Acquire(LeaseId(3), want)));
        let orphan = attached_to(held("a", nonce(99), nonce(99), 7, 5, 5), "session/a", 3);
        let takes = a.step(now(35), lost(sends.requests[0].id.0, Some(orphan)));
        let Op::Write(write) = &takes.requests[0].op else { panic!("{takes:?}") };
        assert_eq!((write.key.as_str(), write.expect), ("x", unchanged(nonce(99))));
    }
}

#[test]
fn a_key_that_is_being_changed_is_not_taken_from_this_process() {
    let mut a = holding_on_session();
    a.step(now(20), update());
    let want = Want {
        key: key("k"),
        keep_alive: KeepAlive::Session,
        metadata_policy: MetadataPolicy::Replace(Metadata::new()),
        wait_policy: WaitPolicy::Try,
    };
    let sends = a.step(now(30), command(Command::Acquire(SECOND, want)));
    let Op::Write(write) = &sends.requests[0].op else { panic!("{sends:?}") };
    assert_eq!(write.expect, Expect::Vacant);
    let ours = attached_to(held("a", nonce(2), nonce(2), 7, 5, 5), "session/a", 3);
    let told = a.step(now(35), lost(sends.requests[0].id.0, Some(ours)));
    assert_eq!(told.requests, vec![], "{told:?}");
    assert!(matches!(told.notices[..], [Notice::Held(SECOND, Some(_))]), "{told:?}");
}
