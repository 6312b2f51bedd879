//! Copying up: what makes a node of the lower layer one of the upper layer, and what hides it below.

use std::collections::{BTreeMap, BTreeSet};

use super::base::{Was, copied};
use super::layers::{BASE, Found, ORIGIN};
use super::{Overlay, carried};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::model::{
    Access, At, Body, ByteRange, Entry, Ino, Kind, MAX_INLINE_BODY, NamesPage, Op, Precondition, Seq,
    SetAttrs, Special, VersionId, WalkPage,
};
use crate::path::TreePath;

/// Most names of one node, and most nodes of one directory, that one operation copies up.
pub(super) const MAX_UP: usize = 1000;
/// How much is read at a time.
const STEP: usize = 1 << 20;

/// What one batch copies up and hides.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// Paths that the upper layer has by then.
    pub(super) up: BTreeSet<TreePath>,
    /// Paths that the upper layer has before the batch, and must still have.
    pub(super) there: BTreeSet<TreePath>,
    /// Paths of which the lower layer shows nothing by then.
    pub(super) hidden: BTreeSet<TreePath>,
    /// Where nodes of the lower layer are copied to, by their numbers there.
    copies: BTreeMap<Ino, TreePath>,
    /// Those of which that is still to be noted.
    unnoted: BTreeSet<Ino>,
    /// What an operation moves, until it is known where to.
    moving: Option<TreePath>,
    /// What is to be done next.
    pub(super) ops: Vec<Op>,
    /// Directories in which it makes names or takes some away: they get its time.
    pub(super) touched: BTreeSet<TreePath>,
    /// What stands where the lower layer has a file in the way of what is asked for, until that is refused.
    pub(super) stand_ins: Vec<TreePath>,
    /// What must still hold then.
    pub(super) assumptions: Vec<(At, Precondition)>,
    /// The last commit of the lower layer before anything of it was read for the batch.
    pub(super) since: Option<Seq>,
}

impl Changed {
    pub(super) fn hides(&self, path: &TreePath) -> bool {
        self.hidden.contains(path) || path.ancestors().any(|above| self.hidden.contains(&above))
    }
}

impl Overlay {
    /// What shows of the lower layer at a path, behind what the batch has done.
    pub(super) async fn below_then(&self, path: &TreePath, changed: &Changed) -> Result<Option<Entry>> {
        if changed.hides(path) { Ok(None) } else { self.below(path).await }
    }

