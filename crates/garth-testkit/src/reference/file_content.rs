//! Expected content of a large file, without storing it: every byte follows from a seed and the few writes.

use crate::data::random::Random;

/// Bytes of one step of the generator.
const WORD: u64 = 8;

/// Range of content: the bytes of `seed` as if they began at `origin`; zeros without a seed.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    start: u64,
    end: u64,
    seed: Option<u64>,
    origin: u64,
}

/// Expected content of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    /// Writes and holes; later ones cover earlier ones.
    stretches: Vec<Stretch>,
    size: u64,
}

/// Returns `length` bytes of `seed`, starting at byte `from`.
pub(crate) fn content(seed: u64, from: u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 2 * WORD as usize);
    let mut word = from / WORD;
    let skip = (from % WORD) as usize;
    // Each word has a generator of its own, so that any offset is reached without the bytes before it.
    while bytes.len() < length + skip {
        let mut random = Random::new(seed ^ word.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        bytes.extend_from_slice(&random.next().to_le_bytes());
        word += 1;
    }
    bytes.drain(..skip);
    bytes.truncate(length);
    bytes
}

impl Expected {
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Writes the first `length` bytes of `seed` at `offset`.
    pub(crate) fn write(&mut self, offset: u64, length: u64, seed: u64) {
        self.extend(offset);
        self.stretches.push(Stretch {
            start: offset,
            end: offset + length,
            seed: Some(seed),
            origin: offset,
        });
        self.size = self.size.max(offset + length);
    }

    pub(crate) fn truncate(&mut self, size: u64) {
        self.extend(size);
        for stretch in &mut self.stretches {
            stretch.end = stretch.end.min(size);
        }
        self.stretches.retain(|stretch| stretch.start < stretch.end);
        self.size = size;
    }

    fn extend(&mut self, size: u64) {
        if size > self.size {
            self.stretches.push(Stretch { start: self.size, end: size, seed: None, origin: 0 });
            self.size = size;
        }
    }

    /// Returns up to `length` bytes from `offset`.
    pub(crate) fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let end = (offset + length as u64).min(self.size);
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        for stretch in &self.stretches {
            let (from, to) = (stretch.start.max(offset), stretch.end.min(end));
            if from >= to {
                continue;
            }
            let part = &mut bytes[(from - offset) as usize..(to - offset) as usize];
            match stretch.seed {
                Some(seed) => part.copy_from_slice(&content(seed, from - stretch.origin, part.len())),
                None => part.fill(0),
            }
        }
        bytes
    }
}
