//! Tables of the encoding: the tokens, the merges they result from, and the search for the longest token.
//!
//! The embedded data has no text but the single bytes. Any other token is the merge of two earlier ones, so
//! two numbers say which bytes it has, and they are needed anyway. Compressed they take half as much as the
//! texts.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Number of tokens. Those for control, such as the end of a text, are none of a text and not among them.
pub(crate) const TOKENS: usize = 199_998;

/// Stands for no token. Token numbers have 18 bits.
pub(crate) const NO_TOKEN: u32 = (1 << 18) - 1;

/// Number of tokens of one byte, which come first.
const SINGLE: usize = 256;

/// First the bytes of the tokens of one byte. Then, for each other token, the numbers of the two it is merged
/// from, three bytes each: all lowest bytes of the left ones, the middle ones, the highest, and likewise of
/// the right ones. Raw deflate. `examples/make_table.rs` writes it.
static TABLE: &[u8] = include_bytes!("../data/o200k_base.pairs");

/// Tables for encoding. They take 16 MB.
pub(crate) struct Vocabulary {
    /// Bytes of all tokens, one after another.
    bytes: Vec<u8>,
    /// Start of each token in `bytes`, and the end of the last one.
    starts: Vec<u32>,
    /// Tokens that each token is merged from; itself twice for a single byte.
    splits: Vec<(u32, u32)>,
    /// Token that two tokens merge to, by their numbers. A `HashMap` answers most misses from its control
    /// bytes, which fit into the cache; most lookups are misses.
    merges: HashMap<u64, u32, BuildHasherDefault<Multiply>>,
    /// Tokens of less than 8 bytes, as [`word_key`].
    words: HashSet<u64, BuildHasherDefault<Multiply>>,
    /// For each token, the longest other token that it begins with, above 8 bits with its own length.
    prefixes: Vec<u32>,
    /// First 8 bytes of the tokens in the order of their bytes, padded with zeros.
    keys: Vec<u64>,
    /// Tokens in that order.
    sorted: Vec<u32>,
    /// As `prefixes`, but by position in `sorted`. A token is close to its prefixes there, so the search for
    /// the longest token reads the same cache lines again.
    sorted_prefixes: Vec<u32>,
    /// Range of `sorted` with the tokens of 3 bytes or more that begin with 3 bytes.
    ranges: HashMap<u64, (u32, u32), BuildHasherDefault<Multiply>>,
    /// Longest token of at most 2 bytes that 2 bytes begin with.
    short: Vec<u32>,
}

impl Vocabulary {
    /// Builds the tables.
    pub(crate) fn load() -> Self {
        let mut table = vec![0; SINGLE + 6 * (TOKENS - SINGLE)];
        let done =
            flate2::Decompress::new(false).decompress(TABLE, &mut table, flate2::FlushDecompress::Finish);
        done.expect("the embedded table is valid");
        let mut all = Self::merged(&table);
        all.sort();
        all.find_prefixes();
        all.index();
        all
    }

    /// Reads the table: the bytes of the tokens and their merges.
    fn merged(table: &[u8]) -> Self {
        let (single, halves) = table.split_at(SINGLE);
        let mut bytes = Vec::with_capacity(1_400_000);
        bytes.extend_from_slice(single);
        let mut starts = Vec::with_capacity(TOKENS + 1);
        starts.extend(0..=SINGLE as u32);
        let mut splits = Vec::with_capacity(TOKENS);
        splits.extend((0..SINGLE as u32).map(|id| (id, id)));
        let mut merges = HashMap::with_capacity_and_hasher(TOKENS, BuildHasherDefault::default());
        let count = TOKENS - SINGLE;
        for i in 0..count {
            let part = |plane: usize| u32::from(halves[plane * count + i]) << (8 * (plane % 3));
            let (left, right) = (part(0) | part(1) | part(2), part(3) | part(4) | part(5));
            for id in [left as usize, right as usize] {
                bytes.extend_from_within(starts[id] as usize..starts[id + 1] as usize);
            }
            starts.push(bytes.len() as u32);
            merges.insert(pair_key(left, right), splits.len() as u32);
            splits.push((left, right));
        }
        Self {
            bytes,
            starts,
            splits,
            merges,
            words: HashSet::default(),
            prefixes: Vec::new(),
            keys: Vec::new(),
            sorted: Vec::new(),
            sorted_prefixes: Vec::new(),
            ranges: HashMap::default(),
            short: Vec::new(),
        }
    }

