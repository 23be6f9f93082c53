//! What is typed to look at single records, and to end leases and remove records by hand.

use crate::text::span;
use clap::Parser;
use std::ffi::OsString;
use std::time::Duration;

/// List leases.
///
/// As they are now: a list that goes on is the dashboard of `serve`, and `leader KEY --follow` tells who comes and goes at one KEY.
#[derive(Debug, Parser)]
pub(crate) struct LsArgs {
    /// Only keys that begin with this
    #[arg(default_value = "")]
    pub(crate) prefix: OsString,
    /// Also records that nobody holds
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show one record in full.
#[derive(Debug, Parser)]
pub(crate) struct ShowArgs {
    /// The lease's key
    pub(crate) key: OsString,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Wait until nobody holds a lease.
///
/// Ends with 0 as soon as nobody holds KEY, or with 75 when --timeout is over. Somebody may hold it the moment after: what has to exclude
/// others is done under `run`. A holder that died counts until its ttl is over. Where the store tells no ages (see `tenure doctor`), it counts until
/// its record has been seen unchanged for a whole ttl: two hosts' clocks alone don't tell.
#[derive(Debug, Parser)]
pub(crate) struct WaitArgs {
    /// The lease's key; of a semaphore or a section, the key of its record (semaphore/NAME, section/NAME)
    pub(crate) key: OsString,
    /// Wait this long at most [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) timeout: Option<Duration>,
    /// Wait until somebody holds it instead
    #[arg(long)]
    pub(crate) held: bool,
    #[command(flatten)]
    pub(crate) voice: super::VerbosityArgs,
}

/// Remove a record that is damaged, so that its key can be had again.
///
/// What can't be read locks its key for ever, as nothing writes over it. Only such a record is removed: one that was cut short or
/// changed by hand, or that is no section's, job's or fleet's where one should be; never one of a newer version of tenure. It is
/// removed on condition that it is byte for byte what was shown, and printed in a form that can be put back: for SQLite a statement
/// for sqlite3(1), for DynamoDB the JSON of `aws dynamodb put-item --item`.
///
/// The next fence of the key is higher than any that the record still tells: if the wall clock, from which new
/// fences start, is behind that fence, an empty record stays to keep it.
///
/// Whoever held the key when the record was damaged may believe so for as long as its ttl after that, or until the end of its
/// range: nobody else can tell. Units of a job can be given again, and are run again then.
#[derive(Debug, Parser)]
pub(crate) struct RmArgs {
    /// The record's key
    pub(crate) key: OsString,
    /// Say that it is damaged: no other record can be removed
    #[arg(long, required = true)]
    pub(crate) damaged: bool,
    /// Don't ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Take a lease from its holder by force.
///
/// The holder is told to stop, and the lease is taken away once it can't be at work under it any more, whether it was
/// told, is cut off, or is dead: that takes one ttl at the most, and this command waits for it. A holder that gives the
/// lease up before that ends the wait. The fence is kept, so the next holder's is higher.
#[derive(Debug, Parser)]
pub(crate) struct ReleaseArgs {
    /// The lease's key
    pub(crate) key: OsString,
    /// Unsafe: take it away at once, though its holder may be at work and is not told
    #[arg(long)]
    pub(crate) now: bool,
    /// Don't ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Free the ranges of a section that dead processes have left.
///
/// It waits until each lease that stands in the section now is given up, or has been seen for its whole duration, which is when
/// it is over for certain. A live holder loses nothing by that.
#[derive(Debug, Parser)]
pub(crate) struct ReclaimArgs {
    /// The section's name, or its key
    pub(crate) section: String,
    /// Don't wait: take all ranges away at once. Their holders may still be at work, and don't find out
    #[arg(long)]
    pub(crate) now: bool,
    /// Don't ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Tell a lease's holder to stop and give it up.
///
/// The holder reads it at its next renewal, within a third of the ttl. Where the store tells no ages (see `tenure doctor`), one that seems dead by
/// two hosts' clocks is told, too.
#[derive(Debug, Parser)]
pub(crate) struct RevokeArgs {
    /// The lease's key
    pub(crate) key: OsString,
    /// Don't ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Remove records that nobody has held for a long time.
///
/// A record goes when the store's clock and the wall clock both say that it is old enough. Units of a job go only once
/// all of its units are done or failed; after that the job's units, given again, are run again. Units of a fleet go only
/// if they are done or were removed. What `cron` ran at its ticks stays until no host can come with them any more. Leases of
/// dead processes are given up, and their sessions go once nothing is attached to them.
///
/// A record that goes forgets its fence, and the next one begins at its holder's wall clock. So a record stays while its fence
/// is not older than TIME by every clock there is: this host's, that of who wrote the record last, and those of all
/// processes that live. Where all of them are ahead alike nothing tells: don't run this on a host whose clock is wrong.
///
/// Where the store tells no ages (etcd, ages=off, see `tenure doctor`), this command watches all records for as long as --older-than says, by default
/// for a day, and for two ttls of whoever seems dead, up to a minute. What stays as it is was left alone for that long. There, choose an hour.
#[derive(Debug, Parser)]
pub(crate) struct GcArgs {
    /// Only records beginning with this
    #[arg(default_value = "")]
    pub(crate) prefix: OsString,
    /// How long a record must have been left alone. A host whose clock is behind by more than that may have lower fences than before,
    /// so where several hosts use the store, a second is the least
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "1d")]
    pub(crate) older_than: Duration,
    /// Also remove what sweeps have covered: one that is run again begins anew
    #[arg(long)]
    pub(crate) sweeps: bool,
    /// Say what would be removed, and remove nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Don't ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}
