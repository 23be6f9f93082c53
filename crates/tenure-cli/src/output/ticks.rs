//! The runs of a key's ticks, as people are told of them.

use crate::text::{date, escaped};
use tenure::once::{History, Run, RunState};
use tenure::store::reserved::ONCE;
use tenure::{Fence, Key, Metadata};
use tenure_core::once::kept_until;

/// The runs that a record tells of, in lines, the last one first, and until when `gc` leaves it alone. None if it tells of none, or is not understood
/// here. `held`: the fence of whoever holds it.
pub(crate) fn lines(
    key: &Key,
    metadata: &Metadata,
    held: Option<Fence>,
) -> Option<Vec<(&'static str, String)>> {
    if !key.as_str().starts_with(ONCE) {
        return None;
    }
    let history = History::of(metadata).ok()?;
    let last = history.last()?;
    let mut lines = vec![("tick", line(last, held == Some(last.fence)))];
    lines.extend(history.earlier().iter().map(|run| ("tick", line(run, false))));
    lines.extend(kept_until(metadata).map(|until| ("kept", format!("until {}, by gc", date(until)))));
    Some(lines)
}

fn line(run: &Run, is_held: bool) -> String {
    let mut text = format!("{}  ", date(run.tick));
    text.push_str(match run.state {
        RunState::Begun if is_held => "running",
        RunState::Begun => "begun, and nothing tells its end",
        state => state.name(),
    });
    if !run.says.is_empty() {
        text.push_str(&format!(" ({})", escaped(&run.says)));
    }
    for (what, at) in [("began", run.began), ("ended", run.ended)] {
        if let Some(at) = at {
            text.push_str(&format!(", {what} {}", date(at)));
        }
    }
    if let Some(by) = &run.by {
        text.push_str(&format!(", by {by}"));
    }
    text
}

#[cfg(test)]
mod tests {
    //! Plan: each run is a line, with how it ended and by whom; one that runs is told from one whose end nobody wrote; what is not understood, and
    //! what stands in another record, is told otherwise.
    use super::*;
    use tenure::Value;

    /// What a record keeps of three ticks.
    fn record(state: &str, more: &[(&str, Value)]) -> Metadata {
        let run = |tick: i64, state: &str, more: &[(&str, Value)]| {
            let known = [("tick", Value::from(tick)), ("state", Value::from(state))];
            let fields = known.iter().chain(more).map(|(name, value)| ((*name).to_owned(), value.clone()));
            Value::Map(fields.collect())
        };
        let earlier = [run(2000, "failed", &[("ended", Value::from(2500))]), run(1000, "begun", &[])];
        let last = [
            ("by", Value::from("host-7")),
            ("fence", Value::from(9)),
            ("began", Value::from(3100)),
            ("keep", Value::from(60_000)),
            ("earlier", Value::List(earlier.to_vec())),
        ];
        Metadata::from([("once".to_owned(), run(3000, state, &[&last[..], more].concat()))])
    }

    fn told(metadata: &Metadata, held: Option<Fence>) -> Option<Vec<String>> {
        let lines = lines(&Key::new("once/k").unwrap(), metadata, held)?;
        Some(lines.into_iter().map(|(name, text)| format!("{name}: {text}")).collect())
    }

    #[test]
    fn each_run_of_a_tick_is_a_line() {
        let says = [("ended", Value::from(3200)), ("says", Value::from("status 3\u{1b}"))];
        let expected = [
            "tick: 1970-01-01T00:00:03Z  failed (status 3\\u{1b}), began 1970-01-01T00:00:03Z, ended 1970-01-01T00:00:03Z, by host-7",
            "tick: 1970-01-01T00:00:02Z  failed, ended 1970-01-01T00:00:02Z",
            "tick: 1970-01-01T00:00:01Z  begun, and nothing tells its end",
            "kept: until 1970-01-01T00:01:00Z, by gc",
        ];
        assert_eq!(told(&record("failed", &says), None).unwrap(), expected);
    }

    #[test]
    fn what_runs_is_told_from_what_was_cut_off() {
        let first = |held| told(&record("begun", &[]), held).unwrap().swap_remove(0);
        assert!(first(Some(Fence(9))).contains("Z  running, began "), "{}", first(Some(Fence(9))));
        for held in [None, Some(Fence(10))] {
            assert!(first(held).contains("Z  begun, and nothing tells its end, began "), "{}", first(held));
        }
    }

    #[test]
    fn what_is_not_understood_is_told_as_it_stands() {
        assert_eq!(told(&record("paused", &[]), None), None);
        assert_eq!(told(&Metadata::new(), None), None);
        assert_eq!(lines(&Key::new("k").unwrap(), &record("done", &[]), None), None);
    }
}
