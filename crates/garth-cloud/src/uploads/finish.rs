//! The end of an upload: its chunks get numbers, or refer to equal ones that are stored.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use garth_engine::engine::planner::{SHORT_SUM, Staged};
use garth_engine::engine::relational::room::full;
use garth_engine::engine::relational::uploads::collected;
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::arriving::{Arriving, LEASE_NANOS, NUMBER_CHUNKS, NewChunk};
use crate::client::param;
use crate::holds::Holds;
use crate::rows::references;
use crate::transaction::{Answers, Statements};
use crate::values::columns::{column, int, number};
use crate::values::labels;
use crate::values::parameters::{ints, list, signed};

const ALIVE: &str = "SELECT FROM garth.staged
    WHERE account = $1 AND id = $2::text::uuid AND pieces IS NULL AND lease > garth.now()";
const COUNT: &str = "SELECT count(*) FROM garth.chunk WHERE account = $1 AND id >= $2 AND id < $3";
/// Chunks by their hash. The condition on the length is that of the index.
const STORED: &str =
    "SELECT sum, id FROM garth.chunk WHERE account = $1 AND sum = ANY($2) AND octet_length(sum) = 32";
const HEAD: &str = "UPDATE garth.head SET next_chunk = $2, stored = stored + $3 WHERE account = $1";
/// Chunks that equal others.
const NOT_NEEDED: &str = "DELETE FROM garth.chunk WHERE account = $1 AND id >= $2 AND id < $3";
const FINISH: &str =
    "UPDATE garth.staged SET pieces = $3, length = $4, lease = garth.now() + $5, first = NULL,
    holder = NULL WHERE account = $1 AND id = $2::text::uuid AND pieces IS NULL";
const IS_FINISHED: &str =
    "SELECT FROM garth.staged WHERE account = $1 AND id = $2::text::uuid AND pieces IS NOT NULL";

/// Chunk of an upload that has arrived.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    pub(super) sum: Vec<u8>,
    pub(super) len: u64,
}

/// Upload to be finished.
#[derive(Debug)]
pub(super) struct Finishing {
    pub(super) arriving: Arriving,
    /// Owner, if the row of the upload was not written yet.
    pub(super) owner: Option<String>,
    pub(super) chunks: Vec<Arrived>,
    /// Last chunk, which is among `chunks` and was not written yet.
    pub(super) rest: Option<NewChunk>,
    pub(super) size: u64,
}

/// Places of the first statements in their answers.
struct Places {
    rest: Option<usize>,
    lock: usize,
    alive: usize,
    count: usize,
    stored: usize,
    room: usize,
}

/// Row changes that finish an upload.
#[derive(Debug, Default)]
struct Numbered {
    pieces: Vec<(u64, u64)>,
    /// Chunks that get numbers: the one with which each arrived, the new one, and its complete hash.
    new: Vec<(i64, u64, Vec<u8>)>,
    /// References to chunks.
    refs: BTreeMap<u64, i64>,
    /// Bytes of the new chunks.
    stored: u64,
    next_chunk: u64,
}

/// Failure of the end of an upload.
pub(super) struct Unfinished {
    pub(super) error: Error,
    /// True if the upload may be finished all the same.
    pub(super) is_unknown: bool,
}

impl From<Error> for Unfinished {
    fn from(error: Error) -> Self {
        Self { error, is_unknown: false }
    }
}

