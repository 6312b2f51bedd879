//! Words near in meaning to words of a question: looked up as well, they find passages in other words.

use std::sync::LazyLock;

use super::table::{DIMENSIONS, Table};
use super::tokens;
use super::vectors::{Row, products};

/// Length of the shortest word that is proposed. Shorter ones are mostly parts of names.
const SHORTEST: usize = 3;
/// Largest number of a compared vector.
const SCALE: f32 = 127.0;
/// Words that are compared with the table at once. The products of this many, 16 bytes for each word of the
/// table, fit in a cache.
const TOGETHER: usize = 4;
static WORDS: LazyLock<Words> = LazyLock::new(Words::new);

/// English words of the vocabulary.
struct Words {
    words: Vec<Word>,
    /// Mean of all vectors, which nearly all texts have in common.
    mean: [f32; DIMENSIONS],
}

struct Word {
    word: &'static str,
    token: u32,
    row: &'static Row,
    /// Reciprocal length of its vector less the mean.
    scale: f32,
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
        let beginnings = table.beginnings().iter().filter(|(word, _)| proposed(word));
        let words = beginnings
            .filter_map(|&(word, token)| {
                let (row, length) = (table.row(token)?, length(&sum(&[token], &mean)?));
                (length > 0.0).then(|| Word { word, token, row, scale: length.recip() })
            })
            .collect();
        Self { words, mean }
    }
}

/// Returns the sum of the vectors of `tokens`, less the mean. `None` without tokens.
fn sum(tokens: &[u32], mean: &[f32; DIMENSIONS]) -> Option<[f32; DIMENSIONS]> {
    let mut sum = mean.map(|mean| -mean);
    let mut rows = tokens.iter().filter_map(|token| Table::get().row(*token)).peekable();
    rows.peek()?;
    for row in rows {
        sum.iter_mut().zip(row).for_each(|(sum, byte)| *sum += f32::from(byte.cast_signed()));
    }
    Some(sum)
}

fn length(vector: &[f32; DIMENSIONS]) -> f32 {
    vector.iter().map(|x| x * x).sum::<f32>().sqrt()
}

/// A word whose nearest ones are looked for.
struct Asked {
    /// Numbers of its tokens.
    tokens: Vec<u32>,
    /// Its vector less the mean, as small integers.
    small: [i16; DIMENSIONS],
    /// Length of `small`.
    length: f32,
    /// Product of `small` with the mean.
    common: f32,
}

impl Asked {
    /// Returns a word with its vector; `None` if it has none.
    fn new(word: &str, mean: &[f32; DIMENSIONS]) -> Option<Self> {
        let mut own = Vec::new();
        tokens(word, &mut own);
        let vector = sum(&own, mean)?;
        // As small integers, like the vectors of the table: processors multiply many of them at once.
        let largest = vector.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
        let small = vector.map(|x| (x / largest * SCALE).round());
        let length = length(&small);
        let common: f32 = small.iter().zip(mean).map(|(a, b)| a * b).sum();
        let has_direction = largest > 0.0 && length > 0.0;
        has_direction.then(|| Self { tokens: own, small: small.map(|x| x as i16), length, common })
    }
}

/// Returns for each of `words` up to `most` words whose cosine with it is at least `least`, nearest first.
/// Other forms of the word are among them, the word itself is not.
pub fn nearest(words: &[&str], most: usize, least: f32) -> Vec<Vec<(&'static str, f32)>> {
    let all = &*WORDS;
    let mut near = vec![Vec::new(); words.len()];
    let asked = words.iter().enumerate();
    let asked: Vec<(usize, Asked)> =
        asked.filter_map(|(place, word)| Some((place, Asked::new(word, &all.mean)?))).collect();
    // The table is larger than most caches, so it is read once for several words.
    for together in asked.chunks(TOGETHER) {
        let vectors: Vec<[i16; DIMENSIONS]> = together.iter().map(|(_, asked)| asked.small).collect();
        let products = products(&vectors, all.words.iter().map(|word| word.row));
        for (number, (place, asked)) in together.iter().enumerate() {
            let of_word = products.iter().skip(number).step_by(together.len());
            near[*place] = nearest_of(asked, of_word, most, least);
        }
    }
    near
}

/// Returns the nearest words to one. `products` has that of its vector with the vector of each word.
fn nearest_of<'a>(
    asked: &Asked,
    products: impl Iterator<Item = &'a i32>,
    most: usize,
    least: f32,
) -> Vec<(&'static str, f32)> {
    // The product with a centered vector is that with the vector, less that with the mean.
    let near = WORDS.words.iter().zip(products).filter_map(|(other, product)| {
        let cosine = (*product as f32 - asked.common) * other.scale / asked.length;
        (cosine >= least && asked.tokens[..] != [other.token]).then_some((other.word, cosine))
    });
    let mut near: Vec<(&str, f32)> = near.collect();
    // Words come in the order of the vocabulary, which decides among equals.
    near.sort_by(|a, b| b.1.total_cmp(&a.1));
    near.truncate(most);
    near
}
