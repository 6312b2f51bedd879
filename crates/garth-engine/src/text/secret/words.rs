//! Words of a text: runs of the characters that tokens are made of.

use std::ops::Range;

/// Returns the next word from `at` on.
pub(super) fn next_word(text: &[u8], at: usize) -> Option<Range<usize>> {
    let start = at + text[at..].iter().position(|byte| is_word(*byte))?;
    let length = text[start..].iter().position(|byte| !is_word(*byte)).unwrap_or(text.len() - start);
    Some(start..start + length)
}

/// Returns true for letters, digits, and the other characters of both alphabets of base64.
pub(super) fn is_word(byte: u8) -> bool {
    const WORD: [bool; 256] = {
        let (mut word, mut byte) = ([false; 256], 0);
        while byte < 256 {
            let it = byte as u8;
            word[byte] = it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'+' | b'/');
            byte += 1;
        }
        word
    };
    WORD[usize::from(byte)]
}

#[cfg(test)]
std::thread_local! {
    /// Number of bytes that this thread has looked at.
    pub(super) static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts bytes that are looked at, for the test that their number is in proportion to the text.
pub(super) fn look_at(bytes: usize) {
    #[cfg(test)]
    LOOKED_AT.with(|sum| sum.set(sum.get() + bytes));
    #[cfg(not(test))]
    let _ = bytes;
}
