//! Lowering through an overlay: turns each address of a batch into one of the upper layer, with operations
//! before it that copy up the nodes that it changes, and operations after it that hide the names that it
//! takes away.
//!
//! Nothing of this is written before the batch is committed, and both layers show the state before the batch.
//! So each step first asks `Changed`, which remembers what the earlier operations will have done, and then
//! the layers.

use std::sync::Arc;

use async_trait::async_trait;
use sha2::{Digest, Sha256};

use super::Overlay;
use super::layered_tree::{LOWER, UPPER};
use super::layers::{Node, ShownEntry, no_past};
use super::up::Changed;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::lower::{LoweredAddress, Lowering, Store, StoreId};
use crate::model::{Access, At, Entry, Ino, MAX_HASHED, Op, Precondition, Within};
use crate::path::TreePath;
use crate::view::lower::LoweredOps;

/// One batch on its way down.
#[derive(Debug)]
pub(super) struct OverlayLowering {
    /// The overlay with all of its tree. Copies and hidden paths may be outside of the part that is shown,
    /// such as other names of a file, and the directories above it.
    overlay: Overlay,
    /// The overlay as the caller sees it. Addresses of the caller are looked up in it.
    shown: Overlay,
    /// Lowering of the upper layer, all of it.
    upper: Box<dyn Lowering>,
    changed: Changed,
    /// Part of the upper layer's store that the caller reaches. Read at the first address, if not all is
    /// shown.
    within: Option<Within>,
    /// Lowering of the handle that reads: of the upper layer confined to what is shown.
    held: Box<dyn Lowering>,
    /// Bytes of the lower layer that conditions on hashes have asked to read.
    hashed: u64,
    /// True if the operation being lowered gives what it writes a time to expire.
    expires: bool,
}

/// Place that an address leads to.
enum Spot {
    /// A path, in whichever layer, or missing.
    Path(TreePath),
    /// A node of the upper layer, by its inode there, or a name in one that has no path.
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

    /// Finds out where an address leads. A node of the lower layer becomes the first of its paths that show,
    /// because it is copied up by path.
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
                // No node has this inode, so the store refuses the operation as for any missing node.
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

    /// Returns the inode of the root in the upper layer; `NONE` if nothing has been written yet.
    async fn root(&self) -> Result<Ino> {
        Ok(self.overlay.look_upper(&TreePath::root()).await?.map_or(Ino::NONE, |entry| entry.ino))
    }

    /// Confines an address of the upper layer to what the caller is shown. The operations that are added
    /// reach all of the upper layer.
    async fn shown(&mut self, mut lowered: LoweredAddress) -> Result<LoweredAddress> {
        if self.shown.within.is_everything() {
            return Ok(lowered);
        }
        let shown = match &self.within {
            Some(shown) => shown,
            None => {
                let mut shown = Within::nothing();
                // `named` gives a subtree before what is left out of it, and that before an island in it.
                for (path, inside) in self.shown.within.named() {
                    let tops = self.upper.tops(&self.overlay.tree(path)?).await?;
                    let tops = tops.into_iter().filter(|(id, _)| *id == lowered.store.id).map(|(_, top)| top);
                    shown = if inside { shown.with(tops) } else { shown.without(tops) };
                }
                self.within.insert(shown)
            }
        };
        lowered.store.within = lowered.store.within.intersect(shown);
        // Nodes without a name and staged content are known to the handle that opened or staged them. That is
        // the confined one, but the address comes from the handle to all of the upper layer.
        lowered.besides.push(self.held.home());
        Ok(lowered)
    }

