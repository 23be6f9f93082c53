//! What a unit's record says about it.

use crate::keys::{JobName, NAME, NAMED, STATUS, kept_name};
use crate::output::problem::RecordProblem;
use crate::text::{cut, escaped};
use crate::work::units::{is_digest, text_of};
use tenure::{Key, Metadata, Value};

/// Fields of a unit's record.
const TAKEOVERS: &str = "takeovers";
const REASON: &str = "reason";
const OUTPUT: &str = "output";

pub(crate) use crate::keys::UnitStatus as Status;

/// What a unit's record says, beside fields that we don't know and keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) status: Status,
    /// How often it has failed.
    pub(crate) attempts: u32,
    /// How often in a row its worker has died while it had it.
    pub(crate) takeovers: u32,
    /// Not to be run before this, in Unix milliseconds.
    pub(crate) not_before: u64,
    /// Who ran it last.
    pub(crate) worker: Option<String>,
}

/// What is known at the end of one run of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran<'a> {
    pub(crate) exit: i64,
    pub(crate) host: &'a str,
    pub(crate) worker: &'a str,
    /// Both in Unix milliseconds.
    pub(crate) started: u64,
    pub(crate) finished: u64,
    /// The last lines that it wrote, if it failed and they are known.
    pub(crate) output: Option<String>,
}

impl Unit {
    /// Reads a record's metadata; none if it is no unit's.
    pub(crate) fn of(metadata: &Metadata) -> Option<Unit> {
        let status = Status::of(metadata)?;
        let number = |name| number(metadata, name);
        Some(Unit {
            status,
            attempts: u32::try_from(number("attempts")).unwrap_or(u32::MAX),
            takeovers: u32::try_from(number(TAKEOVERS)).unwrap_or(u32::MAX),
            not_before: number("not_before"),
            worker: metadata.get("worker").and_then(Value::as_text).map(str::to_owned),
        })
    }

    /// Why the record of this key, which has these metadata, is not read as a unit's, if it isn't. A status that is not known here may be a newer
    /// version's.
    pub(crate) fn problem(key: &Key, metadata: &Metadata) -> Option<RecordProblem> {
        if Unit::of(metadata).is_some() {
            let has_name = Unit::name(key, metadata).is_some();
            return (!has_name).then(|| RecordProblem::damage("the record does not tell the unit's name"));
        }
        let Some(status) = metadata.get(STATUS).and_then(Value::as_text) else {
            return Some(RecordProblem::damage("the record is not one of a job's unit"));
        };
        let status: String = status.chars().take(60).collect();
        Some(RecordProblem::newer(format!(
            "the unit has the status {status:?}, which this program does not know; upgrade it, or, if nothing newer has written that, \
             remove the whole job (`tenure work rm`)"
        )))
    }

    /// Whether it does not stand as one that was never run: by failures, by deaths of its workers, or by a time before which it is not to be run.
    pub(crate) fn is_tried(&self) -> bool {
        self.attempts > 0 || self.takeovers > 0 || self.not_before > 0
    }

    /// When it was last run to its end, or given up, in Unix milliseconds; 0 if never.
    pub(crate) fn finished(metadata: &Metadata) -> u64 {
        number(metadata, "finished")
    }

    /// Whether something has come of it, or it was reset, between these two.
    pub(crate) fn is_changed(before: &Metadata, now: &Metadata) -> bool {
        let result = |metadata: &Metadata| {
            let unit = Unit::of(metadata);
            (unit.map(|unit| (unit.status, unit.attempts, unit.not_before)), Unit::finished(metadata))
        };
        result(before) != result(now)
    }

    /// The metadata of a unit that was never run.
    pub(crate) fn fresh() -> Metadata {
        Metadata::from([(STATUS.to_owned(), Value::from(Status::Pending.name()))])
    }

    /// The same, with the unit's name, if the key does not tell it.
    pub(crate) fn called(name: Option<&[u8]>) -> Metadata {
        let mut metadata = Unit::fresh();
        if let Some(name) = name {
            metadata.insert(NAME.to_owned(), Value::Bytes(name.to_vec()));
            set_status(&mut metadata, Status::Pending);
        }
        metadata
    }

    /// What a unit is called; none if nothing tells.
    pub(crate) fn name(key: &Key, metadata: &Metadata) -> Option<Vec<u8>> {
        let (_, end) = JobName::of_key(key)?;
        if is_digest(end) {
            return kept_name(key, metadata).map(<[u8]>::to_vec);
        }
        Some(end.as_bytes().to_vec())
    }

