//! Permits of semaphores, with several processes on one store. Plan: what is free takes one write, and what is given up is granted on in
//! the same write, in order; the dead are fenced first; lost answers are resolved by the record; what can't be had is said before
//! anything is asked, or by the record; what others do to the record behind the protocol's back is found.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::table::{KEY, Table, grants, queued, tenths};
use std::time::Duration;
use tenure_core::op::{Answer, Op};
use tenure_core::semaphore::{Mode, SemaphoreFull, SemaphoreLedger, Wish};
use tenure_core::{Command, ErrorKind, Key, LeaseId, Loss, Metadata, Notice, StoreError, WaitPolicy};

/// One permit of three, waited for.
fn one() -> Wish {
    let key = Key::new(KEY).unwrap();
    let wait_policy = WaitPolicy::Forever;
    Wish { key, permits: 3, take: 1, mode: Mode::Shared, barges: false, wait_policy }
}

fn shared(take: u32) -> Wish {
    Wish { take, ..one() }
}

fn exclusive() -> Wish {
    Wish { mode: Mode::Exclusive, ..one() }
}

fn tried(wish: Wish) -> Wish {
    Wish { wait_policy: WaitPolicy::Try, ..wish }
}

#[test]
fn c1_permits_of_a_key_that_this_process_saw_last_take_one_write_each_way() {
    let mut table = Table::new(2);
    table.want(0, 1, one());
    assert_eq!(table.held(0), [1]);
    let before = table.calls;
    table.give(0, 1);
    table.want(0, 2, one());
    table.give(0, 2);
    assert_eq!((table.calls.writes - before.writes, table.calls.reads - before.reads), (3, 0));
    // Another process guesses that there is no record, and is told what there is.
    table.want(1, 3, one());
    table.want(1, 4, tried(one()));
    let before = table.calls;
    table.give(1, 3);
    table.want(0, 5, one());
    assert_eq!((table.calls.writes - before.writes, table.calls.reads - before.reads), (3, 0));
    assert_eq!((table.held(0), table.held(1)), (vec![5], vec![4]));
}

#[test]
fn s8_no_more_permits_are_out_than_there_are_and_an_exclusive_one_is_alone() {
    let mut table = Table::new(4);
    table.want(0, 1, shared(2));
    table.want(1, 2, shared(2));
    table.want(2, 3, one());
    assert_eq!((grants(&table), queued(&table)), (vec![1], vec![2, 3]), "nobody comes before who needs more");
    table.give(0, 1);
    table.run(tenths(3));
    assert_eq!((grants(&table), queued(&table)), (vec![2, 3], vec![]));
    table.want(3, 4, exclusive());
    table.want(0, 5, one());
    table.give(2, 3);
    table.run(tenths(3));
    assert_eq!(
        (grants(&table), queued(&table)),
        (vec![2], vec![4, 5]),
        "a writer waits for all, and keeps its place"
    );
    table.give(1, 2);
    table.run(tenths(3));
    assert_eq!((grants(&table), table.held(3), queued(&table)), (vec![4], vec![4], vec![5]));
}

#[test]
fn s8_a_dead_holders_session_is_fenced_before_its_permits_are_granted_on() {
    let mut table = Table::new(2);
    table.want(0, 1, exclusive());
    table.want(1, 2, exclusive());
    table.kill(0);
    table.run(tenths(9));
    assert!(table.held(1).is_empty());
    let fence = table.session_fence(0);
    table.run(tenths(5));
    assert_eq!((table.held(1), grants(&table)), (vec![2], vec![2]));
    assert!(table.session_fence(0) > fence);
}

#[test]
fn l1_who_only_tries_takes_over_from_the_dead_at_first_sight_where_ages_are_told() {
    let mut table = Table::new(3);
    table.want(0, 1, exclusive());
    table.kill(0);
    table.run(tenths(8));
    table.want(1, 2, tried(exclusive()));
    assert!(matches!(table.told(1), [Notice::Held(LeaseId(2), Some(_))]), "{:?}", table.told(1));
    table.run(tenths(3));
    let other = Wish { permits: 5, ..tried(one()) };
    table.want(2, 3, other);
    assert_eq!((table.held(2), grants(&table)), (vec![3], vec![3]), "{:?}", table.told(2));
}

