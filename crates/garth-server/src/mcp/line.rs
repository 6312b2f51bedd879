//! Names and messages as texts of one line, for models and the people who read what a model reads.

use std::borrow::Cow;

/// Parts of advice for people at a command line, and for programs that call the HTTP API.
const OTHERS: [&str; 2] = ["`garth ", "POST /v1/"];

/// Returns a path, a name or another short text as one line. One with control characters is quoted, so that
/// it cannot look like another line of the answer.
pub(super) fn shown(name: &str) -> Cow<'_, str> {
    match name.chars().any(is_unsafe) {
        true => Cow::Owned(format!("{name:?}")),
        false => Cow::Borrowed(name),
    }
}

/// Returns the message of a failure as one line, without the clauses that advise a command or a route: a
/// model can use neither.
pub(super) fn for_models(message: &str) -> String {
    let mut clauses = message.split("; ");
    // It says what has failed, and may quote anything.
    let failure = clauses.next().unwrap_or_default();
    let advice = clauses.filter(|clause| !OTHERS.into_iter().any(|part| clause.contains(part)));
    let mut line = String::with_capacity(message.len());
    for char in std::iter::once(failure).chain(advice).collect::<Vec<_>>().join("; ").chars() {
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
    fn messages_for_models_have_no_commands_and_one_line() {
        for (message, due) in [
            ("/a: no such file or directory; find it with ls or glob", None),
            ("stored content is too short; run `garth fsck`", Some("stored content is too short")),
            (
                "a: files are missing; `garth repair` completes it; search finds memories",
                Some("a: files are missing; search finds memories"),
            ),
            ("at most 8 bytes; send parts to `POST /v1/uploads`, and join them", Some("at most 8 bytes")),
            ("/`garth fsck`: is not text", None),
            ("/a\n\u{202e}b: is not text", Some("/a\\n\\u{202e}b: is not text")),
            ("", None),
        ] {
            assert_eq!(for_models(message), due.unwrap_or(message));
        }
    }
}
