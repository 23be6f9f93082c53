//! Plan: all that comes of each step of one lease's life, in order: whoever asked for a look is answered after the lease is told
//! that it brought; who gives a lease up is answered after it is no longer shown; one that the KCL's leader begins to hand over just
//! then is handed over before that answer, and one that is ours all the same is given up again; a lease whose time has run out is
//! hidden and told as lost, without an answer of the table's, or with one that comes too late, counted from before the last renewal that won was sent;
//! where another request than the last take's may have set its row, from before that was read; an update that waits is made though the lease is to be given up after it;
//! a lease whose users have seen its end sooner is not renewed any more; a look keeps no renewal waiting; the end of a shard is told once; what is asked
//! of a tenure is not done with a later one of the same lease.
mod hidden_time;
mod queue;
mod steals;

use super::*;
use crate::row::Fields;
use crate::settling::{ChangeAnswer, Settled};
use crate::table::RowListing;
use tenure_core::Wall;
use tenure_dynamodb::service::text;
use tokio::sync::oneshot;

const FAILOVER: Duration = Duration::from_secs(10);

fn at(seconds: u64) -> Now {
    let tick = Tick(0).after(Duration::from_secs(1_000 + seconds));
    Now { held: tick, waited: tick, wall: Wall(1_700_000_000_000 + seconds * 1000) }
}

fn worker() -> WorkerMachine {
    WorkerMachine::new(Format::kcl(), Arc::new(Options::new("me").failover(FAILOVER)))
}

/// What has come of a step, in words. What is to be changed is put aside.
fn step(worker: &mut WorkerMachine, now: Now, asked: &mut Vec<(Settling, ChangePurpose)>) -> Vec<String> {
    let mut told = Vec::new();
    for output in worker.step(now) {
        told.push(match output {
            WorkerOutput::Request(WorkerRequest::Look) => "look".to_owned(),
            WorkerOutput::Request(WorkerRequest::Settle(settling, purpose)) => {
                asked.push((*settling, purpose));
                "change".to_owned()
            }
            WorkerOutput::Notice(WorkerNotice::Taken(cell)) => format!("{} is taken", cell.key()),
            WorkerOutput::Notice(WorkerNotice::Lost(cell, loss)) => {
                format!("{} is lost: {loss:?}", cell.key())
            }
            WorkerOutput::Notice(notice) => format!("{notice:?}"),
            WorkerOutput::Hide(key) => format!("{key} is hidden"),
            WorkerOutput::Reply(Answered::Done(_, done)) => format!("done: {done:?}"),
            WorkerOutput::Reply(Answered::Looked(_, looked)) => format!("looked: {looked:?}"),
            WorkerOutput::Reply(Answered::Renewed(_)) => "renewed".to_owned(),
        });
    }
    told
}

/// The change that was asked for last is made, by a request that was sent then, and answered later.
fn made(worker: &mut WorkerMachine, sent: Now, now: Now, asked: &mut Vec<(Settling, ChangePurpose)>) {
    let (settling, purpose) = asked.pop().unwrap();
    let settled = Settled::Made(sent.held, Some(settling.change.after));
    worker.on_answer(now, WorkerAnswer::Settled(purpose, Box::new(Ok(settled))));
}

/// One that has just taken the lease `a`, because somebody asked for a look.
fn holder(asked: &mut Vec<(Settling, ChangePurpose)>) -> WorkerMachine {
    let mut worker = worker();
    let (reply, _) = oneshot::channel();
    worker.on_command(at(0), WorkerCommand::Look { reply });
    assert_eq!(step(&mut worker, at(0), asked), ["look"]);
    assert!(step(&mut worker, at(0), asked).is_empty(), "early steps are harmless");
    let row = Row::new(Format::kcl(), "a", Fields::new()).unwrap();
    let listing = RowListing { rows: vec![row], ..RowListing::default() };
    worker.on_answer(at(1), WorkerAnswer::Looked(Ok(listing)));
    assert_eq!(step(&mut worker, at(1), asked), ["change"], "the look is not dealt with yet");
    made(&mut worker, at(1), at(2), asked);
    assert_eq!(step(&mut worker, at(2), asked), ["a is taken", "looked: Ok(())"]);
    worker
}