#[test]
fn l5_who_gives_up_grants_to_the_head_in_the_same_write_and_a_push_tells_it() {
    let mut table = Table::new(3);
    table.push = true;
    table.want(0, 1, exclusive());
    table.want(1, 2, exclusive());
    table.want(2, 3, exclusive());
    let before = table.calls;
    table.give(0, 1);
    assert_eq!(grants(&table), [2]);
    table.run(Duration::from_millis(10));
    assert_eq!(table.held(1), [2]);
    // The first one is refused, and shows who has joined since the last.
    assert_eq!(table.calls.writes - before.writes, 2);
    // The one behind does not look at each change: its turn is two grants away.
    assert_eq!(table.calls.reads - before.reads, 1);
}

#[test]
fn l5_without_a_push_the_head_hears_of_its_grant_within_a_poll() {
    let mut table = Table::new(2);
    table.want(0, 1, exclusive());
    table.want(1, 2, exclusive());
    table.give(0, 1);
    table.run(Duration::from_secs(1));
    assert_eq!(table.held(1), [2]);
}

#[test]
fn l5_the_dead_behind_many_who_live_are_found_by_turns() {
    let mut table = Table::new(41);
    let wish = |take| Wish { permits: 40, take, ..one() };
    (0..40).for_each(|seat| table.want(seat, seat as u64 + 1, wish(1)));
    (20..40).for_each(|seat| table.kill(seat));
    table.want(40, 41, wish(20));
    assert!(table.held(40).is_empty());
    // 40 sessions are looked at in three turns.
    table.run(tenths(14) * 3);
    assert_eq!(table.held(40), [41]);
}

#[test]
fn l6_a_later_ticket_waits_behind_an_earlier_one_unless_it_barges() {
    let mut table = Table::new(4);
    table.want(0, 1, one());
    table.want(1, 2, exclusive());
    table.want(2, 3, tried(one()));
    assert!(
        matches!(table.told(2), [Notice::Held(LeaseId(3), Some(by))] if by.holder.as_str() == "p0"),
        "{:?}",
        table.told(2)
    );
    table.want(3, 4, Wish { barges: true, ..tried(one()) });
    assert_eq!((grants(&table), queued(&table)), (vec![1, 4], vec![2]));
}

#[test]
fn l6_one_that_barges_is_granted_from_its_place_in_the_queue_as_soon_as_it_fits() {
    let mut table = Table::new(4);
    table.want(0, 1, shared(3));
    table.want(1, 2, exclusive());
    table.want(2, 3, Wish { barges: true, ..one() });
    table.want(3, 4, one());
    assert_eq!(queued(&table), [2, 3, 4]);
    table.give(0, 1);
    assert_eq!((grants(&table), queued(&table)), (vec![2], vec![3, 4]), "who comes first is still first");
}

#[test]
fn s4_a_take_whose_answer_is_lost_is_found_by_its_id_and_never_granted_twice() {
    for lands in [true, false] {
        let mut table = Table::new(1);
        table.want(0, 1, one());
        table.lose_next_write(lands);
        table.want(0, 2, one());
        assert_eq!(table.held(0), [1]);
        table.run(tenths(5));
        assert_eq!((table.held(0), grants(&table).len()), (vec![1, 2], 2), "{lands}");
    }
}

#[test]
fn s4_a_cancelled_wish_whose_write_may_still_land_is_made_impossible() {
    let mut table = Table::new(1);
    table.want(0, 1, one());
    table.hold_back_next_write();
    table.want(0, 2, one());
    table.give(0, 2);
    table.run(tenths(5));
    assert!(table.told(0).contains(&Notice::Released(LeaseId(2), false)));
    table.let_go();
    table.run(tenths(1));
    assert_eq!(grants(&table), [1]);
}

