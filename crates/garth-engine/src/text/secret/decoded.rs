//! Texts with escapes replaced by the characters that they mean: escapes of JSON, entities of HTML, signs in
//! URLs, full-width letters, and characters without width, which are left out.

use std::ops::Range;

use super::judgement::Judgement;
use super::span::Secret;
use crate::text::json::escape;

/// Limit on the bytes of an entity, with the `amp;` of entities in entities.
const ENTITY: usize = 32;
/// Entities of the characters between names and values.
const ENTITIES: [(&[u8], char); 7] = [
    (b"quot;", '"'),
    (b"apos;", '\''),
    (b"lt;", '<'),
    (b"gt;", '>'),
    (b"equals;", '='),
    (b"colon;", ':'),
    (b"nbsp;", ' '),
];
/// Codes of the signs of JSON in a URL.
const JSON: [(&[u8], char); 7] =
    [(b"22", '"'), (b"27", '\''), (b"2C", ','), (b"5B", '['), (b"5D", ']'), (b"7B", '{'), (b"7D", '}')];

/// Text with each escape replaced by the character that it means.
pub(super) struct Decoded {
    pub(super) text: Vec<u8>,
    /// End of each escape: in `text` and in the original.
    ends: Vec<(usize, usize)>,
}

impl Decoded {
    pub(super) fn of(original: &[u8], judgement: Judgement) -> Self {
        let (mut text, mut ends) = (Vec::with_capacity(original.len()), Vec::new());
        let mut at = 0;
        while let Some(length) = next_start(&original[at..], judgement) {
            text.extend_from_slice(&original[at..at + length]);
            at += length;
            match meant(&original[at..], judgement) {
                Some((meant, length)) => {
                    if let Some(meant) = meant {
                        text.extend_from_slice(meant.encode_utf8(&mut [0; 4]).as_bytes());
                    }
                    at += length;
                    ends.push((text.len(), at));
                }
                None => {
                    text.push(original[at]);
                    at += 1;
                }
            }
        }
        text.extend_from_slice(&original[at..]);
        Self { text, ends }
    }

    /// Returns the place in the original of a secret in `text`.
    pub(super) fn original(&self, secret: Secret) -> Secret {
        // The distance to the end of the last escape before a place is the same on both sides.
        let place = |at: usize| {
            let behind = self.ends.partition_point(|(end, _)| *end <= at);
            let (end, original) = behind.checked_sub(1).map_or((0, 0), |last| self.ends[last]);
            original + (at - end)
        };
        let range = |range: Range<usize>| place(range.start)..place(range.end);
        Secret { bytes: range(secret.bytes), basis: range(secret.basis), kind: secret.kind }
    }
}

/// Returns the lines with escapes, each with the line before it, which may name a value.
pub(super) fn escaped_lines(text: &[u8], judgement: Judgement) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while let Some(length) = next_start(&text[at..], judgement) {
        let place = at + length;
        if meant(&text[place..], judgement).is_none() {
            at = place + 1;
            continue;
        }
        let done = all.last().map_or(0, |last| last.end);
        let mut lines = text[done..place].rsplit(|byte| *byte == b'\n').take(2);
        let before = lines.next().map_or(0, <[u8]>::len) + lines.next().map_or(0, |line| line.len() + 1);
        let start = place - before;
        let end =
            text[place..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| place + at + 1);
        // Two ranges with a line in common become one, or a secret across their border would be cut. Those
        // that only meet do not: text that is appended later would decide about the lines before it.
        match all.last_mut().filter(|last| last.end > start) {
            Some(last) => last.end = end,
            None => all.push(start..end),
        }
        at = end;
    }
    all
}

/// Returns the place of the next byte with which an escape may begin.
fn next_start(text: &[u8], judgement: Judgement) -> Option<usize> {
    const STARTS: [bool; 256] = {
        let mut starts = [false; 256];
        let bytes = [b'\\', b'&', b'%', 0xc2, 0xe2, 0xef];
        let mut at = 0;
        while at < bytes.len() {
            starts[bytes[at] as usize] = true;
            at += 1;
        }
        starts
    };
    match judgement {
        Judgement::First | Judgement::Second => text.iter().position(|byte| *byte == b'\\'),
        Judgement::Third | Judgement::Fourth => text.iter().position(|byte| STARTS[usize::from(*byte)]),
    }
}

