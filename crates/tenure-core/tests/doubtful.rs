//! Answers that say less than they seem to, and records that are almost ours. Plan: what was sent before hidden time proves
//! nothing, for renewals, claims and adoptions; an answer settles the operation that it is for, and no other; what may have
//! landed unknown is looked for among all that was sent; an update is told by the write that carries it; a repeated claim is
//! another tenure; a letter ends what it names, once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use crate::common::*;
use tenure_core::op::{Event, Machine, Op, Step, Write};
use tenure_core::{
    Ask, Command, Fence, HolderId, KeepAlive, Letter, Loss, Metadata, Nonce, Notice, Now, Record, Tick,
    Token, Version, WaitPolicy, Wall,
};

fn command(command: Command) -> Event<Command> {
    Event::Command(command)
}

fn fields(name: &str) -> Metadata {
    Metadata::from([(name.to_owned(), 7.into())])
}

/// The clocks after so many milliseconds, and so many more that only the wall clock has seen.
fn gap(ms: u64, hidden_ms: u64) -> Now {
    Now { wall: Wall(WALL + ms + hidden_ms), ..now(ms) }
}

/// The one write of a step, other than those of the session.
fn written(step: &Step<Notice>) -> (u64, Write) {
    let writes: Vec<_> = step
        .requests
        .iter()
        .filter_map(|request| match &request.op {
            Op::Write(write) if write.key != key("session/a") => Some((request.id.0, (**write).clone())),
            _ => None,
        })
        .collect();
    assert_eq!(writes.len(), 1, "{step:?}");
    writes.into_iter().next().unwrap()
}

fn renewed(n: u128, ms: u64) -> Record {
    held("a", nonce(1), nonce(n), 7, 0, ms)
}

fn letters(record: Record, version: u128, letters: &[(&str, Ask)]) -> Record {
    let mail = letters.iter().map(|(name, ask)| Letter::new(key(name), *ask)).collect();
    let tenure = record.tenure.map(|tenure| tenure_core::Tenure { mail, ..tenure });
    Record { nonce: Nonce(version), tenure, ..record }
}

#[test]
fn s4_a_renewal_that_was_sent_before_hidden_time_proves_nothing() {
    let mut a = holding();
    a.step(now(3_334), Event::Wake);
    let answered = a.step(gap(3_400, 5_000), won(2, nonce(2), 7));
    assert_eq!(answered.notices, vec![Notice::Valid(LEASE, Tick(0))], "the gap shows in that very step");
    let again = a.step(gap(3_401, 5_000), Event::Wake);
    assert_eq!(written(&again).1.expect, unchanged(nonce(1)), "what that answer said is not known");
    let landed = a.step(gap(3_402, 5_000), lost(3, Some(renewed(2, 3_334))));
    assert_eq!(landed.notices, vec![], "nor does the record prove more");
    assert_eq!(
        a.step(gap(3_410, 5_000), won(4, nonce(4), 7)).notices,
        vec![Notice::Valid(LEASE, until(3_402))]
    );
}

#[test]
fn s4_nor_does_one_that_was_sent_before_more_hidden_time() {
    let mut a = holding();
    assert_eq!(a.step(gap(3_334, 5_000), Event::Wake).notices, vec![Notice::Valid(LEASE, Tick(0))]);
    let answered = a.step(gap(3_400, 9_000), won(2, nonce(2), 7));
    assert_eq!(answered.notices, vec![], "belief is suspended already, and stays so");
    a.step(gap(3_401, 9_000), Event::Wake);
    assert_eq!(
        a.step(gap(3_410, 9_000), won(3, nonce(3), 7)).notices,
        vec![Notice::Valid(LEASE, until(3_401))]
    );
}

