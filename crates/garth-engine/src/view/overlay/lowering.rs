//! A batch on its way through an overlay: what it changes is copied up first, what it takes away is hidden.

use std::sync::Arc;

use async_trait::async_trait;
use sha2::{Digest, Sha256};

use super::layers::{Found, Node, no_past};
use super::up::Changed;
use super::{LOWER, Overlay, UPPER};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::lower::{Lowered, Lowering, Store, StoreId};
use crate::model::{Access, At, Entry, Ino, MAX_HASHED, Op, Precondition, Within};
use crate::path::TreePath;
use crate::view::lower::Through;

/// See the module.
#[derive(Debug)]
pub(super) struct OverlayLowering {
    /// The tree, however little of it is shown: what is done besides is done in all of it.
    overlay: Overlay,
    /// What is shown.
    shown: Overlay,
    upper: Box<dyn Lowering>,
    changed: Changed,
    /// What of the upper layer is shown, if not all.
    within: Option<Within>,
    /// The handle that reads, if not all is shown.
    held: Box<dyn Lowering>,
    /// Bytes that conditions on hashes have asked to read.
    hashed: u64,
    /// Whether what the operation writes is to expire.
    expires: bool,
}

/// What an address leads to.
enum Spot {
    /// A path, whatever is there.
    Path(TreePath),
    /// A node of the upper layer, by its number there, or a name in one that has no path.
    Upper(At),
}

impl OverlayLowering {
    pub(super) fn new(shown: Overlay) -> Self {
        let (upper, within) = (Arc::clone(&shown.whole), Within::everything());
        let overlay = Overlay { upper, within, ..shown.clone() };
        let upper = overlay.whole.view_base().lowering();
        let held = shown.upper.view_base().lowering();
        Self {
            overlay,
            shown,
            upper,
            changed: Changed::default(),
            within: None,
            held,
            hashed: 0,
            expires: false,
        }
    }

    async fn spot(&self, at: &At) -> Result<Spot> {
        let overlay = &self.shown;
        match at {
            At::Path(path) => Ok(Spot::Path(path.clone())),
            At::Node(Ino::ROOT) => Ok(match self.root().await? {
                Ino::NONE => Spot::Path(TreePath::root()),
                root => Spot::Upper(At::Node(root)),
            }),
            At::Node(ino) => Ok(match overlay.node(*ino).await {
                Ok(Node::Upper(raw)) => Spot::Upper(At::Node(raw)),
                Ok(Node::Lower(_, path)) => Spot::Path(path),
                // what the store makes of it is its answer
                Err(error) if error.is(ErrorKind::NotFound) => Spot::Upper(At::Node(Ino::NONE)),
                Err(error) => return Err(error),
            }),
            At::Child(dir, name) => Ok(match overlay.path_of(*dir).await {
                Ok(Some(dir)) => Spot::Path(dir.join(name)?),
                Err(error) if !error.is(ErrorKind::NotFound) => return Err(error),
                Ok(None) | Err(_) => Spot::Upper(At::Child(Ino::NONE, name.clone())),
            }),
        }
    }

    /// The root by its number in the upper layer; `NONE` if nothing has been written yet.
    async fn root(&self) -> Result<Ino> {
        Ok(self.overlay.look_upper(&TreePath::root()).await?.map_or(Ino::NONE, |entry| entry.ino))
    }

    /// An address of the upper layer, of which the caller reaches what is shown. What is done besides reaches
    /// all of it.
    async fn shown(&mut self, mut lowered: Lowered) -> Result<Lowered> {
        if self.shown.within.is_everything() {
            return Ok(lowered);
        }
        let shown = match &self.within {
            Some(shown) => shown,
            None => {
                let mut shown = Within::nothing();
                // what is left out of a subtree comes behind its top, and an island behind that
                for (path, inside) in self.shown.within.named() {
                    let tops = self.upper.tops(&self.overlay.tree(path)?).await?;
                    let tops = tops.into_iter().filter(|(id, _)| *id == lowered.store.id).map(|(_, top)| top);
                    shown = if inside { shown.with(tops) } else { shown.without(tops) };
                }
                self.within.insert(shown)
            }
        };
        lowered.store.within = lowered.store.within.intersect(shown);
        // what is held open is held by the handle that reads
        lowered.besides.push(self.held.home());
        Ok(lowered)
    }

