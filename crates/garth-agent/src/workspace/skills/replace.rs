//! Replaces a text in a file by another, as it is written and not as it is stored: line ends and the forms of
//! letters make no difference, and those of the file stay.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_normalizer::properties::CanonicalCombiningClassMapBorrowed;

use garth_engine::compute::working;

/// Returns a text with `new` in the place of `old`, which it has once.
///
/// # Errors
/// How often it has it.
pub(super) fn replace_once(text: &str, old: &str, new: &str) -> Result<String, usize> {
    working(text.len());
    // As it is stored first: this finds the one among texts that differ in nothing else.
    let range = match text.match_indices(old).take(2).collect::<Vec<_>>()[..] {
        [(start, old)] => start..start + old.len(),
        [] => canonical_once(text, old)?,
        _ => return Err(text.matches(old).count()),
    };
    let end = line_end(&text[range.clone()]).or_else(|| line_end(text));
    let new = end.map_or(Cow::Borrowed(new), |end| lines_with(new, end).into());
    Ok([&text[..range.start], &new, &text[range.end..]].concat())
}

/// Returns where a text has another once, both in canonical form.
fn canonical_once(text: &str, old: &str) -> Result<Range<usize>, usize> {
    working(4 * text.len());
    let [old, all] = [old, text].map(|text| pieces(text).map(|(_, canonical)| canonical).collect::<String>());
    let found: Vec<usize> = all.match_indices(&old).map(|(at, _)| at).collect();
    // A match begins and ends between pieces: half of a letter cannot be replaced.
    let (mut at, mut stored, mut starts, mut ends) = (0, 0, Vec::new(), HashMap::new());
    for (piece, canonical) in pieces(text).chain([("", Cow::Borrowed(""))]) {
        if found.binary_search(&at).is_ok() {
            starts.push((at, stored));
        }
        if let Some(start) = at.checked_sub(old.len()).filter(|start| found.binary_search(start).is_ok()) {
            ends.insert(start, stored);
        }
        at += canonical.len();
        stored += piece.len();
    }
    let whole = starts.iter().filter_map(|(at, start)| Some(*start..*ends.get(at)?)).collect::<Vec<_>>();
    match &whole[..] {
        [one] => Ok(one.clone()),
        all => Err(all.len()),
    }
}

/// Returns the pieces of a text that have a canonical form of their own: a line end, which becomes a line
/// feed, or a letter with the marks behind it, which is decomposed.
fn pieces(text: &str) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    let (classes, normalizer) =
        (CanonicalCombiningClassMapBorrowed::new(), DecomposingNormalizerBorrowed::new_nfd());
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        if rest.starts_with("\r\n") {
            return Some((cut(&mut rest, 2), Cow::Borrowed("\n")));
        }
        if first == '\r' {
            return Some((cut(&mut rest, 1), Cow::Borrowed("\n")));
        }
        let marks = rest[first.len_utf8()..]
            .chars()
            .take_while(|mark| !mark.is_ascii() && classes.get_u8(*mark) != 0);
        let length = first.len_utf8() + marks.map(char::len_utf8).sum::<usize>();
        let piece = cut(&mut rest, length);
        Some((piece, if piece.is_ascii() { Cow::Borrowed(piece) } else { normalizer.normalize(piece) }))
    })
}

/// Cuts the first bytes off a text.
fn cut<'t>(rest: &mut &'t str, length: usize) -> &'t str {
    let (first, behind) = rest.split_at(length);
    *rest = behind;
    first
}

/// Returns the line end that a text has most often, if it has one.
fn line_end(text: &str) -> Option<&'static str> {
    let pairs = text.matches("\r\n").count();
    let [feeds, returns] = ['\n', '\r'].map(|end| text.matches(end).count() - pairs);
    let counts = [(pairs, "\r\n"), (feeds, "\n"), (returns, "\r")];
    let most = counts.into_iter().rev().max_by_key(|(count, _)| *count)?;
    (most.0 > 0).then_some(most.1)
}

/// Returns a text with this line end.
fn lines_with(text: &str, end: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    if end == "\n" { text } else { text.replace('\n', end) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_and_forms_of_letters_make_no_difference_and_stay() {
        for (text, old, new, due) in [
            ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
            ("a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n"),
            ("a\nb\nc\n", "a\r\nb", "x\r\ny", "x\ny\nc\n"),
            ("a\rb\rc", "a\nb", "x\ny", "x\ry\rc"),
            // where a file has both, those of the place count
            ("a\nb\nc\r\nd\r\n", "c\nd\n", "x\ny\n", "a\nb\nx\r\ny\r\n"),
            ("one line", "line", "x\r\ny", "one x\r\ny"),
            ("cafe\u{301} au lait", "caf\u{e9}", "th\u{e9}", "th\u{e9} au lait"),
            ("caf\u{e9} au lait", "cafe\u{301}", "tea", "tea au lait"),
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
            ("\u{e9} e\u{301}\u{e9}", "e\u{301}x", 0),
            ("\u{e9}\r\n\u{e9}\r\n", "e\u{301}\n", 2),
            // half of a letter is none
            ("\u{e9}\r\n", "e\n", 0),
            ("\u{ac01}\r\n", "\u{1100}\u{1161}", 0),
        ] {
            assert_eq!(replace_once(text, old, "x"), Err(count), "{text:?} {old:?}");
        }
        // the one that is stored like this is meant
        assert_eq!(replace_once("\u{e9} e\u{301}", "\u{e9}", "x").as_deref(), Ok("x e\u{301}"));
    }
}
