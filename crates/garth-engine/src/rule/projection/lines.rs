//! Splits a file that is read piece by piece into lines, for projections by line.

use std::ops::Range;

/// Bytes at the start of a line that a projection sees, 64 KiB.
pub const MAX_LINE: usize = 64 << 10;

/// Line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Number of the line; the first is 1.
    pub number: u64,
    /// Bytes of the line, without the line feed.
    pub bytes: Range<u64>,
}

/// Splitter of a file that is read piece by piece. Holds at most [`MAX_LINE`] bytes of a line.
#[derive(Debug)]
pub struct Lines {
    /// Unfinished line: `bytes.end` is where the next piece begins.
    now: Line,
    start: Vec<u8>,
}

impl Lines {
    /// Starts at byte `off`, where line `number` starts.
    pub fn at(number: u64, off: u64) -> Self {
        Self { now: Line { number, bytes: off..off }, start: Vec::new() }
    }

    /// Returns the unfinished line, or the empty one that would start.
    pub fn now(&self) -> &Line {
        &self.now
    }

    /// Takes the next bytes. Calls `each` with every line that ends in them, and the start of its text.
    ///
    /// # Errors
    /// Errors of `each`.
    pub fn push<E>(
        &mut self,
        bytes: &[u8],
        each: &mut impl FnMut(&Line, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n");
            let own = text.unwrap_or(piece);
            self.start.extend_from_slice(&own[..own.len().min(MAX_LINE - self.start.len())]);
            self.now.bytes.end += own.len() as u64;
            if text.is_some() {
                each(&self.now, &self.start)?;
                let next = self.now.bytes.end + 1;
                self.now = Line { number: self.now.number + 1, bytes: next..next };
                self.start.clear();
            }
        }
        Ok(())
    }

    /// Takes `length` zeros: a hole may be too long to be read.
    pub fn hole(&mut self, length: u64) {
        let room = MAX_LINE - self.start.len();
        let kept = usize::try_from(length).map_or(room, |length| length.min(room));
        self.start.resize(self.start.len() + kept, 0);
        self.now.bytes.end += length;
    }

    /// Calls `each` with the last line, if it has no line feed.
    ///
    /// # Errors
    /// Errors of `each`.
    pub fn end<E>(&self, each: &mut impl FnMut(&Line, &[u8]) -> Result<(), E>) -> Result<(), E> {
        // After a last line feed there is no further line.
        if self.now.bytes.is_empty() { Ok(()) } else { each(&self.now, &self.start) }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// Returns lines with their texts, as read in pieces of this size.
    fn lines(text: &[u8], piece: usize) -> Vec<(u64, Range<u64>, Vec<u8>)> {
        let (mut lines, mut found) = (Lines::at(1, 0), Vec::new());
        let mut each = |line: &Line, text: &[u8]| {
            found.push((line.number, line.bytes.clone(), text.to_vec()));
            Ok::<(), Infallible>(())
        };
        for piece in text.chunks(piece) {
            let Ok(()) = lines.push(piece, &mut each);
        }
        let Ok(()) = lines.end(&mut each);
        found
    }

    proptest! {
        #[test]
        fn split_lines_do_not_depend_on_pieces(
            text in prop::collection::vec(prop::sample::select(b"ab\n".to_vec()), 0..40), piece in 1..9_usize
        ) {
            let (mut due, mut at) = (Vec::new(), 0);
            for (number, line) in (1..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
                let own = line.strip_suffix(b"\n").unwrap_or(line);
                due.push((number, at..at + own.len() as u64, own.to_vec()));
                at += line.len() as u64;
            }
            prop_assert_eq!(lines(&text, piece), due);
        }
    }

    #[test]
    fn long_line_keeps_its_start_and_length() {
        let text = [vec![b'x'; 3 * MAX_LINE], b"\nnext".to_vec()].concat();
        let found = lines(&text, 1000);
        let long = 3 * MAX_LINE as u64;
        assert_eq!(found[0], (1, 0..long, vec![b'x'; MAX_LINE]));
        assert_eq!(found[1], (2, long + 1..long + 5, b"next".to_vec()));
    }

    #[test]
    fn hole_reads_as_zeros_of_its_line() {
        let (mut lines, mut found) = (Lines::at(1, 0), Vec::new());
        let mut each = |line: &Line, text: &[u8]| {
            found.push((line.bytes.clone(), text.len()));
            Ok::<(), Infallible>(())
        };
        let Ok(()) = lines.push(b"ab", &mut each);
        // Too long to be built in memory.
        lines.hole(1 << 40);
        let Ok(()) = lines.push(b"c\nd", &mut each);
        lines.hole(3);
        let Ok(()) = lines.end(&mut each);
        let long = (1 << 40) + 3;
        assert_eq!(found, [(0..long, MAX_LINE), (long + 1..long + 5, 4)]);
    }
}
