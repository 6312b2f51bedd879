//! Finds secrets in entries that have name and value under separate keys, in either order: `{"name": "TOKEN",
//! "value": …}`. Below, "the name" is such a name (`TOKEN`), and a position "of a value" is where the value
//! begins.

use super::assigned::run;
use super::value::{Named, is_quote};
use super::words::{is_word, look_at};

/// Keys under which an entry has its value.
const VALUE_KEYS: [&[u8]; 8] =
    [b"value", b"val", b"data", b"content", b"default", b"secretstring", b"secret_string", b"stringvalue"];
/// Keys under which an entry has its name.
const NAME_KEYS: [&[u8]; 10] =
    [b"name", b"key", b"label", b"field", b"variable", b"var", b"env", b"title", b"id", b"parameter"];
/// Limit on the bytes between the value and the name of an entry.
const ENTRY: usize = 320;

/// Returns true if a text begins with one of [`VALUE_KEYS`].
pub(super) fn begins_with_value_key(text: &[u8]) -> bool {
    VALUE_KEYS.iter().any(|key| text.len() >= key.len() && text[..key.len()].eq_ignore_ascii_case(key))
}

impl Named<'_> {
    /// Returns the position of the value if the key of the value follows the name directly: `"name": "TOKEN",
    /// "value": …`.
    pub(super) fn linked(&self) -> Option<usize> {
        let text = self.text;
        let mut at = self.word.end + run(text, self.word.end, b"\"'`])", 2);
        at += run(text, at, b",;:{ \t\r\n", 32);
        at += run(text, at, b"\"'`", 1);
        let key = value_key(&text[at..])?;
        behind_key(text, at + key)
    }

    /// Returns the position of the value if it follows the name in the same entry, after other keys.
    pub(super) fn linked_after_other_keys(&self) -> Option<usize> {
        let text = self.text;
        if !self.is_entry_name() {
            return None;
        }
        let window = &text[self.word.end..text.len().min(self.word.end + ENTRY)];
        // Up to the end of the entry or of the line. If the window has neither, the text is too long for an
        // entry.
        let window = &window[..window.iter().position(|byte| b"\n{}<>".contains(byte))?];
        look_at(window.len());
        let begins = |at: &usize| !is_word(window[at - 1]) && value_key(&window[*at..]).is_some();
        let at = self.word.end + (1..window.len()).find(begins)?;
        behind_key(text, at + value_key(&text[at..])?)
    }

    /// Returns true if the name is under one of [`NAME_KEYS`].
    fn is_entry_name(&self) -> bool {
        let before = &self.text[self.word.start.saturating_sub(24)..self.word.start];
        let quoted = before.len() - usize::from(is_quote(before.last()));
        ends_with_name_key(&before[..quoted])
    }

    /// Returns the position of the value if it precedes the name in an entry of one line: `{"value": …,
    /// "name": …}`.
    pub(super) fn linked_before_name(&self) -> Option<usize> {
        let text = self.text;
        if !self.is_entry_name() {
            return None;
        }
        let (from, end) = (self.word.start.saturating_sub(ENTRY), self.word.start);
        let window = &text[from..end];
        look_at(window.len());
        // The entry must begin on this line: a value on a line before its name is not found.
        let opens = window.iter().rposition(|byte| b"\n{}<>".contains(byte))?;
        if !matches!(window[opens], b'{' | b'<') {
            return None;
        }
        let begins = |at: &usize| !is_word(window[at - 1]) && value_key(&window[*at..]).is_some();
        let at = from + (opens + 1..window.len()).find(begins)?;
        behind_key(text, at + value_key(&text[at..])?)
    }
}

/// Returns the length of the one of [`VALUE_KEYS`] with which a text begins.
fn value_key(text: &[u8]) -> Option<usize> {
    let is = |key: &&&[u8]| {
        text.len() > key.len() && text[..key.len()].eq_ignore_ascii_case(key) && !is_word(text[key.len()])
    };
    VALUE_KEYS.iter().rev().find(is).map(|key| key.len())
}

/// Returns the position after the `:` or `=` of a key that ends at `end`.
fn behind_key(text: &[u8], end: usize) -> Option<usize> {
    let mut at = end + run(text, end, b"\"'`", 1);
    at += run(text, at, b" \t", 8);
    let sign = run(text, at, b":=", 2);
    (sign > 0).then(|| at + sign + run(text, at + sign, b" \t", 8))
}

/// Returns true if a text ends with `"name": `, `key=` or the like.
fn ends_with_name_key(text: &[u8]) -> bool {
    let text = text.trim_ascii_end();
    let Some(text) = text.strip_suffix(b":").or_else(|| text.strip_suffix(b"=")) else { return false };
    let text = text.trim_ascii_end();
    let text = if is_quote(text.last()) { &text[..text.len() - 1] } else { text };
    NAME_KEYS.iter().any(|key| {
        let from = text.len().checked_sub(key.len());
        from.is_some_and(|from| {
            text[from..].eq_ignore_ascii_case(key) && (from == 0 || !is_word(text[from - 1]))
        })
    })
}
