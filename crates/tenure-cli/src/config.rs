//! Validated configuration: the command line, checked once, in the terms of the program. Nothing here does I/O.

pub(crate) mod cron;
pub(crate) mod fleet;

use crate::args;
use crate::exit::{self, Failure};
use crate::keys::JobName;
use crate::text::brief;
use crate::work::job::pieces::printer::Form;
use crate::work::template::Filling;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use tenure::range::KeyRange;
use tenure::{Key, Ttl, reserved};

/// How long to wait for a key that another holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitPolicy {
    Try,
    Within(Duration),
    Forever,
}

/// What is held of the keys of `run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Their plain leases.
    Lease,
    /// So many of so many permits.
    Permits {
        take: u32,
        of: u32,
    },
    Shared,
    Exclusive,
}

/// `run`.
#[derive(Debug)]
pub(crate) struct Run {
    /// The first of them.
    pub(crate) key: Key,
    /// All others.
    pub(crate) more: Vec<Key>,
    pub(crate) hold: Hold,
    /// The status if another holds what is wanted.
    pub(crate) conflict: u8,
    pub(crate) patience: WaitPolicy,
    pub(crate) ttl: Duration,
    pub(crate) grace: Duration,
    /// How long CMD may run.
    pub(crate) at_most: Option<Duration>,
    /// How long the lease is held at least.
    pub(crate) at_least: Duration,
    pub(crate) command: Template,
}

impl args::Run {
    pub(crate) fn validated(self) -> Result<Run, Failure> {
        let patience = match (self.try_only, self.wait) {
            (true, _) => WaitPolicy::Try,
            (false, Some(wait)) => WaitPolicy::Within(wait),
            (false, None) => WaitPolicy::Forever,
        };
        let at_least = self.min.unwrap_or_default();
        match self.max {
            Some(max) if max.is_zero() => {
                return Err(Failure::usage("--max 0s leaves CMD no time at all; allow it some"));
            }
            Some(max) if max < at_least => {
                let (max, min) = (brief(max), brief(at_least));
                return Err(Failure::usage(format!("--max {max} is shorter than --min {min}")));
            }
            _ => {}
        }
        let hold = match (self.permits, self.shared, self.exclusive || self.fair) {
            (Some(of), ..) => Hold::Permits { take: self.take.unwrap_or(1), of },
            (_, true, _) => Hold::Shared,
            (_, _, true) => Hold::Exclusive,
            _ => Hold::Lease,
        };
        // Whether it is one of tenure's own matters where tenure keeps its own.
        let mut keys =
            self.keys.iter().map(|typed| key(typed)).collect::<Result<Vec<Key>, Failure>>()?.into_iter();
        let Some(first) = keys.next() else { return Err(Failure::usage("no KEY is named")) };
        let more: Vec<Key> = keys.collect();
        if !more.is_empty() && hold != Hold::Lease {
            return Err(Failure::usage(
                "several KEYs are held by their plain leases: leave --permits, --shared, --exclusive and --fair out",
            ));
        }
        if !at_least.is_zero() && (hold != Hold::Lease || !more.is_empty()) {
            return Err(Failure::usage("--min goes with the plain lease of one KEY"));
        }
        Ok(Run {
            key: first,
            more,
            hold,
            conflict: self.conflict_exit_code.unwrap_or(exit::HELD),
            patience,
            // What is to be held for some time is not over before, whatever becomes of its holder.
            ttl: ttl(self.ttl.max(at_least))?,
            grace: self.grace,
            at_most: self.max,
            at_least,
            command: Template::new(self.command)?,
        })
    }
}

/// `elect`.
#[derive(Debug)]
pub(crate) struct Elect {
    /// What each term is: one run under the lease.
    pub(crate) term: Run,
    pub(crate) on_change: Option<OsString>,
}

impl args::Elect {
    pub(crate) fn validated(self) -> Result<Elect, Failure> {
        let term = Run {
            key: free_key(&self.key)?,
            more: Vec::new(),
            hold: Hold::Lease,
            conflict: exit::HELD,
            patience: WaitPolicy::Forever,
            ttl: ttl(self.ttl)?,
            grace: self.grace,
            at_most: None,
            at_least: Duration::ZERO,
            command: Template::new(self.command)?,
        };
        if self.on_change.as_ref().is_some_and(|command| command.is_empty()) {
            return Err(Failure::usage("--on-change is empty; write a command for sh(1), or leave it out"));
        }
        Ok(Elect { term, on_change: self.on_change })
    }
}

/// `bench`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bench {
    pub(crate) tasks: usize,
    pub(crate) span: Duration,
    pub(crate) json: bool,
}

impl args::Bench {
    pub(crate) fn validated(self) -> Result<Bench, Failure> {
        const MOST_TASKS: usize = 1024;
        const LEAST_SECONDS: f64 = 0.1;
        const MOST_SECONDS: f64 = 3600.0;
        if self.tasks == 0 || self.tasks > MOST_TASKS {
            return Err(Failure::usage(format!("--tasks {} is outside 1 to {MOST_TASKS}", self.tasks)));
        }
        if !(LEAST_SECONDS..=MOST_SECONDS).contains(&self.seconds) {
            return Err(Failure::usage(format!(
                "--seconds {} is outside {LEAST_SECONDS} to {MOST_SECONDS}",
                self.seconds
            )));
        }
        Ok(Bench { tasks: self.tasks, span: Duration::from_secs_f64(self.seconds), json: self.json })
    }
}

