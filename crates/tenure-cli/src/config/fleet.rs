//! What was typed about fleets, checked. Nothing here does I/O.

use crate::args::{self, WorkArgs};
use crate::config::{Template, UnitSource, ttl};
use crate::exit::Failure;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use tenure::fleet::{Balance, FleetName};

/// `work --forever`.
#[derive(Debug)]
pub(crate) struct Forever {
    pub(crate) name: FleetName,
    pub(crate) source: UnitSource,
    pub(crate) separator: u8,
    /// The most units that this process takes.
    pub(crate) most: Option<u64>,
    pub(crate) most_weight: Option<u64>,
    pub(crate) balance: Balance,
    pub(crate) labels: Vec<String>,
    pub(crate) backoff: Duration,
    pub(crate) ttl: Duration,
    pub(crate) grace: Duration,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    /// For how long a store is waited for that is away at the start.
    pub(crate) await_store: Duration,
    pub(crate) command: Template,
}

impl WorkArgs {
    pub(crate) fn validated_forever(self) -> Result<Forever, Failure> {
        let name = name(self.name.as_deref().unwrap_or_default())?;
        let command = Template::new(self.command.clone())?;
        if let Some(token) = command.numbers() {
            return Err(Failure::usage(format!(
                "{token} stands for nothing with --forever, where units have no numbers; {{}} stands for the unit"
            )));
        }
        if self.parallel == Some(0) {
            return Err(Failure::usage("--parallel 0 leaves no room for any unit; choose 1 or more"));
        }
        if self.most_weight == Some(0) {
            return Err(Failure::usage("--most-weight 0 leaves no room for any unit; choose 1 or more"));
        }
        if let Some(empty) = self.label.iter().find(|label| label.is_empty()) {
            return Err(Failure::usage(format!("--label {empty:?} is empty; name what this process offers")));
        }
        Ok(Forever {
            name,
            source: self.source(UnitSource::Join)?,
            separator: self.separator(),
            most: self.parallel.map(|most| most as u64),
            most_weight: self.most_weight,
            balance: match self.balance {
                args::fleet::BalanceArg::Count => Balance::Count,
                args::fleet::BalanceArg::Weight => Balance::Weight,
            },
            labels: self.label,
            backoff: self.backoff,
            ttl: ttl(self.ttl)?,
            grace: self.grace,
            quiet: self.how.quiet,
            verbose: self.how.verbose,
            await_store: self.away.await_store,
            command,
        })
    }
}

/// A fleet's name as typed.
pub(crate) fn name(typed: &OsStr) -> Result<FleetName, Failure> {
    Ok(FleetName::new(text(typed, "the fleet's name")?)?)
}

/// A unit's name as typed, fit for a record of this fleet.
pub(crate) fn unit(name: &FleetName, typed: &OsStr) -> Result<String, Failure> {
    let unit = text(typed, "the unit")?;
    name.unit(unit)?;
    Ok(unit.to_owned())
}

/// A worker's name as typed, or the beginning of one.
pub(crate) fn worker(typed: &OsStr) -> Result<&str, Failure> {
    match text(typed, "the worker")? {
        "" => Err(Failure::usage("a worker's name can't be empty; see `tenure fleet workers`")),
        worker => Ok(worker),
    }
}

fn text<'a>(typed: &'a OsStr, what: &str) -> Result<&'a str, Failure> {
    typed.to_str().ok_or_else(|| {
        Failure::usage(format!("{what} \"{}\" is not UTF-8 text", typed.as_bytes().escape_ascii()))
    })
}
