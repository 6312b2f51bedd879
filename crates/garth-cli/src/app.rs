//! State that every verb needs: the home, the tree of one account, and the output.

use std::cell::OnceCell;
use std::ops::AsyncFn;
use std::sync::Arc;

use garth_agent::Access;
use garth_agent::files::{version_conditions, with_current_version, with_path};
use garth_cloud::home::Background;
use garth_engine::compute::ComputeLimits;
use garth_engine::engine::memory::MemoryFs;
use garth_engine::fs::resolve::{self, Follow, retry};
use garth_engine::home::OperatorTree;
use garth_engine::model::{
    At, Author, Batch, Commit, Entry, Head, Ino, Kind, Moment, Op, Owner, Precondition, Timestamp,
    is_after_last_time,
};
use garth_engine::{AccountStore, Env, Error, ErrorKind, FileSystem, Home, TreePath};

use crate::args::{CommitArgs, Global, Past};
use crate::config::Storage;
use crate::data_folder::DEFAULT_ACCOUNT;
use crate::escape::escaped;
use crate::fail::{Failure, Failures, NO_PARENT, Result, no_account_or};
use crate::location::Location;
use crate::opened_home::OpenedHome;
use crate::out::{Out, seconds};
use crate::place::{Place, Unmade};
use crate::{progress, when};

/// Clock difference in nanoseconds from which a warning is printed: 5 minutes.
const CLOCK_SKEW: i64 = 300_000_000_000;

/// One run of the program.
pub(crate) struct App {
    pub(crate) global: Global,
    pub(crate) out: Out,
    pub(crate) env: Env,
    /// Definition of the command line, for completion scripts.
    pub(crate) command: fn() -> clap::Command,
    home: OpenedHome,
    scratch: OnceCell<Arc<dyn FileSystem>>,
}

/// Tree to work on, with the author of commits to it.
pub(crate) struct AuthoredTree {
    /// Current state of the tree.
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) author: Author,
    /// Access of an agent, with directories that are created before the first write; `None` for an account's
    /// tree.
    unmade: Option<Unmade>,
    /// True if commits may restore attributes that only garth sets.
    imports: bool,
}

/// Operations of a commit, with their paths resolved for one attempt.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) ops: Vec<Op>,
    pub(crate) preconditions: Vec<(At, Precondition)>,
    /// Operations to print, each with its number and the path to print.
    pub(crate) shown: Vec<(usize, TreePath)>,
    /// Owner whose snapshots the operations are about, inside that of the tree.
    pub(crate) owner: Option<Owner>,
}

impl Plan {
    /// Adds an operation that is printed.
    pub(crate) fn push(&mut self, op: Op, path: TreePath) {
        self.shown.push((self.ops.len(), path));
        self.ops.push(op);
    }
}

impl App {
    pub(crate) fn new(global: Global, command: fn() -> clap::Command) -> Self {
        let out = Out::new(global.json);
        let env = Env::system();
        let home = OpenedHome::new(&env);
        Self { global, out, env, command, home, scratch: OnceCell::new() }
    }

    /// Sets the limits with which the home is opened, if it is not open yet.
    pub(crate) fn open_within(&mut self, storage: &Storage) {
        let Storage { compute_threads: threads, compute_queue: queued, compute_steps: steps, .. } = *storage;
        self.env = self.env.clone().computing_within(ComputeLimits { threads, queued, steps });
        self.home = OpenedHome::within(storage, &self.env);
    }

    /// Returns the location of the home, whether that exists or not.
    pub(crate) fn location(&self) -> Result<Location> {
        let Global { data, postgres, postgres_file, .. } = &self.global;
        Location::of(data.as_deref(), postgres.as_ref(), postgres_file.as_deref())
    }

    /// Opens the home, which must exist: only a first write creates it.
    pub(crate) async fn home(&self) -> Result<Arc<dyn Home>> {
        self.home.existing(&self.location()?, &self.env).await
    }

