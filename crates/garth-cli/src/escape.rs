//! Names and messages kept on the line that a verb gives them. What a terminal must not get is the concern of
//! `terminal`, which all output passes.

use std::borrow::Cow;

/// Returns `text` with its control characters escaped, line feeds among them, so that it stays on its line.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() { safe.extend(letter.escape_default()) } else { safe.push(letter) }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_on_its_line() {
        assert_eq!(escaped("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(escaped("plain é"), "plain é");
    }
}
