//! Courier: one task that delivers the outboxes of all accounts of a data folder, repairs their memories,
//! collects and resets their sessions when due, and continues deletions, whichever process commits or
//! deletes.
//!
//! Accounts are not opened to look for changes: the files of their databases show whether there are any
//! ([`Home::marks`]). A round checks all accounts once a second, or less often if that would take more
//! than a tenth of the time. A tick checks the accounts with recent commits 20 times a second.
//!
//! A visit claims due events and ends. Each event is delivered in a task of its own, whose end starts the
//! next visit. So a sink that hangs delays neither a visit nor another memory or account.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use garth_agent::memory::{Follow, Next};
use garth_agent::outbox::{AGAIN, AT_ONCE as OF_ACCOUNT, Claimed, Options, Room, Sink, Worker};
use garth_engine::home::{Account, AccountState, Mark};
use garth_engine::model::{FindCursor, Timestamp};
use garth_engine::{AccountStore, ErrorKind, Home, Result};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::Instrument as _;

use crate::chat_model::ServedModel;
use crate::collect::Collecting;
use crate::compute::compute;
use crate::connection::told_to_stop;
use crate::limits::{Limits, after};
use crate::metrics::{Metrics, WorkKind};
use crate::resets::Resets;
use crate::{collect, repair};

/// Rounds for which an account counts as having recent commits.
const HOT: u32 = 30;

/// Accounts that are checked in one call.
const PAGE: usize = 500;

/// Share of all deliveries that may retry failed events, as a divisor. The rest is reserved for first
/// deliveries, so that memories whose events keep failing leave room for the others.
const AGAIN_OF: usize = 4;

/// Seconds until an account without room for its events is visited again.
const NO_ROOM: i64 = 1;

/// Claims of one visit, after which other accounts have their turn.
const RUNS: usize = 16;

/// Age in nanoseconds below which a mark is not trusted: longer than a tick of the clock of a filesystem.
const YOUNG: i64 = 100_000_000;

/// Delivers the outboxes of a home, and does the other background work of its accounts.
#[derive(Debug)]
pub struct Courier {
    home: Arc<dyn Home>,
    sink: Option<Arc<dyn Sink>>,
    options: Options,
    /// Limits of the server. One account has at most [`OF_ACCOUNT`] deliveries in flight.
    limits: Arc<Limits>,
    only: Option<String>,
    /// Scope of garbage collection of sessions; `None` if sessions are not collected.
    collecting: Option<Collecting>,
    /// Resets of sessions; `None` if sessions are not reset.
    resetting: Option<Resets>,
    /// Position of each account in its log up to which it was repaired, by folder; `None` without repair.
    followed: Option<HashMap<String, Follow>>,
    stopped: Arc<AtomicBool>,
    metrics: Metrics,
    known: HashMap<String, LastVisit>,
    /// Accounts to visit, by folder. True for a full visit, false for one of the outbox only.
    waiting: BTreeMap<String, (Account, bool)>,
    busy: HashSet<String>,
    /// Deliveries in flight of each account, by folder.
    under_way: HashMap<String, UnderWay>,
    /// Retries among all deliveries in flight.
    again: usize,
    hot: HashMap<String, (Account, u32)>,
}

/// State of an account at its last full visit.
#[derive(Clone, Debug, Default)]
struct LastVisit {
    mark: Mark,
    /// Time of the next work that is due.
    due: Option<Timestamp>,
    looks: Looks,
}

/// Positions at which the next looks for due sessions continue, of an account with more marks than one look
/// reads.
#[derive(Clone, Debug, Default)]
struct Looks {
    collect: Option<FindCursor>,
    reset: Option<FindCursor>,
}

/// Deliveries in flight of an account.
#[derive(Clone, Copy, Debug, Default)]
struct UnderWay {
    all: usize,
    /// Retries among them.
    again: usize,
}

/// Result of a visit.
struct VisitResult {
    account: Account,
    is_whole: bool,
    mark: Mark,
    outcome: Result<Left>,
}

/// Tasks of a courier.
#[derive(Default)]
struct Tasks {
    visits: JoinSet<VisitResult>,
    /// Each returns the account of its event, and true if the event had failed before.
    deliveries: JoinSet<(Account, bool)>,
}

/// Repair work of a visit.
enum Repairs {
    No,
    /// Repair from this position, or from the stored one if the account was not repaired before.
    From(Option<Follow>),
}

