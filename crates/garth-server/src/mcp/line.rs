//! Names and messages as texts of one line, for models and the people who read what a model reads.

use std::borrow::Cow;

/// Returns a path, a name or another short text as one line. One with control characters is quoted, so that
/// it cannot look like another line of the answer.
pub(super) fn shown(name: &str) -> Cow<'_, str> {
    match name.chars().any(is_unsafe) {
        true => Cow::Owned(format!("{name:?}")),
        false => Cow::Borrowed(name),
    }
}

/// Returns a message, which may quote names, as one line.
pub(super) fn one_line(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for char in message.chars() {
        match is_unsafe(char) {
            true => line.extend(char.escape_debug()),
            false => line.push(char),
        }
    }
    line
}

/// Returns true for characters that end a line or change the order of others.
fn is_unsafe(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_on_one_line() {
        assert_eq!(shown("/notes/é \"a\".md"), "/notes/é \"a\".md");
        assert_eq!(shown("/a\n/b"), "\"/a\\n/b\"");
        assert_eq!(shown("a\u{202e}b"), "\"a\\u{202e}b\"");
    }

    #[test]
    fn messages_stay_on_one_line() {
        for (message, due) in [
            ("/a; `ls`: no such file or directory", None),
            ("/a\n\u{202e}b: is not text", Some("/a\\n\\u{202e}b: is not text")),
            ("", None),
        ] {
            assert_eq!(one_line(message), due.unwrap_or(message));
        }
    }
}
