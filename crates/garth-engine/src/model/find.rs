//! Finding by key: keys that are derived from nodes, kept in order, and read by range.

use std::cmp::Ordering;
use std::ops::Range;

use super::id::Ino;
use super::query::{Weigh, check_limit};
use crate::error::{Error, Result};
use crate::path::TreePath;

/// Longest key that is kept as it is, in bytes: a row of the index stays small. See [`Projection`].
pub const MAX_KEY: usize = 1024;

/// Id of a projection: what keys are derived from, and how. Those of attributes are [`Projection::TAG`] and
/// [`Projection::METADATA`]; the layer above the engine registers those of content when a folder is opened
/// (see [`Registry`](crate::rule::Registry)).
///
/// Keys compare by their bytes. One of more than [`MAX_KEY`] bytes is kept as its first [`MAX_KEY`] (fewer,
/// if that would cut a character) with the BLAKE3 of all of it in hexadecimal behind them: it equals itself
/// alone, and lies among those that begin like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Projection(u32);

impl Projection {
    /// Each tag of a node.
    pub const TAG: Self = Self(1);
    /// Each key of a node's custom metadata with its value: `key`, NUL, `value`.
    pub const METADATA: Self = Self(2);

    /// Projections of attributes, which every kind of node has.
    pub(crate) const OF_ATTRIBUTES: [Self; 2] = [Self::TAG, Self::METADATA];

    /// Returns the projection with the number that its keys are stored under. Never give the number of
    /// another one, not even of one that is gone.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number that its keys are stored under.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// A key as it is kept.
pub(crate) fn kept(key: &str) -> String {
    if key.len() <= MAX_KEY {
        return key.to_owned();
    }
    // longer than any that is kept as it is, so equal to none
    format!("{}{}", &key[..key.floor_char_boundary(MAX_KEY)], blake3::hash(key.as_bytes()).to_hex())
}

/// The key of a value of custom metadata.
pub(crate) fn metadata_key(key: &str, value: &str) -> String {
    format!("{key}\0{value}")
}

/// A page of what has keys in a range.
///
/// ```
/// # use garth_engine as garth;
/// use garth::TreePath;
/// use garth::model::FindQuery;
///
/// let drafts = FindQuery::tag("draft").within(TreePath::parse("/notes")?);
/// let due = FindQuery::metadata_from("due", "2026-01-01").limit(10);
/// # let _ = (drafts, due);
/// # Ok::<(), garth::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FindQuery {
    /// Which keys.
    pub projection: Projection,
    /// From this key on.
    pub from: String,
    /// Up to but without this key; `None` for all behind `from`.
    pub to: Option<String>,
    /// Of a projection by line only lines from this number on.
    pub lines_from: u64,
    /// Only these paths and what is below them; empty: everywhere.
    pub within: Vec<TreePath>,
    /// Go on behind what was found before.
    pub after: Option<FindCursor>,
    /// Most items, 1 to [`MAX_PAGE`](super::MAX_PAGE).
    pub limit: usize,
}

impl FindQuery {
    /// Every key of a projection, in pages of 1,000.
    pub fn new(projection: Projection) -> Self {
        let (from, to, within) = (String::new(), None, Vec::new());
        Self { projection, from, to, lines_from: 0, within, after: None, limit: 1000 }
    }

    /// Of a projection by line, of each file: the line that is not at its end, or would begin, without bytes.
    /// Its number and place say how many lines there are. The key is empty.
    pub fn ends(projection: Projection) -> Self {
        Self::new(projection).equal("")
    }

    /// What has this tag.
    pub fn tag(tag: &str) -> Self {
        Self::new(Projection::TAG).equal(tag)
    }

    /// What has this value under this key of its custom metadata.
    pub fn metadata(key: &str, value: &str) -> Self {
        Self::new(Projection::METADATA).equal(&metadata_key(key, value))
    }

    /// What has this key in its custom metadata, by its values, from this one on (the empty one for all).
    pub fn metadata_from(key: &str, value: &str) -> Self {
        let to = Some(format!("{key}\u{1}"));
        Self { from: metadata_key(key, value), to, ..Self::new(Projection::METADATA) }
    }

    /// This key alone.
    #[must_use]
    pub fn equal(self, key: &str) -> Self {
        let from = kept(key);
        // the next text in the order of bytes
        Self { to: Some(format!("{from}\0")), from, ..self }
    }

    /// From this key on.
    #[must_use]
    pub fn from(self, key: impl Into<String>) -> Self {
        Self { from: key.into(), ..self }
    }

    /// Up to but without this key.
    #[must_use]
    pub fn to(self, key: impl Into<String>) -> Self {
        Self { to: Some(key.into()), ..self }
    }

    /// Of a projection by line only lines from this number on.
    #[must_use]
    pub fn lines_from(self, number: u64) -> Self {
        Self { lines_from: number, ..self }
    }

    /// Only this path and what is below it; called again, also another.
    #[must_use]
    pub fn within(mut self, path: impl Into<TreePath>) -> Self {
        self.within.push(path.into());
        self
    }

    /// Only these paths and what is below them; none: everywhere.
    #[must_use]
    pub fn within_any(self, paths: impl IntoIterator<Item = TreePath>) -> Self {
        Self { within: paths.into_iter().collect(), ..self }
    }

    /// Goes on behind what was found before; `None` from the start.
    #[must_use]
    pub fn after(self, after: impl Into<Option<FindCursor>>) -> Self {
        Self { after: after.into(), ..self }
    }

    /// At most this many items, 1 to [`MAX_PAGE`](super::MAX_PAGE).
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Refuses what nobody finds.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to [`MAX_PAGE`](super::MAX_PAGE).
    pub fn check(&self) -> Result<()> {
        check_limit(self.limit)
    }

