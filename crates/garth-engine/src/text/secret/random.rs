//! Long words of random characters: letters of both cases and digits in no order.

use std::ops::Range;

use super::span::Secret;

/// Minimum length of a word that is secret by its looks alone: 24 characters of base64 are 144 bits.
const LEAST: usize = 24;
/// Minimum disorder of a random word of [`LEAST`] characters. Each further character, up to [`FIRM`], adds
/// [`FIRMER`]. The values miss 5 of 1,000 random words, and take 50 of 4,200 harmless words with both cases
/// and digits in the source of some hundred libraries.
const DISORDER: f64 = 0.737;
const FIRMER: f64 = 0.0075;
const FIRM: usize = 8;
/// Minimum number of bits per character: repetitions are not secret.
const BITS: f64 = 3.3;
/// Number of bytes by which a word is judged.
const JUDGED: usize = 512;

/// Pairs of letters in English prose and code: for each first letter, those that follow it in 95 of 100
/// pairs, counted in this repository.
const PAIRS: [&str; 26] = [
    "bcdgiklmnprstuwy",
    "aelouy",
    "acehklort",
    "aeiosy",
    "acdeflmnpqrstvwxy",
    "ainorst",
    "aei",
    "aeio",
    "cdeflmnorstvz",
    "es",
    "ei",
    "adefilostu",
    "aeimopu",
    "acdegknostuw",
    "cdfklmnoprstuvw",
    "aeiloprstu",
    "u",
    "acdegikmnorstuy",
    "acehikostuy",
    "acdehiorstu",
    "belmnprst",
    "aei",
    "aehinor",
    "pt",
    "nst",
    "e",
];

/// Returns a random word, or a random part of one between slashes.
pub(super) fn in_word(text: &[u8], word: &Range<usize>) -> Option<Secret> {
    if word.len() < LEAST {
        return None;
    }
    let bytes = &text[word.clone()];
    let parts = || bytes.split(|byte| *byte == b'/');
    // Digests in paths.
    let digest = parts().any(|part| part.len() > 6 && part.len() < bytes.len() && is_hex(part));
    if !digest && is_random(bytes, LEAST) && !is_public(text, word.start) {
        // Padding of base64.
        let filled = text[word.end..].iter().take(2).take_while(|byte| **byte == b'=').count();
        return Some(Secret::new(word.start..word.end + filled, "random word"));
    }
    let mut from = word.start;
    parts().find_map(|part| {
        let at = from;
        from += part.len() + 1;
        (part.len() < bytes.len() && is_random(part, LEAST) && !is_public(text, at))
            .then(|| Secret::new(at..at + part.len(), "random word"))
    })
}

/// Returns true if a word is long, has letters of both cases and digits, and is unlike words that people
/// write.
pub(super) fn is_random(word: &[u8], least: usize) -> bool {
    if word.len() < least {
        return false;
    }
    let judged = &word[..word.len().min(JUDGED)];
    let has = |is: fn(&u8) -> bool| judged.iter().any(is);
    has(u8::is_ascii_digit)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        // Digests and ids outnumber secrets in this form.
        && !is_hex(judged)
        && disorder(judged) >= DISORDER + FIRMER * judged.len().saturating_sub(LEAST).min(FIRM) as f64
        && bits(judged) >= BITS
}

/// Returns true for checksums of packages (`sha512-…`, `h1:…`) and public keys of SSH.
fn is_public(text: &[u8], at: usize) -> bool {
    let rest = &text[at..];
    let before = &text[at.saturating_sub(8)..at];
    let named =
        [&b"sha1-"[..], b"sha256-", b"sha384-", b"sha512-", b"AAAAB3NzaC1", b"AAAAC3NzaC1", b"AAAAE2VjZHNh"];
    named.iter().any(|name| rest.starts_with(name))
        || before.ends_with(b"h1:")
        || before.ends_with(b"SHA256:")
}

/// Returns true for the digits of a digest or a UUID, in either case.
pub(super) fn is_hex(word: &[u8]) -> bool {
    word.strip_prefix(b"0x").unwrap_or(word).iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
}

/// Returns the share of pairs of letters that do not occur in words, from 0 to 1.
pub(super) fn pairs(word: &[u8]) -> f64 {
    disorders(word).1
}

/// Returns the share of characters of another kind (small, capital, digit) than the one before, except a
/// small letter after a capital, plus the share of pairs of letters that do not occur in words: from 0 to
/// 2.
pub(super) fn disorder(word: &[u8]) -> f64 {
    let (changes, odd) = disorders(word);
    changes + odd
}

fn disorders(word: &[u8]) -> (f64, f64) {
    let (mut beside, mut changes, mut letters, mut odd) = (0_u32, 0_u32, 0_u32, 0_u32);
    for pair in word.windows(2) {
        let [one, other] = [pair[0], pair[1]];
        let (Some(from), Some(to)) = (class(one), class(other)) else { continue };
        beside += 1;
        changes += u32::from(from != to && (from, to) != (CAPITAL, SMALL));
        if one.is_ascii_alphabetic() && other.is_ascii_alphabetic() {
            letters += 1;
            let following = PAIRS[usize::from(one.to_ascii_lowercase() - b'a')];
            odd += u32::from(!following.as_bytes().contains(&other.to_ascii_lowercase()));
        }
    }
    let share = |part: u32, of: u32| if of == 0 { 0.0 } else { f64::from(part) / f64::from(of) };
    (share(changes, beside), share(odd, letters))
}

const SMALL: u8 = 0;
const CAPITAL: u8 = 1;

fn class(byte: u8) -> Option<u8> {
    match byte {
        b'a'..=b'z' => Some(SMALL),
        b'A'..=b'Z' => Some(CAPITAL),
        b'0'..=b'9' => Some(2),
        _ => None,
    }
}

/// Returns the bits per character by the frequency of each (Shannon entropy).
pub(super) fn bits(word: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in word {
        counts[usize::from(*byte)] += 1;
    }
    let length = word.len() as f64;
    let shares = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / length);
    shares.map(|share| -share * share.log2()).sum()
}
