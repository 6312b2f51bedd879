//! Overlays that an account keeps: their upper layers lie in its hidden directory, with what they are over.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::apply::{Applied, Side};
use super::places::ABOUT;
use super::{Difference, Overlay};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::store;
use crate::fs::{AccountStore, FileSystem, FileSystemExt as _};
use crate::model::{
    At, Batch, ByteRange, Commit, Confinement, Listing, Moment, NamesPage, Op, Owner, Page, Precondition,
    Seq, Within,
};
use crate::path::{Name, SYSTEM, TreePath, check_id};
use crate::view::Scope;

/// What a stored overlay is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lower {
    /// A directory of the account.
    pub root: TreePath,
    /// As it was after this commit, so that what others change does not show: a fork. `None`: as it is.
    pub as_of: Option<Seq>,
}

/// One stored overlay of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredInfo {
    /// Its id.
    pub id: String,
    /// What it is over.
    pub lower: Lower,
}

/// An overlay that an account keeps under an id: 1 to 128 bytes without `/` and control characters, not `.`
/// or `..`. Its upper layer lies in `/.garth/overlays/{id}`, which no handle to the account shows but
/// [`AccountStore::raw`], and has an owner of its own.
#[derive(Clone, Debug)]
pub struct Stored {
    info: StoredInfo,
    overlay: Arc<Overlay>,
    /// The lower tree as it is now.
    now: Arc<dyn FileSystem>,
}

impl Stored {
    /// Makes one, in a commit with author, message and other fields of `batch`, whose operations and
    /// preconditions are not used.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad id; `AlreadyExists` if there is one; `NotFound`, `NotADirectory` or `Gone`
    /// if the lower layer is not there; those of [`store::system`] and [`FileSystem::commit`].
    pub async fn create(
        account: &dyn AccountStore,
        id: &str,
        lower: &Lower,
        batch: &Batch,
    ) -> Result<Commit> {
        let dir = place(id)?;
        layer(account, &lower.root, lower.as_of).await?;
        let raw = store::system(account).await?;
        let about = serde_json::to_vec(lower)
            .map_err(|error| Error::invalid("what an overlay is over cannot be kept").with_source(error))?;
        let file = dir.join(&Name::parse(ABOUT)?)?;
        let batch = Batch {
            ops: vec![Op::mkdir(dir.clone()).with_parents(), Op::write(file, about).create_new()],
            preconditions: vec![(At::Path(dir), Precondition::Absent)],
            ..batch.clone()
        };
        raw.commit(batch).await.map_err(|error| match error.kind() {
            ErrorKind::Conflict => {
                Error::new(ErrorKind::AlreadyExists, format!("{id}: there is such an overlay"))
            }
            _ => error,
        })
    }

    /// One that is there.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad id; `NotFound` if there is none, or its lower layer is gone.
    pub async fn open(account: &dyn AccountStore, id: &str) -> Result<Self> {
        let (dir, raw) = (place(id)?, kept(account, id).await?);
        let lower = about(&*raw, id).await?;
        let upper = Scope::open_as(&*raw, &dir, Owner::new(&format!("overlay {id}"))?).await?;
        let below = layer(account, &lower.root, lower.as_of).await?;
        let now = match lower.as_of {
            Some(_) => layer(account, &lower.root, None).await?,
            None => Arc::clone(&below),
        };
        let mut overlay = Overlay::of_layers(below, upper).await?;
        if lower.root.is_root() {
            // this name is kept for garth there: what is made by it could not be applied
            let within = Within::everything().without([TreePath::parse(SYSTEM)?]);
            overlay = overlay.part(&Confinement::new(within, Owner::new("tree")?)).await?;
        }
        let overlay = Arc::new(overlay);
        Ok(Self { info: StoredInfo { id: id.to_owned(), lower }, overlay, now })
    }

