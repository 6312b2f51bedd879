//! Patterns of schemas, in the syntax of ECMA 262 without what needs backtracking. Each is compiled to a
//! table of states before it is used: then a byte takes one lookup, whatever the pattern and the text are.

use std::sync::Arc;

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};

use crate::rule::json::quoted_to;

/// Largest table of a pattern, in bytes.
const MAX_TABLE: usize = 512 << 10;

/// Limit on the memory for building the table, in bytes, and so on the time.
const MAX_MAKING: usize = 2 << 20;

/// Characters of the class `\s` of ECMA 262, in a form that can be part of another class.
const SPACES: &str = r"\t\n\x0B\x0C\r \u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000\uFEFF";

/// Bytes of a pattern that messages show.
const SHOWN: usize = 200;

/// Pattern that is found anywhere in a text.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// The pattern as messages show it: as JSON, cut if it is long.
    shown: Box<str>,
    table: Arc<dense::DFA<Vec<u32>>>,
    /// Bytes of the automaton that the table was built from. Building each state goes through it again.
    made_of: usize,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The change that the pattern needs.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let pattern = translated(text)?;
        let parsed = syntax::parse(&pattern).map_err(|_| "is no pattern".to_owned())?;
        let states =
            thompson::Config::new().nfa_size_limit(Some(MAX_MAKING)).which_captures(WhichCaptures::None);
        let table = dense::Config::new()
            // One kind of start is enough, because patterns are found anywhere in a text.
            .start_kind(StartKind::Unanchored)
            .match_kind(MatchKind::All)
            .dfa_size_limit(Some(MAX_TABLE))
            .determinize_size_limit(Some(MAX_MAKING));
        let states = thompson::Compiler::new().configure(states).build_from_hir(&parsed);
        let mut making = dense::Builder::new();
        making.configure(table);
        let made_of = states.as_ref().map_or(0, |states| states.memory_usage());
        let built = states.ok().and_then(|states| making.build_from_nfa(&states).ok());
        // Nothing but the size can be wrong with it now.
        let table = built.ok_or_else(|| {
            format!(
                "takes more than {MAX_TABLE} bytes as a table of states; repeat less, or anchor it with `^`"
            )
        })?;
        Ok(Self { shown: quoted_to(text, SHOWN).into(), table: Arc::new(table), made_of })
    }

    /// Returns the steps of a search in a text.
    pub(super) fn steps(text: &str) -> u64 {
        1 + text.len() as u64 / 4
    }

    /// Returns the cost of building the pattern: the bytes of its table, and eight times those of the
    /// automaton.
    pub(super) fn size(&self) -> usize {
        self.table.memory_usage() + 8 * self.made_of
    }

    /// Returns the pattern for a message.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        // No byte makes a search in this kind of table give up.
        // The search ends at the first match, because its place does not matter.
        self.table.try_search_fwd(&Input::new(text).earliest(true)).is_ok_and(|found| found.is_some())
    }
}

/// Translates a pattern of ECMA 262 into one of the crate `regex`.
fn translated(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut in_class = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' => {
                let c = rest.next().ok_or("ends in a backslash")?;
                out.push_str(&escape(c, in_class)?);
                // A class or code point may follow in braces, which are no repetition.
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
                // ECMA 262 has an empty class. In the crate the bracket would be its first character.
                if rest.peek() == Some(&']') {
                    return Err("has the empty class `[]`; write `\\]` for a bracket".to_owned());
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            ']' => return Err("has a `]` without `[`; write `\\]`".to_owned()),
            // The crate has operators such as `&&` in classes, ECMA 262 has not.
            '&' | '~' if in_class => out.extend(['\\', c]),
            // The crate would read `--` as a difference of classes.
            '-' if in_class && rest.peek() == Some(&'-') => {
                return Err("has `--` in a class; write `\\-`".to_owned());
            }
            // In ECMA 262 a dot matches no line terminator.
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
            // Some readers of ECMA 262 take such a brace literally, others refuse it.
            '{' if !in_class && !rest.peek().is_some_and(char::is_ascii_digit) => {
                return Err("has a `{` that repeats nothing; write `\\{`".to_owned());
            }
            _ => out.push(c),
        }
    }
    Ok(out)
}

/// Translates a backslash and the character after it.
fn escape(c: char, in_class: bool) -> Result<String, String> {
    Ok(match c {
        'd' => "[0-9]".to_owned(),
        'D' => "[^0-9]".to_owned(),
        'w' => "[0-9A-Za-z_]".to_owned(),
        'W' => "[^0-9A-Za-z_]".to_owned(),
        's' => format!("[{SPACES}]"),
        'S' => format!("[^{SPACES}]"),
        // A word of ECMA 262 has ASCII letters only.
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
    fn patterns_match_as_in_ecma_262() {
        for (pattern, inside, outside) in [
            // In the crate these classes are those of Unicode.
            (r"^\d+$", "42", "٤٢"),
            (r"^\w+$", "a_1", "é"),
            // The crate has U+0085 among spaces, ECMA 262 has U+FEFF.
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
    fn rejects_backtracking_and_oversized_patterns() {
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
    fn ambiguous_patterns_match_linearly_or_are_rejected() {
        let text = "ab".repeat(50_000);
        for pattern in ["(a+)+$", "^(?:a|b|ab)*c", "(?:a|b)*a(?:a|b){5}c", r"^(\w+\s?)+$", r"\b(?:[ab]+b)*c"]
        {
            assert!(!found(pattern, &(text.clone() + "!")), "{pattern}");
        }
        for pattern in ["(?:a|b)*a(?:a|b){30}c", "[ab]*a[ab]{200}c", "^(?:.*a){40}.{40}c"] {
            let said = Pattern::parse(pattern).expect_err(pattern);
            assert!(said.contains("as a table"), "{pattern}: {said}");
        }
        for pattern in ["^[a-z0-9][a-z0-9-]{0,127}$", r"^\p{L}+$", "^(?:[A-Za-z0-9_-]{1,64}/){0,8}[a-z]+$"] {
            Pattern::parse(pattern).expect(pattern);
        }
        assert_eq!(Pattern::steps(&text), 25_001);
    }
}
