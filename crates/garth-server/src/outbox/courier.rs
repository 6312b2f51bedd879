//! The courier: one task that works on the outboxes of all accounts of a data folder, and repairs their
//! memories, and collects and resets what is due of their sessions, whoever commits.
//!
//! Accounts are not opened to see whether there is anything new: the files of their databases tell
//! ([`DataDir::marks`]). All are looked at once a second, or more seldom if that took more than a tenth of
//! the time, and 20 times a second those that had commits a moment ago.
//!
//! A visit claims what is due and ends; each event is delivered by itself, and its end brings the next visit.
//! A sink that hangs keeps no visit waiting, and so no other memory and no other account.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use garth_agent::memory::{Follow, Next};
use garth_agent::outbox::{AGAIN, AT_ONCE as OF_ACCOUNT, Claimed, Options, Room, Sink, Worker};
use garth_engine::datadir::{Account, AccountState, Mark};
use garth_engine::model::Timestamp;
use garth_engine::{AccountStore, DataDir, ErrorKind, Result};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::Instrument as _;

use crate::chat_model::ServedModel;
use crate::collect::Collecting;
use crate::compute::compute;
use crate::connection::told_to_stop;
use crate::limits::{Limits, after};
use crate::resets::Resets;
use crate::{collect, repair};

/// For how long an account counts as one that had commits a moment ago, in rounds.
const HOT: u32 = 30;

/// Accounts that are looked at in one call.
const PAGE: usize = 500;

/// Share of the deliveries of all accounts that may be of events that failed before, as a divisor: the rest
/// is for those that are delivered for the first time, so that memories to which a sink does not listen leave
/// room for the others.
const AGAIN_OF: usize = 4;

/// When an account is visited again for which no room was left in all, in seconds.
const NO_ROOM: i64 = 1;

/// Runs of one visit: then it is the turn of others.
const RUNS: usize = 16;

/// A mark that is younger is not relied on, in nanoseconds: more than a tick of a file system's clock.
const YOUNG: i64 = 100_000_000;

/// Works on the outboxes of a data folder.
#[derive(Debug)]
pub struct Courier {
    data: DataDir,
    sink: Option<Arc<dyn Sink>>,
    options: Options,
    /// Those of the server. An account has [`OF_ACCOUNT`] of its deliveries at most.
    limits: Arc<Limits>,
    only: Option<String>,
    /// Whether and what is collected of sessions.
    collecting: Option<Collecting>,
    /// How sessions are reset, if they are.
    resetting: Option<Resets>,
    /// How far each account was followed for repair, by its folder; none if nothing is repaired.
    followed: Option<HashMap<String, Follow>>,
    stopped: Arc<AtomicBool>,
    known: HashMap<String, Known>,
    /// Accounts to be visited, in their turn, and whether for more than their outbox.
    waiting: BTreeMap<String, (Account, bool)>,
    busy: HashSet<String>,
    /// How many events of each account are being delivered, by its folder.
    under_way: HashMap<String, UnderWay>,
    /// Number of all these that failed before.
    again: usize,
    hot: HashMap<String, (Account, u32)>,
}

/// What is known of an account, by its folder.
#[derive(Clone, Debug, Default)]
struct Known {
    mark: Mark,
    /// When something of it is due.
    due: Option<Timestamp>,
}

/// Events that are being delivered.
#[derive(Clone, Copy, Debug, Default)]
struct UnderWay {
    all: usize,
    /// Number of these that failed before.
    again: usize,
}

/// How a visit ended.
struct Visited {
    account: Account,
    is_whole: bool,
    mark: Mark,
    outcome: Result<Left>,
}

/// The tasks of a courier.
#[derive(Default)]
struct Tasks {
    visits: JoinSet<Visited>,
    /// Each returns the account whose event it has delivered, and true if the event failed before.
    deliveries: JoinSet<(Account, bool)>,
}

