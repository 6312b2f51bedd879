//! Numbered lines of a file, as the memory tool shows them.

use std::fmt::Write as _;

/// Limit on the bytes of an answer to `view`, 256 KiB. A longer file is shown in parts.
pub const MAX_SHOWN: usize = 256 << 10;
/// Lines shown before and after a change.
const CONTEXT: u64 = 4;
/// Limit on the bytes of lines shown around a change.
const MAX_SNIPPET: usize = 16 << 10;

/// Lines with their numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NumberedLines {
    /// A line feed, number, tab and text for each line.
    pub(super) text: String,
    /// Number of the last line.
    pub(super) last: u64,
    /// True if the only line is cut.
    pub(super) is_cut: bool,
}

/// Returns the number of lines of a text. A final line feed ends a line and begins none.
pub(super) fn count(text: &str) -> u64 {
    text.split_inclusive('\n').count() as u64
}

/// Returns the lines `first` to `last` of a text, from 1, as far as they have at most `limit` bytes. The
/// first one is cut if it is longer.
pub(super) fn numbered(text: &str, first: u64, last: u64, limit: usize) -> NumberedLines {
    let mut shown = NumberedLines::default();
    let skipped = usize::try_from(first.saturating_sub(1)).unwrap_or(usize::MAX);
    let lines = text.split_inclusive('\n').zip(1..).skip(skipped);
    for (line, number) in lines.take_while(|(_, number)| *number <= last) {
        let mut line = line.strip_suffix('\n').unwrap_or(line);
        // The number, two separators, and room for it to grow.
        if shown.text.len() + line.len() + 24 > limit {
            if !shown.text.is_empty() {
                break;
            }
            shown.is_cut = true;
            line = line.get(..line.floor_char_boundary(limit.saturating_sub(24))).unwrap_or_default();
        }
        // Writing to a string cannot fail.
        let _ = write!(shown.text, "\n{number:>6}\t{line}");
        shown.last = number;
        if shown.is_cut {
            break;
        }
    }
    shown
}

/// Returns the lines around a change, in at most `limit` bytes and 16 KiB: `line` is its first one, and `new`
/// the text that it put there.
pub(super) fn snippet(text: &str, line: u64, new: &str, limit: usize) -> String {
    let end = line + count(new).max(1) - 1;
    // A change at the end may have removed the line.
    let line = line.min(count(text));
    let first = line.saturating_sub(CONTEXT).max(1);
    numbered(text, first, end.saturating_add(CONTEXT), limit.min(MAX_SNIPPET)).text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_numbers_of_six_characters() {
        let shown = numbered("a\n\nb", 1, u64::MAX, MAX_SHOWN);
        assert_eq!((shown.text.as_str(), shown.last), ("\n     1\ta\n     2\t\n     3\tb", 3));
        assert_eq!(numbered("a\nb\n", 2, 2, MAX_SHOWN).text, "\n     2\tb");
        assert_eq!(numbered("a\r\n", 1, 9, MAX_SHOWN).text, "\n     1\ta\r");
        assert_eq!(numbered("", 1, 9, MAX_SHOWN), NumberedLines::default());
        let long = "x\n".repeat(1_000_000);
        assert_eq!(numbered(&long, 1_000_000, 1_000_000, MAX_SHOWN).text, "\n1000000\tx");
        assert_eq!([count(""), count("a"), count("a\n"), count("a\n\n")], [0, 1, 1, 2]);
    }

    #[test]
    fn shown_lines_are_bounded() {
        let shown = numbered(&"12345678\n".repeat(100), 1, u64::MAX, 100);
        assert_eq!((shown.last, shown.is_cut), (5, false));
        let shown = numbered(&"é".repeat(100), 1, u64::MAX, 101);
        assert_eq!(
            (shown.text, shown.last, shown.is_cut),
            (format!("\n     1\t{}", "é".repeat(38)), 1, true)
        );
    }

    #[test]
    fn snippet_shows_four_lines_around_the_change() {
        let text: String = (1..=20).map(|number| format!("{number}\n")).collect();
        let lines = |shown: &str| {
            let mut numbers = shown.lines().filter_map(|line| line.split('\t').nth(1)).map(str::to_owned);
            (numbers.next().unwrap_or_default(), numbers.next_back().unwrap_or_default())
        };
        let due = |first: &str, last: &str| (first.to_owned(), last.to_owned());
        assert_eq!(lines(&snippet(&text, 10, "10", MAX_SHOWN)), due("6", "14"));
        assert_eq!(lines(&snippet(&text, 10, "10\n11\n12", MAX_SHOWN)), due("6", "16"));
        assert_eq!(lines(&snippet(&text, 1, "1", MAX_SHOWN)), due("1", "5"));
        assert_eq!(lines(&snippet(&text, 21, "", MAX_SHOWN)), due("16", "20"));
        assert_eq!(snippet("", 1, "", MAX_SHOWN), "");
    }
}
