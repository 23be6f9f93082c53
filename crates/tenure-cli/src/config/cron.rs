//! `cron`: its settings, and its schedule.

use super::{HolderInfo, Template, key, ttl};
use crate::args::cron::{self, Missed};
use crate::exit::Failure;
use chrono::{DateTime, Utc};
use croner::parser::{CronParser, Seconds};
use std::time::Duration;
use tenure::Wall;
use tenure::store::reserved;

/// `cron`.
#[derive(Debug)]
pub(crate) struct CronConfig {
    pub(crate) schedule: Schedule,
    pub(crate) key: String,
    pub(crate) missed: Missed,
    pub(crate) at_least_once: bool,
    pub(crate) ticks: Option<u64>,
    pub(crate) ttl: Duration,
    pub(crate) grace: Duration,
    pub(crate) at_most: Option<Duration>,
    /// For how long a store is waited for that is away at the start.
    pub(crate) await_store: Duration,
    pub(crate) about: HolderInfo,
    pub(crate) command: Template,
}

impl cron::CronArgs {
    pub(crate) fn validated(self) -> Result<CronConfig, Failure> {
        if self.max.is_some_and(|max| max.is_zero()) {
            return Err(Failure::usage("--max 0s leaves CMD no time at all; allow it some"));
        }
        let schedule = Schedule::parse(&self.schedule)?;
        let name = key(&self.key)?;
        // Its record has a longer name.
        key(format!("{}{name}", reserved::ONCE).as_ref())?;
        Ok(CronConfig {
            schedule,
            key: name.as_str().to_owned(),
            missed: self.missed,
            at_least_once: self.at_least_once,
            ticks: self.ticks,
            ttl: ttl(self.ttl)?,
            grace: self.grace,
            at_most: self.max,
            await_store: self.away.await_store,
            about: HolderInfo::new(None, self.command.first())?,
            command: Template::new(self.command)?,
        })
    }
}

/// When ticks are, in UTC.
#[derive(Debug)]
pub(crate) struct Schedule(croner::Cron);

impl Schedule {
    pub(crate) fn parse(text: &str) -> Result<Schedule, Failure> {
        let text = if text.trim().eq_ignore_ascii_case("@midnight") { "@daily" } else { text };
        let parser =
            CronParser::builder().seconds(Seconds::Optional).dom_and_dow(is_of_both_days(text)).build();
        // The parser takes a list with a number that was forgotten for one without it.
        let parsed = if text.split_whitespace().any(has_gap) {
            Err("a list has a member that is empty".to_owned())
        } else if fields(text)
            .is_some_and(|mut fields| fields.any(|(place, field)| has_foreign_name(place, field)))
        {
            Err("a name stands in another field than its own".to_owned())
        } else {
            parser.parse(text).map_err(|error| error.to_string())
        };
        let schedule = parsed.map(Schedule).map_err(|reason| {
            let mistake = misfit(&parser, text).unwrap_or_else(|| {
                format!("{}; write '*/5 * * * *', for example", reason.trim_end_matches('.'))
            });
            Failure::usage(format!("the schedule {text:?} can't be understood: {mistake}"))
        })?;
        if schedule.after(Wall(0)).is_none() {
            return Err(Failure::usage(format!("the schedule {text:?} has no tick at all")));
        }
        Ok(schedule)
    }

    /// The first tick that is later.
    pub(crate) fn after(&self, wall: Wall) -> Option<Wall> {
        found(self.0.find_next_occurrence(&time(wall)?, false).ok()?)
    }

    /// The last tick that is due then.
    pub(crate) fn last(&self, wall: Wall) -> Option<Wall> {
        // Ticks are whole seconds.
        let second = Wall(wall.0 - wall.0 % 1000);
        found(self.0.find_previous_occurrence(&time(second)?, true).ok()?)
    }
}

