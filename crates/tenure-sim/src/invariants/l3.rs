//! L3, no orphans, for locks: once faults have stopped, a key that someone waits for does not stay free: whatever crashed
//! when, and whatever claims of nobody still stand or land late.
//!
//! Source: DESIGN.md section 2. A claim that landed long after its process gave it up stands as long as that process lives, unless
//! it is asked about; asking begins after two ttls, and the answer comes with a renewal.

use crate::clock::{SECOND, True};

/// How long a key may stay free, in hundredths of a ttl: two ttls of doubt, a renewal, two polls, by the slowest clock.
pub(crate) const BOUND: u64 = 360;

/// `free_since`: since when nobody believes in the key though someone waits for it.
pub(crate) fn not_free_for_long(key: usize, free_since: True, t: True, ttl: True) -> Result<(), String> {
    let bound = ttl * BOUND / 100;
    if t.saturating_sub(free_since) <= bound {
        return Ok(());
    }
    Err(format!(
        "someone waits for k{key}, and nobody holds it since {:.3} s",
        free_since as f64 / SECOND as f64
    ))
}
