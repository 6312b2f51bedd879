//! Notes of an overlay about the lower layer, written when it copies up or hides something. They show later
//! changes of the lower layer from those of the overlay.

use std::fmt;

use sha2::{Digest, Sha256};

use super::layers::BASE;
use crate::error::{Error, Result};
use crate::model::{Attributes, Entry, Seq, VersionId, hex};
use crate::path::TreePath;

/// State of the lower layer at a path when the path was hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HiddenState {
    /// Last commit of the lower layer.
    pub(super) seq: Seq,
    /// Version of the node at the path.
    pub(super) version: VersionId,
}

impl fmt::Display for HiddenState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.seq, self.version)
    }
}

impl HiddenState {
    /// Parses the note on a node that hides a path.
    pub(super) fn of(hides: &Entry) -> Option<Self> {
        let (seq, version) = note(hides)?.split_once(' ')?;
        Some(Self { seq: Seq(seq.parse().ok()?), version: version.parse().ok()? })
    }
}

/// Returns the note for a directory that is copied up: a digest of its attributes, and its path. A renamed
/// directory takes the note along; the path shows that the note is not about the new place.
pub(super) fn copied(path: &TreePath, entry: &Entry) -> Result<String> {
    Ok(format!("{} {path}", digest(entry)?))
}

/// Returns the digest from the note on a directory, if the note was written at `path`.
pub(super) fn copied_at<'a>(path: &TreePath, entry: &'a Entry) -> Option<&'a str> {
    let (digest, at) = note(entry)?.split_once(' ')?;
    // A directory that was renamed has the note of its old path.
    (at == path.as_str()).then_some(digest)
}

fn note(entry: &Entry) -> Option<&str> {
    std::str::from_utf8(entry.attributes.xattrs.get(BASE)?).ok()
}

/// Returns a digest of the mode, owner and attributes of a directory. Its times are left out: they change
/// with the names in it.
///
/// # Errors
/// `InvalidArgument` for attributes that have no JSON form: without one, all of them would have one digest.
pub(super) fn digest(entry: &Entry) -> Result<String> {
    let attributes = entry.attributes.clone().copied_over(&Attributes::default());
    let text = serde_json::to_vec(&(entry.mode, entry.uid, entry.gid, attributes))
        .map_err(|error| Error::invalid(format!("the attributes have no JSON form: {error}")))?;
    Ok(hex(&Sha256::digest(text)[..16]))
}
