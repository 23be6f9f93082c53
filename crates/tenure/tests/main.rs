//! All tests of this package as one program, which is built and linked once. `cargo xtask test` runs each file of them by itself.

mod common;

#[cfg(feature = "serde")]
mod bad_input;
mod body;
mod cancelled;
mod cost;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod election;
mod election_bodies;
mod election_settings;
mod fleet;
mod fleet_crowd;
mod fleet_deleted;
mod fleet_entry;
mod fleet_planning;
#[cfg(feature = "metrics")]
mod fleet_runs;
mod fleet_units;
mod lease_suite;
mod limits;
mod list;
mod lock_all;
mod locker;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "metrics")]
mod metrics_waits;
mod once;
mod own_thread;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod own_thread_servers;
mod own_thread_told;
mod panics;
#[cfg(all(feature = "dynamodb", feature = "etcd", feature = "postgres", feature = "redis"))]
mod passwords;
mod permits;
mod promises;
mod section;
mod section_end;
#[cfg(feature = "serde")]
mod seen;
mod seize;
mod stops;
mod sweep;
mod sweep_end;
#[cfg(feature = "serde")]
mod token;
mod trouble;
#[cfg(feature = "metrics")]
mod trouble_told;
