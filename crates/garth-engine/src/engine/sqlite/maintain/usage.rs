//! Counts what takes the space of an account, for operators. It reads in pieces, each in a transaction of its
//! own, as a check does: what a commit changes between two pieces counts as it is then. Memory does not grow
//! with the account.

use std::fs;

use rusqlite::{Connection, Row, params};

use crate::engine::relational::open_pasts::OpenPasts;
use crate::engine::relational::usage::{HeldSpan, NodeBytes, UsageCount};
use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::commit::stored::{self, Pages};
use crate::engine::sqlite::maintain::holds;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::schema::DATABASE;
use crate::engine::sqlite::tables::{commit_log, head, retention, staged};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::store::StoredUsage;
use crate::model::{At, Kind, Timestamp, Within};
use crate::path::TreePath;
use crate::runtime::disk::dir_of;
use crate::sqlite::{DbResult, all, one};

/// Rows of a piece. Few in tests, so that they cross the border of a piece.
const ROWS: usize = if cfg!(test) { 3 } else { 1000 };
/// Bytes that a row takes on average besides its texts and content: its key, its numbers, and its share of
/// the indexes and of the space that pages leave free.
const ROW: u64 = 96;

impl SqliteFs {
    /// Implements `AccountStore::usage` on this thread, for a handle that reaches the paths `within`.
    pub(crate) fn count_usage(&self, below: &TreePath, within: &Within) -> Result<StoredUsage> {
        let (mut usage, span) = self.with_view(|view| {
            if !within.contains(below) {
                return Err(Error::not_found(below).into());
            }
            if view.at(&At::Path(below.clone()))?.kind != Kind::Directory {
                return Err(Error::at(ErrorKind::NotADirectory, below, "is not a directory").into());
            }
            Ok((sizes(view)?, held_span(view, &self.inner.pasts)?))
        })?;
        self.file_sizes(&mut usage)?;
        let mut count = UsageCount::new(usage, below, within);
        self.each_node(span, |bytes, path| count.add(bytes, path))?;
        let mut usage = count.finish();
        usage.log = self.sum(LOG)?;
        for sql in INDEX {
            usage.index += self.sum(sql)?;
        }
        Ok(usage)
    }

    /// Adds the sizes of files whose size no row has.
    fn file_sizes(&self, usage: &mut StoredUsage) -> Result<()> {
        let folder = self.inner.packs.folder();
        let size = |path| fs::metadata(path).map_or(0, |file| file.len());
        usage.wal = size(dir_of(folder).join(format!("{DATABASE}-wal")));
        for name in self.with_view(|view| staged::arriving_packs(view.conn))? {
            // One that was finished or removed meanwhile has no size any more.
            usage.uploads += size(folder.join(name));
        }
        Ok(())
    }

    /// Calls `each` with the bytes of each node, and with its first name, or the last that it had.
    fn each_node(&self, span: HeldSpan, mut each: impl FnMut(NodeBytes, Option<&TreePath>)) -> Result<()> {
        let mut place = Place::default();
        loop {
            let nodes = self.with_view(|view| piece(view.conn, span, &mut place))?;
            if nodes.is_empty() && place.node.is_none() {
                return Ok(());
            }
            for node in nodes {
                each(node.bytes(), node.path.as_ref());
            }
        }
    }

    /// Returns the sum of a table. The statement returns the key and the bytes of each row after `?1`, in the
    /// order of keys, at most `?2`.
    fn sum(&self, sql: &str) -> Result<u64> {
        let (mut sum, mut from) = (0_u64, i64::MIN);
        loop {
            let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let rows: Vec<(i64, u64)> =
                self.with_view(|view| all(view.conn, sql, params![from, ROWS], row))?;
            let Some((last, _)) = rows.last() else { return Ok(sum) };
            from = *last;
            sum = rows.iter().fold(sum, |sum, (_, bytes)| sum.saturating_add(bytes.saturating_add(ROW)));
        }
    }
}

