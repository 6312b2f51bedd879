//! Operations on content. Each stores its new bytes and ends the extents that they cover; it rewrites
//! nothing else. Why: `docs/decisions/extents-and-chunks.md`.

use std::ops::Range;

use bytes::Bytes;

use super::rows::{Chunk, DEDUP_FROM, ExtentRow, NodeRow, Rows, SHORT_SUM};
use super::state::Planner;
use super::subtrees::key_of;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{At, Body, ChangeKind, Create, Kind, MAX_FILE, Outcome, SetAttrs};
use crate::text::passage::Edit;

/// Size limit of an extent in bytes. It bounds what reading a single byte has to fetch and check.
pub const MAX_EXTENT: usize = 1 << 20;

/// Returns the checksum to store with a chunk: its full BLAKE3 hash if it is deduplicated by that,
/// otherwise the first 8 bytes.
pub fn sum_of(data: &[u8], dedup: bool) -> Vec<u8> {
    let length = if dedup { 32 } else { SHORT_SUM };
    blake3::hash(data).as_bytes()[..length].to_vec()
}

/// Splits a body into ranges that are stored separately: each piece of at least [`DEDUP_FROM`] bytes
/// between two cuts, and the bytes between those pieces.
fn stretches(size: usize, cuts: &[u64]) -> Vec<Range<usize>> {
    let (mut found, mut stored, mut begin) = (Vec::new(), 0, 0);
    for end in cuts.iter().map(|cut| usize::try_from(*cut).map_or(size, |cut| cut.min(size))).chain([size]) {
        if end.saturating_sub(begin) >= DEDUP_FROM {
            found.extend([stored..begin, begin..end]);
            stored = end;
        }
        begin = end;
    }
    found.push(stored..size);
    found.retain(|stretch| !stretch.is_empty());
    found
}

/// Splits a body into the chunks that store it. The flag is true for chunks that are deduplicated by hash.
pub fn chunks(bytes: &Bytes, cuts: &[u64]) -> impl Iterator<Item = (Bytes, bool)> {
    stretches(bytes.len(), cuts).into_iter().flat_map(move |stretch| {
        // By the length of the range: its last chunk is found by hash as well, however short it is.
        let (dedup, end) = (stretch.len() >= DEDUP_FROM, stretch.end);
        stretch.step_by(MAX_EXTENT).map(move |at| (bytes.slice(at..end.min(at + MAX_EXTENT)), dedup))
    })
}

/// Stored bytes that go into a file: chunk and length.
type Piece = (u64, u64);

