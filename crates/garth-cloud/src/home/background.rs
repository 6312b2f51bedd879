//! Work that a server does by itself on accounts: it indexes text that commits have left, merges the index of
//! words, collects what is due, and renews the leases of the server.
//!
//! Any number of servers do so at once: each step takes a lease of the database. No look reads all accounts.
//! A partial index has those with text to index. An account is merged and collected by the servers that have
//! it open, once it has changed enough.
//!
//! Few steps run at once, and at most one of an account, which waits behind the others after each step. So an
//! account that is slow or has much work does not hold up the others.

mod jobs;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use garth_engine::model::Timestamp;
use garth_engine::{AccountStore as _, ErrorKind, Result};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_postgres::types::Type;

use self::jobs::{Job, Jobs, Kind};
use super::shared::Shared;
use super::transaction::read;
use crate::client::param;
use crate::indexing::{accounts_to_index, index_next};
use crate::search::merge::{Step, step};
use crate::values::columns::column;

/// Most steps that run at once. Each uses a connection.
const STEPS: usize = 4;
/// Share of the connections that steps may use, as a divisor.
const SHARE: usize = 4;
/// Accounts with text to index that are known at once.
const PAGE: usize = 64;
/// Pause between two looks for text to index.
const LOOK: Duration = Duration::from_secs(1);
/// Pause between two looks at the accounts that this server has open.
const OPEN_LOOK: Duration = Duration::from_secs(10);
/// Pause between two collections of an account.
const COLLECTION: Duration = Duration::from_secs(60);
/// Open accounts that are looked at in one statement.
const NAMES: usize = 1000;
/// New and removed passages from which on a merge may have something to do.
const TO_MERGE: i64 = 128;
/// Bytes of text that a step reads at most.
const STEP_BYTES: usize = 512 << 10;

/// Number, name and head of each account in use, of the trees of these names.
const OPEN: &str = "SELECT a.account, f.folder, h.seq, h.next_passage, h.passages
    FROM unnest($1) AS f (folder)
    CROSS JOIN LATERAL (
        SELECT account FROM garth.account WHERE folder = f.folder AND NOT deleted OFFSET 0) AS a
    CROSS JOIN LATERAL (
        SELECT seq, next_passage, passages FROM garth.head WHERE account = a.account OFFSET 0) AS h";

/// Background work of a server. It goes on through failures of the database.
pub struct Background {
    shared: Arc<Shared>,
    /// Name of this server in leases.
    holder: [u8; 16],
    collects: bool,
    jobs: Jobs,
    /// Account after which the next look for text to index goes on.
    after: i64,
    open: HashMap<i64, OpenAccount>,
    next_open_look: Instant,
    /// True after a look that failed, so that each outage is logged once.
    is_failing: bool,
}

/// Account that this server has open, as of the last look.
#[derive(Debug)]
struct OpenAccount {
    folder: String,
    seq: i64,
    /// New and removed passages up to the last merge.
    merged: i64,
    /// Commit up to which it was collected; `None` before the first collection.
    collected: Option<i64>,
    /// Time from which more is due without a commit.
    due: Option<Timestamp>,
    next_collection: Instant,
}

/// Result of a step.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// More may be left.
    More,
    /// Nothing is left for this server.
    Done,
    /// Another server does it.
    Held,
    /// The account was collected. More is due from this time on.
    Collected(Option<Timestamp>),
}

/// End of a step.
type Ended = (Job, Result<Outcome>);

impl Background {
    pub(super) fn new(shared: Arc<Shared>) -> Result<Self> {
        let holder = shared.env.random()?;
        let (jobs, open, next_open_look) = (Jobs::default(), HashMap::new(), Instant::now());
        let (collects, after, is_failing) = (true, 0, false);
        Ok(Self { shared, holder, collects, jobs, after, open, next_open_look, is_failing })
    }

    /// Sets whether accounts are collected. Default: true.
    #[must_use]
    pub fn collecting(self, collects: bool) -> Self {
        Self { collects, ..self }
    }