/// `range`.
#[derive(Debug, Clone)]
pub(crate) struct Range {
    pub(crate) section: String,
    pub(crate) range: KeyRange,
    pub(crate) duration: Duration,
    pub(crate) grace: Duration,
    pub(crate) command: Template,
}

impl args::Range {
    pub(crate) fn validated(self) -> Result<Range, Failure> {
        let range: KeyRange = self.range.replacen("..", "_", 1).parse()?;
        if range.is_empty() {
            return Err(Failure::usage(format!("there is no key in {}; LO must be below HI", self.range)));
        }
        Ok(Range {
            section: section(&self.section)?,
            range,
            duration: duration(self.duration)?,
            grace: self.grace,
            command: Template::new(self.command)?,
        })
    }
}

/// Where units come from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
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
    pub(crate) source: Source,
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
    pub(crate) command: Template,
}

/// When a process stops before its job is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Halt {
    /// What runs is stopped, and not waited for.
    pub(crate) at_once: bool,
    pub(crate) counted: Counted,
    pub(crate) after: usize,
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
                "--halt {}: write never, or now or soon, a comma, and fail=N, success=N or done=N, as in now,fail=1",
                crate::text::escaped(text)
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
        let after = after.parse().ok().filter(|n| *n > 0).ok_or_else(bad)?;
        Ok(Some(Halt { at_once, counted, after }))
    }
}

impl args::Work {
    /// Where units come from, if nothing is typed `otherwise`.
    fn source(&self, otherwise: Source) -> Result<Source, Failure> {
        let units = if self.units.is_empty() { &self.named } else { &self.units };
        let source = match (units.is_empty(), &self.from) {
            (false, _) => Source::Arguments(units.clone()),
            (true, Some(path)) if path.as_os_str() == "-" => Source::Input,
            (true, Some(path)) => Source::File(path.clone()),
            (true, None) => otherwise,
        };
        if self.null && matches!(source, Source::Arguments(_) | Source::Join) {
            return Err(Failure::usage(
                "--null is for units from a file or standard input; there are none to read",
            ));
        }
        Ok(source)
    }

    fn separator(&self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }

    pub(crate) fn validated(self, cores: usize) -> Result<Work, Failure> {
        /// More than any machine runs, and few enough for its threads.
        const MOST_SLOTS: usize = 4096;
        let name = self.name.as_deref().map(JobName::new).transpose()?;
        let slots = self.parallel.unwrap_or(cores);
        if slots == 0 || slots > MOST_SLOTS {
            return Err(Failure::usage(format!("--parallel {slots} is outside 1 to {MOST_SLOTS}")));
        }
        let source = self.source(if self.join { Source::Join } else { Source::Input })?;
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
            progress: how.progress == args::jobs::Progress::Auto,
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
            command: Template::new(self.command)?.batched(how.max_args > 1),
            max_args: how.max_args,
        })
    }
}

/// A key as typed.
pub(crate) fn key(text: &OsStr) -> Result<Key, Failure> {
    Ok(Key::from_bytes(text.as_bytes())?)
}

/// A key as typed that can be locked or led: none of tenure's own records.
fn free_key(text: &OsStr) -> Result<Key, Failure> {
    let key = key(text)?;
    reserved::check(&key)?;
    Ok(key)
}

/// What keys begin with, as typed.
pub(crate) fn prefix(text: &OsStr) -> Result<String, Failure> {
    if text.is_empty() { Ok(String::new()) } else { Ok(key(text)?.as_str().to_owned()) }
}

pub(crate) fn ttl(span: Duration) -> Result<Duration, Failure> {
    Ok(Ttl::new(span)?.duration())
}

/// The name of a section, as typed.
fn section(text: &OsStr) -> Result<String, Failure> {
    let name = text.to_str().ok_or_else(|| Failure::usage("the name of a section must be UTF-8"))?;
    tenure_core::section::key(name)?;
    Ok(name.to_owned())
}

/// For how long ranges are leased.
fn duration(span: Duration) -> Result<Duration, Failure> {
    let (least, most) = (Ttl::MIN.duration(), Ttl::MAX.duration());
    let whole = Ttl::new(span).map_err(|_| {
        let (span, least, most) = (brief(span), brief(least), brief(most));
        Failure::usage(format!("--for {span}: ranges are leased for {least} at least and {most} at most"))
    })?;
    Ok(whole.duration())
}

/// A command with its arguments, in which `{}` stands for a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// Where the program is. Found once for many units: each entry of the PATH that lacks it costs each of them a call.
    path: Option<PathBuf>,
    /// Units are several ones, with newlines between.
    is_batched: bool,
}

