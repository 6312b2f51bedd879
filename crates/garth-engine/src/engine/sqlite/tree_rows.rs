//! Rows that reads ask for, from a connection in a transaction.

use std::fmt;

use bytes::Bytes;
use rusqlite::Connection;

use crate::engine::planner::{ExtentRow, HeadRow, Key, NameRow, NodeRow};
use crate::engine::relational::gate_judgements::Judgements;
use crate::engine::relational::reads::tree_rows::{
    CommitSpan, EachName, EachRow, LoggedCommit, MAX, NameRange, NameSpan, PastPage, ReadError, TreeRows,
};
use crate::engine::sqlite::chunk_store::Packs;
use crate::engine::sqlite::control::ControlCache;
use crate::engine::sqlite::projections::entries_with;
use crate::engine::sqlite::schema::SUBJECT;
use crate::engine::sqlite::tables::{
    commit_log, content_gone, extents, folded_authors, head, live_names, name_pages, names_of_node, nodes,
    origins, past_names, snapshots,
};
use crate::error::{Error, ErrorKind};
use crate::model::{Attributes, Author, CommitInfo, Gate, Owner, SessionOf, Snapshot, Within};
use crate::rule::Registry;
use crate::sqlite::patience::{ENTRY, NAME, Patience};
use crate::sqlite::{DbError, DbResult};

/// Rows of an account in one transaction.
#[derive(Clone, Copy)]
pub(crate) struct SqliteRows<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) packs: &'a Packs,
    pub(crate) control: &'a ControlCache,
    /// Budget that interrupts the read when it is used up; `None` for no limit.
    pub(crate) patience: Option<&'a Patience>,
}

impl fmt::Debug for SqliteRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteRows").finish_non_exhaustive()
    }
}

impl ReadError for DbError {
    fn kind(&self) -> ErrorKind {
        self.kind()
    }

    fn into_error(self) -> Error {
        self.describe(&SUBJECT)
    }

    fn of_item(self) -> Result<Error, Self> {
        match self {
            Self::Other(error) if !error.is(ErrorKind::TimedOut) => Ok(error),
            error => Err(error),
        }
    }
}

