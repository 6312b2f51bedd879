//! Full-text search: reads of the files that a query may return.

use std::ops::Range;

use bytes::Bytes;
use rusqlite::params;

use crate::engine::search::local::search_files;
use crate::engine::search::{FileNode, Files, Passage, QueryFilter};
use crate::engine::sqlite::fulltext::index_writer::unindexed_files;
use crate::engine::sqlite::fulltext::line_counts;
use crate::engine::sqlite::fulltext::postings::Index;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::names_of_node::{self, CommitSpan};
use crate::engine::sqlite::tables::{MAX, head, live_names, nodes};
use crate::model::{
    Attributes, ByteRange, Ino, Projection, SearchAnswer, SearchQuery, Seq, Timestamp, VersionId, Within,
};
use crate::path::TreePath;
use crate::rule::Registry;
use crate::sqlite::patience::BYTES_PER_STEP;
use crate::sqlite::{DbError, DbResult, one};

/// Limit on the files counted as missing.
const MISSING: u64 = 1000;

impl ReadView<'_> {
    pub(crate) fn search(&self, query: &SearchQuery) -> DbResult<SearchAnswer> {
        let rules = self.control.at(self.conn, head::get(self.conn)?.control)?.rules;
        let filter = QueryFilter::new(self, query, &self.reach.within, &rules)?;
        let missing = self.missing()?;
        match filter {
            Some(filter) => search_files(&Index::new(self.conn)?, filter, missing),
            None => Ok(SearchAnswer { missing, ..SearchAnswer::default() }),
        }
    }

    /// Returns the number of files in reach whose text is not indexed yet.
    fn missing(&self) -> DbResult<u64> {
        let inos = unindexed_files(self.conn, MISSING)?;
        if self.sees_everything() {
            return Ok(inos.len() as u64);
        }
        let mut missing = 0;
        for ino in inos {
            missing += u64::from(self.was_reached(ino, CommitSpan::NOW)?);
        }
        Ok(missing)
    }
}

impl Files for ReadView<'_> {
    type Error = DbError;

    fn node(&self, ino: Ino) -> DbResult<Option<FileNode>> {
        let node = nodes::version(self.conn, ino.0, MAX)?;
        let node = node.filter(|node| node.nlink > 0 && !node.expired(self.time));
        Ok(node.map(|node| FileNode {
            ino,
            size: node.size,
            version: VersionId { seq: Seq(node.seq), ino },
            changed: Timestamp(node.mtime),
            attributes: node.attrs_seq,
        }))
    }

    fn attributes(&self, node: &FileNode) -> DbResult<Attributes> {
        match node.attributes {
            0 => Ok(Attributes::default()),
            seq => nodes::attributes(self.conn, node.ino.0, seq),
        }
    }

    fn names_behind(
        &self,
        ino: Ino,
        within: &Within,
        after: (&str, &str),
        limit: usize,
    ) -> DbResult<Vec<(String, String)>> {
        self.names_now(ino.0, within, after, limit)
    }

    fn names(&self, ino: Ino, within: &Within) -> DbResult<Vec<(String, String)>> {
        names_of_node::in_span(self.conn, ino.0, CommitSpan::NOW, within, usize::MAX)
    }

    fn nodes_within(&self, within: &Within, top: &TreePath, limit: usize) -> DbResult<Vec<u64>> {
        live_names::nodes_within(self.conn, within, top, limit)
    }

    fn live_file(&self, path: &TreePath) -> DbResult<Option<Ino>> {
        let Some((dir, name)) = path.split() else { return Ok(None) };
        let Some(row) = live_names::get(self.conn, dir.key(), name.as_str())? else { return Ok(None) };
        let Some(node) = nodes::version(self.conn, row.ino, MAX)? else { return Ok(None) };
        Ok((!node.expired(self.time)).then_some(Ino(node.ino)))
    }

    fn has_key(&self, ino: Ino, projection: Projection, key: &str) -> DbResult<bool> {
        let sql = "SELECT 1 FROM projected WHERE ino = ?1 AND projection = ?2 AND key = ?3 LIMIT 1";
        Ok(one(self.conn, sql, params![ino.0, projection.number(), key], |_| Ok(()))?.is_some())
    }

    fn read(&self, node: &FileNode, range: ByteRange) -> DbResult<Bytes> {
        self.tree.read(node.ino.0, node.size, range)
    }

    fn lines(&self, passage: &Passage) -> DbResult<Range<u64>> {
        line_counts::of(self.conn, passage)
    }

    fn registry(&self) -> &Registry {
        self.control.registry()
    }

    fn step(&self) -> DbResult<()> {
        // FTS5 works outside of the steps that SQLite counts.
        self.rows.patience.map_or(Ok(()), |patience| patience.spend_on(BYTES_PER_STEP))
    }
}
