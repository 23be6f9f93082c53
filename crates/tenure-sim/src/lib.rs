//! A deterministic world in which tenure's machines run by the million hours, with everything going wrong that can, and
//! every promise checked all the time.
//!
//! Single-threaded, without an async runtime: a queue of events steps the real machines of `tenure-core`. All chance comes
//! from one seed, so the same seed is the same history.
//!
//! ```
//! let options = tenure_sim::Options { hours: 2.0, ..tenure_sim::Options::default() };
//! let report = tenure_sim::run(&options).unwrap();
//! assert!(report.failure.is_none(), "{report}");
//! ```

mod args;
mod chaos;
mod clock;
mod coverage;
mod fault;
mod fleet;
mod invariants;
mod net;
mod node;
mod registers;
mod rng;
mod run;
pub mod scenario;
mod sections;
mod shrink;
mod trace;
mod users;
mod world;

pub use args::{Asked, USAGE, parse};
pub use coverage::Coverage;
pub use fault::{Fault, Faults};
pub use invariants::{Rule, Violation};
pub use registers::{Ages, StoreSpec};
pub use run::{Failure, Options, Report, run, scenarios};

/// The examples of the crate's page in registries are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