    /// A page of those that the account has, by id in byte order.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to `MAX_PAGE`; from the storage.
    pub async fn list(account: &dyn AccountStore, page: &Page) -> Result<Listing<StoredInfo>> {
        let nothing = Listing { items: Vec::new(), more: false };
        let Some(raw) = store::system_of(account).await? else { return Ok(nothing) };
        let dir = At::Path(overlays()?);
        if raw.lookup(dir.clone()).await?.is_none() {
            return Ok(nothing);
        }
        let names = raw.list(&dir, &Page { entries: false, ..page.clone() }).await?;
        let (mut items, more) = (Vec::new(), names.more);
        for item in names.items {
            match about(&*raw, item.name.as_str()).await {
                Ok(lower) => items.push(StoredInfo { id: item.name.to_string(), lower }),
                // discarded meanwhile
                Err(error) if error.is(ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Listing { items, more })
    }

    /// Removes one with all that was changed in it: one commit, with the fields of `batch` as for
    /// [`Stored::create`].
    ///
    /// # Errors
    /// `InvalidArgument` for a bad id; `NotFound` if there is none; those of [`FileSystem::commit`].
    pub async fn discard(account: &dyn AccountStore, id: &str, batch: &Batch) -> Result<Commit> {
        let (dir, raw) = (place(id)?, kept(account, id).await?);
        about(&*raw, id).await?;
        let batch = Batch { ops: vec![Op::remove_tree(dir)], preconditions: Vec::new(), ..batch.clone() };
        raw.commit(batch).await.map_err(|error| missing_or(id, error))
    }

    /// Its id, and what it is over.
    pub fn info(&self) -> &StoredInfo {
        &self.info
    }

    /// Its tree.
    pub fn tree(&self) -> Arc<dyn FileSystem> {
        Arc::<Overlay>::clone(&self.overlay)
    }

    /// As [`Overlay::diff`].
    ///
    /// # Errors
    /// As there.
    pub async fn diff(&self, page: &NamesPage) -> Result<Listing<Difference>> {
        self.overlay.diff(page).await
    }

    /// As [`Overlay::apply`], to the account as it is now. A fork shows again what it began with then.
    ///
    /// # Errors
    /// As there.
    pub async fn apply(&self, side: Side, batch: &Batch) -> Result<Applied> {
        self.overlay.apply_to(&self.now, side, batch).await
    }
}

fn overlays() -> Result<TreePath> {
    Ok(TreePath::parse(SYSTEM)?.join(&Name::parse("overlays")?)?)
}

/// Where the upper layer of an overlay lies.
fn place(id: &str) -> Result<TreePath> {
    check_id("overlay", id)?;
    Ok(overlays()?.join(&Name::parse(id)?)?)
}

/// The account with what it keeps, if that can have an overlay.
async fn kept(account: &dyn AccountStore, id: &str) -> Result<Arc<dyn FileSystem>> {
    store::system_of(account).await?.ok_or_else(|| no_overlay(id))
}

/// A directory of the account, now or then.
async fn layer(
    account: &dyn AccountStore,
    root: &TreePath,
    as_of: Option<Seq>,
) -> Result<Arc<dyn FileSystem>> {
    match as_of {
        Some(seq) => Scope::open(&*account.as_of(&Moment::Seq(seq)).await?, root).await,
        None => Scope::open(account, root).await,
    }
}

/// What an overlay is over, as it is kept.
async fn about(raw: &dyn FileSystem, id: &str) -> Result<Lower> {
    let file = place(id)?.join(&Name::parse(ABOUT)?)?;
    let (_, text) =
        raw.fetch(&At::Path(file.clone()), ByteRange::ALL).await.map_err(|error| missing_or(id, error))?;
    serde_json::from_slice(&text).map_err(|error| {
        Error::at(ErrorKind::Corrupt, &file, "does not say what the overlay is over").with_source(error)
    })
}

fn missing_or(id: &str, error: Error) -> Error {
    if error.is_absent() { no_overlay(id) } else { error }
}

fn no_overlay(id: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{id}: no such overlay"))
}
