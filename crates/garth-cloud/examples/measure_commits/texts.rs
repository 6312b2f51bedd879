//! Texts to write, and their passages.

use std::path::Path;

use garth_cloud::rows::{NewPassage, Writes};
use garth_engine::text::Tokenizer;
use garth_engine::text::passage::{Form, cut};

/// English text, cut into bodies.
pub(crate) struct Texts {
    text: String,
    at: usize,
}

impl Texts {
    /// Reads the documents of the repository.
    pub(crate) fn read() -> std::io::Result<Self> {
        let mut files = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")];
        let mut text = String::new();
        while let Some(path) = files.pop() {
            if path.is_dir() {
                for entry in std::fs::read_dir(path)? {
                    files.push(entry?.path());
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                text.push_str(&std::fs::read_to_string(path)?);
            }
        }
        Ok(Self { text, at: 0 })
    }

    /// Returns the next text of about `size` bytes.
    pub(crate) fn next(&mut self, size: usize) -> String {
        // Not a divisor of the text: bodies do not repeat.
        self.at = (self.at + size + 37) % self.text.len().saturating_sub(2 * size).max(1);
        let from = self.text.ceil_char_boundary(self.at);
        self.text[from..self.text.ceil_char_boundary(from + size)].to_owned()
    }
}

/// Indexes the files that a group has written whole.
pub(crate) fn index(writes: &mut Writes) {
    let mut tokenizer = Tokenizer::default();
    let mut passages = Vec::new();
    for (ino, begin, bytes) in writes.content() {
        let mut off = begin;
        for length in cut(bytes, true, Form::Text) {
            let piece = &bytes[(off - begin) as usize..][..length];
            let (tokens, words) = tokenizer.tokens(&String::from_utf8_lossy(piece));
            let lines = piece.iter().filter(|byte| **byte == b'\n').count() as u64;
            let newline = piece.last() == Some(&b'\n');
            let hash = off.cast_signed().wrapping_mul(words.cast_signed());
            passages.push(NewPassage {
                ino,
                off,
                len: length as u64,
                lines,
                newline,
                form: 0,
                words,
                hash,
                tokens,
            });
            off += length as u64;
        }
    }
    writes.index(passages);
}
