//! Lines of content that arrives in chunks.

/// Line with its number, and its range in the buffer without the line end.
pub(crate) struct Line {
    pub(crate) number: u64,
    start: usize,
    end: usize,
}

/// Splits content that arrives in chunks into lines. A file with a NUL is binary, and there a NUL ends a
/// line, too, so that lines stay short.
#[derive(Default)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// Start of the next line.
    start: usize,
    number: u64,
    pub(crate) binary: bool,
}

impl Lines {
    /// Adds the next bytes of the content.
    pub(crate) fn add(&mut self, chunk: &[u8]) {
        // The lines before `start` were returned.
        self.buffer.drain(..self.start);
        self.start = 0;
        self.binary |= chunk.contains(&0);
        self.buffer.extend_from_slice(chunk);
    }

    /// Returns the next line. With `end`, an unterminated line counts, too.
    pub(crate) fn next(&mut self, end: bool) -> Option<Line> {
        let rest = &self.buffer[self.start..];
        let length = rest.iter().position(|byte| *byte == b'\n' || (self.binary && *byte == 0));
        let (length, skip) = match length {
            Some(length) => (length, 1),
            None if end && !rest.is_empty() => (rest.len(), 0),
            None => return None,
        };
        let start = self.start;
        let end = start + rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]).len();
        self.start += length + skip;
        self.number += 1;
        Some(Line { number: self.number, start, end })
    }

    /// Returns the bytes of a line. They are valid until bytes are added.
    pub(crate) fn text(&self, line: &Line) -> &[u8] {
        &self.buffer[line.start..line.end]
    }

    /// Returns the number of bytes of the unfinished line.
    pub(crate) fn waiting(&self) -> usize {
        self.buffer.len() - self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&str]) -> Vec<(u64, String)> {
        let mut lines = Lines::default();
        let mut all = Vec::new();
        for (at, chunk) in chunks.iter().chain([&""]).enumerate() {
            lines.add(chunk.as_bytes());
            while let Some(line) = lines.next(at == chunks.len()) {
                all.push((line.number, String::from_utf8(lines.text(&line).to_vec()).expect("text")));
            }
        }
        all
    }

    #[test]
    fn lines_are_joined_across_chunks() {
        let whole = vec![(1, "one".to_owned()), (2, String::new()), (3, "three".to_owned())];
        assert_eq!(lines(&["one\n\nthree"]), whole);
        assert_eq!(lines(&["o", "ne\r\n", "\nth", "ree\n"]), whole);
        assert_eq!(lines(&[]), Vec::new());
    }

    #[test]
    fn binary_lines_end_at_nul() {
        assert_eq!(lines(&["a\0b\nc"]).len(), 3);
    }
}
