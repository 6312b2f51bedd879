//! Glob patterns of paths and names, with the same meaning for all verbs.
//!
//! `*` and `?` match within a name, `**` crosses directories, `[ab]` and `{a,b}` are alternatives, and `\`
//! quotes the next character. A pattern that ends with `/` matches directories only.

use std::sync::Arc;

use garth_engine::error::OptionalExt as _;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{Entry, Kind};
use garth_engine::{FileSystem, TreePath};
use globset::{GlobBuilder, GlobMatcher};

use crate::app::stat_path;
use crate::fail::{Failure, Result};
use crate::walk::{DepthFirst, Walker};

/// Characters that make a text a pattern.
const WILD: [char; 5] = ['*', '?', '[', '{', '\\'];

/// Returns true if `text` contains characters with a meaning in patterns.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(WILD)
}

/// Returns a matcher of one name or of a relative path.
pub(crate) fn matcher(pattern: &str, ignore_case: bool) -> Result<GlobMatcher> {
    compile(pattern, ignore_case, true)
}

/// Returns a matcher of complete paths in which `*` crosses directories, as in `find -path`.
pub(crate) fn crossing_matcher(pattern: &str) -> Result<GlobMatcher> {
    compile(pattern, false, false)
}

fn compile(pattern: &str, ignore_case: bool, segments: bool) -> Result<GlobMatcher> {
    let mut builder = GlobBuilder::new(pattern);
    builder.literal_separator(segments).backslash_escape(true).case_insensitive(ignore_case);
    let glob = builder.build().map_err(|error| {
        Failure::Usage(format!("{pattern}: {} (a backslash quotes a special character)", error.kind()))
    })?;
    Ok(glob.compile_matcher())
}

/// Iterator over the paths that match a pattern.
pub(crate) struct Matches {
    source: Source,
    only_directories: bool,
}

enum Source {
    /// At most one path, because the pattern has no wildcards.
    Fixed(Option<(TreePath, Entry)>),
    /// One matcher for each level, so that directories which cannot contain a match are not read.
    Levels(DepthFirst, Vec<GlobMatcher>),
    /// `**`: everything below the fixed part is read.
    Deep(Walker, GlobMatcher),
}

impl Matches {
    /// Starts a search. If the fixed part of the pattern does not exist, nothing matches.
    ///
    /// # Errors
    /// `Usage`: the pattern does not begin with `/`, or is malformed.
    pub(crate) async fn new(fs: Arc<dyn FileSystem>, pattern: &str) -> Result<Self> {
        if !pattern.starts_with('/') {
            return Err(Failure::Usage(format!(
                "{pattern}: a pattern must begin with `/`, such as /**/*.md"
            )));
        }
        let only_directories = pattern.ends_with('/');
        let pattern = pattern.trim_end_matches('/');
        let (base, rest) = split(pattern);
        let whole = matcher(rest, false)?;
        // A link matches as a link, but above wildcards or with a `/` at the end it stands for its directory.
        let follow = if rest.is_empty() && !only_directories { Follow::No } else { Follow::Yes };
        let found = stat_path(&*fs, base, follow).await.optional()?;
        let source = match found {
            Some((top, entry)) if !rest.is_empty() && entry.kind == Kind::Directory => match levels(rest) {
                Some(levels) => Source::Levels(DepthFirst::new(fs, &top), levels),
                None => Source::Deep(Walker::new(fs, top.as_str(), Follow::No, false).await?, whole),
            },
            found => Source::Fixed(found.filter(|_| rest.is_empty())),
        };
        Ok(Self { source, only_directories })
    }

    /// Returns the next match.
    pub(crate) async fn next(&mut self) -> Result<Option<(TreePath, Entry)>> {
        loop {
            let item = match &mut self.source {
                Source::Fixed(item) => item.take(),
                Source::Levels(below, levels) => next_level(below, levels).await?,
                Source::Deep(below, whole) => loop {
                    let Some((path, entry)) = below.next().await? else { break None };
                    let relative = path.key()[below.top().key().len()..].trim_start_matches('/');
                    if whole.is_match(relative) {
                        break Some((path, entry));
                    }
                },
            };
            match item {
                Some((_, entry)) if self.only_directories && entry.kind != Kind::Directory => {}
                item => return Ok(item),
            }
        }
    }
}

async fn next_level(
    below: &mut DepthFirst,
    levels: &[GlobMatcher],
) -> garth_engine::Result<Option<(TreePath, Entry)>> {
    while let Some((path, entry)) = below.next().await? {
        let fits = levels[below.depth() - 1].is_match(path.name().unwrap_or_default());
        let last = below.depth() == levels.len();
        // Nothing below can match.
        if last || !fits {
            below.skip();
        }
        if last && fits {
            return Ok(Some((path, entry)));
        }
    }
    Ok(None)
}

/// Splits a pattern into the directory above all matches, and the rest, which is empty without wildcards.
fn split(pattern: &str) -> (&str, &str) {
    let Some(wild) = pattern.find(WILD) else { return (if pattern.is_empty() { "/" } else { pattern }, "") };
    match pattern[..wild].rfind('/') {
        Some(0) | None => ("/", pattern.trim_start_matches('/')),
        Some(end) => (&pattern[..end], &pattern[end + 1..]),
    }
}

/// Returns a matcher for each segment; `None` if matches may have different depths.
fn levels(pattern: &str) -> Option<Vec<GlobMatcher>> {
    if pattern.contains("**") {
        return None;
    }
    pattern
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| matcher(segment, false).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_off_fixed_part_of_pattern() {
        assert_eq!(split("/notes/2026/*.md"), ("/notes/2026", "*.md"));
        assert_eq!(split("/notes/**"), ("/notes", "**"));
        assert_eq!(split("/n*/a"), ("/", "n*/a"));
        assert_eq!(split("/notes/a.md"), ("/notes/a.md", ""));
        assert_eq!(split("/{a,b}"), ("/", "{a,b}"));
        assert_eq!(split(""), ("/", ""));
    }

    #[test]
    fn patterns_match_level_by_level() {
        assert_eq!(levels("*/a?.md").map(|levels| levels.len()), Some(2));
        assert!(levels("**/a").is_none());
        assert!(levels("{a/b,c}").is_none(), "its matches lie at two depths");
    }

    #[test]
    fn star_stays_inside_a_name() {
        let star = matcher("*.md", false).expect("a pattern");
        assert!(star.is_match("a.md") && !star.is_match("b/a.md"));
        let deep = matcher("**/*.md", false).expect("a pattern");
        assert!(deep.is_match("a.md") && deep.is_match("b/c/a.md"));
        assert!(matcher("[", false).is_err());
    }
}
