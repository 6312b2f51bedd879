//! Replaces a text in a file by another, as it is written and not as it is stored: line ends and the forms of
//! letters make no difference, and those of the file stay.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use crate::files::occurrences::{occurrences, whole_occurrences};
use garth_engine::compute::working;
use icu_normalizer::DecomposingNormalizerBorrowed;
use unicode_segmentation::UnicodeSegmentation as _;

/// Replaces `old`, which must occur once in a text, by `new`. The lines of `new` get the line ends of the
/// place.
///
/// # Errors
/// The number of times that `text` contains `old`, if that is not one.
pub(super) fn replace_once(text: &str, old: &str, new: &str) -> Result<String, usize> {
    working(text.len());
    let range = range_of(text, old)?;
    let (before, after) = (&text[..range.start], &text[range.end..]);
    let end =
        line_end(&text[range.clone()]).or_else(|| first_line_end(after)).or_else(|| last_line_end(before));
    let new = end.map_or(Cow::Borrowed(new), |end| lines_with(new, end).into());
    Ok([before, &new, after].concat())
}

/// Finds the only occurrence of a text in another. Compares the stored bytes first, then ignores line ends,
/// then also Unicode normalization. The first comparison that finds a match decides, so that an exact match
/// is preferred to others that differ only in form.
fn range_of(text: &str, old: &str) -> Result<Range<usize>, usize> {
    let mut stored = whole_occurrences(text, old);
    match (stored.next(), stored.count()) {
        (Some(range), 0) => return Ok(range),
        (Some(_), more) => return Err(more + 1),
        (None, _) => {}
    }
    match range_in(text, old, Form::Lines) {
        Err(0) => range_in(text, old, Form::Canonical),
        found => found,
    }
}

/// Form in which texts are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Line ends are line feeds.
    Lines,
    /// As the previous form, with decomposed letters.
    Canonical,
}

/// Finds the only occurrence of a text in another, after converting both to one form.
fn range_in(text: &str, old: &str, form: Form) -> Result<Range<usize>, usize> {
    working(4 * text.len());
    let [old, all] = [old, text].map(|text| pieces(text, form).map(|(_, formed)| formed).collect::<String>());
    let found: Vec<usize> = occurrences(&all, &old).collect();
    // A match begins and ends between pieces: half of a letter cannot be replaced.
    let (mut at, mut stored, mut starts, mut ends) = (0, 0, Vec::new(), HashMap::new());
    for (piece, formed) in pieces(text, form).chain([("", Cow::Borrowed(""))]) {
        if found.binary_search(&at).is_ok() {
            starts.push((at, stored));
        }
        if let Some(start) = at.checked_sub(old.len()).filter(|start| found.binary_search(start).is_ok()) {
            ends.insert(start, stored);
        }
        at += formed.len();
        stored += piece.len();
    }
    let whole = starts.iter().filter_map(|(at, start)| Some(*start..*ends.get(at)?)).collect::<Vec<_>>();
    match &whole[..] {
        [one] => Ok(one.clone()),
        all => Err(all.len()),
    }
}

/// Splits a text into the characters that a reader sees, such as CRLF or a letter with its marks. Returns
/// each with its converted form: a line end becomes a line feed, and the canonical form of a letter is
/// decomposed.
fn pieces(text: &str, form: Form) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    let normalizer = DecomposingNormalizerBorrowed::new_nfd();
    text.graphemes(true).map(move |piece| match piece {
        "\r\n" | "\r" => (piece, Cow::Borrowed("\n")),
        _ if form == Form::Lines || piece.is_ascii() => (piece, Cow::Borrowed(piece)),
        _ => (piece, normalizer.normalize(piece)),
    })
}

/// Returns the line end that a text has most often, if it has one.
fn line_end(text: &str) -> Option<&'static str> {
    let pairs = text.matches("\r\n").count();
    let [feeds, returns] = ['\n', '\r'].map(|end| text.matches(end).count() - pairs);
    let counts = [(pairs, "\r\n"), (feeds, "\n"), (returns, "\r")];
    let most = counts.into_iter().rev().max_by_key(|(count, _)| *count)?;
    (most.0 > 0).then_some(most.1)
}

/// Returns the first line end of a text.
fn first_line_end(text: &str) -> Option<&'static str> {
    let rest = &text[text.find(['\r', '\n'])?..];
    ["\r\n", "\n", "\r"].into_iter().find(|end| rest.starts_with(end))
}

/// Returns the last line end of a text.
fn last_line_end(text: &str) -> Option<&'static str> {
    let rest = &text[..=text.rfind(['\r', '\n'])?];
    ["\r\n", "\n", "\r"].into_iter().find(|end| rest.ends_with(end))
}

