//! Plan: letters wait for their turn; a letter is written into the session as it stands, or all are told; one that stands there already is not
//! written again; what there is to tell while one is being written is told by another; one about a part waits for a store that fails and for
//! room in the mailbox.
use super::*;
use crate::fleet::worker::alone::*;
use crate::op::Request;

#[test]
fn a_letter_is_written_into_the_session_as_it_stands_or_all_are_told() {
    let session_of = |fence, mail| {
        let mut stored = session_record(1, fence, 1);
        let letter = |n: usize| Letter::new(unit(100 + n), Ask::HandOver);
        stored.record.tenure.as_mut().unwrap().mail = (0..mail).map(letter).collect();
        stored
    };
    for (found, writes) in [
        (Some(session_of(7, 0)), true),
        (Some(session_of(7, crate::values::record::MAILBOX)), false),
        (Some(session_of(8, 0)), false),
        (None, false),
    ] {
        let mut worker = worker(1);
        worker.tell_of_unit(at(100), unit(0), session(1));
        worker.lettered(at(100), session(1), unit(0), Ok(Answer::Read(found.clone())));
        let letter = Letter::new(unit(0), Ask::Take);
        let has_letter = |request: &crate::op::Request| match &request.op {
            Op::Write(write) => {
                write.record.tenure.as_ref().is_some_and(|tenure| tenure.mail.contains(&letter))
            }
            _ => false,
        };
        assert_eq!(asked(&mut worker).iter().any(has_letter), writes, "{found:?}");
        assert_eq!(worker.advance.is_idle(), writes, "{found:?}");
        for _ in 0..=ATTEMPTS {
            let lost = found.clone().map(Box::new).map(|stored| *stored);
            worker.lettered(at(100), session(1), unit(0), Ok(Answer::Write(Outcome::Lost(lost))));
        }
        assert!(!worker.letters.are_owed() && !worker.advance.is_idle(), "{found:?}");
    }
}

/// Its answers to the requests about letters: how many reads, and how many writes, there are.
fn counts(requests: &[Request]) -> (usize, usize) {
    let reads = requests.iter().filter(|request| request.op == Op::Read(session(1))).count();
    (reads, requests.iter().filter(|request| matches!(request.op, Op::Write(_))).count())
}

#[test]
fn l4_thousands_of_letters_go_before_no_renewal() {
    let mut worker = worker(50);
    for n in 1..=50 {
        worker.tell_of_part(at(100), &holder(n));
    }
    let reads = asked(&mut worker);
    assert!(reads.len() == 50 && reads.iter().all(|request| !request.urgent), "{reads:?}");
    let part = fleet().part(&holder(1)).unwrap();
    worker.lettered(at(100), session(1), part, Ok(Answer::Read(Some(session_record(1, 7, 1)))));
    let writes = asked(&mut worker);
    assert!(writes.len() == 1 && writes[0].urgent, "or it is renewed before, again and again: {writes:?}");
}

#[test]
fn a_letter_that_stands_there_unread_is_not_written_again() {
    let mut worker = worker(1);
    worker.tell_of_part(at(100), &holder(1));
    assert_eq!(counts(&asked(&mut worker)), (1, 0));
    let part = fleet().part(&holder(1)).unwrap();
    let mut stored = session_record(1, 7, 1);
    stored.record.tenure.as_mut().unwrap().post(Letter::new(part.clone(), Ask::Take));
    worker.lettered(at(100), session(1), part, Ok(Answer::Read(Some(stored))));
    assert_eq!((counts(&asked(&mut worker)), worker.letters.are_owed()), ((0, 0), false));
    assert!(worker.advance.is_idle());
}

#[test]
fn what_is_new_while_a_letter_is_being_written_is_told_by_another() {
    let mut worker = worker(1);
    let part = fleet().part(&holder(1)).unwrap();
    worker.tell_of_part(at(100), &holder(1));
    worker.lettered(at(100), session(1), part.clone(), Ok(Answer::Read(Some(session_record(1, 7, 1)))));
    assert_eq!(counts(&asked(&mut worker)), (1, 1));
    worker.tell_of_part(at(100), &holder(1));
    assert_eq!(counts(&asked(&mut worker)), (0, 0), "one at a time");
    let won =
        || Ok(Answer::Write(Outcome::Won { version: crate::values::fence::Version(9), fence: Fence(7) }));
    worker.lettered(at(101), session(1), part.clone(), won());
    assert_eq!((counts(&asked(&mut worker)), worker.letters.are_owed()), ((1, 0), true));
    worker.lettered(at(102), session(1), part, won());
    assert!(!worker.letters.are_owed());
}

#[test]
fn a_letter_about_a_part_waits_for_the_store_and_for_room_and_not_for_who_has_gone() {
    let part = fleet().part(&holder(1)).unwrap();
    let full = || {
        let mut stored = session_record(1, 7, 1);
        let letter = |n: usize| Letter::new(unit(100 + n), Ask::HandOver);
        stored.record.tenure.as_mut().unwrap().mail =
            (0..crate::values::record::MAILBOX).map(letter).collect();
        Ok(Answer::Read(Some(stored)))
    };
    let fails = || Err(StoreError::unavailable("away"));
    let waits: [&dyn Fn() -> Result<Answer, StoreError>; 2] = [&full, &fails];
    for answer in waits {
        let mut worker = worker(1);
        worker.tell_of_part(at(100), &holder(1));
        assert_eq!(counts(&asked(&mut worker)), (1, 0));
        let mut tries = 1;
        worker.lettered(at(100), session(1), part.clone(), answer());
        while let Some(due) = worker.letters.wake_at() {
            assert_eq!(due, at(100).held.after(worker.env.part(16)), "it waits for a moment");
            assert!(!worker.letters.are_owed(), "nobody who leaves waits for that");
            worker.wake_letters(at(100));
            assert_eq!(counts(&asked(&mut worker)), (0, 0), "it is not yet time");
            worker.wake_letters(at(110));
            assert_eq!((counts(&asked(&mut worker)), worker.letters.wake_at()), ((1, 0), None));
            tries += 1;
            worker.lettered(at(100), session(1), part.clone(), answer());
        }
        assert_eq!((tries, worker.letters.are_owed()), (ATTEMPTS_ABOUT_A_PART, false));
    }
    let mut worker = worker(1);
    worker.tell_of_part(at(100), &holder(1));
    worker.lettered(at(100), session(1), part, Ok(Answer::Read(Some(session_record(1, 8, 1)))));
    assert_eq!((worker.letters.wake_at(), worker.letters.are_owed()), (None, false));
}
