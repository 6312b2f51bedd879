//! What an overlay shows that differs from a lower tree.

use super::Overlay;
use super::base::digest;
use super::cursor::{Base, Cursor, Place};
use crate::error::Result;
use crate::fs::FileSystem;
use crate::fs::restore::{MAX_COMPARED, difference};
use crate::model::entry::is_own;
use crate::model::{At, ByteRange, Entry, Filling, Kind, Listing, NamesPage, SetAttrs, Weigh, check_limit};
use crate::path::TreePath;

/// Bytes of two files that are compared at once.
const STEP: u64 = 1 << 20;

/// One path at which an overlay differs from its lower layer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Where.
    pub path: TreePath,
    /// How.
    pub change: DifferenceKind,
    /// What the overlay shows there; of what is removed, what the lower layer has.
    pub kind: Kind,
}

/// How an overlay differs from its lower layer at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// The lower layer has nothing there.
    Added,
    /// Both have something, and content, kind, attributes or links differ.
    Modified,
    /// The overlay shows nothing there; what is below it is not listed.
    Removed,
}

impl Weigh for Difference {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.path.as_str().len()
    }
}

/// What makes a place of the lower tree what the overlay shows.
#[derive(Debug)]
pub(super) enum Change {
    Added,
    Removed,
    /// Another node is there.
    Replaced,
    /// The same file with other content, perhaps with other attributes.
    Content,
    Attributes(Box<SetAttrs>),
}

impl Overlay {
    /// A page of the paths at which this differs from its lower layer: depth first, names in byte order. What
    /// was only copied up is no difference; of a removed directory only the top is one.
    ///
    /// A file of at most [`MAX_COMPARED`] bytes is read to see whether it differs; a larger one that was
    /// copied up counts as modified. The cost grows with the upper layer, not with the lower one.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to `MAX_PAGE`; from the layers.
    pub async fn diff(&self, page: &NamesPage) -> Result<Listing<Difference>> {
        check_limit(page.limit)?;
        let mut filling = Filling::new(page.limit);
        let mut cursor = Cursor::new(self, &self.lower);
        if let Some(after) = &page.after {
            cursor.seek(after).await?;
        }
        while let Some(place) = cursor.next().await? {
            let Some(change) = self.change(&place, &*self.lower).await? else { continue };
            let change = match change {
                Change::Added => DifferenceKind::Added,
                Change::Removed => DifferenceKind::Removed,
                Change::Replaced | Change::Content | Change::Attributes(_) => DifferenceKind::Modified,
            };
            let Some(entry) = place.shown.as_ref().or(place.lower.as_ref()) else { continue };
            let kind = entry.kind;
            if !filling.push(Difference { path: place.path, change, kind }) {
                break;
            }
        }
        Ok(filling.done())
    }

    /// How a place of this tree differs from what is there below.
    pub(super) async fn change(&self, place: &Place, lower: &dyn FileSystem) -> Result<Option<Change>> {
        let (shown, below) = match (&place.shown, &place.lower) {
            (None, None) => return Ok(None),
            (Some(_), None) => return Ok(Some(Change::Added)),
            (None, Some(_)) => return Ok(Some(Change::Removed)),
            (Some(shown), Some(below)) => (shown, below),
        };
        let Some(above) = &place.above else { return Ok(None) };
        let is_node = |entry: &Entry| (entry.kind, entry.target.clone(), entry.rdev);
        if is_node(shown) != is_node(below) {
            return Ok(Some(Change::Replaced));
        }
        if shown.is_dir() {
            let was = match &place.base {
                Base::Directory(was) => *was == digest(shown)?,
                _ => false,
            };
            return Ok(if was { None } else { attributes(shown, below).map(Change::Attributes) });
        }
        // one of several names is the same only if all of them are
        let is_same = self.origin(above) == Some(below.ino) || (shown.nlink == 1 && below.nlink == 1);
        if !is_same {
            return Ok(Some(Change::Replaced));
        }
        if shown.is_file() && !self.has_content(&place.path, shown, below, lower).await? {
            return Ok(Some(Change::Content));
        }
        Ok(attributes(shown, below).map(Change::Attributes))
    }

    /// Whether a file of the upper layer has the content of one of the lower tree.
    async fn has_content(
        &self,
        path: &TreePath,
        shown: &Entry,
        below: &Entry,
        lower: &dyn FileSystem,
    ) -> Result<bool> {
        if shown.size != below.size || shown.size > MAX_COMPARED {
            return Ok(false);
        }
        let (one, other) = (At::Path(self.tree(path)?), At::Path(path.clone()));
        let mut range = ByteRange { offset: 0, length: STEP };
        while range.offset < shown.size {
            let above = self.whole.read(&one, range).await.map_err(|error| self.of_upper(error))?;
            if above.is_empty() || above != lower.read(&other, range).await? {
                return Ok(false);
            }
            range.offset += above.len() as u64;
        }
        Ok(true)
    }
}

/// What gives a node below the attributes that the overlay shows.
pub(super) fn attributes(shown: &Entry, below: &Entry) -> Option<Box<SetAttrs>> {
    let expires_at = shown.expires_at.filter(|_| !shown.is_dir());
    let mut attrs = difference(shown, below, expires_at)?;
    attrs.xattrs.retain(|name, _| !is_own(name));
    attrs.metadata.retain(|name, _| !is_own(name));
    if shown.is_dir() {
        attrs.mtime = None;
    }
    (attrs != SetAttrs::default()).then(|| Box::new(attrs))
}