/// Returns a text with this line end.
fn lines_with(text: &str, end: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    if end == "\n" { text } else { text.replace('\n', end) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    proptest! {
        #[test]
        fn an_edit_of_other_line_ends_is_the_same_edit_with_them(
            text in "[abe\u{e9}\u{301}\n]{1,12}", cuts: (Index, Index), new in "[ab\u{e9}\n]{0,6}",
            as_new in 0..3_usize,
        ) {
            let ends = ["\n", "\r\n", "\r"];
            let places: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
            let mut cuts = [cuts.0, cuts.1].map(|cut| *cut.get(&places));
            cuts.sort_unstable();
            let old = &text[cuts[0]..cuts[1]];
            prop_assume!(!old.is_empty() && text.contains('\n'));
            let due = replace_once(&text, old, &new);
            for end in ends {
                let with = |text: &str| text.replace('\n', end);
                let edited = replace_once(&with(&text), old, &new.replace('\n', ends[as_new]));
                prop_assert_eq!(edited, due.clone().map(|due| with(&due)), "{:?} {:?}", end, old);
            }
        }
    }

    #[test]
    fn line_ends_and_forms_of_letters_make_no_difference_and_stay() {
        for (text, old, new, due) in [
            ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
            ("a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n"),
            ("a\nb\nc\n", "a\r\nb", "x\r\ny", "x\ny\nc\n"),
            ("a\rb\rc", "a\nb", "x\ny", "x\ry\rc"),
            // In a file with both kinds, the line ends of the place count.
            ("a\nb\nc\r\nd\r\n", "c\nd\n", "x\ny\n", "a\nb\nx\r\ny\r\n"),
            ("a\nb\nc\r\nd\n", "c", "x\ny", "a\nb\nx\r\ny\r\nd\n"),
            ("a\nb\r\nc", "c", "x\ny", "a\nb\r\nx\r\ny"),
            ("one line", "line", "x\r\ny", "one x\r\ny"),
            // CRLF is not split.
            ("One\r\nTwo", "\nTwo", "\nTwo\nThree", "One\r\nTwo\r\nThree"),
            ("a\r\nb\r\nc\r\n", "\nb", "\nB\nBB", "a\r\nB\r\nBB\r\nc\r\n"),
            ("x\r\n", "\n", "\n\n", "x\r\n\r\n"),
            ("x\r\n", "x\r", "y\r", "y\r\n"),
            ("cafe\u{301} au lait", "caf\u{e9}", "th\u{e9}", "th\u{e9} au lait"),
            ("caf\u{e9} au lait", "cafe\u{301}", "tea", "tea au lait"),
            // The letter without marks is found, not the one with marks.
            ("cafe\u{301} cafe", "cafe", "tea", "cafe\u{301} tea"),
            ("\u{301}b", "\u{301}b", "x", "x"),
            ("\u{1ec7}x", "e\u{323}\u{302}x", "y", "y"),
            ("e\u{302}\u{323}x", "\u{1ec7}x", "y", "y"),
            ("\u{ac01}\u{ac00}", "\u{1100}\u{1161}\u{11a8}", "x", "x\u{ac00}"),
            ("\u{e9}\r\n\u{e9}e\r\n", "\ne\u{301}e\n", "\n", "\u{e9}\r\n"),
        ] {
            assert_eq!(replace_once(text, old, new).as_deref(), Ok(due), "{text:?} {old:?}");
        }
    }

    #[test]
    fn what_is_there_never_or_often_is_counted() {
        for (text, old, count) in [
            ("abc", "d", 0),
            ("", "a", 0),
            ("a a", "a", 2),
            ("a\r\nb a\r\nb", "a\nb", 2),
            // Overlapping occurrences are as many.
            ("aaaa", "aa", 3),
            ("ab ab ab", "ab ab", 2),
            ("x\n\n\ny", "\n\n", 2),
            ("x\r\n\r\n\r\ny", "\n\n", 2),
            ("\u{e9}e\u{301}\u{e9}\r\n", "\u{e9}\u{e9}", 2),
            ("\u{e9} e\u{301}\u{e9}", "e\u{301}x", 0),
            ("\u{e9}\r\n\u{e9}\r\n", "e\u{301}\n", 2),
            // A letter without its marks does not match.
            ("\u{e9}\r\n", "e\n", 0),
            ("\u{ac01}\r\n", "\u{1100}\u{1161}", 0),
            ("cafe\u{301}", "cafe", 0),
            ("x\r\ncafe\u{301}", "x\ncafe", 0),
            ("cafe\u{301}s", "\u{301}s", 0),
            ("1\u{fe0f}\u{20e3}", "1", 0),
            ("\u{915}\u{93f}", "\u{915}", 0),
            ("\u{e01}\u{e31}", "\u{e01}", 0),
            // Nor does a part of a syllable, of a family, of a flag or of a skin tone.
            ("\u{1100}\u{1161}\u{11a8}", "\u{1100}\u{1161}", 0),
            ("\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}", "\u{1f469}", 0),
            ("\u{1f1e9}\u{1f1ea}", "\u{1f1ea}", 0),
            ("\u{1f44d}\u{1f3fd}", "\u{1f44d}", 0),
        ] {
            assert_eq!(replace_once(text, old, "x"), Err(count), "{text:?} {old:?}");
        }
        // An exact match is preferred.
        assert_eq!(replace_once("\u{e9} e\u{301}", "\u{e9}", "x").as_deref(), Ok("x e\u{301}"));
    }
}
