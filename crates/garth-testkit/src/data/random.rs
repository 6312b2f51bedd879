//! Pseudo-random numbers that depend on a seed alone, so that a run can be repeated. The stream must never
//! change, or old seeds would give other runs.

/// `SplitMix64` (Steele, Lea and Flood 2014): small, and good for any seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Returns the stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns any number. Not the `next` of an iterator: the stream has no end.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`. The tiny bias does not matter here.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns true one in `chances` times.
    pub fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    /// Returns one of the elements.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}
