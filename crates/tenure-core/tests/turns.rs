//! Several leases of one process that want the same key. Plan: those who come later ask the store nothing; whoever gives the key up
//! writes the next one's tenure over its own, with a higher fence; a lost answer is resolved, and what nobody wants any more is passed
//! on or given up; others have their turn after a sixteenth of a ttl, or when they ask; whoever goes away has the next one ask.
//! Then races: a key that was given up is claimed without a look, and who loses watches the winner a little later.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::*;
use tenure_core::op::{Event, Expect, Hint, Machine, Request, Step};
use tenure_core::{
    Ask, Command, Fence, Holder, HolderId, KeepAlive, LeaseId, Letter, Metadata, MetadataPolicy, Nonce,
    Notice, Occupant, Record, Version, WaitPolicy, Wall, Want,
};

fn want(lease: u64, wait_policy: WaitPolicy) -> Event<Command> {
    let metadata_policy = MetadataPolicy::Replace(Metadata::new());
    Event::Command(Command::Acquire(
        LeaseId(lease),
        Want { key: key("k"), keep_alive: KeepAlive::Session, metadata_policy, wait_policy },
    ))
}

fn release(lease: u64) -> Event<Command> {
    Event::Command(Command::Release(LeaseId(lease), None))
}

fn mine(n: u128, fence: u64, ms: u64) -> Record {
    attached_to(claim(n, fence, ms), "session/a", 3)
}

fn theirs(n: u128, fence: u64) -> Record {
    attached_to(held("b", Nonce(n), Nonce(n), fence, 0, 0), "session/b", 3)
}

fn told(lease: u64, fence: u64) -> Notice {
    acquired(LeaseId(lease), fence, tenure_core::Tick::NEVER)
}

fn written(version: u128) -> Event<Command> {
    Event::Changed(Hint::Written(key("k"), Version(version)))
}

/// Lease 1 has `k` since 10 ms under the fence 100, as operation 2 with the second nonce; so many others wait.
fn queue(others: u64) -> Holder {
    let mut a = holder();
    a.step(now(0), want(1, WaitPolicy::Forever));
    a.step(now(5), won(1, nonce(1), 3));
    assert_eq!(a.step(now(10), won(2, nonce(2), 100)).notices, vec![told(1, 100)]);
    for other in 2..2 + others {
        a.step(now(11), want(other, WaitPolicy::Forever));
    }
    a
}

/// The first that waits in line asks who has it; here it is this process.
fn queue_that_knows(others: u64) -> Holder {
    let mut a = queue(others);
    let standing = lost(3, Some(mine(2, 100, 10)));
    assert_eq!(a.step(now(12), standing).requests, vec![]);
    a
}

#[test]
fn c1_who_waits_behind_others_of_its_process_asks_nothing() {
    let mut a = queue(1);
    for other in 3..30 {
        assert_eq!(a.step(now(11), want(other, WaitPolicy::Forever)).requests, vec![], "lease {other}");
    }
    assert_eq!(a.step(now(12), lost(3, Some(mine(2, 100, 10)))).requests, vec![]);
    let hinted = a.step(now(13), Event::Changed(Hint::Any));
    assert_eq!(hinted.requests, vec![read(4, "k")], "one look for all");
}

#[test]
fn s2_a_key_is_handed_on_in_one_write_with_a_higher_fence() {
    let mut a = queue_that_knows(2);
    let fence = WALL + 20;
    let hands = a.step(now(20), release(1));
    assert_eq!(hands.requests, vec![write(4, "k", unchanged(nonce(2)), mine(4, fence, 20))]);
    assert_eq!(hands.notices, vec![]);
    let step = a.step(now(25), won(4, nonce(4), fence));
    assert_eq!(step.notices, vec![Notice::Released(LEASE, true), told(2, fence)]);
    assert_eq!(step.requests, vec![], "and the one after it waits");
    assert_eq!(a.leases(), 2);
}

