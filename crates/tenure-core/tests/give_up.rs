//! Giving up, and passing on. Plan: a release is one conditional write; lost answers are resolved; the deposed change
//! nothing; a pass waits for a change that is under way; what must expire is not written; a stop ends with the session; plain data goes to one process only.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use crate::common::*;
use std::time::Duration;
use tenure_core::op::{Event, Machine, Op, OpId};
use tenure_core::{
    Ask, Attachment, Command, Fence, HolderId, LeaseId, Letter, Metadata, Nonce, Notice, Occupant, Record,
    StoreError, Tick, Token, Transferee, Ttl, Version, Wall,
};

fn release() -> Event<Command> {
    Event::Command(Command::Release(LEASE, None))
}

#[test]
fn a_release_is_one_write_that_keeps_the_fence() {
    let mut a = holding();
    let sends = a.step(now(1_000), release());
    assert_eq!(
        sends,
        step(vec![write(2, "k", unchanged(nonce(1)), vacant(nonce(2), 7, 1_000))], vec![], None)
    );
    assert_eq!(
        a.step(now(1_005), won(2, nonce(2), 7)),
        step(vec![], vec![Notice::Released(LEASE, true)], None)
    );
    assert_eq!(a.leases(), 0);
}

#[test]
fn a_release_whose_answer_was_lost_is_looked_for() {
    let mut a = holding();
    a.step(now(1_000), release());
    assert!(a.step(now(3_500), unknown(2)).notices.is_empty());
    let again = a.step(now(3_700), Event::Wake);
    assert_eq!(again.requests, vec![write(3, "k", unchanged(nonce(1)), vacant(nonce(3), 7, 3_700))]);
    let landed = a.step(now(3_705), lost(3, Some(vacant(nonce(2), 7, 1_000))));
    assert_eq!(landed, step(vec![], vec![Notice::Released(LEASE, true)], None));
}

#[test]
fn s3_a_release_after_a_takeover_changes_nothing() {
    let mut a = holding();
    a.step(now(1_000), release());
    let other = held("b", Nonce(50), Nonce(50), 8, 900, 900);
    assert_eq!(
        a.step(now(1_005), lost(2, Some(other))),
        step(vec![], vec![Notice::Released(LEASE, false)], None)
    );
}

#[test]
fn s6_what_could_not_be_ended_is_left_to_expire() {
    let mut a = holding();
    let told = a.step(now(1_000), Event::Command(Command::Lapse(LEASE)));
    assert_eq!(told, step(vec![], vec![Notice::Released(LEASE, false)], None), "neither vacated nor renewed");
    let mut a = holding_on_session();
    let told = a.step(now(1_000), Event::Command(Command::Lapse(LEASE)));
    assert_eq!(told, step(vec![], vec![Notice::Released(LEASE, false)], renewal(0)));
    // The session lives on, so after a full ttl the key is vacated.
    for (op, ms) in [(3, 3_334), (4, 6_700), (5, 10_100)] {
        a.step(now(ms), Event::Wake);
        a.step(now(ms + 5), won(op, nonce(u128::from(op)), 3));
    }
    let vacates = a.step(now(11_000), Event::Wake);
    assert_eq!(vacates.requests, vec![write(6, "k", unchanged(nonce(2)), vacant(nonce(6), 7, 11_000))]);
}

#[test]
fn s6_a_stop_leaves_the_session_to_expire_with_what_lapses_on_it() {
    let mut a = holding_on_session();
    a.step(now(1_000), Event::Command(Command::Lapse(LEASE)));
    let told = a.step(now(1_001), Event::Command(Command::Stop));
    assert_eq!(told, step(vec![], vec![Notice::SessionValid(Tick(0)), Notice::Stopped], None));
}

