//! What the store of a world can do, and what it remembers for the faults of its scenario.

use crate::kernel::rng::Rng;
use std::time::Duration;

/// What a world's store can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreSpec {
    /// Whether it tells records' ages, and how well.
    pub ages: Ages,
    /// Whether it hints at changes.
    pub push: bool,
    /// Whether reads of a recent state lag behind.
    pub lags: bool,
}

/// How well a store tells the age of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ages {
    /// Not at all.
    Untold,
    /// They fall short of the truth by up to 2.3 s, as where clocks are read to the second.
    Coarse,
    /// To the millisecond.
    Fine,
    /// By dates in whole seconds that come with answers; what is written is dated by the writer's client.
    Dated,
}

impl Ages {
    /// By how much they fall short of the truth at the most, if they are told.
    pub(crate) fn error(self) -> Option<Duration> {
        match self {
            Ages::Untold => None,
            Ages::Coarse => Some(Duration::from_millis(MOST_SHORT_MS)),
            Ages::Fine => Some(Duration::from_millis(1)),
            Ages::Dated => Some(Duration::from_secs(3)),
        }
    }

    /// Two thirds tell them, half of these well.
    pub(crate) fn any(rng: &mut Rng) -> Ages {
        match rng.below(3) {
            0 => Ages::Untold,
            1 => Ages::Coarse,
            _ => Ages::Fine,
        }
    }
}

/// By how much a coarse age falls short at the most.
pub(super) const MOST_SHORT_MS: u64 = 2300;

/// Which faults of a scenario need what was: a store without them remembers none of it. (What reads of a recent state show that lag behind, it
/// remembers by [`StoreSpec::lags`].)
#[derive(Debug, Clone, Copy)]
pub(crate) struct StorePast {
    /// It may fail over, and then it undoes the writes of the last moments.
    pub(crate) may_fail_over: bool,
    /// Somebody may put older copies of its records back.
    pub(crate) may_be_restored: bool,
}
