//! Merges adjacent small extents, so that a file of ten thousand appends is read in a few steps. Every
//! version stays byte for byte what it was.
//!
//! Why that holds: a version shows the extents with `since` at or before it and `till` after it, cut at its
//! size. The members of a run share their `till`; the merged extent takes the first one's `since`, which is
//! the smallest. Only versions between the run's first and last commit could see extra bytes; a run is merged
//! only where the size of those versions hides them (see `follows`).

use std::collections::HashSet;

use rusqlite::{Connection, Row, params};

use crate::engine::planner::{DEDUP_FROM, ExtentRow, NodeRow};
use crate::engine::sqlite::read::content::Packs;
use crate::engine::sqlite::read::rows::{self, MAX};
use crate::error::ErrorKind;
use crate::runtime::Runtime;
use crate::sqlite::{DbResult, all, one};

/// Extents below this many bytes are small; a run ends once it has as many. Longer chunks are deduplicated by
/// their hash, so any commit may come to refer to one.
const SMALL: u64 = DEDUP_FROM as u64;
/// Most extents looked at and most bytes merged in one step: bounds how long commits wait behind it.
const STEP_EXTENTS: usize = 65_536;
const STEP_BYTES: u64 = 4 << 20;

/// The extent behind which a step goes on: node, `till`, offset.
pub(crate) type Cursor = (u64, u64, u64);

/// What there is to merge, found on a reader.
pub(crate) struct Found {
    /// Adjacent small extents; more than one in each.
    pub(crate) runs: Vec<Vec<Small>>,
    /// The count of copies when the shared chunks were looked for.
    copies: u64,
    /// Where the next step begins; `None` at the end.
    pub(crate) next: Option<Cursor>,
}

/// A small extent whose chunk no other extent uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Small {
    ino: u64,
    till: u64,
    row: ExtentRow,
}

/// Chunks that several extents use, through copies or as the rest around a patch: they cannot be deleted, so
/// merging their extents would store the bytes twice.
pub(crate) struct Shared {
    chunks: HashSet<u64>,
    /// `head.copies` at that time. Only a copy makes two files share a small chunk, so while it is unchanged
    /// no other chunk has become shared; what a patch shares is seen when the run's extents are read again.
    copies: u64,
}

/// Finds the shared chunks.
pub(crate) fn shared(conn: &Connection) -> DbResult<Shared> {
    let sql = "SELECT chunk FROM extent GROUP BY chunk HAVING count(*) > 1";
    let chunks = all(conn, sql, [], |row| row.get(0))?.into_iter().collect();
    Ok(Shared { chunks, copies: rows::head(conn)?.copies })
}

/// Finds runs behind `from`, as many as one transaction should merge.
pub(crate) fn find(conn: &Connection, shared: &Shared, from: Cursor) -> DbResult<Found> {
    let mut statement = conn.prepare_cached(
        "SELECT ino, till, off, len, since, chunk, skip FROM extent
         WHERE (ino, till, off) > (?1, ?2, ?3) AND len < ?4 ORDER BY ino, till, off",
    )?;
    let (ino, till, off) = from;
    let mut rows = statement.query(params![ino, till, off, SMALL])?;
    let (mut runs, mut seen, mut bytes, mut next) = (Vec::<Vec<Small>>::new(), 0, 0, None);
    while let Some(row) = rows.next()? {
        let small = small(row)?;
        seen += 1;
        if shared.chunks.contains(&small.row.chunk) {
            continue;
        }
        match runs.last_mut() {
            Some(run) if follows(conn, run, &small)? => run.push(small),
            Some(run) if seen >= STEP_EXTENTS || bytes >= STEP_BYTES => {
                next = run.last().map(|last| (last.ino, last.till, last.row.off));
                break;
            }
            _ => runs.push(vec![small]),
        }
        bytes += small.row.len;
    }
    runs.retain(|run| run.len() > 1);
    Ok(Found { runs, copies: shared.copies, next })
}

fn small(row: &Row<'_>) -> rusqlite::Result<Small> {
    let (off, len, since) = (row.get(2)?, row.get(3)?, row.get(4)?);
    let extent = ExtentRow { off, len, since, chunk: row.get(5)?, skip: row.get(6)? };
    Ok(Small { ino: row.get(0)?, till: row.get(1)?, row: extent })
}

/// Whether an extent may join the run before it: it is adjacent, ends with it, is not older than its last
/// member, and every version in between ends before it begins.
fn follows(conn: &Connection, run: &[Small], small: &Small) -> DbResult<bool> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(false) };
    let end = last.row.end();
    let beside = (last.ino, last.till, end) == (small.ino, small.till, small.row.off);
    if !beside || end - first.row.off >= SMALL || small.row.since < last.row.since {
        return Ok(false);
    }
    // versions before the last member were checked when that joined, against a smaller offset
    let sql = "SELECT max(size) FROM node WHERE ino = ?1 AND seq >= ?2 AND seq < ?3";
    let tallest: Option<Option<u64>> =
        one(conn, sql, params![small.ino, last.row.since, small.row.since], |row| row.get(0))?;
    Ok(tallest.flatten().is_none_or(|size| size <= small.row.off))
}

