//! Operations of a batch. Reads like the list in [`crate::model::batch`], with errors in the same order.

mod copy;
mod names;

use super::content::Content;
use super::scratch::Scratch;
use super::state::Node;
use super::tree::Tree;
use crate::error::{Error, ErrorKind, OptionalExt as _, Result};
use crate::model::{
    At, Body, ChangeKind, Create, Ino, Kind, MAX_FILE, MAX_HASHED, Op, Outcome, Owner, Precondition,
    SetAttrs, Snapshot, VersionId, Within,
};
use crate::path::TreePath;

fn is_strictly_within(path: &TreePath, top: &TreePath) -> bool {
    path != top && path.is_within(top)
}

fn reject_inode(at: &At) -> Result<()> {
    match at {
        At::Node(_) => Err(Error::invalid("names are created and removed by path, not by inode")),
        At::Path(_) | At::Child(..) => Ok(()),
    }
}

fn busy(path: &TreePath) -> Error {
    Error::at(ErrorKind::Busy, path, "the top cannot be removed or renamed")
}

/// Refuses to treat a directory with excluded paths below it as one.
fn reject_exclusions(within: &Within, path: &TreePath) -> Result<()> {
    match within.exclusions_below(path).next() {
        Some(_) => Err(Error::at(ErrorKind::Busy, path, "contains reserved entries")),
        None => Ok(()),
    }
}

