//! Find by key: keys that are derived from nodes, stored in order, and read by range.

use std::cmp::Ordering;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use super::id::Ino;
use super::projection::Projection;
use super::query::{Weigh, check_limit};
use crate::error::{Error, Result};
use crate::path::TreePath;

/// Longest key that is stored unchanged, in bytes: a row of the index stays small. See [`Projection`].
pub const MAX_KEY: usize = 1024;
/// Bytes of which a cursor has a multiple. The place of a row, which the caller may not reach, fits in one.
const BLOCK: usize = 1280;

/// Returns a key as it is stored.
#[doc(hidden)]
pub fn kept(key: &str) -> String {
    if key.len() <= MAX_KEY {
        return key.to_owned();
    }
    // Longer than any key that is stored unchanged, so it equals none of them.
    format!("{}{}", &key[..key.floor_char_boundary(MAX_KEY)], blake3::hash(key.as_bytes()).to_hex())
}

/// Returns the key of a value of custom metadata.
pub(crate) fn metadata_key(key: &str, value: &str) -> String {
    format!("{key}\0{value}")
}

/// Query for nodes with keys in a range.
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
    /// Projection of the keys.
    pub projection: Projection,
    /// First key of the range.
    pub from: String,
    /// End of the range, which is not part of it; `None` for all keys from `from`.
    pub to: Option<String>,
    /// For a projection by line: only lines from this number on.
    pub lines_from: u64,
    /// Only these paths and everything below them; empty for everywhere.
    pub within: Vec<TreePath>,
    /// Position after which to continue.
    pub after: Option<FindCursor>,
    /// Limit on the items, 1 to [`MAX_PAGE`](super::MAX_PAGE).
    pub limit: usize,
}

impl FindQuery {
    /// Returns a query for every key of a projection, in pages of 1,000.
    pub fn new(projection: Projection) -> Self {
        let (from, to, within) = (String::new(), None, Vec::new());
        Self { projection, from, to, lines_from: 0, within, after: None, limit: 1000 }
    }

    /// Returns a query for the end of each file, for a projection by line: the unfinished line, or the empty
    /// one that would start. Its number and position tell how many lines the file has. The key is empty.
    pub fn ends(projection: Projection) -> Self {
        Self::new(projection).equal("")
    }

    /// Returns a query for nodes with this tag.
    pub fn tag(tag: &str) -> Self {
        Self::new(Projection::TAG).equal(tag)
    }

    /// Returns a query for nodes with this value under this key of their custom metadata.
    pub fn metadata(key: &str, value: &str) -> Self {
        Self::new(Projection::METADATA).equal(&metadata_key(key, value))
    }

    /// Returns a query for nodes with this key in their custom metadata, ordered by its values, from `value`
    /// on (all if it is empty).
    pub fn metadata_from(key: &str, value: &str) -> Self {
        // After every value of the key, and before keys that are longer.
        let to = Some(format!("{key}\u{1}"));
        Self { from: metadata_key(key, value), to, ..Self::new(Projection::METADATA) }
    }

    /// Selects this key alone.
    #[must_use]
    pub fn equal(self, key: &str) -> Self {
        let from = kept(key);
        // The next text in byte order.
        Self { to: Some(format!("{from}\0")), from, ..self }
    }

    /// Selects keys from this one on.
    #[must_use]
    pub fn from(self, key: impl Into<String>) -> Self {
        Self { from: key.into(), ..self }
    }

    /// Selects keys before this one.
    #[must_use]
    pub fn to(self, key: impl Into<String>) -> Self {
        Self { to: Some(key.into()), ..self }
    }

    /// Selects lines from this number on, for a projection by line.
    #[must_use]
    pub fn lines_from(self, number: u64) -> Self {
        Self { lines_from: number, ..self }
    }

    /// Selects this path and everything below it, in addition to paths that were selected before.
    #[must_use]
    pub fn within(mut self, path: impl Into<TreePath>) -> Self {
        self.within.push(path.into());
        self
    }

    /// Selects these paths and everything below them; everywhere if there are none.
    #[must_use]
    pub fn within_any(self, paths: impl IntoIterator<Item = TreePath>) -> Self {
        Self { within: paths.into_iter().collect(), ..self }
    }

    /// Continues after this position; from the start for `None`.
    #[must_use]
    pub fn after(self, after: impl Into<Option<FindCursor>>) -> Self {
        Self { after: after.into(), ..self }
    }

