//! Validated configuration: the command line, checked once, in the terms of the program. Nothing here does I/O.

mod about;
mod command;
pub(crate) mod cron;
pub(crate) mod fleet;
#[cfg(feature = "serve")]
pub(crate) mod serve;
mod work;

pub(crate) use about::HolderInfo;
pub(crate) use command::{FoundProgram, Template};
pub(crate) use work::{Counted, Form, Halt, UnitSource, Work};

use crate::args;
use crate::exit::{self, Failure};
use crate::text::{brief, escaped};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use tenure::permits;
use tenure::range::{KeyRange, PREFIX};
use tenure::store::reserved;
use tenure::{Key, Ttl};

/// How long to wait for a key that another holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitLimit {
    Try,
    Within(Duration),
    Forever,
}

/// What is held of the keys of `run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldKind {
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
pub(crate) struct RunConfig {
    /// The first of them.
    pub(crate) key: Key,
    /// All others.
    pub(crate) more: Vec<Key>,
    pub(crate) hold: HoldKind,
    /// The status if another holds what is wanted.
    pub(crate) conflict: u8,
    pub(crate) patience: WaitLimit,
    pub(crate) ttl: Duration,
    pub(crate) grace: Duration,
    /// How long CMD may run.
    pub(crate) at_most: Option<Duration>,
    /// How long the lease is held at least.
    pub(crate) at_least: Duration,
    pub(crate) about: HolderInfo,
    pub(crate) hooks: LeaseHooks,
    pub(crate) check: Option<HealthCheck>,
    /// For how long a store is waited for that is away at the start.
    pub(crate) await_store: Duration,
    pub(crate) command: Template,
}

impl args::RunArgs {
    pub(crate) fn validated(self) -> Result<RunConfig, Failure> {
        let patience = match (self.try_only, self.wait) {
            (true, _) => WaitLimit::Try,
            (false, Some(wait)) => WaitLimit::Within(wait),
            (false, None) => WaitLimit::Forever,
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
            (Some(of), ..) => HoldKind::Permits { take: self.take.unwrap_or(1), of },
            (_, true, _) => HoldKind::Shared,
            (_, _, true) => HoldKind::Exclusive,
            _ => HoldKind::Lease,
        };
        // Whether it is one of tenure's own matters where tenure keeps its own.
        let mut keys =
            self.keys.iter().map(|typed| key(typed)).collect::<Result<Vec<Key>, Failure>>()?.into_iter();
        let Some(first) = keys.next() else { return Err(Failure::usage("no KEY is named")) };
        let more: Vec<Key> = keys.collect();
        let mut named = BTreeSet::from([&first]);
        if let Some(twice) = more.iter().find(|key| !named.insert(*key)) {
            return Err(Failure::usage(format!("{twice} is named twice; name each key once")));
        }
        if !more.is_empty() && hold != HoldKind::Lease {
            return Err(Failure::usage(
                "several KEYs are held by their plain leases: leave --permits, --shared, --exclusive and --fair out, also of the \
                 defaults of `tenure config`",
            ));
        }
        if hold != HoldKind::Lease
            && let Some(name) = first.as_str().strip_prefix(permits::PREFIX)
        {
            let name = escaped(name);
            return Err(Failure::usage(format!(
                "{}{name} is the record of the semaphore {name}, and no name of one: write {name}",
                permits::PREFIX
            )));
        }
        if let HoldKind::Permits { take, of } = hold
            && take > of
        {
            return Err(Failure::usage(format!(
                "--take {take}: {first} can't give so many permits, as it has {of}; take 1 to {of}"
            )));
        }
        // What is to be held for some time is not over before, whatever becomes of its holder.
        let least_ttl = if hold == HoldKind::Lease { at_least } else { at_least / 2 * 3 };
        let most = Ttl::MAX.duration();
        if least_ttl > most {
            let most = if hold == HoldKind::Lease { most } else { most / 3 * 2 };
            let (min, most) = (brief(at_least), brief(most));
            return Err(Failure::usage(format!(
                "--min {min}: a lease is kept for {most} after its command at most"
            )));
        }
        Ok(RunConfig {
            key: first,
            more,
            hold,
            conflict: self.conflict_exit_code.unwrap_or(exit::HELD),
            patience,
            ttl: ttl(self.ttl.max(least_ttl))?,
            grace: self.grace,
            at_most: self.max,
            at_least,
            about: HolderInfo::new(self.about.note, self.command.first())?,
            hooks: LeaseHooks::try_from(self.hooks)?,
            check: None,
            await_store: self.away.await_store,
            command: Template::new(self.command)?,
        })
    }
}

