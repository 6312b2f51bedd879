//! The `answer` column of the `log` table: the outcome of each operation of a commit, for retries and for
//! `committed`. It is a JSON array with one array for each operation.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{Ino, Outcome, Seq, VersionId};

/// Outcome of an operation as stored.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Row {
    /// Inode, created, changed, commit of its version, size.
    Full(u64, bool, bool, u64, u64),
    /// Older records: without the size, and without the commit and `changed`.
    Unsized(u64, bool, bool, u64),
    Brief(u64, bool),
}

impl Row {
    fn new(outcome: &Outcome) -> Self {
        Self::Full(outcome.ino.0, outcome.created, outcome.changed, outcome.version.seq.0, outcome.size)
    }

    fn outcome<E>(
        &self,
        commit: u64,
        size_of: impl FnOnce(u64, u64) -> Result<u64, E>,
    ) -> Result<Outcome, E> {
        let (ino, created, changed, seq, size) = match *self {
            Self::Full(ino, created, changed, seq, size) => (ino, created, changed, seq, Some(size)),
            Self::Unsized(ino, created, changed, seq) => (ino, created, changed, seq, None),
            // The oldest records do not contain it: a change in this commit is assumed.
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

/// Returns the text of the column.
///
/// # Errors
/// `Io` if it cannot be written as JSON: a retry of the commit could not be answered.
pub fn to_json(outcomes: &[Outcome]) -> Result<String> {
    let rows: Vec<Row> = outcomes.iter().map(Row::new).collect();
    serde_json::to_string(&rows)
        .map_err(|e| Error::new(ErrorKind::Io, "the answer of a commit cannot be recorded").with_source(e))
}

/// Parses the column of commit `seq`. `size_of` returns the size of a node after a commit, for records that
/// lack it.
///
/// # Errors
/// `Corrupt` for text that garth does not write; errors of `size_of`.
pub fn from_json<E: From<Error>>(
    json: &str,
    seq: u64,
    size_of: impl Fn(u64, u64) -> Result<u64, E>,
) -> Result<Vec<Outcome>, E> {
    let rows: Vec<Row> = serde_json::from_str(json)
        .map_err(|e| Error::new(ErrorKind::Corrupt, "the answer of a commit is damaged").with_source(e))?;
    rows.iter().map(|row| row.outcome(seq, &size_of)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(seq: u64, ino: u64) -> VersionId {
        VersionId { seq: Seq(seq), ino: Ino(ino) }
    }

    #[test]
    fn outcomes_round_trip() {
        let outcomes = vec![
            Outcome::created(version(9, 2), 1),
            Outcome::changed(version(9, 3), 0),
            Outcome::unchanged(version(4, 5), 7),
        ];
        let json = to_json(&outcomes).unwrap();
        let whole = |_, _| -> Result<u64> { panic!("the record has the size") };
        assert_eq!(from_json(&json, 9, whole).unwrap(), outcomes);
    }

    #[test]
    fn reads_outcomes_of_older_forms() {
        let size_of = |ino, seq| -> Result<u64> { Ok(100 * ino + seq) };
        let outcomes = from_json("[[2,true],[3,false]]", 9, size_of).unwrap();
        assert_eq!(outcomes, [Outcome::created(version(9, 2), 209), Outcome::changed(version(9, 3), 309)]);
        let outcomes = from_json("[[2,false,false,4]]", 9, size_of).unwrap();
        assert_eq!(outcomes, [Outcome::unchanged(version(4, 2), 204)]);
    }
}
