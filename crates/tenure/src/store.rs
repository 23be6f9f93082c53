//! Records, and the operations of a store on them: for authors of stores, and of tools that look at records. Users of leases need none of it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tenure::{Leases, Store, memory};
//!
//! let leases = Leases::new(memory())?;
//! let guard = leases.acquire("reports/nightly").await?;
//! let stored = leases.store().read(guard.key()).await?;
//! assert_eq!(stored.map(|stored| stored.record.fence), Some(guard.fence()));
//! # leases.stop().await; Ok(()) }
//! ```
//!
//! [`Store`](crate::Store) is the boundary, and its *Contract* section the law. The crate `tenure-store` also has parts that stores share, and
//! `tenure-testkit` the tests that every store has to pass.

pub use tenure_core::{
    Ask, Attachment, Letter, MAILBOX, Mark, Nonce, Record, Stored, Tenure, Times, Version, reserved,
};
pub use tenure_store::{
    Bearing, Capabilities, Changes, Expect, Expiry, Fact, Freshness, Hint, Image, Inspection, Listed,
    Outcome, PrefixedStore, ServerClock, StoreExt, Write, codec,
};
