//! Leases of ranges of keys: of a large key space, each process gets what nobody else works on just now.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use tenure::range::{KeyRange, Section};
//!
//! let section = Section::new(tenure::memory(), "reminders")?;
//! let keys = KeyRange::universe_of_bytes(32).split(16).next().unwrap_or_default();
//! let parts = section
//!     .try_with_lease(keys.clone(), Duration::from_secs(30), |lease| async move {
//!         // Work on `lease.parts()` until `lease.cancelled()`, and send `lease.fence()` along with every effect.
//!         lease.parts().to_vec()
//!     })
//!     .await?;
//! assert_eq!(parts, [keys]);
//! # Ok(()) }
//! ```
//!
//! # What is promised
//! Within a section no two live leases overlap (S7), under the same condition as for any lease: clock *rates* within ±10 %, no
//! time hidden. Whatever the clocks do, each lease has a greater [fence](RangeLease::fence) than every earlier one of its
//! section. A lease is never renewed: its time is cut to what was asked for, and the body is over before that.
//!
//! # Units
//! Durations are between the store's least ttl and one day, in whole milliseconds (what is below is cut off). The body may run
//! for two thirds of the duration or so: 0.82 of it (that is the margin for clocks that drift), less its grace period, an eighth of the duration unless
//! [set otherwise](SectionBuilder::grace), and a fiftieth. A section holds 1,000 ranges at a
//! time, unless [set otherwise](SectionBuilder::most_parts), and as many bytes as the store takes in one record. For more, shard:
//! take several sections, and divide the keys among them.
//!
//! # Cost
//! A section is one record. A lease costs two round trips in a process that has not used the section before, and one where
//! nobody else has written meanwhile; giving it up costs one. What several tasks of a process want at a time shares a write.
//! Expired leases are collected on the way.
//!
//! # What is logged
//! Events of `tracing`, with the target `tenure::range`; `key` is that of the section's record:
//!
//! | name | level | message | fields |
//! |---|---|---|---|
//! | `range.acquired` | debug | parts of a range leased | `key`, `fence`, `holder` |
//! | `range.released` | debug | parts of a range given up | `key`, `fence`, `holder` |
//! | `range.expired` | warn | parts of a range were over before they were given up | `key`, `fence`, `holder` |
//! | `ranges.left` | warn | not all ranges are given up yet; if the process ends now, others wait for them until their time is over | `key`, `holder` |
//!
//! # The key
//! A section's record has the key `section/NAME` and no tenure. `gc` keeps it for as long as anything in it is held, and what
//! [sweeps](sweep) have covered unless it is told to remove that, too.
//!
//! [`sweep`] covers a whole key space once, by any number of processes. [LUCI's names](coming_from_luci) and ours are listed apart.

mod builder;
mod guard;
mod lease;
mod lock;
mod presence;
mod section;
mod shared;
mod sink;
pub mod sweep;
mod users;

pub use builder::SectionBuilder;
pub use guard::RangeGuard;
pub use lease::RangeLease;
pub use lock::RangeLock;
pub use section::Section;
pub use tenure_core::range::{KeyRange, Point, RangeSet};
pub use tenure_core::section::{Entry, PREFIX, SectionLedger, Since, is_cover, is_over, is_section};

#[doc = include_str!("../../docs/coming-from-luci.md")]
pub mod coming_from_luci {}
