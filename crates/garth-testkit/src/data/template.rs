//! Templates of test texts: each `{a22}` is replaced by 22 random characters of an alphabet, from a seed.

use crate::data::random::Random;

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const WORDS: [&str; 16] = [
    "harbour", "lantern", "meadow", "violin", "winter", "granite", "orchard", "pepper", "saddle", "thunder",
    "coffee", "umbrella", "report", "design", "budget", "roadmap",
];

/// Returns the characters that a letter of a template stands for.
fn alphabet(letter: char) -> Option<&'static str> {
    Some(match letter {
        'a' => ALNUM,
        'u' => "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
        'B' => "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        'b' => "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
        'h' => "0123456789abcdef",
        'H' => "0123456789ABCDEF",
        'x' => "0123456789abcdefABCDEF",
        'd' => "0123456789",
        'l' => "abcdefghijklmnopqrstuvwxyz0123456789",
        'U' => "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
        'T' => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        'c' => "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
        'z' => "abcdefghijklmnopqrstuvwxyz",
        's' => "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#%^*-_=+",
        _ => return None,
    })
}

/// Returns random characters of an alphabet.
fn some(random: &mut Random, alphabet: &str, count: usize) -> String {
    let one = |_| alphabet.as_bytes()[random.below(alphabet.len() as u64) as usize] as char;
    (0..count).map(one).collect()
}

/// Fills in a template: `{h40}` 40 digits of hexadecimal, `{a22}` letters and digits, `{w}` a word. Other
/// braces stay.
pub(super) fn fill(random: &mut Random, template: &str) -> String {
    let mut filled = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        // Without a closing brace the code is empty, and the brace stays.
        let end = rest.find('}').unwrap_or(0);
        let code = rest.get(1..end).unwrap_or_default();
        let mut chars = code.chars();
        let letter = chars.next().and_then(alphabet);
        match (code, letter, chars.as_str().parse()) {
            ("w", ..) => filled.push_str(random.pick(&WORDS)),
            (_, Some(alphabet), Ok(count)) => filled.push_str(&some(random, alphabet, count)),
            _ => {
                filled.push('{');
                rest = &rest[1..];
                continue;
            }
        }
        rest = &rest[end + 1..];
    }
    filled.push_str(rest);
    filled
}
