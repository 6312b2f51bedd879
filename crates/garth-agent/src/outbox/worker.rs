//! The worker: looks for events that are due, claims them, delivers them and notes how that ended.
//!
//! Each claimed event is delivered by itself and noted when it has ended, while the worker looks for more: an
//! event that its sink is slow to take delays what comes after it on its own memory, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};

pub use super::claim::{CLAIM, Room};
pub use super::finish::{MAX_RETRIES, delay};
pub use crate::memory::event::LEASE;

use super::claim::{choose, due, millis, take, waiting};
use super::dangling_edges;
use super::deliver::{End, deliver};
use super::finish::{Ended, Finished, finish, set_aside};
use super::order::ends_edges;
use super::queued::{Queued, lies};
use super::sink::Sink;
use crate::boxed;
use crate::registry::projections;
use garth_engine::env::Env;
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::{FindCursor, FindQuery, Timestamp};

/// Events of an account that are delivered at once, each of another memory.
pub const AT_ONCE: usize = 16;

/// Events of an account that failed before and are delivered at once: a sink that takes none of some memories
/// leaves room for the others.
pub const AGAIN: usize = 4;

/// How often a claim that others were faster with is tried again at once.
const TRIES: usize = 4;

/// Most pages of due events that one run looks at.
const PAGES: usize = 16;

/// What a worker keeps to.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// For how long an event is held. More than the sink's [`timeout`](Sink::timeout).
    pub lease: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { lease: LEASE }
    }
}

/// Works on the outboxes of one account. Any number may, in any number of processes.
#[derive(Debug)]
pub struct Worker {
    env: Env,
    account: String,
    options: Options,
    /// Set once it is to end: what it has claimed and not begun to deliver is given back.
    stopped: Arc<AtomicBool>,
    /// How far it looked in what is due, and whether it found work on the way.
    pass: Pass,
}

#[derive(Debug, Default)]
struct Pass {
    after: Option<FindCursor>,
    worked: bool,
}

/// An event that a worker holds until its lease ends. One that is dropped is delivered by another worker
/// after that.
#[derive(Debug)]
pub struct Claimed {
    event: Queued,
    begun: Instant,
    env: Env,
    lease: Duration,
    stopped: Arc<AtomicBool>,
}

/// What one run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Events that had their effect, or have none any more, and are removed.
    pub finished: usize,
    /// Events that are not needed any more, since newer ones stand for them.
    pub superseded: usize,
    /// Events that failed and wait for the next try, or were given back.
    pub put_off: usize,
    /// Events that were tried too often, or are none: they lie in `dlq`.
    pub given_up: usize,
    /// Whether to run again at once.
    pub more: bool,
    /// When something waits for its time: the first such moment. Only without `more`.
    pub next: Option<Timestamp>,
}

impl Worker {
    /// A worker for an account, whose id URIs name.
    pub fn new(env: Env, account: impl Into<String>, options: Options) -> Self {
        Self { env, account: account.into(), options, stopped: Arc::default(), pass: Pass::default() }
    }

    /// Until this is set: then nothing more is delivered, and what was only claimed is given back.
    #[must_use]
    pub fn until(self, stopped: Arc<AtomicBool>) -> Self {
        Self { stopped, ..self }
    }

    /// Works on what is due, at most [`AT_ONCE`] events, and waits for all of them; without a sink, on a page
    /// of events, which are finished at once.
    ///
    /// # Errors
    /// `Unsupported` where nothing is found by key; from the storage.
    #[boxed]
    pub async fn run_once(&mut self, fs: &dyn FileSystem, sink: Option<&dyn Sink>) -> Result<Progress> {
        let Some(sink) = sink else { return Ok(self.look(fs, None).await?.0) };
        let room = Room { all: AT_ONCE, again: AT_ONCE };
        let (mut progress, claimed) = self.look(fs, Some(room)).await?;
        let ends = claimed.into_iter().map(|event| event.deliver(fs, sink));
        let mut ends: FuturesUnordered<_> = ends.collect();
        while let Some(ended) = ends.next().await {
            progress.add(&ended?);
        }
        Ok(progress)
    }

    /// Runs until nothing is due, or it is to end.
    ///
    /// # Errors
    /// As [`Worker::run_once`].
    #[boxed]
    pub async fn run_out(&mut self, fs: &dyn FileSystem, sink: Option<&dyn Sink>) -> Result<Progress> {
        let (mut sum, mut under_way) = (Progress::default(), FuturesUnordered::new());
        loop {
            let room = AT_ONCE - under_way.len();
            let room = Room { all: room, again: room };
            let mut more = true;
            if room.all > 0 && !self.is_stopped() {
                let (once, claimed) = self.look(fs, sink.map(|_| room)).await?;
                sum.add(&once);
                (sum.next, more) = (once.next, once.more);
                let claimed = claimed.into_iter().filter_map(|event| Some(event.deliver(fs, sink?)));
                under_way.extend(claimed);
            }
            let is_full = under_way.len() == AT_ONCE || !more || self.is_stopped();
            if is_full && let Some(ended) = under_way.next().await {
                sum.add(&ended?);
                // one look for all that have ended, rather than one for each
                while let Some(Some(ended)) = under_way.next().now_or_never() {
                    sum.add(&ended?);
                }
            } else if is_full {
                sum.more = more;
                return Ok(sum);
            }
        }
    }

    /// Claims events that are due, as many as there is room for. The caller delivers each of them, beside
    /// each other, and calls this again when some have ended.
    ///
    /// # Errors
    /// As [`Worker::run_once`].
    #[boxed]
    pub async fn claim(&mut self, fs: &dyn FileSystem, room: Room) -> Result<(Progress, Vec<Claimed>)> {
        self.look(fs, Some(room)).await
    }