    /// Opens the home. Creates it if it is missing, unless it would then lack the chosen account.
    pub(crate) async fn home_of_account(&self) -> Result<Arc<dyn Home>> {
        if self.global.account == DEFAULT_ACCOUNT { self.home_or_new().await } else { self.home().await }
    }

    /// Opens the home, and creates it if it is missing.
    pub(crate) async fn home_or_new(&self) -> Result<Arc<dyn Home>> {
        self.home.existing_or_new(&self.location()?, &self.env).await
    }

    /// Returns the background work of a server on the home, unless the home does its own.
    pub(crate) fn background(&self) -> Result<Option<Background>> {
        self.home.background()
    }

    /// Returns the tree to work on: that of the chosen account, or of an agent in a chat.
    pub(crate) async fn tree(&self) -> Result<AuthoredTree> {
        if self.global.operator {
            let fs = Arc::new(OperatorTree::new(self.home().await?));
            return Ok(AuthoredTree { fs, author: self.author(), unmade: None, imports: false });
        }
        // Checked first: a bad name must not leave a new data folder behind.
        let place = Place::of(&self.global)?;
        let account = self.account_of(&*self.home().await?).await?;
        let (fs, unmade) = place.tree(account, self.scratch(), &self.env).await?;
        let author = unmade.as_ref().map_or_else(|| self.author(), Unmade::author);
        Ok(AuthoredTree { fs, author, unmade, imports: false })
    }

    /// Returns the tree for a write that may be the first one. Creates the data folder if it is missing and
    /// the chosen account is the one that every data folder has. The chat is created with the commit.
    pub(crate) async fn tree_or_new(&self) -> Result<AuthoredTree> {
        let place = Place::of(&self.global)?;
        let account = self.account_of(&*self.home_of_account().await?).await?;
        let (fs, unmade) = place.tree_or_new(account, self.scratch(), &self.env).await?;
        let author = unmade.as_ref().map_or_else(|| self.author(), Unmade::author);
        Ok(AuthoredTree { fs, author, unmade, imports: false })
    }

    /// Returns the tree to work on. With `changes`, a missing one is created, as by [`Self::tree_or_new`].
    pub(crate) async fn tree_for(&self, changes: bool) -> Result<AuthoredTree> {
        if changes { self.tree_or_new().await } else { self.tree().await }
    }

    /// Returns the chosen account. With `changes`, a missing data folder is created.
    pub(crate) async fn account_for(&self, changes: bool) -> Result<Arc<dyn AccountStore>> {
        let home = if changes { self.home_of_account().await? } else { self.home().await? };
        self.account_of(&*home).await
    }

    /// Returns the filesystem for changes of ephemeral skills, which lasts for this run.
    fn scratch(&self) -> Arc<dyn FileSystem> {
        Arc::clone(
            self.scratch.get_or_init(|| Arc::new(MemoryFs::new(self.env.clone(), garth_agent::registry()))),
        )
    }

    /// Fails if the options name the tree of an agent, for a verb that works on the account.
    pub(crate) fn only_account(&self, verb: &str) -> Result {
        if self.global.chat.names_somebody() {
            let message =
                format!("{verb} works on the account: remove --user, --key, --chat, --class and --session");
            return Err(Failure::Usage(message));
        }
        Ok(())
    }

    /// Fails in the tree of an agent or an overlay, for a verb that works on accounts as they are stored.
    pub(crate) fn no_tree(&self, verb: &str) -> Result {
        self.no_overlay(verb)?;
        self.only_account(verb)
    }

    /// Fails in an overlay, and with overridden rules, for a verb that changes no files.
    pub(crate) fn no_overlay(&self, verb: &str) -> Result {
        if self.global.operator {
            return Err(Failure::Usage(format!("{verb} works on the account: remove --operator")));
        }
        if self.global.overlay.is_some() {
            return Err(Failure::Usage(format!("{verb} works on the account: remove --overlay")));
        }
        if self.global.override_rules {
            return Err(Failure::Usage(format!(
                "{verb} writes nothing that rules apply to: remove --override-rules"
            )));
        }
        Ok(())
    }

