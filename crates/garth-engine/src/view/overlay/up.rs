//! Copying up and hiding: the operations that an overlay adds to a batch so that the lower layer is never
//! written.
//!
//! `lowering` goes through a batch operation by operation. Before an operation changes a node that only the
//! lower layer has, `bring` copies the node to the upper layer. After an operation has removed a name, `hide`
//! keeps the lower layer from showing it again. All of this is part of the same commit. The state that was
//! read is added as assumptions: if another client changes it, the commit fails and the batch is lowered
//! again.

use std::collections::{BTreeMap, BTreeSet};

use super::Overlay;
use super::base::{HiddenState, copied};
use super::copy::{carried, content, special};
use super::layers::{BASE, ORIGIN, ShownEntry};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    Access, At, Entry, Ino, Kind, NamesPage, Op, Precondition, Seq, SetAttrs, Special, VersionId, WalkPage,
};
use crate::path::TreePath;

/// Limit on the names of one node, and on the entries of one directory, that one operation copies up. All of
/// them are part of one commit.
pub(super) const MAX_UP: usize = 1000;

/// Copies and hidden paths of a batch so far. Neither layer shows them before the commit, so later operations
/// of the batch look here.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// Paths that the batch has copied up, stand-ins included.
    pub(super) up: BTreeSet<TreePath>,
    /// Paths that the upper layer already has. The batch has one assumption for each: that the path still
    /// exists.
    pub(super) there: BTreeSet<TreePath>,
    /// Paths that the batch hides, with everything below them in the lower layer.
    pub(super) hidden: BTreeSet<TreePath>,
    /// Paths whose names the batch takes away from the nodes that had them.
    pub(super) taken: BTreeSet<TreePath>,
    /// Path of each copy, by the inode of the original in the lower layer.
    copies: BTreeMap<Ino, TreePath>,
    /// Inodes in `copies` whose note has yet to be written.
    unnoted: BTreeSet<Ino>,
    /// Source of a rename or exchange whose destination has not been lowered yet.
    moving: Option<TreePath>,
    /// Operations to add to the batch; `lowering` takes them after each step.
    pub(super) ops: Vec<Op>,
    /// Directories in which the batch makes or removes names: they keep the time of the commit.
    pub(super) touched: BTreeSet<TreePath>,
    /// Stand-ins that the batch has written, see `stand_in`.
    pub(super) stand_ins: Vec<TreePath>,
    /// Conditions of `ops`, judged in the commit.
    pub(super) assumptions: Vec<(At, Precondition)>,
    /// Last commit of the lower layer, see `begin`.
    pub(super) since: Option<Seq>,
}

impl Changed {
    /// Returns true if the batch hides the path or a directory above it.
    pub(super) fn hides(&self, path: &TreePath) -> bool {
        has_this_or_above(&self.hidden, path)
    }

    /// Returns true if the batch takes the name away from the node that had it, or from a directory above it.
    pub(super) fn takes(&self, path: &TreePath) -> bool {
        has_this_or_above(&self.taken, path)
    }
}

fn has_this_or_above(paths: &BTreeSet<TreePath>, path: &TreePath) -> bool {
    paths.contains(path) || path.ancestors().any(|above| paths.contains(&above))
}

impl Overlay {
    /// Returns what the lower layer shows at a path after the operations so far.
    pub(super) async fn below_then(&self, path: &TreePath, changed: &Changed) -> Result<Option<Entry>> {
        if changed.hides(path) { Ok(None) } else { self.below(path).await }
    }

