//! Elections: `elect` and `leader`.

use super::{AboutArgs, AwayArgs, HookArgs, VerbosityArgs};
use crate::text::span;
use clap::Parser;
use std::ffi::OsString;
use std::time::Duration;

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
/// A CMD that hangs leads on, since tenure renews the lease for it: --check finds that out, and --max ends each term.
///
/// Those who stand by have no order of preference here: by the library's `Candidate`, a program has one.
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
    /// Between TERM and KILL when CMD is stopped, and all that it has started. When leadership is being lost, and for what CMD has left
    /// running by itself, there is less: an eighth of the ttl at most
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10s")]
    pub(crate) grace: Duration,
    /// Run this by sh(1) whenever another leads, or nobody: with TENURE_KEY, TENURE_LEADER and TENURE_FENCE (empty
    /// while nobody leads), and TENURE_ROLE, which is "leader" or "standby". One runs at a time; of changes meanwhile,
    /// the last one counts. Another leader counts as none once the store could not be read for its ttl. What it leaves running while CMD runs is ended with CMD. That
    /// it fails is not told, and changes nothing: it has to say so itself
    #[arg(long, value_name = "CMD")]
    pub(crate) on_change: Option<OsString>,
    /// Stop CMD when it has led for this long, with the whole grace period, and let another lead [default: any]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) max: Option<Duration>,
    /// Run this by sh(1) now and then while CMD runs, under the same lease, to find out whether CMD is well. When it fails again and again,
    /// or takes longer than the time between two of them, CMD is stopped, and another leads. --on-lost is told so
    #[arg(long, value_name = "CMD")]
    pub(crate) check: Option<OsString>,
    /// How often to run --check: first when CMD has run for so long [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) check_every: Option<Duration>,
    /// How many times in a row --check fails before CMD is stopped [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) check_failures: Option<u32>,
    /// How long to stand back after a term that was withdrawn, or ended by --max or --check, so that others get their turn
    /// [default: two fifths of the ttl, which is the most on less's table]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) cooldown: Option<Duration>,
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

/// Print who leads: the holder's name.
///
/// Exits with status 66 if nobody does. Where the store tells no ages (see `tenure doctor`), a leader that seems dead by two hosts' clocks is
/// watched for its ttl first.
#[derive(Debug, Parser)]
pub(crate) struct LeaderArgs {
    /// What is led
    pub(crate) key: OsString,
    /// Go on, and print a line whenever another leads, or nobody (-): the time, the leader, its fence. A leader counts as none once the store
    /// could not be read for its ttl. If the file of the store is removed or replaced, the status is 69
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Print JSON: one document, or with --follow one in each line
    #[arg(long)]
    pub(crate) json: bool,
}
