//! What every verb works with: the data folder, one account's tree, and the output.

use std::ops::AsyncFn;
use std::path::PathBuf;
use std::sync::Arc;

use futures::TryStreamExt;
use garth::datadir::Tree;
use garth::fs::resolve::{Follow, resolve, retry};
use garth::model::{At, Author, Batch, ByteRange, Commit, Entry, Kind, Moment, Op, Precondition, Seq};
use garth::{DataDir, Env, Error, ErrorKind, FileSystem, OpenFile, TreePath, stream};

use crate::args::{CommitArgs, Global, Past};
use crate::fail::{Failure, Failures, Result};
use crate::out::Out;
use crate::when;

/// The account every data folder has from its first use.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";

/// One run of the program.
pub(crate) struct App {
    pub(crate) global: Global,
    pub(crate) out: Out,
    pub(crate) env: Env,
}

/// A tree, and the author of commits to it.
pub(crate) struct AuthoredTree {
    /// The tree as it is now.
    pub(crate) fs: Arc<dyn FileSystem>,
    author: Author,
}

/// What a commit is to do. The paths in it were looked up for this try.
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
    pub(crate) fn new(global: Global) -> Self {
        let out = Out::new(global.json);
        Self { global, out, env: Env::system() }
    }

    /// Where the data folder is.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        if let Some(folder) = self.global.data.as_ref().filter(|folder| !folder.as_os_str().is_empty()) {
            return Ok(folder.clone());
        }
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let platform = if cfg!(target_os = "macos") {
            variable("HOME").map(|home| home.join("Library/Application Support"))
        } else {
            // The XDG base directory specification ignores a relative XDG_DATA_HOME.
            variable("XDG_DATA_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/share")))
        };
        platform.map(|folder| folder.join("garth")).ok_or_else(|| {
            Failure::Usage("no home directory is known; say --data DIR or set GARTH_DATA".into())
        })
    }

    /// The data folder, made with its account if this is its first use.
    pub(crate) fn data_dir(&self) -> Result<DataDir> {
        let data_dir = DataDir::open(&self.folder()?, self.env.clone())?;
        if data_dir.control().accounts()?.is_empty() {
            match data_dir.create_account(DEFAULT_ACCOUNT) {
                // Another process was as quick.
                Err(error) if error.is(ErrorKind::AlreadyExists) => {}
                made => drop(made?),
            }
        }
        Ok(data_dir)
    }

    /// The engine of the chosen account, for what only it can do.
    pub(crate) fn engine(&self) -> Result<Arc<Tree>> {
        Ok(self.data_dir()?.account(&self.global.account)?)
    }

    /// The tree of the chosen account.
    pub(crate) fn tree(&self) -> Result<AuthoredTree> {
        garth::path::check_id("agent", &self.global.agent)?;
        let author = Author { agent: Some(self.global.agent.clone()), ..Author::default() };
        Ok(AuthoredTree { fs: self.engine()?, author })
    }

    /// The tree at the moment that `--at` names; now without it.
    pub(crate) async fn view(&self, past: &Past) -> Result<Arc<dyn FileSystem>> {
        let fs = self.tree()?.fs;
        match &past.at {
            Some(text) => Ok(self.as_of(&*fs, text).await?),
            None => Ok(fs),
        }
    }

    /// The tree at the moment that `text` names.
    pub(crate) async fn as_of(&self, fs: &dyn FileSystem, text: &str) -> Result<Arc<dyn FileSystem>> {
        let moment = when::moment(fs, text, self.env.now()).await?;
        Ok(fs.as_of(&moment).await?)
    }

    /// The tree at one moment, for work that takes several reads: that of `--at`, else the last commit.
    pub(crate) async fn pinned(&self, past: &Past) -> Result<Arc<dyn FileSystem>> {
        let fs = self.view(past).await?;
        if past.at.is_some() {
            return Ok(fs);
        }
        let head = fs.head().await?.seq;
        if head == Seq(0) { Ok(fs) } else { Ok(fs.as_of(&Moment::Seq(head)).await?) }
    }

    /// Runs `plan` and commits what it gives, again if a link was swapped in between; shows what was done.
    pub(crate) async fn commit(
        &mut self,
        tree: &AuthoredTree,
        args: &CommitArgs,
        plan: impl AsyncFn() -> garth::Result<Plan>,
    ) -> Result {
        let (commit, plan) = tree.commit(args, plan).await?;
        for (op, path) in &plan.shown {
            self.out.committed(&commit, *op, path)?;
        }
        Ok(())
    }

    /// Does the same to each path; what fails is told, the rest goes on.
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

    /// Copies an open file to standard output.
    pub(crate) async fn copy_to_stdout(&mut self, file: Arc<dyn OpenFile>) -> Result {
        let mut chunks = std::pin::pin!(stream(file, ByteRange::ALL));
        while let Some(chunk) = chunks.try_next().await? {
            self.out.bytes(&chunk)?;
        }
        Ok(())
    }
}

