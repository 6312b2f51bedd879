//! A tree over another one: what is written goes to the upper layer, and the lower one stays as it is.

mod apply;
mod base;
mod cursor;
mod diff;
mod fetch;
mod handles;
mod layers;
mod lowering;
mod pages;
mod pair;
mod reads;
mod stored;
mod up;

pub use self::apply::{Applied, Side};
pub use self::diff::{Difference, DifferenceKind};
pub use self::stored::{Lower, Stored, StoredInfo};

use std::sync::Arc;

use sha2::{Digest, Sha256};

#[doc(hidden)]
pub use self::layers::Places;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::model::{At, Entry, Item, Page, SetAttrs, Within, hex};
use crate::path::TreePath;
use crate::view::numbers::Numbers;

/// A tree over another one. What is there below shows until it is changed, which copies it up with its names,
/// attributes and times, under its number; a name that is taken away is hidden, with all that is below it in
/// the lower layer.
///
/// The upper layer has three directories: `tree` for what was written, `hidden` for the paths of which the
/// lower layer shows nothing any more, at and below them, and `nodes` that says where the nodes of the lower
/// layer were copied to, by number.
///
/// It has the abilities of both layers, but no past: neither knows what the other showed at a time.
/// A directory that both layers have counts one link, since how many directories are in it is not known
/// without looking. A directory of the lower layer is renamed by copying up all that is in it, if the layers
/// are of one store; else that is `CrossesMounts`.
#[derive(Clone, Debug)]
pub struct Overlay {
    lower: Arc<dyn FileSystem>,
    upper: Arc<dyn FileSystem>,
    /// The upper layer with what is kept beside the tree, however little of the tree is shown.
    whole: Arc<dyn FileSystem>,
    places: Arc<Places>,
    /// Which overlay it is, as it is noted on what it copies up.
    id: Arc<str>,
    /// Whether both layers are of one store, now or in the past: then no two of their nodes have one number.
    one_store: bool,
    numbers: Arc<Numbers>,
    /// The paths that are there.
    within: Within,
}

impl Overlay {
    /// What is below in `lower`, and above it what `upper` keeps, which may be empty.
    ///
    /// # Errors
    /// `AlreadyExists` if `upper` has something else in it; from the layers.
    pub async fn open(lower: Arc<dyn FileSystem>, upper: Arc<dyn FileSystem>) -> Result<Arc<dyn FileSystem>> {
        check_upper(&*upper).await?;
        Self::layered(lower, upper, Places::below(&TreePath::root())?).await
    }

    /// The same as itself, which can also tell what it has changed, and apply it.
    ///
    /// # Errors
    /// As [`Overlay::open`].
    pub async fn of_layers(lower: Arc<dyn FileSystem>, upper: Arc<dyn FileSystem>) -> Result<Self> {
        check_upper(&*upper).await?;
        Self::new(lower, upper, Places::below(&TreePath::root())?).await
    }

    /// The same, where the upper layer has its things in these places.
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
        let mark = (!one_store).then(|| TreePath::parse("/upper")).transpose()?;
        let numbers = Arc::new(Numbers::new(mark.clone(), mark.map(|mark| (UPPER, mark))));
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

/// The layers by the number that [`Numbers`] knows them by.
const LOWER: usize = 0;
const UPPER: usize = 1;

/// Refuses an upper layer that has something else in it.
async fn check_upper(upper: &dyn FileSystem) -> Result<()> {
    let names = upper.list(&At::Path(TreePath::root()), &Page::default().limit(5)).await?;
    let is_known = |item: &Item| ["tree", "hidden", "nodes", stored::ABOUT].contains(&item.name.as_str());
    if names.items.iter().all(is_known) {
        return Ok(());
    }
    let message = "the upper layer has something else in it; give an empty directory";
    Err(Error::new(ErrorKind::AlreadyExists, message))
}

/// What a copy has of a node besides its content.
fn carried(entry: &Entry) -> SetAttrs {
    let attributes = &entry.attributes;
    let of_directory = entry.is_dir();
    SetAttrs {
        // not every store has modes of links
        mode: (entry.target.is_none() || entry.mode != 0o777).then_some(entry.mode),
        uid: Some(entry.uid),
        gid: Some(entry.gid),
        atime: Some(entry.atime),
        mtime: Some(entry.mtime),
        content_type: attributes.content_type.clone().map(Some),
        tags: (!attributes.tags.is_empty()).then(|| attributes.tags.clone()),
        importance: (attributes.importance != 0.0).then_some(attributes.importance),
        searchable: attributes.searchable.map(Some),
        metadata: attributes.metadata.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect(),
        xattrs: attributes.xattrs.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect(),
        expires_at: entry.expires_at.filter(|_| !of_directory).map(Some),
    }
}
