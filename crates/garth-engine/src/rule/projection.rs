//! Projections: the keys that are derived from a node's attributes, and from the content of the files of glob
//! patterns, as a whole or line by line. The set of projections is closed, and has a version that an
//! account's head row stores. The reasons: `docs/decisions/projections-in-the-commit.md`.

mod lines;

use std::collections::BTreeSet;

pub use self::lines::{Line, Lines, MAX_LINE};
use super::PathPattern;
use crate::model::find::{kept, metadata_key};
use crate::model::{Attributes, Projection};
use crate::path::TreePath;

/// Largest file with keys of its whole content, 1 MiB: it is read in the commit.
pub const MAX_FILE: u64 = 1 << 20;

/// Limit on the keys of one file: each is a row of the commit.
pub const MAX_KEYS: usize = 10_000;

/// Returns the keys of a node's attributes.
pub fn of_attributes(attributes: &Attributes) -> BTreeSet<(Projection, String)> {
    // A set: a tag that is given twice is one key.
    let tags = attributes.tags.iter().map(|tag| (Projection::TAG, kept(tag)));
    let metadata = attributes.metadata.iter();
    let metadata = metadata.map(|(key, value)| (Projection::METADATA, kept(&metadata_key(key, value))));
    tags.chain(metadata).collect()
}

/// Projection of the content of files.
#[derive(Clone, Debug)]
pub struct ContentProjection {
    projection: Projection,
    /// Patterns of the files.
    patterns: Vec<PathPattern>,
    /// Returns true for a name that the patterns may match. Asked first, because it costs least.
    is_name: fn(&str) -> bool,
    keys: Keys,
}

/// Returns the keys of a line, given its number and text.
pub type LineKeys = fn(u64, &[u8]) -> Vec<String>;

/// Derivation of keys from content.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// From each line: of its start, up to [`MAX_LINE`], without the line feed.
    OfLines(LineKeys),
    /// From the complete file, if it is no longer than [`MAX_FILE`].
    OfFile(fn(&[u8]) -> Vec<String>),
}

impl ContentProjection {
    /// Returns a projection of the files of `patterns` whose name `is_name` accepts. `is_name` is called
    /// first, for each name that a commit touches.
    ///
    /// # Panics
    /// If a pattern is malformed, which is a bug of the program.
    pub fn new(projection: Projection, patterns: &[&str], is_name: fn(&str) -> bool, keys: Keys) -> Self {
        let patterns = patterns.iter().map(|pattern| PathPattern::built_in(pattern)).collect();
        Self { projection, patterns, is_name, keys }
    }

    /// Returns the id of the projection.
    pub fn projection(&self) -> Projection {
        self.projection
    }

    /// Returns the patterns of the files.
    pub fn patterns(&self) -> &[PathPattern] {
        &self.patterns
    }

    /// Returns the derivation of the keys.
    pub fn keys(&self) -> Keys {
        self.keys
    }

    /// Returns true if keys are derived line by line.
    pub fn is_by_line(&self) -> bool {
        matches!(self.keys, Keys::OfLines(_))
    }

    /// Returns true if one of the patterns matches a path.
    pub fn has(&self, path: &TreePath) -> bool {
        // The name first, because it costs least and excludes most paths.
        path.name().is_some_and(self.is_name) && self.patterns.iter().any(|pattern| pattern.has(path))
    }

    /// Returns true if the file of a name has keys in every entry of a directory, whatever the name of the
    /// entry.
    #[doc(hidden)]
    pub fn has_in_each_entry(&self, dir: &TreePath, file: &str) -> bool {
        !self.is_by_line()
            && (self.is_name)(file)
            && self.patterns.iter().any(|pattern| pattern.has_in_each_entry(dir, file))
    }

    /// Returns true if one of the patterns matches the path of a row of names.
    pub fn has_row(&self, dir: &str, name: &str) -> bool {
        (self.is_name)(name) && self.has(&TreePath::from_row(dir, name))
    }
}

/// Returns the keys of a file or line as they are stored: each once, without empty ones, at most
/// [`MAX_KEYS`].
pub fn kept_keys(keys: Vec<String>) -> BTreeSet<String> {
    keys.into_iter().filter(|key| !key.is_empty()).take(MAX_KEYS).map(|key| kept(&key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_derive_one_key_per_tag_and_value() {
        let attributes = Attributes {
            tags: ["a", "b", "a", ""].map(str::to_owned).into(),
            metadata: [("k".to_owned(), "v".to_owned())].into(),
            ..Attributes::default()
        };
        let keys: Vec<_> = of_attributes(&attributes).into_iter().collect();
        let tag = |tag: &str| (Projection::TAG, tag.to_owned());
        assert_eq!(keys, [tag(""), tag("a"), tag("b"), (Projection::METADATA, "k\0v".to_owned())]);
    }
}
