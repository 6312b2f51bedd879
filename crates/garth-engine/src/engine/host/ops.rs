//! Operations of a batch, with errors in the order of [`crate::model::op`].

mod content;
mod copy;
mod names;

use std::os::unix::fs::FileExt;

use sha2::{Digest, Sha256};

use super::failed::{errno, failed, failed_without_path, unsupported};
use super::listing::is_gone;
use super::lookup::path_of;
use super::node::Node;
use super::writer::{NodeAttributes, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::model::batch::Reaches;
use crate::model::{At, Batch, MAX_HASHED, Op, Outcome, Precondition, SetAttrs};
use crate::path::TreePath;

/// Refuses operations that a folder does not support, before any other is applied.
pub(super) fn check_supported(batch: &Batch) -> Result<()> {
    if batch.id.is_some() || batch.idempotency.is_some() {
        return Err(unsupported("has no log to detect retries; commit without id and idempotency key"));
    }
    for (at, _) in batch.assumptions.iter().chain(&batch.preconditions) {
        path_of(at)?;
    }
    batch.ops.iter().try_for_each(check_op)
}

fn check_op(op: &Op) -> Result<()> {
    match op {
        Op::Write { at, attrs, .. } | Op::Mkdir { at, attrs, .. } | Op::SetAttrs { at, attrs } => {
            path_of(at).and_then(|_| check_attrs(attrs))
        }
        Op::Symlink { at, attrs, .. } => {
            path_of(at)?;
            if attrs.mode.is_some() {
                return Err(unsupported("does not store the mode of a symbolic link"));
            }
            check_attrs(attrs)
        }
        Op::Mknod { at, attrs, .. } => path_of(at).and_then(|_| check_attrs(attrs)),
        Op::Append { at, .. }
        | Op::Patch { at, .. }
        | Op::Truncate { at, .. }
        | Op::Remove { at, .. }
        | Op::Check { at, .. } => path_of(at).map(drop),
        Op::Link { from, to, .. } | Op::Rename { from, to, .. } => path_of(from).and(path_of(to)).map(drop),
        Op::Copy { as_of: Some(_), .. } => Err(unsupported("has no past to copy from")),
        Op::Copy { from, to, .. } => path_of(from).and(path_of(to)).map(drop),
        Op::Punch { .. } | Op::CopyRange { .. } => Err(unsupported("does not report holes")),
        Op::Snapshot { .. } | Op::DropSnapshot { .. } => Err(unsupported("has no history for snapshots")),
        Op::Misused { reason } => Err(Error::invalid(reason)),
    }
}

fn check_attrs(attrs: &SetAttrs) -> Result<()> {
    let SetAttrs { mode, uid, gid, atime, mtime, .. } = *attrs;
    let posix = SetAttrs { mode, uid, gid, atime, mtime, ..SetAttrs::default() };
    // Anything else would be lost silently.
    if posix != *attrs {
        return Err(unsupported("stores only mode, owner and times"));
    }
    // The host takes this value for "unchanged".
    if [uid, gid].contains(&Some(u32::MAX)) {
        return Err(Error::invalid(format!("{} is not a valid user or group id", u32::MAX)));
    }
    Ok(())
}

impl<'a> Writer<'a> {
    /// Checks assumptions and preconditions, then performs the operations.
    pub(super) fn run(
        &mut self,
        batch: &Batch,
        reaches: &'a Reaches,
        unsynced: bool,
    ) -> Result<Vec<Outcome>> {
        self.tree.within = &reaches.added;
        for (at, assumption) in &batch.assumptions {
            self.check(at, assumption).map_err(|error| match error.kind() {
                ErrorKind::Conflict => {
                    Error::new(ErrorKind::Stale, "entries that the view has read have changed")
                }
                _ => error,
            })?;
        }
        self.tree.within = &reaches.own;
        for (at, precondition) in &batch.preconditions {
            self.check(at, precondition)?;
        }
        if unsynced {
            // A durable commit includes everything that it builds on.
            self.sync_all().map_err(failed_without_path)?;
        }
        let mut outcomes = Vec::with_capacity(batch.ops.len());
        for (place, op) in batch.ops.iter().enumerate() {
            self.tree.within = reaches.of(place);
            // A folder cannot undo operations. The error says how many are done.
            let outcome = self.apply(op).map_err(|error| error.after(outcomes.len(), batch.ops.len()))?;
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    fn apply(&mut self, op: &Op) -> Result<Outcome> {
        match op {
            Op::Write { at, body, create, parents, attrs } => {
                self.write(path_of(at)?, body, *create, *parents, NodeAttributes::of(attrs))
            }
            // The division of content into pieces is not part of the contract.
            Op::Append { at, body, create, parents, cuts: _ } => {
                self.append(path_of(at)?, body, *create, *parents)
            }
            Op::Patch { at, offset, body } => self.patch(path_of(at)?, *offset, body),
            Op::Truncate { at, size } => self.truncate(path_of(at)?, *size),
            Op::Mkdir { at, parents, attrs } => self.mkdir(path_of(at)?, *parents, NodeAttributes::of(attrs)),
            Op::Symlink { at, target, parents, attrs } => {
                self.symlink(path_of(at)?, target, *parents, NodeAttributes::of(attrs))
            }
            Op::Mknod { at, node, parents, attrs } => {
                self.mknod(path_of(at)?, *node, *parents, NodeAttributes::of(attrs))
            }
            Op::Link { from, to, parents } => self.link(path_of(from)?, path_of(to)?, *parents),
            Op::Remove { at, what, missing_ok } => self.remove(path_of(at)?, *what, *missing_ok),
            Op::Rename { from, to, mode, parents } => {
                self.rename(path_of(from)?, path_of(to)?, *mode, *parents)
            }
            Op::Copy { from, to, recursive, replace, parents, as_of: _ } => {
                self.copy(path_of(from)?, path_of(to)?, *recursive, *replace, *parents)
            }
            Op::SetAttrs { at, attrs } => self.set_attrs(path_of(at)?, NodeAttributes::of(attrs)),
            Op::Check { at, that } => {
                let found = self.check(at, that)?;
                Ok(found.map_or_else(|| self.nothing(), |node| Self::unchanged(&node)))
            }
            Op::Punch { .. }
            | Op::CopyRange { .. }
            | Op::Snapshot { .. }
            | Op::DropSnapshot { .. }
            | Op::Misused { .. } => check_op(op).map(|()| self.nothing()),
        }
    }

    fn set_attrs(&mut self, path: &TreePath, dress: NodeAttributes) -> Result<Outcome> {
        let node = self.tree.find(path)?;
        if node.is_link() && dress.mode.is_some() {
            return Err(unsupported("does not store the mode of a symbolic link").about(path));
        }
        self.dress(&node, dress).and_then(|()| self.sync_node(&node)).map_err(|errno| failed(errno, path))?;
        Self::changed(node)
    }

    /// Returns the node that a condition is about, if the condition holds.
    pub(super) fn check(&mut self, at: &At, that: &Precondition) -> Result<Option<Node>> {
        let path = path_of(at)?;
        let found = match self.tree.find(path) {
            Ok(node) => Some(node),
            Err(error) if is_gone(&error) => None,
            Err(error) => return Err(error),
        };
        if self.holds(path, that, found.as_ref())? {
            return Ok(found);
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
        Err(Error::at(ErrorKind::Conflict, path, message))
    }

    fn holds(&mut self, path: &TreePath, that: &Precondition, found: Option<&Node>) -> Result<bool> {
        if let Precondition::Not(that) = that {
            return Ok(!self.holds(path, that, found)?);
        }
        let Some(node) = found else { return Ok(*that == Precondition::Absent) };
        Ok(match that {
            Precondition::Absent | Precondition::Not(_) => false,
            Precondition::Exists => true,
            Precondition::Version(asked) => node.version() == *asked,
            Precondition::Etag(asked) => node.version() == *asked,
            Precondition::EtagIn(asked) => asked.contains(&node.version()),
            Precondition::Sha256(_) if !node.is_file() => false,
            Precondition::Sha256(hash) => self.hash(node, path)? == *hash,
        })
    }

    fn hash(&mut self, node: &Node, path: &TreePath) -> Result<[u8; 32]> {
        self.hashed = self.hashed.saturating_add(node.size());
        if self.hashed > MAX_HASHED {
            return Err(Error::at(ErrorKind::TooLarge, path, "too many bytes to hash in one commit"));
        }
        let file = node.open().map_err(|errno| failed(errno, path))?;
        let mut hash = Sha256::new();
        let (mut from, mut bytes) = (0, vec![0; 64 << 10]);
        // No more than was counted, even if the file grows meanwhile.
        while from < node.size() {
            let read = file.read_at(&mut bytes, from).map_err(|error| failed(errno(&error), path))?;
            let read = read.min(usize::try_from(node.size() - from).unwrap_or(read));
            if read == 0 {
                break;
            }
            hash.update(&bytes[..read]);
            from += read as u64;
        }
        Ok(hash.finalize().into())
    }
}
