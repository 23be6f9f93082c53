//! `run`, and what every verb that runs a command under a lease can be told.

use crate::text::span;
use clap::Parser;
use std::ffi::OsString;
use std::time::Duration;

/// Run a command while holding a lease.
///
/// CMD runs in its own process group. If the lease is about to be lost, CMD and all that it has started get TERM and then KILL,
/// before anyone else can have the lease, also when tenure itself is killed or stopped meanwhile. What CMD leaves running
/// when it ends is ended, too, and named: on Linux in whatever group or session it is. Have a service manager start what is to
/// stay. If something can't be killed, the lease is left to expire. After tenure's own death a daemon is missed that loses its parent only
/// then, and has cast off environment and session (see `doctor`).
///
/// CMD finds in its environment: TENURE_KEY; TENURE_FENCE, a number that grows with each holder of KEY, for resources that
/// can refuse an older one; TENURE_DEADLINE, until when the lease was good when CMD started, in milliseconds since 1970
/// (an estimate: it is prolonged while CMD runs); TENURE_HELD, a line of fence and key for each lease that it runs under, also those
/// of a `run` around this one: a `run` in CMD that wants one of these keys would wait for itself, and says so.
///
/// On a table of TableTheory's leases (dynamodb://TABLE?region=REGION&dialect=tabletheory) KEY is the partition key. Such leases have no fence, so there
/// is no TENURE_FENCE then.
///
/// The first INT, TERM or HUP stops CMD cleanly and then hands the lease back; a second one kills CMD at once,
/// and the lease is given back when CMD is dead. tenure then ends by that signal itself, as its caller expects. On a terminal Ctrl-C goes to
/// CMD, and to what reads its output through a pipe; if CMD ends by it, so does tenure. If CMD ignores three Ctrl-C within two seconds, tenure stops it.
/// USR1, USR2, ALRM, QUIT and WINCH are passed on to CMD; while none runs they do nothing, but QUIT ends tenure.
///
/// For a shell tenure and CMD are one job: Ctrl-Z, bg and fg stop and continue both. The lease goes on for what is left of its ttl
/// meanwhile. Who is away for longer finds CMD ended.
///
/// With --permits, --shared, --exclusive or --fair KEY is the name of a semaphore: several may hold it at a time, and those who wait have their
/// turns in the order of their coming. They exclude each other, but not who runs under the plain lease of that name. With several KEYs CMD
/// runs while it holds all of them; it finds TENURE_FENCES, a line of fence and key for each, in the place of TENURE_FENCE. TENURE_KEY is all of
/// them then, with blanks between, and `semaphore/NAME` of a semaphore.
#[derive(Debug, Parser)]
pub(crate) struct RunArgs {
    /// The name of the lease: 1 to 512 bytes of UTF-8, or 502 of a semaphore. Of several, all are held, or none
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
    /// Between TERM and KILL when CMD is stopped, and all that it has started. When the lease is being lost, and for what CMD has left
    /// running by itself, there is less: an eighth of the ttl at most
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10s")]
    pub(crate) grace: Duration,
    /// Stop CMD when it has run for this long, as when the lease is being lost, with the whole grace period; the status is 76 then.
    /// --on-acquire has as much time of its own, before that [default: any]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) max: Option<Duration>,
    /// Hold the lease for this long at least, also when CMD ends sooner: tenure ends then. For jobs on timers of
    /// several hosts: longer than the hosts' clocks differ, and shorter than the schedule's period. The ttl is no shorter than this, so that it holds if tenure is killed
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) min: Option<Duration>,
    #[command(flatten)]
    pub(crate) away: AwayArgs,
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

/// What becomes of a store that is away when a verb begins.
#[derive(Debug, Clone, Parser)]
pub(crate) struct AwayArgs {
    /// Wait so long for a store that can't be reached at the start, and then exit with status 69
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "0s")]
    pub(crate) await_store: Duration,
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
    /// Run this by sh(1) under the lease, before CMD starts. If it fails, CMD does not run, and its status is that of CMD. What it leaves
    /// running is ended before CMD starts, and named: have CMD itself start what is to run beside it
    #[arg(long, value_name = "CMD")]
    pub(crate) on_acquire: Option<OsString>,
    /// Run this by sh(1) once CMD is over, where the lease was lost or withdrawn meanwhile, or its --max was over, for a minute at most: with
    /// TENURE_KEY, TENURE_FENCE (or TENURE_FENCES) and TENURE_REASON. If it fails, that is told, and the status stays. Nothing runs it when tenure
    /// itself is killed
    #[arg(long, value_name = "CMD")]
    pub(crate) on_lost: Option<OsString>,
}
