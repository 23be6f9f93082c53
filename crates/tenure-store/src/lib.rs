//! The boundary between tenure and the stores that it works on.
//!
//! A store is a set of registers with compare-and-set: see [`Store`] for the contract. This crate also has the record
//! [`codec`] of the native layout, the [`MemoryStore`], and wrappers that count calls, break them, or prefix keys.
//!
//! To write a store, use the pieces in [`parts`], and run `tenure-testkit` against it.

mod any;
mod capability;
pub mod codec;
mod faulty;
mod fenced;
mod image;
mod inspection;
mod memory;
mod metered;
pub mod parts;
mod pass_on;
mod prefixed;
mod shared;
mod store;

pub use any::AnyStore;
pub use capability::{Capabilities, Expiry};
pub use faulty::{Fault, FaultyStore};
pub use fenced::Fenced;
pub use image::Image;
pub use inspection::{Bearing, Fact, Inspection, ServerClock};
pub use memory::MemoryStore;
pub use metered::{Counts, MeteredStore};
pub use prefixed::PrefixedStore;
pub use store::{Changes, Store, StoreExt};
pub use tenure_core::op::{Expect, Freshness, Hint, Listed, Outcome, Write};
pub use tenure_core::{
    Attachment, Clock, ErrorKind, Fence, HolderId, InvalidInput, Key, Metadata, Nonce, Now, Record,
    StoreError, Stored, Tenure, Tick, Times, Ttl, Version, Wall,
};

/// The examples of the crate's page in registries are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
