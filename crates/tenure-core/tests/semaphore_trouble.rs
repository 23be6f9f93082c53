//! Permits of a record that the store refuses, of sessions that last for different times, and of those whose fences go back. Plan: a stop does
//! not wait for what may be refused for good; what is given up is tried at once, and soon after a repair, however long it was refused before, or its user waited; and
//! refused looks stay rare all the same; the dead are found by their own ttl, also behind many; the permits of a session whose record
//! was deleted or put back are granted on, and it has no fence twice; a copy of a refused write grants nothing; what is given up takes no longer for all that is held of others.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::core_time;
use crate::table::{KEY, Table, grants, tenths};
use std::time::Duration;
use tenure_core::semaphore::{Mode, Wish};
use tenure_core::{Command, ErrorKind, Fence, Key, LeaseId, Nonce, Notice, Record, WaitPolicy};

fn wish(mode: Mode, permits: u32) -> Wish {
    let (key, wait_policy) = (Key::new(KEY).unwrap(), WaitPolicy::Forever);
    Wish { key, permits, take: 1, mode, barges: false, wait_policy }
}

fn exclusive() -> Wish {
    wish(Mode::Exclusive, 3)
}

/// The first of two holds a permit of a record that has been refused for long.
fn refused(how: ErrorKind) -> Table {
    let mut table = Table::new(2);
    table.want(0, 1, exclusive());
    table.refuse(Some(how));
    table.run(tenths(1000));
    assert_eq!(table.held(0), [1]);
    table
}

const HOWS: [ErrorKind; 2] = [ErrorKind::Foreign, ErrorKind::Unsupported];

#[test]
fn a_stop_does_not_wait_for_what_has_been_refused_for_long() {
    for how in HOWS {
        let mut table = refused(how);
        table.command(0, Command::Stop);
        table.run(Duration::from_millis(100));
        let told = table.told(0);
        assert!(told.contains(&Notice::Released(LeaseId(1), false)), "{how:?}: {told:?}");
        assert!(told.contains(&Notice::Stopped), "{how:?}: {told:?}");
    }
}

#[test]
fn l1_permits_that_are_given_up_after_a_repair_are_free_at_once() {
    for how in HOWS {
        let mut table = refused(how);
        table.refuse(None);
        table.want(1, 2, exclusive());
        table.give(0, 1);
        assert!(table.told(0).contains(&Notice::Released(LeaseId(1), true)), "{how:?}");
        table.run(Duration::from_secs(1));
        assert_eq!(table.held(1), [2], "{how:?}");
    }
}

#[test]
fn l1_permits_that_were_given_up_before_their_record_was_repaired_are_free_soon_after() {
    let mut table = refused(ErrorKind::Foreign);
    table.give(0, 1);
    table.run(tenths(1000));
    table.refuse(None);
    table.want(1, 2, exclusive());
    table.run(tenths(7));
    assert_eq!(table.held(1), [2]);
}

#[test]
fn l1_a_claim_whose_wait_ends_at_a_damaged_record_is_out_of_the_way_soon_after_the_repair() {
    let mut table = Table::new(2);
    table.want(0, 1, exclusive());
    table.want(1, 2, exclusive());
    // Its earlier failures make no pause for what is given up.
    table.refuse(Some(ErrorKind::Unavailable));
    table.run(tenths(40));
    table.refuse(Some(ErrorKind::Foreign));
    table.run(tenths(10));
    let told = table.told(1);
    assert!(matches!(told[..], [.., Notice::Failed(LeaseId(2), _)]), "{told:?}");
    table.refuse(None);
    // That grants the claim of whom nobody waits for.
    table.give(0, 1);
    table.want(0, 3, exclusive());
    table.run(tenths(9));
    assert_eq!(table.held(0), [3]);
}

#[test]
fn c1_looks_at_a_refused_record_of_permits_that_are_held_become_rare() {
    for how in HOWS {
        let mut table = refused(how);
        let before = table.calls;
        table.run(tenths(3200));
        let looks = table.calls.reads + table.calls.writes - before.reads - before.writes;
        assert!(looks <= 20, "{how:?}: {looks}");
        // One that is denied is no quicker for being given up.
        table.give(0, 1);
        let before = table.calls;
        table.run(tenths(3200));
        let looks = table.calls.reads + table.calls.writes - before.reads - before.writes;
        let most = if how == ErrorKind::Foreign { 900 } else { 20 };
        assert!(looks <= most, "{how:?}: {looks}");
    }
}

