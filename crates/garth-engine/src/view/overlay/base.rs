//! What an overlay notes of the lower layer when it copies something up or hides it: by that a later change
//! below is told from what the overlay changed.

use std::fmt;

use sha2::{Digest, Sha256};

use super::layers::BASE;
use crate::error::{Error, Result};
use crate::model::{Attributes, Entry, Seq, VersionId, hex};
use crate::path::TreePath;

/// What was below where a path was hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Was {
    /// The lower layer's last commit then.
    pub(super) seq: Seq,
    /// What was there.
    pub(super) version: VersionId,
}

impl fmt::Display for Was {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.seq, self.version)
    }
}

impl Was {
    /// As it is noted on what hides the path.
    pub(super) fn of(hides: &Entry) -> Option<Self> {
        let (seq, version) = note(hides)?.split_once(' ')?;
        Some(Self { seq: Seq(seq.parse().ok()?), version: version.parse().ok()? })
    }
}

/// What is noted on a directory that is copied up: its attributes, and where that was, since it may be
/// renamed.
pub(super) fn copied(path: &TreePath, entry: &Entry) -> Result<String> {
    Ok(format!("{} {path}", digest(entry)?))
}

/// The digest of the attributes of a directory that was copied up at this path.
pub(super) fn copied_at<'a>(path: &TreePath, entry: &'a Entry) -> Option<&'a str> {
    let (digest, at) = note(entry)?.split_once(' ')?;
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
