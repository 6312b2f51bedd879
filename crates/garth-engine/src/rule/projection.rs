//! Projections: what keys are derived from a node's attributes, and from the content of the files of a class,
//! whole or line by line. Which there are is closed, and has a version that an account's head row keeps.
//! `docs/decisions/projections-in-the-commit.md` says why.

mod lines;

use std::collections::BTreeSet;

pub use self::lines::{Line, Lines, MAX_LINE};
use super::Class;
use crate::model::find::{kept, metadata_key};
use crate::model::{Attributes, Projection};
use crate::path::TreePath;

/// A file that is longer has no keys of its whole content, 1 MiB: it is read in the commit.
pub const MAX_FILE: u64 = 1 << 20;

/// Most keys of one file: each is a row of the commit.
pub const MAX_KEYS: usize = 10_000;

/// The keys of a node's attributes.
pub fn of_attributes(attributes: &Attributes) -> BTreeSet<(Projection, String)> {
    let tags = attributes.tags.iter().map(|tag| (Projection::TAG, kept(tag)));
    let metadata = attributes.metadata.iter();
    let metadata = metadata.map(|(key, value)| (Projection::METADATA, kept(&metadata_key(key, value))));
    tags.chain(metadata).collect()
}

/// A projection of the content of files.
#[derive(Clone, Debug)]
pub struct ContentProjection {
    projection: Projection,
    /// Of which files.
    classes: Vec<Class>,
    /// Whether a name may be of the classes: asked first, as it costs least.
    is_name: fn(&str) -> bool,
    keys: Keys,
}

/// The keys of a line, by its number and text.
pub type LineKeys = fn(u64, &[u8]) -> Vec<String>;

/// How keys are derived from content.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// From each line, of which they are given the start, up to [`MAX_LINE`], without its line feed.
    OfLines(LineKeys),
    /// From the whole, if it is no longer than [`MAX_FILE`].
    OfFile(fn(&[u8]) -> Vec<String>),
}

impl ContentProjection {
    /// Returns a projection of the files of `classes` whose name `is_name` accepts. `is_name` is asked first,
    /// for each name that a commit touches.
    ///
    /// # Panics
    /// If a class is not well formed: a fault of the program.
    pub fn new(projection: Projection, classes: &[&str], is_name: fn(&str) -> bool, keys: Keys) -> Self {
        let classes = classes.iter().map(|class| Class::built_in(class)).collect();
        Self { projection, classes, is_name, keys }
    }

    /// Which it is.
    pub fn projection(&self) -> Projection {
        self.projection
    }

    /// The classes of paths that it is of.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// How its keys are derived.
    pub fn keys(&self) -> Keys {
        self.keys
    }

    /// Whether it is line by line.
    pub fn is_by_line(&self) -> bool {
        matches!(self.keys, Keys::OfLines(_))
    }

    /// Whether a path is of its classes.
    pub fn has(&self, path: &TreePath) -> bool {
        path.name().is_some_and(self.is_name) && self.classes.iter().any(|class| class.has(path))
    }

    /// Whether the path that a row of names stands for is of its classes.
    pub fn has_row(&self, dir: &str, name: &str) -> bool {
        (self.is_name)(name) && self.has(&TreePath::from_row(dir, name))
    }
}

/// The keys of a whole file, or of a line, as they are kept: each once, none that is empty, at most
/// [`MAX_KEYS`].
pub fn kept_keys(keys: Vec<String>) -> BTreeSet<String> {
    keys.into_iter().filter(|key| !key.is_empty()).take(MAX_KEYS).map(|key| kept(&key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_a_key_for_each_tag_and_each_value() {
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
