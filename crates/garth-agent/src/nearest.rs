//! Suggestion of the nearest known name for an unknown one.

/// Similarity from which a name is near: one error in three letters.
const NEAR: f64 = 0.65;
/// Similarity of a name that is a word of the other: more than that of two errors in seven letters.
const WORD: f64 = 0.8;

/// Returns the known name that is most similar to `name`, if one is near.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let name = name.to_lowercase();
    let scored = known.into_iter().map(|known| (similarity(&name, &known.to_lowercase()), known));
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(similarity, _)| *similarity >= NEAR).map(|(_, known)| known)
}

/// Returns the number of edits that turn one word into another: letters that are inserted, removed, replaced,
/// or swapped with the next one.
pub fn edits(word: &str, other: &str) -> usize {
    strsim::damerau_levenshtein(word, other)
}

/// Returns the similarity of two names, up to 1: the share of letters that need no edit. A name that is a
/// word of the other counts as near: `ttl` and `ttl_seconds`. Letters inside of a word mean nothing: `at` and
/// `pattern`.
fn similarity(name: &str, known: &str) -> f64 {
    let has_word = |name: &str, word: &str| name.split(['_', '-']).any(|part| part == word);
    let is_word = name.len() > 1 && (has_word(known, name) || has_word(name, known));
    strsim::normalized_damerau_levenshtein(name, known).max(if is_word { WORD } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_near_names_only() {
        let known = ["path", "value", "ttl_seconds", "tags", "at", "messages", "if_version", "session"];
        for (name, meant) in [
            ("ttl", "ttl_seconds"),
            ("ttlSeconds", "ttl_seconds"),
            ("version", "if_version"),
            ("att", "at"),
            ("message", "messages"),
            ("Path", "path"),
            ("tag", "tags"),
            ("ifVersion", "if_version"),
        ] {
            assert_eq!(nearest(name, known), Some(meant), "{name}");
        }
        for name in ["", "x", "zzz", "completely", "pattern", "question", "\u{1f980}"] {
            assert_eq!(nearest(name, known), None, "{name}");
        }
    }
}
