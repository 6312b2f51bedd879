//! A span of text that looks like a secret, as each way to find one returns it.

use std::ops::Range;

/// Most bytes of a secret, 8 KiB. Of a longer block with a private key, so much behind its beginning and so
/// much before its end.
pub(super) const LONGEST: usize = 8 << 10;

/// A span that looks like a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// Place in bytes. Never begins or ends inside a character.
    pub bytes: Range<usize>,
    /// The bytes that it was judged by: its own, and those before them in its line.
    pub basis: Range<usize>,
    /// Description, in a few words.
    pub kind: &'static str,
}

impl Secret {
    pub(super) fn new(bytes: Range<usize>, kind: &'static str) -> Self {
        Self { basis: bytes.clone(), bytes, kind }
    }

    /// Returns the same secret in a text with so many more bytes before it.
    pub(super) fn moved(self, by: usize) -> Self {
        let moved = |range: Range<usize>| range.start + by..range.end + by;
        Self { bytes: moved(self.bytes), basis: moved(self.basis), kind: self.kind }
    }

    /// Returns the text that is shown in its place.
    pub fn mark(&self) -> String {
        format!("[secret: {}]", self.kind)
    }
}
