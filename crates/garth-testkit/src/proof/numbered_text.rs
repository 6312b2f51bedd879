//! Texts of files. Each names its place and number, and the rest follows from these, so that any read can be
//! verified alone.

use crate::data::random::Random;

/// One text in this many is long.
const LONG_EVERY: u64 = 40;
/// Bytes of a long text: from 64 KiB the engine stores bodies by their hash.
const LONG: u64 = 70_000;
/// Limit on the bytes of the other texts.
const SHORT: u64 = 400;

/// Returns text `n` of a place.
pub(crate) fn text(place: &str, n: u64) -> String {
    let seed = place.bytes().fold(n, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut random = Random::new(seed);
    let size = match random.below(LONG_EVERY) {
        0 => LONG,
        _ => random.below(SHORT),
    };
    let mut text = format!("{place} {n}\n");
    while (text.len() as u64) < size {
        text.push_str(&format!("{:016x}\n", random.next()));
    }
    text
}

/// Returns the number of a text; `None` if the place has no such text.
pub(crate) fn number(place: &str, read: &str) -> Option<u64> {
    let n = read.lines().next()?.strip_prefix(place)?.strip_prefix(' ')?.parse().ok()?;
    // Compared byte by byte: a text that only begins alike was changed.
    (text(place, n) == read).then_some(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_only_complete_texts() {
        let long = (0..).map(|n| text("/a", n)).find(|text| text.len() as u64 > SHORT + 100).unwrap();
        for text in [text("/a", 7), long] {
            let n = number("/a", &text).unwrap();
            assert_eq!(self::text("/a", n), text);
            for broken in [&text[..text.len() - 1], &text.replacen("/a", "/b", 1), &format!("{text}x"), ""] {
                assert_eq!(number("/a", broken), None);
            }
        }
    }
}