    /// Sets the limit on the items, 1 to [`MAX_PAGE`](super::MAX_PAGE).
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Checks the limit.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to [`MAX_PAGE`](super::MAX_PAGE).
    pub fn check(&self) -> Result<()> {
        check_limit(self.limit)
    }

    /// Returns the key, as it is stored, if only one is asked for.
    #[doc(hidden)]
    pub fn one_key(&self) -> Option<&str> {
        // As `equal` sets the range: no other text is between a key and the key with a NUL.
        let is_one = self.to.as_ref().is_some_and(|to| to.strip_suffix('\0') == Some(&self.from));
        is_one.then_some(&self.from)
    }

    /// Returns true if the query asks for the ends of files, for a projection by line.
    #[doc(hidden)]
    pub fn is_of_ends(&self) -> bool {
        // Lines have no empty keys, so the empty one stands for the end of a file.
        self.one_key() == Some("")
    }

    /// Returns true if the query asks for a key, as it is stored.
    #[doc(hidden)]
    pub fn has(&self, key: &str) -> bool {
        *key >= *self.from && self.to.as_ref().is_none_or(|to| *key < **to)
    }
}

/// Position of a find, which belongs to the filesystem and the query that returned it. It may contain keys
/// and paths that the caller does not reach, so it is opaque, and an interface stores or seals it.
#[derive(Clone, PartialEq, Eq)]
pub struct FindCursor {
    /// Index of the store, for a view of several, in the order in which the view asks them.
    pub(crate) part: usize,
    /// Row of that store after which to continue; `None` for its first one.
    pub(crate) behind: Option<FindPlace>,
    /// Number of paths that were returned of the next row, for a view that shows a row at several places.
    pub(crate) given: usize,
}

/// Position in the order of keys of one store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
pub struct FindPlace {
    /// Key as it is stored.
    pub key: String,
    /// Inode.
    pub ino: u64,
    /// Line; 0 for a projection that is not by line.
    pub line: u64,
    /// Last path that was returned, as a directory and a name; `None` if the row is done.
    pub path: Option<(String, String)>,
}

impl FindPlace {
    /// Returns true if a row, or some of its paths, follow a position.
    #[doc(hidden)]
    pub fn is_behind(&self, place: &Self) -> bool {
        let row = |place: &Self| (place.key.clone(), place.ino, place.line);
        match row(self).cmp(&row(place)) {
            // The page ended among the paths of this row.
            Ordering::Equal => place.path.is_some(),
            order => order == Ordering::Greater,
        }
    }
}

impl FindCursor {
    /// Returns the position as bytes, for an interface that seals them. They are not sealed: never hand them
    /// out. Their number does not depend on the key of a row that is done.
    #[doc(hidden)]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BLOCK);
        put_number(&mut bytes, self.part as u64);
        put_number(&mut bytes, self.given as u64);
        bytes.push(u8::from(self.behind.is_some()));
        if let Some(FindPlace { key, ino, line, path }) = &self.behind {
            put_number(&mut bytes, *ino);
            put_number(&mut bytes, *line);
            put_text(&mut bytes, key);
            bytes.push(u8::from(path.is_some()));
            if let Some((dir, name)) = path {
                put_text(&mut bytes, dir);
                put_text(&mut bytes, name);
            }
        }
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes
    }

    /// Returns the position from [`to_bytes`](Self::to_bytes); `None` for any other bytes.
    #[doc(hidden)]
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let (part, given) = (take_number(bytes)?, take_number(bytes)?);
        let behind = match take_flag(bytes)? {
            true => {
                let (ino, line) = (take_number(bytes)?, take_number(bytes)?);
                let key = take_text(bytes)?;
                let path = match take_flag(bytes)? {
                    true => Some((take_text(bytes)?, take_text(bytes)?)),
                    false => None,
                };
                Some(FindPlace { key, ino, line, path })
            }
            false => None,
        };
        let is_end = bytes.len() < BLOCK && bytes.iter().all(|byte| *byte == 0);
        let (part, given) = (usize::try_from(part).ok()?, usize::try_from(given).ok()?);
        is_end.then_some(Self { part, behind, given })
    }

    /// Returns the position after a row of a store.
    #[doc(hidden)]
    pub fn behind(place: FindPlace) -> Self {
        Self { part: 0, behind: Some(place), given: 0 }
    }

    /// Returns the row of a store after which the position is.
    ///
    /// # Errors
    /// `InvalidArgument` for the cursor of a view.
    #[doc(hidden)]
    pub fn place(&self) -> Result<Option<&FindPlace>> {
        match self {
            Self { part: 0, behind, given: 0 } => Ok(behind.as_ref()),
            _ => Err(Error::invalid("the cursor belongs to another filesystem; start again without it")),
        }
    }
}

