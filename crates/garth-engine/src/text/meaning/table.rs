//! The table of token vectors. `cargo xtask distil` writes it; the vectors are read where they lie in the
//! program, and only an index of the vocabulary is built, at the first use.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

/// Numbers of a vector.
pub const DIMENSIONS: usize = 128;
/// Magic, which includes the version, and four numbers.
const HEADER: usize = 8 + 4 * 4;
const MAGIC: &[u8] = b"garthtv1";
static FILE: &[u8] = include_bytes!("../../../data/token-vectors.bin");
static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(FILE).unwrap_or_default());

/// Letters of a token, and its number.
type Letters = (&'static str, u32);

/// Vocabulary and vectors. A token's number is that of its row.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: &'static [[u8; DIMENSIONS]],
    /// Tokens that begin a word, in the order of their numbers.
    beginnings: Vec<Letters>,
    /// Numbers of these tokens by their letters. Most words are tokens, so one look-up finds them.
    words: HashMap<&'static str, u32, BuildHasherDefault<LetterHash>>,
    first: Prefixes,
    later: Prefixes,
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
        let (mut beginnings_of, mut continuations) = (Vec::new(), Vec::new());
        for (number, word) in (0..).zip(std::str::from_utf8(words).ok()?.lines()) {
            let begins = (number as usize) < beginnings;
            if begins { &mut beginnings_of } else { &mut continuations }.push((word, number));
        }
        let (first, later) = (Prefixes::of(beginnings_of.clone())?, Prefixes::of(continuations)?);
        let words = beginnings_of.iter().copied().collect();
        let table = Self { rows, beginnings: beginnings_of, words, first, later };
        (table.first.tokens + table.later.tokens == count).then_some(table)
    }

    /// Returns the number of tokens.
    pub(super) fn len(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Returns the vector of a token, as signed bytes.
    pub(super) fn row(&self, token: u32) -> Option<&'static [u8; DIMENSIONS]> {
        self.rows.get(token as usize)
    }

    /// Returns the tokens that begin a word, in the order of their numbers.
    pub(super) fn beginnings(&self) -> &[Letters] {
        &self.beginnings
    }

    /// Returns the longest token that `text` begins with, and its length in bytes: one that begins a word, or
    /// one that continues it.
    pub(super) fn longest(&self, text: &str, begins: bool) -> Option<(u32, usize)> {
        match begins {
            true => {
                self.words.get(text).map(|token| (*token, text.len())).or_else(|| self.first.longest(text))
            }
            false => self.later.longest(text),
        }
    }
}

/// Tokens as a tree of their bytes, in which the longest that a text begins with is found in one pass.
#[derive(Debug, Default)]
struct Prefixes {
    /// Nodes; the first one is the root. The children of a node lie side by side, in the order of `bytes`.
    nodes: Vec<Node>,
    /// Byte that leads to each node.
    bytes: Vec<u8>,
    /// Number of tokens.
    tokens: usize,
}

#[derive(Clone, Debug)]
struct Node {
    /// Number of the first child.
    first: u32,
    /// Children to which a digit or a small letter leads: a bit for each, in the order of their bytes. They
    /// come before all others.
    plain: u64,
    /// Number of the others.
    others: u32,
    /// Token that ends here, or [`NO_TOKEN`].
    token: u32,
}

const NO_TOKEN: u32 = u32::MAX;

impl Default for Node {
    fn default() -> Self {
        Self { first: 0, plain: 0, others: 0, token: NO_TOKEN }
    }
}

impl Prefixes {
    /// Returns the tree of some tokens; `None` if two are equal or one is empty.
    fn of(mut tokens: Vec<Letters>) -> Option<Self> {
        // In the order in which children lie.
        let order = |letters: &str| -> Vec<(bool, u8)> {
            letters.bytes().map(|byte| (bit_of(byte).is_none(), byte)).collect()
        };
        tokens.sort_by_cached_key(|(letters, _)| order(letters));
        if tokens.iter().any(|(letters, _)| letters.is_empty())
            || tokens.windows(2).any(|pair| pair[0].0 == pair[1].0)
        {
            return None;
        }
        let mut tree = Self { nodes: vec![Node::default()], bytes: vec![0], tokens: tokens.len() };
        // Nodes with the tokens below them and their depth.
        let mut due = VecDeque::from([(0_usize, &tokens[..], 0_usize)]);
        while let Some((node, mut below, depth)) = due.pop_front() {
            // A token that ends here is sorted before those that go on.
            if let Some(((letters, number), longer)) = below.split_first()
                && letters.len() == depth
            {
                tree.nodes[node].token = *number;
                below = longer;
            }
            tree.nodes[node].first = tree.nodes.len() as u32;
            for of_byte in below.chunk_by(|one, other| one.0.as_bytes()[depth] == other.0.as_bytes()[depth]) {
                let byte = of_byte[0].0.as_bytes()[depth];
                match bit_of(byte) {
                    Some(bit) => tree.nodes[node].plain |= bit,
                    None => tree.nodes[node].others += 1,
                }
                due.push_back((tree.nodes.len(), of_byte, depth + 1));
                tree.nodes.push(Node::default());
                tree.bytes.push(byte);
            }
        }
        Some(tree)
    }

    fn longest(&self, text: &str) -> Option<(u32, usize)> {
        let (mut node, mut longest) = (self.nodes.first()?, None);
        for (byte, length) in text.bytes().zip(1..) {
            let Some(child) = self.child(node, byte) else { break };
            node = child;
            if node.token != NO_TOKEN {
                longest = Some((node.token, length));
            }
        }
        longest
    }

    /// Returns the child to which a byte leads.
    fn child(&self, node: &Node, byte: u8) -> Option<&Node> {
        let place = match bit_of(byte) {
            Some(bit) if node.plain & bit == 0 => return None,
            Some(bit) => (node.plain & (bit - 1)).count_ones() as usize,
            None => {
                let others = node.first as usize + node.plain.count_ones() as usize;
                let bytes = self.bytes.get(others..others + node.others as usize)?;
                node.plain.count_ones() as usize + bytes.binary_search(&byte).ok()?
            }
        };
        self.nodes.get(node.first as usize + place)
    }
}

/// Returns the bit of a digit or a small letter.
fn bit_of(byte: u8) -> Option<u64> {
    match byte {
        b'0'..=b'9' => Some(1 << (byte - b'0')),
        b'a'..=b'z' => Some(1 << (byte - b'a' + 10)),
        _ => None,
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
