//! Glob patterns of paths, compared segment by segment.

use std::fmt;

use globset::{GlobBuilder, GlobSet};

use crate::error::{Error, Result};
use crate::model::Kind;
use crate::path::{MAX_PATH, SYSTEM, TreePath};

/// Limit on the segments of a pattern: positions in it are the bits of a `u64`.
const MAX_SEGMENTS: usize = 63;

/// Characters of a refused pattern that a message shows.
const SHOWN: usize = 100;

/// Glob pattern of paths, such as `/agents/*/kv/**`. `*` matches any bytes of a name, `?` matches one, `[ab]`
/// and `{a,b}` are alternatives, and a backslash takes the next character literally. A segment `**` matches
/// any number of directories; at the end it matches one name or more.
#[derive(Clone)]
pub struct PathPattern {
    /// Text of the pattern, with a leading slash.
    text: String,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug)]
enum Segment {
    Name(String),
    Any,
    Like(GlobSet),
    Deep,
}

/// Part of a pattern that applies in a directory and below.
#[derive(Clone, Copy)]
pub(super) struct Below<'a> {
    pattern: &'a PathPattern,
    /// Positions of the segments that the first name from here may match: one bit for each.
    here: u64,
}

impl PartialEq for Below<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.here == other.here && self.pattern == other.pattern
    }
}

impl PathPattern {
    /// Parses a pattern. The leading slash may be left out.
    ///
    /// # Errors
    /// `InvalidArgument` for a pattern that is malformed or too long, or that matches no path; and for one
    /// with control characters, also bidirectional ones: in a list it would look like another pattern.
    pub fn parse(text: &str) -> Result<Self> {
        if text.contains(is_control) {
            return Err(invalid(text, "has control characters, for which a wildcard can stand"));
        }
        Self::parse_stored(text)
    }

    /// Parses a pattern that may have been set before [`PathPattern::parse`] refused control characters: one
    /// that is stored, or that names a stored one to remove it.
    ///
    /// # Errors
    /// Errors of [`PathPattern::parse`], apart from control characters.
    #[doc(hidden)]
    pub fn parse_stored(text: &str) -> Result<Self> {
        let bad = |why: &str| invalid(text, why);
        let rest = text.strip_prefix('/').unwrap_or(text);
        // No path is longer, so nothing longer can match one.
        if rest.is_empty() || rest.len() > MAX_PATH {
            return Err(bad("is not a pattern"));
        }
        if rest.strip_suffix('/').is_some_and(|dir| !dir.ends_with(['/', '*'])) {
            let shown = shown(text);
            let message =
                format!("{shown}: ends with `/`; write {shown}** for everything below the directory");
            return Err(Error::invalid(message));
        }
        let segments: Result<Vec<Segment>> = rest
            .split('/')
            .map(|segment| match segment {
                "" | "." | ".." => Err(bad("has an invalid segment")),
                "*" => Ok(Segment::Any),
                "**" => Ok(Segment::Deep),
                _ if segment.contains("**") => Err(bad("has `**` next to other characters")),
                _ if segment.contains(['*', '?', '[', ']', '{', '}', '\\']) => {
                    like(segment).map_err(|why| bad(&why))
                }
                _ => Ok(Segment::Name(segment.to_owned())),
            })
            .collect();
        let segments = segments?;
        if segments.len() > MAX_SEGMENTS {
            return Err(bad("has too many segments"));
        }
        if matches!(&segments[0], Segment::Name(name) if is_kept(name)) {
            return Err(bad("is reserved for garth"));
        }
        Ok(Self { text: format!("/{rest}"), segments })
    }

    /// Parses a pattern of the program itself.
    ///
    /// # Panics
    /// If `text` is malformed, which is a bug of the program.
    pub fn built_in(text: &str) -> Self {
        Self::parse(text).expect("the program's own patterns are well formed")
    }

    /// Returns the text of the pattern, with a leading slash.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the directory that all matching paths are below. For a pattern of one path, returns that path.
    pub(super) fn place(&self) -> TreePath {
        let names = self.segments.iter().map_while(|segment| match segment {
            Segment::Name(name) => Some(name),
            _ => None,
        });
        names.fold(TreePath::root(), |dir, name| TreePath::from_row(dir.key(), name))
    }