#[test]
fn s4_a_grant_that_comes_as_the_wait_is_given_up_goes_on_to_the_next() {
    let mut table = Table::new(3);
    table.want(0, 1, exclusive());
    let until = table.t().after(Duration::from_millis(500));
    table.want(1, 2, Wish { wait_policy: WaitPolicy::Until(until), ..exclusive() });
    table.want(2, 3, exclusive());
    table.cut(1);
    table.give(0, 1);
    assert_eq!(grants(&table), [2]);
    table.run(Duration::from_millis(600));
    assert!(
        matches!(table.told(1), [Notice::Held(LeaseId(2), _) | Notice::Failed(LeaseId(2), _)]),
        "{:?}",
        table.told(1)
    );
    table.mend(1);
    table.run(tenths(6));
    assert_eq!((grants(&table), table.held(2)), (vec![3], vec![3]));
}

#[test]
fn s5_a_session_that_is_lost_takes_its_permits_along_and_who_waited_waits_on() {
    let mut table = Table::new(2);
    table.want(0, 1, one());
    table.want(1, 2, shared(2));
    table.want(0, 3, one());
    assert_eq!(queued(&table), [3]);
    table.cut(0);
    table.run(tenths(15));
    assert!(
        matches!(table.told(0), [.., Notice::Lost(LeaseId(1), Loss::Unreachable(_) | Loss::Expired)]),
        "{:?}",
        table.told(0)
    );
    table.mend(0);
    table.run(tenths(20));
    assert_eq!((table.held(0), table.held(1)), (vec![3], vec![2]));
}

#[test]
fn s6_permits_that_could_not_be_ended_stay_out_for_a_full_ttl() {
    let mut table = Table::new(2);
    table.want(0, 1, exclusive());
    table.want(1, 2, exclusive());
    table.command(0, Command::Lapse(LeaseId(1)));
    assert!(table.told(0).contains(&Notice::Released(LeaseId(1), false)));
    table.run(tenths(9));
    assert_eq!(grants(&table), [1]);
    table.run(tenths(2));
    assert_eq!(grants(&table), [2]);
}

#[test]
fn s10_permits_that_their_record_does_not_show_any_more_are_lost_at_the_next_audit() {
    let mut table = Table::new(1);
    table.want(0, 1, one());
    table.delete(KEY);
    table.run(tenths(7));
    assert!(table.told(0).contains(&Notice::Lost(LeaseId(1), Loss::Deleted)), "{:?}", table.told(0));
}

#[test]
fn s10_permits_that_an_older_copy_has_granted_anew_under_another_fence_are_lost() {
    let mut table = Table::new(2);
    table.want(0, 1, exclusive());
    table.want(1, 2, exclusive());
    let copy = table.copy(KEY);
    table.give(0, 1);
    table.run(tenths(3));
    assert_eq!(table.held(1), [2]);
    table.put_back(KEY, copy);
    // It is a stray of its process there, which takes it out when it is asked to do anything about the key, and grants on.
    table.want(0, 3, one());
    table.run(tenths(7));
    assert!(table.told(1).contains(&Notice::Lost(LeaseId(2), Loss::Deleted)), "{:?}", table.told(1));
    table.run(tenths(10));
    assert_eq!((table.held(0), grants(&table)), (vec![3], vec![3]));
}

#[test]
fn what_nobody_knows_of_is_taken_out_by_its_own_process_when_somebody_asks() {
    let mut table = Table::new(2);
    table.want(0, 1, exclusive());
    let copy = table.copy(KEY);
    table.give(0, 1);
    table.put_back(KEY, copy);
    table.want(1, 2, exclusive());
    assert!(table.held(1).is_empty());
    table.run(tenths(26));
    assert_eq!(table.held(1), [2]);
}