fn put_number(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend(number.to_le_bytes());
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_number(bytes, text.len() as u64);
    bytes.extend(text.as_bytes());
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}

fn take_flag(bytes: &mut &[u8]) -> Option<bool> {
    let (flag, rest) = bytes.split_first()?;
    *bytes = rest;
    match flag {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let len = usize::try_from(take_number(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

impl std::fmt::Debug for FindCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FindCursor").finish_non_exhaustive()
    }
}

/// Page of results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FindAnswer {
    /// Results by key, inode, line and path (directory, then name): one for each path of a node within reach.
    /// In a view of several stores, one store after the other.
    pub items: Vec<FindItem>,
    /// Position at which to continue, if there may be more. One call looks at a bounded number of keys: a
    /// page with few items, or none, is not always the last one.
    pub next: Option<FindCursor>,
}

/// Key, and the node that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FindItem {
    /// Key as it is stored.
    pub key: String,
    /// Path of the node.
    pub path: TreePath,
    /// Inode.
    pub ino: Ino,
    /// Line that has the key, for a projection by line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<FindLine>,
}

impl FindAnswer {
    /// Returns a page, for an engine in another crate.
    #[doc(hidden)]
    pub fn new(items: Vec<FindItem>, next: Option<FindCursor>) -> Self {
        Self { items, next }
    }
}

impl FindItem {
    /// Returns an item, for an engine in another crate. `line` is the number and the bytes of its line.
    #[doc(hidden)]
    pub fn new(key: String, path: TreePath, ino: Ino, line: Option<(u64, Range<u64>)>) -> Self {
        let line = line.map(|(number, bytes)| FindLine { number, bytes });
        Self { key, path, ino, line }
    }

    /// Returns the position in the order of the store.
    pub(crate) fn place(&self) -> FindPlace {
        // The root has no name.
        let (dir, name) = self.path.key().rsplit_once('/').unwrap_or(("", "/"));
        let (path, line) =
            ((dir.to_owned(), name.to_owned()), self.line.as_ref().map_or(0, |line| line.number));
        FindPlace { key: self.key.clone(), ino: self.ino.0, line, path: Some(path) }
    }
}

/// Line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FindLine {
    /// Number of the line; the first is 1.
    pub number: u64,
    /// Bytes of the line, without the line feed.
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
    fn long_key_is_unique_and_keeps_its_order() {
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
    fn cursor_reads_back_from_its_bytes() {
        let place = FindPlace {
            key: "k\0é".to_owned(),
            ino: u64::MAX,
            line: 7,
            path: Some(("/a".to_owned(), "b".to_owned())),
        };
        let cursor = FindCursor { part: 2, behind: Some(place), given: 3 };
        assert_eq!(FindCursor::from_bytes(&cursor.to_bytes()), Some(cursor));
        let start = FindCursor { part: 1, behind: None, given: 0 };
        assert_eq!(FindCursor::from_bytes(&start.to_bytes()), Some(start.clone()));
        let mut more = start.to_bytes();
        *more.last_mut().unwrap() = 1;
        for other in [&b""[..], b"{}", b"[1]", b"\xff", &[0xff; BLOCK], &[0; BLOCK + 17], &more[..]] {
            assert_eq!(FindCursor::from_bytes(other), None);
        }
    }

    #[test]
    fn length_of_cursor_hides_key_of_row() {
        let cursor = |key: &str| {
            let place = FindPlace { key: kept(key), ino: u64::MAX, line: u64::MAX, path: None };
            FindCursor::behind(place)
        };
        for key in [String::new(), "k".to_owned(), "k".repeat(MAX_KEY), "\0".repeat(2 * MAX_KEY)] {
            let written = cursor(&key);
            assert_eq!(written.to_bytes().len(), BLOCK, "{}", key.len());
            assert_eq!(FindCursor::from_bytes(&written.to_bytes()), Some(written));
        }
    }

    #[test]
    fn find_query_matches_only_its_keys() {
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
