//! A deterministic world in which tenure's machines run for millions of hours, under every kind of fault, while every
//! promise is checked all the time.
//!
//! It is single-threaded, without an async runtime: a queue of events steps the real machines of `tenure-core`. All chance comes
//! from one seed, so the same seed gives the same history.
//!
//! ```
//! let options = tenure_sim::SimOptions { hours: 2.0, ..tenure_sim::SimOptions::default() };
//! let report = tenure_sim::run(&options).unwrap();
//! assert!(report.failure.is_none(), "{report}");
//! ```

#[cfg(feature = "args")]
mod args;
mod fleet;
mod invariants;
mod kernel;
mod leases;
mod sections;
mod semaphores;

#[cfg(feature = "args")]
pub use args::SimArgs;
/// For this package's tests alone: in its unit tests, the library would be built once more for them.
#[doc(hidden)]
pub use fleet::aim::{PlannedChange, deaths_at_each_step};
pub use invariants::{Rule, Violation};
pub use kernel::coverage::Coverage;
pub use kernel::fault::{FaultKind, FaultSet};
pub use kernel::registers::{Ages, StoreSpec};
pub use kernel::report::{SimReport, ViolationReport};
pub use kernel::run::{SimOptions, run, scenarios};
pub use leases::scenario;

/// The examples of the crate's page in registries are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
