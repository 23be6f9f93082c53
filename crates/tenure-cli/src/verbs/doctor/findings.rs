//! What `doctor` found, and how it is told.

use crate::exit::{self, Failure};
use crate::output;
use crate::stores::Url;
use crate::supervise::{self, Reach};
use crate::text::count;
use serde_json::json;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grade {
    /// As it should be.
    Ok,
    /// Worth knowing, and no danger.
    Note,
    /// A hazard: leases can be lost by it, or something can't be done.
    Warn,
    /// A check failed: leases are not safe here, or can't be had.
    Fail,
}

impl Grade {
    fn name(self) -> &'static str {
        match self {
            Grade::Ok => "ok",
            Grade::Note => "note",
            Grade::Warn => "warn",
            Grade::Fail => "fail",
        }
    }

    /// As terminals know it.
    fn colour(self) -> &'static str {
        match self {
            Grade::Ok => "32",
            Grade::Note => "36",
            Grade::Warn => "33",
            Grade::Fail => "31",
        }
    }
}

#[derive(Debug)]
struct Finding {
    grade: Grade,
    what: &'static str,
    detail: String,
}

#[derive(Debug, Default)]
pub(super) struct Findings {
    checks: Vec<Finding>,
    /// What the store can do, as it is opened.
    capabilities: Vec<(&'static str, String)>,
}

/// What no check can make better, whatever the store.
pub(super) const UNBOUND: &str = "If tenure is killed (SIGKILL), its watchdogs find what CMD has started by its process group, its descent and a mark in its \
     environment. They miss a daemon that loses its parent no sooner than that, and has cast off environment and session: it keeps the \
     lease to its end, and then runs beside the next holder. If tenure and both watchdogs are killed or stopped at \
     once, nothing stops CMD.";
pub(super) const OPEN: &str = "Whoever can write to the store can do anything to its leases.";

impl Findings {
    pub(super) fn add(&mut self, grade: Grade, what: &'static str, detail: impl Into<String>) {
        self.checks.push(Finding { grade, what, detail: detail.into() });
    }

    /// What was found of one thing.
    #[cfg(test)]
    pub(super) fn texts(&self, what: &str) -> Vec<String> {
        self.checks.iter().filter(|found| found.what == what).map(|found| found.detail.clone()).collect()
    }

    /// What the store can do.
    pub(super) fn can(&mut self, capabilities: Vec<(&'static str, String)>) {
        self.capabilities = capabilities;
    }

    /// Whether all that a command has started can be ended with its lease.
    pub(super) fn add_commands(&mut self) {
        match supervise::reach() {
            Reach::Descendants => self.add(
                Grade::Ok,
                "commands",
                "all that CMD has started is ended with its lease: tenure is a child subreaper here",
            ),
            Reach::Groups => self.add(
                Grade::Warn,
                "commands",
                "what CMD has started is ended with its lease only as long as it stays in CMD's process group: this system \
                 has no child subreaper, or no /proc",
            ),
        }
    }

    /// What can't be read, each with its name and what is wrong.
    pub(super) fn damaged(&mut self, damaged: &[String]) {
        self.records(Grade::Fail, "damaged", damaged);
    }

    /// What only a newer version can read, each with its name: nobody is at work with it here.
    pub(super) fn newer(&mut self, newer: &[String]) {
        self.records(Grade::Warn, "newer", newer);
    }

    fn records(&mut self, grade: Grade, what: &'static str, texts: &[String]) {
        const SHOWN: usize = 20;
        for text in texts.iter().take(SHOWN) {
            self.add(grade, what, text);
        }
        if texts.len() > SHOWN {
            self.add(grade, what, format!("and {} more", count(texts.len() - SHOWN, "record")));
        }
    }

    /// All of it.
    #[cfg(test)]
    pub(super) fn told(&self) -> Vec<(Grade, String)> {
        self.checks.iter().map(|check| (check.grade, check.detail.clone())).collect()
    }

    /// Prints all of it, with what can't be promised, and says what to exit with.
    pub(super) fn report(&self, url: &Url, limits: &[&str], as_json: bool) -> Result<u8, Failure> {
        if as_json {
            self.report_json(url, limits)?;
        } else {
            self.report_text(url, limits)?;
        }
        Ok(match self.checks.iter().map(|check| check.grade).max() {
            Some(Grade::Fail) => exit::SOME_FAILED,
            Some(Grade::Warn) => exit::HAZARDS,
            _ => exit::OK,
        })
    }

    fn report_json(&self, url: &Url, limits: &[&str]) -> Result<(), Failure> {
        let shown = |check: &Finding| json!({"grade": check.grade.name(), "check": check.what, "detail": check.detail});
        let checks: Vec<_> = self.checks.iter().map(shown).collect();
        let can: serde_json::Map<String, serde_json::Value> =
            self.capabilities.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        output::json(
            &json!({"store": url.shown(), "checks": checks, "capabilities": can, "not_promised": limits}),
        )
    }

    fn report_text(&self, url: &Url, limits: &[&str]) -> Result<(), Failure> {
        let mut text = format!("{}\n", url.shown());
        for Finding { grade, what, detail } in &self.checks {
            let grade = output::coloured(&format!("{:4}", grade.name()), grade.colour(), &std::io::stdout());
            text.push_str(&format!("  {grade}  {what:12} {detail}\n"));
        }
        if !self.capabilities.is_empty() {
            text.push_str("What the store can do, as it is opened:\n");
        }
        for (name, value) in &self.capabilities {
            text.push_str(&format!("  {name:28} {value}\n"));
        }
        text.push_str("What can't be promised:\n");
        for limit in limits {
            text.push_str(&format!("  - {limit}\n"));
        }
        output::print(&text)
    }
}
