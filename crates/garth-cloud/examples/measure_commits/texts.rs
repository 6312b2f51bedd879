//! Texts to write.

use std::path::Path;

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
