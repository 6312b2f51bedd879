//! Meaning of texts, as vectors that can be compared: it finds passages that answer a question in other
//! words. Each token has a static vector in a table that is part of the program; the vector of a text is the
//! sum of those of its tokens, each weighted by its rarity. No model runs, and nothing is stored, so there is
//! nothing to delete or to keep from somebody.
//!
//! `data/README.md` tells what the table was made of, and what it gains.

mod background;
mod nearest;
mod table;
#[cfg(test)]
mod tests;
mod unicode;
mod vectors;
mod wordpiece;

pub use self::background::share_in_english;
pub use self::nearest::nearest;
pub use self::table::DIMENSIONS;
use self::table::Table;
use self::vectors::weighted_sum;
pub use self::wordpiece::tokens;

/// Limit on the weight of a token: ln(1 + N / n) is less for every N that fits in 32 bits.
const MAX_WEIGHT: f32 = 23.0;
/// Parts of a weight of 1. Weights are integers, so that a vector does not depend on the order of tokens, and
/// is the same on every machine.
const PARTS: f32 = 256.0;
/// Tokens whose sum fits in 32 bits, at the largest weight and the largest number of a vector.
const SUMMED: usize = (i32::MAX / (MAX_WEIGHT as i32 * PARTS as i32 * 128)) as usize;

/// Weights of all tokens.
#[derive(Clone, Debug)]
pub struct Weights {
    /// Number of passages that have each token.
    holding: Vec<u32>,
    /// Weight of a token by the number of passages that have it, in [`PARTS`].
    weights: Vec<i16>,
}

impl Weights {
    /// Weighs tokens by their rarity in `passages`, given as their tokens: ln(1 + N / n) for one that is in n
    /// of N passages, with a step of 1/256. A token that is in none counts as in half of one.
    pub fn by_rarity<'a>(passages: impl IntoIterator<Item = &'a [u32]>) -> Self {
        let mut holding = vec![0_u32; Table::get().len() as usize];
        // Number of the last passage that has the token, so that each passage counts once.
        let mut last = vec![0_u32; holding.len()];
        let mut count = 0_u32;
        for passage in passages {
            count += 1;
            for &token in passage {
                let token = token as usize;
                if last.get(token).is_some_and(|last| *last != count) {
                    last[token] = count;
                    holding[token] += 1;
                }
            }
        }
        // Without passages all are alike.
        let all = count.max(1) as f32;
        let weight = |holding: u32| (1.0 + all / (holding as f32).max(0.5)).ln();
        let weights = (0..=count).map(|holding| (weight(holding) * PARTS).round() as i16).collect();
        Self { holding, weights }
    }

    /// Returns the weight of a token, in [`PARTS`].
    fn of(&self, token: u32) -> Option<i16> {
        self.weights.get(*self.holding.get(token as usize)? as usize).copied()
    }
}

/// Vector of a text, of length 1; zero if no token of the text has a weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding([f32; DIMENSIONS]);

impl Embedding {
    /// Returns the weighted sum of the vectors of `tokens`, scaled to length 1.
    pub fn new(tokens: &[u32], weights: &Weights) -> Self {
        let table = Table::get();
        let mut total = [0_i64; DIMENSIONS];
        for tokens in tokens.chunks(SUMMED) {
            let rows = tokens.iter().filter_map(|&token| table.row(token).zip(weights.of(token)));
            let sums = weighted_sum(rows);
            total.iter_mut().zip(sums).for_each(|(total, sum)| *total += i64::from(sum));
        }
        let squares: f64 = total.iter().map(|x| (*x as f64) * (*x as f64)).sum();
        let scale = if squares > 0.0 { squares.sqrt().recip() } else { 0.0 };
        Self(total.map(|x| (x as f64 * scale) as f32))
    }

    /// Returns the cosine of the angle between two texts: 1 for the same meaning, about 0 for nothing in
    /// common.
    pub fn cosine(&self, other: &Self) -> f32 {
        self.0.iter().zip(&other.0).map(|(a, b)| a * b).sum()
    }
}
