//! The courier: one task that works on the outboxes of all accounts of a data folder, and repairs their
//! context nodes, and collects and resets what is due of their sessions, whoever commits.
//!
//! Accounts are not opened to see whether there is anything new: the files of their databases tell
//! ([`DataDir::marks`]). All are looked at once a second, or more seldom if that took more than a tenth of
//! the time, and 20 times a second those that had commits a moment ago.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use garth::agent::node::{Follow, Next};
use garth::agent::outbox::{Options, Sink, Worker};
use garth::datadir::{Account, AccountState, Mark};
use garth::model::Timestamp;
use garth::{DataDir, ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::chat_model::ServedModel;
use crate::collect::Collecting;
use crate::connection::told_to_stop;
use crate::resets::Resets;
use crate::{collect, repair};

/// How often all accounts are looked at, and those that had commits a moment ago.
const ROUND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(50);

/// For how long an account counts as one that had commits a moment ago, in rounds; and how many do.
const HOT: u32 = 30;
const MOST_HOT: usize = 64;

/// Accounts that are looked at in one call.
const PAGE: usize = 500;

/// Accounts that are worked on at a time.
const AT_ONCE: usize = 4;

/// How long an account that could not be worked on is left alone, in seconds.
const PAUSE: i64 = 10;

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
    only: Option<String>,
    /// Whether and what is collected of sessions.
    collecting: Option<Collecting>,
    /// How sessions are reset, if they are.
    resetting: Option<Resets>,
    /// How far each account was followed for repair, by its folder; none if nothing is repaired.
    followed: Option<HashMap<String, Follow>>,
    stopped: Arc<AtomicBool>,
    known: HashMap<String, Known>,
    /// Accounts to be visited, in their turn.
    waiting: BTreeMap<String, Account>,
    busy: HashSet<String>,
    hot: HashMap<String, (Account, u32)>,
}

/// What is known of an account, by its folder.
#[derive(Clone, Debug, Default)]
struct Known {
    mark: Mark,
    /// When something of it is due.
    due: Option<Timestamp>,
}

/// How a visit ended.
struct Visited {
    account: Account,
    mark: Mark,
    outcome: Result<Left>,
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
}

impl Courier {
    /// For all accounts; without a sink events are finished at once.
    pub fn new(data: DataDir, sink: Option<Arc<dyn Sink>>) -> Self {
        Self {
            data,
            sink,
            options: Options::default(),
            only: None,
            collecting: None,
            resetting: None,
            followed: None,
            stopped: Arc::default(),
            known: HashMap::new(),
            waiting: BTreeMap::new(),
            busy: HashSet::new(),
            hot: HashMap::new(),
        }
    }

    /// For one account alone.
    #[must_use]
    pub fn only(self, account: impl Into<String>) -> Self {
        Self { only: Some(account.into()), ..self }
    }

