//! A tree over another one: what is written goes to the upper layer, and the lower one stays as it is.

mod handles;
mod layers;
mod lowering;
mod pages;
mod reads;
mod up;

use std::sync::Arc;

use self::layers::{HIDDEN, NODES, TREE};
use crate::error::{Error, Result};
use crate::fs::FileSystem;
use crate::model::{At, Batch, Entry, Op, SetAttrs, Within};
use crate::path::TreePath;
use crate::view::numbers::Numbers;

/// A tree over another one. What is there below shows until it is changed, which copies it up with its names,
/// attributes and times, under its number; a name that is taken away is hidden, with all that is below it in
/// the lower layer.
///
/// The upper layer has three directories: `tree` for what was written, `hidden` for the paths of which the
/// lower layer shows nothing any more, at and below them, and `nodes` for what was copied up, by number.
///
/// It has the abilities of both layers, but no past: neither knows what the other showed at a time.
/// A directory that both layers have counts one link, since how many directories are in it is not known
/// without looking. A directory of the lower layer is renamed by copying up all that is in it, if the layers
/// are of one store; else that is `CrossesMounts`.
#[derive(Clone, Debug)]
pub struct Overlay {
    lower: Arc<dyn FileSystem>,
    upper: Arc<dyn FileSystem>,
    /// Whether both layers are of one store: then no two of their nodes have one number.
    one_store: bool,
    numbers: Arc<Numbers>,
    /// The paths that are there.
    within: Within,
}

impl Overlay {
    /// What is below in `lower`, and above it what `upper` keeps, which is made ready if it is empty.
    ///
    /// # Errors
    /// `AlreadyExists` if `upper` has something else in it; from the layers.
    pub async fn open(lower: Arc<dyn FileSystem>, upper: Arc<dyn FileSystem>) -> Result<Arc<dyn FileSystem>> {
        make_ready(&*lower, &*upper).await?;
        let one_store = lower.lowering().home().id == upper.lowering().home().id;
        let mark = TreePath::parse("/upper")?;
        let marked = (!one_store).then(|| (UPPER, mark.clone()));
        let numbers = Arc::new(Numbers::new([mark], marked));
        Ok(Arc::new(Self { lower, upper, one_store, numbers, within: Within::everything() }))
    }
}

/// The layers by the number that [`Numbers`] knows them by.
const LOWER: usize = 0;
const UPPER: usize = 1;

/// Makes the directories of an upper layer that is empty.
async fn make_ready(lower: &dyn FileSystem, upper: &dyn FileSystem) -> Result<()> {
    let root = At::Path(TreePath::root());
    let names = upper.list(&root, &crate::model::Page::default().limit(4)).await?;
    let known = [HIDDEN, NODES, TREE];
    let found: Vec<String> = names.items.iter().map(|item| format!("/{}", item.name)).collect();
    if found == known {
        return Ok(());
    }
    if !found.is_empty() {
        let message = "the upper layer has something else in it; give an empty directory";
        return Err(Error::new(crate::error::ErrorKind::AlreadyExists, message));
    }
    let mut ops = Vec::new();
    for dir in known {
        ops.push(Op::mkdir(TreePath::parse(dir)?));
    }
    ops.push(Op::set_attrs(TreePath::parse(TREE)?, carried(&lower.stat(&root).await?)));
    upper.commit(Batch::new(ops)).await?;
    Ok(())
}

/// What a copy has of a node besides its content.
fn carried(entry: &Entry) -> SetAttrs {
    let attributes = &entry.attributes;
    let of_directory = entry.is_dir();
    SetAttrs {
        mode: (entry.target.is_none()).then_some(entry.mode),
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
