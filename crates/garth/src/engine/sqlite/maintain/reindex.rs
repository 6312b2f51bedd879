//! Makes the search index again from the files, which are the truth.

use std::sync::Arc;

use futures::executor::block_on;

use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::index::fts;
use crate::engine::sqlite::index::update::{Searched, current_bytes};
use crate::engine::sqlite::read::rows;
use crate::error::Result;

/// Files given to the index at a time.
const STEP: usize = 64;

impl SqliteFs {
    /// Makes the index again; returns the number of files looked at. One transaction: commits wait, readers
    /// do not. Blocks; not for a runtime's worker.
    ///
    /// # Errors
    /// From the storage; then the index is as it was.
    pub fn reindex(&self) -> Result<u64> {
        let packs = Arc::clone(&self.inner.packs);
        block_on(self.inner.writer.transact(true, move |conn| {
            fts::clear(conn)?;
            let mut files = Vec::new();
            for ino in rows::files(conn)? {
                files.extend(Searched::of(conn, ino)?.filter(|file| file.searchable));
            }
            for step in files.chunks(STEP) {
                let changes: Vec<_> = step.iter().map(Searched::as_new).collect();
                fts::apply(conn, &changes, &mut |ino, range| current_bytes(conn, &packs, ino, range))?;
            }
            fts::optimize(conn)?;
            Ok(files.len() as u64)
        }))
    }
}
