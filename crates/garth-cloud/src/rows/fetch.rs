//! Rows of an account that are fetched in the rounds of the planner, in the transaction that later writes
//! them.

mod judging;
mod room;

use std::collections::{BTreeSet, HashMap};
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use garth_engine::engine::planner::{Delta, Fetch, Fetched, HeadRow, Key, RowKey, RowStore, Rows as _};
use garth_engine::engine::relational::control_rows::check_version;
use garth_engine::engine::relational::narrow::{narrowed, shown};
use garth_engine::engine::relational::reads::gate_files::GateFiles;
use garth_engine::engine::relational::reads::tree_rows::{MAX, TreeRows as _};
use garth_engine::model::{At, Batch, Op, Timestamp, VersionId};
use garth_engine::rule::{Registry, Rules};
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

pub(crate) use self::judging::JudgedFiles;
use super::committer::{Committer, Request};
use super::derived::{DerivedKeys, Projections};
use super::subtrees;
use super::target::Target;
use super::wanted::Wanted;
use super::writes::{Writer, Writes};
use crate::ahead::Ahead;
use crate::client::{Connection, Param, Pipe, begin_reads, begin_writes, param};
use crate::control::{CONTROL, Control};
use crate::reads::{FetchedRows, Round};
use crate::values::columns::{MAX_DIR, column, head, int, number};
use crate::weights::stored_bytes;

/// Limit on the time of a statement of a transaction that only reads.
const READ_TIME: Duration = Duration::from_secs(30);
/// Head row of an account.
macro_rules! head_row {
    () => {
        concat!(
            "SELECT seq, time, next_ino, next_chunk, control, projections, oldest, folded, next_passage, ",
            stored_bytes!(),
            " FROM garth.head WHERE account = $1"
        )
    };
}

/// Head row, locked, and with it the account. Later statements see what the transaction has committed that
/// this one waited for: each statement of a transaction with READ COMMITTED has a snapshot of its own.
const LOCK: &str = concat!(head_row!(), " FOR UPDATE");
/// Head row of a transaction that writes nothing.
const HEAD: &str = head_row!();
/// Place of `next_passage` in the row of [`LOCK`], and of `stored` behind it.
const NEXT_PASSAGE: usize = 8;
/// Time of the database in nanoseconds, and a random id for the transaction. A statement of its own, behind
/// the lock: in the statement that locks, the clock is read before the wait, and the time may be earlier than
/// that of the commit before.
const CLOCK: &str = "SELECT garth.now(), uuid_send(gen_random_uuid())";

/// Rows of an account, and the transaction that reads and writes them.
pub struct PgRows<'c> {
    conn: &'c Connection,
    committer: &'c Committer,
    projections: Projections,
    /// Batches that are planned, by their places in the group.
    requests: &'c [Request<'c>],
    rows: RowStore,
    /// Statements to send with the next round: changes that the rows of that round include.
    pipe: Pipe<'c>,
    /// State of the account; `None` until the transaction has begun.
    state: Option<State>,
    /// Round trips so far.
    trips: usize,
    /// Files whose extents are fetched by path.
    content: BTreeSet<Key>,
    /// Chunks that were written before the transaction.
    ahead: Option<&'c Ahead>,
    /// True if the transaction reads one state and writes nothing. It locks nothing then.
    is_snapshot: bool,
}

/// State of an account that is locked.
struct State {
    /// Head row with the changes so far, and the time.
    fetched: Fetched,
    control: Control,
    next_passage: u64,
    /// Stored bytes, with the changes so far.
    stored: u64,
    /// Random id of the transaction.
    token: Vec<u8>,
    /// Last commit before the transaction.
    settled: u64,
    /// Last commit that the transaction has written.
    written: Option<u64>,
    /// Numbers of chunks that were written before the transaction, by hash.
    ahead: HashMap<Vec<u8>, i64>,
}

/// Places of the first statements of a transaction in its answers.
struct Begun {
    lock: usize,
    clock: usize,
    control: usize,
    ahead: Option<usize>,
    /// Control data that was known.
    known: Control,
}

