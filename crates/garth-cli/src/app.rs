//! What every verb needs: the data folder, the tree of one account, and the output.

use std::cell::OnceCell;
use std::ops::AsyncFn;
use std::path::PathBuf;
use std::sync::Arc;

use garth_agent::Access;
use garth_engine::compute::ComputeLimits;
use garth_engine::datadir::DataDirBuilder;
use garth_engine::engine::memory::MemoryFs;
use garth_engine::error::OptionalExt as _;
use garth_engine::fs::resolve::{self, Follow, retry};
use garth_engine::model::{
    At, Author, Batch, Commit, Entry, Head, Ino, Kind, Moment, Op, Precondition, Timestamp,
};
use garth_engine::{AccountStore, DataDir, Env, Error, ErrorKind, FileSystem, TreePath};

use crate::args::{CommitArgs, Global, Past};
use crate::config::Storage;
use crate::data_folder::{self, DEFAULT_ACCOUNT};
use crate::escape::escaped;
use crate::fail::{Failure, Failures, NO_PARENT, Result, no_account_or};
use crate::out::{Out, seconds};
use crate::place::{Place, Unmade};
use crate::{progress, when};

/// Difference of clocks up to which there is no warning, in nanoseconds: 5 minutes.
const CLOCK_SKEW: i64 = 300_000_000_000;

/// One run of the program.
pub(crate) struct App {
    pub(crate) global: Global,
    pub(crate) out: Out,
    pub(crate) env: Env,
    /// Opens the data folder.
    builder: DataDirBuilder,
    /// Definition of the command line, for completion scripts.
    pub(crate) command: fn() -> clap::Command,
    data_dir: OnceCell<DataDir>,
    scratch: OnceCell<Arc<dyn FileSystem>>,
}

/// A tree, and the author of commits to it.
pub(crate) struct AuthoredTree {
    /// The tree as it is now.
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) author: Author,
    /// What is to be made before something is written.
    unmade: Option<Unmade>,
    /// Whether commits bring back what garth wrote.
    imports: bool,
}

/// The operations of a commit, their paths resolved for this attempt.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) ops: Vec<Op>,
    pub(crate) preconditions: Vec<(At, Precondition)>,
    /// For each operation that is shown: its number and the path to show.
    pub(crate) shown: Vec<(usize, TreePath)>,
}

impl Plan {
    /// Adds an operation that is shown.
    pub(crate) fn push(&mut self, op: Op, path: TreePath) {
        self.shown.push((self.ops.len(), path));
        self.ops.push(op);
    }
}

impl App {
    pub(crate) fn new(global: Global, command: fn() -> clap::Command) -> Self {
        let out = Out::new(global.json);
        let env = Env::system();
        let builder = data_folder::builder().env(env.clone());
        Self { global, out, env, builder, command, data_dir: OnceCell::new(), scratch: OnceCell::new() }
    }

    /// Opens the data folder within these limits, if it is not open yet.
    pub(crate) fn open_within(&mut self, storage: &Storage) {
        let Storage { compute_threads: threads, compute_queue: queued, compute_steps: steps, .. } = *storage;
        self.env = self.env.clone().computing_within(ComputeLimits { threads, queued, steps });
        let builder = data_folder::builder().env(self.env.clone()).open_trees(storage.open_trees);
        let builder = builder.idle_connections(storage.idle_connections).read_time(storage.read_time);
        self.builder = builder.writer_threads(storage.writer_threads).reader_threads(storage.reader_threads);
    }

