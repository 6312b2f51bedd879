//! A view of the tree in one read transaction: [`TreeView`] on the rows of a connection, with the reads that
//! this engine does in one statement.

use std::ops::Deref;

use bytes::Bytes;
use rusqlite::Connection;

use crate::engine::relational::reads::tree_rows::ReadError as _;
pub(crate) use crate::engine::relational::reads::tree_view::check_kind;
use crate::engine::relational::reads::tree_view::{TreeView, entry_of};
use crate::engine::sqlite::chunk_store::Packs;
use crate::engine::sqlite::control::ControlCache;
use crate::engine::sqlite::tables::small_files::{self, SmallContent};
use crate::engine::sqlite::tree_rows::SqliteRows;
use crate::model::{At, ByteRange, Entry, Kind};
use crate::path::TreePath;
use crate::sqlite::DbResult;

/// A view of the tree in one state. Reads that every engine has are those of [`TreeView`].
pub(crate) struct ReadView<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) packs: &'a Packs,
    pub(crate) control: &'a ControlCache,
    pub(crate) tree: TreeView<'a, SqliteRows<'a>>,
}

impl<'a> Deref for ReadView<'a> {
    type Target = TreeView<'a, SqliteRows<'a>>;

    fn deref(&self) -> &Self::Target {
        &self.tree
    }
}

impl ReadView<'_> {
    /// Reads a file and bytes of it.
    pub(crate) fn fetch(&self, at: &At, range: ByteRange) -> DbResult<(Entry, Bytes)> {
        if let (At::Path(path), None) = (at, self.as_of)
            && let Some(found) = self.fetch_now(path, range)?
        {
            return Ok(found);
        }
        self.fetch_at(at, range)
    }

    /// Reads a file and bytes of it in the newest state, without a transaction: a small file in one
    /// statement. Returns `None` for what is no file, and where [`TreeView::entry_now`] does.
    pub(crate) fn fetch_now(&self, path: &TreePath, range: ByteRange) -> DbResult<Option<(Entry, Bytes)>> {
        let Some((dir, name)) = self.key_now(path) else { return Ok(None) };
        let found = small_files::with_file_by_name(self.conn, dir, name, |node, attributes, content| {
            if node.expired(self.time) || node.kind != Kind::File {
                return Ok(None);
            }
            let bytes = match content {
                Some(content) => self.read_small(&content, node.size, range),
                None => self.read(node.ino, node.size, range),
            };
            let bytes = bytes.map_err(|error| error.into_error().about(path))?;
            Ok(Some((entry_of(node, attributes), bytes)))
        })?;
        Ok(found.flatten())
    }

    /// Reads bytes of a file of this size whose content was read with its row.
    fn read_small(&self, content: &SmallContent<'_>, size: u64, range: ByteRange) -> DbResult<Bytes> {
        match self.bytes_to_read(size, range)? {
            Some((from, to)) => self.packs.part(&content.chunk, content.skip + from, to - from),
            None => Ok(Bytes::new()),
        }
    }
}
