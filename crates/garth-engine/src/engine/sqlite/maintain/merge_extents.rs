//! Merges adjacent small extents, so that a file of ten thousand appends is read in a few steps. The content
//! of every version stays the same.
//!
//! A version shows the extents with `since` at or before it and `till` after it, cut at its size. The members
//! of a run have the same `till`, and the merged extent takes the `since` of the first, which is the
//! smallest. Only versions between the first and the last commit of the run could see extra bytes. A run is
//! merged only where the size of those versions hides them (see `follows`).
//!
//! Files are examined once after each time they were written: the log names them.

use std::collections::{BTreeSet, VecDeque};

use rusqlite::Connection;

use crate::engine::planner::{DEDUP_FROM, ExtentRow, NodeRow};
use crate::engine::relational::changes_column;
use crate::engine::sqlite::chunk_store::{self, Packs};
use crate::engine::sqlite::maintain::step::Turn;
use crate::engine::sqlite::tables::{MAX, chunk_refs, chunks, commit_log, extents, nodes, origins};
use crate::error::ErrorKind;
use crate::model::{ChangeKind, Timestamp};
use crate::runtime::Runtime;
use crate::sqlite::DbResult;

/// Extents below this number of bytes are small. A run ends once it has as many.
const SMALL: u64 = DEDUP_FROM as u64;
/// Most extents of a run: bounds the time that merging it takes. A longer one is merged piece by piece.
const RUN: usize = 1024;
/// Most extents examined in one read.
const READ: usize = 8 * RUN;
/// Most commits examined in one read, and most pieces of their changes.
const COMMITS: usize = 1000;

/// Adjacent small extents.
pub(crate) type Run = Vec<Small>;

/// Key of an extent within a file: `till` and offset.
pub(crate) type Key = (u64, u64);

/// Runs to merge in a part of a file, found on a reader.
#[derive(Default)]
pub(crate) struct FileRuns {
    /// Runs of more than one extent.
    pub(crate) runs: Vec<Run>,
    /// Place to continue; `None` at the end of the file.
    pub(crate) next: Option<Key>,
    /// Place to continue instead of `next` if the last run was merged: the merged extent begins the next run.
    pub(crate) longer: Option<Key>,
}

/// A small extent whose chunk has no other reference and will get none, because it is not found by its hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Small {
    ino: u64,
    till: u64,
    row: ExtentRow,
}

impl Small {
    fn key(&self) -> Key {
        (self.till, self.row.off)
    }
}

/// Adds the files that the next commits after `from` wrote to. Returns the last commit examined; `None` if
/// there is none.
pub(crate) fn written(conn: &Connection, from: u64, files: &mut BTreeSet<u64>) -> DbResult<Option<u64>> {
    let last = commit_log::last_of_next(conn, from, COMMITS)?;
    for json in commit_log::changes_between(conn, from, last.unwrap_or(from))? {
        // `fsck` reports rows that cannot be parsed.
        let (changes, _) = changes_column::from_json(&json).unwrap_or_default();
        files.extend(changes.iter().filter(|it| matches!(it.kind, ChangeKind::Modified)).map(|it| it.ino));
    }
    Ok(last)
}

/// Finds runs in a file from `at` on, among the extents that are live or ended after commit `since`.
pub(crate) fn find(conn: &Connection, ino: u64, since: u64, at: Key) -> DbResult<FileRuns> {
    let mut found = FileRuns::default();
    if may_be_taken_back(conn, ino)? {
        return Ok(found);
    }
    let extents = extents::since(conn, ino, since, at, READ)?;
    let end = extents.last().filter(|_| extents.len() == READ).map(|(till, row)| (*till, row.off));
    for (till, row) in extents {
        // With other references the chunk would stay, and its bytes would be stored twice.
        if row.len >= SMALL || !chunk_refs::is_single(conn, row.chunk)? || is_deduplicated(conn, &row)? {
            continue;
        }
        let small = Small { ino, till, row };
        match found.runs.last_mut() {
            Some(run) if follows(conn, run, &small)? => {
                // Too many for one step. If this run is merged, its extent begins the next one (`longer`).
                if run.len() >= RUN {
                    (found.next, found.longer) = (Some(small.key()), run.first().map(Small::key));
                    found.runs.retain(|run| run.len() > 1);
                    return Ok(found);
                }
                run.push(small);
            }
            _ => found.runs.push(vec![small]),
        }
    }
    if let Some((till, off)) = end {
        found.next = Some((till, off + 1));
        if found.runs.last().and_then(|run| run.last()).map(Small::key) == Some((till, off)) {
            // The run may continue: the next read begins with it.
            found.next = found.runs.pop().and_then(|run| run.first().map(Small::key));
        }
    }
    found.runs.retain(|run| run.len() > 1);
    Ok(found)
}