#[test]
fn who_asked_is_answered_after_users_see_what_came_of_it() {
    let mut asked = Vec::new();
    let mut worker = holder(&mut asked);
    let (reply, _) = oneshot::channel();
    worker.on_command(at(3), WorkerCommand::End { key: "a".into(), tenure: None, delete: false, reply });
    assert_eq!(step(&mut worker, at(3), &mut asked), ["a is hidden", "change"]);
    made(&mut worker, at(3), at(4), &mut asked);
    assert_eq!(step(&mut worker, at(4), &mut asked), ["a is hidden", "done: Ok(())"]);
}

/// The change that was asked for last is refused: the KCL's leader hands the lease over, and leaves the counter as it is.
fn handed_over(
    worker: &mut WorkerMachine,
    is_lost: bool,
    now: Now,
    asked: &mut Vec<(Settling, ChangePurpose)>,
) {
    let (mut settling, purpose) = asked.pop().unwrap();
    if is_lost {
        settling.on(now.held, Err(StoreError::unknown("no answer"))).unwrap_err();
    }
    let mut handing = settling.change.before.clone();
    (handing.owner, handing.checkpoint_owner) = (Some(text("next")), Some(text("me")));
    let settled = settling.on(now.held, Ok(ChangeAnswer::Refused(Some(handing))));
    worker.on_answer(now, WorkerAnswer::Settled(purpose, Box::new(settled)));
}

#[test]
fn what_is_given_up_while_the_kcl_s_leader_hands_it_over_goes_to_the_next_one() {
    for is_lost in [false, true] {
        let mut asked = Vec::new();
        let mut worker = holder(&mut asked);
        let (reply, _) = oneshot::channel();
        worker.on_command(at(3), WorkerCommand::End { key: "a".into(), tenure: None, delete: false, reply });
        assert_eq!(step(&mut worker, at(3), &mut asked), ["a is hidden", "change"]);
        handed_over(&mut worker, is_lost, at(4), &mut asked);
        assert_eq!(step(&mut worker, at(4), &mut asked), ["change"], "the row says still that we work on it");
        let change = &asked[0].0.change;
        assert!(change.expressions.update.ends_with("REMOVE #checkpointOwner"), "{change:?}");
        assert_eq!(change.after.holder(), Some("next"));
        made(&mut worker, at(4), at(5), &mut asked);
        assert_eq!(step(&mut worker, at(5), &mut asked), ["a is hidden", "done: Ok(())"]);
    }

    let mut asked = Vec::new();
    let mut worker = holder(&mut asked);
    worker.stop(at(3), None);
    assert_eq!(step(&mut worker, at(3), &mut asked), ["a is lost: Released", "a is hidden", "change"]);
    handed_over(&mut worker, false, at(4), &mut asked);
    assert!(!worker.is_over(at(4)), "the next one would wait for a failover time");
    assert_eq!(step(&mut worker, at(4), &mut asked), ["change"]);
    made(&mut worker, at(4), at(5), &mut asked);
    assert!(worker.is_over(at(5)));
}