impl TreeRows for SqliteRows<'_> {
    type Error = DbError;

    fn registry(&self) -> &Registry {
        self.control.registry()
    }

    fn judgements(&self) -> &Judgements {
        self.control.judgements()
    }

    fn spend(&self, bytes: u64) -> DbResult<()> {
        self.patience.map_or(Ok(()), |patience| patience.spend_on(bytes))
    }

    // Otherwise the read would end in the middle, and begin again on another thread.
    fn check_length(&self, range: &NameRange<'_>, limit: usize, entries: bool) -> DbResult<()> {
        let Some(patience) = self.patience else { return Ok(()) };
        let Some(left) = patience.steps_left() else { return Ok(()) };
        let each = if entries { ENTRY } else { NAME };
        let fitting = left / each;
        // A page may be much longer than its directory, so the names are counted.
        if limit as u64 > fitting && live_names::has_more(self.conn, range.from, range.after, fitting)? {
            patience.spend((fitting + 1) * each)?;
        }
        Ok(())
    }

    fn head(&self) -> DbResult<HeadRow> {
        head::get(self.conn)
    }

    fn name(&self, dir: &str, name: &str, seq: u64) -> DbResult<Option<NameRow>> {
        match seq < MAX {
            true => past_names::get_at(self.conn, dir, name, seq),
            false => live_names::get(self.conn, dir, name),
        }
    }

    fn node_by_name(&self, dir: &str, name: &str) -> DbResult<Option<NodeRow>> {
        nodes::by_name(self.conn, dir, name)
    }

    fn entry_by_name(&self, dir: &str, name: &str) -> DbResult<Option<(NodeRow, Attributes)>> {
        nodes::entry_by_name(self.conn, dir, name)
    }

    fn version(&self, ino: u64, seq: u64) -> DbResult<Option<NodeRow>> {
        nodes::version(self.conn, ino, seq)
    }

    fn next_version(&self, node: &NodeRow) -> DbResult<Option<u64>> {
        nodes::next_version(self.conn, node)
    }

    fn last_unlink(&self, ino: u64) -> DbResult<Option<u64>> {
        nodes::last_unlink(self.conn, ino)
    }

    fn attributes(&self, ino: u64, seq: u64) -> DbResult<Attributes> {
        nodes::attributes(self.conn, ino, seq)
    }

    fn each_name(
        &self,
        ino: u64,
        span: CommitSpan,
        within: &Within,
        each: &mut EachName<'_, DbError>,
    ) -> DbResult<()> {
        names_of_node::each_in_span(self.conn, ino, span, within, each)
    }

    fn names_after(
        &self,
        ino: u64,
        within: &Within,
        after: (&str, &str),
        limit: usize,
    ) -> DbResult<Vec<Key>> {
        names_of_node::behind(self.conn, ino, within, after, limit)
    }

    fn page_now(
        &self,
        range: &NameRange<'_>,
        nodes: bool,
        expired: (i64, usize),
        each: &mut EachRow<'_, DbError>,
    ) -> DbResult<()> {
        name_pages::each_now(self.conn, range, nodes, expired, each)
    }

    fn page_at(&self, range: &NameRange<'_>, seq: u64, limit: usize) -> DbResult<PastPage> {
        let NameRange { from, after, to, .. } = *range;
        let mut page = PastPage::default();
        // Each fork may have all names of the page, so as many are read of each.
        for fork in [None].into_iter().chain(past_names::forks(self.conn, seq)?.map(Some)) {
            let rows = name_pages::at(self.conn, (from, after, to), seq, fork, limit)?;
            // A full answer of one fork may have left out names after its last one.
            if let Some(last) = rows.last().filter(|_| rows.len() == limit) {
                let last = (last.dir.to_string(), last.name.clone());
                page.complete = Some(page.complete.map_or(last.clone(), |before| before.min(last)));
            }
            page.rows.extend(rows);
        }
        page.rows.sort_unstable_by(|row, other| (&row.dir, &row.name).cmp(&(&other.dir, &other.name)));
        Ok(page)
    }

    fn was_used(&self, key: (&str, &str), oldest: u64, seq: u64) -> DbResult<bool> {
        past_names::was_used(self.conn, key, oldest, seq)
    }

    fn ended_before(&self, dir: &str, name: &str, till: u64) -> DbResult<Option<NameSpan>> {
        past_names::ended_before(self.conn, dir, name, till)
    }

    fn came_later(&self, key: (&str, &str), seq: u64, until: u64) -> DbResult<Vec<u64>> {
        past_names::came_later(self.conn, key, seq, until)
    }

    fn last_end(&self, ino: u64, seq: u64) -> DbResult<Option<u64>> {
        past_names::last_end(self.conn, ino, seq)
    }

    fn last_end_of(
        &self,
        ino: u64,
        seq: u64,
        counts: &dyn Fn(&str, &str, u64) -> DbResult<bool>,
    ) -> DbResult<Option<u64>> {
        past_names::last_end_of(self.conn, ino, seq, counts)
    }

    fn is_content_gone(&self, ino: u64, seq: u64, opened: i64) -> DbResult<bool> {
        content_gone::is_gone(self.conn, ino, seq, opened)
    }

    fn content(&self, ino: u64, as_of: Option<u64>, from: u64, to: u64) -> DbResult<Bytes> {
        self.packs.content(self.conn, ino, as_of, from, to)
    }

    fn each_extent_now(
        &self,
        ino: u64,
        range: (u64, u64),
        take: &mut dyn FnMut(ExtentRow) -> bool,
    ) -> DbResult<()> {
        extents::each_live(self.conn, ino, range, take)
    }

    fn extents_now(&self, ino: u64, from: u64, to: u64) -> DbResult<Vec<ExtentRow>> {
        extents::overlapping(self.conn, ino, from, to)
    }

    fn origin(&self, chunk: u64) -> DbResult<Option<Vec<u8>>> {
        origins::column(self.conn, chunk)
    }

    fn extents_at(&self, ino: u64, seq: u64, from: u64, to: u64) -> DbResult<Vec<ExtentRow>> {
        extents::overlapping_at(self.conn, ino, seq, from, to)
    }

    fn commit(&self, seq: u64) -> DbResult<Option<(CommitInfo, String)>> {
        commit_log::info(self.conn, seq)
    }

    fn commit_time(&self, seq: u64) -> DbResult<i64> {
        commit_log::moment(self.conn, seq)
    }

    fn last_commit_until(&self, time: i64, oldest: u64, head: u64) -> DbResult<u64> {
        commit_log::last_until(self.conn, time, oldest, head)
    }

    fn each_commit(
        &self,
        span: (u64, u64),
        session: Option<&SessionOf>,
        take: &mut dyn FnMut(LoggedCommit<'_>) -> DbResult<bool>,
    ) -> DbResult<()> {
        commit_log::each(self.conn, span, session, take)
    }

    fn changes_before(&self, seq: u64, change: u64) -> DbResult<Option<(u64, String)>> {
        commit_log::piece_before(self.conn, seq, change)
    }

    fn changes_at(&self, seq: u64, change: u64) -> DbResult<Option<String>> {
        commit_log::piece_at(self.conn, seq, change)
    }

    fn folded_author(&self, seq: u64) -> DbResult<Author> {
        folded_authors::of(self.conn, seq)
    }

    fn snapshot(&self, owner: &str, name: &str, head: u64) -> DbResult<Option<u64>> {
        snapshots::seq_of(self.conn, owner, name, head)
    }

    fn each_snapshot(
        &self,
        own: Option<&Owner>,
        after: (&str, &str),
        head: u64,
        take: &mut dyn FnMut(Snapshot) -> bool,
    ) -> DbResult<()> {
        snapshots::each(self.conn, own, after, head, take)
    }

    fn entries_with(&self, gate: &Gate, key: &str, limit: usize) -> DbResult<Option<Vec<String>>> {
        entries_with(self.conn, (gate.projection, key), (&gate.dir, gate.file.as_str()), limit)
    }
}