impl AuthoredTree {
    /// Commits without showing anything.
    pub(crate) async fn commit(
        &self,
        args: &CommitArgs,
        plan: impl AsyncFn() -> garth::Result<Plan>,
    ) -> Result<(Commit, Plan)> {
        let done = retry(&*self.fs, "/", Follow::No, |_| async {
            let plan = plan().await?;
            let batch = Batch {
                ops: plan.ops.clone(),
                preconditions: plan.preconditions.clone(),
                author: self.author.clone(),
                message: args.message.clone().unwrap_or_default(),
                ..Batch::default()
            };
            Ok((self.fs.commit(batch).await?, plan))
        });
        Ok(done.await?)
    }
}

/// The canonical path of what a person wrote; the last segment need not exist.
pub(crate) async fn resolve_path(fs: &dyn FileSystem, path: &str, follow: Follow) -> garth::Result<TreePath> {
    resolve(fs, path, follow).await.map_err(with_path(path))
}

/// Names the path in an error that has none, as that of text which is no path.
fn with_path(path: &str) -> impl FnOnce(Error) -> Error {
    move |error| match error.path() {
        None if error.is(ErrorKind::InvalidArgument) || error.is(ErrorKind::NameTooLong) => {
            Error::new(error.kind(), format!("{path}: {}", error.message()))
        }
        _ => error,
    }
}

/// What is at a path that a person wrote, and its canonical path.
pub(crate) async fn stat_path(
    fs: &dyn FileSystem,
    path: &str,
    follow: Follow,
) -> garth::Result<(TreePath, Entry)> {
    retry(fs, path, follow, |path| async {
        let entry = fs.stat(&At::Path(path.clone())).await?;
        Ok((path, entry))
    })
    .await
    .map_err(with_path(path))
}

/// Like [`stat_path`], where nothing may be there.
pub(crate) async fn stat_optional(
    fs: &dyn FileSystem,
    path: &str,
    follow: Follow,
) -> garth::Result<(TreePath, Option<Entry>)> {
    let path = resolve_path(fs, path, follow).await?;
    match fs.stat(&At::Path(path.clone())).await {
        Ok(entry) => Ok((path, Some(entry))),
        Err(error) if error.is(ErrorKind::NotFound) => Ok((path, None)),
        Err(error) => Err(error),
    }
}

/// Says how to go on where a parent is missing; for verbs that fail with `NotFound` only then.
pub(crate) fn suggest_parents(failure: Failure) -> Failure {
    match failure {
        Failure::Tree(error) if error.is(ErrorKind::NotFound) => {
            let message = "its directory is not there; -p makes it";
            let told = error.path().map(|path| Error::at(ErrorKind::NotFound, path, message));
            Failure::Tree(told.unwrap_or(error))
        }
        other => other,
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
) -> garth::Result<TreePath> {
    if let (dir, Some(Entry { kind: Kind::Directory, .. })) = stat_optional(fs, to, Follow::Yes).await? {
        let Some(name) = from.name() else {
            return Err(Error::at(ErrorKind::Busy, from, "the root cannot be moved, copied or linked"));
        };
        return dir.join(&garth::Name::parse(name)?);
    }
    let (path, there) = stat_optional(fs, to, follow).await?;
    if into {
        let kind = if there.is_some() { ErrorKind::NotADirectory } else { ErrorKind::NotFound };
        let message = if there.is_some() { "not a directory" } else { "no such directory" };
        return Err(Error::at(kind, &path, message));
    }
    Ok(path)
}