#[test]
fn what_is_given_up_and_ours_all_the_same_is_given_up_again_without_a_word_of_who_believes() {
    let mut asked = Vec::new();
    let mut worker = holder(&mut asked);
    let (reply, _) = oneshot::channel();
    worker.on_command(at(3), WorkerCommand::End { key: "a".into(), tenure: None, delete: false, reply });
    assert_eq!(step(&mut worker, at(3), &mut asked), ["a is hidden", "change"]);
    let (settling, purpose) = asked.pop().unwrap();
    assert!(settling.change.after.is_surely_free());
    // A late renewal of ours, or a leader that assigns it to us again.
    let mut standing = settling.change.before.clone();
    standing.counter += 2;
    let refused = Ok(Settled::Refused(Some(standing)));
    worker.on_answer(at(4), WorkerAnswer::Settled(purpose, Box::new(refused)));
    assert_eq!(step(&mut worker, at(4), &mut asked), ["change"]);
    let after = &asked[0].0.change.after;
    assert!(after.holder().is_none() && !after.is_surely_free(), "somebody may have had it in between");
    made(&mut worker, at(4), at(5), &mut asked);
    assert_eq!(step(&mut worker, at(5), &mut asked), ["a is hidden", "done: Ok(())"]);
}

#[test]
fn s1_a_lease_is_over_at_its_deadline_whatever_the_table_says() {
    let mut asked = Vec::new();
    let mut worker = holder(&mut asked);
    worker.on_command(at(2), WorkerCommand::StopTaking);
    assert_eq!(worker.pause(at(2)), Duration::from_secs(1), "never longer than a tenth of a failover time");
    assert_eq!(step(&mut worker, at(5), &mut asked), ["change"], "a renewal");
    made(&mut worker, at(5), at(8), &mut asked);
    assert_eq!(step(&mut worker, at(9), &mut asked), ["change"], "another, which stays without an answer");
    let told = step(&mut worker, at(13), &mut asked);
    assert!(told.is_empty(), "it is believed for 0.82 of a failover time: {told:?}");
    let told = step(&mut worker, at(14), &mut asked);
    assert_eq!(told, ["a is hidden", "a is lost: Expired"], "from before the renewal was sent");
    let (_, purpose) = asked.pop().unwrap();
    assert!(matches!(purpose, ChangePurpose::Keep { .. }), "{purpose:?}");
    let late = Settled::Made(at(9).held, None);
    worker.on_answer(at(15), WorkerAnswer::Settled(purpose, Box::new(Ok(late))));
    assert!(step(&mut worker, at(15), &mut asked).is_empty(), "what is lost stays so");
}

#[test]
fn s1_a_take_is_believed_from_before_it_was_sent() {
    let mut asked = Vec::new();
    let mut worker = holder(&mut asked);
    worker.on_command(at(2), WorkerCommand::StopTaking);
    assert_eq!(step(&mut worker, at(9), &mut asked), ["change"], "a renewal, which stays without an answer");
    assert_eq!(step(&mut worker, at(10), &mut asked), ["a is hidden", "a is lost: Expired"]);
}

#[test]
fn s1_a_take_whose_row_an_earlier_request_may_have_set_is_believed_from_before_that_row_was_read() {
    let mut asked = Vec::new();
    let mut worker = worker();
    assert_eq!(step(&mut worker, at(0), &mut asked), ["look"]);
    let row = Row::new(Format::kcl(), "a", Fields::new()).unwrap();
    let listing = RowListing { rows: vec![row], ..RowListing::default() };
    worker.on_answer(at(2), WorkerAnswer::Looked(Ok(listing)));
    assert_eq!(step(&mut worker, at(2), &mut asked), ["change"]);
    let (mut settling, purpose) = asked.pop().unwrap();
    // The first request gets nowhere. The second one finds what an earlier take asked for, which was given up long ago.
    settling.on(at(2).held, Err(StoreError::unknown("no answer"))).unwrap_err();
    let made = settling.change.after.clone();
    let settled = settling.on(at(3).held, Ok(ChangeAnswer::Refused(Some(made))));
    worker.on_answer(at(3), WorkerAnswer::Settled(purpose, Box::new(settled)));
    assert_eq!(step(&mut worker, at(3), &mut asked), ["a is taken"]);
    assert_eq!(worker.holdings["a"].cell.until(), worker.options.believed_until(at(0).held));
}

