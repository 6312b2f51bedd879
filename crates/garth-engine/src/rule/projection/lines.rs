//! Cuts what is read of a file piece by piece into lines, for projections by line.

use std::ops::Range;

/// A projection sees this much of the start of a line, 64 KiB.
pub const MAX_LINE: usize = 64 << 10;

/// Where a line lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number; the first is 1.
    pub number: u64,
    /// Its bytes, without its line feed.
    pub bytes: Range<u64>,
}

/// Cuts what is read of a file piece by piece into lines; keeps no more of one than [`MAX_LINE`].
#[derive(Debug)]
pub struct Lines {
    /// The line that is not at its end: `bytes.end` is where the next piece begins.
    now: Line,
    start: Vec<u8>,
}

impl Lines {
    /// Begins at byte `off`, where the line `number` begins.
    pub fn at(number: u64, off: u64) -> Self {
        Self { now: Line { number, bytes: off..off }, start: Vec::new() }
    }

    /// The line that is not at its end, or would begin.
    pub fn now(&self) -> &Line {
        &self.now
    }

    /// Takes the next bytes; tells of each line that ends in them, and of the beginning of its text.
    ///
    /// # Errors
    /// What `each` says.
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

    /// Takes so many zeros: a hole may be longer than anybody could read.
    pub fn hole(&mut self, length: u64) {
        let room = MAX_LINE - self.start.len();
        let kept = usize::try_from(length).map_or(room, |length| length.min(room));
        self.start.resize(self.start.len() + kept, 0);
        self.now.bytes.end += length;
    }

    /// Tells of the last line, if it has no line feed.
    ///
    /// # Errors
    /// What `each` says.
    pub fn end<E>(&self, each: &mut impl FnMut(&Line, &[u8]) -> Result<(), E>) -> Result<(), E> {
        if self.now.bytes.is_empty() { Ok(()) } else { each(&self.now, &self.start) }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// Lines with their texts, as read in pieces of this size.
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
        fn lines_are_the_same_in_pieces_of_any_size(
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
    fn of_a_long_line_the_start_is_kept_and_all_is_counted() {
        let text = [vec![b'x'; 3 * MAX_LINE], b"\nnext".to_vec()].concat();
        let found = lines(&text, 1000);
        let long = 3 * MAX_LINE as u64;
        assert_eq!(found[0], (1, 0..long, vec![b'x'; MAX_LINE]));
        assert_eq!(found[1], (2, long + 1..long + 5, b"next".to_vec()));
    }

    #[test]
    fn a_hole_is_zeros_of_the_line_that_it_is_in() {
        let (mut lines, mut found) = (Lines::at(1, 0), Vec::new());
        let mut each = |line: &Line, text: &[u8]| {
            found.push((line.bytes.clone(), text.len()));
            Ok::<(), Infallible>(())
        };
        let Ok(()) = lines.push(b"ab", &mut each);
        lines.hole(1 << 40);
        let Ok(()) = lines.push(b"c\nd", &mut each);
        lines.hole(3);
        let Ok(()) = lines.end(&mut each);
        let long = (1 << 40) + 3;
        assert_eq!(found, [(0..long, MAX_LINE), (long + 1..long + 5, 4)]);
    }
}
