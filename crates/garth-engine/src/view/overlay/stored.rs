//! Stored overlays: an account keeps their upper layers in its hidden directory, each with a description of
//! the lower layer.

use std::sync::Arc;

use super::apply::{Applied, Side};
use super::{Difference, Overlay};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::forks::{self, overlays};
use crate::fs::store;
use crate::fs::{AccountStore, FileSystem, FileSystemExt as _};
use crate::model::{
    At, Batch, ByteRange, Commit, Confinement, Listing, Moment, NamesPage, Op, Owner, Page, Precondition,
    Seq, Within,
};
use crate::path::{Name, SYSTEM, TreePath, check_id};
use crate::view::Scope;

pub use crate::fs::forks::LowerLayer;

/// Entry in a list of stored overlays.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredInfo {
    /// Id of the overlay.
    pub id: String,
    /// Lower layer of the overlay.
    pub lower: LowerLayer,
}

/// Overlay that an account stores under an id: 1 to 128 bytes without `/` and control characters, not `.` or
/// `..`. Its upper layer is `/.garth/overlays/{id}` and has an owner of its own. Among the handles to the
/// account only [`AccountStore::raw`] shows it.
#[derive(Clone, Debug)]
pub struct StoredOverlay {
    info: StoredInfo,
    overlay: Arc<Overlay>,
    /// Lower tree in its current state, to which changes are applied.
    now: Arc<dyn FileSystem>,
}

impl StoredOverlay {
    /// Creates an overlay, in a commit with author, message and other fields of `batch`, whose operations and
    /// preconditions are ignored.
    ///
    /// # Errors
    /// - `InvalidArgument`: the id is not valid.
    /// - `AlreadyExists`: the account has an overlay of this id.
    /// - `NotFound`, `NotADirectory` or `Gone`: the lower layer does not exist.
    /// - As [`store::system`] and [`FileSystem::commit`].
    pub async fn create(
        account: &dyn AccountStore,
        id: &str,
        lower: &LowerLayer,
        batch: &Batch,
    ) -> Result<Commit> {
        let dir = place(id)?;
        // Only checks that the lower layer exists.
        layer(account, &lower.root, lower.as_of).await?;
        let raw = store::system(account).await?;
        let about = serde_json::to_vec(lower).map_err(|error| {
            Error::invalid("the description of the lower layer cannot be stored").with_source(error)
        })?;
        let file = forks::about(&dir)?;
        let batch = Batch {
            ops: vec![Op::mkdir(dir.clone()).with_parents(), Op::write(file, about).create_new()],
            // With parents, `mkdir` would accept a directory that exists.
            preconditions: vec![(At::Path(dir.clone()), Precondition::Absent)],
            ..batch.clone()
        };
        let created = raw.commit(batch).await.map_err(|error| match error.kind() {
            ErrorKind::Conflict => {
                Error::new(ErrorKind::AlreadyExists, format!("{id}: an overlay of this id exists"))
            }
            _ => error,
        })?;
        // A collection that did not see the overlay may have ended its state since the first look.
        if let Err(gone) = layer(account, &lower.root, lower.as_of).await
            && gone.is(ErrorKind::Gone)
        {
            raw.commit(Op::remove_tree(dir).into()).await?;
            return Err(gone);
        }
        Ok(created)
    }

    /// Opens an overlay.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id; `NotFound` if there is no such overlay, or its lower layer was
    /// removed.
    pub async fn open(account: &dyn AccountStore, id: &str) -> Result<Self> {
        let (dir, raw) = (place(id)?, kept(account, id).await?);
        let lower = about(&*raw, id).await?;
        // An owner of its own, apart from that of the account and of other overlays.
        let upper = Scope::open_as(&*raw, &dir, Owner::new(&format!("overlay {id}"))?).await?;
        let below = layer(account, &lower.root, lower.as_of).await?;
        // A fork shows the past, but is applied to the present.
        let now = match lower.as_of {
            Some(_) => layer(account, &lower.root, None).await?,
            None => Arc::clone(&below),
        };
        let mut overlay = Overlay::of_layers(below, upper).await?;
        if lower.root.is_root() {
            // The name is reserved for garth in the root of an account: a change there could not be applied.
            let within = Within::everything().without([TreePath::parse(SYSTEM)?]);
            overlay = overlay.part(&Confinement::new(within, Owner::new("tree")?)).await?;
        }
        let overlay = Arc::new(overlay);
        Ok(Self { info: StoredInfo { id: id.to_owned(), lower }, overlay, now })
    }