impl Scratch<'_> {
    pub(super) fn apply(&mut self, op: &Op) -> Result<Outcome> {
        let outcome = self.perform(op)?;
        Ok(Outcome { size: self.node(outcome.ino).map_or(0, Node::size), ..outcome })
    }

    /// Performs an operation. Its outcome lacks the size.
    fn perform(&mut self, op: &Op) -> Result<Outcome> {
        match op {
            Op::Write { at, body, create, parents, attrs } => self.write(at, body, *create, *parents, attrs),
            // The division of content into pieces is not part of the contract.
            Op::Append { at, body, create, parents, cuts: _ } => self.append(at, body, *create, *parents),
            Op::Patch { at, offset, body } => self.patch(at, *offset, body),
            Op::Truncate { at, size } => self.truncate(at, *size),
            Op::Punch { at, offset, length } => self.punch(at, *offset, *length),
            Op::CopyRange { from, from_offset, length, to, to_offset } => {
                self.copy_range(from, *from_offset, *length, to, *to_offset)
            }
            Op::Mkdir { at, parents, attrs } => self.mkdir(at, *parents, attrs),
            Op::Symlink { at, target, parents, attrs } => self.symlink(at, target, *parents, attrs),
            Op::Mknod { at, node, parents, attrs } => self.mknod(at, *node, *parents, attrs),
            Op::Link { from, to, parents } => self.link(from, to, *parents),
            Op::Remove { at, what, missing_ok } => self.remove(at, *what, *missing_ok),
            Op::Rename { from, to, mode, parents } => self.rename(from, to, *mode, *parents),
            Op::Copy { from, as_of, to, recursive, replace, parents } => {
                self.copy(from, *as_of, to, *recursive, *replace, *parents)
            }
            Op::SetAttrs { at, attrs } => {
                let ino = self.find(at)?;
                self.touch(ino);
                self.set_attrs(ino, attrs)?;
                self.log_node(ChangeKind::Attributes, ino);
                Ok(self.changed(ino))
            }
            Op::Check { at, that } => {
                let ino = self.check(at, that)?;
                Ok(self.unchanged(ino))
            }
            Op::Snapshot { name } => self.snapshot(name),
            Op::DropSnapshot { name } => self.drop_snapshot(name),
            Op::Misused { reason } => Err(Error::invalid(reason)),
        }
    }

    fn created(&self, ino: Ino) -> Outcome {
        Outcome::created(VersionId { seq: self.seq, ino }, 0)
    }

    fn changed(&self, ino: Ino) -> Outcome {
        Outcome::changed(VersionId { seq: self.seq, ino }, 0)
    }

    fn unchanged(&self, ino: Ino) -> Outcome {
        match self.node(ino) {
            Some(node) => Outcome::unchanged(node.version, 0),
            None => Outcome::unchanged(VersionId { seq: self.seq, ino }, 0),
        }
    }

    /// Returns the path of a name that must exist.
    pub(super) fn existing_path(&mut self, at: &At) -> Result<TreePath> {
        let path = self.named(at)?;
        if self.within.contains(&path) { Ok(path) } else { Err(Error::not_found(&path)) }
    }

    /// Returns the path of a name that may be created.
    pub(super) fn creatable_path(&mut self, at: &At) -> Result<TreePath> {
        let path = self.named(at)?;
        if self.within.is_excluded(&path) {
            return Err(Error::closed(&path));
        }
        if self.within.contains(&path) { Ok(path) } else { Err(Error::not_found(&path)) }
    }

    fn named(&mut self, at: &At) -> Result<TreePath> {
        match at {
            At::Path(path) => Ok(path.clone()),
            At::Child(dir, name) => self.child_path(*dir, name),
            At::Node(_) => Err(reject_inode(at).expect_err("a node")),
        }
    }

    /// Returns an error about a node that was found.
    pub(super) fn about(&self, kind: ErrorKind, ino: Ino, message: &str) -> Error {
        match self.path_of(ino) {
            Some(path) => Error::at(kind, &path, message),
            None => Error::new(kind, message),
        }
    }

    /// Returns an error about the address of an operation.
    pub(super) fn about_at(&mut self, kind: ErrorKind, at: &At, message: &str) -> Error {
        let path = match at {
            At::Node(ino) => self.path_of(*ino),
            At::Path(path) => Some(path.clone()),
            At::Child(..) => self.existing_path(at).ok(),
        };
        match path {
            Some(path) => Error::at(kind, &path, message),
            None => Error::new(kind, message),
        }
    }

    fn take_body(&mut self, body: &Body) -> Result<Content> {
        match body {
            Body::Bytes(bytes) => Ok(bytes.clone().into()),
            Body::Staged(staged) => {
                let kept = self.state.staged.get(&staged.id);
                let kept = kept.filter(|(owner, _)| self.stagers.contains(owner));
                let content = kept.map(|(_, content)| content).filter(|it| it.size() == staged.size);
                match content {
                    // `insert` is false for a body that an earlier operation of the batch has used.
                    Some(content) if self.laid.used.insert(staged.id) => Ok(content.clone()),
                    _ => {
                        Err(Error::new(ErrorKind::NotFound, "no such staged content, or it was used before"))
                    }
                }
            }
        }
    }

    /// Returns the file whose content an operation changes. It must exist.
    fn file(&mut self, at: &At) -> Result<Ino> {
        let ino = self.find(at)?;
        self.require_file(at, ino)?;
        Ok(ino)
    }

    fn require_file(&mut self, at: &At, ino: Ino) -> Result<()> {
        match self.get(ino).kind {
            Kind::File => Ok(()),
            Kind::Directory => Err(self.about_at(ErrorKind::IsADirectory, at, "is a directory")),
            Kind::Symlink
            | Kind::Fifo
            | Kind::Socket
            | Kind::CharDevice
            | Kind::BlockDevice
            | Kind::Whiteout => Err(self.about_at(ErrorKind::NotPermitted, at, "only a file has content")),
        }
    }

    /// Returns the file whose content an operation changes, as the outcome of changing it. Creates it if
    /// `create` allows.
    fn find_or_create_file(&mut self, at: &At, create: Create, parents: bool) -> Result<Outcome> {
        let slot = match at {
            At::Node(_) => None,
            At::Path(_) | At::Child(..) => {
                let path =
                    if create == Create::Never { self.existing_path(at)? } else { self.creatable_path(at)? };
                self.slot(&path, parents)?
            }
        };
        let found = match &slot {
            Some(slot) => slot.taken,
            None => Some(self.find(at)?),
        };
        match (found, slot) {
            (Some(_), _) if create == Create::New => {
                Err(self.about_at(ErrorKind::AlreadyExists, at, "already exists"))
            }
            (Some(ino), _) => {
                self.require_file(at, ino)?;
                Ok(self.changed(ino))
            }
            (None, Some(slot)) if create != Create::Never => {
                let ino = self.make(&slot, Kind::File, 0o644)?;
                self.note(ChangeKind::Created, ino, &slot.path);
                Ok(self.created(ino))
            }
            (None, _) => Err(self.about_at(ErrorKind::NotFound, at, "no such file or directory")),
        }
    }

    fn check_size(&mut self, at: &At, size: Option<u64>) -> Result<()> {
        match size {
            Some(size) if size <= MAX_FILE => Ok(()),
            _ => Err(self.about_at(ErrorKind::TooLarge, at, "a file has at most 8 TiB")),
        }
    }

    /// Sets the content of a file, which differs from byte `first` on.
    fn set_content(&mut self, file: Outcome, first: u64, content: Content) {
        self.edited(file.ino, first);
        self.modify(file.ino).content = content;
        if !file.created {
            self.log_node(ChangeKind::Modified, file.ino);
        }
    }

    fn write(
        &mut self,
        at: &At,
        body: &Body,
        create: Create,
        parents: bool,
        attrs: &SetAttrs,
    ) -> Result<Outcome> {
        let file = self.find_or_create_file(at, create, parents)?;
        // After the file was found or created: a missing directory is reported before a size.
        self.check_size(at, Some(body.size()))?;
        let content = self.take_body(body)?.written(self.seq);
        self.set_content(file, 0, content);
        self.laid.own.insert(file.ino);
        self.set_attrs(file.ino, attrs)?;
        Ok(file)
    }

    fn append(&mut self, at: &At, body: &Body, create: Create, parents: bool) -> Result<Outcome> {
        let file = self.find_or_create_file(at, create, parents)?;
        let size = self.get(file.ino).content.size().checked_add(body.size());
        self.check_size(at, size)?;
        let bytes = self.take_body(body)?.written(self.seq);
        if file.created {
            self.laid.own.insert(file.ino);
        }
        if bytes.size() == 0 {
            return Ok(if file.created { file } else { self.unchanged(file.ino) });
        }
        let before = &self.get(file.ino).content;
        let (end, content) = (before.size(), before.append(&bytes));
        self.set_content(file, end, content);
        Ok(file)
    }

    fn patch(&mut self, at: &At, offset: u64, body: &Body) -> Result<Outcome> {
        let ino = self.file(at)?;
        // Even beyond the end: no bytes are written, so the file is not extended.
        if body.size() == 0 {
            return Ok(self.unchanged(ino));
        }
        self.check_size(at, offset.checked_add(body.size()))?;
        let bytes = self.take_body(body)?.written(self.seq);
        let before = &self.get(ino).content;
        let (first, content) = (offset.min(before.size()), before.patch(offset, &bytes));
        let file = self.changed(ino);
        self.laid.rewritten.insert(ino);
        self.set_content(file, first, content);
        Ok(file)
    }

    fn truncate(&mut self, at: &At, size: u64) -> Result<Outcome> {
        let ino = self.file(at)?;
        self.check_size(at, Some(size))?;
        let before = &self.get(ino).content;
        let (first, content) = (size.min(before.size()), before.resize(size));
        let file = self.changed(ino);
        self.laid.rewritten.insert(ino);
        self.set_content(file, first, content);
        Ok(file)
    }

    fn punch(&mut self, at: &At, offset: u64, length: u64) -> Result<Outcome> {
        let ino = self.file(at)?;
        let content = self.get(ino).content.clone();
        let length = length.min(content.size().saturating_sub(offset));
        // The range is a hole already: nothing changes.
        if content.slice(offset, length).next_data(0).is_none() {
            return Ok(self.unchanged(ino));
        }
        let file = self.changed(ino);
        self.laid.rewritten.insert(ino);
        self.set_content(file, offset, content.patch(offset, &Content::zeros(length)));
        Ok(file)
    }

    fn copy_range(&mut self, from: &At, start: u64, length: u64, to: &At, place: u64) -> Result<Outcome> {
        let source = self.file(from)?;
        let ino = self.file(to)?;
        let bytes = self.get(source).content.slice(start, length);
        if bytes.size() == 0 {
            return Ok(self.unchanged(ino));
        }
        // Both ranges have this length, so they overlap if they start closer than that.
        if source == ino && start.abs_diff(place) < bytes.size() {
            return Err(self.about_at(ErrorKind::InvalidArgument, to, "the ranges overlap"));
        }
        self.check_size(to, place.checked_add(bytes.size()))?;
        if let Err(error) = self.count_copied(0, &bytes) {
            return Err(self.about_at(error.kind(), to, error.message()));
        }
        let bytes = bytes.written(self.seq);
        let file = self.changed(ino);
        self.laid.own.remove(&ino);
        self.laid.rewritten.insert(ino);
        let before = &self.get(ino).content;
        let (first, content) = (place.min(before.size()), before.patch(place, &bytes));
        self.set_content(file, first, content);
        Ok(file)
    }

    // Attributes, checks, snapshots

    pub(super) fn set_attrs(&mut self, ino: Ino, attrs: &SetAttrs) -> Result<()> {
        if *attrs == SetAttrs::default() {
            return Ok(());
        }
        if attrs.expires_at.is_some() && self.is_directory(ino) {
            return Err(self.about(ErrorKind::NotPermitted, ino, "a directory does not expire"));
        }
        if attrs.has_attributes() {
            let mut attributes = self.get(ino).attributes.as_ref().clone();
            attrs.apply(&mut attributes)?;
            self.count_attributes(&attributes, 0)?;
            self.edit(ino).attributes = attributes.into();
        }
        let node = self.edit(ino);
        node.mode = attrs.mode.unwrap_or(node.mode);
        node.uid = attrs.uid.unwrap_or(node.uid);
        node.gid = attrs.gid.unwrap_or(node.gid);
        node.atime = attrs.atime.unwrap_or(node.atime);
        node.mtime = attrs.mtime.unwrap_or(node.mtime);
        node.expires_at = attrs.expires_at.unwrap_or(node.expires_at);
        Ok(())
    }

    /// Returns the node that a condition is about, if the condition holds.
    pub(super) fn check(&mut self, at: &At, that: &Precondition) -> Result<Ino> {
        let found = self.find(at).optional()?;
        if self.holds(at, that, found)? {
            return Ok(found.unwrap_or(Ino::NONE));
        }
        let message = match that {
            Precondition::Absent => "exists, but must not",
            Precondition::Exists => "does not exist, but must",
            Precondition::Version(_) | Precondition::Etag(_) | Precondition::EtagIn(_) => {
                "does not have the expected version"
            }
            Precondition::Sha256(_) => "does not have the expected content",
            Precondition::Not(_) => "the negated condition holds",
        };
        Err(self.about_at(ErrorKind::Conflict, at, message))
    }

    fn holds(&mut self, at: &At, that: &Precondition, found: Option<Ino>) -> Result<bool> {
        if let Precondition::Not(that) = that {
            return Ok(!self.holds(at, that, found)?);
        }
        let Some(node) = found.map(|ino| self.get(ino)) else { return Ok(*that == Precondition::Absent) };
        let (version, etag, content) = (node.version, node.etag, node.content.clone());
        Ok(match that {
            Precondition::Absent | Precondition::Not(_) => false,
            Precondition::Exists => true,
            Precondition::Version(asked) => version == *asked,
            Precondition::Etag(asked) => etag == *asked,
            Precondition::EtagIn(asked) => asked.contains(&etag),
            // Nothing else has content. Without this, the hash of nothing would match a directory.
            Precondition::Sha256(_) if node.kind != Kind::File => false,
            Precondition::Sha256(hash) => {
                self.hashed += content.size();
                if self.hashed > MAX_HASHED {
                    return Err(self.about_at(
                        ErrorKind::TooLarge,
                        at,
                        "too many bytes to hash in one commit",
                    ));
                }
                sha256(&content) == *hash
            }
        })
    }

    fn snapshot(&mut self, name: &str) -> Result<Outcome> {
        if self.has_snapshot(name) {
            return Err(Error::new(ErrorKind::AlreadyExists, "a snapshot by that name exists"));
        }
        let owner = self.owner.clone();
        let snapshot = Snapshot { name: name.to_owned(), seq: self.seq, time: self.time, owner };
        self.laid.snapshots.insert(self.own(name.to_owned()), Some(snapshot));
        self.note(ChangeKind::Snapshot { name: name.to_owned() }, Ino::ROOT, &TreePath::root());
        Ok(self.snapshot_outcome())
    }

    /// Returns the outcome for the root, or for the first top that exists.
    fn snapshot_outcome(&mut self) -> Outcome {
        let told = match self.root.clone() {
            Some(root) => self.find(&root).ok(),
            None => self.within.tops().iter().find_map(|top| self.find_path(top).ok()),
        };
        Outcome { changed: true, ..self.unchanged(told.unwrap_or(Ino::NONE)) }
    }

    /// Refuses the top of what the batch reaches.
    fn reject_top(&mut self, at: &At) -> Result<()> {
        match at {
            At::Path(path) if self.within.is_top(path) => {
                self.find_path(path)?;
                Err(busy(path))
            }
            _ => Ok(()),
        }
    }

    fn drop_snapshot(&mut self, name: &str) -> Result<Outcome> {
        if !self.has_snapshot(name) {
            return Err(Error::new(ErrorKind::NotFound, "no snapshot by that name"));
        }
        self.laid.snapshots.insert(self.own(name.to_owned()), None);
        self.note(ChangeKind::SnapshotDropped { name: name.to_owned() }, Ino::ROOT, &TreePath::root());
        Ok(self.snapshot_outcome())
    }

    fn has_snapshot(&self, name: &str) -> bool {
        let own = self.own(name.to_owned());
        match self.laid.snapshots.get(&own) {
            Some(laid) => laid.is_some(),
            None => self.state.snapshots.contains_key(&own),
        }
    }

    /// Returns the key of a snapshot: the owner of the batch and its name.
    fn own(&self, name: String) -> (String, String) {
        (self.owner.as_ref().map_or("", Owner::key).to_owned(), name)
    }
}

fn sha256(content: &Content) -> [u8; 32] {
    use sha2::Digest;
    let mut hash = sha2::Sha256::new();
    content.each(&mut |bytes| hash.update(bytes));
    hash.finalize().into()
}