    /// The one key that is asked for, as it is kept.
    pub(crate) fn one_key(&self) -> Option<&str> {
        let is_one = self.to.as_ref().is_some_and(|to| to.strip_suffix('\0') == Some(&self.from));
        is_one.then_some(&self.from)
    }

    /// Whether, of a projection by line, the ends of files are asked for.
    pub(crate) fn is_of_ends(&self) -> bool {
        self.one_key() == Some("")
    }

    /// Whether a key, as it is kept, is asked for.
    pub(crate) fn has(&self, key: &str) -> bool {
        *key >= *self.from && self.to.as_ref().is_none_or(|to| *key < **to)
    }
}

/// How far a find got: an opaque place, which belongs to the filesystem and the query that gave it. It may
/// have keys and paths that its caller does not reach, so it shows nothing, and an interface keeps or seals
/// it.
#[derive(Clone, PartialEq, Eq)]
pub struct FindCursor {
    /// In a view of several stores: which of them, in the order in which it asks them.
    pub(crate) part: usize,
    /// Behind which row of that store; `None` for its first.
    pub(crate) behind: Option<FindPlace>,
    /// Paths of the row behind it that were given, where a view shows one in several places.
    pub(crate) given: usize,
}

/// A place in the order of keys of one store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FindPlace {
    /// The key as it is kept.
    pub(crate) key: String,
    /// The node.
    pub(crate) ino: u64,
    /// The line; 0 of what is not by line.
    pub(crate) line: u64,
    /// The last of its paths that was given, as a directory and a name; `None` if the row is done.
    pub(crate) path: Option<(String, String)>,
}

impl FindPlace {
    /// Whether a row is behind a place, or has paths that are.
    pub(crate) fn is_behind(&self, place: &Self) -> bool {
        let row = |place: &Self| (place.key.clone(), place.ino, place.line);
        match row(self).cmp(&row(place)) {
            Ordering::Equal => place.path.is_some(),
            order => order == Ordering::Greater,
        }
    }
}

impl FindCursor {
    /// Behind a row of a store.
    pub(crate) fn behind(place: FindPlace) -> Self {
        Self { part: 0, behind: Some(place), given: 0 }
    }

    /// The row of a store that it is behind.
    ///
    /// # Errors
    /// `InvalidArgument` for the cursor of a view.
    pub(crate) fn place(&self) -> Result<Option<&FindPlace>> {
        match self {
            Self { part: 0, behind, given: 0 } => Ok(behind.as_ref()),
            _ => Err(Error::invalid("the cursor is that of another filesystem; begin again without it")),
        }
    }
}

impl std::fmt::Debug for FindCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FindCursor").finish_non_exhaustive()
    }
}

/// A page of what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FindAnswer {
    /// By key, node, line and path (directory, then name): one for each path of a node that is in reach. In a
    /// view of several stores, one store after the other.
    pub items: Vec<FindItem>,
    /// Where to go on, if there may be more. One call looks at a bounded number of keys: a page with few
    /// items, or none, is not always the last.
    pub next: Option<FindCursor>,
}

/// A key, and what has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FindItem {
    /// The key as it is kept.
    pub key: String,
    /// A path of the node.
    pub path: TreePath,
    /// The node.
    pub ino: Ino,
    /// The line that has the key, where keys are those of lines.
    pub line: Option<FindLine>,
}

impl FindItem {
    /// Where it is in the order of its store.
    pub(crate) fn place(&self) -> FindPlace {
        // the root has no name
        let (dir, name) = self.path.key().rsplit_once('/').unwrap_or(("", "/"));
        let (path, line) =
            ((dir.to_owned(), name.to_owned()), self.line.as_ref().map_or(0, |line| line.number));
        FindPlace { key: self.key.clone(), ino: self.ino.0, line, path: Some(path) }
    }
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FindLine {
    /// Its number; the first line is 1.
    pub number: u64,
    /// Where it lies, in bytes, without its line feed.
    pub bytes: Range<u64>,
}

impl Weigh for FindItem {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.path.key().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_key_equals_itself_alone_and_lies_among_those_that_begin_like_it() {
        let long = |end: &str| format!("{}{end}", "é".repeat(600));
        let (one, other) = (kept(&long("x")), kept(&long("y")));
        assert_ne!(one, other);
        assert!(one.len() > MAX_KEY && one.starts_with(&"é".repeat(512)));
        assert_ne!(kept(&one), one, "whoever writes what is kept of a long one has another key");
        assert!(FindQuery::new(Projection::TAG).equal(&long("x")).has(&one));
        assert!(!FindQuery::new(Projection::TAG).equal(&long("x")).has(&other));
        let whole = "k".repeat(MAX_KEY);
        assert_eq!(kept(&whole), whole);
        let range = FindQuery::new(Projection::TAG).from("é").to("ê");
        assert!(range.has(&one) && range.has(&other) && !range.has("f"));
    }

    #[test]
    fn a_query_has_its_keys_and_no_others() {
        let tag = FindQuery::tag("a");
        assert!(tag.has("a") && !tag.has("aa") && !tag.has("A") && !tag.has("") && !tag.has("b"));
        let value = FindQuery::metadata("k", "v");
        assert!(value.has("k\0v") && !value.has("k\0v1") && !value.has("k1\0v") && !value.has("k"));
        let values = FindQuery::metadata_from("k", "5");
        assert!(
            values.has("k\x005") && values.has("k\x006") && !values.has("k\x004") && !values.has("l\x005")
        );
    }
}