/// What a visit is to do for repair.
enum Repairs {
    No,
    /// From where the account was followed to.
    From(Option<Follow>),
}

/// What a visit left.
struct Left {
    more: bool,
    next: Option<Timestamp>,
    followed: Option<Follow>,
    /// Events that were claimed, and their tree.
    claimed: Vec<Claimed>,
    tree: Option<Arc<dyn AccountStore>>,
}

impl Courier {
    /// For all accounts; without a sink events are finished at once.
    pub fn new(data: DataDir, sink: Option<Arc<dyn Sink>>) -> Self {
        Self {
            data,
            sink,
            options: Options::default(),
            limits: Arc::default(),
            only: None,
            collecting: None,
            resetting: None,
            followed: None,
            stopped: Arc::default(),
            known: HashMap::new(),
            waiting: BTreeMap::new(),
            busy: HashSet::new(),
            under_way: HashMap::new(),
            again: 0,
            hot: HashMap::new(),
        }
    }

    /// For one account alone.
    #[must_use]
    pub fn only(self, account: impl Into<String>) -> Self {
        Self { only: Some(account.into()), ..self }
    }

    /// Repairs memories, too, that other programs wrote or changed.
    #[must_use]
    pub fn repairing(self) -> Self {
        Self { followed: Some(HashMap::new()), ..self }
    }

    /// Collects what is due of sessions, too.
    #[must_use]
    pub fn collecting(self, collecting: Collecting) -> Self {
        Self { collecting: Some(collecting), ..self }
    }

    /// Resets sessions that are due by the settings of their agents, too; a model, if there is one, is asked
    /// what to remember of them.
    #[must_use]
    pub fn resetting(self, model: Option<ServedModel>) -> Self {
        Self { resetting: Some(Resets::new(model, &self.limits)), ..self }
    }

    /// Works within these limits. Default: [`Limits::default`].
    #[must_use]
    pub fn limits(self, limits: &Limits) -> Self {
        let resetting = self.resetting.map(|resets| resets.limits(limits));
        Self { limits: Arc::new(limits.clone()), resetting, ..self }
    }

    /// With another time that events are held.
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Works until told to stop. What is being delivered then is finished, what was only claimed given back.
    pub async fn run(self, stopping: watch::Receiver<bool>) {
        let env = self.data.env().clone();
        env.serving(self.work(stopping)).await;
    }

