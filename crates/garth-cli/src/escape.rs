//! Escaping that keeps names and messages on one line. Protection of the terminal is the task of `terminal`,
//! through which all output passes.

use std::borrow::Cow;

/// Returns `text` with its control characters escaped, including line feeds.
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

/// Returns a text of several lines as one line. White space becomes a space, and other control characters are
/// escaped.
pub(crate) fn one_line(text: &str) -> String {
    escaped(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_on_one_line() {
        assert_eq!(escaped("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(escaped("plain é"), "plain é");
        assert_eq!(one_line(" Use\nwhen\r\n\tasked\u{1b}\n"), "Use when asked\\u{1b}");
    }
}
