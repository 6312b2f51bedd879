//! Markup around a name and around its value: tags of HTML, and subscripts of variables.

use super::assigned::run;
use super::span::Secret;
use super::value::{Named, Tie};

/// Elements around names and values. Other tags may be placeholders: `<token>`.
const ELEMENTS: [&str; 24] = [
    "b", "br", "code", "dd", "dt", "em", "font", "i", "kbd", "label", "li", "mark", "p", "pre", "samp",
    "small", "span", "strong", "td", "th", "tr", "tt", "u", "var",
];
/// Elements that have a value next to the element of its name.
const CELLS: [&str; 2] = ["td", "dd"];
/// Limits of a tag: the bytes of its name, and those of its attributes.
const TAG: usize = 12;
const ATTRIBUTES: usize = 96;
/// Limit on consecutive tags.
const TAGS: usize = 4;
/// Limits of the subscripts of a variable: the bytes of one, and their number.
const SUBSCRIPT: usize = 32;
const SUBSCRIPTS: usize = 3;

impl Named<'_> {
    /// Returns the length of the signs and tags that close the markup of the name: `**`, `</b>`.
    pub(super) fn closing(&self, signs: &[u8]) -> usize {
        let signs = run(self.text, self.word.end, signs, 4);
        signs + closing_tags(self.text, self.word.end + signs)
    }

    /// Returns the value in the cell after that of the name: `<td>Password</td><td>…</td>`.
    pub(super) fn cell(&self) -> Option<Secret> {
        let text = self.text;
        let end = self.word.end + run(text, self.word.end, b"\"'`*_: ", 4);
        let tags = closing_tags(text, end);
        if tags == 0 {
            return None;
        }
        let mut at = end + tags;
        at += run(text, at, b" \t\r\n", 40);
        let is_cell = CELLS.iter().any(|name| opening_tag(&text[at..], name) > 0);
        is_cell.then(|| self.value(at + between(text, at), Tie::Sign)).flatten()
    }
}

/// Returns the length of the tags at a place that close an element: `</b></td>`, also `[/b]`.
pub(super) fn closing_tags(text: &[u8], at: usize) -> usize {
    let mut end = at;
    for _ in 0..TAGS {
        end += closing_tag(&text[end..]);
    }
    end - at
}

/// Returns the length of the tags and blanks between a sign and its value: `</b> <code>`.
pub(super) fn between(text: &[u8], at: usize) -> usize {
    let mut end = at;
    for _ in 0..TAGS {
        let rest = &text[end..];
        let tag = ELEMENTS.iter().map(|name| opening_tag(rest, name)).max().unwrap_or(0);
        let tag = tag.max(closing_tag(rest));
        if tag == 0 {
            break;
        }
        end += tag;
        end += run(text, end, b" \t", 8);
    }
    end - at
}

/// Returns the length of the tag with which a text begins, and which closes an element; 0 for other texts.
fn closing_tag(text: &[u8]) -> usize {
    let close = match text {
        [b'<', b'/', ..] => b'>',
        [b'[', b'/', ..] => b']',
        _ => return 0,
    };
    let name = text[2..].iter().take(TAG).take_while(|byte| byte.is_ascii_alphanumeric()).count();
    if name > 0 && text.get(2 + name) == Some(&close) { name + 3 } else { 0 }
}

/// Returns the length of the tag with which a text begins, and which opens an element; 0 for other texts.
fn opening_tag(text: &[u8], name: &str) -> usize {
    let Some(rest) = text.strip_prefix(b"<") else { return 0 };
    let Some((own, rest)) = rest.split_at_checked(name.len()) else { return 0 };
    if !own.eq_ignore_ascii_case(name.as_bytes()) || !rest.first().is_some_and(|byte| b" />".contains(byte)) {
        return 0;
    }
    let window = &rest[..rest.len().min(ATTRIBUTES)];
    match window.iter().position(|byte| b"<>\r\n".contains(byte)) {
        Some(length) if window[length] == b'>' => 1 + name.len() + length + 1,
        _ => 0,
    }
}

/// Returns the length of the subscripts of a variable at a place, and of the attribute behind them:
/// `[32] PROGMEM`.
pub(super) fn subscripts(text: &[u8], at: usize) -> usize {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_+-*. \"'".contains(*byte);
    let mut end = at;
    for _ in 0..SUBSCRIPTS {
        let Some(rest) = text[end..].strip_prefix(b"[") else { break };
        let length = rest.iter().take(SUBSCRIPT).take_while(is_part).count();
        if rest.get(length) != Some(&b']') {
            break;
        }
        end += length + 2;
    }
    let blanks = run(text, end, b" \t", 4);
    if end == at || blanks == 0 {
        return end - at;
    }
    let rest = &text[end + blanks..];
    let is_capital = |byte: &&u8| byte.is_ascii_uppercase() || **byte == b'_';
    let attribute = rest.iter().take(SUBSCRIPT).take_while(is_capital).count();
    let gap = run(rest, attribute, b" \t", 4);
    let is_one = attribute > 0 && matches!(rest.get(attribute + gap), Some(b'=' | b'{'));
    if is_one { end + blanks + attribute - at } else { end - at }
}
