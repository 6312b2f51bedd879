//! Changes for a client that is told of them one by one, and reads what it needs afterwards. They are read as
//! those of a stream are: a page at a time, when the client has taken the one before, and only durable ones.

use std::sync::Arc;
use std::time::Duration;

use garth_agent::access::Reach;
use garth_engine::model::{Change, Changes, ChangesQuery, Seq};
use garth_engine::{Env, FileSystem, TreePath};
use tokio::time::sleep;

use super::follow::last_of;
use super::log_position::check_since;
use crate::answers::{PAGE, Rooms};
use crate::auth::LastingKey;
use crate::compute::compute;
use crate::consumers::Place;
use crate::errors::Refusal;
use crate::routes::call::Call;
use crate::routes::open::files_of;
use crate::stopping::Stopping;

/// Limit on the changes of a page.
const PAGE_CHANGES: usize = 256;

/// Changes of a tree after the time when they were asked for.
pub(crate) struct Updates {
    follower: Follower,
    fs: Arc<dyn FileSystem>,
    key: LastingKey,
    stopping: Stopping,
    /// Time between two looks at the key while nothing changes.
    heartbeat: Duration,
    /// True if there may be commits after the position.
    is_behind: bool,
}

/// Reader of the pages.
#[derive(Clone)]
struct Follower {
    reach: Reach,
    query: ChangesQuery,
    place: Arc<Place>,
    answers: Arc<Rooms>,
    account: String,
}

/// Returns the changes after a commit at or below some paths, or of the whole tree without any. They begin
/// now without such a commit, and if it is beyond retention.
pub(crate) async fn updates(
    call: &Call<'_>,
    start: Option<Seq>,
    within: Vec<TreePath>,
) -> Result<Updates, Refusal> {
    let place = call.consumers.place(call.key.share())?;
    let fs = files_of(&call.reach).await?;
    let query = ChangesQuery::since(since(&*fs, &place, start).await?).limit(PAGE_CHANGES);
    let follower = Follower {
        reach: call.reach.clone(),
        query: within.into_iter().fold(query, |query, path| query.within(path)),
        place: Arc::new(place),
        answers: Arc::clone(call.answers),
        account: call.key.share().to_owned(),
    };
    Ok(Updates {
        follower,
        fs,
        key: call.standing.lasting(),
        stopping: call.stopping.clone(),
        heartbeat: call.limits.stream_heartbeat,
        is_behind: true,
    })
}

/// Returns the commit after which to begin.
async fn since(fs: &dyn FileSystem, place: &Place, start: Option<Seq>) -> Result<Seq, Refusal> {
    if let Some(start) = start
        && fs.changes(&ChangesQuery::since(start).limit(1)).await.is_ok()
    {
        return Ok(start);
    }
    let last = fs.head().await?.seq;
    // A position after a commit that a crash undoes would miss the commit in its place.
    place.settle(fs, last).await?;
    Ok(last)
}

impl Updates {
    /// Returns the next changes; `None` when the server stops. Fails when the key has ended.
    pub(crate) async fn next(&mut self, env: &Env) -> Result<Option<Vec<Change>>, Refusal> {
        loop {
            if !self.is_behind {
                self.key.renew().await?;
                // After a failure of the storage no commit ends the wait.
                self.fs.view_base().known_durable()?;
                tokio::select! {
                    biased;
                    () = self.stopping.stopped() => return Ok(None),
                    woken = self.fs.wait(self.follower.query.since.seq) => drop(woken?),
                    () = sleep(self.heartbeat) => continue,
                }
            }
            let work = self.follower.clone().page();
            let (fs, page) = compute(env, &self.follower.account, 1, work).await??;
            // After the wait for room: the key may have ended meanwhile.
            self.key.renew().await?;
            self.follower.query.since = page.until;
            self.is_behind = page.until.seq < page.head;
            self.fs = fs;
            if !page.commits.is_empty() {
                return Ok(Some(page.commits.into_iter().flat_map(|commit| commit.changes).collect()));
            }
        }
    }
}

impl Follower {
    /// Reads the next page.
    async fn page(self) -> Result<(Arc<dyn FileSystem>, Changes), Refusal> {
        let _room = self.answers.answer(&self.account, PAGE).await?;
        // Opened for each page, so that it has what the key reaches at its time.
        let fs = files_of(&self.reach).await?;
        let found = fs.changes(&self.query).await?;
        check_since(self.query.since.seq, found.head)?;
        self.place.settle(&*fs, last_of(&found)).await?;
        Ok((fs, found))
    }
}
