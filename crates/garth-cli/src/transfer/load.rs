//! Import of entries into the tree. Unchanged entries cause no commit; the others are committed many at a
//! time. See `docs/decisions/import-compares-first.md`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Read;
use std::path::Path;

use garth_engine::model::{At, Attributes, Body, Commit, Entry, Kind, Op, Seq, SetAttrs, Special, Timestamp};
use garth_engine::{Error, ErrorKind, Name, TreePath};

use super::report::{Change, Item, Report};
use crate::app::{AuthoredTree, Plan};
use crate::args::CommitArgs;
use crate::body::{first_difference, read_body, read_changed_body};
use crate::fail::{Failure, Result};

/// Limit on the entries of one commit.
const MAX_ENTRIES: usize = 512;
/// Bytes of content in memory after which a commit is made, 8 MiB. With the last body (1 MiB at most) it
/// stays below the limit of a batch.
const MAX_BYTES: u64 = 8 << 20;

/// Entry of the source.
pub(crate) struct Source<'a> {
    pub(crate) what: What<'a>,
    pub(crate) mode: u32,
    pub(crate) mtime: Timestamp,
    /// True if the source stores times in whole seconds. Times then count as equal within the same second.
    pub(crate) whole_seconds: bool,
    /// Attributes besides mode and time.
    pub(crate) more: SetAttrs,
}

/// Kind and content of an entry.
pub(crate) enum What<'a> {
    /// File. The content is read only if size or time differ.
    File {
        size: u64,
        content: &'a mut dyn Read,
        name: &'a Path,
    },
    Directory,
    /// Symbolic link with this target.
    Symlink(String),
    Special(Special),
    /// Another name of the file at this path.
    HardLink(TreePath),
}

impl Source<'_> {
    fn attrs(&self) -> SetAttrs {
        // Without the bits of the file type.
        self.more.clone().mode(self.mode & 0o7777).mtime(self.mtime)
    }

    fn same_time(&self, entry: &Entry) -> bool {
        let seconds = |time: Timestamp| time.0.div_euclid(1_000_000_000);
        self.mtime == entry.mtime || self.whole_seconds && seconds(self.mtime) == seconds(entry.mtime)
    }

    fn same_mode(&self, entry: &Entry) -> bool {
        self.mode & 0o7777 == entry.mode
    }

    /// Returns true if the attributes besides mode and time are unchanged.
    fn same_more(&self, entry: &Entry) -> bool {
        let mut attributes = entry.attributes.clone();
        self.more.apply(&mut attributes).is_ok() && attributes == entry.attributes
    }
}

/// Operations that wait for their commit.
struct Waiting {
    path: TreePath,
    ops: Vec<Op>,
    done: Outcome,
}

/// Report to make after the commit.
enum Outcome {
    Entry(Change, Item),
    Removed {
        below: u64,
    },
    /// No report, because it is not an entry of the source.
    Silent,
}

/// Handling of existing entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Delete entries that the source does not have, and entries that are in the way.
    pub(crate) delete: bool,
    /// Change nothing.
    pub(crate) dry_run: bool,
    /// The folder is in the layout of a bucket: metadata are in sidecars.
    pub(crate) layout: bool,
}

/// Import in progress.
pub(crate) struct Loader<'a> {
    pub(crate) tree: &'a AuthoredTree,
    pub(crate) report: Report<'a>,
    pub(crate) policy: Policy,
    args: &'a CommitArgs,
    base: TreePath,
    /// Creation of the base, committed with the first entry.
    first: Option<Waiting>,
    waiting: Vec<Waiting>,
    /// Paths in `waiting`, whose state in the tree is not current yet.
    unsettled: HashSet<TreePath>,
    bytes: u64,
    /// Directories of the source, with mode and time.
    directories: HashMap<TreePath, (u32, Timestamp)>,
    /// Directories whose mode and time are set at the end, because creating their entries changes the time.
    dirty: BTreeSet<TreePath>,
    /// Sequence of the first commit, and the last commit.
    commits: Option<(Seq, Commit)>,
}

impl<'a> Loader<'a> {
    /// Starts an import below `base`, which is created if it does not exist.
    pub(crate) fn new(
        tree: &'a AuthoredTree,
        args: &'a CommitArgs,
        base: TreePath,
        is_there: bool,
        policy: Policy,
        report: Report<'a>,
    ) -> Self {
        let ops = vec![Op::mkdir_all(&base)];
        let first = Waiting { path: base.clone(), ops, done: Outcome::Silent };
        Self {
            tree,
            report,
            policy,
            args,
            base,
            first: (!is_there).then_some(first),
            waiting: Vec::new(),
            unsettled: HashSet::new(),
            bytes: 0,
            directories: HashMap::new(),
            dirty: BTreeSet::new(),
            commits: None,
        }
    }

