//! Reads of the planner inside the writer's transaction. It sees the earlier members of its group.

pub(crate) mod row_cache;

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::Connection;

use crate::engine::planner::{
    ExtentRow, IdempotencyRow, JudgedRow, NameRow, NewestNode, NodeRow, Region, Rows, StagedRow, Stored,
    Tally,
};
use crate::engine::relational::confinement::Reach;
use crate::engine::relational::open_nodes::OpenNodes;
use crate::engine::sqlite::chunk_store::Packs;
use crate::engine::sqlite::planner_rows::row_cache::RowCache;
use crate::engine::sqlite::schema::SUBJECT;
use crate::engine::sqlite::tables::names_of_node::{self, CommitSpan};
use crate::engine::sqlite::tables::{
    MAX, commit_log, content_gone, expiry, extents, idempotency, judged_prefixes, live_names, nodes,
    past_names, quotas, snapshots, staged,
};
use crate::error::{Error, Result};
use crate::model::{Attributes, Commit, CommitId, Timestamp, Within};
use crate::rule::quota::Quotas;
use crate::rule::{Digest, Rules};
use crate::sqlite::DbResult;

/// State inside the writer's transaction, as the handle that committed a batch sees it.
#[derive(Clone, Copy)]
pub(crate) struct PlannerRows<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) packs: &'a Packs,
    pub(crate) row_cache: &'a RowCache,
    pub(crate) open: &'a OpenNodes,
    pub(crate) reach: &'a Reach,
    pub(crate) rules: &'a Rules,
}

/// Describes a failure. The planner knows nothing of SQLite, so its failures become errors of the tree here.
pub(crate) fn described<T>(outcome: DbResult<T>) -> Result<T> {
    outcome.map_err(|error| error.describe(&SUBJECT))
}

impl Rows for PlannerRows<'_> {
    fn name(&self, dir: &str, name: &str) -> Result<Option<NameRow>> {
        described(self.row_cache.name(dir, name, || {
            let Some((row, node)) = nodes::with_name(self.conn, dir, name)? else { return Ok(None) };
            // The planner mostly asks for the node of a name next.
            self.row_cache.keep(node);
            Ok(Some(row))
        }))
    }

    fn names_in(&self, dir: &str, limit: usize) -> Result<Vec<(String, NameRow)>> {
        described(live_names::in_directory(self.conn, dir, limit))
    }

    fn names_below(&self, region: &Region, limit: usize) -> Result<Vec<(String, String, NameRow)>> {
        described(live_names::in_region(self.conn, region, limit))
    }

    fn longest_path(&self, region: &Region) -> Result<(usize, usize)> {
        described(live_names::longest_path(self.conn, region))
    }

    fn expired_in(&self, region: &Region, time: i64) -> Result<Vec<u64>> {
        described(expiry::in_region(self.conn, region, time))
    }

    fn names_of(&self, ino: u64, within: &Within, limit: usize) -> Result<Vec<(String, String)>> {
        described(names_of_node::in_span(self.conn, ino, CommitSpan::NOW, within, limit))
    }

    fn newest_node(&self, ino: u64) -> Result<Option<NewestNode>> {
        // The inode comes from the caller, and SQLite stores no larger integer.
        described(self.row_cache.node(ino, || nodes::newest(self.conn, ino.min(MAX))))
    }

    fn attributes(&self, ino: u64, seq: u64) -> Result<Attributes> {
        described(self.row_cache.attributes(ino, seq, || nodes::attributes(self.conn, ino, seq)))
    }

    fn extents(&self, ino: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>> {
        described(extents::overlapping(self.conn, ino, from, to))
    }

    fn rules(&self) -> &Rules {
        self.rules
    }

    fn judged(&self, ino: u64, constraint: &Digest) -> Result<Option<JudgedRow>> {
        described(judged_prefixes::get(self.conn, ino, constraint))
    }

    fn is_open(&self, ino: u64) -> Result<bool> {
        // A confined handle reaches only the nodes that it has opened itself.
        Ok(self.reach.holds(ino, self.open))
    }

    fn stored(&self, hash: &[u8]) -> Result<Stored> {
        described(self.packs.stored(self.conn, hash))
    }

    fn chunk(&self, id: u64) -> Result<Bytes> {
        described(self.packs.chunk(self.conn, id))
    }

    fn staged(&self, id: u128) -> Result<Option<StagedRow>> {
        described(staged::content(self.conn, id))
    }

    fn committed(&self, owner: &str, id: CommitId) -> Result<Option<Commit>> {
        described(commit_log::committed(self.conn, owner, id))
    }

    fn has_snapshot(&self, owner: &str, name: &str) -> Result<bool> {
        described(snapshots::exists(self.conn, owner, name))
    }

    fn idempotency(&self, owner: &str, key: &str) -> Result<Option<IdempotencyRow>> {
        described(idempotency::get(self.conn, owner, key))
    }

    fn time_of(&self, seq: u64) -> Result<Timestamp> {
        described(commit_log::time_of(self.conn, seq))
    }

    fn name_at(&self, dir: &str, name: &str, seq: u64) -> Result<Option<NameRow>> {
        described(past_names::get_at(self.conn, dir, name, seq))
    }

    fn names_below_at(&self, dir: &str, seq: u64, limit: usize) -> Result<Vec<(String, String, NameRow)>> {
        described(past_names::below_at(self.conn, dir, seq, limit))
    }

    fn names_of_at(&self, ino: u64, seq: u64, within: &Within) -> Result<Vec<(String, String)>> {
        described(names_of_node::in_span(self.conn, ino, CommitSpan::at(seq), within, usize::MAX))
    }

    fn node_at_seq(&self, ino: u64, seq: u64) -> Result<Option<NodeRow>> {
        described(nodes::version(self.conn, ino.min(MAX), seq))
    }

    fn extents_at(&self, ino: u64, seq: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>> {
        // A copy must not take holes for content that is no longer stored.
        if described(content_gone::is_gone(self.conn, ino, seq, i64::MAX))? {
            return Err(Error::content_gone(seq));
        }
        described(extents::overlapping_at(self.conn, ino, seq, from, to))
    }

    fn quotas(&self) -> Result<Arc<Quotas>> {
        described(self.row_cache.quotas(|| quotas::all_of(self.conn)))
    }

    fn tally(&self, ranges: &[(String, String)]) -> Result<Tally> {
        described(quotas::tally(self.conn, ranges))
    }

    fn due(&self, time: i64, within: &Within, after: (i64, u64), limit: usize) -> Result<Vec<(i64, u64)>> {
        described(expiry::due(self.conn, time, within, after, limit))
    }
}