    /// A unit as people are told of it: by its name, cut where it is long, or by its key where nothing tells the name.
    pub(crate) fn shown(key: &Key, metadata: &Metadata) -> String {
        Unit::called_as(key, Unit::name(key, metadata).as_deref())
    }

    /// A unit by its key, which is typed to remove the record. Where that has only a digest, it is the name, if it is known.
    pub(crate) fn shown_as(key: &Key, name: Option<&[u8]>) -> String {
        match (JobName::of_key(key), name) {
            (Some((_, end)), Some(name)) if is_digest(end) => shortened(name),
            _ => key.to_string(),
        }
    }

    /// As [`Unit::shown`], where the name is known otherwise, if it is.
    pub(crate) fn called_as(key: &Key, name: Option<&[u8]>) -> String {
        match (JobName::of_key(key), name) {
            (Some((_, end)), Some(name)) if is_digest(end) => shortened(name),
            (Some((_, end)), _) if !is_digest(end) => shortened(end.as_bytes()),
            _ => key.to_string(),
        }
    }

    /// The metadata to record for a run that left the unit `status`.
    pub(crate) fn record(
        mut metadata: Metadata,
        status: Status,
        attempts: u32,
        not_before: Option<u64>,
        ran: &Ran<'_>,
    ) -> Metadata {
        set_status(&mut metadata, status);
        metadata.insert("attempts".to_owned(), i64::from(attempts).into());
        metadata.insert("exit".to_owned(), ran.exit.into());
        metadata.insert("host".to_owned(), ran.host.into());
        metadata.insert("worker".to_owned(), ran.worker.into());
        metadata.insert("started".to_owned(), whole(ran.started).into());
        metadata.insert("finished".to_owned(), whole(ran.finished).into());
        match not_before {
            Some(at) => metadata.insert("not_before".to_owned(), whole(at).into()),
            None => metadata.remove("not_before"),
        };
        match &ran.output {
            Some(lines) => metadata.insert(OUTPUT.to_owned(), lines.as_str().into()),
            None => metadata.remove(OUTPUT),
        };
        // A worker that came to a result has survived.
        metadata.remove(TAKEOVERS);
        metadata.remove(REASON);
        metadata
    }

    /// The metadata of a unit whose command has ended, if workers had died while they had it: this one has survived.
    pub(crate) fn survived(metadata: &Metadata) -> Option<Metadata> {
        let mut metadata = metadata.clone();
        metadata.remove(TAKEOVERS).map(|_| metadata)
    }

    /// The metadata of a unit that is taken over from a worker that has died.
    pub(crate) fn taken_over(mut metadata: Metadata) -> Metadata {
        let takeovers = number(&metadata, TAKEOVERS).saturating_add(1);
        metadata.insert(TAKEOVERS.to_owned(), whole(takeovers).into());
        metadata
    }

    /// The metadata of a unit that has come to no result, and is not tried again for this reason, as that host found at that time, in Unix
    /// milliseconds.
    pub(crate) fn give_up(mut metadata: Metadata, reason: &str, host: &str, at: u64) -> Metadata {
        set_status(&mut metadata, Status::Failed);
        metadata.insert(REASON.to_owned(), reason.into());
        metadata.insert("host".to_owned(), host.into());
        metadata.insert("finished".to_owned(), whole(at).into());
        // Of a run before, which has ended by itself.
        for field in ["exit", "started", OUTPUT] {
            metadata.remove(field);
        }
        metadata
    }

    /// The metadata of a settled unit that is to be run again from the start.
    pub(crate) fn reset(mut metadata: Metadata) -> Metadata {
        set_status(&mut metadata, Status::Pending);
        metadata.insert("attempts".to_owned(), 0.into());
        metadata.remove("not_before");
        metadata.remove(TAKEOVERS);
        metadata.remove(REASON);
        metadata
    }
}

/// A name as it stands in a line about its unit.
fn shortened(name: &[u8]) -> String {
    const MOST: usize = 64;
    cut(&escaped(&text_of(name)), MOST)
}

/// Versions that take the end of the key for the name don't know this status, and leave the unit alone.
fn set_status(metadata: &mut Metadata, status: Status) {
    let prefix = if metadata.contains_key(NAME) { NAMED } else { "" };
    metadata.insert(STATUS.to_owned(), format!("{prefix}{}", status.name()).into());
}

