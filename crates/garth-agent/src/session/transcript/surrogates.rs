//! Replaces escapes of unpaired surrogates in JSON, which cannot be decoded to UTF-8.

/// Returns JSON in which each escape of an unpaired surrogate is U+FFFD. Programs that cut texts within
/// a character write such escapes. `None` if there are none.
pub(super) fn whole_pairs(json: &str) -> Option<String> {
    let unit = |at: usize| -> Option<u16> {
        let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut text, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(next) = json[at..].find('\\') {
        at += next;
        match unit(at) {
            Some(0xD800..=0xDBFF) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => {
                text.push_str(&json[copied..at]);
                text.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            _ => {
                at += 1;
                at += json[at..].chars().next().map_or(0, char::len_utf8);
            }
        }
    }
    text.push_str(&json[copied..]);
    (copied > 0).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_half_pairs_alone() {
        for (json, due) in [
            (r#""\ud83d""#, Some(r#""\ufffd""#)),
            (
                r#""\uDE00\ud83d\ud83d\ude00 \ud83d\\\u0041""#,
                Some(r#""\ufffd\ufffd\ud83d\ude00 \ufffd\\\u0041""#),
            ),
            (r#""\\ud83d \ud83d\ude00\"\u00e4""#, None),
            ("\"\\\u{e4}\"", None),
        ] {
            assert_eq!(whole_pairs(json).as_deref(), due, "{json}");
        }
    }
}
