//! Plan: time that was hidden from the process, as its wall clock shows, ends what it holds, with no deadline of its own come; an answer to what
//! was sent before makes no holder, neither of a lease that was held nor of one that was being taken; a lease that is given up goes on being so.
use super::*;

/// At that second by all clocks but the wall clock, from which no time can be hidden.
fn after_hidden(seconds: u64, hidden_ms: u64) -> Now {
    let now = at(seconds);
    Now { wall: Wall(now.wall.0 + hidden_ms), ..now }
}

#[test]
fn s4_time_that_was_hidden_ends_all_that_is_held() {
    let mut asked = Vec::new();
    let mut worker = holder(&mut asked);
    worker.on_command(at(2), WorkerCommand::StopTaking);
    assert!(step(&mut worker, after_hidden(3, 900), &mut asked).is_empty(), "no more than clocks may err");
    let told = step(&mut worker, after_hidden(3, 20_900), &mut asked);
    assert_eq!(told, ["a is hidden", "a is lost: Expired"]);
    assert!(step(&mut worker, after_hidden(4, 20_900), &mut asked).is_empty(), "once");
}

#[test]
fn s4_an_answer_to_what_was_sent_before_time_was_hidden_makes_no_holder() {
    let mut asked = Vec::new();
    let mut worker = holder(&mut asked);
    worker.on_command(at(2), WorkerCommand::StopTaking);
    assert_eq!(step(&mut worker, at(6), &mut asked), ["change"], "a renewal");
    made(&mut worker, at(6), after_hidden(6, 20_000), &mut asked);
    assert_eq!(step(&mut worker, after_hidden(6, 20_000), &mut asked), ["a is hidden", "a is lost: Expired"]);

    let mut worker = super::worker();
    assert_eq!(step(&mut worker, at(0), &mut asked), ["look"]);
    let row = Row::new(Format::kcl(), "a", Fields::new()).unwrap();
    let listing = RowListing { rows: vec![row], ..RowListing::default() };
    worker.on_answer(at(1), WorkerAnswer::Looked(Ok(listing)));
    assert_eq!(step(&mut worker, at(1), &mut asked), ["change"], "a take");
    made(&mut worker, at(1), after_hidden(2, 20_000), &mut asked);
    let told = step(&mut worker, after_hidden(2, 20_000), &mut asked);
    assert!(
        told.contains(&"change".to_owned()) && !told.iter().any(|text| text.contains("taken")),
        "{told:?}"
    );
    assert!(asked[0].0.change.after.holder().is_none(), "it is given back");
}

#[test]
fn what_is_given_up_while_time_is_hidden_is_given_up_all_the_same() {
    let mut asked = Vec::new();
    let mut worker = holder(&mut asked);
    worker.stop(at(3), None);
    assert_eq!(step(&mut worker, at(3), &mut asked), ["a is lost: Released", "a is hidden", "change"]);
    assert!(step(&mut worker, after_hidden(4, 20_000), &mut asked).is_empty());
    handed_over(&mut worker, true, after_hidden(5, 20_000), &mut asked);
    assert_eq!(step(&mut worker, after_hidden(5, 20_000), &mut asked), ["change"]);
}