/// Work that a visit has left, and what it has claimed.
struct Left {
    more: bool,
    next: Option<Timestamp>,
    followed: Option<Follow>,
    looks: Looks,
    /// Claimed events, and the tree that they are in.
    claimed: Vec<Claimed>,
    tree: Option<Arc<dyn AccountStore>>,
}

impl Courier {
    /// Returns a courier for all accounts. Without a sink, events are finished at once.
    pub fn new(home: Arc<dyn Home>, sink: Option<Arc<dyn Sink>>) -> Self {
        Self {
            home,
            sink,
            options: Options::default(),
            limits: Arc::default(),
            only: None,
            collecting: None,
            resetting: None,
            followed: None,
            stopped: Arc::default(),
            metrics: Metrics::default(),
            known: HashMap::new(),
            waiting: BTreeMap::new(),
            busy: HashSet::new(),
            under_way: HashMap::new(),
            again: 0,
            hot: HashMap::new(),
        }
    }

    /// Restricts the courier to one account.
    #[must_use]
    pub fn only(self, account: impl Into<String>) -> Self {
        Self { only: Some(account.into()), ..self }
    }

    /// Enables the repair of memories that other programs wrote or changed.
    #[must_use]
    pub fn repairing(self) -> Self {
        Self { followed: Some(HashMap::new()), ..self }
    }

    /// Enables garbage collection of sessions.
    #[must_use]
    pub fn collecting(self, collecting: Collecting) -> Self {
        Self { collecting: Some(collecting), ..self }
    }

    /// Enables resets of sessions that are due by the settings of their agents. The model, if any, is asked
    /// what to remember of each.
    #[must_use]
    pub fn resetting(self, model: Option<ServedModel>) -> Self {
        Self { resetting: Some(Resets::new(model, &self.limits)), ..self }
    }

    /// Sets the limits. Default: [`Limits::default`].
    #[must_use]
    pub fn limits(self, limits: &Limits) -> Self {
        let resetting = self.resetting.map(|resets| resets.limits(limits));
        Self { limits: Arc::new(limits.clone()), resetting, ..self }
    }

