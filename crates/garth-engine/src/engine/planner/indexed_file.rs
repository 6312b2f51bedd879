//! State of a file on which the index depends, apart from its bytes.

use super::rows::{HeadRow, NodeRow};
use crate::model::{Attributes, Kind};

/// State of a file on which the index depends, apart from its bytes.
pub(crate) struct IndexedFile {
    pub(crate) ino: u64,
    pub(crate) size: u64,
    /// True if search may see the file.
    pub(crate) searchable: bool,
    pub(crate) content_type: Option<String>,
}

impl IndexedFile {
    /// Returns the state of a file; `None` for a node that is no file. `attributes` reads those that it got
    /// in a commit.
    pub(crate) fn new<E>(
        node: &NodeRow,
        attributes: impl FnOnce(u64) -> Result<Attributes, E>,
    ) -> Result<Option<Self>, E> {
        if node.kind != Kind::File {
            return Ok(None);
        }
        let attributes = match node.attrs_seq {
            0 => Attributes::default(),
            seq => attributes(seq)?,
        };
        // A file without a name leaves the index as one that is not searchable does.
        let searchable = node.nlink > 0 && attributes.searchable.unwrap_or(true);
        let content_type = attributes.content_type;
        Ok(Some(Self { ino: node.ino, size: node.size, searchable, content_type }))
    }

    /// Returns true if search does not see the file after a group of commits, and did not see it at `begin`:
    /// the index has nothing of it.
    pub(crate) fn stays_left_out(&self, node: &NodeRow, begin: &HeadRow) -> bool {
        // A file that keeps its name and its attributes was left out by these.
        let is_as_before = node.nlink > 0 && node.attrs_seq <= begin.seq;
        !self.searchable && (node.ino >= begin.next_ino || is_as_before)
    }
}