#[test]
fn s4_hidden_time_is_looked_for_though_nothing_is_to_be_renewed() {
    // A lease that was withdrawn is kept until its deadline, and not renewed.
    let mut a = holding();
    a.step(now(3_334), Event::Wake);
    let revoked = letters(claim(1, 7, 0), 60, &[("k", Ask::Revoke)]);
    let told = a.step(now(3_340), lost(2, Some(revoked)));
    assert_eq!(told.wake_at, Some(tick(3_340).after(TTL / 3)));
    let woken = a.step(gap(6_674, 5_000), Event::Wake);
    assert_eq!((woken.notices, woken.requests), (vec![Notice::Valid(LEASE, Tick(0))], vec![]));
    // An update puts a renewal off, by as long as it is unanswered.
    let mut a = holding();
    let sends = a.step(gap(3_000, 5_000), command(Command::Update(LEASE, fields("n"))));
    assert_eq!(sends.wake_at, Some(tick(5).after(TTL / 3)));
    let woken = a.step(gap(3_339, 5_000), Event::Wake);
    assert_eq!(woken.notices, vec![Notice::Valid(LEASE, Tick(0))]);
}

#[test]
fn s4_nor_one_during_which_time_was_hidden_little_by_little() {
    let mut a = holding();
    a.step(gap(3_334, 600), Event::Wake);
    assert_eq!(a.step(gap(3_400, 1_200), Event::Wake).notices, vec![]);
    let answered = a.step(gap(3_500, 1_800), won(2, nonce(2), 7));
    assert_eq!(answered.notices, vec![Notice::Valid(LEASE, Tick(0))], "1.2 s since it was sent");
}

#[test]
fn s4_a_lost_renewal_from_before_hidden_time_is_found_in_vain() {
    let mut a = holding();
    a.step(now(3_334), Event::Wake);
    let failed = a.step(now(5_000), unknown(2));
    let again = a.step(gap(later(&failed, 5_000), 5_000), Event::Wake);
    assert_eq!(again.notices, vec![Notice::Valid(LEASE, Tick(0))]);
    let (op, _) = written(&again);
    let shown = a.step(gap(5_300, 5_000), lost(op, Some(renewed(2, 3_334))));
    assert_eq!(shown.notices, vec![], "it landed, before the gap");
}

#[test]
fn s4_a_claim_that_was_sent_before_hidden_time_is_made_anew_with_a_higher_fence() {
    for keep_alive in [own(), KeepAlive::Session] {
        let mut a = holder();
        let name = if keep_alive == own() { "k" } else { "session/a" };
        a.step(now(0), acquire("k", keep_alive, WaitPolicy::Forever));
        let again = a.step(gap(500, 2_000), won(1, nonce(1), WALL + 9_000_000));
        assert_eq!(again.notices, vec![], "{name}");
        let [request] = &again.requests[..] else { panic!("{again:?}") };
        let Op::Write(write) = &request.op else { panic!("{request:?}") };
        let (to, fence) = (write.key.as_str(), write.record.fence);
        assert_eq!((to, write.expect, fence), (name, unchanged(nonce(1)), Fence(WALL + 9_000_001)));
        let told = a.step(gap(510, 2_000), won(2, nonce(2), WALL + 9_000_001)).notices;
        let valid = if name == "k" {
            acquired(LEASE, WALL + 9_000_001, until(500))
        } else {
            Notice::SessionValid(until(500))
        };
        assert_eq!(told, vec![valid]);
    }
}

#[test]
fn what_was_won_too_late_and_is_not_wanted_any_more_is_given_up() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Forever));
    a.step(now(100), command(Command::Release(LEASE, None)));
    let (_, write) = written(&a.step(now(9_000), won(1, nonce(1), 7)));
    assert_eq!((write.expect, write.record.tenure), (unchanged(nonce(1)), None));
}

#[test]
fn s4_a_renewals_answer_is_not_that_of_the_release() {
    let mut a = holding();
    a.step(now(3_334), Event::Wake);
    let released = a.step(now(3_340), command(Command::Release(LEASE, None)));
    assert_eq!(written(&released).0, 3);
    assert_eq!(a.step(now(3_350), won(2, nonce(2), 7)), step(vec![], vec![], None), "it was the renewal");
    let (_, again) = written(&a.step(now(3_360), lost(3, Some(renewed(2, 3_334)))));
    assert_eq!((again.expect, again.record.tenure), (unchanged(nonce(2)), None));
    assert_eq!(a.step(now(3_370), won(4, nonce(4), 7)).notices, vec![Notice::Released(LEASE, true)]);
}

