//! What `doctor` found, and how it is told.

use crate::exit::{self, Failure};
use crate::say;
use crate::stores::Url;
use crate::text::count;
use serde_json::json;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grade {
    Ok,
    Warn,
    Fail,
}

impl Grade {
    fn name(self) -> &'static str {
        match self {
            Grade::Ok => "ok",
            Grade::Warn => "warn",
            Grade::Fail => "fail",
        }
    }

    /// As terminals know it.
    fn colour(self) -> &'static str {
        match self {
            Grade::Ok => "32",
            Grade::Warn => "33",
            Grade::Fail => "31",
        }
    }
}

#[derive(Debug)]
struct Check {
    grade: Grade,
    what: &'static str,
    detail: String,
}

#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Check>);

/// What no check can make better, whatever the store.
pub(super) const UNBOUND: &str =
    "Processes that leave their session (setsid) are not stopped when a lease is lost.";
pub(super) const OPEN: &str = "Whoever can write to the store can do anything to its leases.";

impl Findings {
    pub(super) fn add(&mut self, grade: Grade, what: &'static str, detail: impl Into<String>) {
        self.0.push(Check { grade, what, detail: detail.into() });
    }

    /// What can't be read, each with its name and what is wrong.
    pub(super) fn damaged(&mut self, damaged: &[String]) {
        const SHOWN: usize = 20;
        for text in damaged.iter().take(SHOWN) {
            self.add(Grade::Fail, "damaged", text);
        }
        if damaged.len() > SHOWN {
            self.add(Grade::Fail, "damaged", format!("and {} more", count(damaged.len() - SHOWN, "record")));
        }
    }

    /// Prints all of it, with what can't be promised, and says what to exit with.
    pub(super) fn report(&self, url: &Url, limits: &[&str], as_json: bool) -> Result<u8, Failure> {
        if as_json {
            self.report_json(url, limits)?;
        } else {
            self.report_text(url, limits)?;
        }
        let worst = self.0.iter().map(|check| check.grade).max();
        Ok(if worst == Some(Grade::Fail) { exit::SOME_FAILED } else { exit::OK })
    }

    fn report_json(&self, url: &Url, limits: &[&str]) -> Result<(), Failure> {
        let shown =
            |check: &Check| json!({"grade": check.grade.name(), "check": check.what, "detail": check.detail});
        let checks: Vec<_> = self.0.iter().map(shown).collect();
        say::json(&json!({"store": url.shown(), "checks": checks, "not_promised": limits}))
    }

    fn report_text(&self, url: &Url, limits: &[&str]) -> Result<(), Failure> {
        let mut text = format!("{}\n", url.shown());
        for Check { grade, what, detail } in &self.0 {
            let grade = say::coloured(&format!("{:4}", grade.name()), grade.colour(), &std::io::stdout());
            text.push_str(&format!("  {grade}  {what:12} {detail}\n"));
        }
        text.push_str("What can't be promised:\n");
        for limit in limits {
            text.push_str(&format!("  - {limit}\n"));
        }
        say::print(&text)
    }
}