#[test]
fn s4_a_handover_whose_answer_was_lost_is_resolved() {
    let mut a = queue_that_knows(1);
    a.step(now(20), release(1));
    let lost_answer = a.step(now(2_520), unknown(4));
    assert_eq!(lost_answer.notices, vec![]);
    let ms = 2_700;
    let again = a.step(now(ms), Event::Wake);
    let [Request { id, .. }] = again.requests[..] else { panic!("{again:?}") };
    // Meanwhile somebody has left a letter in the record: that is no other tenure.
    let mut standing = mine(4, WALL + 20, 20);
    standing.nonce = Nonce(77);
    standing.tenure.as_mut().unwrap().mail.push(Letter::new(key("k"), Ask::Confirm));
    let step = a.step(now(ms + 5), lost(id.0, Some(standing)));
    assert_eq!(step.notices, vec![Notice::Released(LEASE, true), told(2, WALL + 20)]);
}

#[test]
fn what_is_handed_on_to_one_that_has_gone_away_goes_to_the_next_or_is_given_up() {
    let mut a = queue_that_knows(2);
    a.step(now(20), release(1));
    let gone = a.step(now(21), release(2));
    assert_eq!(gone.notices, vec![Notice::Released(LeaseId(2), false)]);
    let onwards = a.step(now(25), won(4, nonce(4), WALL + 20));
    assert_eq!(onwards.notices, vec![Notice::Released(LEASE, true)]);
    let fence = WALL + 25;
    assert_eq!(onwards.requests, vec![write(6, "k", unchanged(nonce(4)), mine(5, fence, 25))]);
    a.step(now(26), release(3));
    let given_up = a.step(now(30), won(6, nonce(5), fence));
    assert_eq!(given_up.requests, vec![write(7, "k", unchanged(nonce(5)), vacant(nonce(6), fence, 30))]);
    assert_eq!(a.step(now(35), won(7, nonce(6), fence)).notices, vec![]);
    assert_eq!(a.leases(), 0);
}

#[test]
fn who_waits_first_and_goes_away_has_the_next_one_ask() {
    let mut a = holder();
    a.step(now(0), want(1, WaitPolicy::Until(tick(4_000))));
    a.step(now(5), won(1, nonce(1), 3));
    for other in [2, 3] {
        assert_eq!(a.step(now(6), want(other, WaitPolicy::Forever)).requests, vec![]);
    }
    a.step(now(10), lost(2, Some(theirs(50, 90))));
    a.step(now(15), seen(3, Some(held("b", Nonce(40), Nonce(40), 3, 0, 0))));
    let step = a.step(now(4_000), Event::Wake);
    assert!(matches!(step.notices[..], [Notice::Held(LEASE, Some(_)), ..]), "{step:?}");
    assert!(step.requests.contains(&read(5, "k")), "{step:?}");
    // Of the two, one asks.
    let step = a.step(now(4_001), release(2));
    assert_eq!(step.requests, vec![read(6, "k")]);
}

#[test]
fn who_loses_patience_behind_others_is_told_who_has_the_key() {
    let mut a = queue_that_knows(1);
    a.step(now(20), want(7, WaitPolicy::Until(tick(1_000))));
    let by = Occupant::new(HolderId::new("a").unwrap(), Fence(100), Wall(WALL + 10));
    assert_eq!(a.step(now(1_000), Event::Wake).notices, vec![Notice::Held(LeaseId(7), Some(by))]);
}

/// Hands the key on from lease to lease each 100 ms, until it is vacated; when, and by which operation. The store may tell of each write,
/// before it answers or after.
fn hand_on_until_vacated(a: &mut Holder, is_pushed: bool) -> (u64, Request) {
    let (mut ms, mut lease) = (20, 1);
    loop {
        let step = a.step(now(ms), release(lease));
        let [request] = &step.requests[..] else { panic!("{step:?}") };
        let tenure_core::op::Op::Write(sent) = &request.op else { panic!("{step:?}") };
        if sent.record.tenure.is_none() {
            return (ms, request.clone());
        }
        let tell = |a: &mut Holder| {
            if is_pushed {
                let told = a.step(now(ms), written(sent.record.nonce.0));
                assert_eq!(told.requests, vec![], "what this process wrote is known here");
            }
        };
        if lease % 2 == 0 {
            tell(a);
        }
        a.step(now(ms), won(request.id.0, sent.record.nonce, sent.record.fence.0));
        tell(a);
        (ms, lease) = (ms + 100, lease + 1);
    }
}