/// The fields of a schedule and what they may be. The first and the last may be missing.
const FIELDS: [(&str, &str); 7] = [
    ("second", "0 to 59"),
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31, or L for the last"),
    ("month", "1 to 12, or JAN to DEC"),
    ("day of the week", "0 to 7, where both are Sunday, or SUN to SAT"),
    ("year", "1 to 9999"),
];

/// Whether a day has to fit both of its fields, and not one of them: cron(8) asks that where one of the two begins with `*`.
fn is_of_both_days(text: &str) -> bool {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let first = usize::from(fields.len() > 5) + 2;
    [first, first + 2].iter().any(|n| fields.get(*n).is_some_and(|field| field.starts_with(['*', '?'])))
}

/// The fields with their places in [`FIELDS`]. None where it is not fields that a schedule is made of.
fn fields(text: &str) -> Option<impl Iterator<Item = (usize, &str)>> {
    let skipped = match text.split_whitespace().count() {
        5 => 1,
        6 | 7 => 0,
        _ => return None,
    };
    Some(text.split_whitespace().enumerate().map(move |(n, field)| (n + skipped, field)))
}

/// Whether a field has letters that mean nothing there. The parser takes the names of days and months for numbers in every field.
fn has_foreign_name(place: usize, field: &str) -> bool {
    const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
    const MONTHS: [&str; 12] =
        ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
    let field = field.to_ascii_uppercase();
    let mut words = field.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    words.any(|word| match place {
        3 => !matches!(word, "L" | "W" | "LW"),
        4 => !MONTHS.contains(&word),
        // The last such day of a month ends with L.
        5 => word != "L" && !DAYS.contains(&word.strip_suffix('L').unwrap_or(word)),
        _ => true,
    })
}

/// Whether a field is a list in which something is missing.
fn has_gap(field: &str) -> bool {
    field.split(',').any(str::is_empty)
}

/// The first field that is wrong by itself, and what it may be. None where it is not a field that is wrong.
fn misfit(parser: &CronParser, text: &str) -> Option<String> {
    let is_wrong = |place: usize, field: &str| {
        let alone = fields(text)?.map(|(n, _)| if n == place { field } else { "*" });
        let alone: Vec<&str> = alone.collect();
        Some(has_gap(field) || has_foreign_name(place, field) || parser.parse(&alone.join(" ")).is_err())
    };
    let (place, wrong) = fields(text)?.find(|(place, field)| is_wrong(*place, field) == Some(true))?;
    let (name, range) = FIELDS.get(place)?;
    Some(format!("its {name} is {wrong:?}; write a number from {range}, or *, */5, 1-3 or 1,3"))
}

fn time(wall: Wall) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(i64::try_from(wall.0).ok()?)
}

fn found(time: DateTime<Utc>) -> Option<Wall> {
    u64::try_from(time.timestamp()).ok()?.checked_mul(1000).map(Wall)
}

#[cfg(test)]
mod tests {
    //! Plan: ticks of usual schedules, before and after a time, and at it; what is no schedule, or has no tick, is refused by name.
    use super::*;

