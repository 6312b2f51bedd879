//! Writers that append lines to one file, each line in a commit that is repeated until it is acknowledged,
//! and the check that every line is there once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use garth_cloud::client::Pool;
use garth_cloud::commit::commit;
use garth_engine::model::{Batch, CommitId};
use garth_engine::{AccountStore, Env, Error, ErrorKind, FileSystem, Result};
use garth_testkit::proof::{Broken, Proven, append, hold, read};

/// File of all lines.
const LINES: &str = "/lines";
/// Pause before a commit is repeated.
const PAUSE: Duration = Duration::from_millis(5);
/// Limit on the time that a proof waits for an event.
const PATIENCE: Duration = Duration::from_secs(60);

/// Client that commits.
#[derive(Clone)]
pub(super) enum Client {
    /// Server, whose commits have ids.
    Server(Arc<dyn AccountStore>),
    /// Connections and an account on which commits have no ids, and nobody asks whether they were made: the
    /// negative control.
    Blind(Arc<Pool>, i64),
}

impl Client {
    async fn commit(&self, batch: Batch, id: CommitId) -> Result<()> {
        match self {
            Self::Server(fs) => fs.commit(batch.id(id)).await.map(drop),
            Self::Blind(pool, account) => {
                let conn = pool.connection().await?;
                let results = commit(&conn, *account, &[batch]).await;
                let missing = || Err(Error::new(ErrorKind::Io, "the commit has no result"));
                conn.settle(results).await?.pop().unwrap_or_else(missing).map(drop)
            }
        }
    }
}

/// Counts of writers, and the end of their run.
#[derive(Default)]
pub(super) struct Run {
    ended: AtomicBool,
    acknowledged: AtomicU64,
    repeated: AtomicU64,
}

impl Run {
    /// Ends the run: each writer stops after the line that it is writing.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Returns the number of acknowledged commits.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Returns how often a commit was repeated.
    pub(super) fn repeated(&self) -> u64 {
        self.repeated.load(Ordering::SeqCst)
    }
}

/// Appends the lines of a writer from `next` on until the run ends. Returns the number of its lines, all of
/// which were acknowledged.
///
/// # Errors
/// An error other than `Unavailable`; a commit that stays unavailable.
pub(super) async fn append_until(client: Client, who: u64, mut next: u64, run: Arc<Run>) -> Proven<u64> {
    let env = Env::system();
    while !run.ended.load(Ordering::SeqCst) {
        let (batch, begun) = (Batch::new([append(LINES, format!("{who} {next}\n"))?]), env.instant());
        let id = CommitId(u128::from(who + 1) << 64 | u128::from(next));
        while let Err(error) = client.commit(batch.clone(), id).await {
            let is_expected = error.is(ErrorKind::Unavailable) && begun.elapsed() < PATIENCE;
            if !is_expected {
                return Err(error.into());
            }
            run.repeated.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(PAUSE).await;
        }
        next += 1;
        run.acknowledged.fetch_add(1, Ordering::SeqCst);
    }
    Ok(next)
}

/// Waits for an event.
///
/// # Errors
/// It does not happen within a minute.
pub(super) async fn until(what: &str, happened: impl Fn() -> bool) -> Proven<()> {
    let begun = Env::system().instant();
    while !happened() {
        hold(begun.elapsed() < PATIENCE, || format!("{what}: nothing happened for {PATIENCE:?}"))?;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Checks that the file has each acknowledged line once, in the order of its writer: `lines` has the number
/// of each writer.
///
/// # Errors
/// A line that is lost, doubled or out of order; commits that nobody made.
pub(super) async fn check(fs: &dyn FileSystem, lines: &[u64]) -> Proven<()> {
    let text = read(fs, LINES).await?;
    let mut next = vec![0; lines.len()];
    for line in text.lines() {
        let parsed = line.split_once(' ').and_then(|(who, n)| Some((who.parse().ok()?, n.parse().ok()?)));
        let known = parsed.and_then(|(who, n): (usize, u64)| Some((next.get_mut(who)?, n)));
        let (next, n) = known.ok_or_else(|| Broken::because(format!("nobody wrote the line `{line}`")))?;
        hold(n >= *next, || format!("the line `{line}` is doubled"))?;
        hold(n == *next, || format!("the acknowledged line {next} before `{line}` is lost"))?;
        *next += 1;
    }
    hold(next == lines, || format!("of {lines:?} acknowledged lines, the last are lost: {next:?}"))?;
    let (head, due) = (fs.head().await?.seq.0, lines.iter().sum::<u64>());
    hold(head == due, || format!("{due} lines took {head} commits"))
}
