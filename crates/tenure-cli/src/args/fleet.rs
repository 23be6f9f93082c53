//! What is typed after `tenure fleet`.

use crate::text::span;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::time::Duration;

/// Look at fleets and change them: units of work that are spread over the processes of one name.
///
/// A fleet comes into being with its first unit or worker. Its workers are processes of `tenure work --forever --name FLEET`,
/// or programs that use the library; each unit is owned by one of them at a time, with a fence that grows whenever it changes
/// hands. What is changed here is noticed by workers at once where the store pushes changes, else at their next look, within
/// a third of their ttl.
#[derive(Debug, Parser)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    pub(crate) verb: FleetVerb,
}

/// What the workers of a fleet even out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BalanceArg {
    /// How many units each has
    Count,
    /// How much its units weigh together
    Weight,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetVerb {
    Ls(FleetLsArgs),
    Units(FleetUnitsArgs),
    Workers(FleetWorkersArgs),
    Add(FleetAddArgs),
    Rm(FleetRmArgs),
    Move(FleetMoveArgs),
    Drain(FleetDrainArgs),
    Top(FleetTopArgs),
    #[cfg(feature = "dynamodb")]
    Adopt(FleetAdoptArgs),
}

/// List the fleets of the store.
#[derive(Debug, Parser)]
pub(crate) struct FleetLsArgs {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// List a fleet's units: who owns them, who is to, and why.
#[derive(Debug, Parser)]
pub(crate) struct FleetUnitsArgs {
    /// The fleet's name
    pub(crate) fleet: OsString,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// List a fleet's workers: what they have, who plans and stands by, and what moves from whom to whom and why.
#[derive(Debug, Parser)]
pub(crate) struct FleetWorkersArgs {
    /// The fleet's name
    pub(crate) fleet: OsString,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Add units to a fleet. Those that are there already stay as they are: to open one that is done again, remove it first.
#[derive(Debug, Parser)]
pub(crate) struct FleetAddArgs {
    /// The fleet's name
    pub(crate) fleet: OsString,
    /// The units
    #[arg(required = true, value_name = "UNIT")]
    pub(crate) units: Vec<OsString>,
    /// What each weighs, for fleets whose workers plan by weight
    #[arg(long, value_name = "W", default_value_t = 1)]
    pub(crate) weight: u64,
    /// A label that their worker must have. May be repeated
    #[arg(long, value_name = "LABEL")]
    pub(crate) needs: Vec<String>,
}

/// Remove units from a fleet, or forget a whole fleet that is over. Whoever owns a unit ends what it does for it.
///
/// The records of UNITs stay, for their fences, until `gc` removes them. One whose status this version does not know is left as it is: a newer
/// tenure may have written that.
///
/// --all removes the records of all units, whatever their status, also one that this version does not know, and what workers have left: sessions, parts of
/// plans and the board. It is refused with status 75 while a worker lives. Who died counts as alive until its ttl is over, and is watched for as long where
/// only that tells, as is a unit whose worker has no session any more. What somebody outside the fleet holds stays, and so does a record that this
/// version can't read at all; the board and the sessions stay with such units. A worker that comes meanwhile is named, with status 75: its units may be gone.
///
/// A record that goes forgets its fence, and the next one begins at the wall clock of whoever owns the unit then: where hosts'
/// clocks differ by more than the time since the unit last changed hands, a later fence could be lower than an earlier one. Records whose
/// fence is not past by this host's clock are waited for, and refused after five seconds. `tenure gc` removes units that are done, and what
/// is left of a fleet without units, once they have been left alone for long. It never removes an open unit.
#[derive(Debug, Parser)]
pub(crate) struct FleetRmArgs {
    /// The fleet's name
    pub(crate) fleet: OsString,
    /// The units
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "UNIT")]
    pub(crate) units: Vec<OsString>,
    /// Forget the fleet: remove all of its records
    #[arg(long)]
    pub(crate) all: bool,
    /// Also UNITs whose status this version does not know, if nobody holds them: only if no newer tenure has written that
    #[arg(long, conflicts_with = "all")]
    pub(crate) unknown_status: bool,
    /// Say what --all would remove, and remove nothing
    #[arg(long, short = 'n', requires = "all", conflicts_with = "units")]
    pub(crate) dry_run: bool,
    /// Don't ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Print one JSON document of what --all has removed
    #[arg(long, requires = "all", conflicts_with = "units")]
    pub(crate) json: bool,
}

/// Pin a unit to a worker, or take the pin away.
///
/// A worker keeps what is pinned to it, whatever evenness says, for as long as it lives, has room and has the labels that the unit
/// needs. The present owner ends what it does for the unit, and then passes it on.
#[derive(Debug, Parser)]
pub(crate) struct FleetMoveArgs {
    /// The fleet's name
    pub(crate) fleet: OsString,
    /// The unit
    pub(crate) unit: OsString,
    /// The worker: its name, or the beginning of it if no other's begins so
    #[arg(required_unless_present = "anywhere", conflicts_with = "anywhere")]
    pub(crate) worker: Option<OsString>,
    /// Pin it to nobody: the plan decides
    #[arg(long)]
    pub(crate) anywhere: bool,
}

/// Ask a worker to leave: it ends what it does, passes its units on, and stops.
///
/// It ends with 0. Where something starts it again then (systemd's `Restart=always`, a Deployment, a shell's loop), it is back at once: stop it there instead.
#[derive(Debug, Parser)]
pub(crate) struct FleetDrainArgs {
    /// The fleet's name
    pub(crate) fleet: OsString,
    /// The worker: its name, or the beginning of it if no other's begins so
    pub(crate) worker: OsString,
    /// Don't ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Watch a fleet, live: who plans, workers, their units, when they last renewed, what moves and why, and what was taken over.
///
/// Keys: q quits; up, down, page up and page down scroll the units.
#[derive(Debug, Parser)]
pub(crate) struct FleetTopArgs {
    /// The fleet's name
    pub(crate) fleet: OsString,
    /// How often to look, which reads the whole fleet; less often where that takes more than a tenth of the time [default: 1s, or 10s on DynamoDB, which
    /// bills reads]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) interval: Option<Duration>,
    /// Print one snapshot as text, and end; needs no terminal
    #[arg(long)]
    pub(crate) once: bool,
}

/// Move a running fleet from a lease table of the KCL's or of a8m/lease into one of tenure's own.
///
/// Unit by unit: the unit is created closed, with all attributes of the row; the row is taken from whoever works on it, and
/// kept until that one must have noticed; the row is deleted; the unit is opened to the workers of the fleet. So no unit has two
/// owners and none is lost, whatever happens in between: run it again to go on. Let the other fleet create no rows meanwhile.
#[cfg(feature = "dynamodb")]
#[derive(Debug, Parser)]
pub(crate) struct FleetAdoptArgs {
    /// The name of the fleet that is to have the units, in the store that --store or TENURE_STORE has to name
    pub(crate) fleet: OsString,
    /// The lease table: dynamodb://TABLE?region=REGION&dialect=kcl, with &peers=a8m for a8m/lease
    #[arg(long, value_name = "URL")]
    pub(crate) from: String,
    /// Only these units
    #[arg(long, value_name = "UNIT", num_args = 1..)]
    pub(crate) only: Vec<OsString>,
    /// The failover time of the workers there, which tenure's own have by --ttl
    #[arg(long, alias = "ttl", value_name = "TIME", value_parser = span, default_value = "10s")]
    pub(crate) failover: Duration,
    /// How long to delete rows that are made again, by programs that write without a condition (a8m's ForceUpdate) or by the KCL's leader, each two
    /// minutes where it finds none: end the KCL's processes within that time; twice the failover time unless said otherwise, and on a table of
    /// the KCL's 3m at least, or 7m where leases stay in it
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) watch: Option<Duration>,
    /// Say what there is to move, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Don't ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}