/// Bytes of the rows of the version log. Texts are measured in bytes, not in characters.
const LOG: &str = "SELECT seq,
         length(CAST(changes AS BLOB)) + coalesce(length(CAST(author AS BLOB)), 0)
             + coalesce(length(CAST(message AS BLOB)), 0) + coalesce(length(CAST(answer AS BLOB)), 0)
             + coalesce((SELECT sum(length(CAST(more.changes AS BLOB))) FROM log_more AS more
                 WHERE more.seq = log.seq), 0)
     FROM log WHERE seq > ?1 ORDER BY seq LIMIT ?2";

/// Bytes of the rows of the search index.
const INDEX: [&str; 2] = [
    "SELECT id, 0 FROM passage WHERE id > ?1 ORDER BY id LIMIT ?2",
    "SELECT id, length(block) FROM passage_word_data WHERE id > ?1 ORDER BY id LIMIT ?2",
];

/// Returns the sizes that rows have, and the limit.
fn sizes(view: &ReadView<'_>) -> DbResult<StoredUsage> {
    let Pages { used, free } = stored::pages(view.conn)?;
    Ok(StoredUsage {
        pages: used,
        free,
        packs: head::packed(view.conn)?,
        limit: retention::get(view.conn)?.stored,
        ..StoredUsage::default()
    })
}

/// Returns the commits that would be removed if nobody read the past. `open` are the commits whose states
/// views of this process show.
fn held_span(view: &ReadView<'_>, open: &OpenPasts) -> DbResult<HeldSpan> {
    let (conn, head) = (view.conn, head::get(view.conn)?);
    // A view keeps the rows of its state, also of one that others can no longer read.
    let read = holds::all_read(conn, open, Timestamp(view.time))?.first().map(|seq| (*seq).max(head.folded));
    let kept = holds::first_kept(view)?.map(|(seq, _)| seq.max(head.oldest));
    let Some(first) = read.into_iter().chain(kept).min() else { return Ok(HeldSpan(0, 0)) };
    let last_until = |time| commit_log::last_until(conn, time, head.oldest, head.seq);
    let unheld = retention::get(conn)?.oldest(head.seq, Timestamp(view.time), None, last_until)?;
    Ok(HeldSpan(first, unheld))
}

/// Place in the rows of all nodes.
#[derive(Default)]
struct Place {
    /// Last node that was begun.
    ino: u64,
    /// That node, if it has more rows than the last pieces had room for.
    node: Option<NodeCount>,
}

/// Rows of a node that are counted next, after a key.
#[derive(Clone, Copy)]
enum NextRows {
    Versions(i64),
    Attributes(i64),
    /// `till` and offset.
    Extents((i64, u64)),
    None,
}

/// Node whose rows are being counted.
struct NodeCount {
    ino: u64,
    /// First name, or the last that it had.
    path: Option<TreePath>,
    is_named: bool,
    /// Version of its current attributes.
    attrs_seq: u64,
    counted: NodeBytes,
    next: NextRows,
}

impl NodeCount {
    fn begin(conn: &Connection, ino: u64) -> DbResult<Self> {
        let (names, path) = names(conn, ino)?;
        let sql = "SELECT nlink > 0, coalesce(length(CAST(target AS BLOB)), 0), attrs_seq FROM node
             WHERE ino = ?1 ORDER BY seq DESC LIMIT 1";
        let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let newest: Option<(bool, u64, u64)> = one(conn, sql, [ino], row)?;
        let (is_named, target, attrs_seq) = newest.unwrap_or_default();
        let counted = NodeBytes { live: names + target, ..NodeBytes::default() };
        Ok(Self { ino, path, is_named, attrs_seq, counted, next: NextRows::Versions(-1) })
    }

    /// Returns the bytes of the node once all rows are counted.
    fn bytes(&self) -> NodeBytes {
        self.counted.of_rows(ROW, self.is_named)
    }

