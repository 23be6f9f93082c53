//! The conformance suite that every [tenure](https://docs.rs/tenure) store runs. It has one named test per check, and tests the
//! refusal of each capability that a store lacks.
//!
//! A store's `tests/conformance.rs` makes a fresh set of records ([`Subject`]) and calls [`conformance!`]:
//!
//! ```
//! use std::sync::Arc;
//! use tenure_store::MemoryStore;
//! use tenure_testkit::{Clones, ManualClock, conformance};
//!
//! conformance!(memory, || async {
//!     let clock = Arc::new(ManualClock::new());
//!     Clones::new(MemoryStore::new("memory", clock.clone()), clock)
//! });
//! # fn main() {}
//! ```
//!
//! A store on a file or a server implements [`Fixture`], and [`Live`] makes a subject of it.
//!
//! Each check is also a plain function in [`checks`] that fails by panicking. So a suite can be run against a store
//! that is known to be broken: [`checks::all`] lists the checks.
//!
//! A second suite tests leases from their users' side, for any layout: the native one, or a dialect that other
//! programs read and write, too. It runs on a [`LeaseSubject`]. Its macro is [`lease_conformance!`], and its checks are in
//! [`checks::leases`].

mod any_subject;
pub mod checks;
mod clock;
mod hinted;
mod lease_subject;
mod listening;
mod live;
mod record_factory;
mod subject;
mod suite;

pub use any_subject::AnySubject;
pub use clock::{ManualClock, RealClock};
pub use hinted::hinted;
pub use lease_subject::{LeaseRefusal, LeaseSubject, LostMessage, Tenant};
pub use listening::{listens, listens_by};
pub use live::{Fixture, Live, unique};
pub use record_factory::RecordFactory;
pub use subject::{Clones, Prefixed, Subject};
#[doc(hidden)]
pub use suite::examine;
pub use suite::run;

/// The examples of the crate's page in registries are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