impl<'c> PgRows<'c> {
    /// Creates rows of which none was fetched, in a transaction that begins with the first round.
    pub(crate) fn new(conn: &'c Connection, committer: &'c Committer) -> Self {
        Self {
            conn,
            committer,
            projections: Projections::of(committer.control.registry()),
            requests: &[],
            rows: RowStore::new(committer.control.last().rules),
            pipe: Pipe::new(conn),
            state: None,
            trips: 0,
            content: BTreeSet::new(),
            ahead: None,
            is_snapshot: false,
        }
    }

    /// Sets the chunks that were written before the transaction.
    pub(crate) fn with_ahead(self, ahead: Option<&'c Ahead>) -> Self {
        Self { ahead, ..self }
    }

    /// Creates rows of one state, in a transaction that locks nothing and writes nothing.
    pub(crate) fn of_snapshot(conn: &'c Connection, committer: &'c Committer) -> Self {
        Self { is_snapshot: true, ..Self::new(conn, committer) }
    }

    /// Begins the transaction. Returns the head row and the rules in force.
    ///
    /// # Errors
    /// `NotFound` if the account was deleted; `Format` if a newer garth derives more keys for it; errors of
    /// the database.
    pub(crate) async fn begin(&mut self) -> Result<(HeadRow, Arc<Rules>)> {
        let head = self.round().await?.head;
        let rules =
            self.state.as_ref().map_or_else(|| Arc::new(Rules::none()), |s| Arc::clone(&s.control.rules));
        Ok((head, rules))
    }

    /// Returns the number of round trips so far.
    pub(crate) fn trips(&self) -> usize {
        self.trips
    }

    /// Returns the registry with the projections of keys.
    pub(crate) fn registry(&self) -> &Registry {
        self.committer.control.registry()
    }

    /// Returns the head row with all changes so far; `None` until the account is locked.
    pub(crate) fn head(&self) -> Option<HeadRow> {
        self.state.as_ref().map(|state| state.fetched.head)
    }

    /// Returns the last commit that the transaction has written, and its random id.
    pub(crate) fn written(&self) -> Option<(u64, Vec<u8>)> {
        self.state.as_ref().and_then(|state| Some((state.written?, state.token.clone())))
    }

