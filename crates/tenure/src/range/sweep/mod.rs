//! Covering a whole key space once, by any number of processes: for items that are handled in the order of their keys, such as
//! reminders that are due, rows to migrate, files to check.
//!
//! Every process runs the same [`Sweep`]: it leases a piece of what is not covered yet, scans it in batches, hands them to the
//! handler, and writes down what is covered. Pieces that hold more than a lease's share are cut further, by what was learnt of
//! their density. A process that dies leaves its piece to the others, who have it when its lease is over.
//!
//! Nothing is missed while any process lives, as long as no two items have one key (see [`Source`]), and nothing is handled twice while leases hold. A batch that was not handled to its
//! end (its process died, or its lease ran out) is handled again, by another: let handlers bear that, and check the lease's
//! [fence](super::RangeLease::fence) where they can't. What a handler returns after it was told to end does not count: that batch is handled again, too.
//!
//! # Cost
//! Two or three reads and three writes for each lease, and a write for each further batch. A process that finds all that is left with others looks
//! again and again, less and less often, once in a second in the end: a read of what is covered, and one of the section for each piece that is left.
//!
//! # What is logged
//! An event of `tracing`, with the target `tenure::range`; `key` is that of the section's record:
//!
//! | name | level | message | fields |
//! |---|---|---|---|
//! | `sweep.batch_aborted` | warn | a lease was over before one batch was handled and written down | `key`, `sweep`, `range`, `in_a_row` |

mod covered;
mod futility;
mod run;
mod source;

pub use run::{Sweep, Swept};
pub use source::{Page, Source};

use crate::error::AcquireError;
use std::time::Duration;
use tenure_core::StoreError;
use tenure_core::range::{KeyRange, Point};

/// A sweep could not go on in this process. Others may have gone on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError<E> {
    /// The section could not be leased, or the input is bad.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// What is covered could not be read or written down.
    #[error("what the sweep has covered could not be kept: {0}")]
    Covered(#[from] StoreError),
    /// The source, or the handler, has failed.
    #[error("{0}")]
    Failed(E),
    /// The source has found no item, but says again and again that there are some.
    #[error(
        "the source finds nothing in {0} and says that this is not all; it must give an item, or say that there is none"
    )]
    Fruitless(KeyRange),
    /// Again and again, a lease was over before one batch of it was scanned and handled, which begins anew each time.
    #[error(
        "no batch of {range} was handled within a lease of {duration:?}, {times} times in a row; choose a longer duration, or a smaller batch"
    )]
    Slow {
        /// What was asked for last.
        range: KeyRange,
        /// How long leases last.
        duration: Duration,
        /// How often.
        times: u32,
    },
    /// The source has given an item that is out of place. What its page covers can't be told, so nothing of that was handled.
    #[error("the source gave an item at {key} when it was asked for {range}, and {wrong}")]
    Misplaced {
        /// Where the item is.
        key: Point,
        /// What was asked for.
        range: KeyRange,
        /// What is wrong with it.
        wrong: &'static str,
    },
    /// The source, or the handler, has panicked.
    #[error("a panic within the sweep: {0}")]
    Panicked(String),
}