#[test]
fn a_stop_gives_up_the_leases_first_and_the_session_last() {
    let mut a = holding_on_session();
    let first = a.step(now(1_000), Event::Command(Command::Stop));
    assert_eq!(first.requests, vec![write(3, "k", unchanged(nonce(2)), vacant(nonce(3), 7, 1_000))]);
    assert!(first.notices.is_empty());
    let second = a.step(now(1_005), won(3, nonce(3), 7));
    let told = vec![Notice::Released(LEASE, true), Notice::SessionValid(Tick(0))];
    let session = write(4, "session/a", unchanged(nonce(1)), vacant(nonce(4), 3, 1_005));
    assert_eq!(second, step(vec![session], told, None));
    let third = a.step(now(1_010), won(4, nonce(4), 3));
    assert_eq!(third, step(vec![], vec![Notice::SessionValid(Tick(0)), Notice::Stopped], None));
}

/// The token that `a` makes of its lease at 1 s, and `a` itself.
fn detached() -> (tenure_core::Holder, Token) {
    let mut a = holding();
    let ttl = Ttl::new(Duration::from_secs(20)).unwrap();
    let sends = a.step(now(1_000), Event::Command(Command::Detach(LEASE, ttl)));
    let Op::Write(write) = &sends.requests[0].op else { panic!("{sends:?}") };
    assert_eq!((sends.requests.len(), write.expect), (1, unchanged(nonce(1))));
    assert_eq!(
        write.record.tenure.as_ref().map(|t| (t.id, t.ttl, t.attachment.is_none())),
        Some((nonce(1), ttl, true))
    );
    let mut told = a.step(now(1_005), won(2, nonce(2), 7)).notices;
    let (Some(Notice::Detached(LEASE, token)), true) = (told.pop(), told.is_empty()) else {
        panic!("{told:?}")
    };
    (a, *token)
}

#[test]
fn a_lease_becomes_plain_data() {
    let (a, token) = detached();
    assert_eq!(a.leases(), 0);
    let expected = Token {
        key: key("k"),
        fence: Fence(7),
        id: nonce(1),
        version: Version(nonce(2).0),
        holder: tenure_core::HolderId::new("a").unwrap(),
        ttl: Ttl::new(Duration::from_secs(20)).unwrap(),
        since: Wall(WALL),
        metadata: Default::default(),
    };
    assert_eq!(token, expected);
}

#[test]
fn of_all_copies_of_a_token_one_is_adopted_and_the_others_are_void() {
    let (mut a, token) = detached();
    let (one, other) = (LeaseId(2), LeaseId(3));
    let adopts = a.step(now(2_000), Event::Command(Command::Adopt(one, Box::new(token.clone()))));
    let Op::Write(write) = &adopts.requests[0].op else { panic!("{adopts:?}") };
    assert_eq!(write.record.tenure.as_ref().map(|t| t.id), Some(nonce(3)), "under a new tenure id");
    assert_eq!((write.record.fence, write.expect), (Fence(7), unchanged(nonce(2))), "with its fence");
    let adopted = write.record.clone();
    let told = a.step(now(2_005), won(3, nonce(3), 7)).notices;
    let believed = tick(2_000).after(tenure_core::Drift::default().belief(token.ttl));
    assert_eq!(told, vec![acquired(one, 7, believed)]);
    for command in [
        Command::Adopt(other, Box::new(token.clone())),
        Command::Refresh(other, Box::new(token.clone())),
        Command::Return(other, Box::new(token)),
    ] {
        let returns = matches!(command, Command::Return(..));
        let mut b = a.clone();
        let sends = b.step(now(2_100), Event::Command(command));
        let told = b.step(now(2_105), lost(sends.requests[0].id.0, Some(adopted.clone())));
        let void = if returns {
            Notice::Released(other, false)
        } else {
            Notice::NotOurs(other, Occupant::of(&adopted))
        };
        assert_eq!((told.requests, told.notices), (vec![], vec![void]));
    }
}