/// What tells whether a command is well, by sh(1).
#[derive(Debug, Clone)]
pub(crate) struct HealthCheck {
    pub(crate) command: OsString,
    /// Between two of them; one that takes longer has failed.
    pub(crate) every: Duration,
    /// So many in a row end the command.
    pub(crate) failures: u32,
}

/// What is run when a lease begins, and when it is lost, by sh(1).
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaseHooks {
    pub(crate) on_acquire: Option<OsString>,
    pub(crate) on_lost: Option<OsString>,
}

impl TryFrom<args::HookArgs> for LeaseHooks {
    type Error = Failure;

    fn try_from(typed: args::HookArgs) -> Result<LeaseHooks, Failure> {
        for (name, command) in [("--on-acquire", &typed.on_acquire), ("--on-lost", &typed.on_lost)] {
            if command.as_ref().is_some_and(|command| command.is_empty()) {
                return Err(Failure::usage(format!(
                    "{name} is empty; write a command for sh(1), or leave it out"
                )));
            }
        }
        Ok(LeaseHooks { on_acquire: typed.on_acquire, on_lost: typed.on_lost })
    }
}

/// `elect`.
#[derive(Debug)]
pub(crate) struct ElectConfig {
    /// What each term is: one run under the lease.
    pub(crate) term: RunConfig,
    pub(crate) on_change: Option<OsString>,
    /// How long to stand back after stepping down.
    pub(crate) cooldown: Duration,
}

impl args::ElectArgs {
    pub(crate) fn validated(self) -> Result<ElectConfig, Failure> {
        if self.max.is_some_and(|max| max.is_zero()) {
            return Err(Failure::usage("--max 0s leaves CMD no time at all; allow it some"));
        }
        if self.check.is_none() && (self.check_every.is_some() || self.check_failures.is_some()) {
            return Err(Failure::usage(
                "--check-every and --check-failures say how --check is run; give a --check, or leave them out",
            ));
        }
        let every = self.check_every.unwrap_or(Duration::from_secs(10));
        if every.is_zero() {
            return Err(Failure::usage("--check-every 0s leaves --check no time at all; allow it some"));
        }
        if self.check.as_ref().is_some_and(|command| command.is_empty()) {
            return Err(Failure::usage("--check is empty; write a command for sh(1), or leave it out"));
        }
        let failures = self.check_failures.unwrap_or(3);
        let check = self.check.map(|command| HealthCheck { command, every, failures });
        let term = RunConfig {
            key: free_key(&self.key)?,
            more: Vec::new(),
            hold: HoldKind::Lease,
            conflict: exit::HELD,
            patience: WaitLimit::Forever,
            ttl: ttl(self.ttl)?,
            grace: self.grace,
            at_most: self.max,
            at_least: Duration::ZERO,
            about: HolderInfo::new(self.about.note, self.command.first())?,
            hooks: LeaseHooks::try_from(self.hooks)?,
            check,
            await_store: self.away.await_store,
            command: Template::new(self.command)?,
        };
        if self.on_change.as_ref().is_some_and(|command| command.is_empty()) {
            return Err(Failure::usage("--on-change is empty; write a command for sh(1), or leave it out"));
        }
        let cooldown = self.cooldown.unwrap_or(term.ttl / 5 * 2);
        Ok(ElectConfig { term, on_change: self.on_change, cooldown })
    }
}

