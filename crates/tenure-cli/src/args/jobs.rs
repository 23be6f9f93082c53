//! What is typed to look at jobs, and to change them by hand: the verbs below `work`.

use clap::{Parser, Subcommand};
use std::ffi::OsString;

#[derive(Debug, Subcommand)]
pub(crate) enum Jobs {
    Ls(Ls),
    Status(Status),
    Retry(Retry),
    Rm(Rm),
}

/// List the jobs of the store: how many units each has, and where they stand.
#[derive(Debug, Parser)]
#[command(after_help = "Example:\n  tenure work ls")]
pub(crate) struct Ls {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show how a job stands: counts, rate, time left, who works on it, what runs, and what has failed.
///
/// The rate is that of the last five minutes, and the time left what is open divided by it, as long as anybody works on the job.
/// Of a failed unit are told its exit code, host, time and attempts, and the last lines that its command wrote, if `work` has kept
/// its output in one piece (see --group there).
///
/// Exits with status 66 if there is no such job, and with 0 also if units have failed.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  tenure work status night\n  tenure work status night --json")]
pub(crate) struct Status {
    /// The job's name, as `work ls` and `work` itself print it
    #[arg(value_name = "JOB")]
    pub(crate) job: OsString,
    /// How many units that failed, or run, are listed at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) most: usize,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Have failed units tried again, with all their attempts.
///
/// Whoever works on the job takes them up; if nobody does, run its `work` again. What has not failed is left as it is.
/// Exits with status 66 if there is no such job, or none of the units has failed.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  tenure work retry night\n  tenure work retry night b.gz c.gz")]
pub(crate) struct Retry {
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
#[command(after_help = "Example:\n  tenure work rm night --yes")]
pub(crate) struct Rm {
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
