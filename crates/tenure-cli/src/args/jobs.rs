//! What is typed to look at jobs, and to change them by hand: the verbs below `work`.

use crate::text::span;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Whether progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressMode {
    Auto,
    Never,
}

/// How the commands of a job are run, and what becomes of what they write.
#[derive(Debug, Args)]
pub(crate) struct CommandArgs {
    /// Write what a command writes in one piece, when it ends [default where more than one runs at a time]. It is caught in files: a command that opens
    /// /dev/stdout or /dev/stderr by name, as `> /dev/stderr` does, cuts off what it has written there before. Write >&2 instead, or use --ungroup
    #[arg(long, conflicts_with = "ungroup")]
    pub(crate) group: bool,
    /// Let what commands write pass through as it comes: lines of units that run at the same time may be mixed
    #[arg(long, short = 'u', conflicts_with_all = ["tag", "keep_order", "results"])]
    pub(crate) ungroup: bool,
    /// Begin each line of output with the unit and a tab
    #[arg(long)]
    pub(crate) tag: bool,
    /// Write outputs in the order in which the units were given, however soon they end. Units that other processes run are passed over. A unit whose output
    /// waits for its turn is held, and is told as running until then. Where that is more than 1 KiB, it keeps two files open: if no more may be
    /// (ulimit -Hn), this process stops with status 70
    #[arg(long, short)]
    pub(crate) keep_order: bool,
    /// Also save what each unit's command writes, as soon as it ends: in DIR/UNIT/stdout and stderr, and its exit code in
    /// DIR/UNIT/status, or `stopped` where it was stopped. In UNIT, a slash is %2F, as in URLs. A name that is too long for a file is its
    /// SHA-256 there, in hexadecimal digits
    #[arg(long, value_name = "DIR")]
    pub(crate) results: Option<PathBuf>,
    /// Add a line for each attempt to FILE, in the columns of GNU parallel's job log. A run that is stopped, and is no attempt, has none. Bytes that are no UTF-8 stand there as they are. No lease
    /// waits for FILE: lines that a pipe or a disk does not take in, as a full one, wait until the end. Those that it does not take in for 5 s
    /// then are lost, and counted
    #[arg(long, value_name = "FILE")]
    pub(crate) joblog: Option<PathBuf>,
    /// Give each command so many of the units that are given: N of them, in their order, are one unit, which is done, fails and is tried
    /// again as one. `{}` by itself stands for N arguments, and in a word for all of them with blanks between. They are
    /// fewer where they would have more than 4096 bytes together. A name that holds a newline is left out. Give
    /// all processes of a job the same N, and the same list in the same order: groups are known as a whole, so a list that has changed, or has grown by less than
    /// a group, makes other groups, and runs their names again
    #[arg(
        long,
        short = 'n',
        visible_short_alias = 'L',
        value_name = "N",
        default_value_t = 1,
        hide_default_value = true
    )]
    pub(crate) max_args: usize,
    /// Stop a command that runs for longer than this, as in 30s or 5m: TERM, and KILL after the grace period. That is a failed attempt,
    /// with exit code 124
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) timeout: Option<Duration>,
    /// Wait at least this long between two starts, as in 500ms or 2s. What can't be started within a second is left to other processes
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "0s", hide_default_value = true)]
    pub(crate) delay: Duration,
    /// Start nothing more, while something runs, as long as this host's load average over the last minute is above this, as in 3.5. Other
    /// processes may run the rest meanwhile
    #[arg(long, value_name = "LOAD")]
    pub(crate) load: Option<f64>,
    /// When this process stops before the job is done: `now` (running commands are stopped, and their units handed back) or `soon` (they
    /// are waited for), and after how many units that failed, were done, or either, here: now,fail=1 or soon,success=3 or soon,done=10. With %, of those that have ended here, and three at least: soon,fail=10%.
    /// Ends with status 1 after failures, otherwise with 0
    #[arg(long, value_name = "WHEN", default_value = "never")]
    pub(crate) halt: String,
    /// Show how far the job is: on a terminal by a bar (not where outputs pass through), elsewhere by a line after 10s, 30s, 70s and so
    /// on, at last each 5m
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) progress: ProgressMode,
    /// Tell only what goes wrong, and not who is waited for; with --forever, not which units come and go
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Tell when each unit's command starts and ends; with --forever also those ends that were asked for
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkVerb {
    Ls(WorkLsArgs),
    Status(WorkStatusArgs),
    Top(WorkTopArgs),
    Retry(WorkRetryArgs),
    Rm(WorkRmArgs),
}

/// List the jobs of the store: how many units each has, and where they stand.
#[derive(Debug, Parser)]
pub(crate) struct WorkLsArgs {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show how a job stands: counts, rate, time left, who works on it, what runs, what is to be tried again, what is damaged, and what has failed.
///
/// The rate is that of the last five minutes, and the time left what is open divided by it, as long as anybody works on the job.
/// A unit counts as running while a process holds it, also when its command has ended and its output waits for its turn (see --keep-order of
/// `work`). Of a failed unit are told its exit code, host, time and attempts, and the last lines that its command wrote, if `work` has kept
/// its output in one piece (see --group there).
///
/// Exits with status 66 if there is no such job, and with 0 also if units have failed.
#[derive(Debug, Parser)]
pub(crate) struct WorkStatusArgs {
    /// The job's name, as `work ls` and `work` itself print it
    #[arg(value_name = "JOB")]
    pub(crate) job: OsString,
    /// How many units that failed, are damaged, are to be tried again, or run, are listed at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) most: usize,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Watch a job, live: what `work status` tells, again and again.
///
/// Keys: q quits; up, down, page up and page down scroll.
#[derive(Debug, Parser)]
pub(crate) struct WorkTopArgs {
    /// The job's name
    #[arg(value_name = "JOB")]
    pub(crate) job: OsString,
    /// How often to look, which reads the whole job; less often where that takes more than a tenth of the time [default: 1s, or 10s on DynamoDB, which
    /// bills reads]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) interval: Option<Duration>,
}

/// Have failed units tried again, with all their attempts.
///
/// Whoever works on the job takes them up; if nobody does, run its `work` again. What has not failed is left as it is.
/// Exits with status 66 if there is no such job, or none of the units has failed.
#[derive(Debug, Parser)]
pub(crate) struct WorkRetryArgs {
    /// The job's name
    #[arg(value_name = "JOB")]
    pub(crate) job: OsString,
    /// Only these units [default: all that have failed]
    #[arg(value_name = "UNIT")]
    pub(crate) units: Vec<OsString>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Forget a job: remove the records of its units. Given again, all of them are run again.
///
/// Refused with status 75 while a process works on the job. A record that goes forgets its fence, and the next one begins at the
/// wall clock of whoever runs the unit then: where hosts' clocks differ by more than the time since the unit last ran, a later
/// fence could be lower than an earlier one. Records whose fence is not past by this host's clock are waited for, and refused
/// after five seconds. `tenure gc` removes jobs that have been left alone for long.
#[derive(Debug, Parser)]
pub(crate) struct WorkRmArgs {
    /// The job's name
    #[arg(value_name = "JOB")]
    pub(crate) job: OsString,
    /// Don't ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}