const LONG: Duration = Duration::from_secs(3600);

#[test]
fn l5_goes_by_the_ttl_of_the_one_that_dies() {
    let mut table = Table::with_ttls(vec![LONG, tenths(10)]);
    table.want(0, 1, exclusive());
    // Its audits have shown nobody else.
    table.run(LONG * 2);
    table.give(0, 1);
    table.want(1, 2, exclusive());
    assert_eq!(table.held(1), [2]);
    table.kill(1);
    table.want(0, 3, exclusive());
    table.run(tenths(13));
    assert_eq!(table.held(0), [3]);
}

#[test]
fn l5_a_newcomer_that_dies_is_found_by_its_own_ttl() {
    let mut table = Table::with_ttls(vec![LONG, LONG, tenths(10)]);
    table.want(0, 1, wish(Mode::Shared, 3));
    table.want(1, 2, exclusive());
    // It has looked at all who are in its way.
    table.run(tenths(60));
    table.want(2, 3, Wish { barges: true, ..wish(Mode::Shared, 3) });
    assert_eq!(table.held(2), [3]);
    table.run(tenths(20));
    table.give(0, 1);
    table.run(tenths(2));
    table.kill(2);
    table.run(tenths(13));
    assert_eq!(table.held(1), [2]);
}

#[test]
fn l5_many_in_the_way_are_looked_at_as_often_as_the_shortest_lived_of_them_needs() {
    let mut ttls = vec![tenths(10); 40];
    ttls.push(LONG);
    let mut table = Table::with_ttls(ttls);
    (0..40).for_each(|seat| table.want(seat, seat as u64 + 1, wish(Mode::Shared, 40)));
    table.want(40, 41, Wish { take: 40, ..wish(Mode::Shared, 40) });
    table.run(tenths(100));
    (0..40).for_each(|seat| table.kill(seat));
    // 40 sessions are looked at in three turns.
    table.run(tenths(14) * 3);
    assert_eq!(table.held(40), [41]);
}

/// One with a long ttl waits for one with a short ttl, which dies.
fn waits_for_the_dead() -> Table {
    let mut table = Table::with_ttls(vec![LONG, tenths(10)]);
    table.want(1, 2, exclusive());
    table.want(0, 3, exclusive());
    table.run(tenths(20));
    assert_eq!(table.held(1), [2]);
    table.kill(1);
    table
}

#[test]
fn l5_a_fencing_that_did_not_arrive_is_made_again_by_the_ttl_of_the_dead() {
    let mut table = waits_for_the_dead();
    table.lose_next_fencing();
    table.run(tenths(25));
    assert_eq!(table.held(0), [3]);
}

#[test]
fn l5_a_session_that_could_not_be_read_is_looked_at_again_by_its_own_ttl() {
    let mut table = waits_for_the_dead();
    table.damage(Some("session/p1"));
    table.run(tenths(20));
    assert_eq!(table.held(0), [0; 0]);
    table.damage(None);
    table.run(tenths(15));
    assert_eq!(table.held(0), [3]);
}

#[test]
fn what_is_left_to_expire_is_free_after_a_ttl_however_long_its_record_was_refused() {
    for how in HOWS {
        let mut table = refused(how);
        table.command(0, Command::Lapse(LeaseId(1)));
        table.refuse(None);
        table.want(1, 2, exclusive());
        table.run(tenths(13));
        assert_eq!(table.held(1), [2], "{how:?}");
    }
}

#[test]
fn c1_claims_whose_writes_are_refused_while_looks_go_well_are_let_go_of() {
    let mut table = Table::new(1);
    table.refuse_writes(Some(ErrorKind::Unsupported));
    for lease in 10..30 {
        table.want(0, lease, Wish { wait_policy: WaitPolicy::Try, ..wish(Mode::Shared, 3) });
        table.run(tenths(7));
    }
    let before = table.calls;
    table.run(tenths(3200));
    assert_eq!(table.leases(0), 0);
    let calls = table.calls.reads + table.calls.writes - before.reads - before.writes;
    assert!(calls <= 60, "{calls}");
    table.refuse_writes(None);
    table.want(0, 40, wish(Mode::Shared, 3));
    assert_eq!(table.held(0), [40]);
}

#[test]
fn c1_a_session_that_can_not_be_read_for_good_is_asked_for_ever_more_seldom() {
    let mut table = waits_for_the_dead();
    table.damage(Some("session/p1"));
    table.run(tenths(20));
    let before = table.session_looks;
    table.run(tenths(3200));
    let looks = table.session_looks - before;
    assert!(looks <= 30, "{looks}");
}