    /// Repairs context nodes, too, that other programs wrote or changed.
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
        Self { resetting: Some(Resets::new(model)), ..self }
    }

    /// With another time that events are held.
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Works until told to stop. What is being delivered then is finished, what was only claimed given back.
    pub async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let mut visits = JoinSet::new();
        let (mut next_round, mut next_tick) = (Instant::now(), Instant::now());
        loop {
            let now = Instant::now();
            if now >= next_round {
                self.round().await;
                // looking takes at most a tenth of the time
                next_round = Instant::now() + ROUND.max(now.elapsed() * 10);
            } else if now >= next_tick {
                self.tick().await;
            }
            next_tick = Instant::now() + TICK;
            self.visit(&mut visits);
            let wake = if self.hot.is_empty() { next_round } else { next_round.min(next_tick) };
            tokio::select! {
                () = told_to_stop(&mut stopping) => break,
                () = sleep_until(wake) => {}
                Some(visited) = visits.join_next(), if !visits.is_empty() => self.visited(visited.ok()),
            }
        }
        self.stopped.store(true, Ordering::Release);
        while visits.join_next().await.is_some() {}
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
            if is_changed && known.is_some() && self.hot.len() < MOST_HOT {
                self.hot.insert(account.folder.clone(), (account.clone(), HOT));
            }
            if is_changed || is_due {
                self.waiting.insert(account.folder.clone(), account);
            }
        }
    }

    /// Begins visits, as many as there may be at a time.
    fn visit(&mut self, visits: &mut JoinSet<Visited>) {
        while visits.len() < AT_ONCE {
            let free = self.waiting.keys().find(|folder| !self.busy.contains(*folder)).cloned();
            let Some(account) = free.and_then(|folder| self.waiting.remove(&folder)) else { return };
            self.busy.insert(account.folder.clone());
            let repairs = match &mut self.followed {
                Some(followed) => Repairs::From(followed.remove(&account.folder)),
                None => Repairs::No,
            };
            let work = Work {
                data: self.data.clone(),
                sink: self.sink.clone(),
                options: self.options,
                stopped: Arc::clone(&self.stopped),
                collecting: self.collecting,
                resetting: self.resetting.clone(),
                repairs,
            };
            let runtime = Handle::current();
            let visit = async move {
                // before it is read: what comes meanwhile leaves another
                let marks = work.data.marks(vec![account.clone()]).await;
                let mark = marks.ok().and_then(|marks| marks.first().copied()).unwrap_or_default();
                let outcome = work.run(&account).await;
                Visited { account, mark, outcome }
            };
            // it may read and judge for long: not on a worker of the runtime
            visits.spawn_blocking(move || runtime.block_on(visit));
        }
    }

    fn visited(&mut self, visited: Option<Visited>) {
        // a visit that panicked leaves its account alone until the process ends; nothing here does
        let Some(Visited { account, mark, outcome }) = visited else { return };
        self.busy.remove(&account.folder);
        let now = self.data.env().now();
        let due = match outcome {
            Ok(Left { more, next, followed }) => {
                if let (Some(known), Some(follow)) = (&mut self.followed, followed) {
                    known.insert(account.folder.clone(), follow);
                }
                if more {
                    self.waiting.insert(account.folder.clone(), account.clone());
                }
                next.filter(|_| !more)
            }
            Err(error) if error.is(ErrorKind::NotFound) => None,
            Err(error) => {
                tracing::warn!(account = account.id, %error, "an outbox cannot be worked on");
                Some(now.plus_seconds(PAUSE))
            }
        };
        let is_young = mark.changed().is_some_and(|changed| now.0.saturating_sub(changed.0) < YOUNG);
        let mark = if is_young { Mark::default() } else { mark };
        self.known.insert(account.folder, Known { mark, due });
    }
}

/// What there is to do for an account.
struct Work {
    data: DataDir,
    sink: Option<Arc<dyn Sink>>,
    options: Options,
    stopped: Arc<AtomicBool>,
    collecting: Option<Collecting>,
    resetting: Option<Resets>,
    repairs: Repairs,
}

impl Work {
    /// Works on one account for a while: repairs first, since that makes events.
    async fn run(self, account: &Account) -> Result<Left> {
        let (env, tree) = (self.data.env(), self.data.account(&account.id).await?);
        let mut left = Left { more: false, next: None, followed: None };
        // if one of them fails the others go on
        if let Repairs::From(follow) = self.repairs {
            match repair::step(&*tree, &account.id, env, follow).await {
                Ok((follow, next)) => {
                    left.followed = Some(follow);
                    match next {
                        Next::Now => left.more = true,
                        Next::At(due) => left.due(due),
                        Next::Commit => {}
                    }
                }
                Err(error) => {
                    tracing::warn!(account = account.id, %error, "context nodes cannot be followed");
                    left.due(env.now().plus_seconds(PAUSE));
                }
            }
        }
        if let Some(collecting) = self.collecting {
            match collect::step(&*tree, &account.id, env, collecting).await {
                Ok(collect::Left { more, next }) => {
                    left.more |= more;
                    next.into_iter().for_each(|due| left.due(due));
                }
                Err(error) => {
                    tracing::warn!(account = account.id, %error, "sessions cannot be collected");
                    left.due(env.now().plus_seconds(PAUSE));
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
                    tracing::warn!(account = account.id, %error, "sessions cannot be reset");
                    left.due(env.now().plus_seconds(PAUSE));
                }
            }
        }
        let mut worker = Worker::new(env.clone(), &account.id, self.options).until(Arc::clone(&self.stopped));
        for _ in 0..RUNS {
            let progress = worker.run_once(&*tree, self.sink.as_deref()).await?;
            if !progress.more || self.stopped.load(Ordering::Acquire) {
                progress.next.into_iter().for_each(|due| left.due(due));
                return Ok(left);
            }
        }
        Ok(Left { more: true, ..left })
    }
}

impl Left {
    /// Something is to be done at this time.
    fn due(&mut self, at: Timestamp) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}