    /// Announces the batches that are planned next. The files whose content they replace have their extents
    /// fetched together with their names.
    pub(crate) fn announce(&mut self, requests: &'c [Request<'c>]) {
        self.requests = requests;
        for op in requests.iter().flat_map(|request| &request.batch.ops) {
            if let Op::Write { at: At::Path(path), .. } = op
                && let Some((dir, name)) = path.key().rsplit_once('/')
            {
                self.content.insert((dir.to_owned(), name.to_owned()));
            }
        }
    }

    /// Returns the batch of a handle with gates without the entries that they hide, and the versions that a
    /// view shows of gated directories. They are judged on rows that are fetched in this transaction.
    ///
    /// # Errors
    /// Errors of the database. Those of the batch are in the result: `TooLarge` after `trips` trips.
    pub(crate) async fn narrowed(
        &mut self,
        request: &Request<'_>,
        trips: usize,
    ) -> Result<Result<(Batch, Vec<VersionId>)>> {
        self.rows.prefetch(vec![RowKey::Quotas]);
        self.round().await?;
        // Commits of this transaction may be rolled back.
        let settled = self.state.as_ref().map_or(0, |state| state.settled);
        let quotas = self.rows.quotas()?;
        let Committer { control, judgements, .. } = self.committer;
        let mut fetched = FetchedRows::new(control.registry().clone(), Arc::clone(judgements), MAX);
        loop {
            fetched.begin();
            let narrowed = {
                let files = GateFiles { rows: &fetched, settled };
                narrowed(&files, request.reach, &quotas, request.batch)
                    .and_then(|batch| Ok((batch, shown(&fetched, &request.reach.gates)?)))
            };
            if (&fetched).is_complete() {
                return Ok(narrowed);
            }
            if self.trips >= trips {
                let message = "judging the entries that the batch addresses takes too many steps; split it";
                return Ok(Err(Error::new(ErrorKind::TooLarge, message)));
            }
            self.read(&mut fetched).await?;
        }
    }

    /// Fetches the rows that reads of the tree have asked for, in this transaction.
    async fn read(&mut self, fetched: &mut FetchedRows) -> Result<()> {
        self.trips += 1;
        let pipe = std::mem::replace(&mut self.pipe, Pipe::new(self.conn));
        let mut round = Round::new(pipe, self.committer.account);
        fetched.send(&mut round);
        round.run(fetched).await
    }

    /// Returns true if moved directories keep paths that can be stored. Mostly the planner has asked for the
    /// lengths already.
    ///
    /// # Errors
    /// Errors of the database.
    pub(crate) async fn can_move(&mut self, delta: &Delta) -> Result<bool> {
        let parts = delta.subtrees.parts("").into_iter();
        let longer: Vec<_> = parts.filter(|(at, region)| at.len() > region.dir.len()).collect();
        for is_last in [false, true] {
            let mut can_move = true;
            for (at, region) in &longer {
                // Fails for a length that was not fetched.
                let longest = self.rows.longest_path(region).map_or(0, |(longest, _)| longest);
                // A path is longer than its directory by at least `/` and a byte. Nothing may be there.
                let dir = (longest + at.len()).saturating_sub(region.dir.len() + 2);
                can_move &= longest == 0 || dir <= MAX_DIR;
            }
            if is_last || !self.rows.missed() {
                return Ok(can_move);
            }
            self.round().await?;
        }
        Ok(false)
    }

    /// Writes the changes of a prefix of the group, with the next round or the commit. `head` is the head row
    /// after them. Batches that are planned from now on read these rows from the database.
    pub(crate) fn write(&mut self, writes: Writes, head: HeadRow) {
        let Some(state) = &mut self.state else { return };
        state.stored = state.stored.saturating_add_signed(writes.stored());
        let writer = Writer {
            account: self.committer.account,
            head,
            next_passage: state.next_passage,
            token: &state.token,
            open: &self.committer.open,
            ahead: &state.ahead,
        };
        state.next_passage = writes.send(&mut self.pipe, &writer);
        state.fetched.head = head;
        state.written = Some(head.seq);
    }

    /// Writes the subtrees that a batch has moved and removed, after the batches before it and before its
    /// other rows. `head` is the head row after it.
    pub(crate) fn write_subtrees(&mut self, delta: &Delta, head: &HeadRow) {
        let mut to = Target { pipe: &mut self.pipe, account: self.committer.account };
        subtrees::send(&mut to, delta, head);
    }

    /// Forgets all rows that were fetched, which are older than the writes of this transaction.
    pub(crate) fn forget(&mut self) {
        let rules = match &self.state {
            Some(state) => state.control.rules.clone(),
            None => self.committer.control.last().rules,
        };
        self.rows = RowStore::new(rules);
        self.content.clear();
    }

    /// Commits the transaction, with all changes that were not sent yet.
    ///
    /// # Errors
    /// The first error of a statement: then nothing is committed. `Unavailable` if the connection is lost:
    /// then the transaction may be committed.
    pub(crate) async fn commit(self) -> Result<()> {
        let mut pipe = self.pipe;
        if self.state.is_none() {
            return Ok(());
        }
        pipe.simple("COMMIT");
        pipe.run().await.map(drop)
    }

    /// Adds a statement to those of the next round or the commit. Its first parameter is the account.
    pub(crate) fn add(&mut self, sql: &'static str, params: Vec<Param>) {
        let account = param(self.committer.account, Type::INT8);
        self.pipe.query(sql, [account].into_iter().chain(params).collect());
    }

    /// Runs a statement behind all changes so far, whose first parameter is the account.
    ///
    /// # Errors
    /// The first error of a statement: then nothing is committed.
    pub(crate) async fn query(&mut self, sql: &'static str, params: Vec<Param>) -> Result<Vec<Row>> {
        let mut pipe = std::mem::replace(&mut self.pipe, Pipe::new(self.conn));
        let account = param(self.committer.account, Type::INT8);
        let place = pipe.query(sql, [account].into_iter().chain(params).collect());
        self.trips += 1;
        let mut answers = pipe.run().await?;
        Ok(if place < answers.len() { answers.swap_remove(place) } else { Vec::new() })
    }

    async fn round(&mut self) -> Result<Fetched> {
        let derived = DerivedKeys::new(self.projections.clone());
        let mut wanted = Wanted::new(self.rows.take_wanted(), take(&mut self.content), derived);
        let mut pipe = std::mem::replace(&mut self.pipe, Pipe::new(self.conn));
        let account = self.committer.account;
        let begun =
            self.state.is_none().then(|| begin(&mut pipe, self.committer, self.is_snapshot, self.ahead));
        let places = wanted.send(&mut pipe, account);
        self.trips += 1;
        let answers = pipe.run().await?;
        if let Some(begun) = begun {
            let state = self.begun(&begun, &answers)?;
            self.rows.set_rules(state.control.rules.clone());
            self.state = Some(state);
        }
        wanted.put(&mut self.rows, places, &answers)?;
        let state = self.state.as_ref().map(|state| state.fetched);
        state.ok_or_else(|| Error::new(ErrorKind::Unavailable, "no row has been fetched"))
    }

    /// Returns the state of the account, once it is locked.
    fn begun(&self, begun: &Begun, answers: &[Vec<Row>]) -> Result<State> {
        let rows = |place: usize| answers.get(place).map_or(&[][..], Vec::as_slice);
        let deleted = || Error::new(ErrorKind::NotFound, "the account does not exist, or was deleted");
        let locked = rows(begun.lock).first().ok_or_else(deleted)?;
        let head = head(locked)?;
        check_version(head.projections, self.committer.control.registry())?;
        let silent = || Error::new(ErrorKind::Unavailable, "the database did not tell the time");
        let clock = rows(begun.clock).first().ok_or_else(silent)?;
        Ok(State {
            fetched: Fetched { head, now: Timestamp(column(clock, 0)?) },
            control: self.committer.control.at(&begun.known, head.control, rows(begun.control))?,
            next_passage: number(locked, NEXT_PASSAGE)?,
            stored: number(locked, NEXT_PASSAGE + 1)?,
            token: column(clock, 1)?,
            settled: head.seq,
            written: None,
            ahead: match (self.ahead, begun.ahead) {
                (Some(ahead), Some(place)) => ahead.of_left(rows(place))?,
                _ => HashMap::new(),
            },
        })
    }
}

