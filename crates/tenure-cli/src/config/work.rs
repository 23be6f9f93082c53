//! What `work` is to do.

use super::{Template, ttl};
use crate::args;
use crate::exit::Failure;
use crate::files;
use crate::keys::JobName;
use crate::text::escaped;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

/// Where units come from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UnitSource {
    Arguments(Vec<OsString>),
    File(std::path::PathBuf),
    /// Standard input, unless that is a terminal.
    Input,
    /// They are registered already.
    Join,
}

/// `work`.
#[derive(Debug)]
pub(crate) struct Work {
    /// None if it follows from what is run, where, and for which units.
    pub(crate) name: Option<JobName>,
    pub(crate) source: UnitSource,
    pub(crate) separator: u8,
    /// How many of the given ones are one unit.
    pub(crate) max_args: usize,
    pub(crate) slots: usize,
    pub(crate) retries: u32,
    /// More takeovers in a row than this, and the unit has failed.
    pub(crate) takeovers: u32,
    pub(crate) backoff: Duration,
    pub(crate) retry_failed: bool,
    pub(crate) fresh: bool,
    pub(crate) ttl: Duration,
    pub(crate) grace: Duration,
    pub(crate) json: bool,
    /// What commands write is caught, and written in this form; none if it passes through.
    pub(crate) form: Option<Form>,
    pub(crate) joblog: Option<PathBuf>,
    pub(crate) timeout: Option<Duration>,
    /// Between two starts.
    pub(crate) delay: Duration,
    pub(crate) load: Option<f64>,
    pub(crate) halt: Option<Halt>,
    pub(crate) progress: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    /// For how long a store is waited for that is away at the start.
    pub(crate) await_store: Duration,
    pub(crate) command: Template,
}

/// How pieces are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Form {
    /// Each line begins with the unit and a tab.
    pub(crate) tag: bool,
    pub(crate) keep_order: bool,
    /// Where each unit has a directory for its output.
    pub(crate) results: Option<PathBuf>,
}

impl Form {
    /// Makes the directory for results, if one is named. One that is there must take files.
    pub(crate) fn make_directory(&self) -> Result<(), Failure> {
        let Some(directory) = &self.results else { return Ok(()) };
        let failed = |what: &str, error: &dyn Display| {
            let directory = escaped(&directory.to_string_lossy());
            Failure::usage(format!("--results {directory}: {what}: {error}; give another directory"))
        };
        std::fs::create_dir_all(directory).map_err(|error| failed("can't be made", &error))?;
        // Also on a file system that is read-only for now: only a try tells.
        let tried = files::nameless(directory).map(drop);
        tried.map_err(|(_, error)| failed("can't be written", &error))
    }
}

/// When a process stops before its job is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Halt {
    /// What runs is stopped, and not waited for.
    pub(crate) at_once: bool,
    pub(crate) counted: Counted,
    pub(crate) after: After,
}

/// How many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Units(usize),
    /// Of those whose runs have come to an end.
    Percent(usize),
}

impl After {
    /// Whether `n` are so many, where `ended` have come to an end.
    pub(crate) fn is_reached(self, n: usize, ended: usize) -> bool {
        /// A share of fewer says nothing.
        const LEAST: usize = 3;
        match self {
            After::Units(after) => n >= after,
            After::Percent(share) => n >= LEAST && n * 100 >= share * ended,
        }
    }
}

/// Which units are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    Failed,
    Succeeded,
    Either,
}

impl Halt {
    fn parse(text: &str) -> Result<Option<Halt>, Failure> {
        let bad = || {
            Failure::usage(format!(
                "--halt {}: write never, or now or soon, a comma, and fail=N, success=N or done=N, as in now,fail=1, or fail=N% or success=N%",
                escaped(text)
            ))
        };
        if text == "never" {
            return Ok(None);
        }
        let (when, what) = text.split_once(',').ok_or_else(bad)?;
        let (counted, after) = what.split_once('=').ok_or_else(bad)?;
        let at_once = match when {
            "now" => true,
            "soon" => false,
            _ => return Err(bad()),
        };
        let counted = match counted {
            "fail" => Counted::Failed,
            "success" => Counted::Succeeded,
            "done" => Counted::Either,
            _ => return Err(bad()),
        };
        let number = |text: &str, most| text.parse().ok().filter(|n| (1..=most).contains(n)).ok_or_else(bad);
        let after = match after.strip_suffix('%') {
            // All that have ended are done.
            Some(_) if counted == Counted::Either => return Err(bad()),
            Some(share) => After::Percent(number(share, 100)?),
            None => After::Units(number(after, usize::MAX)?),
        };
        Ok(Some(Halt { at_once, counted, after }))
    }
}

