//! Glob patterns of a search, parsed once and matched with many paths: by an engine, and by a view with the
//! hits of other filesystems.

use crate::error::{Error, Result};
use crate::model::{PatternBelow, SearchQuery, Within};
use crate::path::TreePath;
use crate::rule::PathPattern;

/// Glob patterns, each relative to a directory.
#[derive(Debug)]
pub struct SearchPatterns(Vec<(TreePath, PathPattern)>);

impl SearchPatterns {
    /// Parses the patterns of a query.
    ///
    /// # Errors
    /// `InvalidArgument` for a malformed pattern.
    pub fn of(query: &SearchQuery) -> Result<Self> {
        let patterns = query
            .patterns
            .iter()
            .map(|pattern| Ok((pattern.from.clone(), PathPattern::parse(&pattern.pattern)?)));
        Ok(Self(patterns.collect::<Result<_>>()?))
    }

    /// Returns patterns that match in the tree of a directory, whose root is `top`, the paths that `patterns`
    /// match below it; none if they match nothing there.
    ///
    /// # Errors
    /// `InvalidArgument` for a malformed pattern.
    pub fn relative_to(top: &TreePath, patterns: &[PatternBelow]) -> Result<Vec<PatternBelow>> {
        let (root, mut relative) = (TreePath::root(), Vec::with_capacity(patterns.len()));
        for PatternBelow { from, pattern } in patterns {
            let parsed = PathPattern::parse(pattern)?;
            if let Some(from) = from.rebase(top, &root) {
                relative.push(PatternBelow { from: from?, pattern: pattern.clone() });
            } else if let Some(dir) = top.rebase(from, &root) {
                let patterns = parsed.relative_to(&dir?).into_iter();
                relative.extend(patterns.map(|pattern| PatternBelow { from: root.clone(), pattern }));
            }
        }
        Ok(relative)
    }

    /// Returns true if one of the patterns matches a path, or if there are none.
    pub fn have(&self, path: &TreePath) -> bool {
        let has = |(from, pattern): &(TreePath, PathPattern)| match from.is_root() {
            true => pattern.has(path),
            false => path
                .rebase(from, &TreePath::root())
                .and_then(Result::ok)
                .is_some_and(|path| pattern.has(&path)),
        };
        self.0.is_empty() || self.0.iter().any(has)
    }

    /// Returns the subtrees that the patterns can match paths in.
    ///
    /// # Errors
    /// `NameTooLong` for a directory that no path fits into.
    pub fn places(&self) -> Result<Within> {
        if self.0.is_empty() {
            return Ok(Within::everything());
        }
        let places = self.0.iter().map(|(from, pattern)| from.append(&pattern.base()).map_err(Error::from));
        Ok(Within::new(places.collect::<Result<Vec<_>>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_patterns_are_relative_to_their_directory() {
        let path = |text| TreePath::parse(text).unwrap();
        let pattern = |from, pattern: &str| PatternBelow { from: path(from), pattern: pattern.into() };
        let query = |patterns| SearchQuery { patterns, ..SearchQuery::new("") };
        let patterns =
            SearchPatterns::of(&query(vec![pattern("/a*", "/x/**"), pattern("/", "/**/*.md")])).unwrap();
        for (inside, at) in [
            (true, "/a*/x/y"),
            (true, "/a.md"),
            (true, "/a*/y.md"),
            (false, "/ab/x/y"),
            (false, "/a*/x"),
            (false, "/a*b/x/y"),
            (false, "/x/y"),
        ] {
            assert_eq!(patterns.have(&path(at)), inside, "{at}");
        }
        assert_eq!(patterns.places().unwrap(), Within::everything());
        let one = SearchPatterns::of(&query(vec![pattern("/a", "/x/**"), pattern("/a", "/b/c")])).unwrap();
        assert_eq!(one.places().unwrap(), Within::new([path("/a/x"), path("/a/b")]));
        assert!(SearchPatterns::of(&query(Vec::new())).unwrap().have(&path("/any")));
        let all =
            [pattern("/", "/a/*.md"), pattern("/a/b", "/c/**"), pattern("/b", "/**"), pattern("/", "/c/*")];
        let inside = [pattern("/", "/*.md"), pattern("/b", "/c/**")];
        assert_eq!(SearchPatterns::relative_to(&path("/a"), &all).unwrap(), inside);
        assert!(SearchPatterns::relative_to(&path("/a"), &[pattern("/b", "a//b")]).is_err());
        assert!(SearchPatterns::of(&SearchQuery::new("").pattern("a//b")).is_err());
    }
}