/// Returns true for a complete chunk that equal content is to share: the end of a piece of [`DEDUP_FROM`]
/// bytes or more. Merged, it would be stored again with the next such piece.
fn is_deduplicated(conn: &Connection, row: &ExtentRow) -> DbResult<bool> {
    Ok(row.skip == 0 && chunks::is_found_by_hash(conn, row.chunk, row.len)?)
}

/// Returns true if an extent may join the run before it: it is adjacent, ends with the same commit, is not
/// older than the last member, and begins where every version in between has ended.
fn follows(conn: &Connection, run: &[Small], small: &Small) -> DbResult<bool> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(false) };
    let end = last.row.end();
    let beside = (last.ino, last.till, end) == (small.ino, small.till, small.row.off);
    if !beside || end - first.row.off >= SMALL || small.row.since < last.row.since {
        return Ok(false);
    }
    // Versions before the last member were checked when it joined, against a smaller offset.
    let largest = nodes::largest_size(conn, small.ino, last.row.since, small.row.since)?;
    Ok(largest.is_none_or(|size| size <= small.row.off))
}

/// Extents that merging removed, and their chunks with the bytes of these.
#[derive(Default)]
pub(crate) struct MergeStats {
    pub(crate) extents: u64,
    pub(crate) chunks: u64,
    pub(crate) bytes: u64,
    /// True if the last run examined was merged and not left alone.
    pub(crate) last: bool,
}

/// Merges runs that have not changed after they were found, until the turn is over. Removes them from `runs`.
pub(crate) fn merge(
    conn: &Connection,
    packs: &Packs,
    runtime: &Runtime,
    runs: &mut VecDeque<Run>,
    turn: &mut Turn,
) -> DbResult<MergeStats> {
    let mut merged = MergeStats::default();
    while let Some(run) = runs.pop_front() {
        merged.last = merge_run(conn, packs, runtime.env().now(), &run, &mut merged)?;
        if turn.is_over() {
            break;
        }
    }
    runtime.failpoints().pass("gc-merge")?;
    Ok(merged)
}

/// Merges a run. Returns true if it did.
fn merge_run(
    conn: &Connection,
    packs: &Packs,
    now: Timestamp,
    run: &[Small],
    merged: &mut MergeStats,
) -> DbResult<bool> {
    let Some((first, rest)) = run.split_first() else { return Ok(false) };
    // Again in this transaction: the file may have lost its last name after the run was found.
    if may_be_taken_back(conn, first.ino)? {
        return Ok(false);
    }
    let (mut data, mut written) = (Vec::new(), Vec::new());
    for part in run {
        // A commit may have covered or copied a part of the run after it was found.
        let there = extents::get(conn, part.ino, part.key())?;
        if there != Some(part.row) || !chunk_refs::is_single(conn, part.row.chunk)? {
            return Ok(false);
        }
        let range = part.row.skip as usize..(part.row.skip + part.row.len) as usize;
        match packs.chunk(conn, part.row.chunk) {
            Ok(bytes) if bytes.len() >= range.end => data.extend_from_slice(&bytes[range]),
            // Damage stays where `fsck` finds it: a new chunk with a fresh checksum would hide it.
            Ok(_) => return Ok(false),
            Err(error) if error.is(ErrorKind::Corrupt) => return Ok(false),
            Err(error) => return Err(error),
        }
        // `blame` needs the commit of every byte after the merge, too.
        let (from, to) = (part.row.skip, part.row.skip + part.row.len);
        let runs = match part.row.written {
            0 => origins::runs(conn, part.row.chunk, from, to)?,
            commit => vec![(to - from, commit)],
        };
        runs.into_iter().for_each(|run| origins::push(&mut written, run));
    }
    let chunk = Packs::store_unshared(conn, &data)?;
    let written = match written[..] {
        [(_, commit)] => commit,
        _ => {
            origins::put(conn, chunk, &written)?;
            0
        }
    };
    let row = ExtentRow { len: data.len() as u64, chunk, skip: 0, written, ..first.row };
    extents::replace(conn, first.ino, first.till, &row)?;
    for part in rest {
        extents::remove(conn, part.ino, part.key())?;
    }
    for part in run {
        merged.bytes += chunk_store::remove_chunk(conn, part.row.chunk, now)?.unwrap_or(0);
        merged.chunks += 1;
    }
    merged.extents += rest.len() as u64;
    Ok(true)
}

