//! The planner's reads inside the writer's transaction: it sees the earlier members of its group.

use bytes::Bytes;
use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};

use super::row_cache::RowCache;
use super::staged;
use crate::engine::planner::{ExtentRow, IdempotencyRow, NameRow, NodeRow, Rows, Staged};
use crate::engine::sqlite::read::content::Packs;
use crate::engine::sqlite::read::rows::{self, MAX};
use crate::engine::sqlite::schema::SUBJECT;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Attributes, Commit, CommitId, Ino, Outcome, Seq, Timestamp, VersionId};
use crate::sqlite::{DbResult, one};

/// The state inside the writer's transaction.
pub(crate) struct TxnRows<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) packs: &'a Packs,
    pub(crate) row_cache: &'a RowCache,
}

/// The answer of an idempotent commit, as JSON: sequence, time, outcomes.
type Answer = (u64, i64, Vec<StoredOutcome>);

/// An outcome as a JSON array.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredOutcome {
    /// Node, whether it was created, whether it was changed, the commit of its version, its size.
    Full(u64, bool, bool, u64, u64),
    /// Without the size, and without what comes before it: the shapes of older records, which stay valid
    /// until they expire.
    Unsized(u64, bool, bool, u64),
    Brief(u64, bool),
}

impl StoredOutcome {
    fn new(outcome: &Outcome) -> Self {
        Self::Full(outcome.ino.0, outcome.created, outcome.changed, outcome.version.seq.0, outcome.size)
    }

    /// `size_of` looks up the size of a node after a commit, for a record that lacks it.
    fn outcome(&self, commit: u64, size_of: impl FnOnce(u64, u64) -> Result<u64>) -> Result<Outcome> {
        let (ino, created, changed, seq, size) = match *self {
            Self::Full(ino, created, changed, seq, size) => (ino, created, changed, seq, Some(size)),
            Self::Unsized(ino, created, changed, seq) => (ino, created, changed, seq, None),
            Self::Brief(ino, created) => (ino, created, true, commit, None),
        };
        let size = size.map_or_else(|| size_of(ino, seq), Ok)?;
        let version = VersionId { seq: Seq(seq), ino: Ino(ino) };
        Ok(match (created, changed) {
            (true, _) => Outcome::created(version, size),
            (false, true) => Outcome::changed(version, size),
            (false, false) => Outcome::unchanged(version, size),
        })
    }
}

/// The stored form of a commit's answer.
pub(crate) fn answer_json(commit: &Commit) -> String {
    let outcomes: Vec<_> = commit.outcomes.iter().map(StoredOutcome::new).collect();
    serde_json::json!([commit.seq, commit.time, outcomes]).to_string()
}

/// The answer in its stored form, to be given again.
fn answer_from(json: &str, size_of: impl Fn(u64, u64) -> Result<u64>) -> Result<Commit> {
    let (seq, time, outcomes): Answer = serde_json::from_str(json)
        .map_err(|e| Error::new(ErrorKind::Corrupt, "an idempotency record is damaged").with_source(e))?;
    let outcomes = outcomes.iter().map(|stored| stored.outcome(seq, &size_of)).collect::<Result<_>>()?;
    Ok(Commit { seq: Seq(seq), time: Timestamp(time), outcomes, replayed: true, durable: false })
}

/// The planner knows nothing of SQLite: its failures become errors of the tree here.
fn described<T>(outcome: DbResult<T>) -> Result<T> {
    outcome.map_err(|error| error.describe(&SUBJECT))
}

