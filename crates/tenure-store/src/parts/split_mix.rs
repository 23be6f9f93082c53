//! Numbers that look random, from a seed: the same ones each time, so that what is drawn by lot can be drawn again.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). It makes no secrets.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A row of numbers of its own for each seed.
    #[must_use]
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number under `end`; 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end.max(1)
    }

    /// Once in so many times, on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Puts the values in another order, each as likely as any other.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for end in (1..values.len()).rev() {
            let other = self.below(end as u64 + 1);
            values.swap(end, usize::try_from(other).unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: the numbers are those that the authors' program makes; bounds hold; a shuffle loses nothing.
    use super::*;

    #[test]
    fn the_numbers_are_those_of_its_authors() {
        let mut numbers = SplitMix64::new(1_234_567);
        let first: [u64; 3] = std::array::from_fn(|_| numbers.draw());
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn what_is_drawn_is_within_its_bounds() {
        let mut numbers = SplitMix64::new(1);
        assert!((0..1000).all(|_| numbers.below(7) < 7));
        assert_eq!(numbers.below(0), 0);
        let mut values: Vec<u32> = (0..50).collect();
        numbers.shuffle(&mut values);
        assert_ne!(values, (0..50).collect::<Vec<_>>());
        values.sort_unstable();
        assert_eq!(values, (0..50).collect::<Vec<_>>());
    }
}
