//! Reads that keys are derived from, on a connection.

use bytes::Bytes;
use rusqlite::{Connection, params};

use crate::engine::planner::{Key, KeyedRows, NodeRow};
use crate::engine::sqlite::chunk_store::Packs;
use crate::engine::sqlite::planner_rows::described;
use crate::engine::sqlite::planner_rows::row_cache::RowCache;
use crate::engine::sqlite::tables::names_of_node::{self, CommitSpan};
use crate::engine::sqlite::tables::{MAX, extents, nodes};
use crate::error::Result;
use crate::model::{Attributes, Projection, Within};
use crate::sqlite::{DbResult, all, one};

/// The newest state that a connection sees.
pub(super) struct NewestRows<'a> {
    pub(super) conn: &'a Connection,
    pub(super) packs: &'a Packs,
    /// Row cache of the writer; `None` outside of a group of commits.
    pub(super) row_cache: Option<&'a RowCache>,
}

impl KeyedRows for NewestRows<'_> {
    fn node(&self, ino: u64) -> Result<Option<NodeRow>> {
        let read = || nodes::newest(self.conn, ino.min(MAX));
        let newest = match self.row_cache {
            Some(cache) => cache.node(ino, read),
            None => read(),
        };
        Ok(described(newest)?.map(|node| node.row))
    }

    fn attributes(&self, ino: u64, seq: u64) -> Result<Attributes> {
        let read = || nodes::attributes(self.conn, ino, seq);
        described(match self.row_cache {
            Some(cache) => cache.attributes(ino, seq, read),
            None => read(),
        })
    }

    fn names_of(&self, ino: u64, within: &Within, limit: usize) -> Result<Vec<Key>> {
        described(match within.is_everything() {
            true => names_of_node::behind(self.conn, ino, within, ("", ""), limit),
            false => names_of_node::in_span(self.conn, ino, CommitSpan::NOW, within, limit),
        })
    }

    fn keys(&self, ino: u64, projection: Projection) -> Result<Vec<String>> {
        let sql = "SELECT key FROM projected WHERE ino = ?1 AND projection = ?2";
        described(all(self.conn, sql, params![ino, projection.number()], |row| row.get(0)))
    }

    fn line_before(&self, ino: u64, projection: Projection, off: u64) -> Result<Option<(u64, u64)>> {
        let sql = "SELECT line, off FROM projected WHERE ino = ?1 AND projection = ?2 AND off <= ?3
             ORDER BY off DESC LIMIT 1";
        described(one(self.conn, sql, params![ino, projection.number(), off.min(MAX)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        }))
    }

    fn content(&self, ino: u64, from: u64, to: u64) -> Result<Bytes> {
        described(self.packs.content(self.conn, ino, None, from, to))
    }

    fn hole_end(&self, ino: u64, from: u64, to: u64) -> Result<Option<u64>> {
        let read = || -> DbResult<Option<u64>> {
            if !extents::overlapping(self.conn, ino, from, to)?.is_empty() {
                return Ok(None);
            }
            Ok(Some(extents::next_offset(self.conn, ino, from)?.unwrap_or(u64::MAX)))
        };
        described(read())
    }
}
