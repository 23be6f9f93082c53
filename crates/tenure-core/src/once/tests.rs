//! Plan: who has a due tick writes that it begins, and runs it once that is written, and not otherwise; what the record shows decides for
//! both deliveries; ticks that are early, long past, or ahead of the clock; what is kept: bounded, with other fields left alone, and with
//! what only a newer version knows; records that can't be understood.
use super::*;
use crate::values::metadata::Value;

const NOW: Wall = Wall(1_000_000);
const WRITTEN: OnceEvent = OnceEvent::Written { is_held: true };

fn once(tick: u64) -> Once {
    Once::new(Wall(tick), HolderId::new("a").unwrap())
        .skew(Duration::from_millis(100))
        .keep(Duration::from_secs(60))
}

fn held(seen: &Metadata) -> OnceEvent {
    OnceEvent::Held(Fence(7), seen.clone())
}

/// What a record shows after this tick, which was begun and perhaps ended.
fn after(tick: u64, seen: &Metadata, ends: Option<(bool, &str)>) -> Metadata {
    let mut run = once(tick);
    let [OnceAction::Write(begun)] = &run.on(NOW, held(seen))[..] else { panic!("{tick} is not due") };
    assert_eq!(run.on(NOW, WRITTEN), [OnceAction::Run]);
    let Some((is_well, says)) = ends else { return begun.clone() };
    let mut ended = run.on(Wall(NOW.0 + 5), OnceEvent::Ended(is_well, says.to_owned()));
    let Some(OnceAction::Release(Some(fields))) = ended.pop() else { panic!("{ended:?}") };
    fields
}

#[test]
fn a_due_tick_is_run_once_its_beginning_is_written() {
    let mut run = once(10);
    let begun = run.on(NOW, held(&Metadata::new()));
    let [OnceAction::Write(fields)] = &begun[..] else { panic!("{begun:?}") };
    let last = History::of(fields).unwrap().last().unwrap().clone();
    assert_eq!(
        (last.tick, last.state, last.fence, last.began),
        (Wall(10), RunState::Begun, Fence(7), Some(NOW))
    );
    assert_eq!(last.by.unwrap().as_str(), "a");
    // Nothing else lets it begin.
    assert_eq!(run.clone().on(NOW, OnceEvent::Ended(true, String::new())), []);
    assert_eq!(run.clone().on(NOW, OnceEvent::NotWritten), [OnceAction::Release(None)]);
    // The answer came when the lease was over: another may have run it.
    assert_eq!(run.clone().on(NOW, OnceEvent::Written { is_held: false }), [OnceAction::Release(None)]);
    assert_eq!(run.on(NOW, WRITTEN), [OnceAction::Run]);
    assert_eq!(run.on(NOW, WRITTEN), [], "told once more");
    assert!(matches!(&run.on(NOW, OnceEvent::Ended(false, "x".into()))[..], [OnceAction::Release(Some(_))]));
    assert_eq!(run.on(NOW, OnceEvent::Ended(true, String::new())), []);
}

#[test]
fn what_the_record_shows_decides() {
    use Delivery::{AtLeastOnce, AtMostOnce};
    let nothing = Metadata::new();
    let (begun, done) = (after(20, &nothing, None), after(20, &nothing, Some((true, ""))));
    let failed = after(20, &nothing, Some((false, "exit 3")));
    let is_due = |tick, delivery, seen: &Metadata| {
        let refusal = once(tick).delivery(delivery).refusal(NOW, seen);
        assert!(refusal.is_none() || matches!(&refusal, Some(Refusal::Ran(run)) if run.tick == Wall(20)));
        refusal.is_none()
    };
    for delivery in [AtMostOnce, AtLeastOnce] {
        for seen in [&begun, &done, &failed] {
            assert!(is_due(21, delivery, seen) && !is_due(19, delivery, seen));
        }
        assert!(is_due(20, delivery, &nothing));
        assert!(!is_due(20, delivery, &done) && !is_due(20, delivery, &failed));
    }
    assert!(!is_due(20, AtMostOnce, &begun) && is_due(20, AtLeastOnce, &begun));
    let mut late = once(20);
    let told = late.on(NOW, held(&done));
    assert!(matches!(&told[..], [OnceAction::Release(None), OnceAction::Tell(Refusal::Ran(_))]), "{told:?}");
    assert_eq!(late.on(NOW, WRITTEN), []);
}

#[test]
fn clocks_that_differ_too_much_are_told() {
    assert!(once(NOW.0).check(NOW).is_ok() && once(NOW.0 - 59_999).check(NOW).is_ok());
    let early = once(NOW.0 + 1).check(NOW).unwrap_err().to_string();
    let late = once(NOW.0 - 60_000).check(NOW).unwrap_err().to_string();
    assert!(early.contains("ahead") && late.contains("kept for"), "{early} {late}");
    let seen = after(NOW.0, &Metadata::new(), None);
    let refusal = |now| once(5).refusal(Wall(now), &seen);
    assert!(matches!(refusal(NOW.0 - 100), Some(Refusal::Ran(_))));
    assert!(matches!(refusal(NOW.0 - 101), Some(Refusal::Ahead(_))));
}