    /// Copies up the directories above a path that are in the lower layer alone. What is no directory is not
    /// copied: something else stands for it, so that the store refuses to go on there.
    pub(super) async fn bring_parents(&self, path: &TreePath, changed: &mut Changed) -> Result<()> {
        for dir in path.ancestors() {
            if changed.up.contains(&dir) || self.look_upper(&dir).await?.is_some() {
                continue;
            }
            match self.below_then(&dir, changed).await? {
                Some(entry) if entry.is_dir() => self.bring_directory(&dir, &entry, changed).await?,
                Some(_) => return self.stand_in(dir, changed).await,
                // what the store makes of it is its answer
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Whether the reason why nothing is at a path is that something above is no directory.
    pub(super) async fn is_behind_a_file(&self, path: &TreePath) -> Result<bool> {
        match self.look(path).await {
            Err(error) if error.is(ErrorKind::NotADirectory) => Ok(true),
            Err(error) if !error.is(ErrorKind::NotFound) => Err(error),
            _ => Ok(false),
        }
    }

    async fn stand_in(&self, path: TreePath, changed: &mut Changed) -> Result<()> {
        let at = self.tree(&path)?;
        changed.assumptions.push((At::Path(at.clone()), Precondition::Absent));
        changed.ops.push(Op::write(at, "").create_new());
        changed.up.insert(path.clone());
        changed.stand_ins.push(path);
        Ok(())
    }

    /// Takes away what stood for something else, where the operation may have done without it.
    pub(super) async fn clear(&self, changed: &mut Changed) -> Result<()> {
        for path in std::mem::take(&mut changed.stand_ins) {
            changed.ops.push(Op::remove(self.tree(&path)?));
            self.keep_times(&path, changed).await?;
            changed.up.remove(&path);
        }
        Ok(())
    }

    /// Assumes that nothing has hidden a path of the lower layer by then.
    async fn still_shows(&self, path: &TreePath, changed: &mut Changed) -> Result<()> {
        for above in path.ancestors().chain([path.clone()]) {
            let at = At::Path(self.hidden(&above)?);
            if self.upper.stat(&at).await.is_err() {
                changed.assumptions.push((at, Precondition::Absent));
                break;
            }
        }
        Ok(())
    }

    async fn bring_directory(&self, path: &TreePath, entry: &Entry, changed: &mut Changed) -> Result<()> {
        let at = self.tree(path)?;
        changed.assumptions.push((At::Path(at.clone()), Precondition::Absent));
        let attrs = carried(entry).xattr(BASE, copied(path, entry)?);
        changed.ops.push(match path.is_root() {
            // it has a number of its own, and may lie in directories that nothing has made
            true => Op::mkdir(at).with_attrs(attrs).with_parents(),
            false => Op::mkdir(at).with_attrs(attrs.xattr(ORIGIN, self.origin_note(entry.ino))),
        });
        if !path.is_root() {
            self.note_copy(path, entry, changed).await?;
        }
        changed.up.insert(path.clone());
        self.keep_times(path, changed).await
    }

    /// Copies up a node of the lower layer, with all its names that show.
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
        // an expiry of the copy uncovers nothing
        let hides = self.places.alone || entry.expires_at.is_some();
        if hides {
            self.hide(path, entry.version, changed).await?;
        }
        if entry.nlink > 1 {
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

    /// Writes the notes of what an address has copied up. Of what is moved it is noted where it is by the end
    /// of the batch: a later look at the commit finds it there.
    pub(super) fn note_copies(&self, path: &TreePath, access: Access, changed: &mut Changed) {
        let from = changed.moving.take();
        match (access, from) {
            (Access::Move, _) | (Access::Exchange, None) => changed.moving = Some(path.clone()),
            (Access::Create | Access::Replace | Access::Exchange, Some(from)) => {
                let back = access == Access::Exchange;
                for (ino, at) in &mut changed.copies {
                    let there = at.rebase(&from, path);
                    let moved = there.or_else(|| at.rebase(path, &from).filter(|_| back));
                    // where its path is too long the store refuses the operation
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
            let attrs = SetAttrs::new().searchable(false);
            changed.ops.push(Op::write(self.copy_note(ino), path).with_parents().with_attrs(attrs));
        }
        changed.unnoted = waiting;
    }

    /// Remembers to which path a node of the lower layer is copied. What was noted before was of another: if
    /// the node was renamed below since an earlier one, that is a node of its own from now on.
    async fn note_copy(&self, path: &TreePath, entry: &Entry, changed: &mut Changed) -> Result<()> {
        let note = self.copy_note(entry.ino);
        let that = match self.noted_at(entry.ino).await? {
            None => Precondition::Absent,
            Some(version) => {
                if let Some(copy) = self.copy_of(entry.ino).await?
                    && self.shown_node(copy).await.is_ok()
                {
                    changed.ops.push(Op::set_attrs(copy, SetAttrs::new().remove_xattr(ORIGIN)));
                }
                Precondition::Version(version)
            }
        };
        changed.assumptions.push((At::Path(note), that));
        changed.copies.insert(entry.ino, path.clone());
        changed.unnoted.insert(entry.ino);
        Ok(())
    }

    /// Gives the directory above a path its times again: to be copied up is no change of it.
    async fn keep_times(&self, path: &TreePath, changed: &mut Changed) -> Result<()> {
        let Some(dir) = path.parent().filter(|dir| !changed.touched.contains(dir)) else { return Ok(()) };
        if let Ok(Found::Upper(entry) | Found::Lower(entry)) = self.look(&dir).await {
            let times = SetAttrs::new().mtime(entry.mtime).atime(entry.atime);
            changed.ops.push(Op::set_attrs(self.tree(&dir)?, times));
        }
        Ok(())
    }

    /// Other names of a node of the lower layer that show. Not every lower layer finds nodes by number.
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
            if shows && matches!(self.look(&name).await, Ok(Found::Lower(_))) {
                others.push(name);
            }
        }
        Ok(others)
    }

    /// Copies up all that is in a directory and in the lower layer alone.
    pub(super) async fn bring_tree(&self, path: &TreePath, changed: &mut Changed) -> Result<()> {
        let page = WalkPage::default().limit(MAX_UP).with_entries();
        let walk = self.walk_page(&At::Path(path.clone()), &page).await?;
        if walk.more {
            let message = format!("a directory with more than {MAX_UP} entries cannot be copied up at once");
            return Err(Error::at(ErrorKind::TooLarge, path, message));
        }
        for item in walk.items {
            if let Ok(Found::Lower(entry)) = self.look(&item.path).await
                && !changed.up.contains(&item.path)
                && !changed.hides(&item.path)
            {
                if !self.one_store {
                    let message =
                        "a part of this directory is in another store; copy what is in it one by one";
                    return Err(Error::at(ErrorKind::CrossesMounts, path, message));
                }
                self.bring(&item.path, &entry, changed).await?;
            }
        }
        Ok(())
    }

    /// Copies up one entry of a directory that only the lower layer has, if there is one: then the store says
    /// that the directory is not empty.
    pub(super) async fn bring_one(&self, path: &TreePath, changed: &mut Changed) -> Result<()> {
        let mut page = crate::model::Page::default().limit(100).with_entries();
        loop {
            let listing = self.list_page(&At::Path(path.clone()), &page).await?;
            for item in &listing.items {
                let name = path.join(&item.name)?;
                if let Ok(Found::Lower(entry)) = self.look(&name).await
                    && !changed.hides(&name)
                    && !changed.up.contains(&name)
                {
                    return self.bring(&name, &entry, changed).await;
                }
            }
            match listing.items.last() {
                Some(last) if listing.more => page = page.after(last.name.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// Notes what the lower layer's last commit is, before anything of it is read for a batch.
    pub(super) async fn begin(&self, changed: &mut Changed) -> Result<Seq> {
        Ok(match changed.since {
            Some(since) => since,
            None => *changed.since.insert(self.lower.head().await?.seq),
        })
    }

    /// Hides a path of the lower layer, where this version is.
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
            seq = seq.min(self.hidden_since(&at).await?.unwrap_or(seq));
        }
        if within_batch || there {
            // what was hidden below it is hidden with it
            changed.ops.push(Op::remove_tree(&at));
        }
        let attrs = SetAttrs::new().xattr(BASE, Was { seq, version }.to_string());
        changed.ops.push(Op::mknod(&at, Special::Whiteout).with_parents().with_attrs(attrs));
        changed.hidden.insert(path.clone());
        Ok(())
    }

    /// The earliest commit of the lower layer since which something below a hidden place is hidden.
    async fn hidden_since(&self, place: &TreePath) -> Result<Option<Seq>> {
        let (mut page, mut earliest) = (WalkPage::default().with_entries(), None);
        loop {
            let walk = self.upper.walk(&At::Path(place.clone()), &page).await;
            let walk = walk.map_err(|error| match error.is_absent() {
                true => Error::new(ErrorKind::Stale, "another client hid the same directory meanwhile"),
                false => self.of_upper(error),
            })?;
            let seqs = walk.items.iter().filter_map(|item| Some(Was::of(item.entry.as_ref()?)?.seq));
            earliest = seqs.chain(earliest).min();
            match walk.items.last() {
                Some(last) if walk.more => page = page.after(last.path.clone()),
                _ => return Ok(earliest),
            }
        }
    }
}

/// The content of a file, as it was when `entry` was read, for a file of another layer.
pub(super) async fn content(
    from: &dyn FileSystem,
    at: &At,
    entry: &Entry,
    to: &dyn FileSystem,
    place: &TreePath,
) -> Result<Body> {
    let changed = || Error::new(ErrorKind::Stale, "the file changed while it was copied");
    if entry.size <= STEP.min(MAX_INLINE_BODY) as u64 {
        let (now, bytes) = from.fetch(at, ByteRange::ALL).await?;
        return if now.etag == entry.etag { Ok(Body::Bytes(bytes)) } else { Err(changed()) };
    }
    let file = from.open(at).await?;
    let mut upload = to.stage(&At::Path(place.clone())).await?;
    let mut offset = 0;
    loop {
        let bytes = file.read_at(offset, STEP).await?;
        if bytes.is_empty() {
            break;
        }
        offset += bytes.len() as u64;
        upload.write(bytes).await?;
    }
    if file.stat().await?.etag != entry.etag {
        return Err(changed());
    }
    Ok(Body::Staged(upload.finish().await?))
}

pub(super) fn special(kind: Kind, rdev: u64) -> Result<Special> {
    Ok(match kind {
        Kind::Fifo => Special::Fifo,
        Kind::Socket => Special::Socket,
        Kind::CharDevice => Special::CharDevice(rdev),
        Kind::BlockDevice => Special::BlockDevice(rdev),
        Kind::Whiteout => Special::Whiteout,
        Kind::File | Kind::Directory | Kind::Symlink => {
            return Err(Error::new(ErrorKind::Corrupt, "a symbolic link without a target"));
        }
    })
}