impl args::WorkArgs {
    /// Where units come from, if nothing is typed `otherwise`.
    pub(super) fn source(&self, otherwise: UnitSource) -> Result<UnitSource, Failure> {
        let units = if self.units.is_empty() { &self.named } else { &self.units };
        if let Some(mistake) = args::habits::separator_as_unit(units) {
            return Err(Failure::usage(mistake));
        }
        let source = match (units.is_empty(), &self.from) {
            (false, _) => UnitSource::Arguments(units.clone()),
            (true, Some(path)) if path.as_os_str() == "-" => UnitSource::Input,
            (true, Some(path)) => UnitSource::File(path.clone()),
            (true, None) => otherwise,
        };
        if self.null && matches!(source, UnitSource::Arguments(_) | UnitSource::Join) {
            return Err(Failure::usage(
                "--null is for units from a file or standard input; there are none to read",
            ));
        }
        Ok(source)
    }

    pub(super) fn separator(&self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }

    pub(crate) fn validated(self, cores: usize) -> Result<Work, Failure> {
        /// More than any machine runs, and few enough for its threads.
        const MOST_SLOTS: usize = 4096;
        let name = self.name.as_deref().map(JobName::new).transpose()?;
        // `work status` and the other verbs would take it for an option.
        if let Some(name) = name.as_ref().filter(|name| name.as_str().starts_with('-')) {
            return Err(Failure::usage(format!(
                "--name {}: a job's name can't begin with a hyphen; put something before it",
                name.shown()
            )));
        }
        let slots = self.parallel.unwrap_or(cores);
        if slots == 0 || slots > MOST_SLOTS {
            return Err(Failure::usage(format!("--parallel {slots} is outside 1 to {MOST_SLOTS}")));
        }
        let source = self.source(if self.join { UnitSource::Join } else { UnitSource::Input })?;
        if source == UnitSource::Input
            && self.from.is_none()
            && let Some(mistake) = args::habits::units_behind(&self.command)
        {
            return Err(Failure::usage(mistake));
        }
        let how = &self.how;
        if how.load.is_some_and(|load| !load.is_finite() || load <= 0.0) {
            return Err(Failure::usage("--load must be a number above 0, as in 3.5"));
        }
        if how.max_args == 0 {
            return Err(Failure::usage(
                "--max-args 0 gives no command a unit; write how many it gets, from 1",
            ));
        }
        if how.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Failure::usage(
                "--timeout 0 would stop each command at once; leave it out for no limit",
            ));
        }
        let is_formed = how.tag || how.keep_order || how.results.is_some();
        let is_caught = !how.ungroup && (how.group || is_formed || slots > 1);
        let form = Form { tag: how.tag, keep_order: how.keep_order, results: how.results.clone() };
        Ok(Work {
            form: is_caught.then_some(form),
            joblog: how.joblog.clone(),
            timeout: how.timeout,
            delay: how.delay,
            load: how.load,
            halt: Halt::parse(&how.halt)?,
            progress: how.progress == args::jobs::ProgressMode::Auto,
            quiet: how.quiet,
            verbose: how.verbose,
            name,
            source,
            separator: self.separator(),
            slots,
            retries: self.retries,
            takeovers: self.max_takeovers,
            backoff: self.backoff,
            retry_failed: self.retry_failed,
            fresh: self.fresh,
            ttl: ttl(self.ttl)?,
            grace: self.grace,
            json: self.json,
            await_store: self.away.await_store,
            command: Template::new(self.command)?.batched(how.max_args > 1),
            max_args: how.max_args,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_to_halt_is_told_in_gnu_parallels_words() {
        let fail = Halt { at_once: true, counted: Counted::Failed, after: After::Units(1) };
        assert_eq!(Halt::parse("now,fail=1").unwrap(), Some(fail));
        let soon = Halt { at_once: false, counted: Counted::Either, after: After::Units(20) };
        assert_eq!((Halt::parse("soon,done=20").unwrap(), Halt::parse("never").unwrap()), (Some(soon), None));
        let share = Halt::parse("now,fail=10%").unwrap().unwrap().after;
        assert_eq!(share, After::Percent(10));
        let reached = |n, ended| share.is_reached(n, ended);
        assert!(!reached(2, 2) && reached(3, 30) && !reached(3, 31) && reached(4, 31));
        for bad in [
            "",
            "now",
            "now,fail",
            "now,fail=0",
            "now,fail=x",
            "later,fail=1",
            "now,lost=1",
            "now,fail=0%",
            "now,fail=101%",
            "soon,done=10%",
        ] {
            let error = Halt::parse(bad).unwrap_err().to_string();
            assert!(error.starts_with("--halt ") && error.contains("as in now,fail=1"), "{error}");
        }
    }
}
