//! Merges adjacent small extents, so that a file of ten thousand appends is read in a few steps. The content
//! of every version stays the same.
//!
//! A version shows the extents with `since` at or before it that end after it, cut at its size. The members
//! of a run end with the same commit, and the merged extent takes the `since` of the first, which is the
//! smallest. Only versions between the first and the last commit of the run could see extra bytes. A run is
//! merged only where the size of those versions hides them ([`Runs::follows`]).
//!
//! Files are examined once after each time they were written: the log names them. Runs are found on a
//! snapshot, and merged in steps that compare them with the rows again.

use std::collections::BTreeSet;

use garth_engine::engine::planner::{DEDUP_FROM, ExtentRow, SHORT_SUM, sum_of};
use garth_engine::engine::relational::{changes_column, origin_column};
use garth_engine::model::ChangeKind;
use garth_engine::{Error, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::step::{Run, Step};
use crate::client::{Param, param};
use crate::values::columns::{column, extent, int, number, older};
use crate::values::parameters::ints;
use crate::weights::ROW;

/// Extents below this number of bytes are small. A run ends once it has as many.
const SMALL: u64 = DEDUP_FROM as u64;
/// Most extents of a run: bounds the time that merging it takes. A longer one is merged piece by piece.
const RUN: usize = 512;
/// Most extents examined in one read.
const READ: i64 = 2048;
/// Most commits examined in one read, and most pieces of their changes.
const COMMITS: i64 = 256;
/// Files with small extents held in memory at a time.
const FILES: usize = 4096;
/// Files that one statement looks at.
const CHECKED: usize = 512;

const MERGED: &str = "SELECT merged FROM garth.head WHERE account = $1";
const SET_MERGED: &str = "UPDATE garth.head SET merged = $2 WHERE account = $1 AND merged < $2";
const LOG: &str = "SELECT seq, changes FROM garth.log WHERE account = $1 AND seq > $2 ORDER BY seq LIMIT $3";
const LOG_MORE: &str = "SELECT seq, first, changes FROM garth.log_more
    WHERE account = $1 AND (seq, first) > ($2, $3) AND seq <= $4 ORDER BY seq, first LIMIT $5";
/// Link counts of the last two versions of a node.
const LINKS: &str = "SELECT nlink FROM garth.node WHERE account = $1 AND ino = $2 ORDER BY seq DESC LIMIT 2";

/// Files that may have a run: those with two extents that are live or ended after a commit. Most files that
/// were written have one.
const CANDIDATES: &str = "SELECT k.ino FROM unnest($2::bigint[]) k(ino)
    WHERE (SELECT count(*) FROM (SELECT FROM garth.extent
            WHERE account = $1 AND ino = k.ino ORDER BY off LIMIT 2) x) > 1
        OR (SELECT count(*) FROM (SELECT FROM garth.extent_past
            WHERE account = $1 AND ino = k.ino AND till > $3 ORDER BY till, off LIMIT 2) x) > 1
    ORDER BY k.ino";

/// Extents of a page, with true for those whose chunk has one reference, with the length of the chunk, the
/// length of its sum, and the largest size of the file between the commit of the extent before and its own.
macro_rules! page {
    ($table:literal, $till:literal, $where:literal, $order:literal) => {
        concat!(
            "SELECT e.off, e.len, e.since, e.chunk, e.skip, e.older, e.till, r.chunk IS NULL, c.len,
                octet_length(c.sum), v.size
            FROM (SELECT *, lag(since) OVER (PARTITION BY till ORDER BY off) AS before
                FROM (SELECT off, len, since, chunk, skip, older, ",
            $till,
            " AS till FROM garth.",
            $table,
            " WHERE account = $1 AND ino = $2 AND ",
            $where,
            " ORDER BY ",
            $order,
            " LIMIT $5) x) e
            LEFT JOIN LATERAL (SELECT chunk FROM garth.chunk_refs
                WHERE account = $1 AND chunk = e.chunk OFFSET 0) r ON true
            LEFT JOIN LATERAL (SELECT len, sum FROM garth.chunk WHERE account = $1 AND id = e.chunk OFFSET 0) c ON true
            LEFT JOIN LATERAL (SELECT max(size) AS size FROM garth.node
                WHERE account = $1 AND ino = $2 AND seq >= e.before AND seq < e.since) v ON true
            ORDER BY e.till, e.off"
        )
    };
}
const LIVE: &str = page!("extent", "0::bigint", "$3::bigint = 0 AND off >= $4", "off");
const PAST: &str = page!("extent_past", "till", "(till, off) >= ($3, $4)", "till, off");

/// Members of a run, with what their chunks have.
macro_rules! members {
    ($table:literal, $where:literal) => {
        concat!(
            "SELECT e.off, e.len, e.since, e.chunk, e.skip, e.older, c.sum, c.data, o.runs
            FROM (SELECT off, len, since, chunk, skip, older FROM garth.",
            $table,
            " WHERE account = $1 AND ino = $2 AND off = ANY($3)",
            $where,
            ") e
            CROSS JOIN LATERAL (SELECT sum, data FROM garth.chunk WHERE account = $1 AND id = e.chunk OFFSET 0) c
            LEFT JOIN LATERAL (SELECT runs FROM garth.origin WHERE account = $1 AND chunk = e.chunk OFFSET 0) o ON true
            WHERE NOT EXISTS (SELECT FROM garth.chunk_refs r WHERE r.account = $1 AND r.chunk = e.chunk)
            ORDER BY e.off"
        )
    };
}
const LIVE_MEMBERS: &str = members!("extent", " AND $4::bigint = 0");
const PAST_MEMBERS: &str = members!("extent_past", " AND till = $4");

const CHUNK: &str = "INSERT INTO garth.chunk (account, id, sum, len, data) VALUES ($1, $2, $3, $4, $5)";
const NEXT_CHUNK: &str = "UPDATE garth.head SET next_chunk = $2 + 1 WHERE account = $1";
const ORIGIN: &str = "INSERT INTO garth.origin (account, chunk, runs) VALUES ($1, $2, $3)";
const LIVE_MERGED: &str = "UPDATE garth.extent SET len = $5, chunk = $6, skip = 0, older = $7
    WHERE account = $1 AND ino = $2 AND off = $4 AND $3::bigint = 0";
const PAST_MERGED: &str = "UPDATE garth.extent_past SET len = $5, chunk = $6, skip = 0, older = $7
    WHERE account = $1 AND ino = $2 AND till = $3 AND off = $4";
const NO_LIVE: &str = "DELETE FROM garth.extent
    WHERE account = $1 AND ino = $2 AND off = ANY($4) AND $3::bigint = 0";
const NO_PAST: &str = "DELETE FROM garth.extent_past
    WHERE account = $1 AND ino = $2 AND till = $3 AND off = ANY($4)";
const NO_CHUNKS: &str = "DELETE FROM garth.chunk WHERE account = $1 AND id = ANY($2)";
const NO_ORIGINS: &str = "DELETE FROM garth.origin WHERE account = $1 AND chunk = ANY($2)";

/// Place in the extents of a file: the commit that ended them, 0 for live ones, and the offset.
type Key = (u64, u64);

/// A small extent whose chunk has no other reference and will get none, because it is not found by its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Small {
    till: u64,
    row: ExtentRow,
    /// Largest size of the file between the commit of the extent before and that of this one.
    size: Option<u64>,
}

/// Runs in a part of a file.
#[derive(Default)]
struct Runs {
    runs: Vec<Vec<Small>>,
    /// Place to continue; `None` at the end of the file.
    next: Option<Key>,
    /// Place to continue instead if the last run was merged: the merged extent begins the next run.
    longer: Option<Key>,
}

/// Merges small extents of `files`, and of the files that were written after the last run.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn merge(run: &mut Run<'_>, files: Vec<u64>) -> Result<()> {
    merge_files(run, files, 0).await?;
    let [rows] = run.read([(MERGED, Vec::new())]).await?;
    let mut from = rows.first().map_or(Ok(0), |row| number(row, 0))?;
    loop {
        let (mut written, mut last) = (BTreeSet::new(), from);
        while written.len() < FILES
            && let Some(seq) = written_after(run, last, &mut written).await?
        {
            last = seq;
        }
        if last == from {
            return Ok(());
        }
        merge_files(run, written.into_iter().collect(), from).await?;
        // Only now: a run that is interrupted starts with the same commits again.
        let (mut step, []) = run.step([]).await?;
        step.add(SET_MERGED, vec![param(int(last), Type::INT8)]);
        run.commit(step).await?;
        from = last;
    }
}

/// Adds the files that the next commits after `from` wrote to. Returns the last commit examined; `None` if
/// there is none.
async fn written_after(run: &mut Run<'_>, from: u64, files: &mut BTreeSet<u64>) -> Result<Option<u64>> {
    run.keep_lease().await?;
    let numbers =
        |numbers: &[i64]| numbers.iter().map(|number| param(*number, Type::INT8)).collect::<Vec<_>>();
    let [log] = run.read([(LOG, numbers(&[int(from), COMMITS]))]).await?;
    let Some(last) = log.last().map(|row| number(row, 0)).transpose()? else { return Ok(None) };
    for row in &log {
        add_written(column(row, 1)?, files);
    }
    let mut after = (int(from) + 1, -1);
    loop {
        let params = numbers(&[after.0, after.1, int(last), COMMITS]);
        let [more] = run.read([(LOG_MORE, params)]).await?;
        for row in &more {
            add_written(column(row, 2)?, files);
            after = (column(row, 0)?, column(row, 1)?);
        }
        if i64::try_from(more.len()).unwrap_or(i64::MAX) < COMMITS {
            return Ok(Some(last));
        }
    }
}

fn add_written(json: &str, files: &mut BTreeSet<u64>) {
    // `fsck` reports rows that cannot be parsed.
    let (changes, _) = changes_column::from_json(json).unwrap_or_default();
    files.extend(changes.iter().filter(|it| matches!(it.kind, ChangeKind::Modified)).map(|it| it.ino));
}

/// Merges the runs of files, among the extents that are live or ended after commit `since`.
async fn merge_files(run: &mut Run<'_>, files: Vec<u64>, since: u64) -> Result<()> {
    for files in files.chunks(CHECKED) {
        run.keep_lease().await?;
        let params = vec![ints(files.iter().copied()), param(int(since), Type::INT8)];
        let [rows] = run.read([(CANDIDATES, params)]).await?;
        for row in &rows {
            merge_file(run, number(row, 0)?, since).await?;
        }
    }
    Ok(())
}

/// Merges the runs of a file, among the extents that are live or ended after commit `since`.
async fn merge_file(run: &mut Run<'_>, ino: u64, since: u64) -> Result<()> {
    let mut at = Some((0, 0));
    while let Some(from) = at {
        run.keep_lease().await?;
        let found = find(run, ino, since, from).await?;
        let mut last = false;
        for members in &found.runs {
            last = merge_run(run, ino, members).await?;
        }
        at = found.longer.filter(|_| last).or(found.next);
    }
    Ok(())
}

/// Finds runs in a file from a place on. After the live extents come those of the past.
async fn find(run: &Run<'_>, ino: u64, since: u64, (till, off): Key) -> Result<Runs> {
    // Never before `since + 1`: extents that ended earlier were examined by an earlier run.
    let first_past = (since + 1, 0);
    let is_live = till == 0;
    let (till, off) = if is_live { (0, off) } else { (till, off).max(first_past) };
    let node = param(int(ino), Type::INT8);
    let params = [int(ino), int(till), int(off), READ].map(|number| param(number, Type::INT8));
    let sql = if is_live { LIVE } else { PAST };
    let [links, rows] = run.read([(LINKS, vec![node]), (sql, params.into())]).await?;
    let mut found = Runs::default();
    if may_be_taken_back(&links)? {
        return Ok(found);
    }
    let is_full = i64::try_from(rows.len()).unwrap_or(i64::MAX) >= READ;
    let end = rows.last().filter(|_| is_full).map(|row| Ok::<_, Error>((number(row, 6)?, number(row, 0)?)));
    for row in &rows {
        let Some(small) = small(row)? else { continue };
        if found.add(small) {
            return Ok(found);
        }
    }
    found.next = match end.transpose()? {
        Some((till, off)) if found.ends_with((till, off)) => {
            // The run may continue: the next read begins with it.
            found.runs.pop().and_then(|run| run.first().map(Small::key)).or(Some((till, off + 1)))
        }
        Some((till, off)) => Some((till, off + 1)),
        None => is_live.then_some(first_past),
    };
    found.runs.retain(|run| run.len() > 1);
    Ok(found)
}

impl Small {
    fn key(&self) -> Key {
        (self.till, self.row.off)
    }
}

impl Runs {
    /// Adds an extent to the last run, or begins another one with it. Returns true if the run is full.
    fn add(&mut self, small: Small) -> bool {
        match self.runs.last_mut() {
            Some(run) if Self::follows(run, &small) => {
                if run.len() >= RUN {
                    (self.next, self.longer) = (Some(small.key()), run.first().map(Small::key));
                    self.runs.retain(|run| run.len() > 1);
                    return true;
                }
                run.push(small);
            }
            _ => self.runs.push(vec![small]),
        }
        false
    }

    /// Returns true if an extent may join the run before it: it is adjacent, ends with the same commit, is
    /// not older than the last member, and begins where every version in between has ended.
    fn follows(run: &[Small], small: &Small) -> bool {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return false };
        let end = last.row.off + last.row.len;
        let is_beside = (last.till, end) == small.key();
        if !is_beside || end - first.row.off >= SMALL || small.row.since < last.row.since {
            return false;
        }
        // Versions before the last member were compared when it joined, with a smaller offset.
        small.size.is_none_or(|size| size <= small.row.off)
    }

    fn ends_with(&self, key: Key) -> bool {
        self.runs.last().and_then(|run| run.last()).is_some_and(|small| small.key() == key)
    }
}

/// Reads an extent of a page. Returns `None` for one that is not merged.
fn small(row: &Row) -> Result<Option<Small>> {
    let extent = extent(row, 0)?;
    let (is_single, len): (bool, Option<i64>) = (column(row, 7)?, column(row, 8)?);
    let sum = usize::try_from(column::<Option<i32>>(row, 9)?.unwrap_or_default()).unwrap_or_default();
    // A complete chunk that equal content is to share: merged, it would be stored again with the next such
    // content.
    let is_shared = sum > SHORT_SUM && extent.skip == 0 && len == Some(int(extent.len));
    // With other references the chunk would stay, and its bytes would be stored twice.
    if extent.len >= SMALL || !is_single || is_shared {
        return Ok(None);
    }
    let size = column::<Option<i64>>(row, 10)?.map(i64::cast_unsigned);
    Ok(Some(Small { till: number(row, 6)?, row: extent, size }))
}

/// Returns true for a file that was written after it lost its last name: what is removed of it is found by
/// `since`, which merging would lose.
fn may_be_taken_back(links: &[Row]) -> Result<bool> {
    let links = links.iter().map(|row| number(row, 0)).collect::<Result<Vec<_>>>()?;
    Ok(links.is_empty() || links == [0, 0])
}

/// Content of a run.
struct Merged {
    data: Vec<u8>,
    written: Vec<origin_column::Run>,
    /// Bytes of the chunks that it replaces.
    replaced: u64,
}

/// Merges a run. Returns false if it has changed after it was found, or is damaged.
async fn merge_run(run: &mut Run<'_>, ino: u64, members: &[Small]) -> Result<bool> {
    let Some((first, rest)) = members.split_first() else { return Ok(false) };
    let node = param(int(ino), Type::INT8);
    let offs = ints(members.iter().map(|small| small.row.off));
    let params = vec![param(int(ino), Type::INT8), offs, param(int(first.till), Type::INT8)];
    let sql = if first.till == 0 { LIVE_MEMBERS } else { PAST_MEMBERS };
    let (mut step, [links, rows]) = run.step([(LINKS, vec![node]), (sql, params)]).await?;
    // Again in this transaction: the file may have lost its last name after the run was found.
    let content = if may_be_taken_back(&links)? { None } else { content(members, &rows)? };
    let Some(content) = content else {
        run.commit(step).await?;
        return Ok(false);
    };
    write(&mut step, (ino, first), &content)?;
    let key = vec![param(int(ino), Type::INT8), param(int(first.till), Type::INT8)];
    let gone = ints(rest.iter().map(|small| small.row.off));
    step.add(if first.till == 0 { NO_LIVE } else { NO_PAST }, key.into_iter().chain([gone]).collect());
    for sql in [NO_CHUNKS, NO_ORIGINS] {
        step.add(sql, vec![ints(members.iter().map(|small| small.row.chunk))]);
    }
    let merged = u64::try_from(rest.len()).unwrap_or(u64::MAX);
    step.frees(content.replaced.saturating_add(ROW.saturating_mul(merged)));
    run.commit(step).await?;
    run.collected.merged += merged;
    run.collected.chunks += merged + 1;
    run.collected.bytes += content.replaced;
    Ok(true)
}

/// Returns the content of a run from its rows; `None` unless all of them are as they were found, and sound.
/// Damage stays where a check finds it: a new chunk with a fresh checksum would hide it.
fn content(members: &[Small], rows: &[Row]) -> Result<Option<Merged>> {
    if rows.len() != members.len() {
        return Ok(None);
    }
    let mut merged = Merged { data: Vec::new(), written: Vec::new(), replaced: 0 };
    for (member, row) in members.iter().zip(rows) {
        let (part, sum, data) = (extent(row, 0)?, column::<&[u8]>(row, 6)?, column::<Option<&[u8]>>(row, 7)?);
        let data = data.unwrap_or_default();
        let end = part.skip.saturating_add(part.len);
        let place = usize::try_from(part.skip).ok().zip(usize::try_from(end).ok());
        let bytes = place.and_then(|(begin, end)| data.get(begin..end));
        let (Some(bytes), true) = (bytes, part == member.row && sum_of(data, sum.len() > SHORT_SUM) == sum)
        else {
            return Ok(None);
        };
        merged.data.extend_from_slice(bytes);
        merged.replaced += u64::try_from(data.len()).unwrap_or(u64::MAX);
        // `blame` needs the commit of every byte after the merge, too.
        match part.written {
            0 => {
                for run in origin_column::runs(column(row, 8)?, part.skip, end)? {
                    origin_column::push(&mut merged.written, run);
                }
            }
            commit => origin_column::push(&mut merged.written, (part.len, commit)),
        }
    }
    Ok(Some(merged))
}

/// Adds the statements that write the merged extent in place of the first member.
fn write(step: &mut Step, (ino, first): (u64, &Small), content: &Merged) -> Result<()> {
    let (chunk, len) = (step.head.next_chunk, u64::try_from(content.data.len()).unwrap_or(u64::MAX));
    let number = |number: u64| param(int(number), Type::INT8);
    let bytes = |bytes: Vec<u8>| param(bytes, Type::BYTEA);
    step.add(NEXT_CHUNK, vec![number(chunk)]);
    let sum = sum_of(&content.data, false);
    step.add(CHUNK, vec![number(chunk), bytes(sum), number(len), bytes(content.data.clone())]);
    step.adds(len);
    let written = match content.written[..] {
        [(_, commit)] => commit,
        _ => {
            step.add(ORIGIN, vec![number(chunk), bytes(origin_column::encode(&content.written))]);
            0
        }
    };
    let row = ExtentRow { len, chunk, skip: 0, written, ..first.row };
    let place = [int(ino), int(first.till), int(row.off), int(len), int(chunk), older(&row)];
    let params: Vec<Param> = place.into_iter().map(|number| param(number, Type::INT8)).collect();
    step.add(if first.till == 0 { LIVE_MERGED } else { PAST_MERGED }, params);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(off: u64, len: u64, since: u64, size: Option<u64>) -> Small {
        let row = ExtentRow { off, len, since, chunk: off, skip: 0, written: since };
        Small { till: 0, row, size }
    }

    #[test]
    fn appends_join_and_overwritten_parts_do_not() {
        let mut runs = Runs::default();
        for member in [
            small(0, 4, 1, None),
            small(4, 4, 2, Some(4)),
            // A version between had more bytes than the offset.
            small(8, 4, 3, Some(12)),
            // Older than the one before.
            small(12, 4, 2, None),
            // Behind a hole.
            small(20, 4, 4, Some(16)),
        ] {
            assert!(!runs.add(member));
        }
        let offs: Vec<Vec<u64>> =
            runs.runs.iter().map(|run| run.iter().map(|it| it.row.off).collect()).collect();
        assert_eq!(offs, [vec![0, 4], vec![8], vec![12], vec![20]]);
        assert!(runs.ends_with((0, 20)) && !runs.ends_with((0, 12)));
    }

    #[test]
    fn full_run_begins_the_next_one() {
        let mut runs = Runs::default();
        let most = u64::try_from(RUN).unwrap();
        for n in 0..most {
            assert!(!runs.add(small(n, 1, n + 1, Some(n))));
        }
        assert!(runs.add(small(most, 1, most + 1, Some(most))));
        assert_eq!((runs.next, runs.longer), (Some((0, most)), Some((0, 0))));
    }
}