#[test]
fn c1_who_waits_looks_at_sessions_of_others_no_more_often_than_they_need() {
    let mut table = Table::with_ttls(vec![tenths(10), LONG]);
    table.want(0, 1, exclusive());
    table.want(1, 2, exclusive());
    table.run(tenths(20));
    let before = table.session_looks;
    table.run(tenths(1000));
    let looks = table.session_looks - before;
    assert!((80..=160).contains(&looks), "{looks}");
}

/// Somebody whose clock is a minute ahead fences the session of the first.
fn fence_by_a_clock_ahead(table: &mut Table) -> Fence {
    let ahead = Fence(table.session_fence(0).0 + 60_000);
    let fenced = Record { fence: ahead, tenure: None, nonce: Nonce(1), ..table.copy("session/p0").unwrap() };
    table.put_back("session/p0", Some(fenced));
    table.run(tenths(10));
    ahead
}

#[test]
fn s2_a_session_has_no_fence_twice_whatever_is_done_to_its_record() {
    let mut table = Table::new(2);
    let ahead = fence_by_a_clock_ahead(&mut table);
    let fenced = table.copy("session/p0");
    table.command(0, Command::Start);
    let mut before = table.session_fence(0);
    assert!(before > ahead);
    for _ in 0..3 {
        table.put_back("session/p0", fenced.clone());
        table.run(tenths(5));
        table.command(0, Command::Start);
        assert!(table.session_fence(0) > before, "it was put back");
        before = table.session_fence(0);
        table.delete("session/p0");
        table.run(tenths(5));
        table.command(0, Command::Start);
        assert!(table.session_fence(0) > before, "it was deleted");
        before = table.session_fence(0);
    }
}

#[test]
fn l5_permits_of_a_session_that_is_deleted_and_begun_anew_are_granted_on_at_once() {
    let mut table = Table::new(2);
    fence_by_a_clock_ahead(&mut table);
    table.want(0, 1, exclusive());
    table.delete("session/p0");
    table.run(tenths(5));
    table.command(0, Command::Start);
    assert!(table.held(0).is_empty());
    table.want(1, 2, Wish { wait_policy: WaitPolicy::Try, ..exclusive() });
    assert_eq!(table.held(1), [2]);
}

#[test]
fn l5_a_copy_of_a_write_that_was_refused_grants_nothing_that_nobody_knows_of() {
    let mut table = Table::new(2);
    table.refuse_next_write_and_copy_it();
    table.want(0, 1, exclusive());
    assert!(matches!(table.told(0)[..], [Notice::Failed(LeaseId(1), _)]), "{:?}", table.told(0));
    table.run(tenths(10));
    table.let_go();
    assert!(grants(&table).is_empty(), "{:?}", grants(&table));
    assert_eq!(table.leases(0), 0);
}

#[test]
fn l5_permits_of_a_session_of_which_an_older_copy_is_put_back_are_granted_on() {
    let mut table = Table::new(2);
    let old = table.copy("session/p0");
    let ahead = fence_by_a_clock_ahead(&mut table);
    table.want(0, 1, exclusive());
    assert!(table.session_fence(0) > ahead && table.held(0) == [1]);
    table.put_back("session/p0", old);
    table.run(tenths(5));
    assert!(table.session_fence(0) < ahead && table.held(0).is_empty());
    table.want(1, 2, exclusive());
    table.run(tenths(9));
    assert!(table.held(1).is_empty(), "its process may believe still, for all that is known here");
    table.run(tenths(5));
    assert_eq!(table.held(1), [2]);
}

/// What it takes to give up 200 permits, of so many that one process holds, each of a semaphore of its own.
fn releases_take(held: u64) -> Duration {
    let mut table = Table::new(1);
    for lease in 0..held {
        table.want(0, lease, Wish { key: Key::new(format!("semaphore/{lease}")).unwrap(), ..exclusive() });
    }
    assert_eq!(table.leases(0), held as usize);
    let before = core_time();
    (0..200).for_each(|lease| table.give(0, lease));
    assert_eq!(table.leases(0), held as usize - 200);
    core_time() - before
}

#[test]
fn what_is_given_up_takes_no_longer_for_all_that_is_held_of_other_semaphores() {
    let (few, many) = (releases_take(250), releases_take(8000));
    assert!(many < few.max(Duration::from_millis(1)) * 5, "{few:?} {many:?}");
}
