//! Classes of paths, compared segment by segment.

use std::fmt;

use globset::{GlobBuilder, GlobSet};

use crate::error::{Error, Result};
use crate::path::{MAX_PATH, SYSTEM, TreePath};

/// Most segments of a class: its places in a directory are the bits of a `u64`.
const MAX_SEGMENTS: usize = 63;

/// A class of paths as `/agents/*/kv/**`. `*` stands for any bytes of a name, `?` for one, `[ab]` and
/// `{a,b}` choose, and a backslash takes the next character as it is. A segment `**` stands for any number of
/// directories, at the end for one name and more.
#[derive(Clone)]
pub struct Class {
    /// As it was given, with a slash at its beginning.
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

/// What a class has in a directory and below.
#[derive(Clone, Copy)]
pub(super) struct Below<'a> {
    class: &'a Class,
    /// Which segments the first name from here may be of: a bit for each.
    here: u64,
}

impl PartialEq for Below<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.here == other.here && self.class == other.class
    }
}

impl Class {
    /// Reads a class. The slash at its beginning may be left out.
    ///
    /// # Errors
    /// `InvalidArgument` for one that is malformed, too long, or has no path.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = |why: &str| {
            let message = format!("{text}: {why}; write a class of paths as /agents/*/notes/**");
            Error::invalid(message)
        };
        let rest = text.strip_prefix('/').unwrap_or(text);
        if rest.is_empty() || rest.len() > MAX_PATH {
            return Err(bad("is no class of paths"));
        }
        let segments: Result<Vec<Segment>> = rest
            .split('/')
            .map(|segment| match segment {
                "" | "." | ".." => Err(bad("has a segment that no path has")),
                "*" => Ok(Segment::Any),
                "**" => Ok(Segment::Deep),
                _ if segment.contains("**") => Err(bad("has `**` beside other characters")),
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
            return Err(bad("is kept for garth itself"));
        }
        Ok(Self { text: format!("/{rest}"), segments })
    }

    /// Parses a class that the program names itself.
    ///
    /// # Panics
    /// If `text` is not well formed: a fault of the program.
    pub fn built_in(text: &str) -> Self {
        Self::parse(text).expect("the program's own classes are well formed")
    }

    /// As it is written, from the root on.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The directory that all of its paths are below; where it has one path only, that.
    pub(super) fn place(&self) -> TreePath {
        let names = self.segments.iter().map_while(|segment| match segment {
            Segment::Name(name) => Some(name),
            _ => None,
        });
        names.fold(TreePath::root(), |dir, name| TreePath::from_row(dir.key(), name))
    }

    /// The directory from which on to look for its paths.
    pub fn base(&self) -> TreePath {
        let place = self.place();
        // of a class of one path that is the path itself
        match self.has(&place) {
            true => place.parent().unwrap_or_default(),
            false => place,
        }
    }

    /// Whether it can have paths in a directory or below.
    pub fn may_have(&self, dir: &TreePath) -> bool {
        self.below(dir).is_some()
    }

    fn whole(&self) -> Below<'_> {
        Below { class: self, here: self.and_behind(0) }
    }

    /// A place, with those that follow it without a name.
    fn and_behind(&self, place: usize) -> u64 {
        let mut places = 1 << place;
        let skips = |place: usize| matches!(self.segments.get(place), Some(Segment::Deep));
        let mut place = place;
        while skips(place) && place + 1 < self.segments.len() {
            place += 1;
            places |= 1 << place;
        }
        places
    }

    /// Whether it has a path.
    pub fn has(&self, path: &TreePath) -> bool {
        let mut segments = path.segments().peekable();
        let mut here = match segments.peek() {
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

    /// What it has in a directory and below; `None` for nothing.
    pub(super) fn below(&self, dir: &TreePath) -> Option<Below<'_>> {
        if dir.segments().next().is_some_and(is_kept) {
            return None;
        }
        dir.segments().try_fold(self.whole(), Below::into)
    }
}

