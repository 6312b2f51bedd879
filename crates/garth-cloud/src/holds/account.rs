//! Nodes and states of an account that this process holds open, and their leases in the database.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use garth_engine::Result;
use garth_engine::engine::planner::NodeRow;
use garth_engine::engine::relational::open_nodes::OpenNodes;
use garth_engine::engine::relational::open_pasts::OpenPasts;
use garth_engine::engine::relational::upload_counts::UploadCounts;
use garth_engine::{Env, Error};
use tokio_postgres::types::Type;

use super::server::{Server, UploadMeters};
use crate::client::{Param, Pipe, Pool, PooledConnection, param};
use crate::transaction::{Answers, Statements};
use crate::values::columns::{column, number};
use crate::values::parameters::ints;

/// Nodes among `$2` that collections look at, and true if one has marked the node.
const UNNAMED: &str =
    "SELECT ino, doomed_at IS NOT NULL FROM garth.unnamed WHERE account = $1 AND ino = ANY($2)";
/// Nodes among `$2` that have no name, or were removed.
const NAMELESS: &str = "SELECT k.ino FROM unnest($2::bigint[]) k(ino)
    LEFT JOIN LATERAL (SELECT nlink FROM garth.node
        WHERE account = $1 AND ino = k.ino ORDER BY seq DESC LIMIT 1) v ON true
    WHERE coalesce(v.nlink, 0) = 0";
// Of an account that was deleted, nothing is held: its rows may have been removed already.
const PAST_LEASES: &str = "INSERT INTO garth.past_lease (account, seq, holder)
    SELECT h.account, k.seq, $3 FROM garth.head h CROSS JOIN unnest($2::bigint[]) k(seq) WHERE h.account = $1
    ON CONFLICT DO NOTHING";
const NO_PAST_LEASES: &str =
    "DELETE FROM garth.past_lease WHERE account = $1 AND seq = ANY($2) AND holder = $3";
/// Leases on nodes that collections look at. Others are found by their names.
const LEASES: &str = "INSERT INTO garth.lease (account, ino, holder)
    SELECT u.account, u.ino, $3 FROM garth.unnamed u WHERE u.account = $1 AND u.ino = ANY($2)
    ON CONFLICT DO NOTHING";
// So that a node whose lease runs out gets the full grace period again.
const NOT_DOOMED: &str = "UPDATE garth.unnamed SET doomed_at = NULL
    WHERE account = $1 AND ino = ANY($2) AND doomed_at IS NOT NULL";
const NO_LEASES: &str = "DELETE FROM garth.lease WHERE account = $1 AND ino = ANY($2) AND holder = $3";
// Leases of servers that have vanished.
const ENDED_LEASES: &str = "DELETE FROM garth.lease l WHERE l.account = $1
    AND NOT EXISTS (SELECT FROM garth.instance i WHERE i.holder = l.holder AND i.until > garth.now())";
const ENDED_PAST_LEASES: &str = "DELETE FROM garth.past_lease l WHERE l.account = $1
    AND NOT EXISTS (SELECT FROM garth.instance i WHERE i.holder = l.holder AND i.until > garth.now())";

/// Nodes, states of the past and uploads that this process holds open of an account.
pub(crate) struct Holds {
    server: Arc<Server>,
    account: i64,
    pub(crate) open: Arc<OpenNodes>,
    pub(crate) pasts: Arc<OpenPasts>,
    pub(crate) uploads: UploadCounts,
    /// True if uploads may be left to collect.
    has_uploads: AtomicBool,
    /// Closed nodes whose leases could not be given up.
    unreleased: Mutex<BTreeSet<u64>>,
    /// True from the end of all leases until it is known which nodes are lost.
    has_lapsed: AtomicBool,
}

impl fmt::Debug for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holds").field("account", &self.account).finish_non_exhaustive()
    }
}

impl Holds {
    pub(super) fn new(server: Arc<Server>, account: i64) -> Self {
        let holder = *server.holder();
        Self {
            server,
            account,
            open: Arc::new(OpenNodes::new(holder)),
            pasts: Arc::new(OpenPasts::new(holder)),
            uploads: UploadCounts::default(),
            has_uploads: AtomicBool::new(false),
            unreleased: Mutex::default(),
            has_lapsed: AtomicBool::new(false),
        }
    }

    pub(crate) fn account(&self) -> i64 {
        self.account
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.server.pool
    }

    pub(crate) fn env(&self) -> &Env {
        &self.server.env
    }

    pub(crate) fn meters(&self) -> &UploadMeters {
        &self.server.meters
    }

    /// Returns the id of this server as a parameter.
    pub(crate) fn holder(&self) -> Param {
        param(self.server.holder().to_vec(), Type::BYTEA)
    }

    /// Returns true if uploads may be left to collect, once after [`set_uploads`](Self::set_uploads).
    pub(crate) fn take_uploads(&self) -> bool {
        self.has_uploads.swap(false, Ordering::Relaxed)
    }

    /// Notes that uploads may be left to collect, if `are_left` is true.
    pub(crate) fn set_uploads(&self, are_left: bool) {
        self.has_uploads.fetch_or(are_left, Ordering::Relaxed);
    }

