//! Puts many entries into the tree: many small ones to a commit, so that an import costs few of them.

use garth::model::{At, Body, Op, Remove, SetAttrs, Timestamp};
use garth::{Error, Name, TreePath};

use super::{Count, Exclude, Report};
use crate::app::{AuthoredTree, Plan};
use crate::args::CommitArgs;
use crate::fail::{Failure, Result};

/// Most entries of one commit.
const MAX_ENTRIES: usize = 512;
/// Bytes of content in memory after which a commit is made. 8 MiB; with the last body (1 MiB at most) it stays
/// below what a batch takes.
const MAX_BYTES: u64 = 8 << 20;

/// What to make at a path.
pub(crate) enum Make {
    /// A file with this content.
    File(Body),
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink(String),
    /// One more name of what was made at this path before.
    HardLink(TreePath),
}

/// One entry that waits for its commit.
struct Waiting {
    path: TreePath,
    make: Make,
    mode: u32,
    mtime: Timestamp,
}

/// An import in progress.
pub(crate) struct Loader<'a> {
    pub(crate) tree: &'a AuthoredTree,
    pub(crate) exclude: Exclude,
    pub(crate) report: Report,
    commit: &'a CommitArgs,
    base: TreePath,
    /// Makes the base itself, with the first commit: so that an empty source leaves something too.
    first: Option<Op>,
    waiting: Vec<Waiting>,
    bytes: u64,
    /// Directories that are there now; their times are set last, as making what is in them changes those.
    directories: Vec<(TreePath, SetAttrs)>,
    count: Count,
}

impl<'a> Loader<'a> {
    /// Starts an import to below `base`.
    pub(crate) fn new(
        tree: &'a AuthoredTree,
        commit: &'a CommitArgs,
        base: TreePath,
        exclude: Exclude,
        report: Report,
    ) -> Self {
        let at = At::Path(base.clone());
        Self {
            tree,
            exclude,
            report,
            commit,
            base,
            first: Some(Op::Mkdir { at, parents: true, attrs: SetAttrs::default() }),
            waiting: Vec::new(),
            bytes: 0,
            directories: Vec::new(),
            count: Count::default(),
        }
    }

    /// Where `relative`, a path from the top of the source with `/` between names, comes to be. `.` is nothing;
    /// `..` and absolute paths are refused.
    pub(crate) fn path_of(&self, relative: &str) -> garth::Result<TreePath> {
        let mut path = self.base.clone();
        for name in relative.split('/').filter(|name| !name.is_empty() && *name != ".") {
            path = path.join(&Name::parse(name)?)?;
        }
        Ok(path)
    }

    /// Whether anything came so far.
    pub(crate) fn has_begun(&self) -> bool {
        let Count { files, directories, symlinks, hard_links, .. } = self.count;
        !self.waiting.is_empty() || files + directories + symlinks + hard_links > 0
    }

    /// Adds one entry.
    pub(crate) async fn add(&mut self, path: TreePath, make: Make, mode: u32, mtime: Timestamp) -> Result {
        self.report.step(path.as_str());
        if let Make::File(Body::Bytes(bytes)) = &make {
            self.bytes += bytes.len() as u64;
        }
        self.waiting.push(Waiting { path, make, mode: mode & 0o7777, mtime });
        if self.waiting.len() >= MAX_ENTRIES || self.bytes >= MAX_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    /// Commits what waits: in one commit, or if that fails, each alone, so that one bad entry stops no other.
    async fn flush(&mut self) -> Result {
        self.bytes = 0;
        let waiting = std::mem::take(&mut self.waiting);
        let first = self.first.take();
        let ops: Vec<Op> = first.iter().cloned().chain(waiting.iter().flat_map(Waiting::ops)).collect();
        if ops.is_empty() {
            return Ok(());
        }
        match self.commit(ops).await {
            Ok(()) => waiting.into_iter().for_each(|entry| self.made(entry)),
            Err(failure) if failure.code() == 7 => return Err(failure),
            Err(_) => {
                if let Some(first) = first {
                    self.commit(vec![first]).await?;
                }
                for entry in waiting {
                    match self.commit(entry.ops()).await {
                        Ok(()) => self.made(entry),
                        Err(failure) => self.report.fail(failure)?,
                    }
                }
            }
        }
        Ok(())
    }

    async fn commit(&self, ops: Vec<Op>) -> Result {
        let plan = async || Ok(Plan { ops: ops.clone(), ..Plan::default() });
        self.tree.commit(self.commit, plan).await.map(drop)
    }

    fn made(&mut self, entry: Waiting) {
        match entry.make {
            Make::File(body) => {
                self.count.files += 1;
                self.count.bytes += body.size();
            }
            Make::Directory => {
                let (mode, mtime) = (Some(entry.mode), Some(entry.mtime));
                self.directories.push((entry.path, SetAttrs { mode, mtime, ..SetAttrs::default() }));
                self.count.directories += 1;
            }
            Make::Symlink(_) => self.count.symlinks += 1,
            Make::HardLink(_) => self.count.hard_links += 1,
        }
    }

    /// Something that cannot be imported; the rest goes on.
    pub(crate) fn fail(&mut self, failure: impl Into<Failure>) -> Result {
        self.report.fail(failure.into())
    }

    /// Commits the rest and the times of directories.
    pub(crate) async fn finish(mut self) -> Result<(Count, Result)> {
        self.flush().await?;
        for some in std::mem::take(&mut self.directories).chunks(MAX_ENTRIES) {
            let set =
                |(path, attrs): &(TreePath, SetAttrs)| Op::SetAttrs { at: path.into(), attrs: attrs.clone() };
            self.commit(some.iter().map(set).collect()).await?;
        }
        self.count.failed = self.report.end();
        Ok((self.count, self.report.done()))
    }
}

impl Waiting {
    fn ops(&self) -> Vec<Op> {
        let at = At::Path(self.path.clone());
        let attrs = SetAttrs { mode: Some(self.mode), mtime: Some(self.mtime), ..SetAttrs::default() };
        let parents = true;
        match &self.make {
            Make::File(body) => {
                let create = garth::model::Create::IfMissing;
                vec![Op::Write { at, body: body.clone(), create, parents, attrs }]
            }
            Make::Directory => {
                vec![Op::Mkdir { at, parents, attrs: SetAttrs { mtime: None, ..attrs } }]
            }
            Make::Symlink(target) => {
                let attrs = SetAttrs { mode: None, ..attrs };
                vec![self.cleared(), Op::Symlink { at, target: target.clone(), parents, attrs }]
            }
            Make::HardLink(from) => {
                vec![self.cleared(), Op::Link { from: At::Path(from.clone()), to: at, parents }]
            }
        }
    }

    /// A link takes the place of a file or link that is there.
    fn cleared(&self) -> Op {
        Op::Remove { at: At::Path(self.path.clone()), what: Remove::File, missing_ok: true }
    }
}

/// A name of this machine as a name of the tree.
pub(crate) fn utf8<'a>(bytes: &'a [u8], shown: &str) -> Result<&'a str, Error> {
    std::str::from_utf8(bytes).map_err(|_| {
        let message = format!("{shown}: not imported, its name or target is not UTF-8");
        Error::new(garth::ErrorKind::InvalidArgument, message)
    })
}