#[test]
fn s4_of_several_lost_renewals_the_record_shows_which_one_landed() {
    for landed in [2, 3] {
        let mut a = holding();
        let mut ms = 3_334;
        let mut sent = Vec::new();
        for _ in 0..2 {
            let (op, _) = written(&a.step(now(ms), Event::Wake));
            sent.push(ms);
            ms = later(&a.step(now(ms + 100), unknown(op)), ms);
        }
        let (op, _) = written(&a.step(now(ms), Event::Wake));
        let at = sent[landed - 2];
        let shown = a.step(now(ms + 1), lost(op, Some(renewed(landed as u128, at))));
        assert_eq!(shown.notices, vec![Notice::Valid(LEASE, until(at))], "the one of {at} ms");
    }
}

#[test]
fn s4_an_update_is_told_by_the_renewal_that_carries_it_and_by_no_other() {
    let mut a = holding();
    a.step(now(3_334), Event::Wake);
    assert_eq!(a.step(now(3_340), command(Command::Update(LEASE, fields("x")))).requests, vec![]);
    let renewed = a.step(now(3_350), won(2, nonce(2), 7));
    assert_eq!(renewed.notices, vec![Notice::Valid(LEASE, until(3_334))]);
    assert_eq!(written(&renewed).1.record.metadata, fields("x"));
    let told = a.step(now(3_360), won(3, nonce(3), 7)).notices;
    assert_eq!(told, vec![Notice::Valid(LEASE, until(3_350)), Notice::Updated(LEASE)]);
}

/// The attached lease's record as it stands after its claim, or with other fields.
fn attached(n: u128, fence: u64, metadata: Metadata) -> Record {
    let mut record = attached_to(held("a", nonce(2), nonce(n), fence, 5, 5), "session/a", 3);
    record.metadata = metadata;
    record
}

#[test]
fn a_change_of_an_attached_leases_record_keeps_its_tenure_and_its_attachment() {
    let mut a = holding_on_session();
    let (_, write) = written(&a.step(now(20), command(Command::Update(LEASE, fields("x")))));
    let expected = Record { stamp: Wall(WALL + 20), ..attached(3, 7, fields("x")) };
    assert_eq!((write.expect, write.record), (unchanged(nonce(2)), expected));
}

#[test]
fn s4_what_others_wrote_after_a_change_that_landed_unknown_is_carried_on() {
    let mut a = holding_on_session();
    a.step(now(20), command(Command::Update(LEASE, fields("x"))));
    let failed = a.step(now(30), unknown(3));
    let at = later(&failed, 30);
    assert_eq!(written(&a.step(now(at), Event::Wake)).0, 4);
    let mut theirs = attached(3, 7, [fields("x"), fields("theirs")].into_iter().flatten().collect());
    theirs.nonce = Nonce(99);
    assert_eq!(a.step(now(at + 1), lost(4, Some(theirs))).notices, vec![Notice::Updated(LEASE)]);
    let (_, next) = written(&a.step(now(at + 2), command(Command::Merge(LEASE, fields("y")))));
    assert_eq!(next.expect, unchanged(Nonce(99)));
    assert_eq!(next.record.metadata.keys().collect::<Vec<_>>(), ["theirs", "x", "y"]);
}

#[test]
fn s2_a_claim_that_a_network_repeated_is_not_the_tenure_that_is_changed() {
    let mut a = holding_on_session();
    a.step(now(20), command(Command::Update(LEASE, fields("x"))));
    let told = a.step(now(30), lost(3, Some(attached(2, 9, Metadata::new()))));
    assert!(matches!(told.notices[..], [Notice::Lost(LEASE, Loss::Taken(_))]), "{told:?}");
    assert_eq!(told.requests, vec![]);
}

/// Takes up the tenure of `holding`, as `b` had it.
fn adopt() -> Event<Command> {
    let (id, version, holder) = (Nonce(70), Version(71), HolderId::new("b").unwrap());
    command(Command::Adopt(LEASE, Box::new(Token { id, version, holder, ..token("k") })))
}

