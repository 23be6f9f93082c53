//! `range`: a command for the keys of a range.

use super::{AwayArgs, VerbosityArgs};
use crate::text::span;
use clap::Parser;
use std::ffi::OsString;
use std::time::Duration;

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
    /// The name of the section, or the key of its record: section/NAME
    pub(crate) section: OsString,
    /// The keys: two hexadecimal numbers, of any width, the second excluded. LO_HI, as ranges are shown elsewhere, is the same
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
    pub(crate) away: AwayArgs,
    #[command(flatten)]
    pub(crate) voice: VerbosityArgs,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
