//! `hold` as it is typed.

use crate::text::span;
use clap::Parser;
use std::ffi::OsString;
use std::time::Duration;

/// Hold a lease for the program that has started this one, in any language.
///
/// Takes the lease, says so on standard output, and holds it until standard input ends: then it is given back, and the status is 0, or 75 if it was not had by then. What
/// becomes of it meanwhile is told line by line, as it happens. With --json each line is an object with a field "event":
///
/// "acquired": it is held, with "key", "fence" (send it along with every effect), "holder", and the fields of a deadline. "extended":
/// the deadline is a later one. "asked": somebody wants it, in "ask": "hand over", when it suits, or "revoke", after which it is not prolonged.
/// "lost": it is not held any more, with "reason" and, where it is known, "loss", a word for it; the status is 76, unless a signal had ended it. "released": it was given back.
///
/// A deadline is told as "remaining_ms" from when the line was written; as "deadline", a date by this host's clock, for
/// people; and as "deadline_boottime_ms", by CLOCK_BOOTTIME, which processes of this host compare with their own reading of it: that
/// means nothing where "boot", the boot id, a slash and the inode of the time namespace, is not their own. Whoever
/// is told of no later one stops acting by then, whatever became of tenure: it may have been killed, or stopped. When its
/// output ends without "released" or "lost", no later one comes.
///
/// INT, TERM and HUP give the lease back, too, at once; with --until-eof, only once its reader can't believe in it any more. Without --json the same
/// is said in words.
#[derive(Debug, Parser)]
pub(crate) struct HoldArgs {
    /// The name of the lease: 1 to 512 bytes of UTF-8
    pub(crate) key: OsString,
    /// Print one JSON object in each line
    #[arg(long)]
    pub(crate) json: bool,
    /// Don't wait: exit with status 75 if another holds the lease
    #[arg(long = "try", conflicts_with = "wait")]
    pub(crate) try_only: bool,
    /// Wait this long at most, then exit with status 75 [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) wait: Option<Duration>,
    /// How long the lease outlives a holder that dies
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10s")]
    pub(crate) ttl: Duration,
    /// Hold it for this long at most; then it is lost [default: any]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) max: Option<Duration>,
    /// On INT, TERM or HUP, which the reader may have got, too, say "asked" with "revoke" and no later deadline; give the lease back when the
    /// input ends, when the deadline is over, or with a second signal
    #[arg(long)]
    pub(crate) until_eof: bool,
    #[command(flatten)]
    pub(crate) away: super::AwayArgs,
    #[command(flatten)]
    pub(crate) about: super::AboutArgs,
    #[command(flatten)]
    pub(crate) voice: super::VerbosityArgs,
}
