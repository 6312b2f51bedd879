//! Words near in meaning to a word of a question: looked up as well, they find passages in other words.

use std::sync::LazyLock;

use super::table::{DIMENSIONS, Table};
use super::tokens;

/// Length of the shortest word that is proposed. Shorter ones are mostly parts of names.
const SHORTEST: usize = 3;
static WORDS: LazyLock<Words> = LazyLock::new(Words::new);

/// English words of the vocabulary.
struct Words {
    /// Words and the numbers of their tokens.
    words: Vec<(&'static str, u32)>,
    /// Their vectors less the mean, scaled to length 1.
    vectors: Vec<[f32; DIMENSIONS]>,
    mean: [f32; DIMENSIONS],
}

impl Words {
    fn new() -> Self {
        let table = Table::get();
        let mut mean = [0.0; DIMENSIONS];
        for row in (0..table.len()).filter_map(|token| table.row(token)) {
            mean.iter_mut().zip(row).for_each(|(mean, byte)| *mean += f32::from(byte.cast_signed()));
        }
        mean = mean.map(|sum: f32| sum / (table.len().max(1)) as f32);
        let proposed =
            |word: &str| word.len() >= SHORTEST && word.bytes().all(|byte| byte.is_ascii_lowercase());
        let mut words: Vec<(&str, u32)> = table.beginnings().filter(|(word, _)| proposed(word)).collect();
        // The vocabulary is a map without order.
        words.sort_by_key(|(_, token)| *token);
        let vectors = words.iter().map(|(_, token)| vector(&[*token], &mean).unwrap_or([0.0; DIMENSIONS]));
        Self { vectors: vectors.collect(), mean, words }
    }
}

/// Returns the sum of the vectors of `tokens`, less the mean, scaled to length 1. `None` without tokens.
fn vector(tokens: &[u32], mean: &[f32; DIMENSIONS]) -> Option<[f32; DIMENSIONS]> {
    let mut sum = mean.map(|mean| -mean);
    let mut rows = tokens.iter().filter_map(|token| Table::get().row(*token)).peekable();
    rows.peek()?;
    for row in rows {
        sum.iter_mut().zip(row).for_each(|(sum, byte)| *sum += f32::from(byte.cast_signed()));
    }
    let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
    (length > 0.0).then(|| sum.map(|x| x / length))
}

/// Returns up to `most` words whose cosine with `word` is at least `least`, nearest first. Other forms of the
/// word are among them, the word itself is not. Measured best with 20 words and 0.4.
pub fn nearest(word: &str, most: usize, least: f32) -> Vec<(&'static str, f32)> {
    let all = &*WORDS;
    let mut own = Vec::new();
    tokens(word, &mut own);
    let Some(vector) = vector(&own, &all.mean) else { return Vec::new() };
    let cosine = |other: &[f32; DIMENSIONS]| -> f32 {
        // Eight sums at a time, which the processor adds at once.
        let mut sums = [0.0_f32; 8];
        for (a, b) in vector.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0) {
            sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
        }
        sums.iter().sum()
    };
    let cosines = all.words.iter().zip(all.vectors.iter().map(cosine));
    let near = cosines.filter(|((_, token), cosine)| *cosine >= least && own[..] != [*token]);
    let mut near: Vec<(&str, f32)> = near.map(|((word, _), cosine)| (*word, cosine)).collect();
    near.sort_by(|a, b| b.1.total_cmp(&a.1));
    near.truncate(most);
    near
}