    /// Returns the directory from which to look for matching paths.
    pub fn base(&self) -> TreePath {
        let place = self.place();
        // For a pattern of one path, `place` is the path itself.
        match self.has(&place) {
            true => place.parent().unwrap_or_default(),
            false => place,
        }
    }

    /// Fails if the pattern is the path of a directory: it would match that directory alone, and none of the
    /// files in it. `kind_of` looks up the kind of an entry.
    ///
    /// # Errors
    /// `InvalidArgument` for such a pattern; errors of `kind_of`.
    #[doc(hidden)]
    pub fn refuse_directory<E: From<Error>>(
        &self,
        kind_of: impl FnOnce(&TreePath) -> Result<Option<Kind>, E>,
    ) -> Result<(), E> {
        let kind = match self.one_path() {
            Some(path) => kind_of(&path)?,
            None => None,
        };
        if kind != Some(Kind::Directory) {
            return Ok(());
        }
        let pattern = &self.text;
        Err(Error::invalid(format!("{pattern}: is a directory; for the files in it, write {pattern}/**"))
            .into())
    }

    /// Returns true if the pattern is the path of one entry, which is not a file: nothing has the path, or
    /// for example a directory. Fails as `kind_of`, which looks up the kind of an entry.
    pub(crate) fn is_without_file<E>(
        &self,
        kind_of: impl FnOnce(&TreePath) -> Result<Option<Kind>, E>,
    ) -> Result<bool, E> {
        match self.one_path() {
            Some(path) => Ok(kind_of(&path)? != Some(Kind::File)),
            None => Ok(false),
        }
    }

    /// Returns the only path that the pattern can match; `None` if it has wildcards.
    fn one_path(&self) -> Option<TreePath> {
        let is_path = self.segments.iter().all(|segment| matches!(segment, Segment::Name(_)));
        // A text that is no path, such as one with a name that is too long, names no entry either.
        TreePath::parse(&self.text).ok().filter(|_| is_path)
    }

    /// Returns patterns that match, relative to a directory, the paths below it that this one matches; none
    /// if there cannot be any. A `**` can match the directory in several ways, so that there can be several.
    pub(crate) fn relative_to(&self, dir: &TreePath) -> Vec<String> {
        let Some(Below { here, .. }) = self.below(dir) else { return Vec::new() };
        let names: Vec<&str> = self.text.split('/').skip(1).collect();
        // A `**` that remains also matches no directory, and so includes what follows it.
        let is_included = |place: usize| {
            place > 0 && here & (1 << (place - 1)) != 0 && matches!(self.segments[place - 1], Segment::Deep)
        };
        let remain = (0..names.len()).filter(|place| here & (1 << place) != 0 && !is_included(*place));
        remain.map(|place| format!("/{}", names[place..].join("/"))).collect()
    }

    /// Returns true if the pattern can match paths in a directory or below.
    pub fn may_have(&self, dir: &TreePath) -> bool {
        self.below(dir).is_some()
    }

    fn whole(&self) -> Below<'_> {
        Below { pattern: self, here: self.with_skipped(0) }
    }

    /// Returns a position with those that can follow it without a name: `**` may match no directory.
    fn with_skipped(&self, place: usize) -> u64 {
        let mut places = 1 << place;
        let skips = |place: usize| matches!(self.segments.get(place), Some(Segment::Deep));
        let mut place = place;
        while skips(place) && place + 1 < self.segments.len() {
            place += 1;
            places |= 1 << place;
        }
        places
    }

    /// Returns true if the pattern matches a path.
    pub fn has(&self, path: &TreePath) -> bool {
        let mut segments = path.segments().peekable();
        let mut here = match segments.peek() {
            // No pattern matches garth's own directory, not even `/**`.
            Some(first) if !is_kept(first) => self.whole(),
            _ => return false,
        };
        while let Some(name) = segments.next() {
            if segments.peek().is_none() {
                return here.ends_with(name);
            }
            let Some(below) = here.into(name) else { return false };
            here = below;
        }
        false
    }

    /// Returns true if the pattern matches the file of a name in every entry of a directory, whatever the
    /// name of the entry. It may return false for a pattern that lists all names in another way than `*` and
    /// `**`.
    pub(super) fn has_in_each_entry(&self, dir: &TreePath, file: &str) -> bool {
        // No pattern matches garth's own directory, which is an entry of the root.
        let Some(here) = self.below(dir).filter(|_| !dir.is_root()) else { return false };
        let last = self.segments.len();
        let in_entry = here.places().fold(0, |in_entry, (place, segment)| match segment {
            Segment::Deep => in_entry | self.with_skipped(place),
            Segment::Any if place + 1 < last => in_entry | self.with_skipped(place + 1),
            _ => in_entry,
        });
        Below { here: in_entry, ..here }.ends_with(file)
    }

    /// Returns the part of the pattern that applies in a directory and below; `None` if no path there can
    /// match.
    pub(super) fn below(&self, dir: &TreePath) -> Option<Below<'_>> {
        if dir.segments().next().is_some_and(is_kept) {
            return None;
        }
        dir.segments().try_fold(self.whole(), Below::into)
    }
}

