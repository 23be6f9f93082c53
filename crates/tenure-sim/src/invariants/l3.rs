//! L3, no orphans, for locks: once faults have stopped, a key that someone waits for does not stay free: whatever crashed
//! when, and whatever claims of nobody still stand or land late.
//!
//! Source: the promise L3. A claim that landed long after its process gave it up stands as long as that process lives, unless
//! it is asked about; asking begins after two ttls, and the answer comes with a renewal. But what a process knows to have won, and
//! nobody there wants, is vacated at once.

use crate::kernel::clock::{SECOND, True};

/// How long a claim may stand that its process knows of and nobody there wants, in hundredths of a ttl: one write that vacates
/// it, which comes a fifth of a ttl late where it was withdrawn, and its repetitions.
const LEFT: u64 = 60;

/// `left_since`: since when the claim that `key` shows is such a one.
pub(crate) fn not_left_for_long(key: usize, left_since: True, t: True, ttl: True) -> Result<(), String> {
    if t.saturating_sub(left_since) <= ttl * LEFT / 100 {
        return Ok(());
    }
    Err(format!(
        "a claim of k{key} stands that its process was told to have won, and nobody there wants it since {:.3} s",
        left_since as f64 / SECOND as f64
    ))
}

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