fn number(metadata: &Metadata, name: &str) -> u64 {
    metadata.get(name).and_then(Value::as_i64).and_then(|n: i64| u64::try_from(n).ok()).unwrap_or(0)
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::units::{Named, named};

    #[test]
    fn a_units_record_tells_what_was_written() {
        let ran = Ran { exit: 3, host: "h", worker: "w", started: 5, finished: 9, output: None };
        let metadata = Unit::record(Unit::fresh(), Status::Pending, 2, Some(77), &ran);
        let unit = Unit::of(&metadata).unwrap();
        assert_eq!(
            unit,
            Unit {
                status: Status::Pending,
                attempts: 2,
                takeovers: 0,
                not_before: 77,
                worker: Some("w".into())
            }
        );
        let reset = Unit::of(&Unit::reset(metadata)).unwrap();
        assert_eq!((reset.status, reset.attempts, reset.not_before), (Status::Pending, 0, 0));
        assert_eq!(Unit::of(&Metadata::new()), None);
    }

    #[test]
    fn takeovers_are_counted_until_a_run_has_a_result() {
        let takeovers = |metadata: &Metadata| Unit::of(metadata).unwrap().takeovers;
        let twice = Unit::taken_over(Unit::taken_over(Unit::fresh()));
        assert_eq!(takeovers(&twice), 2);
        let ran = Ran { exit: 3, host: "h", worker: "w", started: 5, finished: 9, output: None };
        assert_eq!(takeovers(&Unit::record(twice.clone(), Status::Pending, 1, None, &ran)), 0);
        let failed = Unit::give_up(twice, "why", "h", 7);
        assert_eq!((Unit::finished(&failed), failed["host"].as_text()), (7, Some("h")));
        assert_eq!(Unit::of(&failed).unwrap().status, Status::Failed);
        assert_eq!(failed.get("reason").and_then(Value::as_text), Some("why"));
        let reset = Unit::reset(failed);
        assert_eq!((takeovers(&reset), reset.get("reason")), (0, None));
    }

    #[test]
    fn a_record_that_has_the_name_is_no_units_to_versions_that_would_take_the_key_for_it() {
        let text = |metadata: &Metadata| metadata["status"].as_text().unwrap().to_owned();
        let named = Unit::called(Some(b"\xff"));
        assert_eq!(
            (text(&named).as_str(), Unit::of(&named).unwrap().status),
            ("named-pending", Status::Pending)
        );
        let ran = Ran { exit: 0, host: "h", worker: "w", started: 5, finished: 9, output: None };
        let done = Unit::record(named.clone(), Status::Done, 0, None, &ran);
        assert_eq!((text(&done).as_str(), Unit::of(&done).unwrap().status), ("named-done", Status::Done));
        assert_eq!(
            (text(&Unit::reset(done)).as_str(), text(&Unit::give_up(named, "x", "h", 7)).as_str()),
            ("named-pending", "named-failed")
        );
        assert_eq!(Unit::called(None), Unit::fresh());
    }

    #[test]
    fn a_unit_is_told_by_its_name() {
        let name = format!("{}-{}", "a".repeat(400), "z".repeat(400));
        let Named { key, name: kept } = named("work/j/", name.as_bytes()).unwrap();
        let shown = Unit::shown(&key, &Unit::called(kept.as_deref()));
        assert!(shown.starts_with("aaaa") && shown.ends_with("zzzz") && shown.contains('…'), "{shown}");
        assert!(shown.chars().count() <= 64 && !shown.contains("sha256-"), "{shown}");
        assert_eq!(Unit::shown(&key, &Unit::fresh()), key.to_string(), "nothing tells its name");
        let plain = Key::new("work/j/u").unwrap();
        assert_eq!(Unit::shown(&plain, &Unit::fresh()), "u", "no key is known to whoever has given it");
        let long = Key::new(format!("work/j/{}\u{1b}z", "a".repeat(400))).unwrap();
        let cut = Unit::shown(&long, &Unit::fresh());
        assert!(cut.starts_with("aaaa") && cut.ends_with("a\\u{1b}z") && cut.chars().count() <= 64, "{cut}");
        let called = [Unit::called_as(&key, kept.as_deref()), Unit::called_as(&plain, None)];
        assert_eq!(called, [shown.clone(), "u".to_owned()]);
        assert_eq!(Unit::called_as(&key, None), key.to_string());
        // A record that is not read is removed by its key.
        let keyed = [Unit::shown_as(&key, kept.as_deref()), Unit::shown_as(&plain, None)];
        assert_eq!(keyed, [shown, "work/j/u".to_owned()]);
    }

    #[test]
    fn what_is_odd_is_no_unit() {
        assert_eq!(Unit::of(&[("status".to_owned(), Value::from("odd"))].into()), None);
    }
}