#[test]
fn s5_an_answer_that_comes_after_the_deadline_brings_no_lease_back() {
    let mut asked = Vec::new();
    let mut worker = holder(&mut asked);
    worker.on_command(at(2), WorkerCommand::StopTaking);
    let held = Arc::clone(&worker.holdings["a"].cell);
    assert_eq!(step(&mut worker, at(5), &mut asked), ["change"], "a renewal");
    made(&mut worker, at(5), at(10), &mut asked);
    assert_eq!(held.until(), Tick(0), "who waits for its end was told");
    assert_eq!(step(&mut worker, at(10), &mut asked), ["a is hidden", "a is lost: Expired"]);
}

#[test]
fn s5_a_lease_whose_end_its_users_have_seen_sooner_is_not_brought_back_and_told_as_lost() {
    for is_answered in [true, false] {
        let mut asked = Vec::new();
        let mut worker = holder(&mut asked);
        worker.on_command(at(2), WorkerCommand::StopTaking);
        let held = Arc::clone(&worker.holdings["a"].cell);
        assert_eq!(step(&mut worker, at(5), &mut asked), ["change"], "a renewal");
        // They look at the clock after this worker has, and before it is through with that answer.
        assert!(held.is_over(at(10).held));
        let now = if is_answered { at(9) } else { at(10) };
        if is_answered {
            made(&mut worker, at(5), now, &mut asked);
        }
        assert_eq!(step(&mut worker, now, &mut asked), ["a is hidden", "a is lost: Expired"]);
        assert_eq!(held.until(), Tick(0));
    }
}

#[test]
fn s6_an_update_that_waits_is_not_made_once_the_lease_is_left_to_expire() {
    for is_handed_over in [false, true] {
        let mut asked = Vec::new();
        let mut worker = holder(&mut asked);
        worker.on_command(at(2), WorkerCommand::StopTaking);
        let tenure = asked_update(&mut worker, at(3));
        assert_eq!(step(&mut worker, at(3), &mut asked), ["change"]);
        asked_update(&mut worker, at(3));
        worker.on_command(at(4), WorkerCommand::Lapse { tenure });
        let told = step(&mut worker, at(4), &mut asked);
        assert!(told.iter().any(|text| text.starts_with("done: Err(NotHeld")), "{told:?}");
        if is_handed_over {
            handed_over(&mut worker, false, at(5), &mut asked);
        } else {
            made(&mut worker, at(3), at(5), &mut asked);
        }
        let told = step(&mut worker, at(5), &mut asked);
        assert!(!told.contains(&"change".to_owned()), "{told:?}");
        assert!(told.iter().any(|text| text.starts_with("done: ")), "whoever asked is answered: {told:?}");
    }
}

#[test]
fn an_update_that_waits_is_made_before_the_lease_is_given_up() {
    for all in [false, true] {
        let mut asked = Vec::new();
        let mut worker = holder(&mut asked);
        worker.on_command(at(2), WorkerCommand::StopTaking);
        assert_eq!(step(&mut worker, at(5), &mut asked), ["change"], "a renewal, which takes its time");
        asked_update(&mut worker, at(6));
        if all {
            worker.stop(at(7), None);
        } else {
            let (reply, _) = oneshot::channel();
            worker.on_command(
                at(7),
                WorkerCommand::End { key: "a".into(), tenure: None, delete: false, reply },
            );
        }
        let told = step(&mut worker, at(7), &mut asked);
        assert!(!told.contains(&"change".to_owned()), "one after the other: {told:?}");
        made(&mut worker, at(5), at(8), &mut asked);
        assert_eq!(step(&mut worker, at(8), &mut asked), ["change"]);
        let (settling, purpose) = asked.last().unwrap();
        assert!(matches!(purpose, ChangePurpose::Keep { update: Some(_), .. }), "{purpose:?}");
        assert!(settling.patience(at(8).held) > FAILOVER / 3, "there is time for an answer");
        made(&mut worker, at(8), at(9), &mut asked);
        let told = step(&mut worker, at(9), &mut asked);
        assert_eq!(told.last().unwrap(), "change", "and then it is given up: {told:?}");
        assert!(told.contains(&"done: Ok(())".to_owned()), "{told:?}");
        assert!(asked.last().unwrap().0.change.after.holder().is_none());
    }
}