#[test]
fn an_adopted_lease_is_renewed_under_the_id_that_it_was_adopted_by() {
    let mut a = holder();
    a.step(now(0), adopt());
    assert_eq!(a.step(now(5), won(1, nonce(1), 7)).notices, vec![acquired(LEASE, 7, until(0))]);
    let (_, renewal) = written(&a.step(now(3_334), Event::Wake));
    let tenure = renewal.record.tenure.unwrap();
    assert_eq!((renewal.expect, tenure.id, tenure.heartbeat), (unchanged(nonce(1)), nonce(1), nonce(2)));
}

#[test]
fn s4_an_adoption_that_was_sent_before_hidden_time_is_made_anew() {
    let mut a = holder();
    a.step(now(0), adopt());
    let again = a.step(gap(100, 2_000), won(1, nonce(1), 7));
    assert_eq!((again.notices.len(), written(&again).1.expect), (0, unchanged(nonce(1))));
    let told = a.step(gap(110, 2_000), won(2, nonce(2), 7)).notices;
    assert_eq!(told, vec![acquired(LEASE, 7, until(100))]);
}

#[test]
fn a_revocation_that_waited_in_a_tokens_record_withdraws_what_is_adopted() {
    let mut a = holder();
    a.step(now(0), adopt());
    let standing = held("b", Nonce(70), Nonce(71), 7, 0, 0);
    let again = a.step(now(5), lost(1, Some(letters(standing, 80, &[("k", Ask::Revoke)]))));
    assert_eq!(written(&again).1.expect, unchanged(Nonce(80)));
    let told = a.step(now(10), won(2, nonce(2), 7)).notices;
    assert_eq!(told, vec![acquired(LEASE, 7, until(5)), Notice::Asked(LEASE, Ask::Revoke)]);
    assert_eq!(a.step(now(3_400), Event::Wake).requests, vec![], "it is not renewed any more");
    assert_eq!(a.step(now(8_187), Event::Wake).notices, vec![Notice::Lost(LEASE, Loss::Revoked)]);
}

#[test]
fn a_detachment_that_was_given_up_is_looked_after() {
    let mut a = holding_on_session();
    a.step(now(20), command(Command::Detach(LEASE, ttl())));
    let denied = Event::Answer(tenure_core::op::OpId(3), Err(tenure_core::StoreError::foreign("damaged")));
    assert!(matches!(a.step(now(30), denied).notices[..], [Notice::Lost(LEASE, Loss::Unreachable(_))]));
    assert_eq!(a.step(now(31), Event::Wake).requests, vec![read(4, "k")]);
}

/// The session's record as it was begun, with letters.
fn session_with(version: u128, heartbeat: u128, mail: &[(&str, Ask)]) -> Record {
    letters(held("a", nonce(1), nonce(heartbeat), 3, 0, 0), version, mail)
}

#[test]
fn s5_a_second_letter_does_not_put_a_withdrawal_off() {
    let mut a = holding_on_session();
    a.step(now(3_334), Event::Wake);
    let told = a.step(now(3_340), lost(3, Some(session_with(90, 1, &[("k", Ask::Revoke)]))));
    // Its end is told with the letter: that of the session lies beyond it from the next renewal on.
    let end = Notice::Valid(LEASE, until(0));
    assert_eq!(told.notices, vec![end, Notice::Asked(LEASE, Ask::Revoke)]);
    a.step(now(3_350), won(4, nonce(4), 3));
    a.step(now(6_700), Event::Wake);
    a.step(now(6_710), lost(5, Some(session_with(91, 4, &[("k", Ask::Revoke)]))));
    assert_eq!(a.step(now(8_182), Event::Wake).notices, vec![Notice::Lost(LEASE, Loss::Revoked)]);
}

#[test]
fn a_revocation_on_the_session_ends_the_attached_lease_that_it_names_and_not_the_session() {
    let mut a = holding_on_session();
    a.step(now(3_334), Event::Wake);
    let other = a.step(now(3_340), lost(3, Some(session_with(90, 1, &[("other", Ask::Revoke)]))));
    assert_eq!(other.notices, vec![]);
    a.step(now(3_350), won(4, nonce(4), 3));
    assert_eq!(
        a.step(now(8_182), Event::Wake).notices,
        vec![],
        "it goes on, and so does what is attached to it"
    );
    assert_eq!(a.leases(), 1);
}
