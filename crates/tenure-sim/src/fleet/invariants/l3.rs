//! L3, no orphans: every unit of a fleet with a live worker with room is held by someone within L1's bound, whatever crashed
//! when.
//!
//! Source: the promise L3. Within 1.15 ttl of the death where the store tells ages and wall clocks agree, 1.4 ttl
//! elsewhere, by the slowest clock; right after the chaos, when letters and late writes are still about, within 6 ttl.

use crate::fleet::world::IdleUnit;
use crate::kernel::clock::{SECOND, True};
use tenure_core::Key;

/// What nobody tells of is found by an audit, so there has to be one now and then: `since` has passed without.
pub(crate) fn audited(since: True, bound: True) -> Result<(), String> {
    if since <= bound {
        return Ok(());
    }
    let (since, bound) = (since as f64 / SECOND as f64, bound as f64 / SECOND as f64);
    Err(format!("nobody has listed all for {since:.3} s, longer than {bound:.3} s"))
}

pub(crate) fn not_idle_for_long(unit: &Key, idle: IdleUnit, t: True) -> Result<(), String> {
    if t.saturating_sub(idle.since) <= idle.bound {
        return Ok(());
    }
    Err(format!(
        "nobody works on {unit} since {:.3} s, longer than {:.3} s",
        idle.since as f64 / SECOND as f64,
        idle.bound as f64 / SECOND as f64
    ))
}