#[test]
fn each_holder_in_the_way_is_asked_in_turn() {
    let mut table = Table::new(3);
    table.want(0, 1, one());
    table.want(1, 2, shared(2));
    let copy = table.copy(KEY);
    table.give(1, 2);
    table.put_back(KEY, copy);
    table.want(2, 3, shared(2));
    // The first of them knows its claim; the second one is asked two ttls later.
    table.run(tenths(50));
    assert_eq!((table.held(0), table.held(2)), (vec![1], vec![3]));
}

#[test]
fn s8_a_session_that_was_put_back_as_it_was_before_it_began_is_not_dead_at_once() {
    let mut table = Table::new(2);
    table.want(1, 1, exclusive());
    table.cut(1);
    table.deface("session/p1", Metadata::new());
    table.want(0, 2, exclusive());
    table.run(tenths(8));
    assert!(table.held(0).is_empty(), "its process may believe still");
    table.run(tenths(8));
    assert_eq!(table.held(0), [2]);
}

#[test]
fn what_was_gone_before_it_was_given_up_is_told_as_gone() {
    let mut table = Table::new(1);
    table.want(0, 1, one());
    table.delete(KEY);
    table.give(0, 1);
    assert!(matches!(table.told(0), [.., Notice::Released(LeaseId(1), false)]), "{:?}", table.told(0));
}

#[test]
fn who_waits_longer_than_it_wanted_is_told_who_has_it_and_leaves_the_queue() {
    let mut table = Table::new(2);
    table.want(0, 1, exclusive());
    let until = table.t().after(Duration::from_secs(2));
    table.want(1, 2, Wish { wait_policy: WaitPolicy::Until(until), ..exclusive() });
    assert_eq!(queued(&table), [2]);
    table.run(Duration::from_millis(2100));
    assert!(matches!(table.told(1), [Notice::Held(LeaseId(2), Some(by))] if by.holder.as_str() == "p0"));
    assert!(queued(&table).is_empty());
}

#[test]
fn wishes_that_can_never_be_had_are_refused_before_anything_is_asked() {
    for (wish, says) in [
        (Wish { permits: 0, ..one() }, "can't have 0 permits"),
        (Wish { permits: SemaphoreLedger::MOST_PERMITS + 1, ..one() }, "say 1 to 1073741824"),
        (shared(0), "take 1 to 3"),
        (shared(4), "4 permits of semaphore/s can't be had: it has 3"),
        (Wish { wait_policy: WaitPolicy::Watch { every: Duration::ZERO }, ..one() }, "not followed"),
    ] {
        let mut table = Table::new(1);
        table.want(0, 1, wish);
        let [Notice::Failed(_, error)] = table.told(0) else { panic!("{:?}", table.told(0)) };
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(says), "{error}");
        assert_eq!(table.calls.writes + table.calls.reads, 0);
    }
}

#[test]
fn all_say_the_same_number_as_long_as_the_key_is_used() {
    let mut table = Table::new(2);
    table.want(0, 1, one());
    table.want(1, 2, Wish { permits: 5, ..one() });
    let [Notice::Failed(_, error)] = table.told(1) else { panic!("{:?}", table.told(1)) };
    assert!(error.to_string().contains("has 3 permits as long as it is used, and not 5"), "{error}");
    table.give(0, 1);
    table.want(1, 3, Wish { permits: 5, ..one() });
    assert_eq!(table.held(1), [3]);
    let mut table = Table::new(2);
    table.want(0, 1, Wish { permits: 1, ..one() });
    table.want(1, 2, one());
    let [Notice::Failed(_, error)] = table.told(1) else { panic!("{:?}", table.told(1)) };
    assert!(error.to_string().contains("has 1 permit as long as it is used, and not 3"), "{error}");
}