    #[test]
    fn ticks_are_where_the_schedule_has_them() {
        // 2024-02-29T12:34:56.789Z, a Thursday.
        let at = Wall(1_709_210_096_789);
        let around = |text: &str, at| {
            let schedule = Schedule::parse(text).unwrap();
            let shown = |tick: Option<Wall>| tick.map_or_else(String::new, |tick| tick.to_string());
            (shown(schedule.last(at)), shown(schedule.after(at)))
        };
        for (text, last, next) in [
            ("*/5 * * * *", "2024-02-29T12:30:00Z", "2024-02-29T12:35:00Z"),
            ("*/10 * * * * *", "2024-02-29T12:34:50Z", "2024-02-29T12:35:00Z"),
            ("@daily", "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"),
            ("0 6 * * MON", "2024-02-26T06:00:00Z", "2024-03-04T06:00:00Z"),
            // Both days count where one of them begins with a star, and either of them otherwise.
            ("0 0 */2 * SAT", "2024-02-17T00:00:00Z", "2024-03-09T00:00:00Z"),
            ("0 0 0 */100,1-7 * MON", "2024-02-05T00:00:00Z", "2024-03-04T00:00:00Z"),
            ("0 0 1 * */5", "2023-12-01T00:00:00Z", "2024-03-01T00:00:00Z"),
            ("0 0 5,6 * THU", "2024-02-29T00:00:00Z", "2024-03-05T00:00:00Z"),
            ("@midnight", "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"),
            ("0 0 0 1 1 * 2024,2030", "2024-01-01T00:00:00Z", "2030-01-01T00:00:00Z"),
            ("0 0 L feb *", "2024-02-29T00:00:00Z", "2025-02-28T00:00:00Z"),
            ("0 0 * * friL", "2024-02-23T00:00:00Z", "2024-03-29T00:00:00Z"),
            ("0 0 * * TUE#1", "2024-02-06T00:00:00Z", "2024-03-05T00:00:00Z"),
            ("0 0 15W MAR-apr *", "2023-04-14T00:00:00Z", "2024-03-15T00:00:00Z"),
            ("0 0 29 2 *", "2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"),
        ] {
            assert_eq!(around(text, at), (last.to_owned(), next.to_owned()), "{text}");
        }
        let minute = Wall(1_709_210_100_000);
        assert_eq!(
            around("* * * * *", minute),
            ("2024-02-29T12:35:00Z".into(), "2024-02-29T12:36:00Z".into())
        );
        assert_eq!(around("* * * * * *", Wall(minute.0 + 999)).0, "2024-02-29T12:35:00Z");
    }

    #[test]
    fn what_is_no_schedule_is_refused_by_name() {
        for bad in ["", "* * *", "1,, *", "nightly", "* * * * * * * *", "@nightly"] {
            let text = Schedule::parse(bad).unwrap_err().text;
            assert!(text.contains(&format!("{bad:?}")) && text.contains("; write '*/5 * * * *'"), "{text}");
        }
        for (bad, field) in [
            ("61 * * * *", "its minute is \"61\"; write a number from 0 to 59"),
            ("60 * * * * *", "its second is \"60\""),
            ("* 24 * * *", "its hour is \"24\"; write a number from 0 to 23"),
            ("0 0 32 * *", "its day of the month is \"32\""),
            ("0 0 * 13 *", "its month is \"13\""),
            ("0 0 1 Janury *", "its month is \"Janury\""),
            ("0 0 * * 8", "its day of the week is \"8\""),
            ("0 0 0 * * * later", "its year is \"later\""),
            ("*/0 0 * * *", "its minute is \"*/0\""),
            (", * * * * *", "its second is \",\"; write a number from 0 to 59"),
            ("5,,20 * * * *", "its minute is \"5,,20\""),
            (",5 * * * * *", "its second is \",5\""),
            ("* 1, * * *", "its hour is \"1,\""),
            ("* * * * ,", "its day of the week is \",\""),
            ("MON * * * *", "its minute is \"MON\"; write a number from 0 to 59"),
            ("0 jan * * *", "its hour is \"jan\""),
            ("0 0 MON * *", "its day of the month is \"MON\""),
            ("0 9 * MON *", "its month is \"MON\"; write a number from 1 to 12, or JAN to DEC"),
            ("0 9 * * JAN-MAR", "its day of the week is \"JAN-MAR\""),
            ("SAT,TUE * * * * *", "its second is \"SAT,TUE\""),
        ] {
            let text = Schedule::parse(bad).unwrap_err().text;
            assert!(text.contains(&format!("{bad:?}")) && text.contains(field), "{bad}: {text}");
        }
        assert!(Schedule::parse("0 0 30 2 *").unwrap_err().text.contains("no tick at all"));
    }
}