#[test]
fn leases_are_renewed_while_the_table_is_read_however_few_requests_may_be_under_way() {
    let options = Options::new("me").failover(FAILOVER).requests_at_once(1);
    let mut asked = Vec::new();
    let mut worker = WorkerMachine::new(Format::kcl(), Arc::new(options));
    assert_eq!(step(&mut worker, at(0), &mut asked), ["look"]);
    let rows = ["a", "b"].map(|key| Row::new(Format::kcl(), key, Fields::new()).unwrap());
    let listing = RowListing { rows: rows.into(), ..RowListing::default() };
    worker.on_answer(at(0), WorkerAnswer::Looked(Ok(listing)));
    for _ in 0..2 {
        assert_eq!(step(&mut worker, at(0), &mut asked).last().unwrap(), "change", "one at a time");
        made(&mut worker, at(0), at(0), &mut asked);
    }
    step(&mut worker, at(0), &mut asked);
    // The next look, which takes its time.
    assert_eq!(step(&mut worker, at(5), &mut asked), ["look", "change"]);
    made(&mut worker, at(5), at(5), &mut asked);
    assert_eq!(step(&mut worker, at(5), &mut asked), ["change"]);
}

#[test]
fn a_shard_that_was_read_to_its_end_is_told_once_where_rows_are_shards() {
    for (format, shards, is_told) in [
        (Format::kcl(), None, true),
        (Format::kcl(), Some(false), false),
        (Format::a8m(), None, false),
        (Format::a8m(), Some(true), true),
    ] {
        let mut options = Options::new("me").failover(FAILOVER);
        options.shards = shards;
        let mut asked = Vec::new();
        let mut worker = WorkerMachine::new(format, Arc::new(options));
        step(&mut worker, at(0), &mut asked);
        let row = Row::new(format, "a", Fields::new()).unwrap();
        let listing = RowListing { rows: vec![row], ..RowListing::default() };
        worker.on_answer(at(0), WorkerAnswer::Looked(Ok(listing)));
        step(&mut worker, at(0), &mut asked);
        made(&mut worker, at(0), at(0), &mut asked);
        step(&mut worker, at(0), &mut asked);
        worker.on_command(at(0), WorkerCommand::StopTaking);
        for (now, says) in [(4, is_told), (8, false)] {
            assert_eq!(step(&mut worker, at(now), &mut asked), ["change"]);
            let (settling, purpose) = asked.pop().unwrap();
            let mut after = settling.change.after;
            after.fields.insert("checkpoint".to_owned(), text("SHARD_END"));
            let settled = Settled::Made(at(now).held, Some(after));
            worker.on_answer(at(now), WorkerAnswer::Settled(purpose, Box::new(Ok(settled))));
            let told = step(&mut worker, at(now), &mut asked);
            assert_eq!(told.iter().any(|text| text.starts_with("Finished")), says, "{told:?}");
        }
    }
}

/// Somebody asks for an update of `a`. Its tenure.
fn asked_update(worker: &mut WorkerMachine, now: Now) -> Arc<TenureCell> {
    let (reply, _) = oneshot::channel();
    let update = WorkerCommand::Update { key: "a".into(), tenure: None, edit: Edit::new(), reply };
    worker.on_command(now, update);
    Arc::clone(&worker.holdings["a"].cell)
}