/// What merging removed: extents, and their chunks with the chunks' bytes.
#[derive(Default)]
pub(crate) struct Merged {
    pub(crate) extents: u64,
    pub(crate) chunks: u64,
    pub(crate) bytes: u64,
}

/// Merges the runs that are unchanged since they were found. None if a copy was made since, which may share
/// any of their chunks: the next `gc` tries again.
pub(crate) fn merge(conn: &Connection, packs: &Packs, runtime: &Runtime, found: &Found) -> DbResult<Merged> {
    let mut merged = Merged::default();
    if rows::head(conn)?.copies == found.copies {
        for run in &found.runs {
            merge_run(conn, packs, run, &mut merged)?;
        }
    }
    runtime.failpoints().pass("gc-merge")?;
    Ok(merged)
}

fn merge_run(conn: &Connection, packs: &Packs, run: &[Small], merged: &mut Merged) -> DbResult<()> {
    let Some((first, rest)) = run.split_first() else { return Ok(()) };
    if may_be_taken_back(conn, first.ino)? {
        return Ok(());
    }
    let sql = "SELECT ino, till, off, len, since, chunk, skip FROM extent WHERE ino = ?1 AND till = ?2 AND off = ?3";
    let mut data = Vec::new();
    for part in run {
        if one(conn, sql, params![part.ino, part.till, part.row.off], small)? != Some(*part) {
            return Ok(());
        }
        let range = part.row.skip as usize..(part.row.skip + part.row.len) as usize;
        match packs.chunk(conn, part.row.chunk) {
            // deduplicated by its hash: an upload may be about to refer to it
            Ok(bytes) if bytes.len() as u64 >= SMALL => return Ok(()),
            Ok(bytes) if bytes.len() >= range.end => data.extend_from_slice(&bytes[range]),
            // damage stays where `fsck` finds it; a new chunk with a fresh sum would hide it
            Ok(_) => return Ok(()),
            Err(error) if error.is(ErrorKind::Corrupt) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    let chunk = packs.keep_bytes(conn, &data)?;
    conn.prepare_cached(
        "UPDATE extent SET len = ?4, chunk = ?5, skip = 0 WHERE ino = ?1 AND till = ?2 AND off = ?3",
    )?
    .execute(params![first.ino, first.till, first.row.off, data.len(), chunk])?;
    for part in rest {
        conn.prepare_cached("DELETE FROM extent WHERE ino = ?1 AND till = ?2 AND off = ?3")?
            .execute(params![part.ino, part.till, part.row.off])?;
    }
    for part in run {
        let sql = "DELETE FROM chunk WHERE id = ?1 RETURNING len";
        merged.bytes += conn.prepare_cached(sql)?.query_row([part.row.chunk], |row| row.get::<_, u64>(0))?;
        merged.chunks += 1;
    }
    merged.extents += rest.len() as u64;
    Ok(())
}

/// Whether a file was written after it lost its last name: `gc` takes that back by `since`, which merging
/// loses.
fn may_be_taken_back(conn: &Connection, ino: u64) -> DbResult<bool> {
    let Some(node) = rows::node(conn, ino, MAX)? else { return Ok(true) };
    let unnamed = |node: &NodeRow| node.nlink == 0;
    Ok(unnamed(&node) && rows::node(conn, ino, node.seq.saturating_sub(1))?.as_ref().is_some_and(unnamed))
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use tempfile::TempDir;

    use super::*;
    use crate::engine::sqlite::SqliteFs;
    use crate::env::Env;
    use crate::fs::FileSystem;
    use crate::model::{At, Batch, ByteRange, Moment, Op, Seq};
    use crate::path::TreePath;

    struct Account {
        fs: std::sync::Arc<SqliteFs>,
        _folder: TempDir,
    }

    fn at(path: &str) -> At {
        At::Path(TreePath::parse(path).unwrap())
    }

    fn append(body: &'static str) -> Op {
        Op::append(at("/a"), body)
    }

    impl Account {
        /// One commit for each of these.
        fn of(ops: impl IntoIterator<Item = Op>) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let account = Self { fs: SqliteFs::open(folder.path(), Env::system()).unwrap(), _folder: folder };
            account.apply(ops);
            account
        }

        fn apply(&self, ops: impl IntoIterator<Item = Op>) {
            for op in ops {
                block_on(self.fs.commit(Batch::new([op]))).unwrap();
            }
        }

        fn execute(&self, sql: &'static str) {
            block_on(self.fs.inner.writer.transact(false, move |conn| Ok(conn.execute_batch(sql)?))).unwrap();
        }

        fn find(&self) -> Found {
            self.fs.with_view(|view| find(view.conn, &shared(view.conn)?, (0, 0, 0))).unwrap()
        }

        /// Offsets of the extents of the runs found.
        fn runs(&self) -> Vec<Vec<u64>> {
            self.find().runs.iter().map(|run| run.iter().map(|small| small.row.off).collect()).collect()
        }

        fn merge(&self, found: Found) -> Merged {
            let inner = &self.fs.inner;
            let (packs, runtime) = (inner.packs.clone(), inner.runtime.clone());
            block_on(inner.writer.transact(false, move |conn| merge(conn, &packs, &runtime, &found))).unwrap()
        }

        /// What `/a` held after each commit; `None` if it could not be read.
        fn versions(&self) -> Vec<Option<Vec<u8>>> {
            let last = block_on(self.fs.head()).unwrap().seq.0;
            let version = |seq| {
                let past = block_on(self.fs.as_of(&Moment::Seq(Seq(seq)))).unwrap();
                block_on(past.read(&at("/a"), ByteRange::ALL)).ok().map(|bytes| bytes.to_vec())
            };
            (1..=last).map(version).collect()
        }
    }

    #[test]
    fn appends_become_one_extent_and_every_version_stays_what_it_was() {
        let account = Account::of(["one;", "two;", "three;"].map(append));
        let before = account.versions();
        assert_eq!(account.runs(), [[0, 4, 8]]);
        let merged = account.merge(account.find());
        assert_eq!((merged.extents, merged.chunks, merged.bytes), (2, 3, 14));
        assert_eq!(account.versions(), before);
        assert_eq!(account.fs.fsck().unwrap().findings, []);
        assert!(account.runs().is_empty(), "nothing is left to do");
    }

    #[test]
    fn an_extent_older_than_the_one_before_it_is_not_merged() {
        // the hole at the front was filled last: merged, the earlier versions would show it
        let account =
            Account::of([append(""), Op::patch(at("/a"), 4, "last"), Op::patch(at("/a"), 0, "fill")]);
        assert!(account.runs().is_empty());
    }

    #[test]
    fn an_extent_is_not_merged_over_versions_that_were_as_long_with_a_hole() {
        let longer = |size| Op::truncate(at("/a"), size);
        let account = Account::of([append("one;"), longer(8), Op::patch(at("/a"), 4, "two;")]);
        assert!(account.runs().is_empty(), "version 2 has zeros where version 3 has text");
        let account = Account::of([append("one;"), longer(2), longer(4), append("two;")]);
        let before = account.versions();
        account.merge(account.find());
        assert_eq!(account.versions(), before);
    }

    #[test]
    fn extents_apart_of_other_ends_or_of_other_files_are_not_merged() {
        let account = Account::of([
            append("one;"),
            Op::patch(at("/a"), 8, "behind a hole"),
            Op::write(at("/b"), "another file"),
            Op::write(at("/c"), "covered"),
            Op::append(at("/c"), "live"),
            Op::patch(at("/c"), 0, "now "),
        ]);
        let found = account.runs();
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_run_ends_once_it_is_as_long_as_content_that_is_named_by_its_hash() {
        let part = || Op::append(at("/a"), vec![b'x'; 30_000]);
        let account = Account::of([part(), part(), part(), part(), part()]);
        assert_eq!(account.runs(), [vec![0, 30_000, 60_000], vec![90_000, 120_000]]);
    }

    #[test]
    fn a_chunk_that_several_extents_use_stays_as_it_is() {
        let account = Account::of(["one;", "two;"].map(append));
        account.apply([Op::copy(at("/a"), at("/copy"))]);
        assert!(account.runs().is_empty());
    }

    #[test]
    fn a_copy_made_since_the_runs_were_found_keeps_them_from_being_merged() {
        let account = Account::of(["one;", "two;"].map(append));
        let found = account.find();
        account.apply([Op::copy(at("/a"), at("/copy"))]);
        assert_eq!(account.merge(found).extents, 0);
        assert_eq!(account.fs.fsck().unwrap().findings, []);
    }

    #[test]
    fn a_run_that_was_written_over_since_it_was_found_is_left_alone() {
        let account = Account::of(["one;", "two;"].map(append));
        let found = account.find();
        account.apply([Op::patch(at("/a"), 0, "new;")]);
        let before = account.versions();
        assert_eq!(account.merge(found).extents, 0);
        assert_eq!(account.versions(), before);
    }

    #[test]
    fn what_is_left_of_a_chunk_with_a_name_is_not_merged() {
        let account = Account::of([
            Op::write(at("/a"), vec![b'x'; 2 * SMALL as usize]),
            Op::truncate(at("/a"), 10),
            append("short"),
        ]);
        let before = account.versions();
        assert_eq!(
            account.merge(account.find()).extents,
            0,
            "its bytes may be used by their hash at any time"
        );
        assert_eq!(account.versions(), before);
    }

    #[test]
    fn damage_stays_where_fsck_finds_it() {
        let account = Account::of(["one;", "two;"].map(append));
        account.execute("UPDATE chunk SET data = x'00' WHERE id = 1");
        let before = account.fs.fsck().unwrap().findings;
        assert_eq!(account.merge(account.find()).extents, 0);
        assert_eq!(account.fs.fsck().unwrap().findings, before);
        assert!(!before.is_empty());
    }
}
