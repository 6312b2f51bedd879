//! Escaping that keeps names and messages on one line and in order, also in pipes. Protection of the terminal
//! is the task of `terminal`, through which all output passes.

use std::borrow::Cow;

use garth_engine::home::check_account_id;

/// Returns `text` with the characters escaped that would break its line or change the order of what is beside
/// it there.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(breaks_line) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        if breaks_line(letter) { safe.extend(letter.escape_default()) } else { safe.push(letter) }
    }
    Cow::Owned(safe)
}

/// Returns the id of an account in which every character shows. Ids of an earlier garth may have invisible
/// characters, and look like other ids.
pub(crate) fn escaped_account(id: &str) -> Cow<'_, str> {
    if check_account_id(id).is_ok() {
        return Cow::Borrowed(id);
    }
    let mut safe = String::with_capacity(id.len());
    for (at, letter) in id.char_indices() {
        let is_inside = at > 0 && at + 1 < id.len();
        match letter {
            ' ' if is_inside => safe.push(letter),
            _ if letter.is_ascii_graphic() => safe.push(letter),
            _ => safe.extend(letter.escape_unicode()),
        }
    }
    Cow::Owned(safe)
}

/// Returns true for control characters, including line feeds, for separators of lines and paragraphs, and for
/// embeddings, overrides and isolates of the direction of text. Marks and joiners stay: names in many scripts
/// have them, and they affect only the letters beside them.
fn breaks_line(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
        // An override would show the end of the line before the name, as part of it.
        assert_eq!(escaped("a\u{202e}dm.exe\u{2066}\u{2028}b"), "a\\u{202e}dm.exe\\u{2066}\\u{2028}b");
        assert_eq!(escaped("می\u{200c}خواهم \u{200f}👩\u{200d}👧"), "می\u{200c}خواهم \u{200f}👩\u{200d}👧");
        assert_eq!(one_line(" Use\nwhen\r\n\tasked\u{1b}\n"), "Use when asked\\u{1b}");
    }

    #[test]
    fn every_character_of_an_account_shows() {
        assert_eq!(escaped_account("zo\u{eb} b"), "zo\u{eb} b");
        assert_eq!(escaped_account("acme\u{200b}"), "acme\\u{200b}");
        assert_eq!(escaped_account(" my team "), "\\u{20}my team\\u{20}");
        assert_eq!(escaped_account("zoe\u{308}"), "zoe\\u{308}");
    }
}
