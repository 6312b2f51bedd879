//! The part of `fsck` that counts the references to chunks.
//!
//! Extents have no index by chunk, because every append would write to it. They are counted node by node,
//! each node in one transaction, while commits go on. A chunk whose count does not match may have got or lost
//! a reference meanwhile. Such chunks are counted again, by the node that refers to them, and nodes that
//! changed during this second count are counted in the transaction that compares.

use std::collections::{BTreeSet, HashMap, HashSet};

use rusqlite::{Connection, params};

use super::{Check, ROWS};
use crate::engine::relational::changes_column;
use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::tables::{MAX, head, staged};
use crate::error::Result;
use crate::sqlite::{DbResult, all, one};

/// Chunk ids counted in one pass over the extents: bounds memory to as many bytes.
const WINDOW: u64 = 16 << 20;
/// Most chunks that are counted again, and so most findings.
const SUSPECTS: usize = 1000;
/// Extents counted in one transaction, plus the rest of the last node.
const EXTENTS: u64 = 20_000;
/// Times that a count is tried again after merges or `gc` interfered.
const TRIES: usize = 5;

/// Counts of references to the chunks of a window.
struct Counts {
    first: u64,
    few: Vec<u8>,
    /// The part of a count that a byte does not hold.
    many: HashMap<u64, u64>,
}

impl Counts {
    fn new(first: u64, end: u64) -> Self {
        Self { first, few: vec![0; (end - first) as usize], many: HashMap::new() }
    }

    fn add(&mut self, chunk: u64) {
        let Some(count) = chunk.checked_sub(self.first).and_then(|at| self.few.get_mut(at as usize)) else {
            return;
        };
        // A byte is enough for most chunks. Further references of one are counted in `many`.
        match count.checked_add(1) {
            Some(more) => *count = more,
            None => *self.many.entry(chunk).or_default() += 1,
        }
    }

    fn get(&self, chunk: u64) -> u64 {
        let few = chunk.checked_sub(self.first).and_then(|at| self.few.get(at as usize));
        u64::from(few.copied().unwrap_or(0)) + self.many.get(&chunk).copied().unwrap_or(0)
    }
}

impl Check<'_> {
    pub(super) fn references(&mut self) -> Result<()> {
        self.counts_of_nothing()?;
        let end = self.fs.with_view(|view| Ok(head::get(view.conn)?.next_chunk))?;
        let mut suspects = HashSet::new();
        for first in (0..end).step_by(WINDOW as usize) {
            let window = (first, end.min(first + WINDOW));
            let counts = self.count(window)?;
            self.compare(window, &counts, &mut suspects)?;
        }
        for _ in 0..TRIES {
            if suspects.is_empty() {
                return Ok(());
            }
            // `None` if a merge disturbed the count: it is tried again.
            if let Some(wrong) = recount(self.fs, &suspects)? {
                for what in wrong {
                    self.report.add("references", what);
                }
                return Ok(());
            }
        }
        tracing::warn!(
            chunks = suspects.len(),
            "references were not counted, because rows were being merged"
        );
        Ok(())
    }

    /// Reports counts that belong to no chunk.
    fn counts_of_nothing(&mut self) -> Result<()> {
        self.walk(0, |view, report, from: u64| {
            let sql = "SELECT chunk, id IS NULL FROM chunk_refs LEFT JOIN chunk ON id = chunk
                 WHERE chunk > ?1 ORDER BY chunk LIMIT ?2";
            let rows: Vec<(u64, bool)> =
                all(view.conn, sql, params![from, ROWS], |row| Ok((row.get(0)?, row.get(1)?)))?;
            for (chunk, _) in rows.iter().filter(|(_, missing)| *missing) {
                let what = format!("references are counted for chunk {chunk}, which does not exist");
                report.add("references", what);
            }
            Ok(rows.last().map(|(chunk, _)| *chunk))
        })
    }

    fn count(&mut self, (first, end): (u64, u64)) -> Result<Counts> {
        let mut counts = Counts::new(first, end);
        each_node(self.fs, u64::MAX, |_, chunk| counts.add(chunk))?;
        self.fs.with_view(|view| each_staged(view.conn, |chunk| counts.add(chunk)))?;
        Ok(counts)
    }

    /// Adds the chunks whose stored count differs.
    fn compare(
        &mut self,
        (first, end): (u64, u64),
        counts: &Counts,
        suspects: &mut HashSet<u64>,
    ) -> Result<()> {
        self.walk(first, |view, _, from: u64| {
            let sql = "SELECT id, coalesce(count, 1) FROM chunk LEFT JOIN chunk_refs ON chunk = id
                 WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3";
            let rows: Vec<(u64, u64)> =
                all(view.conn, sql, params![from, end, ROWS], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let wrong = rows.iter().filter(|(id, count)| counts.get(*id) != *count).map(|(id, _)| *id);
            // Bounded, because the second count holds the references by node in memory.
            suspects.extend(wrong.take(SUSPECTS.saturating_sub(suspects.len())));
            Ok(rows.last().map(|(id, _)| *id + 1))
        })
    }
}

