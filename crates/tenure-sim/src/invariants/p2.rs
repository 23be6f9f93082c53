//! P2: a resource that checks fences never accepts a deposed holder, whatever the clocks do. This, not S1, is the
//! correctness promise.
//!
//! Source: the promise S2. The resource knows nothing but fences; the check knows in which order
//! the store made the tenures.

use std::collections::BTreeMap;
use tenure_core::Fence;

/// A resource that keeps the highest fence that it has seen and refuses lower ones.
#[derive(Debug, Default)]
pub(crate) struct FencedResource {
    highest: BTreeMap<usize, (Fence, u64)>,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
}

impl FencedResource {
    /// A write under `fence`, which is that of the tenure at place `order`.
    pub(crate) fn write(&mut self, key: usize, fence: Fence, order: u64) -> Result<(), String> {
        let (highest, newest) = self.highest.entry(key).or_default();
        if fence < *highest {
            self.refused += 1;
            return Ok(());
        }
        self.accepted += 1;
        *highest = fence;
        if order < *newest {
            return Err(format!(
                "the resource behind k{key} accepted fence {fence} of tenure {order} after a write of tenure {newest}"
            ));
        }
        *newest = order;
        Ok(())
    }
}