    pub(crate) fn author(&self) -> Author {
        Author::agent(&self.global.agent)
    }

    /// Opens the chosen account.
    pub(crate) async fn account_of(&self, home: &dyn Home) -> Result<Arc<dyn AccountStore>> {
        let account = &self.global.account;
        home.open(account).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Failure::Tree(no_account_or(account, error)),
            _ => Failure::of_home(home)(error),
        })
    }

    /// Warns of an account whose last commit has a time in the future. A clock was or is wrong, and until
    /// that time `--at` with a time finds an older state.
    pub(crate) fn warn_of_clock(&self, account: &str, head: &Head) {
        let ahead = head.time.0.saturating_sub(self.env.now().0);
        if ahead > CLOCK_SKEW {
            let time = seconds(head.time);
            self.out.warn(format_args!(
                "account {}: its last commit is dated {time}, after the time of this machine. A clock was or is \
                 wrong. Until then, --at with a time shows older content, which a sequence does not, and expiry \
                 and limits on the age of the past are delayed",
                escaped(account)
            ));
        }
    }

    /// Returns the tree at the time that `--at` names, by default now.
    pub(crate) async fn view(&self, past: &Past) -> Result<Arc<dyn FileSystem>> {
        let fs = self.tree().await?.fs;
        match &past.at {
            Some(text) => Ok(self.as_of(&*fs, text).await?),
            None => Ok(fs),
        }
    }

    /// Returns the tree whose log has the commits of a path, at the time that `--at` names, and the account
    /// that it is of.
    pub(crate) async fn logged(&self, path: &str, past: &Past) -> Result<(Arc<dyn FileSystem>, String)> {
        if !self.global.operator {
            return Ok((self.view(past).await?, self.global.account.clone()));
        }
        let parsed = TreePath::parse(path).map_err(Error::from)?;
        let Some(account) = OperatorTree::account_of(&parsed) else {
            let message = format!("{path}: name a path of one account, such as /accounts/{DEFAULT_ACCOUNT}");
            return Err(Failure::Usage(message));
        };
        let fs = OperatorTree::of_account(self.home().await?, account);
        let fs: Arc<dyn FileSystem> = match &past.at {
            Some(text) => self.as_of(&fs, text).await?,
            None => Arc::new(fs),
        };
        Ok((fs, account.to_owned()))
    }

    /// Returns the tree at the time that `text` names.
    pub(crate) async fn as_of(&self, fs: &dyn FileSystem, text: &str) -> Result<Arc<dyn FileSystem>> {
        Ok(fs.as_of(&self.moment(fs, text).await?).await?)
    }

    /// Returns the time or sequence that `text` names. A snapshot is looked up in `fs`, then, for the tree of
    /// an agent, in the account.
    pub(crate) async fn moment(&self, fs: &dyn FileSystem, text: &str) -> Result<Moment> {
        match when::moment(fs, text, self.env.now()).await {
            Err(Failure::Tree(error))
                if error.is(ErrorKind::NotFound) && self.global.chat.names_somebody() =>
            {
                when::moment(&*self.account_for(false).await?, text, self.env.now()).await
            }
            found => found,
        }
    }

    /// Returns the time that `text` names: for a sequence or a snapshot, the time of its commit.
    pub(crate) async fn time(&self, past: &Past, text: &str) -> Result<Timestamp> {
        let fs = self.view(past).await?;
        match self.moment(&*fs, text).await? {
            Moment::Time(time) => Ok(time),
            moment => Ok(fs.as_of(&moment).await?.head().await?.time),
        }
    }

    /// Returns the time that an option names, relative to now, if it is given.
    pub(crate) async fn time_of(&self, option: Option<&str>) -> Result<Option<Timestamp>> {
        match option {
            Some(text) => Ok(Some(self.time(&Past::default(), text).await?)),
            None => Ok(None),
        }
    }

    /// Returns the end of a range that an option names. Any time after the last one is the last one.
    pub(crate) async fn end_time_of(&self, option: Option<&str>) -> Result<Option<Timestamp>> {
        match option.filter(|text| is_after_last_time(text)) {
            Some(_) => Ok(Some(Timestamp(i64::MAX))),
            None => self.time_of(option).await,
        }
    }

    /// Returns the tree fixed at one time, for work that takes several reads: the time of `--at`, else now.
    pub(crate) async fn pinned(&self, past: &Past) -> Result<Arc<dyn FileSystem>> {
        let fs = self.view(past).await?;
        // Skills, overlays and the tree of all accounts have no log, so each read sees their current state.
        let has_no_log = !self.global.chat.skills.is_empty() || self.global.overlay.is_some();
        if past.at.is_some() || has_no_log || self.global.operator {
            return Ok(fs);
        }
        // The clock may have been set back since the last commit, which would then be left out.
        let now = self.env.now().max(fs.head().await?.time);
        Ok(fs.as_of(&Moment::Time(now)).await?)
    }

    /// Commits the operations of `plan` and prints them. Plans again if a path became a link in between.
    pub(crate) async fn commit(
        &mut self,
        tree: &AuthoredTree,
        args: &CommitArgs,
        plan: impl AsyncFn() -> garth_engine::Result<Plan>,
    ) -> Result {
        let done = progress::waiting("committing", tree.commit(args, plan)).await?;
        let Some((commit, plan)) = done else { return Ok(()) };
        for (op, path) in &plan.shown {
            match plan.ops.get(*op) {
                // A removed entry has no version to print.
                Some(Op::Remove { .. }) => {
                    let was_there = commit.outcomes.get(*op).is_some_and(|outcome| outcome.ino != Ino::NONE);
                    self.out.removed(&commit, was_there, path)?;
                }
                _ => self.out.committed(&commit, *op, path)?,
            }
        }
        Ok(())
    }

    /// Runs `action` on each path. Reports failures and continues with the next path.
    pub(crate) async fn each(
        &mut self,
        paths: &[String],
        action: impl AsyncFn(&mut Self, &str) -> Result,
    ) -> Result {
        // A failure of the only path is reported as such, without a count of failures.
        if let [path] = paths {
            return action(self, path).await;
        }
        let mut failures = Failures::default();
        for path in paths {
            let outcome = action(self, path).await;
            // So that the output of this path is printed before an error of the next one.
            self.out.flush()?;
            failures.add(outcome, self.global.json)?;
        }
        failures.done()
    }
}