    /// Counts at most `left` rows, and takes them from it. Returns true if no more are left.
    fn count(&mut self, conn: &Connection, span: HeldSpan, left: &mut usize) -> DbResult<bool> {
        while *left > 0 {
            let limit = *left;
            let found = match self.next {
                NextRows::Versions(after) => self.versions(conn, after, limit)?,
                NextRows::Attributes(after) => self.attributes(conn, after, limit)?,
                NextRows::Extents(after) => self.extents(conn, span, after, limit)?,
                NextRows::None => return Ok(true),
            };
            *left -= found;
        }
        Ok(matches!(self.next, NextRows::None))
    }

    fn versions(&mut self, conn: &Connection, after: i64, limit: usize) -> DbResult<usize> {
        let sql = "SELECT seq FROM node WHERE ino = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
        let rows: Vec<i64> = all(conn, sql, params![self.ino, after, limit], |row| row.get(0))?;
        self.counted.history += ROW.saturating_mul(rows.len() as u64);
        self.next = match rows.last() {
            Some(last) if rows.len() == limit => NextRows::Versions(*last),
            _ => NextRows::Attributes(-1),
        };
        Ok(rows.len())
    }

    fn attributes(&mut self, conn: &Connection, after: i64, limit: usize) -> DbResult<usize> {
        let sql = "SELECT seq, seq = ?2, ?3 + length(CAST(json AS BLOB)) FROM attribute
             WHERE ino = ?1 AND seq > ?4 ORDER BY seq LIMIT ?5";
        let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let rows: Vec<(i64, bool, u64)> =
            all(conn, sql, params![self.ino, self.attrs_seq, ROW, after, limit], row)?;
        for (_, is_current, bytes) in &rows {
            let NodeBytes { live, history, .. } = &mut self.counted;
            *(if *is_current { live } else { history }) += bytes;
        }
        self.next = match rows.last() {
            Some((last, ..)) if rows.len() == limit => NextRows::Attributes(*last),
            _ => NextRows::Extents((-1, 0)),
        };
        Ok(rows.len())
    }

    /// A chunk that several extents refer to counts in equal parts.
    fn extents(
        &mut self,
        conn: &Connection,
        span: HeldSpan,
        after: (i64, u64),
        limit: usize,
    ) -> DbResult<usize> {
        let sql = "SELECT till, off, ?2 + len / max(coalesce(count, 1), 1)
             FROM extent LEFT JOIN chunk_refs ON chunk_refs.chunk = extent.chunk
             WHERE ino = ?1 AND (till, off) > (?3, ?4) ORDER BY till, off LIMIT ?5";
        let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let rows: Vec<(u64, u64, u64)> =
            all(conn, sql, params![self.ino, ROW, after.0, after.1, limit], row)?;
        for (till, _, bytes) in &rows {
            let NodeBytes { live, history, held } = &mut self.counted;
            *(if *till == 0 { live } else { history }) += bytes;
            if span.has(*till) {
                *held += bytes;
            }
        }
        self.next = match rows.last() {
            Some((till, off, _)) if rows.len() == limit => NextRows::Extents((till.cast_signed(), *off)),
            _ => NextRows::None,
        };
        Ok(rows.len())
    }
}

/// Counts about [`ROWS`] rows from a place on. Returns the nodes that are complete. After the last one the
/// place has none that is begun.
fn piece(conn: &Connection, span: HeldSpan, place: &mut Place) -> DbResult<Vec<NodeCount>> {
    let (mut done, mut left) = (Vec::new(), ROWS);
    while left > 0 {
        let mut node = match place.node.take() {
            Some(node) => node,
            None => {
                let sql = "SELECT ino FROM node WHERE ino > ?1 ORDER BY ino LIMIT 1";
                let Some(ino) = one(conn, sql, [place.ino], |row| row.get(0))? else { break };
                place.ino = ino;
                NodeCount::begin(conn, ino)?
            }
        };
        match node.count(conn, span, &mut left)? {
            true => done.push(node),
            false => place.node = Some(node),
        }
    }
    Ok(done)
}

