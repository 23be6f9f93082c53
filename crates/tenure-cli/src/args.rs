//! What is typed: the command line as clap sees it. What it means is worked out once, in `config`.

pub(crate) mod cron;
mod examples;
pub(crate) mod fleet;
pub(crate) mod habits;
pub(crate) mod hold;
pub(crate) mod jobs;
mod records;
#[cfg(feature = "serve")]
pub(crate) mod serve;
pub(crate) mod telemetry;

use crate::exit;
use crate::stores;
use crate::text::span;
use clap::{Parser, Subcommand};
use fleet::BalanceArg;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use examples::command;
pub(crate) use records::{GcArgs, LsArgs, ReclaimArgs, ReleaseArgs, RevokeArgs, RmArgs, ShowArgs, WaitArgs};

/// Leases on a store you already have: run a command under a lock, share units of work between machines.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, long_version = stores::VERSION.as_str(), after_help = exit::HELP, max_term_width = 100)]
pub(crate) struct Args {
    /// Where the leases are kept: sqlite:PATH (shared by the processes of one host), memory:, or one behind a service, if this build
    /// has it (see --version), such as postgres://USER@HOST/DATABASE or dynamodb://TABLE?region=REGION&namespace=NAME; or the name of
    /// one in a configuration file [default: a file of this user's, see `tenure config`]. With &dialect=tabletheory, `run` shares the table with TableTheory's
    /// leases, of which KEY is the partition key; with &dialect=kcl, `work --forever` shares it with the KCL's or a8m/lease's
    #[arg(long, short, global = true, env = "TENURE_STORE", hide_env_values = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// A part of the store that is one by itself: leases.NAME.db beside leases.db; on PostgreSQL a schema, on etcd a prefix below that of
    /// the URL, elsewhere the URL's &namespace=
    #[arg(long, global = true, env = "TENURE_NAMESPACE", hide_env_values = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) telemetry: telemetry::TelemetryArgs,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(RunArgs),
    Elect(ElectArgs),
    Cron(cron::CronArgs),
    Hold(hold::HoldArgs),
    #[cfg(feature = "serve")]
    Serve(serve::ServeArgs),
    Leader(LeaderArgs),
    Work(WorkArgs),
    Range(RangeArgs),
    Fleet(fleet::FleetArgs),
    Ls(LsArgs),
    Show(ShowArgs),
    Wait(WaitArgs),
    Rm(RmArgs),
    Release(ReleaseArgs),
    Revoke(RevokeArgs),
    Reclaim(ReclaimArgs),
    Gc(GcArgs),
    Doctor(DoctorArgs),
    Config(ConfigArgs),
    Bench(BenchArgs),
    Sim(SimArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

impl Verb {
    /// The store that is named as the verb's own argument.
    pub(crate) fn url(&self) -> Option<&str> {
        match self {
            Verb::Doctor(typed) => typed.url.as_deref(),
            Verb::Bench(typed) => typed.url.as_deref(),
            _ => None,
        }
    }

    /// Whether only what goes wrong is to be told. `work` sees to that itself.
    pub(crate) fn is_quiet(&self) -> bool {
        let voice = match self {
            Verb::Run(typed) => &typed.voice,
            Verb::Elect(typed) => &typed.voice,
            Verb::Cron(typed) => &typed.voice,
            Verb::Hold(typed) => &typed.voice,
            Verb::Range(typed) => &typed.voice,
            Verb::Wait(typed) => &typed.voice,
            _ => return false,
        };
        voice.quiet
    }

    /// Whether it is there to exclude other processes, which needs a store that they share.
    pub(crate) fn excludes_others(&self) -> bool {
        match self {
            Verb::Run(_) | Verb::Elect(_) | Verb::Cron(_) | Verb::Hold(_) | Verb::Range(_) => true,
            Verb::Work(typed) => typed.jobs.is_none() && typed.name.is_some(),
            _ => false,
        }
    }
}

/// Run a command while holding a lease.
///
/// CMD runs in its own process group. If the lease is about to be lost, CMD and all that it has started get TERM and then KILL,
/// before anyone else can have the lease, also when tenure itself is killed or stopped meanwhile. What CMD leaves running
/// when it ends is ended, too, and named: on Linux in whatever group or session it is. Have a service manager start what is to
/// stay. If something can't be killed, the lease is left to expire.
///
/// CMD finds in its environment: TENURE_KEY; TENURE_FENCE, a number that grows with each holder of KEY, for resources that
/// can refuse an older one; TENURE_DEADLINE, until when the lease was good when CMD started, in milliseconds since 1970
/// (an estimate: it is prolonged while CMD runs). TableTheory's leases (dialect=tabletheory) have no fence, so there is no
/// TENURE_FENCE then.
///
/// The first INT, TERM or HUP stops CMD cleanly and then hands the lease back; a second one kills CMD at once,
/// and the lease is given back when CMD is dead. tenure then ends by that signal itself, as its caller expects. On a terminal Ctrl-C goes to
/// CMD alone; if CMD ends by it, so does tenure. Three within two seconds, which CMD does not heed, are as an INT to tenure.
/// USR1, USR2, ALRM, QUIT and WINCH are passed on to CMD; while none runs they do nothing, but QUIT ends tenure.
///
/// For a shell tenure and CMD are one job: Ctrl-Z, bg and fg stop and continue both. The lease goes on for what is left of its ttl
/// meanwhile. Who is away for longer finds CMD ended.
///
/// With --permits, --shared, --exclusive or --fair KEY is the name of a semaphore: several may hold it at a time, and those who wait have their
/// turns in the order of their coming. They exclude each other, but not who runs under the plain lease of that name. With several KEYs CMD
/// runs while it holds all of them; it finds TENURE_FENCES, a line of fence and key for each, in the place of TENURE_FENCE.
#[derive(Debug, Parser)]
pub(crate) struct RunArgs {
    /// The name of the lease: 1 to 512 bytes of UTF-8. Of several, all are held, or none
    #[arg(required = true, value_name = "KEY")]
    pub(crate) keys: Vec<OsString>,
    /// At most N at a time hold KEY, all of which say the same N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["shared", "exclusive", "fair"])]
    pub(crate) permits: Option<u32>,
    /// Take K of the permits at once [default: 1]
    #[arg(long, value_name = "K", requires = "permits", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) take: Option<u32>,
    /// Beside all others that are --shared, and none that is --exclusive
    #[arg(long, conflicts_with_all = ["exclusive", "fair"])]
    pub(crate) shared: bool,
    /// Beside nobody that is --shared or --exclusive
    #[arg(long, conflicts_with = "fair")]
    pub(crate) exclusive: bool,
    /// One at a time, in the order of coming: the same as --exclusive
    #[arg(long)]
    pub(crate) fair: bool,
    /// Exit with this status, and not 75, where another holds what is wanted
    #[arg(short = 'E', long, value_name = "CODE")]
    pub(crate) conflict_exit_code: Option<u8>,
    /// Don't wait: exit with status 75 if another holds the lease
    ///
    /// On a store that tells no ages (see `tenure doctor`) a dead holder's lease is had by the second try of one host that finds
    /// it silent, a ttl after the first, on Linux; elsewhere only by who waits for longer than its ttl: use --wait there.
    #[arg(long = "try", conflicts_with = "wait")]
    pub(crate) try_only: bool,
    /// Wait this long at most, then exit with status 75 [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) wait: Option<Duration>,
    /// How long the lease outlives a holder that dies
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10s")]
    pub(crate) ttl: Duration,
    /// Between TERM and KILL when CMD is stopped. When the lease is being lost there is less: an eighth of the ttl at most
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10s")]
    pub(crate) grace: Duration,
    /// Stop CMD when it has run for this long, as when the lease is being lost, with the whole grace period; the status is 76 then
    /// [default: any]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) max: Option<Duration>,
    /// Hold the lease for this long at least, also when CMD ends sooner: tenure ends then. For commands that are shorter than the
    /// clocks of hosts differ. The ttl is no shorter than this, so that it holds if tenure is killed
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) min: Option<Duration>,
    #[command(flatten)]
    pub(crate) about: AboutArgs,
    #[command(flatten)]
    pub(crate) hooks: HookArgs,
    #[command(flatten)]
    pub(crate) voice: VerbosityArgs,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// What others are told of who holds a lease, by `show`: user, host, process and program besides.
#[derive(Debug, Clone, Parser)]
pub(crate) struct AboutArgs {
    /// Say why, for whoever asks who holds it (see `show`): up to 1000 bytes, which all who may read the store can read
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
}

/// How much is told.
#[derive(Debug, Clone, Parser)]
pub(crate) struct VerbosityArgs {
    /// Tell only what goes wrong, and not who is waited for
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// What is run when a lease begins, and when it is lost.
#[derive(Debug, Clone, Parser)]
pub(crate) struct HookArgs {
    /// Run this by sh(1) under the lease, before CMD starts. If it fails, CMD does not run, and its status is that of CMD
    #[arg(long, value_name = "CMD")]
    pub(crate) on_acquire: Option<OsString>,
    /// Run this by sh(1) after CMD was stopped because the lease was lost or withdrawn, for a minute at most: with TENURE_KEY, TENURE_FENCE and
    /// TENURE_REASON. Nothing runs it when tenure itself is killed
    #[arg(long, value_name = "CMD")]
    pub(crate) on_lost: Option<OsString>,
}

/// Run a command only while this process is the leader.
///
/// Of all processes that run `elect` with the same KEY, one leads and runs CMD; the others stand by, and one of them
/// takes over when the leader ends, dies, or can't renew any more. When leadership is about to be lost, CMD's process
/// group gets TERM and then KILL, all of it before anyone else can lead, also when tenure itself is killed or stopped
/// meanwhile. The process then stands by, and starts CMD again when it is elected again.
///
/// When CMD ends by itself, `elect` ends with its status and makes room for another leader: put it under a supervisor
/// that starts it again. CMD finds TENURE_KEY, TENURE_FENCE and TENURE_DEADLINE in its environment (see `run`).
///
/// The first INT, TERM or HUP stops CMD cleanly and then makes room for another; a second one kills CMD at
/// once, and the lease is given back when CMD is dead.
#[derive(Debug, Parser)]
pub(crate) struct ElectArgs {
    /// What is led: 1 to 512 bytes of UTF-8
    pub(crate) key: OsString,
    /// How long a leader that dies still counts as one
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10s")]
    pub(crate) ttl: Duration,
    /// Between TERM and KILL when CMD is stopped. When leadership is being lost there is less: an eighth of the ttl at most
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10s")]
    pub(crate) grace: Duration,
    /// Run this by sh(1) whenever another leads, or nobody: with TENURE_KEY, TENURE_LEADER and TENURE_FENCE (empty
    /// while nobody leads), and TENURE_ROLE, which is "leader" or "standby". One runs at a time; of changes meanwhile,
    /// the last one counts
    #[arg(long, value_name = "CMD")]
    pub(crate) on_change: Option<OsString>,
    #[command(flatten)]
    pub(crate) about: AboutArgs,
    #[command(flatten)]
    pub(crate) hooks: HookArgs,
    #[command(flatten)]
    pub(crate) voice: VerbosityArgs,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Print who leads: the holder's name.
///
/// Exits with status 66 if nobody does.
#[derive(Debug, Parser)]
pub(crate) struct LeaderArgs {
    /// What is led
    pub(crate) key: OsString,
    /// Go on, and print a line whenever another leads, or nobody (-): the time, the leader, its fence
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Print JSON: one document, or with --follow one in each line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run a command for the keys of a range that nobody else works on.
///
/// What of LO..HI no other process holds in SECTION is leased for a fixed time, and CMD runs with it, once. CMD finds the ranges
/// on its standard input, one a line, and in TENURE_RANGES with spaces between (if they fit): low_high in hexadecimal digits, the
/// high end excluded. TENURE_KEY, TENURE_FENCE and TENURE_DEADLINE are as for `run`, but the deadline is never prolonged: then CMD
/// gets TERM, and after the grace period KILL, before anyone else can have the ranges, also when tenure itself is killed or
/// stopped meanwhile. If all of it is held by others, CMD does not run and the status is 75; with --all, also if any of it is.
///
/// The first INT, TERM or HUP stops CMD cleanly and then hands the ranges back; a second one does so at once.
#[derive(Debug, Parser)]
pub(crate) struct RangeArgs {
    /// The name of the section: not empty; with `section/` before it, the key of its record
    pub(crate) section: OsString,
    /// The keys: two hexadecimal numbers, of any width, the second excluded
    #[arg(value_name = "LO..HI")]
    pub(crate) range: String,
    /// How long the ranges are leased; CMD has some 0.7 of it, that is less a margin for clocks that drift and the grace period
    #[arg(long = "for", value_name = "TIME", value_parser = span, default_value = "10m")]
    pub(crate) duration: Duration,
    /// All of the keys or none, instead of those that are free
    #[arg(long)]
    pub(crate) all: bool,
    /// Wait so long for keys to become free: for any of them, or with --all for all
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "0s")]
    pub(crate) wait: Duration,
    /// Between TERM and KILL when CMD is stopped; when the time is over, an eighth of it at most
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10s")]
    pub(crate) grace: Duration,
    #[command(flatten)]
    pub(crate) voice: VerbosityArgs,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Share units of work with other processes: a distributed xargs.
///
/// CMD is run once for each unit, by whichever process of the job takes it. In CMD's arguments `{}` stands for the unit, {.} for the
/// unit without its extension, {/} for its last part, and {//} for its directory. {/.} is its last part without extension. {#} is the
/// number of its line or argument. {%} is the number of its slot, from 1 to how many run at a time (also TENURE_SLOT). If none of
/// them is there, the unit is appended. A unit is done when CMD exits with 0, and a unit that is done is not run again,
/// also not by a later `work` of the same job, unless with --fresh. Any number of processes may share a job, and any may be
/// killed at any time: its units are taken over once its commands are dead, or else once its ttl has passed. A process ends when
/// every unit of the job is done or failed; it fails if units that it was given failed, or any while it worked on the job.
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
/// and a terminal or nothing as standard input, or with --join, the units that are registered already are worked on.
///
/// What CMD writes is caught in nameless files (in TMPDIR) and written in one piece when it ends, if more than one unit runs at a time;
/// with --ungroup, or one at a time, it passes through as it comes. A process that nobody reads from any more (`work … | head`) hands
/// back what it runs and ends by SIGPIPE, as other programs do. CMD's standard input is empty. CMD finds TENURE_UNIT, TENURE_KEY, TENURE_FENCE and TENURE_DEADLINE in its environment (see `run`).
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
/// failover time, the same for all; --parallel is the most leases that this process takes; labels and weights are not to be had.
/// TENURE_FENCE is the row's counter when the lease was taken: it grows for as long as the row lives.
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
    /// The job's name: processes with the same name share its units [default: from CMD, the working directory, and where the units come from]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<OsString>,
    /// Units that never end: run CMD for each for as long as this process owns it
    #[arg(long, requires = "name", conflicts_with_all = ["retries", "max_takeovers", "retry_failed", "fresh", "json", "CommandArgs"])]
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
    #[arg(long, short, value_name = "N")]
    pub(crate) parallel: Option<usize>,
    /// How often a unit that fails is tried again before it counts as failed
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) retries: u32,
    /// How often a unit is taken over, in a row, from workers that died while they had it, before it counts as failed. The last
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
    /// Run the given units anew, also those that are done; without any, all of the job. Refused with status 75 while a
    /// process that was started before works on the job: what it has just done would be run twice
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
    pub(crate) how: jobs::CommandArgs,
    /// Print the summary as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Check the store and its records, and say what can't be promised.
///
/// On a table in the layout of other programs (dialect=kcl, dialect=tabletheory): whether it is fit, who has leases in it, and
/// whether this host's clock is near enough to the service's where that matters.
///
/// Everywhere else: what the server says of itself and can lose leases by, what this user may do, round trips, clocks, and a hundred
/// races for a record of doctor's own, which is removed. Ends with 0 if all is well, with 2 if something can lose leases or a right is
/// missing, with 1 if a check failed, with 69 if the store can't be reached.
#[derive(Debug, Parser)]
pub(crate) struct DoctorArgs {
    /// The store, instead of --store
    pub(crate) url: Option<String>,
    /// Only look: write nothing, not even a record of doctor's own
    #[arg(long, conflicts_with = "create_table")]
    pub(crate) read_only: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Make the store's table first if it is missing (DynamoDB: billed on demand)
    #[arg(long)]
    pub(crate) create_table: bool,
}

/// Print the settings that hold, and where each comes from: the store, named stores, options' defaults, the files looked for.
#[derive(Debug, Parser)]
pub(crate) struct ConfigArgs {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measure the store: how long it takes to acquire, renew and release, and how many of these it does in a second.
///
/// Beside them, in the same run and by the same connection, are the store's bare conditional writes, which are the limit. Each task has
/// a key of its own, below bench/, which is removed in the end.
#[derive(Debug, Parser)]
pub(crate) struct BenchArgs {
    /// The store, instead of --store
    pub(crate) url: Option<String>,
    /// How many tasks do so at the same time
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) tasks: usize,
    /// For how long
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    pub(crate) seconds: f64,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run tenure's machines in a simulated world where everything goes wrong that can, and check every promise.
///
/// The same seed is the same history. When a promise is broken, the history is shortened, and its last events are
/// printed with a line that runs it again.
#[derive(Debug, Parser)]
pub(crate) struct SimArgs {
    /// The first world's seed; the next ones count up from it
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How much time to simulate, at least
    #[arg(long, default_value_t = 1000.0)]
    pub(crate) hours: f64,
    /// The most worlds; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) worlds: u64,
    /// The kind of world; otherwise, by turns, all those of leases and elections, but not those of sections (sections-all by turns)
    /// and of fleets (fleet-all)
    #[arg(long, value_name = "NAME")]
    pub(crate) scenario: Option<String>,
    /// Kinds of faults that do not happen
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    pub(crate) without: Vec<String>,
    /// How many nodes take part; 0 for as many as the scenario has
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) nodes: usize,
    /// Switch a bug on, to see it caught; only in a build with the feature `bugs`
    #[arg(long, value_name = "BUG", value_delimiter = ',')]
    pub(crate) bug: Vec<String>,
    /// How many worlds run at a time; the report is the same with any number
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
    /// Do not shorten the history of a broken promise
    #[arg(long)]
    pub(crate) no_shrink: bool,
    /// List scenarios, faults, promises and bugs, and simulate nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a completion script for a shell.
#[derive(Debug, Parser)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page, of tenure or of one of its verbs, or install them all.
#[derive(Debug, Parser)]
pub(crate) struct ManArgs {
    /// Which verb: run, or fleet top
    pub(crate) verb: Vec<String>,
    /// Write the pages of all verbs to DIR/man1, as in /usr/local/share/man
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    pub(crate) install: Option<PathBuf>,
}
