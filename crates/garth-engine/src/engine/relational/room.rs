//! Room of an account that has a limit on its stored bytes: which batches need it, and the error if there is
//! none. How the bytes are counted is the part of each engine.

use crate::engine::planner::Delta;
use crate::error::{Advice, Error, ErrorKind, Result};
use crate::model::{Attributes, Batch, Op, Special};
use crate::text::passage::is_text;

/// Bytes that a commit is expected to add in any case: its row of the log, and pages that are split for it.
pub const COMMIT: u64 = 4096;
/// Bytes that each of its other rows is expected to add, with its share of the indexes.
pub const ROW: u64 = 256;
/// Bytes that a file with a short name and a short text is expected to add: rows of its name, its node, its
/// directory, its attributes and its extent, and what is in them.
pub const SMALL_FILE: u64 = COMMIT + 5 * ROW + 64;
/// Bytes of text for each byte that the search index is expected to add, with its passages: most words of a
/// passage take a few bytes.
const TEXT: u64 = 2;
/// Copies of the path of a name: in its row, and in two indexes or one of them and the log.
const PATHS: u64 = 3;

/// Fails if `arriving` bytes would exceed the limit of the account.
///
/// # Errors
/// `QuotaExceeded` if they would.
pub fn check_room(limit: u64, used: u64, arriving: u64) -> Result<()> {
    if used.saturating_add(arriving) <= limit { Ok(()) } else { Err(full()) }
}

/// Returns true if the account has no room for a small file.
pub fn is_full(limit: u64, used: u64) -> bool {
    check_room(limit, used, SMALL_FILE).is_err()
}

/// Returns the error for a full account. It has no numbers: the use of others is not every caller's to know.
pub fn full() -> Error {
    no_room("remove something and collect, keep less of the past, or have the limit raised")
}

/// Returns the error for a batch for which the account has no room.
pub fn full_for(batch: &Batch) -> Error {
    // An overlay hides what is removed below it, and stores that.
    let hides = |op: &Op| matches!(op, Op::Mknod { node: Special::Whiteout, .. });
    match batch.ops.iter().any(hides) {
        true => no_room(
            "a removal in an overlay takes room, too: remove the overlay, or something outside of it, and \
             collect, keep less of the past, or have the limit raised",
        ),
        false => full(),
    }
}

fn no_room(advice: &str) -> Error {
    let message = "the account has no room for this under its limit on stored bytes";
    Error::new(ErrorKind::QuotaExceeded, message).advising(Advice::StoredBytes, advice)
}

/// Returns true for a batch that adds no name and no content, and ends names, content or snapshots, of which
/// an account has a limited number. Batches that end nothing, or have long notes or attributes, could make it
/// grow without bound.
pub fn releases(delta: &Delta, batch: &Batch) -> bool {
    let releases = |op: &Op| match op {
        Op::Remove { .. } | Op::DropSnapshot { .. } | Op::Check { .. } | Op::Truncate { size: 0, .. } => true,
        // Truncates the file, unless it creates one.
        Op::Write { body, .. } => body.size() == 0,
        _ => false,
    };
    let ended = ended(delta);
    let note = batch.idempotency.as_ref().map_or(0, |record| record.note.len());
    let attributes: usize = delta.attributes.values().map(Attributes::weight).sum();
    ended > 0
        && (note + attributes) as u64 <= ended.saturating_mul(COMMIT)
        && delta.names.values().all(|change| change.after.is_none())
        && batch.ops.iter().all(releases)
}

/// Returns the number of names, extents and snapshots that end. The names of a removed subtree count as one.
fn ended(delta: &Delta) -> u64 {
    let names = delta.names.values().filter(|change| change.before.is_some() && change.after.is_none());
    let extents: usize = delta.extents.values().map(|change| change.closed.len()).sum();
    let snapshots = delta.snapshots.values().filter(|created| !**created);
    (names.count() + extents + snapshots.count()) as u64
}

/// Returns about the bytes that the rows of a batch add, apart from its uploads. Content that the account
/// stores once, because it had it before, counts as new content does: otherwise the room would tell a caller
/// whether others have content that it cannot read. `moved` are the number of names in moved and removed
/// subtrees, and the bytes of their paths.
pub fn growth(delta: &Delta, batch: &Batch, moved: (u64, u64)) -> u64 {
    let content: usize = delta.chunks.values().map(|chunk| chunk.data.len()).sum();
    let shared = delta.shared.values().fold(0_u64, |sum, length| sum.saturating_add(*length));
    let attributes: usize = delta.attributes.values().map(Attributes::weight).sum();
    let targets: usize = delta.nodes.values().filter_map(|node| node.target.as_ref()).map(String::len).sum();
    let note = batch.idempotency.as_ref().map_or(0, |record| record.note.len());
    let extents: usize = delta.extents.values().map(|change| change.added.len()).sum();
    let names = moved.0.saturating_add(delta.names.len() as u64);
    let paths: usize = delta.names.keys().map(|(dir, name)| dir.len() + name.len()).sum();
    let rows = names.saturating_add((delta.nodes.len() + delta.attributes.len() + extents) as u64);
    ((content + attributes + targets + note) as u64)
        .saturating_add(shared)
        .saturating_add(moved.1.saturating_add(paths as u64).saturating_mul(PATHS))
        .saturating_add(rows.saturating_mul(ROW))
        .saturating_add(COMMIT)
}

/// Returns about the bytes that the search index adds. Content counts as text unless its type says otherwise:
/// it is only read once it is indexed. `stored` returns the attributes that a node got in a commit.
///
/// # Errors
/// Errors of `stored`.
pub fn index_growth(delta: &Delta, stored: impl Fn(u64, u64) -> Result<Attributes>) -> Result<u64> {
    let mut text = 0_u64;
    for (ino, edit) in &delta.index {
        let Some(node) = delta.nodes.get(ino).filter(|node| node.nlink > 0) else { continue };
        let stored = match delta.attributes.contains_key(ino) || node.attrs_seq == 0 {
            true => Attributes::default(),
            false => stored(*ino, node.attrs_seq)?,
        };
        let attributes = delta.attributes.get(ino).unwrap_or(&stored);
        if attributes.searchable.unwrap_or(true) && is_text(&[], attributes.content_type.as_deref()) {
            let edit = edit.visible();
            text = text.saturating_add(edit.end.saturating_sub(edit.start));
        }
    }
    Ok(text / TEXT)
}

/// Returns the length of the uploads that a batch uses, whether or not the account had their content before.
pub fn uploaded(delta: &Delta) -> u64 {
    let pieces = delta.staged.iter().flat_map(|(_, body)| &body.0);
    pieces.fold(0, |sum, (_, length)| sum.saturating_add(*length))
}