/// Returns true for a file that was written after it lost its last name: `gc` finds what to remove by
/// `since`, which merging would lose.
fn may_be_taken_back(conn: &Connection, ino: u64) -> DbResult<bool> {
    let Some(node) = nodes::version(conn, ino, MAX)? else { return Ok(true) };
    let unnamed = |node: &NodeRow| node.nlink == 0;
    Ok(unnamed(&node) && nodes::version(conn, ino, node.seq.saturating_sub(1))?.as_ref().is_some_and(unnamed))
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
        /// Makes one commit for each operation.
        fn of(ops: impl IntoIterator<Item = Op>) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let account = Self {
                fs: SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap(),
                _folder: folder,
            };
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

        fn ino(&self, path: &str) -> u64 {
            block_on(self.fs.stat(&at(path))).unwrap().ino.0
        }

        fn find(&self) -> FileRuns {
            self.find_in("/a")
        }

        fn find_in(&self, path: &str) -> FileRuns {
            let ino = self.ino(path);
            self.fs.with_view(|view| find(view.conn, ino, 0, (0, 0))).unwrap()
        }

        /// Returns the offsets of the extents of each run.
        fn runs(&self) -> Vec<Vec<u64>> {
            self.runs_in("/a")
        }

        fn runs_in(&self, path: &str) -> Vec<Vec<u64>> {
            self.find_in(path)
                .runs
                .iter()
                .map(|run| run.iter().map(|small| small.row.off).collect())
                .collect()
        }

        fn merge(&self, found: FileRuns) -> MergeStats {
            let (packs, runtime) = (self.fs.inner.packs.clone(), self.fs.inner.runtime.clone());
            let mut runs = VecDeque::from(found.runs);
            self.fs.step(move |conn, turn| merge(conn, &packs, &runtime, &mut runs, turn)).unwrap()
        }

        /// Returns the content of `/a` after each commit; `None` if it could not be read.
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
    fn merging_appends_preserves_every_version() {
        let account = Account::of(["one;", "two;", "three;"].map(append));
        let before = account.versions();
        assert_eq!(account.runs(), [[0, 4, 8]]);
        let merged = account.merge(account.find());
        assert_eq!((merged.extents, merged.chunks, merged.bytes), (2, 3, 14));
        assert_eq!(account.versions(), before);
        assert_eq!(account.fs.check().unwrap().findings, []);
        assert!(account.runs().is_empty(), "nothing is left to do");
    }

    #[test]
    fn older_extent_does_not_join_a_run() {
        // The hole at the front was filled last: merged, the earlier versions would show it.
        let account =
            Account::of([append(""), Op::patch(at("/a"), 4, "last"), Op::patch(at("/a"), 0, "fill")]);
        assert!(account.runs().is_empty());
    }

    #[test]
    fn merge_respects_versions_with_holes() {
        let longer = |size| Op::truncate(at("/a"), size);
        let account = Account::of([append("one;"), longer(8), Op::patch(at("/a"), 4, "two;")]);
        assert!(account.runs().is_empty(), "version 2 has zeros where version 3 has text");
        let account = Account::of([append("one;"), longer(2), longer(4), append("two;")]);
        let before = account.versions();
        account.merge(account.find());
        assert_eq!(account.versions(), before);
    }

    #[test]
    fn merge_requires_adjacent_extents_ending_together() {
        let account = Account::of([
            append("one;"),
            Op::patch(at("/a"), 8, "behind a hole"),
            Op::write(at("/b"), "another file"),
            Op::write(at("/c"), "covered"),
            Op::append(at("/c"), "live"),
            Op::patch(at("/c"), 0, "now "),
        ]);
        for path in ["/a", "/b", "/c"] {
            let found = account.runs_in(path);
            assert!(found.is_empty(), "{path}: {found:?}");
        }
    }

    #[test]
    fn run_ends_at_deduplicated_size() {
        let part = || Op::append(at("/a"), vec![b'x'; 30_000]);
        let account = Account::of([part(), part(), part(), part(), part()]);
        assert_eq!(account.runs(), [vec![0, 30_000, 60_000], vec![90_000, 120_000]]);
    }

    #[test]
    fn merge_keeps_pieces_between_cuts() {
        let large = 2 * SMALL;
        let mib = 1 << 20;
        let piece = |length: u64, byte| {
            let body = [b"before".to_vec(), vec![byte; length as usize], b"after".to_vec()].concat();
            Op::append(at("/a"), body).cut_at([6, 6 + length])
        };
        let account = Account::of([
            append("one;"),
            piece(large, b'x'),
            append("two;"),
            piece(mib + 9, b'y'),
            append("3;"),
        ]);
        // The last extent of the second piece is short.
        let (first, second) = (4 + 6, 4 + 6 + large + 5 + 4 + 6);
        let behind = second + mib + 9;
        let runs = [vec![0, 4], vec![first + large, first + large + 5, second - 6], vec![behind, behind + 5]];
        assert_eq!(account.runs(), runs);
        let before = account.versions();
        account.merge(account.find());
        assert_eq!(account.versions(), before);
        assert_eq!(account.fs.check().unwrap().findings, []);
        let chunks = account.fs.check().unwrap().chunks;
        account.apply([piece(large, b'x'), piece(mib + 9, b'y')]);
        assert_eq!(account.fs.check().unwrap().chunks, chunks + 4, "what lies beside the pieces");
    }

    #[test]
    fn shared_chunk_is_not_merged() {
        let account = Account::of(["one;", "two;"].map(append));
        account.apply([Op::copy(at("/a"), at("/copy"))]);
        assert!(account.runs().is_empty());
    }

    #[test]
    fn copy_after_the_search_prevents_merging() {
        let account = Account::of(["one;", "two;"].map(append));
        let found = account.find();
        account.apply([Op::copy(at("/a"), at("/copy"))]);
        assert_eq!(account.merge(found).extents, 0);
        assert_eq!(account.fs.check().unwrap().findings, []);
    }

    #[test]
    fn overwritten_run_is_not_merged() {
        let account = Account::of(["one;", "two;"].map(append));
        let found = account.find();
        account.apply([Op::patch(at("/a"), 0, "new;")]);
        let before = account.versions();
        assert_eq!(account.merge(found).extents, 0);
        assert_eq!(account.versions(), before);
    }

    #[test]
    fn chunk_needed_by_the_past_is_not_merged() {
        let account = Account::of([
            Op::write(at("/a"), vec![b'x'; 2 * SMALL as usize]),
            Op::truncate(at("/a"), 10),
            append("short"),
        ]);
        let before = account.versions();
        assert_eq!(account.merge(account.find()).extents, 0, "the version before needs the rest of it");
        assert_eq!(account.versions(), before);
    }

    #[test]
    fn merge_leaves_damage_for_fsck() {
        let account = Account::of(["one;", "two;"].map(append));
        account.execute("UPDATE chunk SET data = x'00' WHERE id = 1");
        let before = account.fs.check().unwrap().findings;
        assert_eq!(account.merge(account.find()).extents, 0);
        assert_eq!(account.fs.check().unwrap().findings, before);
        assert!(!before.is_empty());
    }
}
