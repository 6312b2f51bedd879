//! The table of token vectors. `cargo xtask distil` writes it; the vectors are read where they lie in the
//! program, and only an index of the vocabulary is built, at the first use.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

/// Numbers of a vector.
pub const DIMENSIONS: usize = 128;
/// Magic, which includes the version, and four numbers.
const HEADER: usize = 8 + 4 * 4;
const MAGIC: &[u8] = b"garthtv1";
static FILE: &[u8] = include_bytes!("../../../data/token-vectors.bin");
static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(FILE).unwrap_or_default());

/// Numbers of tokens.
type Index = HashMap<&'static str, u32, BuildHasherDefault<LetterHash>>;

/// Vocabulary and vectors. A token's number is that of its row.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: &'static [[u8; DIMENSIONS]],
    beginnings: Index,
    continuations: Index,
    /// Length of the longest token, in bytes.
    pub(super) longest: usize,
}

impl Table {
    /// Returns the table that is part of the program.
    pub(super) fn get() -> &'static Self {
        &TABLE
    }

    /// Reads the format that `cargo xtask distil` describes. Returns `None` if the file is not of that format
    /// or of another number of dimensions; a test reads the file that is part of the program.
    pub(super) fn read(file: &'static [u8]) -> Option<Self> {
        let (header, rest) = file.split_at_checked(HEADER)?;
        let (magic, numbers) = header.split_at(MAGIC.len());
        let numbers: Vec<usize> =
            numbers.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes) as usize).collect();
        let [DIMENSIONS, count, beginnings, words] = numbers[..] else { return None };
        let (words, vectors) = rest.split_at_checked(words)?;
        let (rows, []) = vectors.as_chunks() else { return None };
        if magic != MAGIC || rows.len() != count {
            return None;
        }
        let mut table = Self { rows, ..Self::default() };
        for (number, word) in (0..).zip(std::str::from_utf8(words).ok()?.lines()) {
            let begins = (number as usize) < beginnings;
            let index = if begins { &mut table.beginnings } else { &mut table.continuations };
            index.insert(word, number);
            table.longest = table.longest.max(word.len());
        }
        (table.beginnings.len() + table.continuations.len() == count).then_some(table)
    }

    /// Returns the number of tokens.
    pub(super) fn len(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Returns the vector of a token, as signed bytes.
    pub(super) fn row(&self, token: u32) -> Option<&'static [u8; DIMENSIONS]> {
        self.rows.get(token as usize)
    }

    /// Returns the tokens that begin a word, in no order.
    pub(super) fn beginnings(&self) -> impl Iterator<Item = (&'static str, u32)> {
        self.beginnings.iter().map(|(word, token)| (*word, *token))
    }

    /// Returns the number of the token with these letters that begins a word, or continues one.
    pub(super) fn token(&self, letters: &str, begins: bool) -> Option<u32> {
        let tokens = if begins { &self.beginnings } else { &self.continuations };
        tokens.get(letters).copied()
    }
}

/// Hash of a few letters: the multiplication of Firefox. The keys are those of the program, so that
/// nobody can choose them to collide.
#[derive(Debug, Default)]
struct LetterHash(u64);

impl LetterHash {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for LetterHash {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        self.add(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    }

    fn write_u8(&mut self, byte: u8) {
        self.add(u64::from(byte));
    }

    fn finish(&self) -> u64 {
        // The map takes its bucket from the low bits, which the multiplication mixes least.
        self.0 ^ self.0 >> 32
    }
}