#[test]
fn s6_what_is_wished_of_a_tenure_is_not_done_with_a_later_one_of_the_same_lease() {
    let mut asked = Vec::new();
    let mut worker = holder(&mut asked);
    let old = Arc::clone(&worker.holdings["a"].cell);
    assert_eq!(
        step(&mut worker, at(6), &mut asked),
        ["look", "change"],
        "the renewal stays without an answer"
    );
    assert_eq!(step(&mut worker, at(10), &mut asked), ["a is hidden", "a is lost: Expired"]);
    // The row was deleted and made anew, so that its counter is where it was.
    let row = Row::new(Format::kcl(), "a", Fields::new()).unwrap();
    let listing = RowListing { rows: vec![row], ..RowListing::default() };
    worker.on_answer(at(11), WorkerAnswer::Looked(Ok(listing)));
    asked.clear();
    assert_eq!(step(&mut worker, at(11), &mut asked), ["change"]);
    made(&mut worker, at(11), at(11), &mut asked);
    let told = step(&mut worker, at(11), &mut asked);
    assert!(told.contains(&"a is taken".to_owned()), "{told:?}");
    worker.on_command(at(11), WorkerCommand::StopTaking);
    let new = Arc::clone(&worker.holdings["a"].cell);
    assert_eq!(new.counter_at_take(), old.counter_at_take());
    let wishes = |tenure: &Arc<TenureCell>| {
        let (key, edit) = ("a".to_owned(), Edit::new());
        let update = WorkerCommand::Update {
            key: key.clone(),
            tenure: Some(Arc::clone(tenure)),
            edit,
            reply: oneshot::channel().0,
        };
        let (tenure, reply) = (Some(Arc::clone(tenure)), oneshot::channel().0);
        [update, WorkerCommand::End { key, tenure, delete: false, reply }]
    };
    for wish in wishes(&old) {
        worker.on_command(at(11), wish);
        assert_eq!(step(&mut worker, at(11), &mut asked), ["done: Err(NotHeld(\"a\"))"]);
    }
    worker.on_command(at(11), WorkerCommand::Lapse { tenure: old });
    assert!(step(&mut worker, at(11), &mut asked).is_empty());
    let [update, _] = wishes(&new);
    worker.on_command(at(11), update);
    assert_eq!(step(&mut worker, at(11), &mut asked), ["change"]);
    made(&mut worker, at(11), at(11), &mut asked);
    assert_eq!(step(&mut worker, at(11), &mut asked), ["done: Ok(())"]);
}

#[test]
fn s6_a_release_that_is_under_way_is_not_made_again_once_the_lease_is_left_to_expire() {
    let mut asked = Vec::new();
    let mut worker = holder(&mut asked);
    worker.on_command(at(2), WorkerCommand::StopTaking);
    let tenure = Arc::clone(&worker.holdings["a"].cell);
    worker.stop(at(3), None);
    assert_eq!(step(&mut worker, at(3), &mut asked), ["a is lost: Released", "a is hidden", "change"]);
    worker.on_command(at(3), WorkerCommand::Lapse { tenure });
    handed_over(&mut worker, false, at(4), &mut asked);
    let told = step(&mut worker, at(4), &mut asked);
    assert!(!told.contains(&"change".to_owned()), "{told:?}");
}

#[test]
fn a_renewal_of_all_does_not_wait_for_what_is_left_to_expire() {
    for is_asked_before in [false, true] {
        let mut asked = Vec::new();
        let mut worker = holder(&mut asked);
        worker.on_command(at(2), WorkerCommand::StopTaking);
        let tenure = Arc::clone(&worker.holdings["a"].cell);
        let renew = |worker: &mut WorkerMachine| {
            let (reply, _) = oneshot::channel();
            worker.on_command(at(3), WorkerCommand::Renew { reply });
        };
        if is_asked_before {
            renew(&mut worker);
        }
        worker.on_command(at(3), WorkerCommand::Lapse { tenure });
        if !is_asked_before {
            renew(&mut worker);
        }
        let told = step(&mut worker, at(3), &mut asked);
        assert!(told.contains(&"renewed".to_owned()) && !told.contains(&"change".to_owned()), "{told:?}");
    }
}