impl AuthoredTree {
    /// Commits without printing. A plan without operations makes no commit.
    pub(crate) async fn commit(
        &self,
        args: &CommitArgs,
        plan: impl AsyncFn() -> garth_engine::Result<Plan>,
    ) -> Result<Option<(Commit, Plan)>> {
        let done = retry(&*self.fs, "/", Follow::No, |_| async {
            let plan = plan().await?;
            if plan.ops.is_empty() {
                return Ok(None);
            }
            // Before the commit, whose paths need these directories.
            self.make_for(&plan.ops).await?;
            let batch = Batch {
                ops: plan.ops.clone(),
                preconditions: plan.preconditions.clone(),
                author: self.author.clone(),
                message: args.message.clone().unwrap_or_default(),
                by_garth: self.imports,
                owner: plan.owner.clone(),
                ..Batch::default()
            };
            match self.fs.commit(batch).await {
                Ok(commit) => Ok(Some((commit, plan))),
                Err(error) if error.is(ErrorKind::Conflict) => {
                    let conditions = version_conditions(&plan.preconditions, &plan.ops);
                    Err(with_current_version(&*self.fs, &conditions, error).await)
                }
                Err(error) => Err(error),
            }
        });
        Ok(done.await?)
    }

    /// Permits commits that restore attributes of garth, such as the owner of a session: for an import into
    /// the account.
    pub(crate) fn importing(self) -> Self {
        Self { imports: self.unmade.is_none(), ..self }
    }