/// Returns true for control characters, and for those of Unicode's property `Bidi_Control`: they change the
/// order in which a reader sees the text around them.
fn is_control(c: char) -> bool {
    let is_bidi =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_bidi
}

/// Returns the error of a pattern, with the beginning of its text and control characters as escapes.
fn invalid(text: &str, why: &str) -> Error {
    Error::invalid(format!("{}: {why}; write a pattern such as /agents/*/notes/**", shown(text)))
}

/// Returns the first characters of a pattern, without control characters.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    // By characters: a cut at a byte could split one.
    let mut rest = text.chars();
    for c in rest.by_ref().take(SHOWN) {
        match is_control(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    if rest.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Compiles a segment with wildcards.
///
/// # Errors
/// The flaw, in words.
fn like(segment: &str) -> Result<Segment, String> {
    // Brackets match single bytes: of a longer character they would match a part.
    let sets = segment.split('[').skip(1).map(|set| set.split(']').next().unwrap_or_default());
    if sets.into_iter().any(|set| !set.is_ascii()) {
        return Err("has non-ASCII characters in brackets: put them into braces".to_owned());
    }
    let glob = GlobBuilder::new(segment).literal_separator(true).backslash_escape(true).build();
    let glob = glob.map_err(|error| error.kind().to_string())?;
    // Fails for a segment that is nested too deep, or too large.
    let set =
        GlobSet::builder().add(glob).build().map_err(|_| "has a segment that is too large".to_owned())?;
    Ok(Segment::Like(set))
}

/// Returns true for the name in the root that no pattern matches.
fn is_kept(name: &str) -> bool {
    SYSTEM.strip_prefix('/') == Some(name)
}

impl PartialEq for PathPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PathPattern {}

impl<'a> Below<'a> {
    fn places(self) -> impl Iterator<Item = (usize, &'a Segment)> {
        let segments = self.pattern.segments.iter().enumerate();
        segments.filter(move |(place, _)| self.here & (1 << place) != 0)
    }

    /// Returns the part that applies in the directory of this name.
    pub(super) fn into(self, name: &str) -> Option<Self> {
        let last = self.pattern.segments.len();
        // `**` matches this directory and stays active; any other segment is consumed by it. All positions at
        // once, as an automaton does: no pattern makes the search go back.
        let here = self.places().fold(0, |here, (place, segment)| match segment {
            Segment::Deep => here | self.pattern.with_skipped(place),
            _ if place + 1 < last && segment.matches(name) => here | self.pattern.with_skipped(place + 1),
            _ => here,
        });
        (here != 0).then_some(Self { here, ..self })
    }

    /// Returns true if a path that ends here with this name matches.
    pub(super) fn ends_with(self, name: &str) -> bool {
        let last = self.pattern.segments.len() - 1;
        self.places().any(|(place, segment)| place == last && segment.matches(name))
    }

    /// Returns the only name that can match here, if there is just one.
    pub(super) fn only(self) -> Option<&'a str> {
        let mut places = self.places();
        // With a second position another name could match as well.
        match (places.next(), places.next()) {
            (Some((_, Segment::Name(name))), None) => Some(name),
            _ => None,
        }
    }
}

impl Segment {
    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::Any | Self::Deep => true,
            Self::Like(matcher) => matcher.is_match(name),
        }
    }
}