/// `hold`.
#[derive(Debug)]
pub(crate) struct HoldConfig {
    pub(crate) key: Key,
    pub(crate) patience: WaitLimit,
    pub(crate) ttl: Duration,
    pub(crate) at_most: Option<Duration>,
    pub(crate) about: HolderInfo,
    pub(crate) json: bool,
    /// A signal gives it back only once its reader can't believe in it any more.
    pub(crate) is_until_eof: bool,
    /// For how long a store is waited for that is away at the start.
    pub(crate) await_store: Duration,
}

impl args::hold::HoldArgs {
    pub(crate) fn validated(self) -> Result<HoldConfig, Failure> {
        let patience = match (self.try_only, self.wait) {
            (true, _) => WaitLimit::Try,
            (false, Some(wait)) => WaitLimit::Within(wait),
            (false, None) => WaitLimit::Forever,
        };
        if self.max.is_some_and(|max| max.is_zero()) {
            return Err(Failure::usage("--max 0s leaves no time to hold it at all; allow some"));
        }
        let (key, ttl) = (free_key(&self.key)?, ttl(self.ttl)?);
        let about = HolderInfo::new(self.about.note, None)?;
        let (is_until_eof, await_store) = (self.until_eof, self.away.await_store);
        Ok(HoldConfig {
            key,
            patience,
            ttl,
            at_most: self.max,
            about,
            json: self.json,
            is_until_eof,
            await_store,
        })
    }
}

/// `bench`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BenchConfig {
    pub(crate) tasks: usize,
    pub(crate) span: Duration,
    pub(crate) json: bool,
}

impl args::BenchArgs {
    pub(crate) fn validated(self) -> Result<BenchConfig, Failure> {
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
        Ok(BenchConfig { tasks: self.tasks, span: Duration::from_secs_f64(self.seconds), json: self.json })
    }
}

/// `range`.
#[derive(Debug, Clone)]
pub(crate) struct RangeConfig {
    pub(crate) section: String,
    pub(crate) range: KeyRange,
    pub(crate) duration: Duration,
    /// All of it or nothing.
    pub(crate) all: bool,
    pub(crate) wait: Duration,
    pub(crate) grace: Duration,
    /// For how long a store is waited for that is away at the start.
    pub(crate) await_store: Duration,
    pub(crate) command: Template,
}

impl args::RangeArgs {
    pub(crate) fn validated(self) -> Result<RangeConfig, Failure> {
        let range: Result<KeyRange, _> = self.range.replacen("..", "_", 1).parse();
        // What is typed has two dots in the place of the low line.
        let range = range.map_err(|error| Failure::usage(error.to_string().replace("low_high", "LO..HI")))?;
        if range.is_empty() {
            return Err(Failure::usage(format!("there is no key in {}; LO must be below HI", self.range)));
        }
        Ok(RangeConfig {
            section: section(&self.section)?,
            range,
            duration: duration(self.duration)?,
            all: self.all,
            wait: self.wait,
            grace: self.grace,
            await_store: self.away.await_store,
            command: Template::new(self.command)?,
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

/// The name of a section, as it was typed: by itself, or as the key of its record, which other verbs show.
pub(crate) fn section_name(typed: &str) -> &str {
    typed.strip_prefix(PREFIX).unwrap_or(typed)
}

fn section(text: &OsStr) -> Result<String, Failure> {
    let name = text.to_str().ok_or_else(|| Failure::usage("the name of a section must be UTF-8"))?;
    let name = section_name(name);
    tenure_core::section::key(name)?;
    Ok(name.to_owned())
}

/// For how long ranges are leased.
fn duration(span: Duration) -> Result<Duration, Failure> {
    let (least, most) = (Ttl::MIN.duration(), Ttl::MAX.duration());
    let whole = Ttl::new(span).map_err(|_| {
        let (span, least, most) = (brief(span), brief(least), brief(most));
        Failure::usage(format!("--for {span}: ranges are leased for {least} at least (some stores ask for more) and {most} at most"))
    })?;
    Ok(whole.duration())
}
