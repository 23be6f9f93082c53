//! Plan: one request at a time, each of which takes a second, and users who ask for the next update of a lease as soon as one is answered:
//! no lease is lost, all are updated alike, one that nobody updates is renewed, and what a look brings is taken; an update that is asked for
//! while another is under way waits for its turn, too.
use super::*;

/// One that may have one request under way and has taken these leases, by the end of the second 9.
fn holder_of(keys: &[&str], asked: &mut Vec<(Settling, ChangePurpose)>) -> WorkerMachine {
    let options = Options::new("me").failover(FAILOVER).requests_at_once(1);
    let mut worker = WorkerMachine::new(Format::kcl(), Arc::new(options));
    assert_eq!(step(&mut worker, at(9), asked), ["look"]);
    found(&mut worker, at(9), keys);
    for _ in keys {
        assert_eq!(step(&mut worker, at(9), asked).last().unwrap(), "change", "one at a time");
        made(&mut worker, at(9), at(9), asked);
    }
    step(&mut worker, at(9), asked);
    worker
}

/// A look has shown these leases, and that nobody has them.
fn found(worker: &mut WorkerMachine, now: Now, keys: &[&str]) {
    let rows = keys.iter().map(|key| Row::new(Format::kcl(), key, Fields::new()).unwrap()).collect();
    worker.on_answer(now, WorkerAnswer::Looked(Ok(RowListing { rows, ..RowListing::default() })));
}

fn update(worker: &mut WorkerMachine, now: Now, key: &str) {
    let (reply, _) = oneshot::channel();
    let update = WorkerCommand::Update { key: key.to_owned(), tenure: None, edit: Edit::new(), reply };
    worker.on_command(now, update);
}

/// Each second a request is answered. What was done from the second 10 on: the leases that were renewed or updated, and that were taken.
fn without_end(
    worker: &mut WorkerMachine,
    updated: &[&str],
    asked: &mut Vec<(Settling, ChangePurpose)>,
) -> (Vec<String>, Vec<String>) {
    let (mut kept, mut taken) = (Vec::new(), Vec::new());
    for key in updated {
        update(worker, at(9), key);
    }
    for now in 10..70 {
        let told = step(worker, at(now), asked);
        assert!(!told.iter().any(|text| text.contains("lost")), "at {now}: {told:?}");
        if told.contains(&"look".to_owned()) {
            found(worker, at(now), &["new"]);
        }
        let (settling, purpose) = asked.last().unwrap();
        let key = settling.change.before.key().to_owned();
        let is_update = matches!(purpose, ChangePurpose::Keep { update: Some(_), .. });
        if let ChangePurpose::Take { .. } = purpose { &mut taken } else { &mut kept }.push(key.clone());
        made(worker, at(now), at(now + 1), asked);
        if is_update {
            update(worker, at(now + 1), &key);
        }
    }
    (kept, taken)
}

#[test]
fn updates_without_end_keep_no_other_update_and_no_renewal_waiting() {
    let mut asked = Vec::new();
    let mut worker = holder_of(&["a", "b", "c", "d"], &mut asked);
    worker.on_command(at(9), WorkerCommand::StopTaking);
    let (kept, _) = without_end(&mut worker, &["a", "b", "c"], &mut asked);
    for key in ["a", "b", "c", "d"] {
        let times = kept.iter().filter(|kept| *kept == key).count();
        assert!(times >= 12, "{key} {times} times of {}: {kept:?}", kept.len());
    }
}

#[test]
fn updates_without_end_keep_no_take_waiting() {
    let mut asked = Vec::new();
    let mut worker = holder_of(&["a", "b"], &mut asked);
    let (_, taken) = without_end(&mut worker, &["a", "b"], &mut asked);
    assert_eq!(taken, ["new"]);
}

#[test]
fn what_is_wished_while_a_request_is_under_way_waits_for_its_turn() {
    let mut asked = Vec::new();
    let mut worker = holder_of(&["a", "b"], &mut asked);
    worker.on_command(at(9), WorkerCommand::StopTaking);
    for key in ["a", "a", "b"] {
        update(&mut worker, at(9), key);
    }
    let mut done = Vec::new();
    for now in 9..12 {
        step(&mut worker, at(now), &mut asked);
        done.push(asked.last().unwrap().0.change.before.key().to_owned());
        made(&mut worker, at(now), at(now + 1), &mut asked);
    }
    assert_eq!(done, ["a", "b", "a"]);
}