    /// Makes ready for an operation at a path; gives what must be done after it.
    async fn ready(&mut self, path: &TreePath, access: Access) -> Result<()> {
        let Self { overlay, changed, .. } = self;
        overlay.begin(changed).await?;
        let below = overlay.below_then(path, changed).await?;
        let above = match changed.up.contains(path) {
            // as it is copied
            true => below.clone(),
            false => match overlay.look(path).await {
                Ok(Found::Upper(entry)) => Some(entry),
                Ok(Found::Lower(_)) => None,
                Err(error) if error.is_absent() => None,
                Err(error) => return Err(error),
            },
        };
        let is_up = changed.up.contains(path) || above.is_some();
        let was_below = below.is_some();
        if !changed.up.contains(path) {
            // an upper layer that is applied or discarded is empty all at once
            let there = if above.is_some() { Some(path.clone()) } else { overlay.upper_parent(path).await? };
            if let Some(there) = there
                && changed.there.insert(there.clone())
            {
                changed.assumptions.push((At::Path(overlay.tree(&there)?), Precondition::Exists));
            }
        }
        let merged = match (below, above) {
            (Some(below), None) if !is_up => {
                overlay.bring(path, &below, changed).await?;
                below.is_dir()
            }
            (Some(below), Some(above)) => below.is_dir() && above.is_dir(),
            (Some(_), None) | (None, _) => {
                let makes = matches!(access, Access::Create | Access::Replace | Access::Exchange);
                if makes || (!is_up && overlay.is_behind_a_file(path).await?) {
                    overlay.bring_parents(path, changed).await?;
                }
                false
            }
        };
        let makes = access == Access::Create && !is_up && !was_below;
        let touched = path.parent().filter(|_| makes || takes_name(access));
        match access {
            _ if !merged => Ok(()),
            Access::Move | Access::Exchange | Access::ReadTree => overlay.bring_tree(path, changed).await,
            Access::Remove | Access::Replace => overlay.bring_one(path, changed).await,
            _ => Ok(()),
        }?;
        changed.touched.extend(touched);
        Ok(())
    }

    /// What is to be done now, in the store.
    async fn through(&mut self) -> Result<Through> {
        let Changed { ops, assumptions, .. } = &mut self.changed;
        let (ops, assumptions) = (std::mem::take(ops), std::mem::take(assumptions));
        let through = Through::of(&mut *self.upper, ops, assumptions).await;
        through.map_err(|error| self.overlay.of_upper(error))
    }

    /// What keeps the lower layer from showing at a path whose name is taken away or replaced; and what was
    /// there for this operation alone goes.
    async fn hide_after(&mut self, path: &TreePath, access: Access) -> Result<()> {
        // what expires uncovers nothing
        if (takes_name(access) || (self.expires && access.changes()))
            && let Some(below) = self.overlay.below_then(path, &self.changed).await?
        {
            self.overlay.hide(path, below.version, &mut self.changed).await?;
        }
        // to remove nothing may be fine
        match access {
            Access::Remove | Access::RemoveTree => self.overlay.clear(&mut self.changed).await,
            _ => Ok(()),
        }
    }

    /// What an address is in the upper layer.
    async fn address(&mut self, at: &At, access: Access) -> Result<Lowered> {
        if matches!(access, Access::ReadPast | Access::Snapshot) {
            return Err(no_past());
        }
        let by_number = matches!(at, At::Node(_));
        let path = match self.spot(at).await? {
            Spot::Upper(raw) => {
                let mut lowered = self.upper.lower(&raw, access).await;
                if let (Ok(lowered), At::Node(ino)) = (&mut lowered, at) {
                    lowered.shown.ino = Some(*ino);
                }
                return lowered.map_err(|error| self.overlay.of_upper(error));
            }
            Spot::Path(path) => path,
        };
        if by_number && !matches!(access, Access::Read | Access::ReadTree | Access::Write | Access::Link) {
            // an operation that takes no number must be given one, to refuse it
            let root = At::Node(Ino::ROOT);
            return self.upper.lower(&root, access).await.map_err(|error| self.overlay.of_upper(error));
        }
        if !self.shown.within.contains(&path) {
            // the layer is confined to what is there: nothing is found
            let lowered = self.upper.lower(&At::Path(self.overlay.tree(&path)?), access).await;
            return lowered.map_err(|error| self.overlay.of_upper(error));
        }
        if path.is_root() && takes_name(access) {
            return Err(Error::at(ErrorKind::Busy, &path, "the root cannot be removed, moved or replaced"));
        }
        let is_lower = matches!(self.overlay.look(&path).await, Ok(Found::Lower(_)));
        if access.changes() || access == Access::ReadTree || is_lower {
            self.ready(&path, access).await?;
        }
        let before = self.through().await?;
        let lowered = self.upper.lower(&At::Path(self.overlay.tree(&path)?), access).await;
        let mut lowered = lowered.map_err(|error| self.overlay.of_upper(error))?;
        self.hide_after(&path, access).await?;
        self.overlay.note_copies(&path, access, &mut self.changed);
        let after = self.through().await?;
        before.before(&mut lowered);
        after.after(&mut lowered);
        let known = match self.overlay.look(&path).await {
            Ok(found) if !self.changed.hides(&path) || self.changed.up.contains(&path) => {
                Some(self.overlay.entry(found, Some(&path)).await?.ino)
            }
            _ => None,
        };
        let replaces = matches!(access, Access::Create | Access::Replace | Access::Exchange);
        lowered.shown.ino = match (path.is_root(), known) {
            (true, _) => Some(Ino::ROOT),
            (false, Some(ino)) if !replaces || is_lower => Some(ino),
            (false, _) => None,
        };
        if !self.overlay.one_store {
            lowered.shown.tag = self.overlay.numbers.shown(UPPER, Ino(lowered.shown.tag)).0;
        }
        Ok(lowered)
    }

