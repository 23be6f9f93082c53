//! S2, fences grow with each unit's tenures. A unit that is assigned again under the lease that it already has keeps its
//! fence: it was never given up. One that was abandoned was.
//!
//! Source: the promise S2. (That the store's records agree is checked by `crate::invariants::s2`.)

use crate::fleet::world::Truth;
use tenure_core::{Fence, Key, LeaseId};

pub(crate) fn grows(
    unit: &Key,
    truth: &Truth,
    fence: Fence,
    who: (usize, u32, LeaseId),
) -> Result<(), String> {
    let (highest, whose) = truth.assigned;
    // A body that may go on is told from the next one by its fence.
    let again = whose == who && fence != truth.abandoned;
    // Whoever is told late of a tenure from before somebody put the record back has it under a lower fence, which resources refuse.
    if fence > highest || again && fence == highest || truth.is_behind(fence) {
        return Ok(());
    }
    Err(format!("w{} is assigned {unit} under fence {fence}, and it was under {highest} before", who.0))
}
