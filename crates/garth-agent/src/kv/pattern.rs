//! Glob patterns of the key-value API. Not globset: there `?` is one byte, here one character, and by
//! default `*` crosses `/`. A pattern runs as a set of states, one bit each, so that no pattern makes
//! matching slow.

use std::collections::BTreeMap;

use super::error::{KvCode, KvError, KvResult};
use super::key::{Key, MAX_KEY_CHARS, check_path, fold};
use garth_engine::compute::working;

/// Treatment of `/` by `*` and `?`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Semantics {
    /// `*`, `**` and `?` match `/` like any other character, as the wildcards of SQL's `LIKE` do.
    #[default]
    Whole,
    /// `*` and `?` stay inside a segment; `**` crosses.
    Segment,
}

/// Number of 64-bit words that hold one bit for each place in the longest pattern, and one for its end.
const WORDS: usize = MAX_KEY_CHARS / 64 + 1;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Set([u64; WORDS]);

impl Set {
    fn insert(&mut self, bit: usize) {
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    fn contains(&self, bit: usize) -> bool {
        self.0[bit / 64] >> (bit % 64) & 1 == 1
    }

    fn and(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
        self
    }

    fn or(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
        self
    }

    /// Moves every bit one place on.
    fn advance(mut self) -> Self {
        let mut carry = 0;
        for word in &mut self.0 {
            let out = *word >> 63;
            *word = *word << 1 | carry;
            carry = out;
        }
        self
    }
}

/// Compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    /// Places that take a character, for each character that the pattern names.
    takes: BTreeMap<char, Set>,
    /// Places that take any character that is not named.
    takes_other: Set,
    /// Places that take `/`.
    takes_slash: Set,
    /// Places of `*` and `**`.
    stars: Set,
    /// Places of `stars` that also match `/`.
    crossing: Set,
    end: usize,
    directory: Key,
    literal: Option<Key>,
}

impl Pattern {
    pub(super) fn parse(pattern: &str, semantics: Semantics) -> KvResult<Self> {
        check_path("pattern", pattern).map_err(|why| KvError::new(KvCode::InvalidGlob, why))?;
        let pattern = fold(pattern);
        let crosses = semantics == Semantics::Whole;
        let (mut named, mut any, mut any_but_slash) = (BTreeMap::new(), Set::default(), Set::default());
        let (mut stars, mut crossing) = (Set::default(), Set::default());
        let mut place = 0;
        let mut rest = pattern.chars().peekable();
        while let Some(character) = rest.next() {
            match character {
                '*' => {
                    // `**` crosses `/` under either semantics. Runs of stars are one place, so that stars
                    // are never neighbours.
                    let mut crosses = crosses;
                    // `***` and longer runs mean the same as `**`.
                    while rest.next_if_eq(&'*').is_some() {
                        crosses = true;
                    }
                    stars.insert(place);
                    if crosses {
                        crossing.insert(place);
                    }
                }
                '?' if crosses => any.insert(place),
                '?' => any_but_slash.insert(place),
                literal => named.entry(literal).or_insert_with(Set::default).insert(place),
            }
            place += 1;
        }
        let takes_other = any.or(&any_but_slash);
        let takes_slash = any.or(named.get(&'/').unwrap_or(&Set::default()));
        for (character, places) in &mut named {
            // A named character is also taken by the wildcards; `/` only by those that cross.
            *places = if *character == '/' { takes_slash } else { places.or(&takes_other) };
        }
        let key = |text| Key::parse(text).map_err(|error| KvError::new(KvCode::InvalidGlob, error.message()));
        let wildcard = pattern.find(['*', '?']);
        let head = &pattern[..wildcard.unwrap_or(pattern.len())];
        Ok(Self {
            takes: named,
            takes_other,
            takes_slash,
            stars,
            crossing,
            end: place,
            directory: key(head.rfind('/').map_or("/", |slash| &head[..=slash]))?,
            literal: if wildcard.is_none() && !pattern.is_empty() { Some(key(&pattern)?) } else { None },
        })
    }

    /// Returns the deepest directory of keys that every match is below.
    pub(super) fn directory(&self) -> &Key {
        &self.directory
    }

    /// Returns the only key that can match, if the pattern has no wildcard.
    pub(super) fn literal(&self) -> Option<&Key> {
        self.literal.as_ref()
    }

    pub(super) fn matches(&self, key: &str) -> bool {
        self.run(key).contains(self.end)
    }

    /// Returns true if a key that begins with `start` can match.
    pub(super) fn can_begin(&self, start: &str) -> bool {
        self.run(start) != Set::default()
    }