    /// Fills `keys` and `sorted`.
    fn sort(&mut self) {
        let mut order: Vec<(u64, u32)> = (0..TOKENS as u32).map(|id| (key(self.bytes(id)), id)).collect();
        // Comparing numbers is several times faster than comparing texts, which only few runs need.
        order.sort_unstable_by_key(|(key, _)| *key);
        for run in order.chunk_by_mut(|a, b| a.0 == b.0).filter(|run| run.len() > 1) {
            run.sort_unstable_by(|a, b| self.bytes(a.1).cmp(self.bytes(b.1)));
        }
        (self.keys, self.sorted) = order.into_iter().unzip();
    }

    /// Fills `prefixes` and `sorted_prefixes`. In sorted order the prefixes of a token precede it, and what
    /// comes in between begins with them as well, so a stack has them.
    fn find_prefixes(&mut self) {
        let mut prefixes = vec![0; TOKENS];
        let mut sorted_prefixes = Vec::with_capacity(TOKENS);
        let mut open: Vec<(u32, u32)> = Vec::new();
        for (&id, at) in self.sorted.iter().zip(0..) {
            let bytes = self.bytes(id);
            while open.pop_if(|(above, _)| !bytes.starts_with(self.bytes(*above))).is_some() {}
            let (prefix, prefix_at) = open.last().copied().unwrap_or((NO_TOKEN, NO_TOKEN));
            let length = bytes.len() as u32;
            prefixes[id as usize] = prefix << 8 | length;
            sorted_prefixes.push(prefix_at << 8 | length);
            open.push((id, at));
        }
        self.prefixes = prefixes;
        self.sorted_prefixes = sorted_prefixes;
    }

    /// Fills `words`, `ranges` and `short`.
    fn index(&mut self) {
        let mut single = [0; SINGLE];
        for id in 0..SINGLE as u32 {
            single[usize::from(self.bytes(id)[0])] = id;
        }
        self.short = (0..1 << 16).map(|two: usize| single[two >> 8]).collect();
        self.words.reserve(TOKENS / 2);
        self.ranges.reserve(24_000);
        for (at, &id) in self.sorted.iter().enumerate() {
            let bytes = &self.bytes[self.starts[id as usize] as usize..self.starts[id as usize + 1] as usize];
            if let [first, second] = bytes {
                self.short[usize::from(u16::from_be_bytes([*first, *second]))] = id;
            }
            if bytes.len() < 8 {
                self.words.insert(word_key(bytes));
            }
            if bytes.len() > 2 {
                self.ranges.entry(self.keys[at] >> 40).or_insert((at as u32, 0)).1 = at as u32 + 1;
            }
        }
    }

    /// Returns the bytes of a token.
    pub(crate) fn bytes(&self, id: u32) -> &[u8] {
        &self.bytes[self.starts[id as usize] as usize..self.starts[id as usize + 1] as usize]
    }

    /// Returns the number of bytes of a token.
    #[inline]
    pub(crate) fn length(&self, id: u32) -> usize {
        (self.prefixes[id as usize] & 0xff) as usize
    }

    /// Returns the longest other token that a token begins with, or [`NO_TOKEN`].
    #[inline]
    pub(crate) fn prefix(&self, id: u32) -> u32 {
        self.prefixes[id as usize] >> 8
    }

    /// Returns true if a short text of ASCII letters and signs is a token, as most words are. False tells
    /// nothing.
    #[inline]
    pub(crate) fn is_word(&self, text: &[u8]) -> bool {
        // Pieces in other scripts rarely are one token; the lookup would only cost them time.
        text.len() < 8 && text[0].is_ascii() && self.words.contains(&word_key(text))
    }

