//! L1 for those who live too short to watch: where every process only tries and ends, a dead holder's key is had all the same:
//! each try either has it, finds it young, or leaves a mark by which a later one judges; where the store tells no ages, by a later one
//! of that host.
//!
//! Source: the promise L1; `tenure run --try` as cron starts it. Marks by clocks that disagree are replaced by lower ones, so
//! there are at most as many as there are clocks; or each host leaves its own. The same for a claim that landed when its process had long stopped looking for it:
//! a try asks about it once it has stood for two ttls.

use crate::kernel::clock::{SECOND, True};
use tenure_core::Nonce;

/// Tries of one key that were refused though nobody had it.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct RefusedTries {
    /// The tenure that stands there.
    tenure: Nonce,
    count: u64,
    /// When the last one was counted.
    last: True,
    since: True,
}

impl RefusedTries {
    /// A try was refused by a claim that nobody has: that of a dead process, or one that its process knows nothing of. Those that come soon after another prove nothing.
    pub(crate) fn again(
        &mut self,
        key: usize,
        tenure: Nonce,
        t: True,
        ttl: True,
        most: u64,
    ) -> Result<(), String> {
        if self.tenure != tenure || self.count == 0 {
            *self = RefusedTries { tenure, count: 1, last: t, since: t };
        } else if t >= self.last + ttl * 3 / 2 {
            (self.count, self.last) = (self.count + 1, t);
        }
        if self.count <= most {
            return Ok(());
        }
        Err(format!(
            "k{key} was tried {} times, each more than a ttl after the other, and nobody has it since {:.3} s",
            self.count,
            self.since as f64 / SECOND as f64
        ))
    }

    /// It was had, or is somebody's who lives, or something went wrong meanwhile.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }
}