impl Rows for TxnRows<'_> {
    fn name(&self, dir: &str, name: &str) -> Result<Option<NameRow>> {
        described(self.row_cache.name(dir, name, || rows::name(self.conn, dir, name)))
    }

    fn names_in(&self, dir: &str, limit: usize) -> Result<Vec<(String, NameRow)>> {
        described(rows::names_in(self.conn, dir, limit))
    }

    fn names_below(&self, dir: &str) -> Result<Vec<(String, String, NameRow)>> {
        described(rows::names_below(self.conn, dir))
    }

    fn names_of(&self, ino: u64) -> Result<Vec<(String, String)>> {
        described(rows::names_of(self.conn, ino))
    }

    fn node(&self, ino: u64) -> Result<Option<NodeRow>> {
        described(self.row_cache.node(ino, || rows::node(self.conn, ino.min(MAX), MAX)))
    }

    fn attributes(&self, ino: u64, seq: u64) -> Result<Attributes> {
        described(self.row_cache.attributes(ino, seq, || rows::attributes(self.conn, ino, seq)))
    }

    fn extents(&self, ino: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>> {
        described(rows::extents(self.conn, ino, from, to))
    }

    fn chunk_by_hash(&self, hash: &[u8]) -> Result<Option<u64>> {
        described(rows::chunk_by_hash(self.conn, hash))
    }

    fn chunk(&self, id: u64) -> Result<Bytes> {
        described(self.packs.chunk(self.conn, id))
    }

    fn staged(&self, id: u128) -> Result<Option<Staged>> {
        described(staged::content(self.conn, id))
    }

    fn has_commit(&self, id: CommitId) -> Result<bool> {
        let sql = "SELECT 1 FROM log WHERE id = ?1";
        Ok(described(one(self.conn, sql, [id.0.to_be_bytes()], |_| Ok(())))?.is_some())
    }

    fn has_snapshot(&self, name: &str) -> Result<bool> {
        Ok(described(one(self.conn, "SELECT 1 FROM snapshot WHERE name = ?1", [name], |_| Ok(())))?.is_some())
    }

    fn idempotency(&self, key: &str) -> Result<Option<IdempotencyRow>> {
        let sql = "SELECT hash, keep_until, answer FROM idempotency WHERE key = ?1";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let row: Option<([u8; 32], i64, String)> = described(one(self.conn, sql, [key], read))?;
        let size_of = |ino, seq| Ok(self.node_at_seq(ino, seq)?.map_or(0, |node| node.size));
        let build = |(request_hash, keep_until, answer): (_, _, String)| {
            Ok(IdempotencyRow { request_hash, keep_until, commit: answer_from(&answer, size_of)? })
        };
        row.map(build).transpose()
    }

    fn time_of(&self, seq: u64) -> Result<Timestamp> {
        described(rows::time_of(self.conn, seq))
    }

    fn name_at(&self, dir: &str, name: &str, seq: u64) -> Result<Option<NameRow>> {
        described(rows::name_at(self.conn, dir, name, seq))
    }

    fn names_below_at(&self, dir: &str, seq: u64) -> Result<Vec<(String, String, NameRow)>> {
        described(rows::names_below_at(self.conn, dir, seq))
    }

    fn names_of_at(&self, ino: u64, seq: u64) -> Result<Vec<(String, String)>> {
        described(rows::names_of_at(self.conn, ino.min(MAX), seq))
    }

    fn node_at_seq(&self, ino: u64, seq: u64) -> Result<Option<NodeRow>> {
        described(rows::node(self.conn, ino.min(MAX), seq))
    }

    fn extents_at(&self, ino: u64, seq: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>> {
        described(rows::extents_at(self.conn, ino, seq, from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_an_idempotent_commit_is_kept_whole() {
        let version = |seq, ino| VersionId { seq: Seq(seq), ino: Ino(ino) };
        let outcomes = vec![
            Outcome::created(version(9, 2), 1),
            Outcome::changed(version(9, 3), 0),
            Outcome::unchanged(version(4, 5), 7),
        ];
        let commit = Commit { seq: Seq(9), time: Timestamp(17), outcomes, replayed: true, durable: false };
        let whole = |_, _| -> Result<u64> { panic!("the record has the size") };
        assert_eq!(answer_from(&answer_json(&commit), whole).expect("what was written is read"), commit);
    }

    #[test]
    fn an_answer_of_a_form_without_versions_or_sizes_is_read() {
        let size_of = |ino, seq| Ok(100 * ino + seq);
        let version = |seq, ino| VersionId { seq: Seq(seq), ino: Ino(ino) };
        let commit = answer_from("[9,17,[[2,true],[3,false]]]", size_of).expect("the first form");
        let expected = [Outcome::created(version(9, 2), 209), Outcome::changed(version(9, 3), 309)];
        assert_eq!(commit.outcomes, expected);
        let commit = answer_from("[9,17,[[2,false,false,4]]]", size_of).expect("the second form");
        assert_eq!(commit.outcomes, [Outcome::unchanged(version(4, 2), 204)]);
    }
}