/// Counts the references to these chunks in one state. Returns `None` if extents were merged or collected
/// meanwhile.
fn recount(fs: &SqliteFs, suspects: &HashSet<u64>) -> Result<Option<Vec<String>>> {
    let (seq, next_ino, epoch) = fs.with_view(|view| {
        let head = head::get(view.conn)?;
        Ok((head.seq, head.next_ino, head::epoch(view.conn)?))
    })?;
    // References by node.
    let mut nodes: HashMap<u64, HashMap<u64, u64>> = HashMap::new();
    each_node(fs, next_ino, |ino, chunk| {
        if suspects.contains(&chunk) {
            *nodes.entry(ino).or_default().entry(chunk).or_default() += 1;
        }
    })?;
    fs.with_view(|view| {
        let conn = view.conn;
        // Merges and collections are not in the log, so the nodes that they changed are unknown.
        if head::epoch(conn)? != epoch {
            return Ok(None);
        }
        // New nodes, and nodes that the log names, have changed after `each_node` may have counted them.
        let mut changed: BTreeSet<u64> =
            all(conn, "SELECT DISTINCT ino FROM extent WHERE ino >= ?1", [next_ino], |row| row.get(0))?
                .into_iter()
                .collect();
        let sql =
            "SELECT changes FROM log WHERE seq > ?1 UNION ALL SELECT changes FROM log_more WHERE seq > ?1";
        for json in all(conn, sql, [seq], |row| row.get::<_, String>(0))? {
            changed.extend(changes_column::from_json(&json)?.0.into_iter().map(|change| change.ino));
        }
        for ino in changed {
            let now = nodes.entry(ino).or_default();
            now.clear();
            each_extent(conn, ino, |chunk| {
                if suspects.contains(&chunk) {
                    *now.entry(chunk).or_default() += 1;
                }
            })?;
        }
        let mut counts: HashMap<u64, u64> = HashMap::new();
        for (chunk, count) in nodes.values().flatten() {
            *counts.entry(*chunk).or_default() += count;
        }
        each_staged(conn, |chunk| *counts.entry(chunk).or_default() += 1)?;
        let mut wrong = Vec::new();
        for chunk in suspects {
            let sql = "SELECT coalesce(count, 1) FROM chunk LEFT JOIN chunk_refs ON chunk = id WHERE id = ?1";
            let (has, counted) =
                (counts.get(chunk).copied().unwrap_or(0), one(conn, sql, [chunk], |row| row.get(0))?);
            if counted.is_some_and(|counted: u64| counted != has) {
                let counted = counted.unwrap_or(0);
                wrong.push(format!("chunk {chunk} has reference count {counted}, but {has} references"));
            }
        }
        wrong.sort();
        Ok(Some(wrong))
    })
}

/// Passes the chunk of each extent of the nodes below `end` to `take`, each node in one transaction.
fn each_node(fs: &SqliteFs, end: u64, mut take: impl FnMut(u64, u64)) -> Result<()> {
    let mut next = Some(0);
    while let Some(from) = next {
        next = fs.with_view(|view| {
            let (mut from, mut extents) = (from, 0);
            let sql = "SELECT ino FROM extent WHERE ino > ?1 AND ino < ?2 ORDER BY ino LIMIT 1";
            while let Some(ino) = one(view.conn, sql, [from, end.min(MAX)], |row| row.get(0))? {
                each_extent(view.conn, ino, |chunk| {
                    extents += 1;
                    take(ino, chunk);
                })?;
                from = ino;
                if extents >= EXTENTS {
                    return Ok(Some(from));
                }
            }
            Ok(None)
        })?;
    }
    Ok(())
}

fn each_extent(conn: &Connection, ino: u64, mut take: impl FnMut(u64)) -> DbResult<()> {
    let mut statement = conn.prepare_cached("SELECT chunk FROM extent WHERE ino = ?1")?;
    let mut rows = statement.query([ino])?;
    while let Some(row) = rows.next()? {
        take(row.get(0)?);
    }
    Ok(())
}

fn each_staged(conn: &Connection, mut take: impl FnMut(u64)) -> DbResult<()> {
    for body in staged::contents(conn)? {
        body.0.into_iter().for_each(|(chunk, _)| take(chunk));
    }
    Ok(())
}