/// Adds the statements that begin the transaction, and lock the account if it writes.
fn begin(pipe: &mut Pipe<'_>, committer: &Committer, is_snapshot: bool, ahead: Option<&Ahead>) -> Begun {
    let account = committer.account;
    let (begin, head) = match is_snapshot {
        true => (begin_reads(account, READ_TIME), HEAD),
        false => (begin_writes(account), LOCK),
    };
    pipe.simple(begin);
    let own = || param(account, Type::INT8);
    let known = committer.control.last();
    Begun {
        lock: pipe.query(head, vec![own()]),
        clock: pipe.query(CLOCK, Vec::new()),
        control: pipe.query(CONTROL, vec![own(), param(int(known.version), Type::INT8)]),
        ahead: ahead
            .map(Ahead::left)
            .map(|(sql, params)| pipe.query(sql, [own()].into_iter().chain(params).collect())),
        known,
    }
}

impl Fetch for PgRows<'_> {
    fn rows(&self) -> &RowStore {
        &self.rows
    }

    fn fetch(&mut self) -> impl Future<Output = Result<Fetched>> + Send {
        self.round()
    }

    fn is_open(&self, batch: usize, ino: u64) -> Result<bool> {
        let reach = self.requests.get(batch).map(|request| request.reach);
        let is_open = reach.is_some_and(|reach| reach.holds(ino, &self.committer.open));
        if let Some(holds) = self.committer.holds.as_ref().filter(|_| is_open) {
            holds.check_nameless(ino)?;
        }
        Ok(is_open)
    }
}