    /// Whether a condition holds for a node that is in the lower layer alone.
    async fn holds(&self, path: &TreePath, entry: &Entry, that: &Precondition) -> Result<bool> {
        let shown = self.overlay.lower_entry(entry.clone(), Some(path));
        Ok(match that {
            Precondition::Absent => false,
            Precondition::Exists => true,
            Precondition::Version(version) => shown.version == *version,
            Precondition::Etag(etag) => shown.etag == *etag,
            Precondition::EtagIn(etags) => etags.contains(&shown.etag),
            Precondition::Sha256(hash) => self.sha256(path, entry).await?.is_some_and(|is| is == *hash),
            Precondition::Not(that) => !Box::pin(self.holds(path, entry, that)).await?,
        })
    }

    async fn sha256(&self, path: &TreePath, entry: &Entry) -> Result<Option<[u8; 32]>> {
        if !entry.is_file() {
            return Ok(None);
        }
        let file = self.overlay.lower.open(&At::Path(path.clone())).await?;
        let (mut hash, mut offset) = (Sha256::new(), 0);
        loop {
            let bytes = file.read_at(offset, 1 << 20).await?;
            if bytes.is_empty() {
                return Ok(Some(hash.finalize().into()));
            }
            offset += bytes.len() as u64;
            hash.update(&bytes);
        }
    }
}

/// Whether a name is taken away from the node that has it.
fn takes_name(access: Access) -> bool {
    matches!(access, Access::Remove | Access::RemoveTree | Access::Move | Access::Exchange | Access::Replace)
}

#[async_trait]
impl Lowering for OverlayLowering {
    fn home(&self) -> Store {
        self.upper.home()
    }

    fn admit(&self, op: &Op) -> Result<()> {
        self.upper.admit(op)
    }

    fn begin(&mut self, expires: bool) {
        self.expires = expires;
        self.upper.begin(expires);
    }

    async fn lower(&mut self, at: &At, access: Access) -> Result<Lowered> {
        let lowered = self.address(at, access).await?;
        self.shown(lowered).await
    }

    async fn condition(&mut self, at: &At, that: &Precondition) -> Result<(Lowered, Precondition)> {
        if let Ok(Spot::Path(path)) = self.spot(at).await
            && !self.changed.up.contains(&path)
            && !self.changed.hides(&path)
            && self.shown.within.contains(&path)
            && let Ok(Found::Lower(entry)) = self.overlay.look(&path).await
        {
            // in the upper layer nothing is there: what holds below becomes what holds there
            if that.hashes() && entry.is_file() {
                self.hashed = self.hashed.saturating_add(entry.size);
                if self.hashed > MAX_HASHED {
                    let message =
                        format!("a commit hashes at most {MAX_HASHED} bytes; ask for the etag instead");
                    return Err(Error::at(ErrorKind::TooLarge, &path, message));
                }
            }
            let holds = self.holds(&path, &entry, that).await?;
            let at = At::Path(self.overlay.tree(&path)?);
            let lowered = self.upper.lower(&at, Access::Read).await;
            let mut lowered = lowered.map_err(|error| self.overlay.of_upper(error))?;
            lowered.assumptions.push((lowered.at.clone(), Precondition::Absent));
            let lowered = self.shown(lowered).await?;
            return Ok((lowered, if holds { Precondition::Absent } else { Precondition::Exists }));
        }
        let (lowered, mut that) = (self.lower(at, Access::Read).await?, that.clone());
        for version in that.versions() {
            version.ino = self.number(version.ino).await?;
        }
        Ok((lowered, that))
    }

    async fn number(&mut self, ino: Ino) -> Result<Ino> {
        let raw = match ino {
            Ino::ROOT => self.root().await?,
            _ => match self.shown.node(ino).await {
                Ok(Node::Upper(raw)) => raw,
                Ok(Node::Lower(..)) => return Ok(Ino::NONE),
                Err(error) if error.is(ErrorKind::NotFound) => match self.overlay.numbers.node(ino) {
                    Some((layer, raw)) if layer != LOWER || self.overlay.one_store => raw,
                    _ => return Ok(Ino::NONE),
                },
                Err(error) => return Err(error),
            },
        };
        self.upper.number(raw).await
    }

    async fn tops(&mut self, top: &TreePath) -> Result<Vec<(StoreId, TreePath)>> {
        self.upper.tops(&self.overlay.tree(top)?).await
    }

    fn raise(&self, store: StoreId, path: &TreePath) -> Option<TreePath> {
        self.overlay.in_view(&self.upper.raise(store, path)?)
    }
}
