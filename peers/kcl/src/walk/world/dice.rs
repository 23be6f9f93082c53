//! What decides in a world: SplitMix64 (Steele, Lea, Flood 2014).

/// Numbers from a seed.
pub(in super::super) struct Dice(u64);

impl Dice {
    pub(in super::super) fn of(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x5851_f42d_4c95_7f2d))
    }

    pub(in super::super) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(in super::super) fn below(&mut self, end: u64) -> u64 {
        self.draw() % end.max(1)
    }

    pub(in super::super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
