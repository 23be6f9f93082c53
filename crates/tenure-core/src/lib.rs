//! The pure core of [tenure](https://docs.rs/tenure): the types of leases, and the machines that get, keep and give them up.
//!
//! Nothing here does I/O, reads a clock or draws randomness. A machine takes an event and the time. It answers with
//! operations to perform, notices for its users, and the time of its next wake-up ([`op::Machine`]). So the same code runs in
//! production, in the simulator for millions of steps, and under a model checker.
//!
//! Users of leases want the crate `tenure`. This crate is for authors of stores, drivers and simulators.
//!
//! Records, operations, notices and the settings of machines are not `#[non_exhaustive]`. A store or a driver that did not know of a new field, or a
//! new notice, would lose it, so the compiler names each place that has to learn of it. What users are told is `#[non_exhaustive]`: kinds of errors,
//! reasons of losses, causes of moves.

mod backoff;
mod bugs;
pub mod concurrency;
pub mod election;
pub mod fleet;
pub mod gc;
mod holder;
pub mod once;
pub mod op;
pub mod range;
mod rules;
pub mod section;
pub mod semaphore;
mod values;

pub use bugs::{Bug, Bugs};
pub use holder::acquisition::{MetadataPolicy, WaitPolicy};
pub use holder::command::{Command, KeepAlive, Want};
pub use holder::lease_id::LeaseId;
pub use holder::loss::Loss;
pub use holder::notice::Notice;
pub use holder::seizure::{Seized, Seizure};
pub use holder::table::LeaseMap;
pub use holder::update::{Token, Transferee};
pub use holder::{Holder, Identity};
pub use rules::Rules;
pub use values::error::{ErrorKind, InvalidInput, StoreError};
pub use values::fence::{Fence, Nonce, Nonces, Version};
pub use values::key::{HolderId, Key};
pub use values::metadata::{Metadata, Number, RESERVED, Value};
pub use values::record::{
    Ask, Attachment, Letter, MAILBOX, Occupant, Record, Sighting, Stored, Tenure, Times,
};
pub use values::service_clock::ServiceClock;
pub use values::steering::{harmless, steers_terminals};
pub use values::time::host::{Host, MARKS, Mark};
pub use values::time::{Clock, Drift, Now, Tick, Ttl, Wall};
pub use values::{error, reserved, time};

/// The examples of the crate's page in registries are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
