//! Lines of a file from one line on, up to the limit of an answer. The file passes through in pieces and is
//! never held.

use schemars::JsonSchema;
use serde::Serialize;

use crate::mcp::tools::answer::Lines;

/// Limit on the bytes of a line in the answer. A longer one is cut.
const MAX_LINE: usize = 2000;

/// Line that is not shown to its end.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct CutLine {
    line: u64,
    /// Bytes of the line before its rest.
    column: usize,
}

/// Lines that an answer shows.
#[derive(Debug)]
pub(super) struct Window {
    /// Number of the first line to show, and of the line after the last one.
    first: u64,
    end: u64,
    /// Bytes of the first line that are not shown.
    column: usize,
    /// Number of the current line, its bytes so far, up to [`MAX_LINE`], and how many it has.
    number: u64,
    line: Vec<u8>,
    length: usize,
    /// Bytes that have passed.
    scanned: u64,
    /// Numbered lines.
    numbered: Lines,
    /// Lines without numbers.
    content: String,
    is_empty: bool,
    cut_lines: Vec<CutLine>,
    /// Line that follows the last one of the answer.
    next: Option<u64>,
}

impl Window {
    /// Returns an answer that begins with a header.
    pub(super) fn new(header: &str, first: u64, limit: u64) -> Self {
        let mut numbered = Lines::default();
        numbered.push(header);
        Self {
            first,
            end: first.saturating_add(limit),
            column: 0,
            number: 1,
            line: Vec::new(),
            length: 0,
            scanned: 0,
            numbered,
            content: String::new(),
            is_empty: true,
            cut_lines: Vec::new(),
            next: None,
        }
    }

    /// Leaves out the first `column` bytes of the first line.
    pub(super) fn skipping(self, column: usize) -> Self {
        Self { column, ..self }
    }

