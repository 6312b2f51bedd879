//! Contents of files, the same bytes for every side and run.

use bytes::Bytes;

use crate::side::PIECE;

/// Size of a small file, in bytes.
pub(crate) const SMALL: usize = 4096;

/// Returns 4 KiB of words that depend on the seed.
pub(crate) fn text(seed: u64) -> Bytes {
    const SYLLABLES: [&str; 16] =
        ["ba", "re", "ti", "no", "lu", "ka", "se", "mi", "do", "vu", "pa", "ge", "li", "fo", "tu", "ra"];
    let mut random = Random::new(seed);
    let mut text = String::with_capacity(SMALL + 16);
    while text.len() < SMALL {
        // Two to four syllables give some 70,000 words, the short ones common, as in a natural language.
        for _ in 0..2 + random.next() % 3 {
            text.push_str(SYLLABLES[(random.next() % 16) as usize]);
        }
        text.push(if random.next().is_multiple_of(12) { '\n' } else { ' ' });
    }
    text.truncate(SMALL);
    text.into()
}

/// Returns a piece that does not compress.
pub(crate) fn noise() -> Vec<u8> {
    let mut random = Random::new(1);
    (0..PIECE / 8).flat_map(|_| random.next().to_le_bytes()).collect()
}

/// splitmix64 (Steele, Lea and Flood, 2014): the same sequence for every side and run.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
