//! Places of a text in another one, byte by byte: the only comparison by which edits find what they replace.

use std::ops::Range;

use unicode_segmentation::{Graphemes, UnicodeSegmentation as _};

/// Returns where a text occurs in another one and begins and ends between characters as a reader sees them:
/// half of CRLF would be a line end of another kind, and the marks of a letter would belong to another
/// letter. Overlapping occurrences are included: which of two is meant cannot be known.
pub(crate) fn whole_occurrences<'a>(text: &'a str, old: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    let (mut starts, mut ends) = (Boundaries::of(text), Boundaries::of(text));
    let ranges = occurrences(text, old).map(move |start| start..start + old.len());
    ranges.filter(move |range| starts.have(range.start) && ends.have(range.end))
}

/// Returns where a text occurs in another one, overlapping occurrences included, in increasing order.
pub(crate) fn occurrences<'a>(text: &'a str, old: &'a str) -> impl Iterator<Item = usize> + 'a {
    let fits = !old.is_empty() && old.len() <= text.len();
    let (text, old) = if fits { (text.as_bytes(), old.as_bytes()) } else { (&[][..], &[][..]) };
    // Knuth-Morris-Pratt: the time of a search from each byte would grow with the product of the lengths.
    // `longest[i]` is the length of the longest end of `old[..=i]` that is also its beginning.
    let (mut longest, mut length) = (vec![0_usize; old.len()], 0_usize);
    for (at, byte) in old.iter().enumerate().skip(1) {
        while length > 0 && *byte != old[length] {
            length = longest[length - 1];
        }
        length += usize::from(*byte == old[length]);
        longest[at] = length;
    }
    length = 0;
    text.iter().enumerate().filter_map(move |(at, byte)| {
        while length > 0 && *byte != old[length] {
            length = longest[length - 1];
        }
        length += usize::from(*byte == old[length]);
        if length < old.len() {
            return None;
        }
        let start = at + 1 - length;
        length = longest[length - 1];
        Some(start)
    })
}

/// Boundaries between the characters of a text, asked for in increasing order. Looked up one by one, each
/// could take a search back through a run of flags.
struct Boundaries<'a> {
    rest: Graphemes<'a>,
    at: usize,
}

impl<'a> Boundaries<'a> {
    fn of(text: &'a str) -> Self {
        Self { rest: text.graphemes(true), at: 0 }
    }

    /// Returns true if an offset is a boundary.
    fn have(&mut self, offset: usize) -> bool {
        while self.at < offset {
            let Some(character) = self.rest.next() else { return false };
            self.at += character.len();
        }
        self.at == offset
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_segmentation::GraphemeCursor;

    use super::*;

    proptest! {
        #[test]
        fn occurrences_equal_those_of_a_naive_search(
            text in "[ab\u{e9}\u{301}\r\n\u{1f1e9}\u{1f1ea}]{0,14}", old in "[ab\u{301}\r\n\u{1f1ea}]{0,3}",
        ) {
            let is_start = |at: &usize| !old.is_empty() && text.as_bytes()[*at..].starts_with(old.as_bytes());
            let naive: Vec<usize> = (0..text.len()).filter(is_start).collect();
            prop_assert_eq!(occurrences(&text, &old).collect::<Vec<_>>(), naive.clone());
            let is_whole = |at: usize| {
                GraphemeCursor::new(at, text.len(), true).is_boundary(&text, 0) == Ok(true)
            };
            let ranges = naive.into_iter().map(|start| start..start + old.len());
            let whole: Vec<_> = ranges.filter(|range| is_whole(range.start) && is_whole(range.end)).collect();
            prop_assert_eq!(whole_occurrences(&text, &old).collect::<Vec<_>>(), whole);
        }
    }
}