    /// The path of the data folder, whether it exists or not.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        data_folder::locate(self.global.data.as_deref())
    }

    /// The data folder. It exists: only a first write makes one.
    pub(crate) fn data_dir(&self) -> Result<DataDir> {
        if let Some(data_dir) = self.data_dir.get() {
            return Ok(data_dir.clone());
        }
        let data_dir = data_folder::open(&self.folder()?, self.builder.clone())?;
        Ok(self.data_dir.get_or_init(|| data_dir).clone())
    }

    /// The data folder; made if there is none, unless a new one would lack the chosen account.
    pub(crate) async fn data_dir_of_account(&self) -> Result<DataDir> {
        if self.global.account == DEFAULT_ACCOUNT { self.data_dir_or_new().await } else { self.data_dir() }
    }

    /// The data folder, made if there is none.
    pub(crate) async fn data_dir_or_new(&self) -> Result<DataDir> {
        if let Some(data_dir) = self.data_dir.get() {
            return Ok(data_dir.clone());
        }
        let data_dir = data_folder::open_or_create(&self.folder()?, self.builder.clone()).await?;
        Ok(self.data_dir.get_or_init(|| data_dir).clone())
    }

    /// The tree to work on: that of the chosen account, or of an agent in a chat.
    pub(crate) async fn tree(&self) -> Result<AuthoredTree> {
        // Checked first: a bad name must not leave a new data folder behind.
        let place = Place::of(&self.global)?;
        let account = self.account_of(&self.data_dir()?).await?;
        let (fs, unmade) = place.tree(account, self.scratch(), &self.env).await?;
        let author = unmade.as_ref().map_or_else(|| self.author(), Unmade::author);
        Ok(AuthoredTree { fs, author, unmade, imports: false })
    }

    /// The same, for a write that may be the first one: makes the data folder if there is none and the
    /// account is the one that every data folder has. The chat is made with the commit.
    pub(crate) async fn tree_or_new(&self) -> Result<AuthoredTree> {
        let place = Place::of(&self.global)?;
        let account = self.account_of(&self.data_dir_of_account().await?).await?;
        let (fs, unmade) = place.tree_or_new(account, self.scratch(), &self.env).await?;
        let author = unmade.as_ref().map_or_else(|| self.author(), Unmade::author);
        Ok(AuthoredTree { fs, author, unmade, imports: false })
    }

    /// Returns the tree to work on; for a change also one that the change makes.
    pub(crate) async fn tree_for(&self, changes: bool) -> Result<AuthoredTree> {
        if changes { self.tree_or_new().await } else { self.tree().await }
    }

    /// Returns the chosen account; for a change also in a data folder that the change makes.
    pub(crate) async fn account_for(&self, changes: bool) -> Result<Arc<dyn AccountStore>> {
        let data_dir = if changes { self.data_dir_of_account().await? } else { self.data_dir()? };
        self.account_of(&data_dir).await
    }

    /// Where changes of ephemeral skills go, for this run.
    fn scratch(&self) -> Arc<dyn FileSystem> {
        Arc::clone(
            self.scratch.get_or_init(|| Arc::new(MemoryFs::new(self.env.clone(), garth_agent::registry()))),
        )
    }

    /// Refuses a verb that works on the account in an agent's tree.
    pub(crate) fn only_account(&self, verb: &str) -> Result {
        if self.global.chat.names_somebody() {
            let message = format!(
                "{verb} works on the account: leave --user, --key, --chat, --class and --session out"
            );
            return Err(Failure::Usage(message));
        }
        Ok(())
    }

    /// Refuses a verb that works on accounts as they are stored in an agent's tree or an overlay.
    pub(crate) fn no_tree(&self, verb: &str) -> Result {
        if self.global.overlay.is_some() {
            return Err(Failure::Usage(format!("{verb} works on the account: leave --overlay out")));
        }
        if self.global.override_rules {
            return Err(Failure::Usage(format!(
                "{verb} writes nothing that rules judge: leave --override-rules out"
            )));
        }
        self.only_account(verb)
    }

    pub(crate) fn author(&self) -> Author {
        Author::agent(&self.global.agent)
    }

    /// The chosen account, with what it keeps besides its tree.
    pub(crate) async fn account_of(&self, data_dir: &DataDir) -> Result<Arc<dyn AccountStore>> {
        let account = &self.global.account;
        data_dir.account(account).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Failure::Tree(no_account_or(account, error)),
            _ => Failure::data_dir(data_dir.folder())(error),
        })
    }

    /// Warns of an account whose last commit is dated after now: its clock was wrong then, and a moment
    /// between shows what was there before.
    pub(crate) fn warn_of_clock(&self, account: &str, head: &Head) {
        let ahead = head.time.0.saturating_sub(self.env.now().0);
        if ahead > CLOCK_SKEW {
            let time = seconds(head.time);
            self.out.warn(format_args!(
                "account {}: its last commit is dated {time}, after the time of this machine: one clock was or is \
                 wrong. Until then --at with a time shows older content, and what is to expire stays longer; give \
                 a sequence instead",
                escaped(account)
            ));
        }
    }

    /// The tree at the moment that `--at` names; now without it.
    pub(crate) async fn view(&self, past: &Past) -> Result<Arc<dyn FileSystem>> {
        let fs = self.tree().await?.fs;
        match &past.at {
            Some(text) => Ok(self.as_of(&*fs, text).await?),
            None => Ok(fs),
        }
    }

    /// The tree at the moment that `text` names.
    pub(crate) async fn as_of(&self, fs: &dyn FileSystem, text: &str) -> Result<Arc<dyn FileSystem>> {
        Ok(fs.as_of(&self.moment(fs, text).await?).await?)
    }

    /// Returns the moment that `text` names: as a snapshot one of `fs`, else, of a tree of an agent, one of
    /// the account.
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

    /// The time that `text` names: of a sequence or a snapshot that of its commit.
    pub(crate) async fn time(&self, past: &Past, text: &str) -> Result<Timestamp> {
        let fs = self.view(past).await?;
        match self.moment(&*fs, text).await? {
            Moment::Time(time) => Ok(time),
            moment => Ok(fs.as_of(&moment).await?.head().await?.time),
        }
    }

    /// The tree at one moment, for work that takes several reads: that of `--at`, else now.
    pub(crate) async fn pinned(&self, past: &Past) -> Result<Arc<dyn FileSystem>> {
        let fs = self.view(past).await?;
        // skills and overlays have no past: there each read is of its own moment
        if past.at.is_some() || !self.global.chat.skills.is_empty() || self.global.overlay.is_some() {
            return Ok(fs);
        }
        // The clock may have been set back since the last commit.
        let now = self.env.now().max(fs.head().await?.time);
        Ok(fs.as_of(&Moment::Time(now)).await?)
    }

    /// Commits what `plan` gives and prints what was done. Plans again if a path
    /// turned into a link meanwhile.
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
                // There is no version of it to open.
                Some(Op::Remove { .. }) => {
                    let was_there = commit.outcomes.get(*op).is_some_and(|outcome| outcome.ino != Ino::NONE);
                    self.out.removed(&commit, was_there, path)?;
                }
                _ => self.out.committed(&commit, *op, path)?,
            }
        }
        Ok(())
    }

    /// Runs `action` on each path; reports failures and goes on.
    pub(crate) async fn each(
        &mut self,
        paths: &[String],
        action: impl AsyncFn(&mut Self, &str) -> Result,
    ) -> Result {
        if let [path] = paths {
            return action(self, path).await;
        }
        let mut failures = Failures::default();
        for path in paths {
            let outcome = action(self, path).await;
            self.out.flush()?;
            failures.add(outcome, self.global.json)?;
        }
        failures.done()
    }
}

