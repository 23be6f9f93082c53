//! `cron` as it is typed.

use crate::text::span;
use clap::{Parser, ValueEnum};
use std::ffi::OsString;
use std::time::Duration;

/// Run a command at each tick of a schedule, once over all hosts.
///
/// Any number of processes run `cron` with the same SCHEDULE and KEY, and at each tick one of them runs CMD. Ticks are named by the time that
/// they are scheduled for, in UTC, so clocks that differ do no harm: a host that is late finds that the tick has run. CMD runs once at
/// most for each tick. If its host dies in the middle that tick is over, unless with --at-least-once. A tick that comes while an
/// earlier one runs waits for that: until the next tick is due, or it is a minute late (with --missed run, however late; with --at-least-once,
/// for ever). If the earlier one ends or is cut off by then, one of the hosts runs the last tick that is due. What is left out is told
/// on standard error: beside a long run that is the first tick, then ever more seldom how many.
///
/// What ran when, by whom, and how it ended, is in the record once/KEY: see `show`. An exit status of 0 is an end that is well. `cron` itself ends with 0 whatever
/// became of its ticks: each failed one is a line on standard error.
///
/// CMD finds TENURE_TICK in its environment, the tick in milliseconds since 1970, besides TENURE_KEY, TENURE_FENCE and TENURE_DEADLINE (see
/// `run`), and nothing on its standard input. The first INT, TERM or HUP stops CMD cleanly and ends tenure; a second one kills CMD at once.
#[derive(Debug, Parser)]
pub(crate) struct CronArgs {
    /// When: minute, hour, day of the month, month and day of the week, as cron(8) has it, in UTC; with a field for seconds before them, and then
    /// one for the year after them if need be, or @hourly, @daily (@midnight), @weekly, @monthly, @yearly
    pub(crate) schedule: String,
    /// The name of what runs: 1 to 507 bytes of UTF-8. A key has one schedule
    pub(crate) key: OsString,
    /// What to do about the last tick that nobody has run though it was due: while no process ran, or this one was suspended. A tick that is
    /// less than a minute old is run in any case
    #[arg(long, value_name = "WHAT", default_value = "skip")]
    pub(crate) missed: Missed,
    /// Run a tick again if its host dies, or is stopped, before CMD has ended
    #[arg(long)]
    pub(crate) at_least_once: bool,
    /// End after so many ticks, whoever ran them [default: never]
    #[arg(long, value_name = "N")]
    pub(crate) ticks: Option<u64>,
    /// How long the lease outlives a host that dies
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10s")]
    pub(crate) ttl: Duration,
    /// Between TERM and KILL when CMD is stopped, and all that it has started. When the lease is being lost, and for what CMD has left
    /// running by itself, there is less: an eighth of the ttl at most
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10s")]
    pub(crate) grace: Duration,
    /// Stop CMD when it has run for this long [default: any]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) max: Option<Duration>,
    #[command(flatten)]
    pub(crate) away: super::AwayArgs,
    #[command(flatten)]
    pub(crate) voice: super::VerbosityArgs,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// What becomes of a tick that was missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Missed {
    /// It is left out.
    Skip,
    /// The last one is run, late.
    Run,
}
