//! Stems of English words: Porter's algorithm (M. F. Porter, "An algorithm for suffix stripping", 1980,
//! with his two later changes: `bli` and `logi`).

/// Returns the stem of a word of lower-case ASCII letters. Other words, and words of one or two letters,
/// are returned unchanged.
pub(super) fn stem(word: &str) -> String {
    let mut b = word.as_bytes().to_vec();
    if b.len() > 2 && b.iter().all(u8::is_ascii_lowercase) {
        step_1(&mut b);
        // Step 4 removes endings that could be part of a short stem, so it asks for more before them.
        for (rules, least) in [(STEP_2, 0), (STEP_3, 0), (STEP_4, 1)] {
            replace(&mut b, rules, least);
        }
        step_5(&mut b);
    }
    // ASCII in, ASCII out: this does not fail.
    String::from_utf8(b).unwrap_or_else(|_| word.to_owned())
}

/// Endings and their replacements, which apply if the rest is long enough. Of two endings that fit, the
/// longer one comes first.
type Rules = &'static [(&'static str, &'static str)];

const STEP_2: Rules = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("logi", "log"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
];

const STEP_3: Rules = &[
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

const STEP_4: Rules = &[
    ("al", ""),
    ("ance", ""),
    ("ence", ""),
    ("er", ""),
    ("ic", ""),
    ("able", ""),
    ("ible", ""),
    ("ant", ""),
    ("ement", ""),
    ("ment", ""),
    ("ent", ""),
    ("sion", "s"),
    ("tion", "t"),
    ("ou", ""),
    ("ism", ""),
    ("ate", ""),
    ("iti", ""),
    ("ous", ""),
    ("ive", ""),
    ("ize", ""),
];

/// Replaces the first ending of `rules` that fits, if its rest has more than `least` measures.
fn replace(b: &mut Vec<u8>, rules: Rules, least: usize) {
    let Some((ending, by)) = rules.iter().find(|(ending, _)| b.ends_with(ending.as_bytes())) else { return };
    let rest = b.len() - ending.len();
    // The `s` or `t` before `ion` counts as part of the rest.
    let kept = if ending.ends_with("ion") && by.len() == 1 { 1 } else { 0 };
    if measure(&b[..rest + kept]) > least {
        b.truncate(rest);
        b.extend_from_slice(by.as_bytes());
    }
}

/// Removes plurals and past tenses, and replaces a final `y`.
fn step_1(b: &mut Vec<u8>) {
    if b.ends_with(b"sses") || b.ends_with(b"ies") {
        b.truncate(b.len() - 2);
    } else if b.ends_with(b"s") && !b.ends_with(b"ss") {
        b.pop();
    }
    let past = ["ed", "ing"].into_iter().find(|ending| b.ends_with(ending.as_bytes()));
    // Before `ed`, or `feed` would become `fe`.
    if b.ends_with(b"eed") {
        if measure(&b[..b.len() - 3]) > 0 {
            b.pop();
        }
    } else if let Some(ending) = past
        && has_vowel(&b[..b.len() - ending.len()])
    {
        b.truncate(b.len() - ending.len());
        if b.ends_with(b"at") || b.ends_with(b"bl") || b.ends_with(b"iz") {
            b.push(b'e');
        } else if is_doubled(b) && !matches!(b.last(), Some(b'l' | b's' | b'z')) {
            b.pop();
        } else if measure(b) == 1 && is_short(b) {
            b.push(b'e');
        }
    }
    if let [rest @ .., last @ b'y'] = &mut b[..]
        && has_vowel(rest)
    {
        *last = b'i';
    }
}

/// Removes a final `e`, and half of a doubled `l`.
fn step_5(b: &mut Vec<u8>) {
    if let [rest @ .., b'e'] = &b[..] {
        let measure = measure(rest);
        if measure > 1 || (measure == 1 && !is_short(rest)) {
            b.pop();
        }
    }
    if b.ends_with(b"ll") && measure(b) > 1 {
        b.pop();
    }
}

fn is_consonant(b: &[u8], at: usize) -> bool {
    match b[at] {
        b'a' | b'e' | b'i' | b'o' | b'u' => false,
        b'y' => at == 0 || !is_consonant(b, at - 1),
        _ => true,
    }
}

/// Returns the number of times that a consonant follows a vowel.
fn measure(b: &[u8]) -> usize {
    let mut vowel = false;
    let mut count = 0;
    for (at, letter) in b.iter().enumerate() {
        let consonant = match letter {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            // `y` is a vowel after a consonant, as in `syzygy`.
            b'y' => at == 0 || vowel,
            _ => true,
        };
        if consonant && vowel {
            count += 1;
        }
        vowel = !consonant;
    }
    count
}

fn has_vowel(b: &[u8]) -> bool {
    (0..b.len()).any(|at| !is_consonant(b, at))
}

/// Returns true if the word ends with the same consonant twice.
fn is_doubled(b: &[u8]) -> bool {
    b.len() > 1 && b[b.len() - 1] == b[b.len() - 2] && is_consonant(b, b.len() - 1)
}

/// Returns true if the word ends with consonant, vowel, consonant, and the last is not `w`, `x` or `y`: as
/// `hop`, which may have lost an `e`.
fn is_short(b: &[u8]) -> bool {
    let n = b.len();
    n > 2
        && is_consonant(b, n - 1)
        && !is_consonant(b, n - 2)
        && is_consonant(b, n - 3)
        && !matches!(b[n - 1], b'w' | b'x' | b'y')
}