impl AuthoredTree {
    /// Commits without showing anything; a plan that asks for nothing makes no commit.
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
            self.make_for(&plan.ops).await?;
            let batch = Batch {
                ops: plan.ops.clone(),
                preconditions: plan.preconditions.clone(),
                author: self.author.clone(),
                message: args.message.clone().unwrap_or_default(),
                by_garth: self.imports,
                ..Batch::default()
            };
            match self.fs.commit(batch).await {
                Ok(commit) => Ok(Some((commit, plan))),
                Err(error) if error.is(ErrorKind::Conflict) => Err(self.with_current(&plan, error).await),
                Err(error) => Err(error),
            }
        });
        Ok(done.await?)
    }

    /// Lets commits bring back what garth wrote, such as whose sessions are: for an import of the account.
    pub(crate) fn importing(self) -> Self {
        Self { imports: self.unmade.is_none(), ..self }
    }

    /// Returns what an agent reaches, if the tree is an agent's.
    pub(crate) fn access(&self) -> Option<&Access> {
        self.unmade.as_ref().map(Unmade::access)
    }

    /// Makes what the tree lacks, unless these operations have no parent to make something in: what is bound
    /// to fail leaves no chat behind.
    pub(crate) async fn make_for(&self, ops: &[Op]) -> garth_engine::Result<()> {
        let Some(unmade) = &self.unmade else { return Ok(()) };
        let mut made: Vec<&TreePath> = Vec::new();
        for op in ops {
            let (Op::Write { at, parents, .. }
            | Op::Append { at, parents, .. }
            | Op::Mkdir { at, parents, .. }) = op
            else {
                // what it leaves behind is not foreseen
                break;
            };
            let At::Path(path) = at else { break };
            // the root is one of the things to be made
            if let Some(parent) = path.parent().filter(|parent| !parents && !parent.is_root())
                && !made.iter().any(|made| made.is_within(&parent))
            {
                check_parent(&*self.fs, path).await?;
            }
            made.push(path);
        }
        unmade.make().await
    }

    /// Says what is there where a condition on a version did not hold.
    async fn with_current(&self, plan: &Plan, error: Error) -> Error {
        let in_batch = plan.ops.iter().filter_map(|op| match op {
            Op::Check { at, that } => Some((at, that)),
            _ => None,
        });
        for (at, that) in plan.preconditions.iter().map(|(at, that)| (at, that)).chain(in_batch) {
            let (At::Path(path), Precondition::Version(wanted) | Precondition::Etag(wanted)) = (at, that)
            else {
                continue;
            };
            if error.path().is_some_and(|of| of != path) {
                continue;
            }
            let Ok(there) = self.fs.stat(at).await.optional() else { continue };
            let current = there.map(|entry| match that {
                Precondition::Etag(_) => entry.etag,
                _ => entry.version,
            });
            if current != Some(*wanted) {
                let message = match current {
                    Some(current) => format!("changed since {wanted}: the current version is {current}"),
                    None => format!("changed since {wanted}: nothing is there"),
                };
                return Error::at(ErrorKind::Conflict, path, message).with_source(error);
            }
        }
        error
    }
}

