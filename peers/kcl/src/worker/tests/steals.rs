//! Plan: a row that its owner has renewed since it was read is stolen all the same, by one more request; not where somebody else has it by
//! then, where it is handed over or gives no work any more, where no more is taken, or a second time.
use super::*;
use crate::change::RowChange;

/// A worker with nothing, which is about to steal one of the two leases of `v`.
fn thief(asked: &mut Vec<(Settling, ChangePurpose)>) -> WorkerMachine {
    let mut worker = worker();
    assert_eq!(step(&mut worker, at(0), asked), ["look"]);
    let rows = ["a", "b"].map(|key| {
        let row = Row::new(Format::kcl(), key, Fields::new()).unwrap();
        RowChange::take(Format::kcl(), &row, "v").after
    });
    let listing = RowListing { rows: rows.into(), ..RowListing::default() };
    worker.on_answer(at(0), WorkerAnswer::Looked(Ok(listing)));
    assert_eq!(step(&mut worker, at(0), asked), ["change"]);
    worker
}

/// The take is refused, since the row is now as `is_now` makes it of what was renewed.
fn refused(
    worker: &mut WorkerMachine,
    asked: &mut Vec<(Settling, ChangePurpose)>,
    is_now: impl FnOnce(&mut Row),
) {
    let (mut settling, purpose) = asked.pop().unwrap();
    let mut row = RowChange::renew(Format::kcl(), &settling.change.before, &Edit::new()).after;
    is_now(&mut row);
    let settled = settling.on(at(1).held, Ok(ChangeAnswer::Refused(Some(row))));
    worker.on_answer(at(1), WorkerAnswer::Settled(purpose, Box::new(settled)));
}

#[test]
fn what_its_owner_has_renewed_since_it_was_read_is_stolen_by_one_more_request() {
    let mut asked = Vec::new();
    let mut worker = thief(&mut asked);
    refused(&mut worker, &mut asked, |_| {});
    assert_eq!(step(&mut worker, at(1), &mut asked), ["change"]);
    assert_eq!(asked[0].0.change.before.counter(), 3, "by the row as it is");
    made(&mut worker, at(1), at(2), &mut asked);
    assert!(step(&mut worker, at(2), &mut asked).is_empty(), "a stolen lease is told later");
    assert_eq!(worker.holdings.len(), 1);
    assert!(worker.unsettled.values().all(|unsettled| matches!(unsettled, Unsettled::Until(_))));
}

#[test]
fn what_is_stolen_by_one_more_request_is_asked_for_twice_at_most_and_only_as_it_was_chosen() {
    let mut asked = Vec::new();
    let mut worker = thief(&mut asked);
    refused(&mut worker, &mut asked, |_| {});
    step(&mut worker, at(1), &mut asked);
    refused(&mut worker, &mut asked, |_| {});
    assert!(step(&mut worker, at(1), &mut asked).is_empty(), "it waits for the next look");

    let changes: [fn(&mut Row); 4] = [
        |row| row.owner = Some(text("w")),
        |row| row.owner = None,
        |row| row.checkpoint_owner = Some(text("v")),
        |row| drop(row.fields.insert("checkpoint".to_owned(), text("SHARD_END"))),
    ];
    for change in changes {
        let mut asked = Vec::new();
        let mut worker = thief(&mut asked);
        refused(&mut worker, &mut asked, change);
        assert!(step(&mut worker, at(1), &mut asked).is_empty());
    }
    let mut asked = Vec::new();
    let mut worker = thief(&mut asked);
    worker.on_command(at(1), WorkerCommand::StopTaking);
    refused(&mut worker, &mut asked, |_| {});
    assert!(step(&mut worker, at(1), &mut asked).is_empty());
}
