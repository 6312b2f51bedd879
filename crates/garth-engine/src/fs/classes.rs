//! Glob patterns of a search, parsed once and matched with many paths: by an engine, and by a view with the
//! hits of other filesystems.

use crate::error::{Error, Result};
use crate::model::{SearchQuery, Within};
use crate::path::TreePath;
use crate::rule::Class;

/// Glob patterns, each relative to a directory.
#[derive(Debug)]
pub(crate) struct Classes(Vec<(TreePath, Class)>);

impl Classes {
    /// Parses the patterns of a query.
    ///
    /// # Errors
    /// `InvalidArgument` for a malformed pattern.
    pub(crate) fn of(query: &SearchQuery) -> Result<Self> {
        let classes =
            query.classes.iter().map(|class| Ok((class.from.clone(), Class::parse(&class.pattern)?)));
        Ok(Self(classes.collect::<Result<_>>()?))
    }

    /// Returns true if one of the patterns matches a path, or if there are none.
    pub(crate) fn have(&self, path: &TreePath) -> bool {
        let has = |(from, class): &(TreePath, Class)| match from.is_root() {
            true => class.has(path),
            false => {
                path.rebase(from, &TreePath::root()).and_then(Result::ok).is_some_and(|path| class.has(&path))
            }
        };
        self.0.is_empty() || self.0.iter().any(has)
    }

    /// Returns the subtrees that the patterns can match paths in.
    ///
    /// # Errors
    /// `NameTooLong` for a directory that no path fits into.
    pub(crate) fn places(&self) -> Result<Within> {
        if self.0.is_empty() {
            return Ok(Within::everything());
        }
        let places = self.0.iter().map(|(from, class)| from.append(&class.base()).map_err(Error::from));
        Ok(Within::new(places.collect::<Result<Vec<_>>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PathClass;

    #[test]
    fn search_patterns_are_relative_to_their_directory() {
        let path = |text| TreePath::parse(text).unwrap();
        let class = |from, pattern: &str| PathClass { from: path(from), pattern: pattern.into() };
        let query = |classes| SearchQuery { classes, ..SearchQuery::new("") };
        let classes = Classes::of(&query(vec![class("/a*", "/x/**"), class("/", "/**/*.md")])).unwrap();
        for (inside, at) in [
            (true, "/a*/x/y"),
            (true, "/a.md"),
            (true, "/a*/y.md"),
            (false, "/ab/x/y"),
            (false, "/a*/x"),
            (false, "/a*b/x/y"),
            (false, "/x/y"),
        ] {
            assert_eq!(classes.have(&path(at)), inside, "{at}");
        }
        assert_eq!(classes.places().unwrap(), Within::everything());
        let one = Classes::of(&query(vec![class("/a", "/x/**"), class("/a", "/b/c")])).unwrap();
        assert_eq!(one.places().unwrap(), Within::new([path("/a/x"), path("/a/b")]));
        assert!(Classes::of(&query(Vec::new())).unwrap().have(&path("/any")));
        assert!(Classes::of(&SearchQuery::new("").class("a//b")).is_err());
    }
}