    /// Sets the metrics that count the work.
    #[must_use]
    pub fn metrics(self, metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone(), ..self }
    }

    /// Sets the options of the worker, such as the lease time of events.
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Works until stopped. Then deliveries in flight are finished, and events that were only claimed
    /// are given back.
    pub async fn run(self, stopping: watch::Receiver<bool>) {
        let env = self.home.env().clone();
        env.serving(self.work(stopping)).await;
    }

    async fn work(mut self, mut stopping: watch::Receiver<bool>) {
        let mut tasks = Tasks::default();
        self.sink = self.sink.map(|sink| self.metrics.sink(sink));
        self.resetting = self.resetting.map(|resetting| resetting.metrics(&self.metrics));
        let (mut next_round, mut next_tick) = (Instant::now(), Instant::now());
        loop {
            let now = Instant::now();
            let is_round = now >= next_round;
            if is_round || now >= next_tick {
                // Cut off by the end: a database that hangs must not delay it.
                tokio::select! {
                    () = told_to_stop(&mut stopping) => break,
                    () = self.check(is_round) => {}
                }
            }
            if is_round {
                // So that checks take at most a tenth of the time, however many accounts there are.
                next_round = Instant::now() + self.limits.courier_interval.max(now.elapsed() * 10);
            }
            next_tick = Instant::now() + self.limits.courier_tick;
            self.visit(&mut tasks);
            // Without accounts that have recent commits, a tick has nothing to check.
            let wake = if self.hot.is_empty() { next_round } else { next_round.min(next_tick) };
            let Tasks { visits, deliveries } = &mut tasks;
            tokio::select! {
                () = told_to_stop(&mut stopping) => break,
                () = sleep_until(wake) => {}
                Some(visited) = visits.join_next(), if !visits.is_empty() => {
                    self.visited(visited.ok(), deliveries);
                }
                Some(delivered) = deliveries.join_next(), if !deliveries.is_empty() => {
                    self.delivered(delivered.ok());
                }
            }
        }
        // Before the visits are awaited, so that they claim no more events.
        self.stopped.store(true, Ordering::Release);
        while let Some(visited) = tasks.visits.join_next().await {
            // Their deliveries see `stopped`, and give the claimed events back.
            self.visited(visited.ok(), &mut tasks.deliveries);
        }
        while tasks.deliveries.join_next().await.is_some() {}
    }

    /// Checks all accounts in a round, and otherwise those with recent commits.
    async fn check(&mut self, is_round: bool) {
        if is_round { self.round().await } else { self.tick().await }
    }

    /// Checks all accounts, and lets go of those that were deleted.
    async fn round(&mut self) {
        if let Err(error) = self.home.continue_deletions().await {
            tracing::warn!(%error, "deletions of accounts cannot be continued");
        }
        let (mut after, mut there) = (String::new(), HashSet::new());
        loop {
            let accounts = match self.home.accounts(&after, PAGE).await {
                Ok(accounts) => accounts,
                Err(error) => return tracing::warn!(%error, "the accounts cannot be listed"),
            };
            let Some(last) = accounts.last() else { break };
            after.clone_from(&last.id);
            let is_one = |account: &Account| {
                account.state == AccountState::Active
                    && self.only.as_ref().is_none_or(|only| *only == account.id)
            };
            let accounts: Vec<Account> = accounts.into_iter().filter(is_one).collect();
            there.extend(accounts.iter().map(|account| account.folder.clone()));
            self.look(accounts).await;
        }
        // Accounts that were deleted, or the state would grow with every account there ever was.
        self.known.retain(|folder, _| there.contains(folder));
        self.followed.iter_mut().for_each(|known| known.retain(|folder, _| there.contains(folder)));
        self.hot.retain(|folder, (_, rounds)| {
            *rounds = rounds.saturating_sub(1);
            *rounds > 0 && there.contains(folder)
        });
    }

    /// Checks the accounts with recent commits.
    async fn tick(&mut self) {
        let hot = self.hot.values().map(|(account, _)| account.clone()).collect();
        self.look(hot).await;
    }

    /// Queues the accounts that have changed, or that have work due.
    async fn look(&mut self, accounts: Vec<Account>) {
        let marks = match self.home.marks(accounts.clone()).await {
            Ok(marks) => marks,
            Err(error) => return tracing::warn!(%error, "the accounts cannot be checked"),
        };
        let now = self.home.env().now();
        for (account, mark) in accounts.into_iter().zip(marks) {
            let known = self.known.get(&account.folder);
            let is_changed = known.is_none_or(|known| known.mark != mark);
            let is_due = known.and_then(|known| known.due).is_some_and(|due| due <= now);
            // The first round sees every account as changed; that is no sign of recent commits.
            if is_changed && known.is_some() && self.hot.len() < self.limits.courier_hot_accounts {
                self.hot.insert(account.folder.clone(), (account.clone(), HOT));
            }
            if is_changed || is_due {
                self.waiting.insert(account.folder.clone(), (account, true));
            }
        }
    }

    /// Starts visits while there is room for them.
    fn visit(&mut self, tasks: &mut Tasks) {
        while tasks.visits.len() < self.limits.courier_visits {
            // One visit of an account at a time: two would claim and repair the same.
            let free = self.waiting.keys().find(|folder| !self.busy.contains(*folder)).cloned();
            let Some((account, is_whole)) = free.and_then(|folder| self.waiting.remove(&folder)) else {
                return;
            };
            self.busy.insert(account.folder.clone());
            let repairs = match &mut self.followed {
                // The visit takes the position, and returns the next one.
                Some(followed) if is_whole => Repairs::From(followed.remove(&account.folder)),
                _ => Repairs::No,
            };
            let own = self.under_way.get(&account.folder).copied().unwrap_or_default();
            // Divided among the visits that may run at once, so that together they claim no more than may be
            // delivered.
            let in_all = self.limits.deliveries.saturating_sub(tasks.deliveries.len());
            let again_in_all = (self.limits.deliveries / AGAIN_OF).saturating_sub(self.again);
            let work = Work {
                home: Arc::clone(&self.home),
                delivers: self.sink.is_some(),
                room: Room {
                    all: OF_ACCOUNT.saturating_sub(own.all).min(in_all / self.limits.courier_visits),
                    again: AGAIN.saturating_sub(own.again).min(again_in_all),
                },
                options: self.options,
                limits: Arc::clone(&self.limits),
                stopped: Arc::clone(&self.stopped),
                // A visit after a delivery only looks at the outbox.
                collecting: self.collecting.filter(|_| is_whole),
                resetting: self.resetting.clone().filter(|_| is_whole),
                repairs,
                looks: self.known.get(&account.folder).map(|known| known.looks.clone()).unwrap_or_default(),
            };
            let (of, env) = (account.clone(), self.home.env().clone());
            let visit = async move {
                // Read before the visit, so that a commit made meanwhile gives another mark and another
                // visit.
                let marks = work.home.marks(vec![of.clone()]).await;
                let mark = marks.ok().and_then(|marks| marks.first().copied()).unwrap_or_default();
                (mark, work.run(&of).await)
            };
            let working = self.metrics.working(WorkKind::Visit);
            let span = tracing::error_span!("visit", account = account.id);
            let visiting = async move {
                let _working = working;
                let visited = compute(&env, &account.id, 0, visit).await;
                let (mark, outcome) = visited.unwrap_or_else(|error| (Mark::default(), Err(error)));
                VisitResult { account, is_whole, mark, outcome }
            };
            tasks.visits.spawn(visiting.instrument(span));
        }
    }

    /// Records what a visit has left, and starts to deliver the events that it has claimed.
    fn visited(&mut self, visited: Option<VisitResult>, deliveries: &mut JoinSet<(Account, bool)>) {
        // If a visit panicked outside its work, its account stays busy until the process ends. None does.
        let Some(VisitResult { account, is_whole, mark, outcome }) = visited else { return };
        self.busy.remove(&account.folder);
        let is_gone = outcome.as_ref().is_err_and(|error| error.is(ErrorKind::NotFound));
        self.metrics.worked(WorkKind::Visit, outcome.is_ok() || is_gone);
        let now = self.home.env().now();
        // After an error, the looks start again.
        let mut looks = Looks::default();
        let due = match outcome {
            Ok(Left { more, next, followed, looks: left, claimed, tree }) => {
                looks = left;
                if let (Some(known), Some(follow)) = (&mut self.followed, followed) {
                    known.insert(account.folder.clone(), follow);
                }
                if let (Some(tree), Some(sink)) = (tree, &self.sink) {
                    for event in claimed {
                        let own = self.under_way.entry(account.folder.clone()).or_default();
                        own.all += 1;
                        own.again += usize::from(event.failed_before());
                        self.again += usize::from(event.failed_before());
                        deliveries.spawn(delivery(&*self.home, &account, event, &tree, sink));
                    }
                }
                if more {
                    self.wait_in_line(account.clone(), is_whole);
                }
                // An account in line is visited anyway.
                next.filter(|_| !more)
            }
            // The account was deleted.
            Err(error) if error.is(ErrorKind::NotFound) => None,
            Err(error) => {
                let span = tracing::error_span!("visit", account = account.id);
                span.in_scope(|| tracing::warn!(%error, "an account cannot be processed"));
                Some(after(now, self.limits.courier_retry))
            }
        };
        if !is_whole {
            // An outbox visit has not looked at the rest of the account, so its mark must not count as seen.
            let known = self.known.entry(account.folder).or_default();
            known.due = [known.due, due].into_iter().flatten().min();
            return;
        }
        // A commit within the same clock tick as this mark would leave no other one, and be missed.
        let is_young = mark.changed().is_some_and(|changed| now.0.saturating_sub(changed.0) < YOUNG);
        let mark = if is_young { Mark::default() } else { mark };
        self.known.insert(account.folder, LastVisit { mark, due, looks });
    }

    /// Frees the place of a finished delivery, and queues the account for its next events.
    fn delivered(&mut self, delivered: Option<(Account, bool)>) {
        // If a delivery panicked outside its work, its place stays taken. None does.
        let Some((account, failed_before)) = delivered else { return };
        self.again -= usize::from(failed_before);
        if let Some(under_way) = self.under_way.get_mut(&account.folder) {
            under_way.all -= 1;
            under_way.again -= usize::from(failed_before);
            if under_way.all == 0 {
                self.under_way.remove(&account.folder);
            }
        }
        self.wait_in_line(account, false);
    }

    fn wait_in_line(&mut self, account: Account, is_whole: bool) {
        let waiting = self.waiting.entry(account.folder.clone()).or_insert((account, false));
        // A full visit in line stays one.
        waiting.1 |= is_whole;
    }
}