#[test]
fn who_is_shared_or_exclusive_is_not_told_of_a_number_that_nobody_has_said() {
    let lock = || Wish { permits: SemaphoreLedger::MOST_PERMITS, ..one() };
    for (first, second, says) in [
        (one(), lock(), "has 3 permits as long as it is used, and is not for shared and exclusive holders"),
        (lock(), one(), "is for shared and exclusive holders as long as it is used, and has not 3 permits"),
        (lock(), Wish { permits: 1, ..one() }, "as long as it is used, and has not 1 permit:"),
    ] {
        let mut table = Table::new(2);
        table.want(0, 1, first);
        table.want(1, 2, second);
        let [Notice::Failed(_, error)] = table.told(1) else { panic!("{:?}", table.told(1)) };
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn a_record_that_would_be_too_large_is_refused_by_what_helps() {
    let mut table = Table::new(1);
    table.want(0, 1, one());
    let mut small = Table::with_bytes(1, 140);
    for lease in 1..=9 {
        small.want(0, lease, Wish { permits: 9, ..one() });
    }
    let failed: Vec<&StoreError> = small
        .told(0)
        .iter()
        .filter_map(|notice| if let Notice::Failed(_, error) = notice { Some(error) } else { None })
        .collect();
    assert!(!failed.is_empty() && small.held(0).len() >= 2, "{failed:?}");
    assert!(failed[0].to_string().contains("divide them among several semaphores"), "{}", failed[0]);
}

#[test]
fn l5_in_a_full_record_there_is_room_to_grant_all_who_wait_at_once() {
    let most = 4000;
    let mut table = Table::with_bytes(2, most);
    let wish = |mode| Wish { permits: 1 << 20, mode, ..one() };
    table.want(0, 1, wish(Mode::Exclusive));
    let fits = |lease: &u64| {
        table.want(1, *lease, wish(Mode::Shared));
        !matches!(table.told(1), [.., Notice::Failed(..)])
    };
    let readers = (2..1000).take_while(fits).count();
    assert!(readers > 50 && table.leases(1) == readers, "{readers}");
    table.give(0, 1);
    let (held, size) = (table.ledger().holders.len(), table.ledger().to_metadata().1);
    assert!(held == readers && size <= most, "{held} of {readers} in {size} bytes");
}

/// A process takes permits until the record has no room for one more. Which leases they are.
fn fill(table: &mut Table, seat: usize, wish: &Wish) -> Vec<u64> {
    let fits = |lease: &u64| {
        table.want(seat, *lease, wish.clone());
        !is_told_full(table, seat)
    };
    (1..100).take_while(fits).collect()
}

fn is_told_full(table: &Table, seat: usize) -> bool {
    matches!(table.told(seat), [.., Notice::Failed(_, error)] if SemaphoreFull::is_why(error))
}

#[test]
fn l5_who_once_found_a_record_full_looks_again_before_it_says_so_once_more() {
    let mut table = Table::with_bytes(2, 400);
    let wish = Wish { permits: 1 << 20, ..one() };
    let leases = fill(&mut table, 0, &wish);
    table.want(1, 200, wish.clone());
    assert!(leases.len() > 2 && is_told_full(&table, 1), "{leases:?} {:?}", table.told(1));
    for lease in leases {
        table.give(0, lease);
    }
    table.want(1, 201, wish.clone());
    assert_eq!(table.held(1), [201], "{:?}", table.told(1));
    table.want(0, 202, tried(wish));
    assert_eq!(table.held(0), [202], "{:?}", table.told(0));
}

#[test]
fn l5_a_record_that_is_full_of_the_dead_has_room_for_who_comes() {
    let mut table = Table::with_bytes(3, 400);
    let wish = Wish { permits: 1 << 20, ..one() };
    let leases = fill(&mut table, 0, &wish);
    table.kill(0);
    table.run(tenths(5));
    table.want(1, 200, wish.clone());
    assert!(leases.len() > 2 && is_told_full(&table, 1), "a moment ago it lived: {:?}", table.told(1));
    table.run(tenths(15));
    // It has never looked before.
    table.want(2, 201, wish.clone());
    assert_eq!((table.held(2), grants(&table)), (vec![201], vec![201]), "{:?}", table.told(2));
    table.want(1, 202, wish);
    assert_eq!(table.held(1), [202], "{:?}", table.told(1));
}

#[test]
fn who_has_no_time_to_wait_is_granted_what_is_free_and_told_who_has_it_otherwise() {
    let mut table = Table::new(2);
    let until = |table: &Table| WaitPolicy::Until(table.t());
    table.want(0, 1, Wish { wait_policy: until(&table), ..exclusive() });
    assert_eq!(table.held(0), [1]);
    let wish = Wish { wait_policy: until(&table), ..exclusive() };
    table.want(1, 2, wish);
    assert!(matches!(table.told(1), [Notice::Held(LeaseId(2), Some(by))] if by.holder.as_str() == "p0"));
    assert!(queued(&table).is_empty());
}

#[test]
fn what_is_not_a_semaphores_is_left_alone() {
    let mut table = Table::new(1);
    table.deface(KEY, [("x".to_owned(), tenure_core::Value::Null)].into());
    let before = table.copy(KEY);
    table.want(0, 1, one());
    let [Notice::Failed(_, error)] = table.told(0) else { panic!("{:?}", table.told(0)) };
    assert_eq!(error.kind(), ErrorKind::Foreign);
    assert_eq!(table.copy(KEY), before);
}

#[test]
fn permits_take_no_metadata_and_do_not_become_plain_data() {
    let mut table = Table::new(1);
    table.want(0, 1, one());
    table.command(0, Command::Update(LeaseId(1), Metadata::new()));
    assert!(
        matches!(table.told(0), [.., Notice::Failed(LeaseId(1), error)] if error.kind() == ErrorKind::Invalid)
    );
    assert_eq!(table.held(0), [1]);
}

#[test]
fn a_stop_gives_all_permits_back_and_grants_on() {
    let mut table = Table::new(2);
    table.want(0, 1, one());
    table.want(0, 2, shared(2));
    table.want(1, 3, shared(3));
    table.command(0, Command::Stop);
    table.run(Duration::from_secs(1));
    assert!(table.told(0).contains(&Notice::Stopped));
    assert_eq!(table.held(1), [3]);
}

#[test]
fn a_thousand_holders_of_as_many_processes_fit() {
    let wish = Wish { permits: 1000, ..one() };
    let mut table = Table::new(1);
    table.want(0, 1, wish);
    let one = table.copy(KEY).unwrap();
    let ledger = SemaphoreLedger::of(&one).unwrap();
    let many = (0..1000u64).map(|n| {
        let mut grant = ledger.holders[0].clone();
        let who = format!("some-host-name-{n}-4f9c5f0ad1f54d5ab6c2d7a7e1a9a0b1");
        grant.ticket.id = tenure_core::Nonce(n.into());
        grant.ticket.attachment.session = Key::new(format!("session/{who}")).unwrap();
        grant.ticket.attachment.fence = tenure_core::Fence(1_700_000_000_000 + n);
        grant.ticket.holder = tenure_core::HolderId::new(who).unwrap();
        grant
    });
    let ledger = SemaphoreLedger::new(1000, many.collect(), Vec::new());
    let (metadata, size) = ledger.to_metadata();
    assert!(size < SemaphoreLedger::MAX_BYTES / 2, "{size}");
    let read = SemaphoreLedger::of(&tenure_core::Record { metadata, ..one }).unwrap();
    assert_eq!(read, ledger);
}

#[test]
fn reading_many_and_reading_one_show_the_same() {
    // The table's store answers both: what the tests above rest on.
    let mut table = Table::new(1);
    table.want(0, 1, one());
    let key = Key::new(KEY).unwrap();
    let Ok(Answer::Read(Some(read))) = table.perform(Op::Read(key.clone())) else { panic!() };
    let many = Op::ReadMany(vec![key], tenure_core::op::Freshness::Latest);
    let Ok(Answer::Listed(listed)) = table.perform(many) else { panic!() };
    assert_eq!(listed[0].stored, Ok(read));
}
