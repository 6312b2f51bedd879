//! Comparison of shown text with the text that was stored.

use crate::bidi::changes_direction;
use garth_engine::text::json;

/// Returns true if a shown text contains a complete evidence text. White space is folded. Escapes of JSON,
/// and the backslashes that [`harmless`](crate::recall::fence::harmless) adds, do not matter. Text around the
/// evidence, such as the role of a message, does not matter either.
pub fn contains(shown: &str, evidence: &str) -> bool {
    let evidence = folded(evidence);
    // A backslash at the start of a line precedes the escapes that the line had, so it is removed first.
    let lines = shown.split('\n').map(|line| line.strip_prefix('\\').unwrap_or(line));
    let lines = lines.collect::<Vec<_>>().join("\n");
    [shown, &lines].into_iter().any(|text| {
        // A text that is no JSON may have backslashes that only look like escapes.
        folded(text).contains(&evidence) || folded(&json::decode(text)).contains(&evidence)
    })
}

/// Returns the words of a text, separated by one space, without backslashes. Fences replace control
/// characters by U+FFFD; both are left out.
fn folded(text: &str) -> String {
    let is_dropped = |c: char| c == '\\' || c == char::REPLACEMENT_CHARACTER || is_control(c);
    let kept: String = text.chars().filter(|c| c.is_whitespace() || !is_dropped(*c)).collect();
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns true for control characters, and for those that change the direction of text.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}') || changes_direction(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recall::fence::harmless;

    #[test]
    fn evidence_is_found_in_each_rendering() {
        let said = "[garth:evidence] says \"C:\\new\\temp\"\n  – twice:\u{7}\tcafé \u{202e}x";
        let json = serde_json::json!({"role": "user", "content": said}).to_string();
        let ascii = json.replace('é', "\\u00e9");
        let folded = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for shown in [said.to_owned(), format!("user: {said}\nassistant: ok"), json, ascii, folded] {
            assert!(contains(&shown, said), "{shown}");
            assert!(contains(&harmless(&shown), said), "{shown}");
        }
        for other in ["", "says \"C:\\new\\temp\" – twice", "[garth:evidence] says"] {
            assert!(!contains(other, said), "{other}");
        }
    }
}
