//! What looks at the store and the settings: `doctor`, `config`, `bench`.

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