    /// Prepares an operation at a path: copies up whatever of the lower layer the store has to see for it.
    async fn ready(&mut self, path: &TreePath, access: Access) -> Result<()> {
        let Self { overlay, changed, .. } = self;
        // Before `below`, whose version may be noted with this commit: see `begin`.
        overlay.begin(changed).await?;
        let below = overlay.below_then(path, changed).await?;
        let above = match changed.up.contains(path) {
            // The copy is not committed, so a look-up does not find it. Only its kind counts here, which is
            // that of the original. (If the batch has hidden the original as well, both are `None`.)
            true => below.clone(),
            false => match overlay.look(path).await {
                Ok(ShownEntry::Upper(entry)) => Some(entry),
                Ok(ShownEntry::Lower(_)) => None,
                Err(error) if error.is_absent() => None,
                Err(error) => return Err(error),
            },
        };
        let is_up = changed.up.contains(path) || above.is_some();
        let was_below = below.is_some();
        if !changed.up.contains(path) {
            // Apply and discard empty the upper layer at once. An operation that relies on the copy, or on
            // the directory above, would then meet nothing: an append would make a file of the new text
            // alone. The path itself is assumed or, where it is missing, the directory that it is made in.
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
            // A new name needs the directories above it in the upper layer. For any other operation the store
            // refuses a missing path by itself, but with `NotFound`, where a file above is the reason.
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
        // The store only knows the entries of the upper layer. It moves or copies those, so that the others
        // have to be there; to refuse an operation on a directory with entries one of them is enough.
        // `RemoveTree` needs none: one whiteout hides all of them.
        match access {
            _ if !merged => Ok(()),
            Access::Move | Access::Exchange | Access::ReadTree => overlay.bring_tree(path, changed).await,
            Access::Remove | Access::Replace => overlay.bring_one(path, changed).await,
            _ => Ok(()),
        }?;
        // From here on the directory has a new time, which copies of later operations must not set back.
        changed.touched.extend(touched);
        Ok(())
    }

    /// Lowers the operations and assumptions that have gathered in `changed` through the upper layer, which
    /// may be a view as well.
    async fn through(&mut self) -> Result<LoweredOps> {
        let Changed { ops, assumptions, .. } = &mut self.changed;
        let (ops, assumptions) = (std::mem::take(ops), std::mem::take(assumptions));
        let through = LoweredOps::of(&mut *self.upper, ops, assumptions).await;
        through.map_err(|error| self.overlay.of_upper(error))
    }

    /// Hides the lower layer at a path whose name is taken away or replaced, and removes the stand-ins of the
    /// operation.
    async fn hide_after(&mut self, path: &TreePath, access: Access) -> Result<()> {
        // A node that expires is missing from the upper layer from then on, and must not uncover the lower
        // one.
        if (takes_name(access) || (self.expires && access.changes()))
            && let Some(below) = self.overlay.below_then(path, &self.changed).await?
        {
            self.overlay.hide(path, below.version, &mut self.changed).await?;
        }
        // With `if_exists` the batch continues without the path. Everything else is refused at the stand-in.
        match access {
            Access::Remove | Access::RemoveTree => self.overlay.clear(&mut self.changed).await,
            _ => Ok(()),
        }
    }

    /// Lowers an address, with the operations before and after it.
    async fn address(&mut self, at: &At, access: Access) -> Result<LoweredAddress> {
        if matches!(access, Access::ReadPast | Access::Snapshot) {
            return Err(no_past());
        }
        let by_number = matches!(at, At::Node(_));
        let path = match self.spot(at).await? {
            Spot::Upper(raw) => {
                let mut lowered = self.upper.lower(&raw, access).await;
                // The outcome names the node as the caller did, not by its inode in the upper layer.
                if let (Ok(lowered), At::Node(ino)) = (&mut lowered, at) {
                    lowered.shown.ino = Some(*ino);
                }
                return lowered.map_err(|error| self.overlay.of_upper(error));
            }
            Spot::Path(path) => path,
        };
        if by_number && !matches!(access, Access::Read | Access::ReadTree | Access::Write | Access::Link) {
            // The operation takes no inode, and the store has to refuse it for that. It would accept the path
            // that `spot` has made of the inode.
            let root = At::Node(Ino::ROOT);
            return self.upper.lower(&root, access).await.map_err(|error| self.overlay.of_upper(error));
        }
        if !self.shown.within.contains(&path) {
            // Nothing is copied up for it: the store, which is confined to what is shown, refuses the
            // operation.
            let lowered = self.upper.lower(&At::Path(self.overlay.tree(&path)?), access).await;
            return lowered.map_err(|error| self.overlay.of_upper(error));
        }
        // In the upper layer the root is an ordinary directory, which the store would remove or move.
        if path.is_root() && takes_name(access) {
            return Err(Error::at(ErrorKind::Busy, &path, "the root cannot be removed, moved or replaced"));
        }
        let is_lower = matches!(self.overlay.look(&path).await, Ok(ShownEntry::Lower(_)));
        // The store also reads (the source of a copied range) only what the upper layer has.
        if access.changes() || access == Access::ReadTree || is_lower {
            self.ready(&path, access).await?;
        }
        let before = self.through().await?;
        let lowered = self.upper.lower(&At::Path(self.overlay.tree(&path)?), access).await;
        let mut lowered = lowered.map_err(|error| self.overlay.of_upper(error))?;
        // Both after `ready`, which looks at the lower layer before it is hidden and makes the copies that
        // are noted. In the batch, too, they come after the operation, which has to meet the stand-ins.
        self.hide_after(&path, access).await?;
        self.overlay.note_copies(&path, access, &mut self.changed);
        let after = self.through().await?;
        before.before(&mut lowered);
        after.after(&mut lowered);
        // The state before the batch, so it says nothing of a path that the batch has hidden, unless the
        // batch has copied up the node before.
        let known = match self.overlay.look(&path).await {
            Ok(found) if !self.changed.hides(&path) || self.changed.up.contains(&path) => {
                Some(self.overlay.entry(found, Some(&path)).await?.ino)
            }
            _ => None,
        };
        // An operation that puts another node at the path: only the store knows its inode, after the commit.
        // Where the lower layer had the node, its copy is meant, which shows by the inode of the original.
        // What a write meets at the path stays there, unless an operation before it has taken the name away.
        // (If that has also put a copy there, the outcome has the copy's inode in the upper layer.)
        let replaces = match access {
            Access::Replace | Access::Exchange => true,
            Access::Create => self.changed.takes(&path),
            _ => false,
        };
        lowered.shown.ino = match (path.is_root(), known) {
            (true, _) => Some(Ino::ROOT),
            (false, Some(ino)) if !replaces || is_lower => Some(ino),
            (false, _) => None,
        };
        if takes_name(access) {
            self.changed.taken.insert(path);
        }
        // Over another store, inodes of the upper layer are shown with a mark, so that they differ from those
        // of the lower one. The inode of a new node is given by the commit, which adds this to it.
        if !self.overlay.one_store {
            lowered.shown.tag = self.overlay.numbers.shown(UPPER, Ino(lowered.shown.tag)).0;
        }
        Ok(lowered)
    }

    /// Returns true if a condition holds for a node that only the lower layer has. It is judged now: the
    /// commit cannot ask the lower layer, which may be in another store.
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

    /// Returns the hash of a file of the lower layer; `None` for any other node.
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

/// Returns true if the operation takes the name away from the node that has it.
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

    async fn lower(&mut self, at: &At, access: Access) -> Result<LoweredAddress> {
        let lowered = self.address(at, access).await?;
        self.shown(lowered).await
    }

    async fn condition(&mut self, at: &At, that: &Precondition) -> Result<(LoweredAddress, Precondition)> {
        if let Ok(Spot::Path(path)) = self.spot(at).await
            && !self.changed.up.contains(&path)
            && !self.changed.hides(&path)
            && self.shown.within.contains(&path)
            && let Ok(ShownEntry::Lower(entry)) = self.overlay.look(&path).await
        {
            // Counted here, since the limit of the store sees only the files that the store itself hashes.
            if that.hashes() && entry.is_file() {
                self.hashed = self.hashed.saturating_add(entry.size);
                if self.hashed > MAX_HASHED {
                    let message =
                        format!("a commit hashes at most {MAX_HASHED} bytes; ask for the etag instead");
                    return Err(Error::at(ErrorKind::TooLarge, &path, message));
                }
            }
            // In the upper layer nothing is at this path. So a condition that holds becomes `Absent`, which
            // holds there, and one that does not becomes `Exists`, which fails for the caller as it should.
            // If another client copies the node up before the commit, both would be wrong: the assumption
            // makes the batch be lowered again.
            let holds = self.holds(&path, &entry, that).await?;
            let at = At::Path(self.overlay.tree(&path)?);
            let lowered = self.upper.lower(&at, Access::Read).await;
            let mut lowered = lowered.map_err(|error| self.overlay.of_upper(error))?;
            lowered.assumptions.push((lowered.at.clone(), Precondition::Absent));
            let lowered = self.shown(lowered).await?;
            return Ok((lowered, if holds { Precondition::Absent } else { Precondition::Exists }));
        }
        let (lowered, mut that) = (self.lower(at, Access::Read).await?, that.clone());
        // A version names its node. The caller has it with the inode that the overlay shows.
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
                // The upper layer has no version of it: `NONE` matches nothing there.
                Ok(Node::Lower(..)) => return Ok(Ino::NONE),
                // In another store, an inode of the lower layer would be that of an unrelated node.
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
