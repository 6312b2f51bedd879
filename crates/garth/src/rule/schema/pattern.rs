//! Patterns of schemas: what ECMA 262 and the crate `regex` have in common, which matches in time linear in
//! the text. What means something else in the two is written anew, what only one has is refused.

use regex::{Regex, RegexBuilder};

/// The sizes that a compiled pattern can have, in bytes, and what matching a byte with one of that size
/// takes, in 64ths of a step. The last is the largest there may be.
const SIZES: [(usize, u64); 4] = [(4 << 10, 16), (16 << 10, 64), (64 << 10, 256), (128 << 10, 512)];

/// Memory that matching may use to be faster, in bytes.
const CACHE: usize = 128 << 10;

/// What a class of ECMA 262 has, and the same class in another class.
const SPACES: &str = r"\t\n\x0B\x0C\r \u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000\uFEFF";

/// A pattern, found anywhere in a text.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    regex: Regex,
    cost: u64,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// Says what to change.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let pattern = translated(text)?;
        for (size, cost) in SIZES {
            match RegexBuilder::new(&pattern).size_limit(size).dfa_size_limit(CACHE).build() {
                Ok(regex) => return Ok(Self { regex, cost }),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(_) => return Err("is no pattern".to_owned()),
            }
        }
        let (most, _) = SIZES[SIZES.len() - 1];
        Err(format!("takes more than {most} bytes when compiled; repeat less"))
    }

    /// Steps that looking for it in a text takes.
    pub(super) fn steps(&self, text: &str) -> u64 {
        1 + (text.len() as u64).saturating_mul(self.cost) / 64
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// A pattern of ECMA 262 as one of the crate `regex`.
fn translated(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut in_class = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' => {
                let c = rest.next().ok_or("ends in a backslash")?;
                out.push_str(&escape(c, in_class)?);
                // what is meant by them may be in braces
                if matches!(c, 'p' | 'P' | 'u') && rest.peek() == Some(&'{') {
                    out.extend(rest.by_ref().take_while(|c| *c != '}'));
                    out.push('}');
                }
            }
            '[' if in_class => out.push_str(r"\["),
            '[' => {
                in_class = true;
                out.push('[');
                if rest.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                if rest.peek() == Some(&']') {
                    return Err("has the empty class `[]`; write `\\]` for a bracket".to_owned());
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            ']' => return Err("has a `]` without `[`; write `\\]`".to_owned()),
            '&' | '~' if in_class => out.extend(['\\', c]),
            '-' if in_class && rest.peek() == Some(&'-') => {
                return Err("has `--` in a class; write `\\-`".to_owned());
            }
            '.' if !in_class => out.push_str(r"[^\n\r\u2028\u2029]"),
            '(' if !in_class && rest.next_if_eq(&'?').is_some() => match rest.next() {
                Some(':') => out.push_str("(?:"),
                Some(_) => {
                    return Err(
                        "has `(?`, and only `(?:` is supported: no look-around, names and flags".to_owned()
                    );
                }
                None => return Err("is no pattern".to_owned()),
            },
            '{' if !in_class && !rest.peek().is_some_and(char::is_ascii_digit) => {
                return Err("has a `{` that repeats nothing; write `\\{`".to_owned());
            }
            _ => out.push(c),
        }
    }
    Ok(out)
}

/// What stands for a backslash and a character.
fn escape(c: char, in_class: bool) -> Result<String, String> {
    Ok(match c {
        'd' => "[0-9]".to_owned(),
        'D' => "[^0-9]".to_owned(),
        'w' => "[0-9A-Za-z_]".to_owned(),
        'W' => "[^0-9A-Za-z_]".to_owned(),
        's' => format!("[{SPACES}]"),
        'S' => format!("[^{SPACES}]"),
        'b' if !in_class => r"(?-u:\b)".to_owned(),
        't' | 'n' | 'v' | 'f' | 'r' | 'x' | 'u' | 'p' | 'P' => format!("\\{c}"),
        '0' => r"\x00".to_owned(),
        '1'..='9' | 'k' => return Err(format!("refers back with `\\{c}`, which is not supported")),
        c if c.is_ascii_punctuation() => format!("\\{c}"),
        c => return Err(format!("has `\\{c}`, which is not supported")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, text: &str) -> bool {
        Pattern::parse(pattern).expect(pattern).is_in(text)
    }

    #[test]
    fn a_pattern_means_what_it_means_in_ecma_262() {
        for (pattern, inside, outside) in [
            (r"^\d+$", "42", "٤٢"),
            (r"^\w+$", "a_1", "é"),
            (r"^\s$", "\u{feff}", "\u{85}"),
            (r"^[\s\d]{2}$", " 1", "a1"),
            (r"^[^\W_]$", "a", "_"),
            ("^.$", "\u{85}", "\r"),
            (r"^a\/b$", "a/b", "a\\/b"),
            ("^[[&&a~~]$", "[", "b"),
            ("^[[&&a~~]$", "~", "]"),
            (r"^\u00e9\x41$", "éA", "eA"),
            (r"\bcat\b", "a cat", "cats"),
            (r"\bé", "aé", "é"),
            (r"^(?:a|b){2}$", "ab", "a"),
            ("b", "abc", "ac"),
            ("^a$", "a", "a\n"),
            (r"^\p{L}$", "é", "1"),
        ] {
            assert!(found(pattern, inside), "{pattern} {inside}");
            assert!(!found(pattern, outside), "{pattern} {outside}");
        }
    }

    #[test]
    fn what_needs_to_go_back_and_what_grows_is_refused() {
        for (pattern, why) in [
            ("(?=a)", "look-around"),
            ("(?!a)b", "look-around"),
            ("(?<=a)b", "look-around"),
            ("(?i)a", "flags"),
            ("(?P<a>b)", "names"),
            (r"(a)\1", "refers back"),
            (r"\k<a>", "refers back"),
            (r"\Aa\z", "not supported"),
            (r"[\b]", "not supported"),
            ("(((a{100}){100}){100}){100}", "repeat less"),
            (r"\p{L}{1000}", "repeat less"),
            ("[]", "empty class"),
            ("[+--]", "`--`"),
            ("(", "no pattern"),
            ("(?", "no pattern"),
            ("a{", "repeats nothing"),
            ("a{,5}", "repeats nothing"),
            ("a\\", "backslash"),
            ("]", "without"),
            ("*", "no pattern"),
        ] {
            let said = Pattern::parse(pattern).expect_err(pattern);
            assert!(said.contains(why), "{pattern}: {said}");
        }
    }

    #[test]
    fn a_pattern_costs_as_much_as_it_is_large_and_the_text_is_long() {
        let steps = |pattern: &str, text: &str| Pattern::parse(pattern).unwrap().steps(text);
        let text = "a".repeat(6400);
        assert_eq!(steps("(a+)+$", ""), 1);
        assert!(steps("(a+)+$", &text) < steps("(?:[a-z][0-9]){50}", &text));
        assert!(!found("(a+)+$", &(text + "b")));
    }
}
