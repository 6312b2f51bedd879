//! Text from the tree made safe for a terminal.

use std::borrow::Cow;

/// `text` with its control characters escaped, so that no name or message can steer a terminal.
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
    fn a_name_cannot_steer_the_terminal() {
        assert_eq!(escaped("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(escaped("plain é"), "plain é");
    }
}