    /// Returns the places of the pattern that are reached after it has taken all of `text`.
    fn run(&self, text: &str) -> Set {
        working(text.len());
        let mut at = Set::default();
        at.insert(0);
        at = self.skip_stars(at);
        for character in text.chars() {
            let slash = character == '/';
            let other = if slash { &self.takes_slash } else { &self.takes_other };
            let takes = self.takes.get(&character).unwrap_or(other);
            let stay = if slash { &self.crossing } else { &self.stars };
            at = self.skip_stars(at.and(takes).advance().or(&at.and(stay)));
            // No state is left, so nothing that begins with this text can match.
            if at == Set::default() {
                break;
            }
        }
        at
    }

    /// Adds the places after the stars in `at`, because a star may match nothing. Stars are never neighbours,
    /// so one step is enough.
    fn skip_stars(&self, at: Set) -> Set {
        at.or(&at.and(&self.stars).advance())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, semantics: Semantics, yes: &[&str], no: &[&str]) {
        let pattern = Pattern::parse(pattern, semantics).unwrap();
        yes.iter().for_each(|key| assert!(pattern.matches(key), "{pattern:?} {key}"));
        no.iter().for_each(|key| assert!(!pattern.matches(key), "{pattern:?} {key}"));
    }

    #[test]
    fn by_default_wildcards_cross_slashes() {
        check(
            "/user/*",
            Semantics::Whole,
            &["/user/a", "/user/a/b", "/user/"],
            &["/user", "/users2", "/x/user/a"],
        );
        check("/user**", Semantics::Whole, &["/user", "/users2", "/user/a/b"], &["/use", "/User"]);
        check("/a?b", Semantics::Whole, &["/a/b", "/axb", "/aéb", "/a🦀b", "/a\nb"], &["/ab", "/axxb"]);
        check("/**/x", Semantics::Whole, &["/a/x", "/a/b/x", "//x"], &["/x", "/a/y"]);
        check("//a//*/", Semantics::Whole, &["/a/x"], &["/a", "//a//x/"]);
    }

    #[test]
    fn by_segment_only_two_stars_cross_slashes() {
        check("/user/*", Semantics::Segment, &["/user/a", "/user/é"], &["/user/a/b", "/user", "/user2/a"]);
        check("/a?b", Semantics::Segment, &["/aéb"], &["/a/b"]);
        check("/**/x", Semantics::Segment, &["/a/x", "/a/b/x"], &["/x", "/a/b/y"]);
        check("/a*/c**", Semantics::Segment, &["/ab/c", "/a/c/d/e"], &["/a/b/c"]);
    }

    #[test]
    fn other_pattern_characters_are_literal() {
        check(
            "/a_b%[x]{y,z}\\.+^$|()",
            Semantics::Whole,
            &["/a_b%[x]{y,z}\\.+^$|()"],
            &["/axb%x{y,z}\\.+^$|()"],
        );
        check("/[ab]", Semantics::Whole, &["/[ab]"], &["/a", "/b"]);
        check("/{a,b}", Semantics::Segment, &["/{a,b}"], &["/a", "/b"]);
        check("/100%", Semantics::Whole, &["/100%"], &["/100", "/1000"]);
    }

    #[test]
    fn longest_pattern_matches_in_linear_time() {
        let stars = format!("/{}b", "*a".repeat(255));
        let key = format!("/{}", "a".repeat(511));
        assert!(!Pattern::parse(&stars, Semantics::Whole).unwrap().matches(&key));
        let questions = format!("/{}", "?".repeat(249));
        assert!(Pattern::parse(&questions, Semantics::Segment).unwrap().matches(&key[..250]));
        let long = format!("/{0}/{0}/{1}", "a".repeat(250), "a".repeat(9));
        assert_eq!(long.len(), MAX_KEY_CHARS);
        assert!(Pattern::parse(&long, Semantics::Segment).unwrap().matches(&long));
    }

    #[test]
    fn glob_walk_starts_at_the_literal_directory() {
        for (pattern, directory) in
            [("/a/b*", "/a"), ("/a/b/*", "/a/b"), ("/*", ""), ("/a/b", "/a"), ("/?", "")]
        {
            let parsed = Pattern::parse(pattern, Semantics::Whole).unwrap();
            assert_eq!(parsed.directory().as_str(), directory, "{pattern}");
            assert_eq!(parsed.literal().is_some(), !pattern.contains(['*', '?']), "{pattern}");
        }
    }
}