    /// Returns the longest token that a text begins with, and its length. The text must not be empty.
    #[inline]
    pub(crate) fn longest(&self, text: &[u8]) -> (u32, usize) {
        let wanted = key(text);
        let short = || match text {
            // The key of a single byte is padded, so its entry may be a token that ends in a zero.
            [only] => self.single(*only),
            _ => self.short[(wanted >> 48) as usize],
        };
        let at = (text.len() > 2).then(|| self.longest_at(text, wanted)).flatten();
        match at {
            Some(at) => (self.sorted[at], (self.sorted_prefixes[at] & 0xff) as usize),
            None => (short(), self.length(short())),
        }
    }

    /// Returns the position in `sorted` of the longest token that a text begins with, unless it has less than
    /// 3 bytes. `wanted` is the key of the text.
    #[inline]
    fn longest_at(&self, text: &[u8], wanted: u64) -> Option<usize> {
        let (from, to) = *self.ranges.get(&(wanted >> 40))?;
        let (from, to) = (from as usize, to as usize);
        // All tokens that the text begins with precede it in sorted order. The last token before the text
        // begins with each of them, so the longest is found among its prefixes.
        let mut after = from + self.keys[from..to].partition_point(|key| *key <= wanted);
        while after > from && self.keys[after - 1] == wanted && self.bytes(self.sorted[after - 1]) > text {
            after -= 1;
        }
        let mut at = after.checked_sub(1).filter(|at| *at >= from)?;
        let mut common = ((self.keys[at] ^ wanted).leading_zeros() / 8) as usize;
        if common == 8 {
            common = self.bytes(self.sorted[at]).iter().zip(text).take_while(|(a, b)| a == b).count();
        }
        common = common.min(text.len());
        loop {
            let prefix = self.sorted_prefixes[at];
            if (prefix & 0xff) as usize <= common {
                return (at >= from).then_some(at);
            }
            at = (prefix >> 8) as usize;
        }
    }

    /// Returns the token of a single byte.
    fn single(&self, byte: u8) -> u32 {
        let two = self.short[usize::from(byte) << 8];
        if self.length(two) == 1 { two } else { self.prefix(two) }
    }

    /// Returns one of the tokens that a token is merged from, or `None` for a single byte.
    #[inline]
    fn half(&self, id: u32, side: fn((u32, u32)) -> u32) -> Option<u32> {
        (id as usize >= SINGLE).then(|| side(self.splits[id as usize]))
    }

    /// Returns true if the encoding of the bytes of both tokens is these two tokens.
    ///
    /// Takes the merges back, latest first, and checks that none of them would have come after a merge across
    /// the border between the two.
    #[inline]
    pub(crate) fn may_follow(&self, mut left: u32, mut right: u32) -> bool {
        // Number of the merge that was taken back last: merges across the border count up to there.
        let mut limit = u32::MAX;
        loop {
            if self.merges.get(&pair_key(left, right)).is_some_and(|merge| *merge < limit) {
                return false;
            }
            // The merge with the higher number was the later one. Of two equal merges it was the right one.
            // Reads one of the two only, because each read is likely to miss the cache.
            let left_first = left > right;
            if left_first && let Some(end) = self.half(left, |split| split.1) {
                (limit, left) = (left, end);
            } else if let Some(begin) = self.half(right, |split| split.0) {
                (limit, right) = (right + 1, begin);
            } else if !left_first && let Some(end) = self.half(left, |split| split.1) {
                (limit, left) = (left, end);
            } else {
                return true;
            }
        }
    }
}

/// Returns the key of [`Vocabulary::merges`].
#[inline]
fn pair_key(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

/// Returns the first 8 bytes of a text, padded with zeros, so that numbers sort as texts do.
#[inline]
fn key(text: &[u8]) -> u64 {
    if let Some(bytes) = text.first_chunk::<8>() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..text.len()].copy_from_slice(text);
    u64::from_be_bytes(bytes)
}

/// Returns a text of less than 8 bytes and its length as a number.
#[inline]
fn word_key(text: &[u8]) -> u64 {
    key(text) | text.len() as u64
}

/// Hashes the number keys of the tables. The keys come from the vocabulary, so nobody can choose them to
/// collide; lookups of foreign text only miss.
#[derive(Default)]
struct Multiply(u64);

impl Hasher for Multiply {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The table takes its position from the low bits, which depend on the low bits of the key alone.
        self.0 = product ^ (product >> 32);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