/// Returns the bytes of the names of a node that exist, with their index, and one of these names, or the last
/// that ended.
fn names(conn: &Connection, ino: u64) -> DbResult<(u64, Option<TreePath>)> {
    // `dir` and `name` of the first name in the index: those of the row of `min`.
    let sql = "SELECT min(dir), name,
             coalesce(sum(?2 + 2 * length(CAST(dir AS BLOB)) + 2 * length(CAST(name AS BLOB))), 0)
         FROM name INDEXED BY name_ino WHERE ino = ?1";
    let row = |row: &Row<'_>| Ok((pair(row)?, row.get(2)?));
    if let Some((Some(path), bytes)) = one(conn, sql, params![ino, ROW], row)? {
        return Ok((bytes, Some(path)));
    }
    let sql = "SELECT dir, name FROM name_past WHERE ino = ?1 ORDER BY till DESC LIMIT 1";
    Ok((0, one(conn, sql, [ino], pair)?.flatten()))
}

fn pair(row: &Row<'_>) -> rusqlite::Result<Option<TreePath>> {
    let (dir, name): (Option<String>, Option<String>) = (row.get(0)?, row.get(1)?);
    Ok(dir.zip(name).map(|(dir, name)| TreePath::from_row(&dir, &name)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures::executor::block_on;

    use super::*;
    use crate::engine::sqlite::schema;
    use crate::env::Env;
    use crate::fs::{AccountStore as _, FileSystem};
    use crate::model::{Batch, Moment, Op, Seq};
    use crate::rule::retention::Retention;
    use crate::sqlite::steps;

    struct Account {
        fs: Arc<SqliteFs>,
        folder: tempfile::TempDir,
    }

    fn account() -> Account {
        let folder = tempfile::tempdir().unwrap();
        let registry = crate::rule::sample::registry();
        Account { fs: SqliteFs::open(folder.path(), Env::system(), registry).unwrap(), folder }
    }

    fn path(path: &str) -> TreePath {
        TreePath::parse(path).unwrap()
    }

    impl Account {
        fn commit(&self, op: Op) {
            block_on(self.fs.commit(Batch::new([op]))).unwrap();
        }

        fn write(&self, at: &str, byte: u8, bytes: usize) {
            self.commit(Op::write(path(at), vec![byte; bytes]).with_parents());
        }

        fn usage(&self, below: &str) -> StoredUsage {
            block_on(self.fs.usage(&path(below))).unwrap()
        }
    }

    /// Returns the live and earlier bytes of the children, in units of 10,000: rows do not show.
    fn shown(usage: &StoredUsage) -> Vec<(&str, u64, u64)> {
        let children = usage.paths.iter();
        children.map(|child| (child.path.as_str(), child.live / 10_000, child.history / 10_000)).collect()
    }

    #[test]
    fn usage_names_what_takes_the_space() {
        let account = account();
        account.write("/a/one", b'1', 40_000);
        account.write("/a/one", b'2', 20_000);
        account.write("/a/two", b'3', 30_000);
        account.write("/b", b'4', 50_000);
        account.commit(Op::remove(path("/b")));
        let usage = account.usage("/");
        assert_eq!(shown(&usage), [("/a", 5, 4), ("/b", 0, 5)]);
        assert!((50_000..60_000).contains(&usage.live) && (90_000..100_000).contains(&usage.history));
        assert!(usage.log > 0 && usage.index > 0 && usage.wal > 0, "{usage:?}");
        assert_eq!((usage.snapshots, usage.overlays, usage.packs, usage.more), (0, 0, 0, false));
        assert!(usage.pages > usage.live + usage.history, "{usage:?}");
        assert_eq!(shown(&account.usage("/a")), [("/a/one", 2, 4), ("/a/two", 3, 0)]);
    }

    #[test]
    fn each_piece_costs_the_same() {
        steps::assert_same([10, 200], |versions| {
            let account = account();
            account.write("/a", b'1', 10);
            for n in 0..versions {
                account.write("/a", b'2', 10 + n as usize);
            }
            let ino = block_on(account.fs.stat(&At::Path(path("/a")))).unwrap().ino.0;
            let conn = schema::database(account.folder.path()).connect().unwrap();
            let mut place = Place { ino: ino - 1, node: None };
            let mut next = || steps::here(|| piece(&conn, HeldSpan(0, 0), &mut place).unwrap());
            let (done, first) = next();
            assert!(done.is_empty(), "the next ones go on with the file");
            first + next().1
        });
    }

    #[test]
    fn shared_content_counts_once() {
        let account = account();
        account.write("/a", b'1', 200_000);
        account.commit(Op::copy(path("/a"), path("/b")));
        assert_eq!(shown(&account.usage("/")), [("/a", 10, 0), ("/b", 10, 0)]);
    }

    #[test]
    fn usage_is_of_a_directory() {
        let account = account();
        account.write("/a", b'1', 1);
        let of = |at: &str| block_on(account.fs.usage(&path(at))).unwrap_err().kind();
        assert_eq!([of("/a"), of("/b")], [ErrorKind::NotADirectory, ErrorKind::NotFound]);
    }

    #[test]
    fn uploads_count_while_they_arrive_and_after() {
        let account = account();
        let mut upload = block_on(account.fs.stage(&At::Path(path("/a")))).unwrap();
        block_on(upload.write(vec![1; 1 << 20].into())).unwrap();
        block_on(upload.write(vec![2; 1000].into())).unwrap();
        let usage = account.usage("/");
        assert_eq!((usage.uploads, usage.packs), (1 << 20, 0));
        block_on(upload.finish()).unwrap();
        let usage = account.usage("/");
        assert_eq!((usage.uploads, usage.packs), (0, (1 << 20) + 1000));
        assert_eq!(usage.stored(), usage.pages + usage.packs);
    }

    #[test]
    fn content_that_only_a_snapshot_keeps_is_named() {
        let account = account();
        account.write("/a", b'1', 40_000);
        account.commit(Op::snapshot("then"));
        account.write("/a", b'2', 30_000);
        account.write("/a", b'3', 20_000);
        assert_eq!(account.usage("/").snapshots, 0, "everything is kept");
        let set = Retention { commits: Some(0), stored: Some(1 << 30), ..Retention::default() };
        block_on(account.fs.set_retention(set)).unwrap();
        let usage = account.usage("/");
        assert_eq!((usage.snapshots / 1000, usage.limit), (70, Some(1 << 30)));
        account.commit(Op::drop_snapshot("then"));
        assert_eq!(account.usage("/").snapshots, 0, "the next collection removes it");
    }

    #[test]
    fn content_that_only_an_open_view_keeps_is_named() {
        let account = account();
        account.write("/a", b'1', 40_000);
        account.write("/a", b'2', 30_000);
        let view = block_on(account.fs.as_of(&Moment::Seq(Seq(1)))).unwrap();
        let set = Retention { commits: Some(0), ..Retention::default() };
        block_on(account.fs.set_retention(set)).unwrap();
        assert_eq!(account.usage("/").snapshots / 1000, 40);
        block_on(account.fs.gc(Duration::ZERO)).unwrap();
        assert_eq!(account.usage("/").snapshots / 1000, 40, "its rows stay");
        drop(view);
        assert_eq!(account.usage("/").snapshots, 0, "the next collection removes it");
    }

    #[test]
    fn free_pages_are_named_when_content_is_collected() {
        let account = account();
        let mut upload = block_on(account.fs.stage(&At::Path(path("/a")))).unwrap();
        block_on(upload.write(vec![1; 900_000].into())).unwrap();
        let body = block_on(upload.finish()).unwrap();
        let before = account.usage("/");
        block_on(account.fs.discard(&At::Path(path("/a")), &body)).unwrap();
        block_on(account.fs.gc(Duration::ZERO)).unwrap();
        let after = account.usage("/");
        assert!(after.free >= before.free + 800_000 && after.pages + 800_000 <= before.pages, "{after:?}");
    }
}