impl<R: Rows> Planner<'_, R> {
    pub(super) fn write(
        &mut self,
        at: &At,
        body: &Body,
        create: Create,
        parents: bool,
        attrs: &SetAttrs,
    ) -> Result<Outcome> {
        let (mut node, created) = self.file(at, create, parents)?;
        self.check_size(at, body.size())?;
        let pieces = self.store(body, &[])?;
        self.clear(node.ino, 0, u64::MAX)?;
        self.add_pieces(node.ino, 0, &pieces);
        let edit = Edit::replace(node.size, body.size());
        self.changed(&mut node, created, edit);
        self.delta.own.insert(node.ino);
        // After `changed`, so that a given `mtime` wins.
        if let Err(error) = self.apply_attrs(&mut node, attrs) {
            return Err(self.about_expiry(error, at));
        }
        self.finish_content(node, created)
    }

    pub(super) fn append(
        &mut self,
        at: &At,
        body: &Body,
        create: Create,
        parents: bool,
        cuts: &[u64],
    ) -> Result<Outcome> {
        let (mut node, created) = self.file(at, create, parents)?;
        // Nothing to write. A file that this operation created is a change all the same.
        if body.size() == 0 && !created {
            return self.unchanged(&node);
        }
        let (from, to) = (node.size, node.size.saturating_add(body.size()));
        self.check_size(at, to)?;
        let pieces = self.store(body, cuts)?;
        self.add_pieces(node.ino, from, &pieces);
        let edit = Edit::write(from, body.size(), from);
        self.changed(&mut node, created, edit);
        if created {
            self.delta.own.insert(node.ino);
        }
        self.finish_content(node, created)
    }

    pub(super) fn patch(&mut self, at: &At, offset: u64, body: &Body) -> Result<Outcome> {
        let (mut node, _) = self.file(at, Create::Never, false)?;
        // As POSIX has it: writing no bytes neither extends the file nor changes its times.
        if body.size() == 0 {
            return self.unchanged(&node);
        }
        let end = offset.saturating_add(body.size());
        self.check_size(at, end)?;
        let pieces = self.store(body, &[])?;
        self.clear(node.ino, offset, end)?;
        self.add_pieces(node.ino, offset, &pieces);
        let edit = Edit::write(offset, body.size(), node.size);
        self.changed(&mut node, false, edit);
        self.delta.rewritten.insert(node.ino);
        self.finish_content(node, false)
    }

    pub(super) fn truncate(&mut self, at: &At, size: u64) -> Result<Outcome> {
        let (mut node, _) = self.file(at, Create::Never, false)?;
        self.check_size(at, size)?;
        // Only shrinking changes extents: bytes of a file without an extent are zeros.
        if size < node.size {
            self.clear(node.ino, size, u64::MAX)?;
        }
        let edit = Edit::truncate(node.size, size);
        self.changed(&mut node, false, edit);
        self.delta.rewritten.insert(node.ino);
        self.finish_content(node, false)
    }

    pub(super) fn punch(&mut self, at: &At, offset: u64, length: u64) -> Result<Outcome> {
        let (mut node, _) = self.file(at, Create::Never, false)?;
        let end = offset.saturating_add(length).min(node.size);
        // The range is a hole already: nothing changes.
        if offset >= end || self.extents(node.ino, offset, end)?.is_empty() {
            return self.unchanged(&node);
        }
        self.clear(node.ino, offset, end)?;
        let edit = Edit::write(offset, end - offset, node.size);
        self.changed(&mut node, false, edit);
        self.delta.rewritten.insert(node.ino);
        self.finish_content(node, false)
    }

    pub(super) fn copy_range(
        &mut self,
        (from, from_offset): (&At, u64),
        length: u64,
        (to, to_offset): (&At, u64),
    ) -> Result<Outcome> {
        let (source, _) = self.file(from, Create::Never, false)?;
        let (mut node, _) = self.file(to, Create::Never, false)?;
        let from_end = from_offset.saturating_add(length).min(source.size);
        let Some(length) = from_end.checked_sub(from_offset).filter(|length| *length > 0) else {
            return self.unchanged(&node);
        };
        let end = to_offset.saturating_add(length);
        if source.ino == node.ino && from_offset < end && to_offset < from_end {
            let message = "source and target ranges overlap";
            return Err(self.about(Error::new(ErrorKind::InvalidArgument, message), to));
        }
        self.check_size(to, end)?;
        // Before `clear`: source and target may be one file, and one extent may hold bytes of both ranges.
        let extents = self.extents(source.ino, from_offset, from_end)?;
        if let Err(error) = self.totals.copied_pieces(extents.len()) {
            return Err(self.about(error, to));
        }
        self.clear(node.ino, to_offset, end)?;
        for extent in extents {
            let part = extent.cut(from_offset, from_end);
            let off = to_offset + (part.off - from_offset);
            self.add_extent(node.ino, ExtentRow { off, since: self.seq, written: self.seq, ..part });
        }
        let edit = Edit::write(to_offset, length, node.size);
        self.changed(&mut node, false, edit);
        self.delta.copy_content(node.ino);
        self.finish_content(node, false)
    }

    /// Returns the file at an address and false, or creates it and returns true.
    fn file(&mut self, at: &At, create: Create, parents: bool) -> Result<(NodeRow, bool)> {
        let (node, path) = match at {
            At::Node(_) => (Some(self.node_at(at)?), None),
            At::Path(_) | At::Child(..) => {
                let path = if create == Create::Never { self.path_at(at)? } else { self.new_path_at(at)? };
                self.ready_parent(&path, parents)?;
                (self.lookup(&path)?, Some(path))
            }
        };
        let kind = match (&node, create) {
            (Some(_), Create::New) => ErrorKind::AlreadyExists,
            (Some(node), _) if node.kind == Kind::Directory => ErrorKind::IsADirectory,
            (Some(node), _) if node.kind != Kind::File => ErrorKind::NotPermitted,
            (None, Create::Never) => ErrorKind::NotFound,
            (Some(_), _) | (None, _) => {
                return match (node, path) {
                    (Some(node), path) => {
                        // Spares rules and quotas a lookup of its names.
                        let key = path.as_ref().and_then(key_of);
                        self.addressed.extend(key.map(|key| (node.ino, key)));
                        Ok((node, false))
                    }
                    (None, Some(path)) => Ok((self.make(&path, Kind::File, 0o644)?, true)),
                    (None, None) => Err(Error::no_node()),
                };
            }
        };
        let message = match kind {
            ErrorKind::AlreadyExists => "already exists",
            ErrorKind::IsADirectory => "is a directory",
            ErrorKind::NotPermitted => "has no content: not a regular file",
            _ => "no such file or directory",
        };
        Err(self.about(Error::new(kind, message), at))
    }

    /// Records a change of content: size, times, version, and the edit for search.
    pub(super) fn changed(&mut self, node: &mut NodeRow, created: bool, edit: Edit) {
        node.size = edit.new_size;
        node.mtime = self.time;
        node.ctime = self.time;
        node.content_seq = self.seq;
        self.delta.touch(node.ino, edit);
        self.delta.edit(node.ino, edit.start);
        // For a new file, the log has `Created`.
        if !created {
            self.delta.log(ChangeKind::Modified, node.ino, None);
        }
    }

    fn finish_content(&mut self, node: NodeRow, created: bool) -> Result<Outcome> {
        let outcome = self.outcome(node.ino, created);
        self.put_held(node);
        Ok(outcome)
    }

    /// Stores a body and returns its pieces. Content that is already stored under its hash is not stored
    /// again.
    fn store(&mut self, body: &Body, cuts: &[u64]) -> Result<Vec<Piece>> {
        match body {
            Body::Bytes(bytes) => chunks(bytes, cuts).map(|(data, dedup)| self.chunk(data, dedup)).collect(),
            Body::Staged(staged) => {
                let unknown = || {
                    let message = "no such staged body: it was used already (copy the file instead), has been \
                                   removed, has another size, or belongs to another tree";
                    Error::new(ErrorKind::NotFound, message)
                };
                // A body gives its references to chunks to the file that uses it. A second use would need
                // more.
                if !self.staged.insert(staged.id) {
                    return Err(unknown());
                }
                // A body of another owner is reported as if it did not exist.
                let body = self.rows.staged(staged.id)?.filter(|body| self.stagers.contains(&&*body.owner));
                let body = body.ok_or_else(unknown)?.pieces;
                // The new size of the file comes from the handle, which the caller could have changed.
                if body.0.iter().map(|(_, length)| length).sum::<u64>() != staged.size {
                    return Err(unknown());
                }
                self.delta.staged.push((staged.id, body.clone()));
                Ok(body.0)
            }
        }
    }

    /// Stores at most [`MAX_EXTENT`] bytes.
    fn chunk(&mut self, data: Bytes, dedup: bool) -> Result<Piece> {
        let (mut sum, length) = (sum_of(&data, dedup), data.len() as u64);
        if let Some(id) = self.delta.dedup.get(sum.as_slice()) {
            return Ok((*id, length));
        }
        // `share` shortens the sum if the stored chunk is damaged: hashes are unique, so a new chunk with
        // the full one could not be written.
        if sum.len() > SHORT_SUM
            && let Some(id) = self.rows.stored(&sum)?.share(&mut sum)
        {
            self.delta.shared.insert(id, length);
            return Ok((id, length));
        }
        let id = self.next_chunk;
        self.next_chunk += 1;
        if sum.len() > SHORT_SUM {
            self.delta.dedup.insert(sum.clone(), id);
        }
        self.delta.chunks.insert(id, Chunk { id, data, sum });
        Ok((id, length))
    }

    /// Ends all extents within `from..to`. The part of an extent outside of it becomes a new extent of the
    /// same chunk.
    pub(super) fn clear(&mut self, ino: u64, from: u64, to: u64) -> Result<()> {
        for extent in self.extents(ino, from, to)? {
            let seq = self.seq;
            let change = self.delta.extents.entry(ino).or_default();
            // An extent of this batch is just dropped: the database has no row of it to end.
            if change.added.remove(&extent.off).is_none() {
                change.closed.insert(extent.off, extent);
                self.live.get_mut().end(ino, extent.off);
            }
            if extent.off < from {
                change.added.insert(extent.off, ExtentRow { since: seq, ..extent.cut(extent.off, from) });
            }
            if extent.end() > to {
                change.added.insert(to, ExtentRow { since: seq, ..extent.cut(to, extent.end()) });
            }
        }
        Ok(())
    }

    fn add_pieces(&mut self, ino: u64, mut off: u64, pieces: &[Piece]) {
        for &(chunk, len) in pieces {
            self.add_extent(ino, ExtentRow { off, len, since: self.seq, chunk, skip: 0, written: self.seq });
            off += len;
        }
    }

    pub(super) fn add_extent(&mut self, ino: u64, row: ExtentRow) {
        self.delta.extents.entry(ino).or_default().added.insert(row.off, row);
    }

    fn check_size(&mut self, at: &At, size: u64) -> Result<()> {
        if size <= MAX_FILE {
            return Ok(());
        }
        let message = format!("a file has at most {MAX_FILE} bytes");
        Err(self.about(Error::new(ErrorKind::TooLarge, message), at))
    }
}
