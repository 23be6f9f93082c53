//! What looks at the store, the settings and the protocol: `doctor`, `config`, `bench`, `sim`.

use clap::Parser;

/// Check the store and its records, and say what can't be promised.
///
/// On a table in the layout of other programs (dialect=kcl, dialect=tabletheory, dialect=less): whether it is fit, and whether this host's
/// clock is near enough to the service's where that matters. Of the KCL's: also who has leases in it.
///
/// Everywhere else: what the server says of itself and can lose leases by, what this user may do, round trips, clocks, and a hundred
/// races for a record of doctor's own, which is removed, or left vacant where this user may not remove. Ends with 0 if all is well, with 2 if something can lose leases or a right is
/// missing, with 1 if a check failed, with 69 if the store can't be reached.
#[derive(Debug, Parser)]
pub(crate) struct DoctorArgs {
    /// The store, instead of --store
    pub(crate) url: Option<String>,
    /// Only look: write no record, not even one of doctor's own. An SQLite file that is not in write-ahead mode is put in it all the same
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

/// Run tenure's machines in a simulated world where everything goes wrong that can, and check the promises.
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
    /// The kind of world; otherwise, by turns, all those of leases and elections. By turns, too: sections-all, semaphores-all,
    /// fleet-all
    #[arg(long, value_name = "NAME")]
    pub(crate) scenario: Option<String>,
    /// Kinds of faults that do not happen
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    pub(crate) without: Vec<String>,
    /// How many nodes take part; 0 for as many as the scenario has
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) nodes: usize,
    /// The one promise that is checked; otherwise all of them. A line that runs a history again may have it
    #[arg(long, value_name = "PROMISE")]
    pub(crate) only: Option<String>,
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