impl Template {
    pub(crate) fn new(command: Vec<OsString>) -> Result<Template, Failure> {
        let mut words = command.into_iter();
        match words.next() {
            Some(program) if !program.is_empty() => {
                Ok(Template { program, arguments: words.collect(), path: None, is_batched: false })
            }
            Some(_) => Err(Failure::usage("the name of the command is empty")),
            None => Err(Failure::usage("no command is given; write it after --")),
        }
    }

    /// The same, of a program that was found there.
    pub(crate) fn at(self, path: PathBuf) -> Template {
        Template { path: Some(path), ..self }
    }

    /// The same, for units that are several ones each.
    fn batched(self, is_batched: bool) -> Template {
        Template { is_batched, ..self }
    }

    /// The command as it stands.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command
    }

    /// The command for `unit`, without input.
    pub(crate) fn for_unit(&self, unit: &str) -> Command {
        self.filled(&Filling { unit: unit.as_bytes(), number: None })
    }

    /// The same, for a unit whose number is known.
    pub(crate) fn filled(&self, filling: &Filling<'_>) -> Command {
        let mut command = match &self.path {
            Some(path) => Command::new(path),
            None => Command::new(&self.program),
        };
        command.arg0(&self.program);
        let unit = OsStr::from_bytes(filling.unit);
        command.args(self.words(filling)).stdin(Stdio::null()).env("TENURE_UNIT", unit);
        command
    }

    /// The command for a unit, in one line.
    pub(crate) fn shown(&self, unit: &[u8], number: usize) -> String {
        let words = self.words(&Filling { unit, number: Some(number) });
        let words = std::iter::once(&self.program).chain(&words).map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }

    /// Whether a unit's number stands in it.
    pub(crate) fn is_numbered(&self) -> bool {
        self.arguments.iter().any(|argument| argument.as_bytes().windows(3).any(|token| token == b"{#}"))
    }

    /// The arguments: the unit put in wherever a token stands, or appended if none stands anywhere. Of several units in one, each
    /// becomes an argument where a token is all of one, and all of them stand in it with blanks between otherwise.
    pub(crate) fn words(&self, filling: &Filling<'_>) -> Vec<OsString> {
        let each: Vec<Filling<'_>> = if self.is_batched {
            filling.unit.split(|byte| *byte == b'\n').map(|unit| Filling { unit, ..*filling }).collect()
        } else {
            vec![*filling]
        };
        let (mut found, mut filled) = (false, Vec::new());
        for argument in &self.arguments {
            let word = argument.as_bytes();
            match filling.fill(word) {
                None => filled.push(argument.clone()),
                Some(_) if Filling::is_token(word) => {
                    found = true;
                    filled.extend(each.iter().filter_map(|one| one.fill(word)).map(OsString::from_vec));
                }
                Some(_) => {
                    found = true;
                    filled.extend(Filling::fill_all(&each, word).map(OsString::from_vec));
                }
            }
        }
        if !found {
            filled.extend(each.iter().map(|one| OsStr::from_bytes(one.unit).to_owned()));
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(words: &[&str], unit: &str) -> Vec<String> {
        let template = Template::new(words.iter().map(Into::into).collect()).unwrap();
        let filling = Filling { unit: unit.as_bytes(), number: None };
        template.words(&filling).into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn several_units_are_several_arguments_or_stand_in_one_with_blanks_between() {
        let words = ["cp", "{}", "a\n{/}.{#}", "{//}"].iter().map(Into::into).collect();
        let template = Template::new(words).unwrap().batched(true);
        let filled = template.words(&Filling { unit: b"d/x\ny", number: Some(3) });
        assert_eq!(filled, ["d/x", "y", "a\nx y.3", "d", "."]);
        let bare = Template::new(vec!["wc".into(), "-l".into()]).unwrap().batched(true);
        assert_eq!(bare.words(&Filling { unit: b"a\nb", number: None }), ["-l", "a", "b"]);
    }

    #[test]
    fn when_to_halt_is_told_in_gnu_parallels_words() {
        let fail = Halt { at_once: true, counted: Counted::Failed, after: 1 };
        assert_eq!(Halt::parse("now,fail=1").unwrap(), Some(fail));
        let soon = Halt { at_once: false, counted: Counted::Either, after: 20 };
        assert_eq!((Halt::parse("soon,done=20").unwrap(), Halt::parse("never").unwrap()), (Some(soon), None));
        for bad in
            ["", "now", "now,fail", "now,fail=0", "now,fail=x", "later,fail=1", "now,lost=1", "now,fail=10%"]
        {
            let error = Halt::parse(bad).unwrap_err().to_string();
            assert!(error.starts_with("--halt ") && error.contains("as in now,fail=1"), "{error}");
        }
    }

    #[test]
    fn a_unit_goes_where_the_braces_are_or_to_the_end() {
        assert_eq!(fill(&["wc", "-w"], "a b"), ["-w", "a b"]);
        assert_eq!(fill(&["cp", "{}", "out/{}.{}"], "x"), ["x", "out/x.x"]);
        assert_eq!(
            fill(&["echo", "{", "}"], "{}"),
            ["{", "}", "{}"],
            "what is put in is not looked at again"
        );
        assert_eq!(fill(&["echo", "{}"], "{}"), ["{}"]);
    }
}