/// A segment in which some characters stand for others.
///
/// # Errors
/// What is wrong about it, in words.
fn like(segment: &str) -> Result<Segment, String> {
    // a set in brackets is one of bytes: part of a character would be taken for the whole
    let sets = segment.split('[').skip(1).map(|set| set.split(']').next().unwrap_or_default());
    if sets.into_iter().any(|set| !set.is_ascii()) {
        return Err("has other characters than those of ASCII in brackets: put them into braces".to_owned());
    }
    let glob = GlobBuilder::new(segment).literal_separator(true).backslash_escape(true).build();
    let glob = glob.map_err(|error| error.kind().to_string())?;
    // one that is nested too deep, or is too large, is told here
    let set =
        GlobSet::builder().add(glob).build().map_err(|_| "has a segment that is too large".to_owned())?;
    Ok(Segment::Like(set))
}

/// Whether a name at the root is one that no class has.
fn is_kept(name: &str) -> bool {
    SYSTEM.strip_prefix('/') == Some(name)
}

impl PartialEq for Class {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Class {}

impl<'a> Below<'a> {
    fn places(self) -> impl Iterator<Item = (usize, &'a Segment)> {
        let segments = self.class.segments.iter().enumerate();
        segments.filter(move |(place, _)| self.here & (1 << place) != 0)
    }

    /// What there is in a directory that has this name.
    pub(super) fn into(self, name: &str) -> Option<Self> {
        let last = self.class.segments.len();
        let here = self.places().fold(0, |here, (place, segment)| match segment {
            Segment::Deep => here | self.class.and_behind(place),
            _ if place + 1 < last && segment.matches(name) => here | self.class.and_behind(place + 1),
            _ => here,
        });
        (here != 0).then_some(Self { here, ..self })
    }

    /// Whether a path with this name, here, is of the class.
    pub(super) fn ends_with(self, name: &str) -> bool {
        let last = self.class.segments.len() - 1;
        self.places().any(|(place, segment)| place == last && segment.matches(name))
    }

    /// The only name that there can be here, if there is only one.
    pub(super) fn only(self) -> Option<&'a str> {
        let mut places = self.places();
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

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Below<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {:b}", self.class.text, self.here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    #[test]
    fn a_class_has_paths_by_segment() {
        for (class, inside, outside) in [
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
            let class = Class::parse(class).unwrap();
            for inside in inside {
                assert!(class.has(&path(inside)), "{class:?} {inside}");
            }
            for outside in outside {
                assert!(!class.has(&path(outside)), "{class:?} {outside}");
            }
        }
    }

    #[test]
    fn what_is_no_class_is_refused() {
        let long = "a/".repeat(MAX_SEGMENTS + 1);
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
            let error = Class::parse(text).expect_err(text);
            assert!(error.is(crate::ErrorKind::InvalidArgument), "{error}");
        }
    }

    #[test]
    fn what_is_left_of_a_class_is_the_same_in_like_directories() {
        let class = Class::built_in("agents/*/kv/**");
        let below = |dir| class.below(&path(dir));
        assert_eq!(below("/agents/a"), below("/agents/b"));
        assert_eq!(below("/agents/a/kv"), below("/agents/b/kv/c/d"));
        assert_ne!(below("/agents"), below("/agents/a"));
        assert_eq!((below("/x"), below("/agents/a/b")), (None, None));
        assert_eq!(below("/").and_then(Below::only), Some("agents"));
        assert_eq!(below("/agents").and_then(Below::only), None);
        assert_eq!(class.place(), path("/agents"));
        assert_eq!(below("/agents/a").and_then(Below::only), Some("kv"));
        let deep = Class::built_in("/**/a/x");
        let below = |dir| deep.below(&path(dir));
        assert_eq!(below("/b"), below("/b/c"));
        assert_ne!(below("/b"), below("/b/a"));
        assert_eq!(below("/").and_then(Below::only), None);
    }
}
