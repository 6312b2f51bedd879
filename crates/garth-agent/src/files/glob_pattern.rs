//! Glob patterns of names and paths, with one meaning for all operations and the command line.
//!
//! `*` and `?` match within a name, `**` crosses directories, `[ab]` and `{a,b}` are alternatives, and `\`
//! quotes the next character.

use globset::{GlobBuilder, GlobSet};

use garth_engine::error::{Error, Result};
use garth_engine::path::MAX_PATH;

/// Characters that make a text a pattern.
pub(super) const WILD: [char; 5] = ['*', '?', '[', '{', '\\'];

/// Limit on the opening braces of a pattern. Compiling is recursive in their depth.
const MAX_BRACES: usize = 100;

/// Returns true if `text` contains characters with a meaning in patterns.
pub fn is_pattern(text: &str) -> bool {
    text.contains(WILD)
}

/// Compiled pattern.
///
/// ```
/// use garth_agent::files::GlobPattern;
///
/// assert!(GlobPattern::parse("*.md")?.is_match("today.md"));
/// assert!(!GlobPattern::parse("*.md")?.is_match("notes/today.md"));
/// assert!(GlobPattern::crossing("*.md")?.is_match("notes/today.md"));
/// # Ok::<(), garth::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GlobPattern(GlobSet);

impl GlobPattern {
    /// Compiles a pattern of one name or of a relative path.
    ///
    /// # Errors
    /// `InvalidArgument` for a pattern that is malformed, or has more than [`MAX_PATH`] bytes or 100 braces.
    pub fn parse(pattern: &str) -> Result<Self> {
        Self::compile(pattern, |_| {})
    }

    /// Compiles a pattern that takes upper and lower case letters as the same.
    ///
    /// # Errors
    /// As [`GlobPattern::parse`].
    pub fn ignoring_case(pattern: &str) -> Result<Self> {
        Self::compile(pattern, |builder| {
            builder.case_insensitive(true);
        })
    }

    /// Compiles a pattern of complete paths in which `*` crosses directories, as in `find -path`.
    ///
    /// # Errors
    /// As [`GlobPattern::parse`].
    pub fn crossing(pattern: &str) -> Result<Self> {
        Self::compile(pattern, |builder| {
            builder.literal_separator(false);
        })
    }

    fn compile(pattern: &str, set: impl FnOnce(&mut GlobBuilder<'_>)) -> Result<Self> {
        if pattern.len() > MAX_PATH {
            return Err(Error::invalid(format!("a pattern has at most {MAX_PATH} bytes")));
        }
        if pattern.matches('{').count() > MAX_BRACES {
            return Err(Error::invalid(format!("{pattern}: a pattern has at most {MAX_BRACES} braces")));
        }
        let mut builder = GlobBuilder::new(pattern);
        builder.literal_separator(true).backslash_escape(true);
        set(&mut builder);
        let glob = builder.build().map_err(|error| {
            Error::invalid(format!("{pattern}: {} (a backslash quotes a special character)", error.kind()))
        })?;
        // A set of one pattern, because a single matcher panics if the pattern is too large.
        let set = GlobSet::builder().add(glob).build();
        Ok(Self(set.map_err(|_| Error::invalid(format!("{pattern}: the pattern is too large")))?))
    }

    /// Returns true if the pattern matches a name or path as a whole.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stays_inside_a_name() {
        let star = GlobPattern::parse("*.md").unwrap();
        assert!(star.is_match("a.md") && !star.is_match("b/a.md") && !star.is_match("a.MD"));
        let deep = GlobPattern::parse("**/*.md").unwrap();
        assert!(deep.is_match("a.md") && deep.is_match("b/c/a.md"));
        assert!(GlobPattern::ignoring_case("*.md").unwrap().is_match("a.MD"));
        assert!(GlobPattern::crossing("*/old/*").unwrap().is_match("/notes/old/june.md"));
        assert!(is_pattern("a?") && !is_pattern("a_b%c"));
    }

    #[test]
    fn malformed_patterns_are_refused() {
        let deep = format!("{}a{}", "{".repeat(1000), "}".repeat(1000));
        for pattern in ["[", "{a", "a\\", &deep, &"a".repeat(5000)] {
            assert!(GlobPattern::parse(pattern).is_err(), "{pattern}");
        }
    }
}
