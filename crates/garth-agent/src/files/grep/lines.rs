//! Lines of content that arrives in parts.

/// Longest line that is searched, 16 MiB. It is also the limit on the lines that are held for a match after
/// them.
pub const MAX_LINE: usize = 16 << 20;

/// Line with its number, the offset at which it begins in the file, and its range in the buffer without the
/// line end.
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) offset: u64,
    start: usize,
    end: usize,
}

/// Splits content that arrives in parts into lines. A file with a NUL is binary, and there a NUL ends a line,
/// too, so that lines stay short.
pub(super) struct Lines {
    buffer: Vec<u8>,
    /// Start of the next line in the buffer.
    start: usize,
    /// Bytes of the buffer in which no end of this line is.
    searched: usize,
    /// Offset of the buffer in the file.
    offset: u64,
    /// Number of the last line.
    number: u64,
    pub(super) binary: bool,
    /// True if a NUL is a character like any other.
    is_text: bool,
}

impl Lines {
    /// Starts at an offset of the file, after `number` lines.
    pub(super) fn new(offset: u64, number: u64, binary: bool, is_text: bool) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, offset, number, binary, is_text }
    }

    /// Adds the next bytes of the content.
    pub(super) fn add(&mut self, part: &[u8]) {
        // The lines before `start` were returned.
        self.buffer.drain(..self.start);
        self.offset += self.start as u64;
        self.searched = self.searched.saturating_sub(self.start);
        self.start = 0;
        if !self.is_text && !self.binary && part.contains(&0) {
            self.binary = true;
        }
        self.buffer.extend_from_slice(part);
    }

    /// Returns the next line. With `end`, an unterminated line counts, too.
    pub(super) fn next(&mut self, end: bool) -> Option<Line> {
        let rest = &self.buffer[self.start..];
        // A long line arrives in many parts, of which each is searched once.
        let from = self.searched.saturating_sub(self.start);
        let length = rest[from..].iter().position(|byte| *byte == b'\n' || (self.binary && *byte == 0));
        let (length, skip) = match length {
            Some(length) => (from + length, 1),
            None if end && !rest.is_empty() => (rest.len(), 0),
            None => {
                self.searched = self.buffer.len();
                return None;
            }
        };
        let (start, offset) = (self.start, self.offset + self.start as u64);
        // A carriage return is a part of the line end only before a line feed.
        let ends_with_crlf = rest[..length].ends_with(b"\r") && rest.get(length) == Some(&b'\n');
        let end = start + length - usize::from(ends_with_crlf);
        self.start += length + skip;
        self.number += 1;
        Some(Line { number: self.number, offset, start, end })
    }

    /// Returns the bytes of a line. They are valid until bytes are added.
    pub(super) fn text(&self, line: &Line) -> &[u8] {
        &self.buffer[line.start..line.end]
    }

    /// Returns the number of bytes of the unfinished line.
    pub(super) fn waiting(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Returns the offset at which the next line begins, and the number of lines before it.
    pub(super) fn position(&self) -> (u64, u64) {
        (self.offset + self.start as u64, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&str]) -> Vec<(u64, u64, String)> {
        let mut lines = Lines::new(0, 0, false, false);
        let mut all = Vec::new();
        for (at, part) in parts.iter().chain([&""]).enumerate() {
            lines.add(part.as_bytes());
            while let Some(line) = lines.next(at == parts.len()) {
                let text = String::from_utf8(lines.text(&line).to_vec()).unwrap();
                all.push((line.number, line.offset, text));
            }
        }
        let length: usize = parts.iter().map(|part| part.len()).sum();
        assert_eq!(lines.position(), (length as u64, all.len() as u64));
        all
    }

    #[test]
    fn lines_are_joined_across_parts() {
        let whole = vec![(1, 0, "one".to_owned()), (2, 4, String::new()), (3, 5, "three".to_owned())];
        assert_eq!(lines(&["one\n\nthree"]), whole);
        assert_eq!(lines(&["o", "ne\n", "\nth", "ree\n"]), whole);
        assert_eq!(lines(&["a\r\nb\r\n"]), [(1, 0, "a".to_owned()), (2, 3, "b".to_owned())]);
        assert_eq!(lines(&["a\r", "\nb\r"]), [(1, 0, "a".to_owned()), (2, 3, "b\r".to_owned())]);
        assert_eq!(lines(&[]), Vec::new());
    }

    #[test]
    fn binary_lines_end_at_nul() {
        assert_eq!(lines(&["a\0b\nc"]).len(), 3);
        let mut text = Lines::new(0, 0, false, true);
        text.add(b"a\0b\n");
        let line = text.next(false).unwrap();
        assert_eq!(text.text(&line), b"a\0b");
    }
}