#[test]
fn what_ran_is_kept_in_bounds_and_other_fields_are_left_alone() {
    let mut seen = Metadata::from([("note".to_owned(), Value::from("theirs"))]);
    for tick in 1..=9 {
        seen = after(tick, &seen, Some((tick % 2 == 0, &"ä".repeat(300))));
    }
    let history = History::of(&seen).unwrap();
    let (last, earlier) = (history.last().unwrap(), history.earlier());
    assert_eq!(
        (last.tick, last.state, last.says.len(), last.ended),
        (Wall(9), RunState::Failed, 200, Some(Wall(NOW.0 + 5)))
    );
    let earlier: Vec<_> = earlier.iter().map(|run| (run.tick.0, run.state.name())).collect();
    assert_eq!(earlier, [(8, "done"), (7, "failed"), (6, "done"), (5, "failed")]);
    assert_eq!(seen["note"], Value::from("theirs"));
    assert_eq!(
        kept_until(&seen),
        Some(Wall(60_109)),
        "also by a clock that is behind by as much as they may differ"
    );
    assert_eq!(kept_until(&Metadata::new()), None);
    // A tick that is run again is one run.
    let again = once(10).delivery(Delivery::AtLeastOnce);
    let begun = after(10, &seen, None);
    let mut run = again.clone();
    let [OnceAction::Write(fields)] = &run.on(NOW, held(&begun))[..] else { panic!() };
    assert_eq!(History::of(fields).unwrap().earlier()[0].tick, Wall(9));
}

#[test]
fn what_only_a_newer_version_knows_of_runs_is_kept_and_hides_no_other() {
    let mut seen = Metadata::new();
    for tick in 1..=3 {
        seen = after(tick, &seen, Some((true, "")));
    }
    let map = |pairs: &[(&str, Value)]| {
        Value::Map(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    };
    let skipped = map(&[("state", Value::from("skipped")), ("tick", Value::from(2))]);
    let done = map(&[("state", Value::from("done")), ("tick", Value::from(1)), ("took", Value::from(7))]);
    // The newer version keeps more of them, too.
    let mut kept = vec![skipped.clone(), done];
    kept.resize(6, skipped);
    let Some(Value::Map(field)) = seen.get_mut("once") else { panic!("nothing is kept") };
    field.insert("zone".to_owned(), Value::from("b"));
    field.insert("earlier".to_owned(), Value::List(kept.clone()));
    assert!(matches!(once(3).refusal(NOW, &seen), Some(Refusal::Ran(run)) if run.tick == Wall(3)));
    for ends in [None, Some((true, ""))] {
        let next = after(4, &seen, ends);
        let Value::Map(field) = &next["once"] else { panic!("{next:?}") };
        assert_eq!(field["zone"], Value::from("b"));
        let Value::List(earlier) = &field["earlier"] else { panic!("{field:?}") };
        assert_eq!((earlier.len(), &earlier[1..]), (6, &kept[..5]));
        let told: Vec<u64> = History::of(&next).unwrap().earlier().iter().map(|run| run.tick.0).collect();
        assert_eq!(told, [3, 1]);
    }
}

#[test]
fn what_can_not_be_understood_is_told_and_kept() {
    let seen = after(3, &after(2, &Metadata::new(), None), Some((true, "ok")));
    let Value::Map(field) = &seen["once"] else { panic!() };
    for (name, bad) in [
        ("tick", Value::from("x")),
        ("state", Value::from("lost")),
        ("earlier", Value::from(1)),
        ("by", Value::from(1)),
        ("says", Value::from(1)),
    ] {
        let mut field = field.clone();
        field.insert(name.to_owned(), bad);
        let damaged = Metadata::from([("once".to_owned(), Value::Map(field))]);
        assert!(matches!(once(9).refusal(NOW, &damaged), Some(Refusal::Damaged(_))), "{name}");
    }
    let other = Metadata::from([("once".to_owned(), Value::from("mine"))]);
    assert!(History::of(&other).is_err() && kept_until(&other).is_none());
    let newer = Metadata::from([("once".to_owned(), Value::Map(Metadata::new()))]);
    assert_eq!(kept_until(&newer), Some(Wall(u64::MAX)));
}

#[test]
fn the_form_in_which_it_is_kept_is_fixed() {
    let seen = after(3, &after(2, &Metadata::new(), Some((false, ""))), Some((true, "ok")));
    let map = |pairs: &[(&str, Value)]| {
        Value::Map(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    };
    let earlier =
        map(&[("ended", Value::from(1_000_005)), ("state", Value::from("failed")), ("tick", Value::from(2))]);
    let last = map(&[
        ("began", Value::from(1_000_000)),
        ("by", Value::from("a")),
        ("earlier", Value::List(vec![earlier])),
        ("ended", Value::from(1_000_005)),
        ("fence", Value::from(7)),
        ("keep", Value::from(60_103)),
        ("says", Value::from("ok")),
        ("state", Value::from("done")),
        ("tick", Value::from(3)),
    ]);
    assert_eq!(seen, Metadata::from([("once".to_owned(), last)]));
}