    /// Returns the access of the agent, if the tree is an agent's.
    pub(crate) fn access(&self) -> Option<&Access> {
        self.unmade.as_ref().map(Unmade::access)
    }

    /// Creates the missing directories of the agent, unless an operation would fail for lack of a parent: a
    /// command that fails must leave no chat behind.
    pub(crate) async fn make_for(&self, ops: &[Op]) -> garth_engine::Result<()> {
        let Some(unmade) = &self.unmade else { return Ok(()) };
        let mut made: Vec<&TreePath> = Vec::new();
        for op in ops {
            let (Op::Write { at, parents, .. }
            | Op::Append { at, parents, .. }
            | Op::Mkdir { at, parents, .. }) = op
            else {
                // The result of other operations is not predicted here.
                break;
            };
            let At::Path(path) = at else { break };
            // The root is among the directories to be created.
            if let Some(parent) = path.parent().filter(|parent| !parents && !parent.is_root())
                && !made.iter().any(|made| made.is_within(&parent))
            {
                check_parent(&*self.fs, path).await?;
            }
            made.push(path);
        }
        unmade.make().await
    }
}

/// Returns the canonical path of `path`. Its last segment need not exist.
pub(crate) async fn resolve_path(
    fs: &dyn FileSystem,
    path: &str,
    follow: Follow,
) -> garth_engine::Result<TreePath> {
    resolve::resolve(fs, path, follow).await.map_err(with_path(path))
}

/// Returns the entry at a path as the user wrote it, and its canonical path.
pub(crate) async fn stat_path(
    fs: &dyn FileSystem,
    path: &str,
    follow: Follow,
) -> garth_engine::Result<(TreePath, Entry)> {
    resolve::stat(fs, path, follow).await.map_err(with_path(path))
}

/// As [`stat_path`], with `None` if the entry does not exist.
pub(crate) async fn stat_optional(
    fs: &dyn FileSystem,
    path: &str,
    follow: Follow,
) -> garth_engine::Result<(TreePath, Option<Entry>)> {
    let path = resolve_path(fs, path, follow).await?;
    match fs.stat(&At::Path(path.clone())).await {
        Ok(entry) => Ok((path, Some(entry))),
        Err(error) if error.is(ErrorKind::NotFound) => Ok((path, None)),
        Err(error) => Err(error),
    }
}

/// Fails with a hint at `-p` if the parent directory of `to` is missing.
pub(crate) async fn check_parent(fs: &dyn FileSystem, to: &TreePath) -> garth_engine::Result<()> {
    let Some(parent) = to.parent() else { return Ok(()) };
    match fs.stat(&At::Path(parent)).await {
        Err(error) if error.is(ErrorKind::NotFound) => Err(Error::at(ErrorKind::NotFound, to, NO_PARENT)),
        _ => Ok(()), // other errors are reported by the operation
    }
}

/// Returns the destination of a move, copy or link to `to`. If `to` is a directory (with `into`, it must be
/// one), this is the name of `from` in it.
pub(crate) async fn destination(
    fs: &dyn FileSystem,
    from: &TreePath,
    to: &str,
    follow: Follow,
    into: bool,
) -> garth_engine::Result<TreePath> {
    // A link that leads nowhere is not a directory; the lookup below decides whether it may be replaced.
    if let Ok((dir, Some(Entry { kind: Kind::Directory, .. }))) = stat_optional(fs, to, Follow::Yes).await {
        // Only the root has no name.
        let Some(name) = from.name() else {
            return Err(Error::at(ErrorKind::Busy, from, "the root cannot be moved, copied or linked"));
        };
        return Ok(dir.join(&garth_engine::Name::parse(name)?)?);
    }
    let (path, there) = stat_optional(fs, to, follow).await?;
    if into {
        let kind = if there.is_some() { ErrorKind::NotADirectory } else { ErrorKind::NotFound };
        let message = if there.is_some() { "not a directory" } else { "no such directory" };
        return Err(Error::at(kind, &path, message));
    }
    Ok(path)
}
