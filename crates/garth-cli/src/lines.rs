//! Lines of content that streams in, each whole however it was cut.

/// One line: its number, and where it is in the buffer, without its end.
pub(crate) struct Line {
    pub(crate) number: u64,
    start: usize,
    end: usize,
}

/// Cuts what streams in into lines. A file with a NUL is binary; there NUL ends a line too, so that none
/// grows long.
#[derive(Default)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    number: u64,
    pub(crate) binary: bool,
}

impl Lines {
    /// Takes the next bytes of the content.
    pub(crate) fn add(&mut self, chunk: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.binary |= chunk.contains(&0);
        self.buffer.extend_from_slice(chunk);
    }

    /// The next line; at the `end`, also one that nothing ends.
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

    /// The bytes of a line; good until bytes are added.
    pub(crate) fn text(&self, line: &Line) -> &[u8] {
        &self.buffer[line.start..line.end]
    }

    /// Bytes of a line whose end has not come yet.
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