/// Returns the delivery of an event. Reading and masking it counts as computing of its account; while the
/// sink works, no thread waits.
fn delivery(
    home: &dyn Home,
    account: &Account,
    event: Claimed,
    tree: &Arc<dyn AccountStore>,
    sink: &Arc<dyn Sink>,
) -> impl Future<Output = (Account, bool)> + Send + 'static {
    let failed_before = event.failed_before();
    let (env, account, tree, sink) =
        (home.env().clone(), account.clone(), Arc::clone(tree), Arc::clone(sink));
    let span = tracing::error_span!("delivery", account = account.id);
    let delivering = async move {
        let work = async move { event.deliver(&*tree, &*sink).await.map(drop) };
        if let Err(error) = compute(&env, &account.id, 0, work).await.flatten() {
            tracing::warn!(%error, "the end of a delivery cannot be recorded");
        }
        (account, failed_before)
    };
    delivering.instrument(span)
}

/// Work to do for an account in one visit.
struct Work {
    home: Arc<dyn Home>,
    /// False if events are finished at once, because there is no sink.
    delivers: bool,
    /// Limits on the events to claim.
    room: Room,
    options: Options,
    limits: Arc<Limits>,
    stopped: Arc<AtomicBool>,
    collecting: Option<Collecting>,
    resetting: Option<Resets>,
    repairs: Repairs,
    looks: Looks,
}