impl fmt::Debug for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Below<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {:b}", self.pattern.text, self.here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    #[test]
    fn only_wildcards_match_in_each_entry() {
        for (pattern, dir, is_in_each) in [
            ("/a/*/f", "/a", true),
            ("/*/*/f", "/a", true),
            ("/a/**/f", "/a", true),
            ("/a/**", "/a", true),
            ("/**/f", "/a/b", true),
            ("/a/*/*", "/a", true),
            ("/a/*/g", "/a", false),
            ("/a/b*/f", "/a", false),
            ("/a/b/f", "/a", false),
            ("/a/*", "/a", false),
            ("/a/*/f", "/b", false),
            ("/a/*/f", "/a/b", false),
            ("/*/f", "/", false),
        ] {
            let found = PathPattern::parse(pattern).unwrap().has_in_each_entry(&path(dir), "f");
            assert_eq!(found, is_in_each, "{pattern} {dir}");
        }
    }

    #[test]
    fn pattern_matches_paths_by_segment() {
        for (pattern, inside, outside) in [
            (
                "agents/*/kv/**",
                &["/agents/a/kv/x", "/agents/*/kv/x/y/z", "/agents/a/kv/kv"][..],
                &["/", "/agents", "/agents/a/kv", "/agents/a/kvx/y", "/agents/a/b/kv/x", "/x/agents/a/kv/x"]
                    [..],
            ),
            ("/a/*", &["/a/b"], &["/a", "/a/b/c"]),
            ("/a", &["/a"], &["/", "/a/a", "/b"]),
            ("/**/*.jsonl", &["/x.jsonl", "/a/b/.jsonl"], &["/", "/x.jsonl/y", "/x.json", "/.garth/x.jsonl"]),
            ("/a/**/b", &["/a/b", "/a/b/b", "/a/x/y/b"], &["/a", "/a/x", "/b", "/a/b/x"]),
            ("/**", &["/a", "/a/b"], &["/", "/.garth", "/.garth/a"]),
            ("/a?/{b,c}[0-9]", &["/ax/b0", "/a*/c9"], &["/a/b0", "/aé/c9", "/ax/d0", "/ax/b", "/axx/b0"]),
            ("/a\\*/x", &["/a*/x"], &["/ab/x"]),
        ] {
            let pattern = PathPattern::parse(pattern).unwrap();
            for inside in inside {
                assert!(pattern.has(&path(inside)), "{pattern:?} {inside}");
            }
            for outside in outside {
                assert!(!pattern.has(&path(outside)), "{pattern:?} {outside}");
            }
        }
    }

    #[test]
    fn relative_patterns_match_the_paths_below_a_directory() {
        let below = |pattern, dir| PathPattern::built_in(pattern).relative_to(&path(dir));
        for (pattern, dir, relative) in [
            ("/accounts/acme/notes/*.md", "/accounts/acme", &["/notes/*.md"][..]),
            ("/accounts/*/**", "/accounts/acme", &["/**"]),
            ("/accounts/{acme,beta}/n?", "/accounts/acme", &["/n?"]),
            ("/**/*.md", "/accounts/acme", &["/**/*.md"]),
            ("/**/**/a", "/accounts", &["/**/**/a"]),
            ("/**/acme/*.md", "/accounts/acme", &["/**/acme/*.md", "/*.md"]),
            ("/**/accounts/**/a", "/accounts/acme", &["/**/accounts/**/a", "/**/a"]),
            ("/notes/*.md", "/", &["/notes/*.md"]),
            ("/accounts/acme", "/accounts/acme", &[]),
            ("/accounts/beta/**", "/accounts/acme", &[]),
            ("/notes/*.md", "/accounts/acme", &[]),
        ] {
            assert_eq!(below(pattern, dir), relative, "{pattern} in {dir}");
        }
        let paths = ["/a/b", "/x", "/x/b", "/x/y/b", "/a/x/b", "/b", "/a/a/b", "/x/a/b", "/b/b"];
        for pattern in ["/**/b", "/a/**/b", "/**/a/b", "/**/x/**", "/*/**/b", "/**/a/**/b", "/{a,x}/**"] {
            for dir in ["/a", "/x", "/a/x", "/a/a"] {
                let relative = below(pattern, dir);
                for inside in paths {
                    let full = path(&format!("{dir}{inside}"));
                    let matches = relative.iter().any(|text| PathPattern::built_in(text).has(&path(inside)));
                    assert_eq!(matches, PathPattern::built_in(pattern).has(&full), "{pattern}: {full}");
                }
            }
        }
    }

    #[test]
    fn pattern_that_is_a_directory_is_refused() {
        let refused = |pattern: &str, kind| -> Option<String> {
            let checked = PathPattern::built_in(pattern).refuse_directory(|_| Ok::<_, Error>(kind));
            checked.err().map(|error| error.message().to_owned())
        };
        let said = refused("a/b", Some(Kind::Directory)).unwrap();
        assert_eq!(said, "/a/b: is a directory; for the files in it, write /a/b/**");
        assert_eq!(refused("/a/b", Some(Kind::File)), None);
        assert_eq!(refused("/a/b", None), None);
        for pattern in ["/a/*", "/a/**", "/**/b", "/a?", "/{a,b}", "/[a]", "/a\\*"] {
            assert_eq!(refused(pattern, Some(Kind::Directory)), None, "{pattern} has wildcards");
        }
        let failed = PathPattern::built_in("/a").refuse_directory(|path| Err(Error::not_found(path)));
        assert!(failed.unwrap_err().is(crate::ErrorKind::NotFound));
    }

    #[test]
    fn rejects_malformed_patterns() {
        let long = "a/".repeat(MAX_SEGMENTS + 1);
        // Nested deeper than the compiler of patterns allows.
        let deep = format!("/{}a{}", "{".repeat(300), "}".repeat(300));
        for text in [
            "",
            "/",
            "//",
            "a//b",
            "a/",
            "../a",
            "/a/.",
            "/a**",
            "/[a",
            "/{a",
            "/[äö]",
            "/.garth/**",
            &long,
            &deep,
        ] {
            let error = PathPattern::parse(text).expect_err(text);
            assert!(error.is(crate::ErrorKind::InvalidArgument), "{error}");
        }
    }

    #[test]
    fn pattern_of_a_directory_names_the_one_below_it() {
        for (text, due) in [("/logs/", "write /logs/** for"), ("a/b/", "write a/b/** for")] {
            let error = PathPattern::parse(text).unwrap_err();
            assert!(error.message().contains(due), "{error}");
        }
    }

    #[test]
    fn rejects_control_characters_in_new_patterns() {
        for c in ['\0', '\n', '\u{1b}', '\u{9b}', '\u{61c}', '\u{200e}', '\u{202e}', '\u{2069}'] {
            let text = format!("/a{c}b/*");
            let error = PathPattern::parse(&text).expect_err(&text);
            assert!(error.is(crate::ErrorKind::InvalidArgument), "{error}");
            let due = format!("/a{}b/*: has control characters", c.escape_unicode());
            assert!(error.message().starts_with(&due), "{error}");
            let stored = PathPattern::parse_stored(&text).expect("a pattern of an earlier version");
            assert_eq!(stored.as_str(), text);
        }
        assert!(PathPattern::parse("/naïve café/日本/*").is_ok());
    }

    #[test]
    fn refusal_shows_the_beginning_of_a_long_pattern() {
        let error = PathPattern::parse(&"é".repeat(MAX_PATH)).expect_err("it is too long");
        assert!(error.message().starts_with(&format!("{}…: is not a pattern", "é".repeat(SHOWN))), "{error}");
        assert!(error.message().len() < 300, "{error}");
    }

    #[test]
    fn pattern_remainder_is_equal_in_similar_directories() {
        let pattern = PathPattern::built_in("agents/*/kv/**");
        let below = |dir| pattern.below(&path(dir));
        assert_eq!(below("/agents/a"), below("/agents/b"));
        assert_eq!(below("/agents/a/kv"), below("/agents/b/kv/c/d"));
        assert_ne!(below("/agents"), below("/agents/a"));
        assert_eq!((below("/x"), below("/agents/a/b")), (None, None));
        assert_eq!(below("/").and_then(Below::only), Some("agents"));
        assert_eq!(below("/agents").and_then(Below::only), None);
        assert_eq!(pattern.place(), path("/agents"));
        assert_eq!(below("/agents/a").and_then(Below::only), Some("kv"));
        let deep = PathPattern::built_in("/**/a/x");
        let below = |dir| deep.below(&path(dir));
        assert_eq!(below("/b"), below("/b/c"));
        assert_ne!(below("/b"), below("/b/a"));
        assert_eq!(below("/").and_then(Below::only), None);
    }
}
