#![doc = include_str!("../docs/tabletheory.md")]

mod calls;
mod error;
mod guard;
mod hold;
mod item;
mod judge;
mod lease;
mod machine;
mod manager;
mod options;
mod orphans;
mod request;
mod table;
#[cfg(test)]
mod walk;

pub use error::{LeaseError, LeaseKey};
pub use hold::Hold;
pub use item::ItemLease;
pub use lease::{Belief, HeldLease};
pub use manager::Manager;
pub use options::{Names, TableTheoryOptions};
pub use table::ClockGap;

/// The example of the crate's page in registries is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
