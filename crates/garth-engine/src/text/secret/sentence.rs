//! Values after some words of a sentence: `the API key for staging: …`, `the password is now …`.

use super::assigned::run;
use super::harmless_shape::is_account;
use super::links;
use super::names;
use super::random::is_random;
use super::span::Secret;
use super::value::{Named, Tie, begin};
use super::verbs;
use super::words::is_word;

/// Limit on the bytes of a sentence between a name and its value, in either order.
pub(super) const SENTENCE: usize = 72;
/// Limit on the words of such a sentence.
pub(super) const WORDS: usize = 8;
/// Limit on the adverbs between a verb and a value.
const ADVERBS: usize = 3;
/// Minimum length of a random word.
const RANDOM: usize = 20;

impl Named<'_> {
    /// Returns the value after some words of a sentence: `the API key for staging: …`, `use the token …`.
    pub(super) fn sentence(&self) -> Option<Secret> {
        let closing = match self.is_fourth() {
            true => self.closing(b"*`)_"),
            false => run(self.text, self.word.end, b"*`)", 2),
        };
        let from = self.word.end + closing;
        let window = &self.text[from..self.text.len().min(from + SENTENCE)];
        let mut at = 0;
        let (mut is_linked, mut is_direct) = (true, true);
        let mut before: &[u8] = b"";
        for n in 0..WORDS {
            let blanks = run(window, at, b" ,(\"'`*", 4);
            let is_part = |byte: &u8| is_word(*byte) || b"'()#".contains(byte) || *byte >= 0x80;
            let length = window[at + blanks..].iter().take_while(|byte| is_part(byte)).count();
            // The sentence has ended.
            if blanks == 0 || length == 0 {
                return None;
            }
            let place = from + at + blanks;
            // Without a sign, only a word that looks random can be the value.
            if length >= RANDOM && is_word_end(window, at + blanks, length) {
                let (start, _) = begin(self.text, place);
                let secret = self.value(start, Tie::Apart)?;
                let value = &self.text[secret.bytes.clone()];
                return (is_random(value, RANDOM) && !is_account(value)).then_some(secret);
            }
            let word = &window[at + blanks..at + blanks + length];
            let has_letter = word.iter().any(|byte| byte.is_ascii_alphabetic() || *byte >= 0x80);
            // A word such as `address` makes the name that of something else; after a comma, the value may
            // belong to something else.
            if !has_letter
                || names::names_other_thing(word, self.judgement)
                || window[at..at + blanks].contains(&b',')
            {
                return None;
            }
            let is_verb = verbs::is_verb(word, before, self.judgement);
            // In Polish, `to` is a verb.
            let is_english_to = word == b"to" && !self.is_polish();
            // Verbs and adverbs alone say nothing of what the value is for.
            is_direct &= self.is_fourth()
                && blanks == 1
                && !is_english_to
                && (is_verb || verbs::is_auxiliary(word) || verbs::is_adverb(word));
            is_linked &= n > 0 || blanks > 1 || is_direct || links::is_link(word, self.judgement);
            let tie = match (is_direct, is_linked && self.is_fourth()) {
                (true, _) => Tie::Sign,
                (_, true) => Tie::Linked,
                _ => Tie::Apart,
            };
            at += blanks + length;
            if !verbs::is_adverb(word) {
                before = word;
            }
            if is_verb && window.get(at) == Some(&b' ') {
                let tie = if is_english_to { Tie::Apart } else { tie };
                if let Some(secret) = self.after_verb(from + at + 1, is_linked, tie) {
                    return Some(secret);
                }
            }
            if is_verb && word != b"to" && matches!(window.get(at), Some(b'\r' | b'\n')) {
                return self.apart(from + at, tie);
            }
            let signs = run(window, at, b"*)`\"' ", 3);
            match window.get(at + signs) {
                Some(b':' | b'=' | b'|') => {
                    let value = from + at + signs + 1;
                    let value = value + run(self.text, value, b"*=> \t", 4);
                    // After a word that says nothing of a value, the value before the sign is that word's,
                    // unless it looks drawn at random.
                    return if is_linked { self.apart(value, tie) } else { self.as_weak().apart(value, tie) };
                }
                Some(b'-') if window.get(at + signs + 1) == Some(&b'>') => {
                    let value = from + at + signs + 2;
                    return self.apart(value + run(self.text, value, b" \t", 4), tie);
                }
                _ => {}
            }
        }
        None
    }

    /// Returns true for a name with a letter that is not ASCII, and for the Polish one that has lost it.
    fn is_polish(&self) -> bool {
        let name = &self.text[self.word.clone()];
        !name.is_ascii() || (self.is_fourth() && name.to_ascii_lowercase().ends_with(b"haslo"))
    }

    /// Returns the value after a verb and the blank behind it, also after adverbs: `is now …`.
    fn after_verb(&self, at: usize, is_linked: bool, tie: Tie) -> Option<Secret> {
        if !self.is_fourth() {
            return self.apart(at, tie);
        }
        // After a word that says nothing of a value, as in `secret santa is …`, the value is that word's.
        let named = if is_linked { self.clone() } else { self.as_weak() };
        let mut at = at;
        for n in 0..=ADVERBS {
            // Only the verb itself ends a line: otherwise a value on the next one would depend on a line that
            // nothing shows to be open.
            let ends_line = matches!(self.text.get(at), Some(b'\r' | b'\n'));
            if n > 0 && ends_line {
                return None;
            }
            if let Some(secret) = named.apart(at, tie) {
                return Some(secret);
            }
            let rest = &self.text[at..self.text.len().min(at + SENTENCE)];
            let length = rest.iter().take_while(|byte| is_word(**byte) || **byte >= 0x80).count();
            if !verbs::is_adverb(&rest[..length]) || rest.get(length) != Some(&b' ') {
                return None;
            }
            at += length + 1;
        }
        None
    }

    /// Returns a value that is apart from the name, here or on the next line.
    fn apart(&self, at: usize, tie: Tie) -> Option<Secret> {
        match self.text.get(at) {
            Some(b'\r' | b'\n') => self.place_on_next_line(at).and_then(|at| self.value(at, Tie::Line)),
            _ => self.value(at, tie),
        }
    }
}

/// Returns true if a word of a sentence ends here, and does not continue as a path or a host would.
fn is_word_end(window: &[u8], at: usize, length: usize) -> bool {
    let follows = &window[at + length..];
    match follows {
        [b'.', next, ..] => !is_word(*next),
        [b'@' | b':' | b'/' | b'=' | b'&' | b'?', ..] => false,
        _ => true,
    }
}