    /// Works until `stopping` is true or its sender is dropped. Then it waits for the end of the steps under
    /// way, each of which is short. Must be called on a runtime of tokio with timers.
    pub async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let most = (self.shared.pool.limit() / SHARE).clamp(1, STEPS);
        let (mut steps, mut next_look) = (JoinSet::new(), Instant::now());
        loop {
            let now = Instant::now();
            if now >= next_look {
                // Cut off by the end: a database that hangs must not delay it.
                tokio::select! {
                    () = told_to_stop(&mut stopping) => break,
                    () = self.look(now) => {}
                }
                next_look = Instant::now() + LOOK;
            }
            while steps.len() < most
                && let Some(job) = self.jobs.begin()
            {
                steps.spawn(self.step(job));
            }
            self.shared.indexing.set_behind(self.jobs.count(|kind| kind != Kind::Collect));
            tokio::select! {
                () = told_to_stop(&mut stopping) => break,
                () = sleep_until(next_look) => {}
                // None panics. If one did, its account would rest until the process ends.
                Some(ended) = steps.join_next(), if !steps.is_empty() => {
                    if let Ok(ended) = ended {
                        self.ended(ended, Instant::now());
                    }
                }
            }
        }
        while steps.join_next().await.is_some() {}
    }

    /// Looks for work.
    async fn look(&mut self, now: Instant) {
        let found = self.find_work(now).await;
        match (&found, self.is_failing) {
            (Err(error), false) => {
                tracing::warn!(%error, "background work waits, because the database cannot be read");
            }
            (Ok(()), true) => tracing::info!("background work goes on"),
            _ => {}
        }
        self.is_failing = found.is_err();
    }

    async fn find_work(&mut self, now: Instant) -> Result<()> {
        self.shared.tick().await?;
        self.jobs.forget_rests(now);
        self.find_text(now).await?;
        if now >= self.next_open_look {
            self.find_changed(now).await?;
            self.next_open_look = now + OPEN_LOOK;
        }
        Ok(())
    }

    /// Looks for accounts with text to index, unless enough are known.
    async fn find_text(&mut self, now: Instant) -> Result<()> {
        let room = PAGE.saturating_sub(self.jobs.count(|kind| kind == Kind::Index));
        if room == 0 {
            return Ok(());
        }
        let conn = self.shared.pool.connection().await?;
        let found = accounts_to_index(&conn, self.after, i64::try_from(room).unwrap_or(1)).await;
        let found = conn.settle(found).await?;
        // After the last page, the next look starts again.
        self.after = found.last().copied().filter(|_| found.len() == room).unwrap_or_default();
        for account in found {
            self.jobs.add(Job { account, kind: Kind::Index }, now);
        }
        Ok(())
    }

    /// Looks at the accounts that this server has open, for those that have changed.
    async fn find_changed(&mut self, now: Instant) -> Result<()> {
        let names = self.shared.trees.names();
        let mut present = HashSet::with_capacity(names.len());
        for names in names.chunks(NAMES) {
            let names = param(names.to_vec(), Type::TEXT_ARRAY);
            let [rows] = read(&self.shared.pool, [(OPEN, vec![names])]).await?;
            for row in &rows {
                let (account, seq): (i64, i64) = (column(row, 0)?, column(row, 2)?);
                let (next, passages): (i64, i64) = (column(row, 3)?, column(row, 4)?);
                present.insert(account);
                let folder = column(row, 1)?;
                // Numbers are given upwards: those of no passage any more are of removed ones.
                let changed = next.saturating_mul(2).saturating_sub(passages);
                self.look_at(account, folder, (seq, changed), now);
            }
        }
        self.open.retain(|account, _| present.contains(account));
        Ok(())
    }

    /// Adds the work that an open account needs: of which `changed` passages are new or were removed so far.
    fn look_at(&mut self, account: i64, folder: String, (seq, changed): (i64, i64), now: Instant) {
        let wall = self.shared.env.now();
        let open = self.open.entry(account).or_insert_with(|| OpenAccount::new(folder, now));
        open.seq = seq;
        if changed.saturating_sub(open.merged) >= TO_MERGE
            && self.jobs.add(Job { account, kind: Kind::Merge }, now)
        {
            open.merged = changed;
        }
        if self.collects
            && open.is_to_collect(wall, now)
            && self.jobs.add(Job { account, kind: Kind::Collect }, now)
        {
            (open.collected, open.due) = (Some(seq), None);
            open.next_collection = now + COLLECTION;
        }
    }

    /// Returns a step of a job, and its end.
    fn step(&self, job: Job) -> impl Future<Output = Ended> + Send + 'static {
        let (shared, holder) = (Arc::clone(&self.shared), self.holder);
        let folder = self.open.get(&job.account).map(|open| open.folder.clone());
        async move {
            let (env, account) = (shared.env.clone(), job.account.to_string());
            // Indexing computes, which must delay neither connections nor requests.
            let done = env.compute(&account, STEP_BYTES, run(shared, job, folder, holder)).await;
            (job, done.flatten())
        }
    }

    /// Records the end of a step.
    fn ended(&mut self, (job, outcome): Ended, now: Instant) {
        let open = self.open.get_mut(&job.account);
        if job.kind != Kind::Collect {
            self.shared.indexing.count(outcome.is_ok());
        }
        match (outcome, open) {
            (Ok(Outcome::More), _) => return self.jobs.go_on(job),
            (Ok(Outcome::Collected(due)), Some(open)) => open.due = due,
            // The other server may vanish, so the next look tries again.
            (Ok(Outcome::Held), Some(open)) => open.merged = 0,
            (Ok(_), _) => {}
            (Err(error), open) => {
                let (account, kind) = (job.account, job.kind.name());
                let cause = std::error::Error::source(&error);
                tracing::warn!(account, kind, %error, ?cause, "a step of background work failed");
                if let Some(open) = open {
                    open.try_again(job.kind);
                }
                return self.jobs.rest(job, now);
            }
        }
        // An account stays marked while another server indexes it, or a file cannot be read.
        match job.kind {
            Kind::Index => self.jobs.rest(job, now),
            Kind::Merge | Kind::Collect => self.jobs.end(job),
        }
    }
}

