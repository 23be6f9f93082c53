//! The lease tables of the Kinesis Client Library (KCL) and of `a8m/lease`: one row a lease, with an owner and a counter.
#![doc = include_str!("../docs/kcl.md")]

pub mod adopt;
mod agenda;
mod change;
mod claimant;
mod coordinator;
mod driver;
mod error;
mod event;
mod format;
mod held;
mod leader;
mod options;
mod place;
mod row;
mod schema;
mod settling;
mod shards;
mod table;
mod taker;
#[cfg(test)]
mod walk;
mod worker;

pub use change::Edit;
pub use claimant::Claimant;
pub use coordinator::Coordinator;
pub use error::LeaseError;
pub use event::{Event, Events};
pub use format::{Format, Peers, Unowned};
pub use held::Held;
pub use options::Options;
pub use place::Place;
pub use row::{Fields, Row};
pub use table::{RowListing, Table};

/// The example of the crate's page in registries is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
