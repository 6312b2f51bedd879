//! Characters that change the direction of text. A reader may see such text in another order than a program.

/// Returns true for characters that change the direction of the text after them: embeddings, overrides,
/// isolates, and their ends.
pub(crate) fn changes_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
