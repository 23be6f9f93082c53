//! `work`: a command for each unit.

use super::fleet::BalanceArg;
use super::jobs;
use crate::text::span;
use clap::Parser;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// A number of digits. Others take +2 for two more than there are cores.
fn plain_number(text: &str) -> Result<usize, String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain).ok_or_else(|| "write how many, as in 4".to_owned())
}

/// What is of units that are done some day. Of a group, an error would name all options, whatever was typed.
const OF_JOBS: [&str; 17] = [
    "retries",
    "max_takeovers",
    "retry_failed",
    "fresh",
    "json",
    "group",
    "ungroup",
    "tag",
    "keep_order",
    "results",
    "joblog",
    "max_args",
    "timeout",
    "delay",
    "load",
    "halt",
    "progress",
];

/// Share units of work with other processes: a distributed xargs.
///
/// CMD is run once for each unit, by whichever process of the job takes it. In CMD's arguments `{}` stands for the unit, {.} for the
/// unit without its extension, {/} for its last part, and {//} for its directory. {/.} is its last part without extension. {#} is the
/// number of its line or argument. {%} is the number of its slot, from 1 to how many run at a time (also TENURE_SLOT). If none of
/// them is there, the unit is appended. A unit is done when CMD exits with 0, and a unit that is done is not run again,
/// also not by a later `work` of the same job, unless with --fresh, or after `gc` has removed the record: a day later, and once all of the
/// job is done or failed. Any number of processes may share a job, and any may be
/// killed at any time: its units are taken over once its commands are dead, or else once its ttl has passed. A process ends when
/// every unit of the job is done or failed; it fails if units that it was given failed, or any while it worked on the job. So it
/// does if the record of one was removed before that.
///
/// Units are the UNIT arguments, the lines of FILE, or else of standard input; empty lines are skipped, and what is
/// given twice is run once. A name is any bytes but NUL, up to 4096 of them; a line that is none is told, left out, and makes the status 1.
/// Units are run before the list on standard input has ended. With --fresh, and from FILE, the list is read to its end first.
///
/// Without --name, a job is CMD with its arguments, the working directory's path, and where the units come from: FILE's path
/// (also of `< FILE`), standard input, or else the set of UNIT arguments. The same again joins the job, on whichever host; anything
/// else is another job. So a list that is piped in again is gone on with: what is done is not run again, what is new or was left is.
/// A list that is to be run anew needs --fresh, or a --name of its own, as "$(date +%F)". Where the same path leads to different
/// files on different hosts, give each host a --name, too. To join from another directory, give the name that is printed, and --join.
///
/// If all units that are given were done before, nothing is run, and it is said when they were. Without --name the status is 73
/// then, so that no nightly job skips its work unnoticed: give each night a --name of its own, or --fresh. With --name
/// and a terminal or nothing as standard input, or with --join, the units that are registered already are worked on. A FILE without a
/// unit is refused with status 64, and so is such a list on standard input with --fresh.
///
/// What CMD writes is caught in nameless files (in TMPDIR) and written in one piece when it ends, if more than one unit runs at a time;
/// with --ungroup, or one at a time, it passes through as it comes. A process that nobody reads from any more (`work … | head`) hands
/// back what it runs and ends by SIGPIPE, as other programs do; where outputs pass through, once a command fails for it. CMD's standard input is empty. What CMD leaves running is ended with it: see TENURE_MARK in
/// docs/command-line.md. A server in the background that empties or writes over its environment is ended with the last command that may have started it, so CMD should stop it. CMD finds TENURE_UNIT, TENURE_KEY, TENURE_FENCE and TENURE_DEADLINE in its environment (see `run`).
///
/// The first INT, TERM or HUP stops the running commands and hands their units back, unharmed; a second one
/// kills them at once, and their leases are given back when they are dead.
///
/// With --forever, units are never done: they are the fleet NAME's, spread evenly over the processes that work on it, and CMD
/// runs for each for as long as this process owns it. CMD is started again when it exits, after a pause. When another process
/// is to have the unit CMD gets TERM and then KILL, and only then the unit is passed on. Processes come and go freely: units
/// follow. Standard input is not read unless by --from -. See also `fleet`.
///
/// On a lease table of the KCL's or of a8m/lease (dynamodb://TABLE?region=REGION&dialect=kcl, with &peers=a8m for the latter, and
/// &steal=N for how many leases are stolen at a time), the table is the fleet and NAME begins this worker's id there. --ttl is the
/// failover time, the same for all; --parallel is the most leases that this process takes: its share, and what is still free after
/// three failover times because others may not take more; labels and weights are not to be had. TENURE_FENCE is the row's counter
/// when the lease was taken: it grows for as long as the row lives.
///
/// What became of a job can be looked at: `work ls`, `work status JOB`, `work retry JOB`, `work rm JOB`. A word that stands before
/// a CMD is a unit, also if it is one of these: `work ls -- echo`.
#[derive(Debug, Parser)]
#[command(subcommand_negates_reqs = true, disable_help_subcommand = true)]
pub(crate) struct WorkArgs {
    #[command(subcommand)]
    pub(crate) jobs: Option<jobs::WorkVerb>,
    /// The units
    #[arg(value_name = "UNIT")]
    pub(crate) units: Vec<OsString>,
    /// The units, too; for scripts that like to name everything
    #[arg(long = "units", value_name = "UNIT", num_args = 1.., conflicts_with_all = ["units", "from", "join"])]
    pub(crate) named: Vec<OsString>,
    /// Read units from FILE, one per line; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["units", "join"])]
    pub(crate) from: Option<PathBuf>,
    /// Units read from FILE or standard input end with a NUL, not with a newline
    #[arg(long, short = '0')]
    pub(crate) null: bool,
    /// Read no units: work on those that are registered
    #[arg(long, conflicts_with = "units", requires = "name")]
    pub(crate) join: bool,
    /// The job's name: processes with the same name share its units. Whoever runs another CMD for them than a process at work is told [default: from CMD, the working directory, and where the units come from]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<OsString>,
    /// Units that never end: run CMD for each for as long as this process owns it
    #[arg(long, requires = "name", conflicts_with_all = OF_JOBS)]
    pub(crate) forever: bool,
    /// With --forever: a label that units may need of their process. May be repeated
    #[arg(long, value_name = "LABEL", requires = "forever")]
    pub(crate) label: Vec<String>,
    /// With --forever: the most weight that this process takes, of units that were given one [default: any]
    #[arg(long, value_name = "W", requires = "forever")]
    pub(crate) most_weight: Option<u64>,
    /// With --forever: what is evened out between processes, units or their weights. Give all the same
    #[arg(long, value_name = "WHAT", requires = "forever", default_value = "count")]
    pub(crate) balance: BalanceArg,
    /// How many units to run at a time [default: one per core; with --forever, this process's share, whatever it is]
    #[arg(long, short, value_name = "N", value_parser = plain_number)]
    pub(crate) parallel: Option<usize>,
    /// How often a unit that fails is tried again before it counts as failed. Of an attempt that is tried again, only standard error is
    /// written. Where outputs pass through (see --ungroup), all of it is out by then
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) retries: u32,
    /// How often a unit is taken over, in a row, from workers that died while they had it, before it counts as failed: such runs are no
    /// attempts, and --retries does not count them. The last
    /// time it is run alone, so that it can't take others with it
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) max_takeovers: u32,
    /// The pause before a failed unit is tried again, or CMD of --forever is started again; it doubles each time, up to 5m. With
    /// --forever, a run that is ten times as long as this starts over
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "1s")]
    pub(crate) backoff: Duration,
    /// Try units again that an earlier run recorded as failed
    #[arg(long)]
    pub(crate) retry_failed: bool,
    /// Run the given units anew, also those that are done, with all their attempts; all of the job with --join, or with --name and a terminal or
    /// /dev/null as standard input. Refused with status 75 while a process that was started before works on the job: what it has just done would be run twice
    #[arg(long, conflicts_with = "retry_failed")]
    pub(crate) fresh: bool,
    /// How long the units of a process that dies stay its own
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10s")]
    pub(crate) ttl: Duration,
    /// Between TERM and KILL when commands are stopped. When the lease is being lost there is less: an eighth of the
    /// ttl at most
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10s")]
    pub(crate) grace: Duration,
    #[command(flatten)]
    pub(crate) away: super::AwayArgs,
    #[command(flatten)]
    pub(crate) how: jobs::CommandArgs,
    /// Print the summary as JSON on standard output: its last line, behind what commands have written there
    #[arg(long)]
    pub(crate) json: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