impl OpenAccount {
    fn new(folder: String, now: Instant) -> Self {
        Self { folder, seq: 0, merged: 0, collected: None, due: None, next_collection: now }
    }

    /// Returns true if the account has changed since its last collection, or more is due.
    fn is_to_collect(&self, wall: Timestamp, now: Instant) -> bool {
        let is_due = self.due.is_some_and(|due| due <= wall);
        now >= self.next_collection && (is_due || self.collected != Some(self.seq))
    }

    /// Lets a later look try a failed job again.
    fn try_again(&mut self, kind: Kind) {
        match kind {
            Kind::Merge => self.merged = 0,
            Kind::Collect => self.collected = None,
            // It is still marked.
            Kind::Index => {}
        }
    }
}

/// Does one step of a job. `folder` is that of the tree of an open account.
async fn run(shared: Arc<Shared>, job: Job, folder: Option<String>, holder: [u8; 16]) -> Result<Outcome> {
    let account = job.account;
    match job.kind {
        Kind::Index => {
            let conn = shared.pool.connection().await?;
            let done = index_next(&conn, account, &shared.registry).await;
            let is_left = conn.settle(done).await?;
            Ok(if is_left { Outcome::More } else { Outcome::Done })
        }
        Kind::Merge => {
            let conn = shared.pool.connection().await?;
            let done = step(&conn, account, &holder).await;
            Ok(match conn.settle(done).await? {
                Step::Merged => Outcome::More,
                Step::Done => Outcome::Done,
                Step::Held => Outcome::Held,
            })
        }
        Kind::Collect => {
            let Some(tree) = folder.and_then(|folder| shared.trees.kept(&folder)) else {
                return Ok(Outcome::Done);
            };
            match tree.collect_next().await {
                Ok(due) => Ok(Outcome::Collected(due)),
                // The account was deleted.
                Err(error) if error.is(ErrorKind::NotFound) => Ok(Outcome::Done),
                Err(error) => Err(error),
            }
        }
    }
}

/// Waits until the work is to end.
async fn told_to_stop(stopping: &mut watch::Receiver<bool>) {
    // An error means that the sender was dropped, which has the same effect.
    drop(stopping.wait_for(|stop| *stop).await);
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}