impl Work {
    /// Does the work of one visit: repairs first, because they create events.
    async fn run(self, account: &Account) -> Result<Left> {
        let (env, tree) = (self.home.env(), self.home.open(&account.id).await?);
        let (claimed, looks) = (Vec::new(), Looks::default());
        let mut left = Left { more: false, next: None, followed: None, looks, claimed, tree: None };
        // Each kind of work is independent: if one fails, the others continue.
        if let Repairs::From(follow) = self.repairs {
            match repair::step(&*tree, &account.id, env, follow, self.limits.repair_steps).await {
                Ok((follow, next)) => {
                    left.followed = Some(follow);
                    match next {
                        Next::Now => left.more = true,
                        Next::At(due) => left.due(due),
                        Next::Commit => {}
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "memories cannot be followed");
                    left.due(after(env.now(), self.limits.courier_retry));
                }
            }
        }
        if let Some(collecting) = self.collecting {
            match collect::step(&*tree, env, collecting, self.limits.collect_sessions, self.looks.collect)
                .await
            {
                Ok(collect::Left { more, next, after }) => {
                    left.looks.collect = after;
                    left.more |= more;
                    next.into_iter().for_each(|due| left.due(due));
                }
                Err(error) => {
                    tracing::warn!(%error, "sessions cannot be collected");
                    left.due(after(env.now(), self.limits.courier_retry));
                }
            }
        }
        if let Some(resets) = &self.resetting {
            match resets.step(&tree, &account.id, env, self.looks.reset).await {
                Ok(collect::Left { more, next, after }) => {
                    left.looks.reset = after;
                    left.more |= more;
                    next.into_iter().for_each(|due| left.due(due));
                }
                Err(error) => {
                    tracing::warn!(%error, "sessions cannot be reset");
                    left.due(after(env.now(), self.limits.courier_retry));
                }
            }
        }
        let mut worker = Worker::new(env.clone(), &account.id, self.options).until(Arc::clone(&self.stopped));
        for _ in 0..RUNS {
            let again = left.claimed.iter().filter(|event| event.failed_before()).count();
            let room = Room {
                all: self.room.all.saturating_sub(left.claimed.len()),
                again: self.room.again.saturating_sub(again),
            };
            // Failed events may be due without room for them.
            if room.again == 0 {
                left.due(env.now().plus_seconds(NO_ROOM));
            }
            let progress = match self.delivers {
                // The end of a delivery starts the next visit; `NO_ROOM` covers room that another account
                // frees.
                true if room.all == 0 => {
                    left.due(env.now().plus_seconds(NO_ROOM));
                    left.tree = Some(tree);
                    return Ok(left);
                }
                true => {
                    let (progress, claimed) = match worker.claim(&*tree, room).await {
                        Ok(claimed) => claimed,
                        // Events that are already claimed are delivered first; the error is logged, and
                        // claiming is retried later.
                        Err(error) if !left.claimed.is_empty() => {
                            tracing::warn!(%error, "no more of an outbox can be read");
                            left.due(after(env.now(), self.limits.courier_retry));
                            left.tree = Some(tree);
                            return Ok(left);
                        }
                        Err(error) => return Err(error),
                    };
                    left.claimed.extend(claimed);
                    progress
                }
                false => worker.run_once(&*tree, None).await?,
            };
            if !progress.more || self.stopped.load(Ordering::Acquire) {
                progress.next.into_iter().for_each(|due| left.due(due));
                left.tree = Some(tree);
                return Ok(left);
            }
        }
        // The claims of this visit are used up, but there are more events.
        Ok(Left { more: true, tree: Some(tree), ..left })
    }
}

impl Left {
    /// Brings the next visit forward to `at`.
    fn due(&mut self, at: Timestamp) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}