/// The canonical path of one as the user wrote it; its last segment need not exist.
pub(crate) async fn resolve_path(
    fs: &dyn FileSystem,
    path: &str,
    follow: Follow,
) -> garth_engine::Result<TreePath> {
    resolve::resolve(fs, path, follow).await.map_err(with_path(path))
}

/// Names the path as it was written: in an error that has none, as that of text which is no path, and where a
/// link led to another path.
pub(crate) fn with_path(path: &str) -> impl FnOnce(Error) -> Error {
    move |error| match error.path() {
        None if error.is(ErrorKind::InvalidArgument) || error.is(ErrorKind::NameTooLong) => {
            Error::new(error.kind(), format!("{path}: {}", error.message()))
        }
        Some(found) => match TreePath::parse(path) {
            // A path above the one written is itself part of what was written.
            Ok(written) if !written.is_within(found) => {
                let message = format!("{} (at {found})", error.message());
                Error::at(error.kind(), &written, message).with_source(error)
            }
            _ => error,
        },
        None => error,
    }
}

/// The entry at a path as the user wrote it, and its canonical path.
pub(crate) async fn stat_path(
    fs: &dyn FileSystem,
    path: &str,
    follow: Follow,
) -> garth_engine::Result<(TreePath, Entry)> {
    resolve::stat(fs, path, follow).await.map_err(with_path(path))
}

/// Like [`stat_path`], with `None` if nothing is there.
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

/// Says that `-p` helps where the directory is missing in which `to` is to be made.
pub(crate) async fn check_parent(fs: &dyn FileSystem, to: &TreePath) -> garth_engine::Result<()> {
    let Some(parent) = to.parent() else { return Ok(()) };
    match fs.stat(&At::Path(parent)).await {
        Err(error) if error.is(ErrorKind::NotFound) => Err(Error::at(ErrorKind::NotFound, to, NO_PARENT)),
        _ => Ok(()), // what else may be wrong the operation tells
    }
}

/// Where a node goes that is moved, copied or linked to `to`: into it, under the name of `from`, if that is a
/// directory (which with `into` it must be).
pub(crate) async fn destination(
    fs: &dyn FileSystem,
    from: &TreePath,
    to: &str,
    follow: Follow,
    into: bool,
) -> garth_engine::Result<TreePath> {
    // A link that leads nowhere is no directory; the lookup below tells whether it may be replaced.
    if let Ok((dir, Some(Entry { kind: Kind::Directory, .. }))) = stat_optional(fs, to, Follow::Yes).await {
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
