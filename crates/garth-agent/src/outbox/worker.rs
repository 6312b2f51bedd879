//! Worker: finds due events, claims them, delivers them and records the results.
//!
//! Each claimed event is delivered by itself and recorded when its delivery ends, while the worker looks for
//! more. An event that its sink is slow to accept delays only later events of its own memory.

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

/// Limit on the events of an account that are delivered concurrently, each of another memory.
pub const AT_ONCE: usize = 16;

/// Limit on the concurrent events of an account that failed before. A sink that rejects the events of some
/// memories leaves room for the others.
pub const AGAIN: usize = 4;

/// Attempts of a claim at which other workers were faster.
const TRIES: usize = 4;

/// Limit on the pages of due events that one run reads.
const PAGES: usize = 16;

/// Options of a worker.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Lease time of an event. Longer than the sink's [`timeout`](Sink::timeout).
    pub lease: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { lease: LEASE }
    }
}

/// Worker on the outboxes of one account. Any number of workers may run, in any number of processes.
#[derive(Debug)]
pub struct Worker {
    env: Env,
    account: String,
    options: Options,
    /// Set to stop the worker: events that are claimed but not in delivery are given back.
    stopped: Arc<AtomicBool>,
    /// Position in the list of due events, and if there was work before it.
    pass: Pass,
}

#[derive(Debug, Default)]
struct Pass {
    after: Option<FindCursor>,
    worked: bool,
}

/// Event that a worker holds until its lease ends. If it is dropped, another worker delivers it after that.
#[derive(Debug)]
pub struct Claimed {
    event: Queued,
    begun: Instant,
    env: Env,
    lease: Duration,
    stopped: Arc<AtomicBool>,
}

/// Result of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Events that were delivered, or became unnecessary, and are removed.
    pub finished: usize,
    /// Events that newer ones replaced.
    pub superseded: usize,
    /// Events that failed and wait for the next attempt, or were given back.
    pub put_off: usize,
    /// Events that failed too often, or are invalid; they are in `dlq`.
    pub given_up: usize,
    /// True if the worker should run again immediately.
    pub more: bool,
    /// Earliest time at which a waiting event is due. Only set if `more` is false.
    pub next: Option<Timestamp>,
}

impl Worker {
    /// Returns a worker for the account with this id, as URIs name it.
    pub fn new(env: Env, account: impl Into<String>, options: Options) -> Self {
        Self { env, account: account.into(), options, stopped: Arc::default(), pass: Pass::default() }
    }

    /// Sets the flag that stops the worker: then no more events are delivered, and claimed ones are given
    /// back.
    #[must_use]
    pub fn until(self, stopped: Arc<AtomicBool>) -> Self {
        Self { stopped, ..self }
    }

    /// Works on due events, at most [`AT_ONCE`], and waits for all of them. Without a sink, finishes a page
    /// of events undelivered.
    ///
    /// # Errors
    /// `Unsupported` if the tree cannot find by key; from the storage.
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

    /// Runs until nothing is due, or the worker is stopped.
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
            // Waits for a delivery only if there is nothing else to do: no room, nothing due, or stopped.
            let is_full = under_way.len() == AT_ONCE || !more || self.is_stopped();
            if is_full && let Some(ended) = under_way.next().await {
                sum.add(&ended?);
                // One look for all deliveries that have ended, rather than one for each.
                while let Some(Some(ended)) = under_way.next().now_or_never() {
                    sum.add(&ended?);
                }
            } else if is_full {
                sum.more = more;
                return Ok(sum);
            }
        }
    }

    /// Claims due events, within `room`. The caller delivers them concurrently, and calls this again when
    /// some have ended.
    ///
    /// # Errors
    /// As [`Worker::run_once`].
    #[boxed]
    pub async fn claim(&mut self, fs: &dyn FileSystem, room: Room) -> Result<(Progress, Vec<Claimed>)> {
        self.look(fs, Some(room)).await
    }

    /// Looks for work on at most [`PAGES`] pages of due events. Without `room`, finishes events undelivered.
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
            // A pass that found work may have made more, such as events that waited for those just delivered.
            // Another pass follows at once.
            self.pass.worked |= has_worked || !is_ready;
            self.pass.after = found.next;
            if self.pass.after.is_none() {
                progress.more = std::mem::take(&mut self.pass).worked;
                if !progress.more {
                    progress.next = self.next(fs).await?;
                }
                return Ok((progress, claimed));
            }
            // Delivers what it has before it looks further.
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

    /// Claims due events. Returns false if edges are left to be rewritten, or other workers were faster.
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
            // Before the claim, so that a lease does not run out while edges are rewritten.
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
        // Other workers claim events of the same page.
        Ok(false)
    }

    /// Finishes events without a sink. Nothing is delivered, so no order has to be kept.
    async fn finish_all(&self, fs: &dyn FileSystem, due: &[Queued], progress: &mut Progress) -> Result<bool> {
        let mut events = due.to_vec();
        let is_ready = self.end_edges(fs, &mut events).await?;
        let ended: Vec<Ended> = events.into_iter().map(|event| (event, End::Done)).collect();
        progress.finished += finish(fs, &ended, self.env.now()).await?.removed;
        Ok(is_ready)
    }

    /// Rewrites edges that moves and deletions have left. Removes events with more to do from `events`.
    /// Returns true if there were none of these.
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

    /// Returns the earliest time at which a waiting event is due.
    async fn next(&self, fs: &dyn FileSystem) -> Result<Option<Timestamp>> {
        let query = FindQuery::new(projections::EVENT_DUE).from(waiting(millis(self.env.now()) + 1));
        let answer = fs.find(&query.to("waiting\u{1}").limit(CLAIM)).await?;
        // Unreadable files in `dlq` have waiting keys, but are never due.
        let alive = answer.items.iter().find(|item| lies(&item.path).is_some_and(|(_, is_dead)| !is_dead));
        let millis = alive.and_then(|item| item.key.split('\0').nth(1)?.parse::<i64>().ok());
        Ok(millis.map(|millis| Timestamp(millis.saturating_mul(1_000_000))))
    }
}

impl Claimed {
    /// Returns true if an earlier delivery of it has failed.
    pub fn failed_before(&self) -> bool {
        self.event.event.retry_count > 0
    }

    /// Delivers the event if that is certain to end before its lease, and records the result.
    ///
    /// # Errors
    /// From the storage, if the result cannot be recorded: the event is delivered again.
    pub async fn deliver(self, fs: &dyn FileSystem, sink: &dyn Sink) -> Result<Progress> {
        let held = self.env.instant().saturating_duration_since(self.begun);
        let is_stopped = self.stopped.load(Ordering::Acquire);
        // Another worker may claim the event when the lease ends. If the sink were still busy then, the older
        // delivery could arrive last.
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

    /// Returns true if any event was worked on.
    pub fn has_work(&self) -> bool {
        self.finished + self.superseded + self.put_off + self.given_up > 0
    }
}