impl Finishing {
    /// Finishes the upload. `fits` judges the room of the account for its last chunk.
    pub(super) async fn run(
        self,
        holds: &Arc<Holds>,
        fits: impl FnOnce(u64) -> bool + Send,
    ) -> Result<(), Unfinished> {
        let conn = holds.pool().connection().await?;
        let begun = self.begin(holds, holds.statements(&conn), fits).await;
        let numbered = match begun {
            Ok(numbered) => numbered,
            Err(error) => {
                return Err(conn.settle::<()>(Err(error)).await.err().unwrap_or_else(collected).into());
            }
        };
        let written = self.write(holds.statements(&conn), numbered).await;
        let Err(error) = conn.settle(written).await else { return Ok(()) };
        if !error.is(ErrorKind::Unavailable) {
            return Err(error.into());
        }
        // The connection was lost at the end of the transaction, which may have been committed.
        match self.is_finished(holds).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(error.into()),
            Err(_) => Err(Unfinished { error, is_unknown: true }),
        }
    }

    /// Writes what is left, locks the account, and numbers the chunks.
    async fn begin(
        &self,
        holds: &Holds,
        mut statements: Statements<'_>,
        fits: impl FnOnce(u64) -> bool + Send,
    ) -> Result<Numbered> {
        if let Some(owner) = &self.owner {
            self.arriving.begin(&mut statements, holds, Some(owner));
        }
        let rest = self.rest.as_ref().map(std::slice::from_ref);
        let rest_place = rest.map(|rest| self.arriving.write(&mut statements, rest, self.size));
        statements.begin();
        let places = Places {
            rest: rest_place,
            lock: statements.lock(),
            alive: statements.query(ALIVE, vec![param(labels::uuid(self.arriving.id), Type::TEXT)]),
            count: statements.query(COUNT, self.numbers()),
            stored: statements.query(STORED, vec![list(self.hashes(), Type::BYTEA_ARRAY)]),
            room: Arriving::room(&mut statements, holds),
        };
        let answers = statements.run().await?;
        let next_chunk = number(answers.locked(places.lock)?, 0)?;
        self.check(&answers, &places)?;
        if rest.is_some()
            && let Some(room) = Arriving::room_of(answers.first(places.room))?
            && !fits(room)
        {
            return Err(full());
        }
        self.number(next_chunk, answers.rows(places.stored))
    }

    /// Fails if the upload, or a chunk of it, is not there any more.
    fn check(&self, answers: &Answers, places: &Places) -> Result<()> {
        if let (Some(place), Some(rest)) = (places.rest, &self.rest) {
            Arriving::written(answers.rows(place), std::slice::from_ref(rest))?;
        }
        let count = answers.first(places.count).map(|row| number(row, 0)).transpose()?;
        // After a crash of the database, chunks that were not synced may be missing.
        let is_there = answers.first(places.alive).is_some() && count == Some(self.chunks.len() as u64);
        if is_there { Ok(()) } else { Err(collected()) }
    }

    fn number(&self, next_chunk: u64, stored: &[Row]) -> Result<Numbered> {
        let mut known: HashMap<Vec<u8>, u64> = HashMap::new();
        for row in stored {
            known.insert(column(row, 0)?, number(row, 1)?);
        }
        let mut numbered = Numbered { next_chunk, ..Numbered::default() };
        for (place, chunk) in (0..).zip(&self.chunks) {
            let is_shared = chunk.sum.len() > SHORT_SUM;
            let equal = known.get(&chunk.sum).filter(|_| is_shared).copied();
            let id = equal.unwrap_or(numbered.next_chunk);
            if equal.is_some() {
                *numbered.refs.entry(id).or_default() += 1;
            } else {
                numbered.next_chunk += 1;
                numbered.stored = numbered.stored.saturating_add(chunk.len);
                numbered.new.push((self.arriving.number(place), id, chunk.sum.clone()));
                known.insert(chunk.sum.clone(), id);
            }
            numbered.pieces.push((id, chunk.len));
        }
        Ok(numbered)
    }

    async fn write(&self, mut statements: Statements<'_>, numbered: Numbered) -> Result<()> {
        let Numbered { pieces, new, refs, stored, next_chunk } = numbered;
        let unwritable = |e| Error::new(ErrorKind::Io, "the upload cannot be recorded").with_source(e);
        let json = serde_json::to_string(&Staged(pieces)).map_err(unwritable)?;
        statements.query(HEAD, vec![param(int(next_chunk), Type::INT8), param(int(stored), Type::INT8)]);
        if !new.is_empty() {
            let params = vec![
                signed(new.iter().map(|(arrived, ..)| *arrived)),
                ints(new.iter().map(|(_, id, _)| *id)),
                list(new.iter().map(|(.., sum)| sum.clone()), Type::BYTEA_ARRAY),
            ];
            statements.query(NUMBER_CHUNKS, params);
        }
        if new.len() < self.chunks.len() {
            statements.query(NOT_NEEDED, self.numbers());
        }
        for (sql, params) in references::change(&refs) {
            statements.query(sql, params);
        }
        let params = vec![
            param(labels::uuid(self.arriving.id), Type::TEXT),
            param(json, Type::TEXT),
            param(int(self.size), Type::INT8),
            param(LEASE_NANOS, Type::INT8),
        ];
        statements.query(FINISH, params);
        statements.commit();
        statements.run().await.map(drop)
    }

    /// Returns true if the upload is finished, after a transaction that may be under way.
    async fn is_finished(&self, holds: &Holds) -> Result<bool> {
        let conn = holds.pool().connection().await?;
        let mut statements = holds.statements(&conn);
        statements.begin();
        statements.lock();
        let id = param(labels::uuid(self.arriving.id), Type::TEXT);
        let finished = statements.query(IS_FINISHED, vec![id]);
        statements.commit();
        let answers = statements.run().await;
        Ok(conn.settle(answers).await?.first(finished).is_some())
    }

    /// Returns the range of the numbers with which the chunks arrived.
    fn numbers(&self) -> Vec<crate::client::Param> {
        let last = i64::try_from(self.chunks.len()).unwrap_or(i64::MAX);
        [0, last].into_iter().map(|place| param(self.arriving.number(place), Type::INT8)).collect()
    }

    /// Returns the complete hashes.
    fn hashes(&self) -> impl Iterator<Item = Vec<u8>> {
        self.chunks.iter().map(|chunk| chunk.sum.clone()).filter(|sum| sum.len() > SHORT_SUM)
    }
}
