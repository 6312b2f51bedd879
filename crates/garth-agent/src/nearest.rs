//! Suggestion of the nearest known name for an unknown one.

/// Similarity from which a name is near: two errors in five letters.
const NEAR: f64 = 0.6;

/// Returns the known name that is most similar to `name`, if one is near.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let name = name.to_lowercase();
    let scored = known.into_iter().map(|known| (similarity(&name, known), known));
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(similarity, _)| *similarity >= NEAR).map(|(_, known)| known)
}

/// Returns the similarity of two names, up to 1: the share of letters that need no edit. A name that contains
/// the other counts as near: `in` and `within`.
fn similarity(name: &str, known: &str) -> f64 {
    let is_inside = name.len() > 1 && (known.contains(name) || name.contains(known));
    strsim::normalized_damerau_levenshtein(name, known).max(if is_inside { NEAR } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_near_names_only() {
        let known = ["path", "value", "ttl_seconds", "tags", "within", "messages", "if_version"];
        for (name, meant) in [
            ("ttl", "ttl_seconds"),
            ("ttlSeconds", "ttl_seconds"),
            ("in", "within"),
            ("message", "messages"),
            ("Path", "path"),
            ("tag", "tags"),
            ("ifVersion", "if_version"),
        ] {
            assert_eq!(nearest(name, known), Some(meant), "{name}");
        }
        for name in ["", "x", "zzz", "completely", "\u{1f980}"] {
            assert_eq!(nearest(name, known), None, "{name}");
        }
    }
}