#[test]
fn others_have_their_turn_after_a_sixteenth_of_a_ttl() {
    for (is_pushed, aside) in [(false, 156), (true, 19)] {
        let mut a = queue_that_knows(20);
        let (ms, vacates) = hand_on_until_vacated(&mut a, is_pushed);
        assert_eq!(ms, 720, "625 ms after the first");
        let version = nonce(99);
        let step = a.step(now(ms), won(vacates.id.0, version, 200));
        assert_eq!(step.requests, vec![], "it stands aside");
        let hinted = a.step(now(ms + 5), written(version.0));
        assert_eq!(hinted.requests, vec![], "though it is told");
        let at = later(&hinted, ms);
        assert!((ms + aside..=ms + aside + 1).contains(&at), "{at}");
        let looks = a.step(now(at), Event::Wake);
        assert_eq!(looks.requests.len(), 1, "{looks:?}");
    }
}

#[test]
fn a_key_that_another_process_asks_for_goes_to_none_of_ours() {
    let mut a = queue_that_knows(1);
    let renews = a.step(now(3_400), Event::Wake);
    let op = renews.requests.iter().find(|request| request.urgent).unwrap().id.0;
    let mut session = held("a", nonce(1), nonce(1), 3, 0, 0);
    session.nonce = Nonce(60);
    session.tenure.as_mut().unwrap().mail.push(Letter::new(key("k"), Ask::HandOver));
    let asked = a.step(now(3_405), lost(op, Some(session)));
    assert!(asked.notices.contains(&Notice::Asked(LEASE, Ask::HandOver)), "{asked:?}");
    let step = a.step(now(3_410), release(1));
    let writes = |step: &Step<Notice>| {
        step.requests.iter().any(|request| {
        matches!(&request.op, tenure_core::op::Op::Write(write) if write.key == key("k") && write.record.tenure.is_none())
    })
    };
    assert!(writes(&step), "{step:?}");
}

#[test]
fn what_is_vacated_here_is_claimed_here_without_being_told() {
    let mut a = queue_that_knows(1);
    let fields = Metadata::from([("at".to_owned(), "x".into())]);
    a.step(now(20), Event::Command(Command::Release(LEASE, Some(fields))));
    let step = a.step(now(25), won(4, nonce(4), 100));
    assert_eq!(step.requests, vec![write(5, "k", Expect::Vacant, mine(5, WALL + 25, 25))]);
}

/// Lease 1 waits for `k`, which `b` holds on its session by the write 50.
fn waiting() -> Holder {
    let mut a = holder();
    a.step(now(0), want(1, WaitPolicy::Forever));
    a.step(now(5), won(1, nonce(1), 3));
    a.step(now(10), lost(2, Some(theirs(50, 90))));
    let waits = a.step(now(15), seen(3, Some(held("b", Nonce(40), Nonce(40), 3, 0, 0))));
    assert_eq!(waits.requests, vec![]);
    a
}

#[test]
fn what_was_given_up_is_claimed_without_a_look() {
    let mut a = waiting();
    assert_eq!(a.step(now(16), written(50)).requests, vec![], "that is known");
    let claims = a.step(now(20), written(51));
    assert_eq!(claims.requests, vec![write(4, "k", Expect::Vacant, mine(3, WALL + 20, 20))]);
    assert_eq!(a.step(now(25), won(4, nonce(3), WALL + 20)).notices, vec![told(1, WALL + 20)]);
}

#[test]
fn who_loses_a_race_looks_at_the_winner_a_little_later() {
    let mut a = waiting();
    a.step(now(20), written(51));
    // The winner's own write is told before the refusal comes.
    a.step(now(21), written(52));
    let lost = a.step(now(25), lost(4, Some(theirs(52, 91))));
    assert_eq!(lost.requests, vec![], "nobody asks for the winner's session yet");
    let at = later(&lost, 25);
    assert!((140..=182).contains(&at), "within a 64th of a ttl: {at}");
    assert_eq!(a.step(now(26), written(51)).requests, vec![], "what it raced for is told late");
    assert_eq!(a.step(now(at), Event::Wake).requests, vec![read(5, "k")]);
    assert_eq!(a.step(now(at + 5), seen(5, Some(theirs(52, 91)))).requests, vec![read(6, "session/b")]);
}

#[test]
fn who_hears_of_the_winners_end_before_it_has_lost_races_again() {
    let mut a = waiting();
    a.step(now(20), written(51));
    a.step(now(21), written(53));
    let step = a.step(now(25), lost(4, Some(theirs(52, 91))));
    assert_eq!(step.requests, vec![write(5, "k", Expect::Vacant, mine(4, WALL + 25, 25))]);
}
