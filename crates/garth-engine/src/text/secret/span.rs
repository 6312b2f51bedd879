//! Span of text that looks like a secret, as every search returns it.

use std::ops::Range;

/// Limit on the length of a secret, 8 KiB. Of a longer block with a private key, this much after its
/// beginning and this much before its end is taken.
pub(super) const LONGEST: usize = 8 << 10;

/// Span that looks like a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// Place in bytes. Never begins or ends inside a character.
    pub bytes: Range<usize>,
    /// Range of bytes that decided: the secret, and bytes before it in its line or in lines before.
    pub basis: Range<usize>,
    /// Description, in a few words.
    pub kind: &'static str,
}

impl Secret {
    pub(super) fn new(bytes: Range<usize>, kind: &'static str) -> Self {
        Self { basis: bytes.clone(), bytes, kind }
    }

    /// Returns the secret in a text that has `by` more bytes before it.
    pub(super) fn moved(self, by: usize) -> Self {
        let moved = |range: Range<usize>| range.start + by..range.end + by;
        Self { bytes: moved(self.bytes), basis: moved(self.basis), kind: self.kind }
    }

    /// Returns the text that is shown in its place.
    pub fn mark(&self) -> String {
        format!("[secret: {}]", self.kind)
    }
}