    /// Copies up the directories above a path that only the lower layer has. If one of them is not a
    /// directory, a stand-in takes its place.
    pub(super) async fn bring_parents(&self, path: &TreePath, changed: &mut Changed) -> Result<()> {
        for dir in path.ancestors() {
            if changed.up.contains(&dir) || self.look_upper(&dir).await?.is_some() {
                continue;
            }
            match self.below_then(&dir, changed).await? {
                Some(entry) if entry.is_dir() => self.bring_directory(&dir, &entry, changed).await?,
                Some(_) => return self.stand_in(dir, changed).await,
                // In neither layer: the store refuses the operation, or makes the directory (`with_parents`).
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Returns true if a path is missing because something above it is not a directory.
    pub(super) async fn is_behind_a_file(&self, path: &TreePath) -> Result<bool> {
        match self.look(path).await {
            Err(error) if error.is(ErrorKind::NotADirectory) => Ok(true),
            Err(error) if !error.is(ErrorKind::NotFound) => Err(error),
            _ => Ok(false),
        }
    }

    /// Writes an empty file where the lower layer has something that is not a directory, so that the store
    /// refuses the operation with `NotADirectory` at this path.
    async fn stand_in(&self, path: TreePath, changed: &mut Changed) -> Result<()> {
        // The store only sees the upper layer, which has nothing at this path: a write with parents would
        // make a directory there. Copying up the original would do as well, at the price of its content.
        let at = self.tree(&path)?;
        changed.assumptions.push((At::Path(at.clone()), Precondition::Absent));
        changed.ops.push(Op::write(at, "").create_new());
        changed.up.insert(path.clone());
        changed.stand_ins.push(path);
        Ok(())
    }

    /// Removes the stand-ins after an operation that can succeed without the path, such as `remove` with
    /// `if_exists`.
    pub(super) async fn clear(&self, changed: &mut Changed) -> Result<()> {
        // A stand-in that is committed would show an empty file instead of the original.
        for path in std::mem::take(&mut changed.stand_ins) {
            changed.ops.push(Op::remove(self.tree(&path)?));
            self.keep_times(&path, changed).await?;
            changed.up.remove(&path);
        }
        Ok(())
    }

    /// Assumes that no other client hides the path before the commit.
    async fn still_shows(&self, path: &TreePath, changed: &mut Changed) -> Result<()> {
        // From the root down. Where the tree of hidden paths has no entry, nothing below it is hidden, so one
        // assumption covers the rest. Without it a copy could bring back what another client has removed.
        for above in path.ancestors().chain([path.clone()]) {
            let at = At::Path(self.hidden(&above)?);
            if self.upper.stat(&at).await.is_err() {
                changed.assumptions.push((at, Precondition::Absent));
                break;
            }
        }
        Ok(())
    }

    /// Copies up a directory without its entries.
    async fn bring_directory(&self, path: &TreePath, entry: &Entry, changed: &mut Changed) -> Result<()> {
        let at = self.tree(path)?;
        // Of two clients that copy up one node, the second must continue with the copy of the first. The
        // assumption, here and in `bring`, makes its batch be lowered again instead of failing with
        // `AlreadyExists`.
        changed.assumptions.push((At::Path(at.clone()), Precondition::Absent));
        // By `BASE`, diff and apply know whether the attributes have been changed since or only copied.
        let attrs = carried(entry).xattr(BASE, copied(path, entry)?);
        changed.ops.push(match path.is_root() {
            // The root is always inode 1 and is never renamed, so it needs neither origin nor note. The
            // directories above its place may not exist yet.
            true => Op::mkdir(at).with_attrs(attrs).with_parents(),
            false => Op::mkdir(at).with_attrs(attrs.xattr(ORIGIN, self.origin_note(entry.ino))),
        });
        if !path.is_root() {
            self.note_copy(path, entry, changed).await?;
        }
        changed.up.insert(path.clone());
        self.keep_times(path, changed).await
    }

    /// Copies up a node of the lower layer with all of its visible names.
    pub(super) async fn bring(&self, path: &TreePath, entry: &Entry, changed: &mut Changed) -> Result<()> {
        self.still_shows(path, changed).await?;
        self.bring_parents(path, changed).await?;
        if changed.up.contains(path) {
            return Ok(());
        }
        if entry.is_dir() {
            return self.bring_directory(path, entry, changed).await;
        }
        let at = self.tree(path)?;
        changed.assumptions.push((At::Path(at.clone()), Precondition::Absent));
        let attrs = carried(entry).xattr(ORIGIN, self.origin_note(entry.ino));
        changed.ops.push(match (entry.kind, &entry.target) {
            (Kind::File, _) => {
                let below = At::Path(path.clone());
                let body = content(&*self.lower, &below, entry, &*self.upper, &at).await?;
                Op::write(&at, body).create_new().with_attrs(attrs)
            }
            (Kind::Symlink, Some(target)) => Op::symlink(&at, target.clone()).with_attrs(attrs),
            (kind, _) => Op::mknod(&at, special(kind, entry.rdev)?).with_attrs(attrs),
        });
        changed.up.insert(path.clone());
        self.note_copy(path, entry, changed).await?;
        // A copy that expires must not uncover the original. And where only the overlay writes its upper
        // tree, hiding the original notes its version for diff and apply; elsewhere (an agent's copy of a
        // skill) whoever removes the copy wants the original back.
        let hides = self.places.alone || entry.expires_at.is_some();
        if hides {
            self.hide(path, entry.version, changed).await?;
        }
        if entry.nlink > 1 {
            // Without the other names, one name would show the new content and another one the old.
            for name in self.other_names(path, changed).await? {
                self.bring_parents(&name, changed).await?;
                let other = self.tree(&name)?;
                changed.assumptions.push((At::Path(other.clone()), Precondition::Absent));
                changed.ops.push(Op::link(&at, other));
                changed.up.insert(name.clone());
                if hides {
                    self.hide(&name, entry.version, changed).await?;
                }
                self.keep_times(&name, changed).await?;
            }
        }
        self.keep_times(path, changed).await
    }

    /// Writes the notes of what the batch has copied up, once the final path of a copy is known. A note is
    /// read back in the state of the commit that wrote it (`copy_of`), so it has to name the path at the end
    /// of the batch.
    pub(super) fn note_copies(&self, path: &TreePath, access: Access, changed: &mut Changed) {
        let from = changed.moving.take();
        match (access, from) {
            // The source of a rename, or the first side of an exchange: its copies wait for the other side.
            (Access::Move, _) | (Access::Exchange, None) => changed.moving = Some(path.clone()),
            // The other side is known now. Notes that the batch has already written are written again.
            (Access::Create | Access::Replace | Access::Exchange, Some(from)) => {
                let back = access == Access::Exchange;
                for (ino, at) in &mut changed.copies {
                    let there = at.rebase(&from, path);
                    let moved = there.or_else(|| at.rebase(path, &from).filter(|_| back));
                    // A path that is too long stays as it is: the store refuses the operation.
                    if let Some(Ok(moved)) = moved {
                        *at = moved;
                        changed.unnoted.insert(*ino);
                    }
                }
            }
            _ => {}
        }
        let moving = changed.moving.as_ref();
        let waits = |ino: &Ino| {
            changed.copies.get(ino).zip(moving).is_some_and(|(path, moving)| path.is_within(moving))
        };
        let (waiting, due): (BTreeSet<Ino>, BTreeSet<Ino>) =
            changed.unnoted.iter().partition(|ino| waits(ino));
        for ino in due {
            let path = changed.copies.get(&ino).map_or_else(String::new, ToString::to_string);
            // Search of the upper layer must not find notes, and they must not cost its index anything.
            let attrs = SetAttrs::new().searchable(false);
            changed.ops.push(Op::write(self.copy_note(ino), path).with_parents().with_attrs(attrs));
        }
        changed.unnoted = waiting;
    }

    /// Remembers the path to which a node of the lower layer is copied. An older note is of an earlier copy:
    /// the original was renamed in the lower layer afterwards and shows again. The earlier copy becomes a
    /// node of its own.
    async fn note_copy(&self, path: &TreePath, entry: &Entry, changed: &mut Changed) -> Result<()> {
        let note = self.copy_note(entry.ino);
        let that = match self.noted_at(entry.ino).await? {
            None => Precondition::Absent,
            Some(version) => {
                if let Some(copy) = self.copy_of(entry.ino).await?
                    && self.shown_node(copy).await.is_ok()
                {
                    // The earlier copy loses its origin; otherwise two nodes of the tree would have one
                    // inode.
                    changed.ops.push(Op::set_attrs(copy, SetAttrs::new().remove_xattr(ORIGIN)));
                }
                Precondition::Version(version)
            }
        };
        // Two clients may copy up one node by different names; only one note can be right.
        changed.assumptions.push((At::Path(note), that));
        changed.copies.insert(entry.ino, path.clone());
        changed.unnoted.insert(entry.ino);
        Ok(())
    }

    /// Restores the times of the directory above a path. The copy adds a name in the upper layer, but the
    /// tree has not changed.
    async fn keep_times(&self, path: &TreePath, changed: &mut Changed) -> Result<()> {
        let Some(dir) = path.parent().filter(|dir| !changed.touched.contains(dir)) else { return Ok(()) };
        if let Ok(ShownEntry::Upper(entry) | ShownEntry::Lower(entry)) = self.look(&dir).await {
            let times = SetAttrs::new().mtime(entry.mtime).atime(entry.atime);
            changed.ops.push(Op::set_attrs(self.tree(&dir)?, times));
        }
        Ok(())
    }

    /// Returns the other visible names of a node. Asks by path, because a folder of the host does not find
    /// nodes by inode.
    async fn other_names(&self, path: &TreePath, changed: &Changed) -> Result<Vec<TreePath>> {
        let page = NamesPage::default().limit(MAX_UP);
        let names = self.lower.names(&At::Path(path.clone()), &page).await?;
        if names.more {
            let message = format!("a file with more than {MAX_UP} names cannot be copied up");
            return Err(Error::at(ErrorKind::TooManyLinks, path, message));
        }
        let mut others = Vec::new();
        for name in names.items {
            let shows = name != *path && !changed.hides(&name) && !changed.up.contains(&name);
            if shows && matches!(self.look(&name).await, Ok(ShownEntry::Lower(_))) {
                others.push(name);
            }
        }
        Ok(others)
    }

    /// Copies up everything in a directory that only the lower layer has.
    pub(super) async fn bring_tree(&self, path: &TreePath, changed: &mut Changed) -> Result<()> {
        // The store moves or copies what the upper layer has; the rest would stay behind.
        let page = WalkPage::default().limit(MAX_UP).with_entries();
        let walk = self.walk_page(&At::Path(path.clone()), &page).await?;
        if walk.more {
            let message = format!("a directory with more than {MAX_UP} entries cannot be copied up at once");
            return Err(Error::at(ErrorKind::TooLarge, path, message));
        }
        for item in walk.items {
            if let Ok(ShownEntry::Lower(entry)) = self.look(&item.path).await
                && !changed.up.contains(&item.path)
                && !changed.hides(&item.path)
            {
                if !self.one_store {
                    // As a rename between filesystems: the caller copies entry by entry, and no commit
                    // carries the content of a tree.
                    let message = "part of this directory is in another store; copy its entries one by one";
                    return Err(Error::at(ErrorKind::CrossesMounts, path, message));
                }
                self.bring(&item.path, &entry, changed).await?;
            }
        }
        Ok(())
    }

    /// Copies up one entry that only the lower layer has, if the directory has one, so that the store refuses
    /// to remove or replace the directory (`NotEmpty`).
    pub(super) async fn bring_one(&self, path: &TreePath, changed: &mut Changed) -> Result<()> {
        let mut page = crate::model::Page::default().limit(100).with_entries();
        loop {
            let listing = self.list_page(&At::Path(path.clone()), &page).await?;
            for item in &listing.items {
                let name = path.join(&item.name)?;
                if let Ok(ShownEntry::Lower(entry)) = self.look(&name).await
                    && !changed.hides(&name)
                    && !changed.up.contains(&name)
                {
                    // One entry is enough: the store refuses the batch, so the copy is never committed.
                    return self.bring(&name, &entry, changed).await;
                }
            }
            match listing.items.last() {
                Some(last) if listing.more => page = page.after(last.name.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// Returns the last commit of the lower layer, read once per batch and before the versions that it hides.
    pub(super) async fn begin(&self, changed: &mut Changed) -> Result<Seq> {
        // Below a hidden directory, apply treats anything newer than this commit as a change by another
        // client. If the commit were read later, changes between the two reads would count as known, and
        // apply would remove them without a conflict.
        Ok(match changed.since {
            Some(since) => since,
            None => *changed.since.insert(self.lower.head().await?.seq),
        })
    }

    /// Hides a path of the lower layer and everything below it. `version` is the version of the hidden node,
    /// which is noted for diff and apply.
    pub(super) async fn hide(
        &self,
        path: &TreePath,
        version: VersionId,
        changed: &mut Changed,
    ) -> Result<()> {
        if changed.hides(path) {
            return Ok(());
        }
        let at = self.hidden(path)?;
        let place = self.upper.stat(&At::Path(at.clone())).await;
        let there = place.is_ok();
        if self.hides(place)? {
            return Ok(());
        }
        let mut seq = self.begin(changed).await?;
        let within_batch = changed.hidden.iter().any(|path_below| path_below.is_within(path));
        if there {
            // The earliest commit noted below stays: what changed there since then must remain a conflict.
            seq = seq.min(self.hidden_since(&at).await?.unwrap_or(seq));
        }
        if within_batch || there {
            // The whiteout takes the place of the directory that holds those below.
            changed.ops.push(Op::remove_tree(&at));
        }
        let attrs = SetAttrs::new().xattr(BASE, HiddenState { seq, version }.to_string());
        changed.ops.push(Op::mknod(&at, Special::Whiteout).with_parents().with_attrs(attrs));
        changed.hidden.insert(path.clone());
        Ok(())
    }

    /// Returns the earliest commit that is noted on the hidden paths below a place.
    async fn hidden_since(&self, place: &TreePath) -> Result<Option<Seq>> {
        let (mut page, mut earliest) = (WalkPage::default().with_entries(), None);
        loop {
            let walk = self.upper.walk(&At::Path(place.clone()), &page).await;
            // The directory existed a moment ago. `Stale` makes the batch be lowered again.
            let walk = walk.map_err(|error| match error.is_absent() {
                true => Error::new(ErrorKind::Stale, "another client hid the same directory meanwhile"),
                false => self.of_upper(error),
            })?;
            let seqs = walk.items.iter().filter_map(|item| Some(HiddenState::of(item.entry.as_ref()?)?.seq));
            earliest = seqs.chain(earliest).min();
            match walk.items.last() {
                Some(last) if walk.more => page = page.after(last.path.clone()),
                _ => return Ok(earliest),
            }
        }
    }
}
