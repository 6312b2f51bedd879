//! Differences between an overlay and a lower tree.

use super::Overlay;
use super::base::digest;
use super::cursor::{Base, Cursor, Place};
use crate::error::Result;
use crate::fs::FileSystem;
use crate::fs::restore::{MAX_COMPARED, difference};
use crate::model::entry::is_own;
use crate::model::{At, ByteRange, Entry, Filling, Kind, Listing, NamesPage, SetAttrs, Weigh, check_limit};
use crate::path::TreePath;

/// Bytes of two files compared at a time.
const STEP: u64 = 1 << 20;

/// One path at which an overlay differs from its lower layer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Path in the tree.
    pub path: TreePath,
    /// Kind of the difference.
    pub change: DifferenceKind,
    /// Kind of the node that the overlay shows; for a removed path, of the node in the lower layer.
    pub kind: Kind,
}

/// Difference between an overlay and its lower layer at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// The path is missing in the lower layer.
    Added,
    /// Both have the path, and content, kind, attributes or links differ.
    Modified,
    /// The overlay does not show the path. Paths below it are not listed.
    Removed,
}

impl Weigh for Difference {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.path.as_str().len()
    }
}

/// Change that gives the lower tree what the overlay shows at a place.
#[derive(Debug)]
pub(super) enum Change {
    Added,
    Removed,
    /// Another node took the place.
    Replaced,
    /// The file has other content, and perhaps other attributes.
    Content,
    Attributes(Box<SetAttrs>),
}

impl Overlay {
    /// Returns a page of the paths at which the overlay differs from its lower layer: depth first, names in
    /// byte order. A node that was only copied up does not differ. Of a removed directory only the top is
    /// listed.
    ///
    /// A file of at most [`MAX_COMPARED`] bytes is read and compared; a larger one that was copied up counts
    /// as modified. The cost grows with the upper layer, not with the lower one.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to `MAX_PAGE`; errors of the layers.
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

    /// Returns the change at a place; `None` if the overlay and the lower tree agree.
    pub(super) async fn change(&self, place: &Place, lower: &dyn FileSystem) -> Result<Option<Change>> {
        let (shown, below) = match (&place.shown, &place.lower) {
            (None, None) => return Ok(None),
            (Some(_), None) => return Ok(Some(Change::Added)),
            (None, Some(_)) => return Ok(Some(Change::Removed)),
            (Some(shown), Some(below)) => (shown, below),
        };
        // The lower layer shows here.
        let Some(above) = &place.above else { return Ok(None) };
        let is_node = |entry: &Entry| (entry.kind, entry.target.clone(), entry.rdev);
        if is_node(shown) != is_node(below) {
            return Ok(Some(Change::Replaced));
        }
        if shown.is_dir() {
            // Attributes as they were copied up: if they differ, others changed them in the lower layer.
            let was = match &place.base {
                Base::Directory(was) => *was == digest(shown)?,
                _ => false,
            };
            return Ok(if was { None } else { attributes(shown, below).map(Change::Attributes) });
        }
        // Names of one node must stay names of one node: with several, only the copy of that very node is the
        // same.
        let is_same = self.origin(above) == Some(below.ino) || (shown.nlink == 1 && below.nlink == 1);
        if !is_same {
            return Ok(Some(Change::Replaced));
        }
        if shown.is_file() && !self.has_content(&place.path, shown, below, lower).await? {
            return Ok(Some(Change::Content));
        }
        Ok(attributes(shown, below).map(Change::Attributes))
    }

    /// Returns true if a file of the upper layer and one of the lower tree have equal content.
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
            // Empty: the file became shorter after `shown` was read. The loop would not end.
            if above.is_empty() || above != lower.read(&other, range).await? {
                return Ok(false);
            }
            range.offset += above.len() as u64;
        }
        Ok(true)
    }
}

/// Returns the changes that give a lower node the attributes that the overlay shows; `None` if it has them.
pub(super) fn attributes(shown: &Entry, below: &Entry) -> Option<Box<SetAttrs>> {
    let expires_at = shown.expires_at.filter(|_| !shown.is_dir());
    let mut attrs = difference(shown, below, expires_at)?;
    attrs.xattrs.retain(|name, _| !is_own(name));
    attrs.metadata.retain(|name, _| !is_own(name));
    // It changes with the names in the directory; apply sets it for those (`touch`).
    if shown.is_dir() {
        attrs.mtime = None;
    }
    (attrs != SetAttrs::default()).then(|| Box::new(attrs))
}
