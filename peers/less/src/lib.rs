#![doc = include_str!("../docs/less.md")]

mod candidate;
#[cfg(feature = "sqlite")]
mod files;
mod machine;
mod options;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod storage;
#[cfg(test)]
mod walk;

pub use candidate::{Candidate, CandidateStatus, LeadershipTerm, Stopped};
pub use machine::EndCause;
pub use options::CandidateOptions;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStorage;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStorage;
pub use storage::{Calling, LeaderRow, Micros, Seen, Storage, StorageGone};

/// Time zones, for [`SqliteStorage::open_in_zone`].
#[cfg(feature = "sqlite")]
pub use jiff;

/// The example of the crate's page in registries is compiled.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
mod readme {}