    /// Returns a page of the overlays of an account, ordered by id in byte order.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to `MAX_PAGE`; errors of the storage.
    pub async fn list(account: &dyn AccountStore, page: &Page) -> Result<Listing<StoredInfo>> {
        let nothing = Listing { items: Vec::new(), more: false };
        let Some(raw) = store::system_of(account).await? else { return Ok(nothing) };
        let dir = At::Path(overlays()?);
        if raw.lookup(dir.clone()).await?.is_none() {
            return Ok(nothing);
        }
        let mut page = Page { entries: false, ..page.clone() };
        loop {
            let names = raw.list(&dir, &page).await?;
            let last = names.items.last().filter(|_| names.more).map(|item| item.name.clone());
            let mut items = Vec::new();
            for item in names.items {
                match about(&*raw, item.name.as_str()).await {
                    Ok(lower) => items.push(StoredInfo { id: item.name.to_string(), lower }),
                    // Discarded after the page was read.
                    Err(error) if error.is(ErrorKind::NotFound) => {}
                    Err(error) => return Err(error),
                }
            }
            match last {
                // The next page could not continue after an empty one.
                Some(last) if items.is_empty() => page.after = Some(last),
                last => return Ok(Listing { items, more: last.is_some() }),
            }
        }
    }

    /// Removes an overlay and everything that was changed in it, in one commit with the fields of `batch` as
    /// for [`StoredOverlay::create`].
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id; `NotFound` if there is no such overlay; as
    /// [`FileSystem::commit`].
    pub async fn discard(account: &dyn AccountStore, id: &str, batch: &Batch) -> Result<Commit> {
        let (dir, raw) = (place(id)?, kept(account, id).await?);
        about(&*raw, id).await?;
        let batch = Batch { ops: vec![Op::remove_tree(dir)], preconditions: Vec::new(), ..batch.clone() };
        raw.commit(batch).await.map_err(|error| missing_or(id, error))
    }

    /// Returns the id and the lower layer.
    pub fn info(&self) -> &StoredInfo {
        &self.info
    }

    /// Returns the tree that the overlay shows.
    pub fn tree(&self) -> Arc<dyn FileSystem> {
        Arc::<Overlay>::clone(&self.overlay)
    }

    /// Returns a page of the differences from the lower layer, as [`Overlay::diff`] does.
    ///
    /// # Errors
    /// As [`Overlay::diff`].
    pub async fn diff(&self, page: &NamesPage) -> Result<Listing<Difference>> {
        self.overlay.diff(page).await
    }

    /// Applies the changes to the current state of the account, as [`Overlay::apply`] does. Afterwards a fork
    /// shows the state that it began with.
    ///
    /// # Errors
    /// As [`Overlay::apply`].
    pub async fn apply(&self, side: Side, batch: &Batch) -> Result<Applied> {
        self.overlay.apply_to(&self.now, side, batch).await
    }
}

/// Returns the directory of an upper layer.
fn place(id: &str) -> Result<TreePath> {
    check_id("overlay", id)?;
    Ok(overlays()?.join(&Name::parse(id)?)?)
}

/// Returns the account with its hidden directory, or fails with `NotFound` if it has none.
async fn kept(account: &dyn AccountStore, id: &str) -> Result<Arc<dyn FileSystem>> {
    store::system_of(account).await?.ok_or_else(|| no_overlay(id))
}

/// Opens a directory of the account, as it is or as it was after a commit.
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

/// Reads the description of the lower layer.
async fn about(raw: &dyn FileSystem, id: &str) -> Result<LowerLayer> {
    let file = forks::about(&place(id)?)?;
    let (_, text) =
        raw.fetch(&At::Path(file.clone()), ByteRange::ALL).await.map_err(|error| missing_or(id, error))?;
    serde_json::from_slice(&text).map_err(|error| {
        Error::at(ErrorKind::Corrupt, &file, "does not describe the lower layer of the overlay")
            .with_source(error)
    })
}

fn missing_or(id: &str, error: Error) -> Error {
    if error.is_absent() { no_overlay(id) } else { error }
}

fn no_overlay(id: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{id}: no such overlay"))
}