    /// Looks for work on at most [`PAGES`] pages of what is due. Without `room` nobody is told of it.
    async fn look(&mut self, fs: &dyn FileSystem, room: Option<Room>) -> Result<(Progress, Vec<Claimed>)> {
        let (mut progress, mut claimed) = (Progress::default(), Vec::new());
        for _ in 0..PAGES {
            let found = due(fs, &self.account, self.env.now(), self.pass.after.take()).await?;
            progress.given_up += set_aside(fs, &found.refused).await?;
            let is_ready = match room {
                Some(room) => self.work(fs, room, &found.events, &mut progress, &mut claimed).await?,
                None => self.finish_all(fs, &found.events, &mut progress).await?,
            };
            let has_worked = progress.has_work() || !claimed.is_empty();
            self.pass.worked |= has_worked || !is_ready;
            self.pass.after = found.next;
            if self.pass.after.is_none() {
                progress.more = std::mem::take(&mut self.pass).worked;
                if !progress.more {
                    progress.next = self.next(fs).await?;
                }
                return Ok((progress, claimed));
            }
            if has_worked {
                break;
            }
        }
        progress.more = true;
        Ok((progress, claimed))
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Claims events that are due. Whether all of them could be: not while edges are left to be rewritten.
    async fn work(
        &self,
        fs: &dyn FileSystem,
        room: Room,
        due: &[Queued],
        progress: &mut Progress,
        claimed: &mut Vec<Claimed>,
    ) -> Result<bool> {
        for _ in 0..TRIES {
            let now = self.env.now();
            let mut choice = choose(fs, &self.account, due, room, now).await?;
            let is_ready = self.end_edges(fs, &mut choice.claims).await?;
            if choice.claims.is_empty() && choice.superseded.is_empty() {
                return Ok(is_ready);
            }
            let (superseded, begun) = (choice.superseded.len(), self.env.instant());
            let lease = i64::try_from(self.options.lease.as_nanos()).unwrap_or(i64::MAX);
            let until = Timestamp(self.env.now().0.saturating_add(lease));
            let Some(taken) = take(fs, &self.account, choice, until).await? else { continue };
            progress.superseded += superseded;
            claimed.extend(taken.into_iter().map(|event| Claimed {
                event,
                begun,
                env: self.env.clone(),
                lease: self.options.lease,
                stopped: Arc::clone(&self.stopped),
            }));
            return Ok(is_ready);
        }
        // others work on the same page
        Ok(false)
    }

    /// Without a sink: nobody has to hear of them, in whatever order.
    async fn finish_all(&self, fs: &dyn FileSystem, due: &[Queued], progress: &mut Progress) -> Result<bool> {
        let mut events = due.to_vec();
        let is_ready = self.end_edges(fs, &mut events).await?;
        let ended: Vec<Ended> = events.into_iter().map(|event| (event, End::Done)).collect();
        progress.finished += finish(fs, &ended, self.env.now()).await?.removed;
        Ok(is_ready)
    }

    /// Rewrites edges that moves and deletions have left. Leaves out those with more to do. Whether there are
    /// none of these.
    async fn end_edges(&self, fs: &dyn FileSystem, events: &mut Vec<Queued>) -> Result<bool> {
        let mut unfinished = Vec::new();
        for event in events.iter().filter(|event| ends_edges(event)) {
            if !dangling_edges::end(fs, &self.env, &self.account, event).await? {
                unfinished.push(event.ino);
            }
        }
        events.retain(|event| !unfinished.contains(&event.ino));
        Ok(unfinished.is_empty())
    }

    /// The first moment at which something that waits now is due.
    async fn next(&self, fs: &dyn FileSystem) -> Result<Option<Timestamp>> {
        let query = FindQuery::new(projections::EVENT_DUE).from(waiting(millis(self.env.now()) + 1));
        let answer = fs.find(&query.to("waiting\u{1}").limit(CLAIM)).await?;
        let alive = answer.items.iter().find(|item| lies(&item.path).is_some_and(|(_, is_dead)| !is_dead));
        let millis = alive.and_then(|item| item.key.split('\0').nth(1)?.parse::<i64>().ok());
        Ok(millis.map(|millis| Timestamp(millis.saturating_mul(1_000_000))))
    }
}

impl Claimed {
    /// Returns true if an attempt to deliver it has failed.
    pub fn failed_before(&self) -> bool {
        self.event.event.retry_count > 0
    }

    /// Delivers the event, if that is sure to end before its lease does, and notes how it ended.
    ///
    /// # Errors
    /// From the storage, when it cannot be noted: the event is delivered again.
    pub async fn deliver(self, fs: &dyn FileSystem, sink: &dyn Sink) -> Result<Progress> {
        let held = self.env.instant().saturating_duration_since(self.begun);
        let is_stopped = self.stopped.load(Ordering::Acquire);
        let end = match is_stopped || held + sink.timeout() >= self.lease {
            true => End::Untried,
            false => deliver(fs, sink, &self.event).await,
        };
        let finished = finish(fs, &[(self.event, end)], self.env.now()).await?;
        let Finished { removed: finished, put_off, given_up, .. } = finished;
        Ok(Progress { finished, put_off, given_up, ..Progress::default() })
    }
}

impl Progress {
    fn add(&mut self, other: &Self) {
        self.finished += other.finished;
        self.superseded += other.superseded;
        self.put_off += other.put_off;
        self.given_up += other.given_up;
    }

    /// Whether anything was done.
    pub fn has_work(&self) -> bool {
        self.finished + self.superseded + self.put_off + self.given_up > 0
    }
}