    /// Returns no statements yet, of this account.
    pub(crate) fn statements<'c>(&self, conn: &'c PooledConnection) -> Statements<'c> {
        Statements::new(Pipe::new(conn), self.account)
    }

    /// Fails if an open node has no name and may have been removed, because a lease of this server has ended.
    ///
    /// # Errors
    /// `Gone` for a node that was open when the leases had ended; `Unavailable` as long as they may have.
    pub(crate) fn check_node(&self, node: &NodeRow) -> Result<()> {
        if node.nlink > 0 { Ok(()) } else { self.check_nameless(node.ino) }
    }

    /// Fails for an open node without a name, as [`check_node`](Self::check_node) does.
    ///
    /// # Errors
    /// As [`check_node`](Self::check_node).
    pub(crate) fn check_nameless(&self, ino: u64) -> Result<()> {
        if self.open.is_lost(ino) || self.has_lapsed.load(Ordering::Acquire) {
            return Err(Error::unnamed_gone());
        }
        self.server.check()
    }

    /// Fails as long as the leases on states of the past may have ended. After that, each read compares its
    /// state with what was removed.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(crate) fn check_past(&self) -> Result<()> {
        self.server.check()
    }

    /// Gives up the lease on a node that was closed, later.
    pub(crate) fn release(self: &Arc<Self>, ino: u64) {
        let holds = Arc::clone(self);
        self.pool().run_later(async move {
            if let Err(error) = holds.end_leases(&[ino]).await {
                tracing::debug!(%error, "a lease could not be given up; the next tick tries again");
                holds.unreleased().insert(ino);
            }
        });
    }

    /// Notes that the leases of this server had ended.
    pub(super) fn lapse(&self) {
        self.has_lapsed.store(true, Ordering::Release);
    }

    /// Takes leases on the states that are open and on marked nodes, and removes those that are not needed.
    pub(super) async fn renew(&self) -> Result<()> {
        let has_lapsed = self.has_lapsed.load(Ordering::Acquire);
        if has_lapsed || self.open.any() || self.pasts.any() {
            self.renew_open(has_lapsed).await?;
        }
        let unreleased: Vec<u64> = std::mem::take(&mut *self.unreleased()).into_iter().collect();
        if unreleased.is_empty() {
            return Ok(());
        }
        let ended = self.end_leases(&unreleased).await;
        if ended.is_err() {
            self.unreleased().extend(unreleased);
        }
        ended
    }

    async fn renew_open(&self, has_lapsed: bool) -> Result<()> {
        let (open, changes) = (self.open.inos(), self.pasts.note_leases());
        let answers = self.locked(|statements| {
            statements.query(ENDED_LEASES, Vec::new());
            statements.query(ENDED_PAST_LEASES, Vec::new());
            let seqs = |seqs: &[u64]| vec![ints(seqs.iter().copied()), self.holder()];
            statements.query(PAST_LEASES, seqs(&changes.held));
            statements.query(NO_PAST_LEASES, seqs(&changes.ended));
            let unnamed = statements.query(UNNAMED, vec![ints(open.iter().copied())]);
            let nameless = has_lapsed.then(|| statements.query(NAMELESS, vec![ints(open.iter().copied())]));
            (unnamed, nameless)
        });
        let (answers, (unnamed, nameless)) = answers.await?;
        if let Some(nameless) = nameless {
            for row in answers.rows(nameless) {
                self.open.lose(number(row, 0)?);
            }
            self.has_lapsed.store(false, Ordering::Release);
        }
        let mut taken = Vec::new();
        for row in answers.rows(unnamed) {
            let (ino, is_marked) = (number(row, 0)?, column::<bool>(row, 1)?);
            // Not those that are lost: their content may be that of another version.
            if is_marked && !self.open.is_lost(ino) && self.open.note_lease(ino) {
                taken.push(ino);
            }
        }
        if taken.is_empty() {
            return Ok(());
        }
        self.lease(&taken).await
    }

    /// Takes leases on marked nodes.
    async fn lease(&self, taken: &[u64]) -> Result<()> {
        let inos = || ints(taken.iter().copied());
        let leased = self.locked(|statements| {
            statements.query(LEASES, vec![inos(), self.holder()]);
            statements.query(NOT_DOOMED, vec![inos()]);
            statements.query(UNNAMED, vec![inos()])
        });
        let (answers, left) = leased.await?;
        let left = answers.rows(left).iter().map(|row| number(row, 0)).collect::<Result<BTreeSet<u64>>>()?;
        let leased: BTreeSet<u64> = self.open.leased().into_iter().collect();
        for ino in taken {
            if !left.contains(ino) {
                // A collection was faster.
                self.open.lose(*ino);
            } else if !leased.contains(ino) {
                // Closed before the lease was written: the end of the lease may have come too early.
                self.unreleased().insert(*ino);
            }
        }
        Ok(())
    }

    /// Removes leases on nodes that are closed.
    async fn end_leases(&self, inos: &[u64]) -> Result<()> {
        let conn = self.pool().connection().await?;
        let ended = async {
            let mut statements = self.statements(&conn);
            statements.begin();
            statements.lock();
            statements.run().await?;
            // Behind the lock: the leases of a commit that noted them before are written by now, and those of
            // nodes that were opened and written again since are noted.
            let leased: BTreeSet<u64> = self.open.leased().into_iter().collect();
            let closed = inos.iter().copied().filter(|ino| !leased.contains(ino));
            let mut statements = self.statements(&conn);
            statements.query(NO_LEASES, vec![ints(closed), self.holder()]);
            statements.commit();
            statements.run().await
        };
        let ended = ended.await;
        conn.settle(ended).await.map(drop)
    }

    /// Runs statements in a transaction that locks the account.
    async fn locked<T>(&self, add: impl FnOnce(&mut Statements<'_>) -> T) -> Result<(Answers, T)> {
        let conn = self.pool().connection().await?;
        let mut statements = self.statements(&conn);
        statements.begin();
        statements.lock();
        let places = add(&mut statements);
        statements.commit();
        let answers = statements.run().await;
        Ok((conn.settle(answers).await?, places))
    }

    fn unreleased(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.unreleased.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
