//! The worker: looks for events that are due, claims them, delivers them and notes how that ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt as _;

pub use super::claim::CLAIM;
pub use super::finish::{MAX_RETRIES, delay};
pub use crate::node::event::LEASE;

use super::claim::{Choice, choose, due, millis, take, waiting};
use super::dangling_edges;
use super::deliver::{End, deliver};
use super::finish::{Ended, finish, set_aside};
use super::order::ends_edges;
use super::queued::{Queued, lies};
use super::sink::Sink;
use crate::boxed;
use crate::registry::projections;
use garth_engine::env::Env;
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::{FindCursor, FindQuery, Timestamp};

/// Events that are delivered at once, each of another node.
const AT_ONCE: usize = 8;

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

    /// Works on a page of what is due, at most [`CLAIM`] events; without a sink they are finished at once.
    ///
    /// # Errors
    /// `Unsupported` where nothing is found by key; from the storage.
    #[boxed]
    pub async fn run_once(&mut self, fs: &dyn FileSystem, sink: Option<&dyn Sink>) -> Result<Progress> {
        let mut progress = Progress::default();
        for _ in 0..PAGES {
            let found = due(fs, &self.account, self.env.now(), self.pass.after.take()).await?;
            progress.given_up += set_aside(fs, &found.refused).await?;
            let is_ready = self.work(fs, sink, &found.events, &mut progress).await?;
            self.pass.worked |= progress.has_work() || !is_ready;
            self.pass.after = found.next;
            if self.pass.after.is_none() {
                progress.more = std::mem::take(&mut self.pass).worked;
                if !progress.more {
                    progress.next = self.next(fs).await?;
                }
                return Ok(progress);
            }
            if progress.has_work() {
                break;
            }
        }
        progress.more = true;
        Ok(progress)
    }

    /// Runs until nothing is due, or it is to end.
    ///
    /// # Errors
    /// As [`Worker::run_once`].
    #[boxed]
    pub async fn run_out(&mut self, fs: &dyn FileSystem, sink: Option<&dyn Sink>) -> Result<Progress> {
        let mut sum = Progress::default();
        loop {
            let once = self.run_once(fs, sink).await?;
            sum.finished += once.finished;
            sum.superseded += once.superseded;
            sum.put_off += once.put_off;
            sum.given_up += once.given_up;
            (sum.more, sum.next) = (once.more, once.next);
            if !once.more || self.is_stopped() {
                return Ok(sum);
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Works on events that are due. Whether all of them could be: not while edges are left to be rewritten.
    async fn work(
        &self,
        fs: &dyn FileSystem,
        sink: Option<&dyn Sink>,
        due: &[Queued],
        progress: &mut Progress,
    ) -> Result<bool> {
        let Some(sink) = sink else { return self.finish_all(fs, due, progress).await };
        for _ in 0..TRIES {
            let now = self.env.now();
            let mut choice = choose(fs, &self.account, due, now).await?;
            let is_ready = self.end_edges(fs, &mut choice.claims).await?;
            if choice.claims.is_empty() && choice.superseded.is_empty() {
                return Ok(is_ready);
            }
            if self.claim_and_deliver(fs, sink, choice, progress).await? {
                return Ok(is_ready);
            }
        }
        // others work on the same page
        Ok(false)
    }

    /// Whether it could claim them.
    async fn claim_and_deliver(
        &self,
        fs: &dyn FileSystem,
        sink: &dyn Sink,
        choice: Choice,
        progress: &mut Progress,
    ) -> Result<bool> {
        let (superseded, begun) = (choice.superseded.len(), self.env.instant());
        let lease = i64::try_from(self.options.lease.as_nanos()).unwrap_or(i64::MAX);
        let until = Timestamp(self.env.now().0.saturating_add(lease));
        let Some(claimed) = take(fs, &self.account, choice, until).await? else { return Ok(false) };
        progress.superseded += superseded;
        let ends = futures::stream::iter(claimed).map(|event| self.try_one(fs, sink, event, begun));
        let ended: Vec<Ended> = ends.buffer_unordered(AT_ONCE).collect().await;
        let finished = finish(fs, &ended, self.env.now()).await?;
        progress.finished += finished.removed;
        progress.put_off += finished.put_off;
        progress.given_up += finished.given_up;
        Ok(true)
    }

    /// Delivers an event, if that is sure to end before its lease does.
    async fn try_one(&self, fs: &dyn FileSystem, sink: &dyn Sink, event: Queued, begun: Instant) -> Ended {
        let held = self.env.instant().saturating_duration_since(begun);
        if self.is_stopped() || held + sink.timeout() >= self.options.lease {
            return (event, End::Untried);
        }
        let end = deliver(fs, sink, &event).await;
        (event, end)
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

impl Progress {
    /// Whether anything was done.
    pub fn has_work(&self) -> bool {
        self.finished + self.superseded + self.put_off + self.given_up > 0
    }
}