/// Returns the character that the escape at the start of a text means, `None` for one without width, and the
/// length of the escape. An escape is judged by its own bytes, so that pieces of a text are decoded alike.
fn meant(text: &[u8], judgement: Judgement) -> Option<(Option<char>, usize)> {
    let shown = |(meant, length)| (Some(meant), length);
    match text {
        [b'\\', ..] => escape(text).map(shown),
        [b'&', rest @ ..] => entity(rest).map(shown),
        [b'%', rest @ ..] => in_url(rest, judgement).map(shown),
        [0xc2, 0xad, ..] => Some((None, 2)),
        // Blanks without a line break, as before the colon in French.
        [0xc2, 0xa0, ..] if judgement >= Judgement::Fourth => Some((Some(' '), 2)),
        [0xe2, 0x80, 0xaf, ..] if judgement >= Judgement::Fourth => Some((Some(' '), 3)),
        [0xe2, 0x80, 0x8b..=0x8f, ..] | [0xe2, 0x81, 0xa0..=0xa4, ..] | [0xef, 0xbb, 0xbf, ..] => {
            Some((None, 3))
        }
        [0xef, 0xbc | 0xbd, ..] => full_width(text).map(shown),
        _ => None,
    }
}

/// Reads an entity of HTML after its `&`, also one that was encoded again: `&amp;quot;`.
fn entity(text: &[u8]) -> Option<(char, usize)> {
    // Most of these signs are operators and references of programs.
    if !text.first().is_some_and(|byte| b"#aceglnq".contains(byte)) {
        return None;
    }
    let window = &text[..text.len().min(ENTITY)];
    let mut at = 0;
    while window[at..].starts_with(b"amp;") {
        at += b"amp;".len();
    }
    let rest = &window[at..];
    if let Some((name, meant)) = ENTITIES.iter().find(|(name, _)| rest.starts_with(name)) {
        return Some((*meant, 1 + at + name.len()));
    }
    let number = rest.strip_prefix(b"#")?;
    let end = number.iter().position(|byte| *byte == b';')?;
    let digits = std::str::from_utf8(&number[..end]).ok()?;
    let hex = digits.strip_prefix(['x', 'X']);
    let code = hex.map_or_else(|| digits.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok())?;
    // A line break would move a value to another line.
    let meant = char::from_u32(code).filter(|meant| !meant.is_control())?;
    Some((meant, 1 + at + b"#".len() + end + b";".len()))
}

/// Reads a sign between a name and its value in a URL after its `%`, also one that was encoded again:
/// `%253D`. Since the fourth judgement, the quotes and brackets of JSON are such signs.
fn in_url(text: &[u8], judgement: Judgement) -> Option<(char, usize)> {
    let is_fourth = judgement >= Judgement::Fourth;
    let mut at = 0;
    while at < ENTITY && text[at..].starts_with(b"25") {
        at += b"25".len();
    }
    let meant = match text.get(at..at + 2)? {
        b"3D" | b"3d" => '=',
        b"3A" | b"3a" => ':',
        b"26" => '&',
        code => JSON.iter().find(|(own, _)| code.eq_ignore_ascii_case(own)).filter(|_| is_fourth)?.1,
    };
    // Blanks before the value.
    let blanks = text[at + 2..].chunks(3).take(4).take_while(|it| *it == b"%20").count();
    let blanks = if matches!(meant, '=' | ':') { blanks } else { 0 };
    Some((meant, 1 + at + 2 + 3 * blanks))
}

/// Reads a full-width letter or digit, or the sign between a name and its value.
fn full_width(text: &[u8]) -> Option<(char, usize)> {
    let read = std::str::from_utf8(text.get(..3)?).ok()?.chars().next()?;
    let meant = char::from_u32(u32::from(read).checked_sub(0xfee0)?)?;
    (meant.is_ascii_alphanumeric() || matches!(meant, '=' | '_' | '-')).then_some((meant, 3))
}