    /// Takes the next bytes of the file.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.number >= self.end {
                self.next = Some(self.number);
            }
            if self.next.is_some() {
                return;
            }
            let left_out = self.start().saturating_sub(self.length);
            self.scanned += part.len() as u64;
            self.length += part.len();
            if self.number >= self.first {
                let (text, end) = part.split_at(part.len() - usize::from(part.ends_with(b"\n")));
                let room = MAX_LINE.saturating_sub(self.line.len());
                self.line.extend(text.iter().skip(left_out).take(room));
                // A line feed takes no room, but does not follow a line that is cut.
                if self.start() + self.line.len() + end.len() == self.length {
                    self.line.extend_from_slice(end);
                }
            }
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    /// Ends the file: its last line may have no line end.
    pub(super) fn end(&mut self) {
        if self.length > 0 && self.next.is_none() {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        if self.number >= self.first && !self.show() {
            self.next = Some(self.number);
        }
        self.number += 1;
        self.length = 0;
        self.line.clear();
    }

    /// Returns the position in the current line where the answer begins to show it.
    const fn start(&self) -> usize {
        if self.number == self.first { self.column } else { 0 }
    }

    /// Adds the current line. Returns false if it does not fit.
    fn show(&mut self) -> bool {
        let start = self.start();
        let is_cut = self.length > start.saturating_add(self.line.len());
        if is_cut {
            // The cut can split a character, which then belongs to the rest of the line.
            let split = self.line.utf8_chunks().last().map_or(0, |chunk| chunk.invalid().len());
            self.line.truncate(self.line.len() - split);
        }
        let text = String::from_utf8_lossy(&self.line);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let (number, column) = (self.number, start.saturating_add(self.line.len()));
        let cut = match is_cut {
            true => format!(
                " [cut: the line has {} bytes; its rest: offset = {number}, column = {column}]",
                self.length
            ),
            false => String::new(),
        };
        let fits = self.numbered.push(&format!("{number:>6}\t{line}{cut}"));
        if fits {
            self.content.push_str(&text);
            if is_cut {
                self.content.push('\n');
                self.cut_lines.push(CutLine { line: number, column });
            }
            self.is_empty = false;
        }
        fits
    }

    /// Adds a last line to the answer.
    pub(super) fn end_with(&mut self, line: &str) {
        self.numbered.end_with(line);
    }

    /// Returns the number of bytes that have passed.
    pub(super) const fn scanned(&self) -> u64 {
        self.scanned
    }

    /// Returns true if a line follows that the answer does not show.
    pub(super) const fn has_more(&self) -> bool {
        self.next.is_some()
    }

    /// Returns the number of the line that follows.
    pub(super) const fn next(&self) -> Option<u64> {
        self.next
    }

    /// Returns the number of lines that have passed.
    pub(super) const fn lines(&self) -> u64 {
        self.number.saturating_sub(1)
    }

    /// Returns true if no line is shown.
    pub(super) const fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Takes the lines that are not shown to their ends.
    pub(super) fn take_cut_lines(&mut self) -> Vec<CutLine> {
        std::mem::take(&mut self.cut_lines)
    }

    /// Returns the numbered lines, and the lines without numbers.
    pub(super) fn into_texts(self) -> (String, String) {
        (self.numbered.into_text(), self.content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::tools::answer::MAX_TEXT;

    /// Returns the window of a file that arrives in pieces of `step` bytes.
    fn window(text: &str, first: u64, limit: u64, step: usize) -> Window {
        let mut window = Window::new("/f", first, limit);
        for piece in text.as_bytes().chunks(step) {
            window.feed(piece);
        }
        window.end();
        window
    }

    #[test]
    fn lines_are_numbered_whatever_the_pieces() {
        for step in [1, 2, 5, 100] {
            let shown = window("a\r\nbé\n\nd", 2, 2, step);
            assert_eq!((shown.next(), shown.is_empty()), (Some(4), false), "{step}");
            let due = ("/f\n     2\tbé\n     3\t".to_owned(), "bé\n\n".to_owned());
            assert_eq!(shown.into_texts(), due, "{step}");
            let last = window("a\r\nbé\n\nd", 4, 2, step);
            assert_eq!((last.next(), last.lines()), (None, 4), "{step}");
            assert_eq!(last.into_texts().1, "d", "{step}");
        }
    }

    #[test]
    fn window_ends_exactly_at_the_end_of_the_file() {
        assert_eq!(window("a\nb\n", 1, 2, 100).next(), None);
        assert_eq!(window("a\nb\nc", 1, 2, 100).next(), Some(3));
        let beyond = window("a\nb\n", 3, 2, 100);
        assert!(beyond.is_empty() && beyond.lines() == 2);
        assert!(window("", 1, 2, 100).is_empty());
    }

    #[test]
    fn long_files_and_lines_are_cut() {
        let long = window(&"0123456789\n".repeat(5000), 1, u64::MAX, 4096);
        let next = long.next().unwrap();
        let (text, content) = long.into_texts();
        assert!(text.len() <= MAX_TEXT && content.lines().count() as u64 == next - 1, "{next}");
        let mut line = window(&format!("{}\nx\n", "é".repeat(3000)), 1, 5, 4096);
        assert_eq!((line.take_cut_lines(), line.next()), (vec![CutLine { line: 1, column: 2000 }], None));
        let (text, content) = line.into_texts();
        let mark = " [cut: the line has 6001 bytes; its rest: offset = 1, column = 2000]\n     2\tx";
        assert!(text.contains(mark), "{text}");
        assert_eq!(content, format!("{}\nx\n", "é".repeat(1000)));
    }

    #[test]
    fn cut_line_continues_at_its_column() {
        // The first cut would split a character.
        let line = format!("a{}b", "é".repeat(3000));
        for step in [1, 7, 1999, 4096] {
            let (mut read, mut column) = (String::new(), 0);
            loop {
                let mut part = Window::new("/f", 2, 1).skipping(column);
                for piece in format!("first\n{line}\nlast\n").as_bytes().chunks(step) {
                    part.feed(piece);
                }
                part.end();
                let cut = part.take_cut_lines();
                read.push_str(part.into_texts().1.trim_end_matches('\n'));
                let [rest] = &*cut else { break };
                assert!(rest.line == 2 && rest.column > column, "{rest:?}");
                column = rest.column;
            }
            assert_eq!(read, line, "{step}");
        }
        let mut beyond = Window::new("/f", 1, 1).skipping(100);
        beyond.feed(b"short\n");
        assert_eq!((beyond.take_cut_lines(), beyond.into_texts().1), (Vec::new(), String::new()));
    }
}
