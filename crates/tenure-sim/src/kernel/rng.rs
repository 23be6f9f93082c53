//! All chance in a world comes from here, so that a seed is a history.

use oorandom::Rand64;

/// The world's rng.
#[derive(Debug)]
pub(crate) struct Rng(Rand64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(Rand64::new(u128::from(seed)))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0.rand_u64()
    }

    /// A number under `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        // The bias of a plain multiplication is under n / 2^64.
        ((u128::from(self.bits()) * u128::from(n.max(1))) >> 64) as u64
    }

    /// An index under `n`.
    pub(crate) fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// A number from `low` to `high`, both allowed.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.0.rand_float() < probability
    }

    /// An exponentially distributed span with this mean.
    pub(crate) fn span(&mut self, mean: u64) -> u64 {
        let u = 1.0 - self.0.rand_float();
        ((-u.ln() * mean as f64) as u64).min(mean.saturating_mul(20))
    }
}