#[test]
fn mail_to_plain_data_waits_for_whoever_adopts_it() {
    let (a, token) = detached();
    let letter = Letter::new(key("k"), Ask::HandOver);
    let mut record = held("a", nonce(1), nonce(2), 7, 0, 1_000);
    record.nonce = Nonce(60);
    if let Some(tenure) = &mut record.tenure {
        tenure.mail.push(letter.clone());
    }
    let mail_of = |sends: &tenure_core::op::Step<Notice>| match &sends.requests[0].op {
        Op::Write(write) => write.record.tenure.as_ref().map(|tenure| tenure.mail.clone()),
        _ => None,
    };
    let mut refreshes = a.clone();
    let refresh = Command::Refresh(LeaseId(2), Box::new(token.clone()));
    refreshes.step(now(2_000), Event::Command(refresh));
    assert_eq!(mail_of(&refreshes.step(now(2_005), lost(3, Some(record.clone())))), Some(vec![letter]));
    let mut adopts = a;
    adopts.step(now(2_000), Event::Command(Command::Adopt(LeaseId(2), Box::new(token.clone()))));
    assert_eq!(mail_of(&adopts.step(now(2_005), lost(3, Some(record)))), Some(vec![]));
    let told = adopts.step(now(2_010), won(4, nonce(4), 7)).notices;
    let believed = tick(2_005).after(tenure_core::Drift::default().belief(token.ttl));
    assert_eq!(told, vec![acquired(LeaseId(2), 7, believed), Notice::Asked(LeaseId(2), Ask::HandOver)]);
}

#[test]
fn a_release_while_a_lease_becomes_plain_data_gives_it_up() {
    let mut a = holding_on_session();
    a.step(now(1_000), Event::Command(Command::Detach(LEASE, ttl())));
    assert!(a.step(now(1_001), release()).requests.is_empty());
    let vacates = a.step(now(1_005), won(3, nonce(3), 7));
    assert_eq!(vacates.requests, vec![write(4, "k", unchanged(nonce(3)), vacant(nonce(4), 7, 1_005))]);
    assert_eq!(a.step(now(1_010), won(4, nonce(4), 7)).notices, vec![Notice::Released(LEASE, true)]);
}

#[test]
fn a_pass_waits_for_a_change_that_is_under_way() {
    let fields = Metadata::from([("point".to_owned(), 7.into())]);
    let transferee = || Transferee {
        holder: HolderId::new("b").unwrap(),
        attachment: Attachment { session: key("session/b"), fence: Fence(9) },
        ttl: ttl(),
    };
    let passed = |metadata: Metadata, ms: u64| {
        let record = held("b", nonce(4), nonce(4), WALL + ms, ms, ms);
        Record { metadata, ..attached_to(record, "session/b", 9) }
    };
    let under_way = || {
        let mut a = holding_on_session();
        a.step(now(1_000), Event::Command(Command::Update(LEASE, fields.clone())));
        let waits =
            a.step(now(1_001), Event::Command(Command::Pass(LEASE, Box::new(transferee()), Metadata::new())));
        assert_eq!((waits.requests, waits.notices), (vec![], vec![]));
        // Whoever gives it up after that changes nothing about it.
        let waits = a.step(now(1_002), release());
        assert_eq!((waits.requests, waits.notices), (vec![], vec![]));
        a
    };
    let mut a = under_way();
    let passes = a.step(now(1_005), won(3, nonce(3), 7));
    assert_eq!(passes.notices, vec![Notice::Updated(LEASE)]);
    assert_eq!(passes.requests, vec![write(4, "k", unchanged(nonce(3)), passed(fields.clone(), 1_005))]);
    let told = a.step(now(1_010), won(4, nonce(4), WALL + 1_005));
    assert_eq!(told.notices, vec![Notice::Released(LEASE, true)]);
    // One that was refused for good ends too, and the lease is still ours to pass on.
    let mut a = under_way();
    let refused = Event::Answer(OpId(3), Err(StoreError::invalid("too large")));
    let passes = a.step(now(1_005), refused);
    assert!(matches!(passes.notices[..], [Notice::Failed(LEASE, _)]), "{passes:?}");
    assert_eq!(passes.requests, vec![write(4, "k", unchanged(nonce(2)), passed(Metadata::new(), 1_005))]);
    // What turns out to be another's is not passed on.
    let mut a = under_way();
    let other = held("c", Nonce(50), Nonce(50), 8, 900, 900);
    let told = a.step(now(1_005), lost(3, Some(other)));
    assert!(matches!(told.notices[..], [Notice::Lost(LEASE, _), Notice::Released(LEASE, false)]), "{told:?}");
    assert_eq!(told.requests, vec![]);
}
