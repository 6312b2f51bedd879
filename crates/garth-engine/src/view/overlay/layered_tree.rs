//! The type `Overlay`: its layers and its state.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::places::Places;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::fs::forks::{ABOUT, TREE};
use crate::model::{At, Item, Page, Within, hex};
use crate::path::TreePath;
use crate::view::inode_map::InodeMap;

/// Indices of the layers in `Overlay::numbers`.
pub(super) const LOWER: usize = 0;
pub(super) const UPPER: usize = 1;

/// A tree over another one. The lower layer shows until something is changed. A change copies the node up,
/// with its names, attributes and times, under its inode. A removed name is hidden, with everything below it
/// in the lower layer.
///
/// The upper layer has three directories. `tree` holds what was written. `hidden` holds the paths at and
/// below which the lower layer no longer shows. `nodes` holds a note for each node that was copied up, named
/// by its inode, with the path of the copy.
///
/// An overlay has the capabilities that both layers have, but no past: neither layer knows what the other one
/// showed at a time. A directory that both layers have counts one link: counting the directories in it would
/// take a look into both. Renaming a directory of the lower layer copies up everything in it if both layers
/// are of one store, and fails with `CrossesMounts` otherwise.
#[derive(Clone, Debug)]
pub struct Overlay {
    pub(super) lower: Arc<dyn FileSystem>,
    /// The upper layer, confined to `within`.
    pub(super) upper: Arc<dyn FileSystem>,
    /// The upper layer with all of its three directories, whatever part of the tree is shown.
    pub(super) whole: Arc<dyn FileSystem>,
    pub(super) places: Arc<Places>,
    /// Identity of the overlay, noted on each node that it copies up.
    pub(super) id: Arc<str>,
    /// True if both layers are of one store, in the same or another state of it: then no two of their nodes
    /// have one inode.
    pub(super) one_store: bool,
    pub(super) numbers: Arc<InodeMap>,
    /// Paths of the tree that are shown.
    pub(super) within: Within,
}

impl Overlay {
    /// Opens the overlay of `lower` and `upper` as a filesystem. `upper` is empty, or was written by an
    /// overlay.
    ///
    /// # Errors
    /// `AlreadyExists` if `upper` has other entries than those of an overlay; errors of the layers.
    pub async fn open(lower: Arc<dyn FileSystem>, upper: Arc<dyn FileSystem>) -> Result<Arc<dyn FileSystem>> {
        check_upper(&*upper).await?;
        Self::layered(lower, upper, Places::below(&TreePath::root())?).await
    }

    /// Opens the overlay as [`Overlay::open`] does, for a caller that also compares and applies it.
    ///
    /// # Errors
    /// As [`Overlay::open`].
    pub async fn of_layers(lower: Arc<dyn FileSystem>, upper: Arc<dyn FileSystem>) -> Result<Self> {
        check_upper(&*upper).await?;
        Self::new(lower, upper, Places::below(&TreePath::root())?).await
    }

    /// Opens the overlay whose upper layer has its directories in `places`.
    #[doc(hidden)]
    pub async fn layered(
        lower: Arc<dyn FileSystem>,
        upper: Arc<dyn FileSystem>,
        places: Places,
    ) -> Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(Self::new(lower, upper, places).await?))
    }

    async fn new(lower: Arc<dyn FileSystem>, upper: Arc<dyn FileSystem>, places: Places) -> Result<Self> {
        let one_store =
            lower.view_base().lowering().home().id.is_one_with(upper.view_base().lowering().home().id);
        // Two stores give out the same inodes. Those of the upper layer are marked to keep them apart.
        let mark = (!one_store).then(|| TreePath::parse("/upper")).transpose()?;
        let numbers = Arc::new(InodeMap::new(mark.clone(), mark.map(|mark| (UPPER, mark))));
        // From the place in the store, so that each opening of an overlay gives it the same identity.
        let mut place = Sha256::new();
        for (_, path) in upper.view_base().lowering().tops(&places.nodes).await? {
            place.update(path.key());
            place.update("\n");
        }
        let id = hex(&place.finalize()[..8]).into();
        let (whole, places) = (Arc::clone(&upper), Arc::new(places));
        Ok(Self { lower, upper, whole, places, id, one_store, numbers, within: Within::everything() })
    }
}

/// Refuses an upper layer with entries that no overlay writes.
async fn check_upper(upper: &dyn FileSystem) -> Result<()> {
    // One more than there are known names.
    let names = upper.list(&At::Path(TreePath::root()), &Page::default().limit(5)).await?;
    let is_known = |item: &Item| [TREE, "hidden", "nodes", ABOUT].contains(&item.name.as_str());
    if names.items.iter().all(is_known) {
        return Ok(());
    }
    let message = "the upper layer contains other entries; use an empty directory";
    Err(Error::new(ErrorKind::AlreadyExists, message))
}