    /// Returns the path for `relative`, a path from the top of the source with `/` between names. `.` is
    /// ignored; `..` fails.
    pub(crate) fn path_of(&self, relative: &str) -> garth_engine::Result<TreePath> {
        let mut path = self.base.clone();
        for name in relative.split('/').filter(|name| !name.is_empty() && *name != ".") {
            path = path.join(&Name::parse(name)?)?;
        }
        Ok(path)
    }

    /// Returns the sequences of the first and the last commit.
    pub(crate) fn commits(&self) -> Option<(Seq, Seq)> {
        self.commits.as_ref().map(|(first, last)| (*first, last.seq))
    }

    /// Returns the last commit.
    pub(crate) fn last_commit(&self) -> Option<&Commit> {
        self.commits.as_ref().map(|(_, last)| last)
    }

    /// Copies mode and time of the source's top directory to a new base, which is then created even if the
    /// source is empty.
    pub(crate) fn copy_top(&mut self, mode: u32, mtime: Timestamp) {
        if let Some(first) = self.first.take().filter(|_| !self.policy.dry_run) {
            self.directories.insert(first.path.clone(), (mode & 0o7777, mtime));
            self.dirty.insert(first.path.clone());
            self.waiting.push(first);
        }
    }

    /// Returns the current entry at `path`, for sources that are not in the order of the tree.
    pub(crate) async fn look_up(&mut self, path: &TreePath) -> Result<Option<Entry>> {
        if self.unsettled.contains(path) {
            self.flush().await?;
        }
        match self.tree.fs.stat(&path.into()).await {
            Ok(entry) => Ok(Some(entry)),
            Err(error) if error.is(ErrorKind::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Imports one entry; `there` is the entry of the tree. Returns true if it was unchanged.
    pub(crate) async fn add(
        &mut self,
        path: TreePath,
        there: Option<&Entry>,
        source: Source<'_>,
    ) -> Result<bool> {
        self.report.step(path.as_str())?;
        let mut ops = Vec::new();
        let mut there = there;
        if let Some(entry) = there.filter(|entry| self.is_in_the_way(entry, &source)) {
            if !self.policy.delete {
                return Err(in_the_way(&path, entry).into());
            }
            ops.push(Op::remove_tree(&path).if_exists());
            there = None;
        }
        let replaces = !ops.is_empty();
        let item = match source.what {
            What::Directory => self.directory(&path, there, &source, &mut ops),
            What::Symlink(ref target) => symlink(&path, target, there, &source, &mut ops),
            What::Special(node) => special(&path, node, there, &source, &mut ops),
            What::HardLink(ref first) => self.hard_link(&path, first, there, &mut ops).await?,
            What::File { .. } => self.file(&path, there, source, &mut ops).await?,
        };
        let change = match there {
            None if !replaces => Change::New,
            // A directory in `dirty` gets another mode or time at the end.
            Some(_) if ops.is_empty() && !self.dirty.contains(&path) => Change::Same,
            _ => Change::Changed,
        };
        if ops.is_empty() {
            self.report.done(change, item, path.as_str())?;
        } else {
            self.push(Waiting { path, ops, done: Outcome::Entry(change, item) }).await?;
        }
        Ok(change == Change::Same)
    }

    /// Returns true if a directory would be replaced, or a file by a directory, which is done only with
    /// `delete`.
    fn is_in_the_way(&self, there: &Entry, source: &Source<'_>) -> bool {
        (there.kind == Kind::Directory) != matches!(source.what, What::Directory)
    }

    fn directory(
        &mut self,
        path: &TreePath,
        there: Option<&Entry>,
        source: &Source<'_>,
        ops: &mut Vec<Op>,
    ) -> Item {
        if there.is_none() {
            // The time is set at the end.
            let attrs = SetAttrs { mtime: None, ..source.attrs() };
            ops.push(Op::mkdir_all(path).with_attrs(attrs));
        }
        if there.is_none_or(|entry| !source.same_mode(entry) || !source.same_time(entry)) {
            self.dirty.insert(path.clone());
        }
        self.directories.insert(path.clone(), (source.mode & 0o7777, source.mtime));
        Item::Directory
    }

    async fn hard_link(
        &mut self,
        path: &TreePath,
        first: &TreePath,
        there: Option<&Entry>,
        ops: &mut Vec<Op>,
    ) -> Result<Item> {
        if let Some(entry) = there {
            // `first` may still wait for its commit; `look_up` then commits it.
            if self.look_up(first).await?.is_some_and(|first| first.ino == entry.ino) {
                return Ok(Item::HardLink);
            }
            ops.push(Op::remove_file(path).if_exists());
        }
        ops.push(Op::link(first, path).with_parents());
        Ok(Item::HardLink)
    }

    async fn file(
        &mut self,
        path: &TreePath,
        there: Option<&Entry>,
        source: Source<'_>,
        ops: &mut Vec<Op>,
    ) -> Result<Item> {
        let mut attrs = source.attrs();
        let (same_time, same_attrs) = match there {
            Some(entry) => (source.same_time(entry), source.same_mode(entry) && source.same_more(entry)),
            None => (false, false),
        };
        let What::File { size, content, name } = source.what else { return Ok(Item::File(0)) };
        let file = there.filter(|entry| entry.kind == Kind::File);
        // A file with several names is replaced: its other names may be different files in the source.
        let in_place = file.filter(|entry| entry.nlink == 1);
        if file.is_some_and(|entry| entry.size == size) && same_time && same_attrs {
            return Ok(Item::File(0));
        }
        let body = match in_place.filter(|entry| entry.size == size) {
            // Same size and time: only the attributes differ, so the content is not read.
            Some(_) if same_time => None,
            Some(entry) => self.changed_body(&path.into(), entry, content, name).await?,
            // A dry run writes nothing; it reports `size`.
            None if self.policy.dry_run => Some(Body::Bytes(bytes::Bytes::new())),
            None => Some(read_body(&*self.tree.fs, &path.into(), content, name).await?),
        };
        let Some(body) = body else {
            attrs.mtime = attrs.mtime.filter(|_| !same_time);
            ops.push(Op::set_attrs(path, attrs));
            return Ok(Item::File(0));
        };
        if there.is_some() && in_place.is_none() {
            ops.push(Op::remove_file(path).if_exists());
            // The new file replaces the old one and must keep its attributes.
            if let Some(entry) = file {
                let mut kept = entry.attributes.clone();
                attrs.apply(&mut kept)?;
                keep(&kept, &mut attrs);
                attrs.expires_at = Some(entry.expires_at);
            }
        }
        let written = if self.policy.dry_run { size } else { body.size() };
        ops.push(Op::write(path, body).with_parents().with_attrs(attrs));
        Ok(Item::File(written))
    }

    /// Returns the content as a body, if it differs from that of a file of the same size.
    async fn changed_body(
        &self,
        at: &At,
        there: &Entry,
        content: &mut dyn Read,
        name: &Path,
    ) -> Result<Option<Body>> {
        let fs = &*self.tree.fs;
        let old = match fs.open_version(there.version).await {
            // An overlay has no history, so no version can be opened.
            Err(error) if error.is(ErrorKind::Unsupported) => fs.open(at).await?,
            old => old?,
        };
        if self.policy.dry_run {
            return Ok(first_difference(&*old, content, name).await?.map(|(_, bytes)| Body::Bytes(bytes)));
        }
        read_changed_body(fs, at, old, content, name).await
    }

    /// Deletes a path that the source does not have. `below` is the number of entries below it.
    pub(crate) async fn remove(&mut self, path: TreePath, below: u64) -> Result {
        let ops = vec![Op::remove_tree(&path).if_exists()];
        self.push(Waiting { path, ops, done: Outcome::Removed { below } }).await
    }

    async fn push(&mut self, entry: Waiting) -> Result {
        // In a dry run every entry counts as done at once.
        if self.policy.dry_run {
            return self.made(&entry);
        }
        // The base is created with the first entry.
        self.waiting.extend(self.first.take());
        self.bytes += entry.ops.iter().map(inline).sum::<u64>();
        // A new or removed name changes the time of its directory; attributes do not.
        let names = entry.ops.iter().any(|op| !matches!(op, Op::SetAttrs { .. }));
        if let Some(parent) =
            entry.path.parent().filter(|parent| names && self.directories.contains_key(parent))
        {
            self.dirty.insert(parent);
        }
        self.unsettled.insert(entry.path.clone());
        self.waiting.push(entry);
        if self.waiting.len() >= MAX_ENTRIES || self.bytes >= MAX_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    /// Commits the waiting operations together. If that fails, commits each alone, so that one bad entry does
    /// not affect the others.
    async fn flush(&mut self) -> Result {
        self.bytes = 0;
        self.unsettled.clear();
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        match self.commit(waiting.iter().flat_map(|entry| entry.ops.clone()).collect()).await {
            Ok(()) => waiting.iter().try_for_each(|entry| self.made(entry)),
            Err(failure) if is_fatal(&failure) => Err(failure),
            Err(_) => {
                for entry in waiting {
                    match self.commit(entry.ops.clone()).await {
                        Ok(()) => self.made(&entry)?,
                        Err(failure) => {
                            // Its mode and time must not be set by `finish`: the entry was not imported.
                            self.directories.remove(&entry.path);
                            self.fail(failure)?;
                        }
                    }
                }
                Ok(())
            }
        }
    }

    async fn commit(&mut self, ops: Vec<Op>) -> Result {
        let plan = async || Ok(Plan { ops: ops.clone(), ..Plan::default() });
        let Some((commit, _)) = self.tree.commit(self.args, plan).await? else { return Ok(()) };
        let first = self.commits.as_ref().map_or(commit.seq, |(first, _)| *first);
        self.commits = Some((first, commit));
        Ok(())
    }

    fn made(&mut self, entry: &Waiting) -> Result {
        match entry.done {
            Outcome::Entry(change, item) => self.report.done(change, item, entry.path.as_str()),
            Outcome::Removed { below } => self.report.removed(entry.path.as_str(), below),
            Outcome::Silent => Ok(()),
        }
    }

    /// Reports an entry that cannot be imported. Returns the failure if the import cannot continue.
    pub(crate) fn fail(&mut self, failure: impl Into<Failure>) -> Result {
        let failure = failure.into();
        if is_fatal(&failure) { Err(failure) } else { self.report.fail(failure) }
    }

    /// Commits the remaining operations, then modes and times of directories.
    pub(crate) async fn finish(&mut self) -> Result {
        self.flush().await?;
        let mut settle = Vec::new();
        // After all entries: creating an entry changes the time of its directory.
        for path in std::mem::take(&mut self.dirty) {
            if let Some((mode, mtime)) = self.directories.remove(&path) {
                let ops = vec![Op::set_attrs(&path, SetAttrs::new().mode(mode).mtime(mtime))];
                settle.push(Waiting { path, ops, done: Outcome::Silent });
            }
        }
        for entry in settle {
            self.push(entry).await?;
        }
        self.flush().await
    }
}

fn symlink(
    path: &TreePath,
    target: &str,
    there: Option<&Entry>,
    source: &Source<'_>,
    ops: &mut Vec<Op>,
) -> Item {
    let attrs = source.more.clone().mtime(source.mtime);
    match there {
        Some(entry) if entry.target.as_deref() == Some(target) => {
            if !source.same_time(entry) {
                ops.push(Op::set_attrs(path, attrs));
            }
            return Item::Symlink;
        }
        Some(_) => ops.push(Op::remove_file(path).if_exists()),
        None => {}
    }
    ops.push(Op::symlink(path, target).with_parents().with_attrs(attrs));
    Item::Symlink
}

fn special(
    path: &TreePath,
    node: Special,
    there: Option<&Entry>,
    source: &Source<'_>,
    ops: &mut Vec<Op>,
) -> Item {
    if there.is_some() {
        ops.push(Op::remove_file(path).if_exists());
    }
    ops.push(Op::mknod(path, node).with_parents().with_attrs(source.attrs()));
    Item::Special
}

/// Returns true if the import cannot continue.
fn is_fatal(failure: &Failure) -> bool {
    match failure {
        Failure::Pipe
        | Failure::Reported(_)
        | Failure::Usage(_)
        | Failure::DataDir(..)
        | Failure::Database(..) => true,
        // Only one file is damaged; the others can still be read.
        Failure::Tree(error) => failure.code() == 7 && !error.is(ErrorKind::Corrupt),
        Failure::Host(..) | Failure::Kv(..) => false,
    }
}

/// Returns the bytes that an operation holds in memory.
fn inline(op: &Op) -> u64 {
    match op.body() {
        Some(Body::Bytes(bytes)) => bytes.len() as u64,
        Some(Body::Staged(_)) | None => 0,
    }
}

/// Copies the attributes of a node to those of a new one.
pub(super) fn keep(attributes: &Attributes, attrs: &mut SetAttrs) {
    let Attributes { content_type, tags, importance, searchable, metadata, xattrs } = attributes.clone();
    attrs.content_type = Some(content_type);
    attrs.tags = Some(tags);
    attrs.importance = Some(importance);
    attrs.searchable = Some(searchable);
    attrs.metadata = metadata.into_iter().map(|(key, value)| (key, Some(value))).collect();
    attrs.xattrs = xattrs.into_iter().map(|(key, value)| (key, Some(value))).collect();
}

fn in_the_way(path: &TreePath, there: &Entry) -> Error {
    match there.kind {
        Kind::Directory => Error::at(
            ErrorKind::IsADirectory,
            path,
            "skipped, a directory is in the way (--delete replaces it)",
        ),
        _ => Error::at(
            ErrorKind::NotADirectory,
            path,
            "skipped, a file is in the way of a directory (--delete replaces it)",
        ),
    }
}