    async fn work(mut self, mut stopping: watch::Receiver<bool>) {
        let mut tasks = Tasks::default();
        let (mut next_round, mut next_tick) = (Instant::now(), Instant::now());
        loop {
            let now = Instant::now();
            if now >= next_round {
                self.round().await;
                // looking takes at most a tenth of the time
                next_round = Instant::now() + self.limits.courier_interval.max(now.elapsed() * 10);
            } else if now >= next_tick {
                self.tick().await;
            }
            next_tick = Instant::now() + self.limits.courier_tick;
            self.visit(&mut tasks);
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
        self.stopped.store(true, Ordering::Release);
        while let Some(visited) = tasks.visits.join_next().await {
            // what it has claimed is given back: its deliveries see that they are to stop
            self.visited(visited.ok(), &mut tasks.deliveries);
        }
        while tasks.deliveries.join_next().await.is_some() {}
    }

    /// Looks at all accounts.
    async fn round(&mut self) {
        let (mut after, mut there) = (String::new(), HashSet::new());
        loop {
            let accounts = match self.data.control().accounts_after(&after, PAGE).await {
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
        self.known.retain(|folder, _| there.contains(folder));
        self.followed.iter_mut().for_each(|known| known.retain(|folder, _| there.contains(folder)));
        self.hot.retain(|folder, (_, rounds)| {
            *rounds = rounds.saturating_sub(1);
            *rounds > 0 && there.contains(folder)
        });
    }

    /// Looks at those that had commits a moment ago.
    async fn tick(&mut self) {
        let hot = self.hot.values().map(|(account, _)| account.clone()).collect();
        self.look(hot).await;
    }

    /// Puts accounts into the queue that have changed, or of which something is due.
    async fn look(&mut self, accounts: Vec<Account>) {
        let marks = match self.data.marks(accounts.clone()).await {
            Ok(marks) => marks,
            Err(error) => return tracing::warn!(%error, "the accounts cannot be looked at"),
        };
        let now = self.data.env().now();
        for (account, mark) in accounts.into_iter().zip(marks) {
            let known = self.known.get(&account.folder);
            let is_changed = known.is_none_or(|known| known.mark != mark);
            let is_due = known.and_then(|known| known.due).is_some_and(|due| due <= now);
            if is_changed && known.is_some() && self.hot.len() < self.limits.courier_hot_accounts {
                self.hot.insert(account.folder.clone(), (account.clone(), HOT));
            }
            if is_changed || is_due {
                self.waiting.insert(account.folder.clone(), (account, true));
            }
        }
    }

    /// Begins visits, as many as there may be at a time.
    fn visit(&mut self, tasks: &mut Tasks) {
        while tasks.visits.len() < self.limits.courier_visits {
            let free = self.waiting.keys().find(|folder| !self.busy.contains(*folder)).cloned();
            let Some((account, is_whole)) = free.and_then(|folder| self.waiting.remove(&folder)) else {
                return;
            };
            self.busy.insert(account.folder.clone());
            let repairs = match &mut self.followed {
                Some(followed) if is_whole => Repairs::From(followed.remove(&account.folder)),
                _ => Repairs::No,
            };
            let own = self.under_way.get(&account.folder).copied().unwrap_or_default();
            let in_all = self.limits.deliveries.saturating_sub(tasks.deliveries.len());
            let again_in_all = (self.limits.deliveries / AGAIN_OF).saturating_sub(self.again);
            let work = Work {
                data: self.data.clone(),
                delivers: self.sink.is_some(),
                room: Room {
                    all: OF_ACCOUNT.saturating_sub(own.all).min(in_all / self.limits.courier_visits),
                    again: AGAIN.saturating_sub(own.again).min(again_in_all),
                },
                options: self.options,
                limits: Arc::clone(&self.limits),
                stopped: Arc::clone(&self.stopped),
                collecting: self.collecting.filter(|_| is_whole),
                resetting: self.resetting.clone().filter(|_| is_whole),
                repairs,
            };
            let (of, env) = (account.clone(), self.data.env().clone());
            let visit = async move {
                // before it is read: what comes meanwhile leaves another
                let marks = work.data.marks(vec![of.clone()]).await;
                let mark = marks.ok().and_then(|marks| marks.first().copied()).unwrap_or_default();
                (mark, work.run(&of).await)
            };
            let span = tracing::error_span!("visit", account = account.id);
            let visiting = async move {
                let visited = compute(&env, &account.id, 0, visit).await;
                let (mark, outcome) = visited.unwrap_or_else(|error| (Mark::default(), Err(error)));
                Visited { account, is_whole, mark, outcome }
            };
            tasks.visits.spawn(visiting.instrument(span));
        }
    }

    /// Notes what a visit left, and begins to deliver what it has claimed.
    fn visited(&mut self, visited: Option<Visited>, deliveries: &mut JoinSet<(Account, bool)>) {
        // a visit that panicked outside of its work leaves its account alone until the process ends; none
        // does
        let Some(Visited { account, is_whole, mark, outcome }) = visited else { return };
        self.busy.remove(&account.folder);
        let now = self.data.env().now();
        let due = match outcome {
            Ok(Left { more, next, followed, claimed, tree }) => {
                if let (Some(known), Some(follow)) = (&mut self.followed, followed) {
                    known.insert(account.folder.clone(), follow);
                }
                if let (Some(tree), Some(sink)) = (tree, &self.sink) {
                    for event in claimed {
                        let own = self.under_way.entry(account.folder.clone()).or_default();
                        own.all += 1;
                        own.again += usize::from(event.failed_before());
                        self.again += usize::from(event.failed_before());
                        deliveries.spawn(delivery(&self.data, &account, event, &tree, sink));
                    }
                }
                if more {
                    self.wait_in_line(account.clone(), is_whole);
                }
                next.filter(|_| !more)
            }
            Err(error) if error.is(ErrorKind::NotFound) => None,
            Err(error) => {
                let span = tracing::error_span!("visit", account = account.id);
                span.in_scope(|| tracing::warn!(%error, "an outbox cannot be worked on"));
                Some(after(now, self.limits.courier_retry))
            }
        };
        if !is_whole {
            // the rest of the account has not been looked at: what is known of it stays
            let known = self.known.entry(account.folder).or_default();
            known.due = [known.due, due].into_iter().flatten().min();
            return;
        }
        let is_young = mark.changed().is_some_and(|changed| now.0.saturating_sub(changed.0) < YOUNG);
        let mark = if is_young { Mark::default() } else { mark };
        self.known.insert(account.folder, Known { mark, due });
    }

    /// Makes room for the next events of an account.
    fn delivered(&mut self, delivered: Option<(Account, bool)>) {
        // a delivery that panicked outside of its work keeps its room; none does
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
        waiting.1 |= is_whole;
    }
}

/// Delivers an event. What is read and masked for it is work of its account; while the sink takes it, no
/// thread waits.
fn delivery(
    data: &DataDir,
    account: &Account,
    event: Claimed,
    tree: &Arc<dyn AccountStore>,
    sink: &Arc<dyn Sink>,
) -> impl Future<Output = (Account, bool)> + Send + 'static {
    let failed_before = event.failed_before();
    let (env, account, tree, sink) =
        (data.env().clone(), account.clone(), Arc::clone(tree), Arc::clone(sink));
    let span = tracing::error_span!("delivery", account = account.id);
    let delivering = async move {
        let work = async move { event.deliver(&*tree, &*sink).await.map(drop) };
        if let Err(error) = compute(&env, &account.id, 0, work).await.flatten() {
            tracing::warn!(%error, "the end of a delivery cannot be noted");
        }
        (account, failed_before)
    };
    delivering.instrument(span)
}

/// What there is to do for an account.
struct Work {
    data: DataDir,
    /// False if events are finished at once, because nobody is told.
    delivers: bool,
    /// How many events may be claimed.
    room: Room,
    options: Options,
    limits: Arc<Limits>,
    stopped: Arc<AtomicBool>,
    collecting: Option<Collecting>,
    resetting: Option<Resets>,
    repairs: Repairs,
}

impl Work {
    /// Works on one account for a while: repairs first, since that makes events.
    async fn run(self, account: &Account) -> Result<Left> {
        let (env, tree) = (self.data.env(), self.data.account(&account.id).await?);
        let mut left = Left { more: false, next: None, followed: None, claimed: Vec::new(), tree: None };
        // if one of them fails the others go on
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
            match collect::step(&*tree, env, collecting, self.limits.collect_sessions).await {
                Ok(collect::Left { more, next }) => {
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
            match resets.step(&tree, &account.id, env).await {
                Ok(collect::Left { more, next }) => {
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
            if room.again == 0 {
                left.due(env.now().plus_seconds(NO_ROOM));
            }
            let progress = match self.delivers {
                // the end of a delivery brings the next visit
                true if room.all == 0 => {
                    left.due(env.now().plus_seconds(NO_ROOM));
                    left.tree = Some(tree);
                    return Ok(left);
                }
                true => {
                    let (progress, claimed) = match worker.claim(&*tree, room).await {
                        Ok(claimed) => claimed,
                        // what is claimed already is delivered first
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
        Ok(Left { more: true, tree: Some(tree), ..left })
    }
}

impl Left {
    /// Something is to be done at this time.
    fn due(&mut self, at: Timestamp) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}
