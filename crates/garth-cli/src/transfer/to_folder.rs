//! Export to a folder of this machine. Only differences are changed. Nothing is written through a symbolic
//! link: a name is created, or replaced by a rename, and links are not followed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, DirBuilder, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use filetime::FileTime;
use garth_engine::model::{Entry, Ino, Kind, Timestamp};
use garth_engine::{ErrorKind, FileSystem, TreePath};

use super::exclude::{Exclude, HOLDS_EXCLUDED};
use super::host::{HostWalk, mtime, parts};
use super::layout_walk::LayoutWalk;
use super::load::Policy;
use super::own::CurrentFolder;
use super::pairs::{Pair, Pairs, Side};
use super::report::{Change, Item, Report};
use super::to_tar::{Content, unsupported};
use super::tree_walk::{TreeItem, TreeWalk};
use crate::body::first_difference;
use crate::fail::{Failure, Result};

mod sidecar_names;
mod sidecars;

use self::sidecar_names::Sidecars;

/// Permission bits that are exported. Set-user-ID and the like are not: a program that an agent wrote would
/// run with the rights of the user who exports it.
const PERMISSIONS: u32 = 0o777;

/// Export in progress.
struct Export<'r, 'a> {
    fs: Arc<dyn FileSystem>,
    policy: Policy,
    exclude: Rc<Exclude>,
    own: &'r CurrentFolder,
    report: &'r mut Report<'a>,
    /// Inodes with several names, with the first name on this machine.
    links: HashMap<Ino, PathBuf>,
    /// Directories on this machine. Modes and times are set at the end, because creating entries changes the
    /// time.
    directories: BTreeMap<PathBuf, Directory>,
    /// Directories of the tree whose entries are skipped.
    passed: HashSet<String>,
    /// Paths that only the folder has.
    gone: Vec<(String, PathBuf)>,
    /// Names that belong to sidecars of files.
    sidecars: Sidecars,
    left_out: LeftOut,
}

/// Entries and permissions that are left out of an export without being failures.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeftOut {
    /// Entries with set-user-ID, set-group-ID or sticky bits, which are not exported.
    pub(crate) special_bits: u64,
    /// Entries that are not part of the layout; a directory with everything below it counts once.
    pub(crate) entries: u64,
}

struct Directory {
    /// Mode to set; `None` leaves it unchanged.
    mode: Option<u32>,
    mtime: Timestamp,
    dirty: bool,
}

/// Exports `base` to the folder `top`, which is created if it does not exist. In the layout of a bucket,
/// `base` is the root.
pub(crate) async fn to_folder(
    fs: Arc<dyn FileSystem>,
    (base, entry): (&TreePath, Entry),
    top: &Path,
    (exclude, own): (Exclude, &CurrentFolder),
    policy: Policy,
    report: &mut Report<'_>,
) -> Result<LeftOut> {
    let mut export = Export::new(Arc::clone(&fs), policy, (exclude, own), report);
    let host = export.top(top, &entry)?;
    let side = if policy.layout {
        Side::Layout(LayoutWalk::new(fs).await?)
    } else {
        Side::Whole(TreeWalk::new(fs, base.clone(), true))
    };
    let mut pairs = Pairs::new(host, side);
    while let Some(pair) = pairs.next().await? {
        let (TreeItem { path: relative, at: path, entry, .. }, there) = match pair {
            Pair::Tree(item) => (item, None),
            Pair::Both(there, item) => (item, Some(there.meta)),
            Pair::Host(there) => {
                if policy.delete && !export.is_of_file(&there) {
                    export.gone.push((there.path, there.source));
                }
                continue;
            }
            // This sidecar was already handled with its file.
            Pair::Lost(Some(path), _) if export.sidecars.has(&path) => continue,
            Pair::Lost(Some(path), failure) => {
                export.passed.insert(path);
                export.fail(failure)?;
                continue;
            }
            // A name that cannot be in the tree. With `delete` it should be removed, so it is reported.
            Pair::Lost(None, failure) => {
                if policy.delete {
                    export.fail(failure)?;
                }
                continue;
            }
        };
        let is_directory = entry.kind == Kind::Directory;
        let pass = export.passed.contains(&relative) || export.passed.contains(parts(&relative).0);
        if pass || export.exclude.leaves_out(&relative, is_directory) {
            export.passed.extend(is_directory.then_some(relative));
            continue;
        }
        let to = top.join(&relative);
        match export.bring(&path, (&relative, &to), &entry, there.as_ref()).await {
            // The entries of both directories are compared.
            Ok(()) if is_directory && there.is_some_and(|there| there.is_dir()) => {
                pairs.host.enter(&relative);
            }
            Ok(()) => {}
            Err(failure) => {
                // The folder keeps what it has.
                export.sidecars.spare(&relative);
                export.passed.extend(is_directory.then_some(relative));
                export.fail(failure)?;
            }
        }
    }
    if let Side::Layout(walk) = pairs.tree {
        export.left_out.entries = walk.left_out();
        for item in walk.hidden() {
            export.fail(sidecar_names::hidden(&item))?;
        }
    }
    export.finish()?;
    Ok(export.left_out)
}

/// Exports one file to `to`. Like `cp`, writes into an existing device or pipe instead of replacing it.
pub(crate) async fn to_file(
    fs: Arc<dyn FileSystem>,
    (path, entry): (&TreePath, Entry),
    to: &Path,
    own: &CurrentFolder,
    policy: Policy,
    report: &mut Report<'_>,
) -> Result<LeftOut> {
    let mut export = Export::new(fs, policy, (Exclude::new(&[])?, own), report);
    if entry.kind == Kind::File && takes_bytes(to) {
        export.write_into(path, to, &entry).await?;
        return Ok(LeftOut::default());
    }
    let there = match fs::symlink_metadata(to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        meta => Some(meta.map_err(Failure::host(to))?),
    };
    export.bring(path, ("", to), &entry, there.as_ref()).await?;
    Ok(export.left_out)
}

impl<'r, 'a> Export<'r, 'a> {
    fn new(
        fs: Arc<dyn FileSystem>,
        policy: Policy,
        (exclude, own): (Exclude, &'r CurrentFolder),
        report: &'r mut Report<'a>,
    ) -> Self {
        Self {
            fs,
            policy,
            exclude: Rc::new(exclude),
            own,
            report,
            links: HashMap::new(),
            directories: BTreeMap::new(),
            passed: HashSet::new(),
            gone: Vec::new(),
            sidecars: Sidecars::default(),
            left_out: LeftOut::default(),
        }
    }

    /// Opens or creates the top. An existing one keeps its permissions.
    fn top(&mut self, top: &Path, entry: &Entry) -> Result<HostWalk> {
        let (mode, host, same) = match fs::metadata(top) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match top.parent().filter(|above| !above.as_os_str().is_empty()) {
                    // A dry run fails as the export would.
                    Some(above) if self.policy.dry_run => {
                        fs::metadata(above).map(|_| ()).map_err(Failure::host(top))?;
                    }
                    _ if self.policy.dry_run => {}
                    // Private until all of its entries are exported.
                    _ => DirBuilder::new().mode(0o700).create(top).map_err(Failure::host(top))?,
                }
                (Some(entry.mode & PERMISSIONS), HostWalk::empty(top, Rc::clone(&self.exclude)), false)
            }
            meta => {
                let same = mtime(&meta.map_err(Failure::host(top))?) == entry.mtime;
                (None, HostWalk::new(top, Rc::clone(&self.exclude))?, same)
            }
        };
        self.directories.insert(top.to_owned(), Directory { mode, mtime: entry.mtime, dirty: !same });
        Ok(host)
    }

    /// Exports one entry to `to`, whose path from the top is `relative`. `there` is its current metadata.
    async fn bring(
        &mut self,
        path: &TreePath,
        (relative, to): (&str, &Path),
        entry: &Entry,
        there: Option<&Metadata>,
    ) -> Result {
        self.report.step(path.as_str())?;
        self.sidecars.claim(relative)?;
        let mut there = there;
        // A file or a link may be replaced without `delete`.
        let replaceable = |there: &Metadata| there.is_file() || there.is_symlink();
        let in_the_way = there.filter(|there| match entry.kind {
            Kind::Directory => !there.is_dir(),
            _ => !replaceable(there),
        });
        if let Some(meta) = in_the_way {
            self.clear(relative, to, meta)?;
            there = None;
        // Not only below `clear`: an entry of the tree must not be written into the data folder either.
        } else if there.is_some_and(|there| self.own.is(there)) {
            return Err(CurrentFolder::skipped(to));
        }
        if entry.mode & !PERMISSIONS != 0 && entry.kind != Kind::Symlink {
            self.left_out.special_bits += 1;
        }
        let (mut same, mut item) = match entry.kind {
            Kind::Directory => (self.directory(to, entry, there)?, Item::Directory),
            Kind::Symlink => (self.symlink(to, entry, there)?, Item::Symlink),
            Kind::File => match self.links.get(&entry.ino).cloned() {
                Some(first) => (self.hard_link(to, &first, there)?, Item::HardLink),
                None => {
                    let written = self.file(path, to, entry, there).await?;
                    if entry.nlink > 1 {
                        self.links.insert(entry.ino, to.to_owned());
                    }
                    (written.is_none(), Item::File(written.unwrap_or(0)))
                }
            },
            Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice | Kind::Whiteout => {
                return Err(unsupported(path));
            }
        };
        if self.policy.layout && entry.kind == Kind::File {
            let written = self.sidecar((relative, to), entry).await?;
            same &= written.is_none();
            item = item.with_more(written.unwrap_or(0));
        }
        let change = match there {
            _ if same => Change::Same,
            None if in_the_way.is_none() => Change::New,
            _ => Change::Changed,
        };
        self.report.done(change, item, &to.to_string_lossy())
    }

    /// Removes an entry that is in the way: a directory, a device, or a file where a directory must be. Done
    /// only with `delete`.
    fn clear(&mut self, relative: &str, to: &Path, there: &Metadata) -> Result {
        let refuse =
            |kind, message: &str| Err(Failure::Host(to.to_owned(), io::Error::new(kind, message.to_owned())));
        if !self.policy.delete {
            return if there.is_dir() {
                let message = "skipped, a directory is in the way (--delete replaces it)";
                refuse(io::ErrorKind::IsADirectory, message)
            } else {
                let message = "skipped, it has another type than in the tree (--delete replaces it)";
                refuse(io::ErrorKind::NotADirectory, message)
            };
        }
        if there.is_dir() && self.own.is_within(to) {
            return Err(CurrentFolder::skipped(to));
        }
        if there.is_dir() && self.holds_excluded(relative, to).map_err(Failure::host(to))? {
            return refuse(io::ErrorKind::IsADirectory, HOLDS_EXCLUDED);
        }
        if self.policy.dry_run {
            return Ok(());
        }
        let removed = if there.is_dir() { fs::remove_dir_all(to) } else { fs::remove_file(to) };
        removed.map_err(Failure::host(to))
    }

    /// Returns true if a folder contains excluded entries, and so must be kept.
    fn holds_excluded(&self, relative: &str, folder: &Path) -> io::Result<bool> {
        if self.exclude.is_empty() {
            return Ok(false);
        }
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let is_directory = entry.file_type()?.is_dir();
            let below = format!("{relative}/{}", entry.file_name().to_string_lossy());
            if self.exclude.leaves_out(&below, is_directory)
                || is_directory && self.holds_excluded(&below, &entry.path())?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes the content of a file into an existing device or pipe.
    async fn write_into(&mut self, path: &TreePath, to: &Path, entry: &Entry) -> Result {
        self.report.step(path.as_str())?;
        if !self.policy.dry_run {
            let mut content = self.report.interrupt().guard(Content::new(self.fs.open(&path.into()).await?));
            // Standard output may be a file with earlier output; a device has no end to append to.
            let append = fs::metadata(to).is_ok_and(|meta| meta.is_file());
            let opened = OpenOptions::new().write(true).append(append).open(to);
            let written = opened.and_then(|mut file| io::copy(&mut content, &mut file));
            written.map_err(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => Failure::Pipe,
                _ => Failure::host(to)(error),
            })?;
        }
        self.report.done(Change::Changed, Item::File(entry.size), &to.to_string_lossy())
    }

    /// Exports a directory. Returns true if it was unchanged.
    fn directory(&mut self, to: &Path, entry: &Entry, there: Option<&Metadata>) -> Result<bool> {
        let mode = entry.mode & PERMISSIONS;
        let same = there.is_some_and(|there| same_mode(there, entry) && mtime(there) == entry.mtime);
        if there.is_none() {
            self.touch(to);
            if !self.policy.dry_run {
                // Private until all of its entries are exported.
                DirBuilder::new().mode(0o700).create(to).map_err(Failure::host(to))?;
            }
        }
        let directory = Directory { mode: Some(mode), mtime: entry.mtime, dirty: !same };
        self.directories.insert(to.to_owned(), directory);
        Ok(same)
    }

    /// Exports a symbolic link. Returns true if it was unchanged.
    fn symlink(&mut self, to: &Path, entry: &Entry, there: Option<&Metadata>) -> Result<bool> {
        let target = Path::new(entry.target.as_deref().unwrap_or_default());
        let same_target =
            there.is_some_and(Metadata::is_symlink) && fs::read_link(to).is_ok_and(|now| now == target);
        if same_target && there.is_some_and(|there| mtime(there) == entry.mtime) {
            return Ok(true);
        }
        if same_target {
            self.set_time(to, entry.mtime)?;
        } else {
            self.replace(to, there, |temporary| {
                symlink(target, temporary)?;
                set_time(temporary, entry.mtime)
            })?;
        }
        Ok(false)
    }

    /// Exports another name of a file. Returns true if it was unchanged.
    fn hard_link(&mut self, to: &Path, first: &Path, there: Option<&Metadata>) -> Result<bool> {
        let node = |meta: &Metadata| (meta.dev(), meta.ino());
        let first_node = fs::symlink_metadata(first).ok().as_ref().map(node);
        if first_node.is_some() && first_node == there.map(node) {
            return Ok(true);
        }
        self.replace(to, there, |temporary| fs::hard_link(first, temporary))?;
        Ok(false)
    }

    /// Exports a file. Returns the bytes of content written; `None` if it was unchanged.
    async fn file(
        &mut self,
        path: &TreePath,
        to: &Path,
        entry: &Entry,
        there: Option<&Metadata>,
    ) -> Result<Option<u64>> {
        let file = there.filter(|there| there.is_file());
        let same_time = file.is_some_and(|there| mtime(there) == entry.mtime);
        let mut same_content = false;
        if file.is_some_and(|there| there.len() == entry.size) {
            // Equal size and time count as equal content.
            same_content = same_time || {
                let tree = self.fs.open(&path.into()).await?;
                let mut host = File::open(to).map_err(Failure::host(to))?;
                first_difference(&*tree, &mut host, to).await?.is_none()
            };
        }
        let same_mode = file.is_some_and(|there| same_mode(there, entry));
        if same_content {
            if !same_mode && !self.policy.dry_run {
                let mode = Permissions::from_mode(entry.mode & PERMISSIONS);
                fs::set_permissions(to, mode).map_err(Failure::host(to))?;
            }
            if !same_time {
                self.set_time(to, entry.mtime)?;
            }
            return Ok((!same_mode || !same_time).then_some(0));
        }
        let tree = self.fs.open(&path.into()).await?;
        let mut content = self.report.interrupt().guard(Content::new(tree));
        self.replace(to, there, |temporary| {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(temporary)?;
            io::copy(&mut content, &mut file)?;
            settle(&file, Some(entry.mode & PERMISSIONS), entry.mtime)
        })?;
        Ok(Some(entry.size))
    }

    /// Creates an entry under a temporary name and renames it, so that no reader sees it incomplete.
    fn replace(
        &mut self,
        to: &Path,
        there: Option<&Metadata>,
        make: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result {
        if self.policy.dry_run {
            return Ok(());
        }
        // Entries are written one at a time, so a process needs one name.
        let temporary = to.with_file_name(format!(".garth-export-{}", std::process::id()));
        let made = make(&temporary).and_then(|()| {
            // The walk did not return this name, so another name of the tree must have created it.
            if there.is_none() && fs::symlink_metadata(to).is_ok() {
                let message = "this folder takes two names for the same (upper and lower case?)";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
            fs::rename(&temporary, to)
        });
        // A failed entry leaves no temporary file.
        if made.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        self.touch(to);
        made.map_err(Failure::host(to))
    }

    fn set_time(&self, to: &Path, time: Timestamp) -> Result {
        if self.policy.dry_run { Ok(()) } else { set_time(to, time).map_err(Failure::host(to)) }
    }

    /// Marks the directory of `path`, whose time has changed.
    fn touch(&mut self, path: &Path) {
        if let Some(directory) = path.parent().and_then(|parent| self.directories.get_mut(parent)) {
            directory.dirty = true;
        }
    }

    /// Reports the failure of one entry. Returns the failure if the export cannot continue.
    fn fail(&mut self, failure: Failure) -> Result {
        let continues = match &failure {
            Failure::Tree(error) => {
                matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Corrupt | ErrorKind::Gone)
            }
            Failure::Host(_, error) => !matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem
            ),
            Failure::DataDir(..)
            | Failure::Database(..)
            | Failure::Kv(..)
            | Failure::Usage(_)
            | Failure::Reported(_)
            | Failure::Pipe => false,
        };
        if continues { self.report.fail(failure) } else { Err(failure) }
    }

    /// Removes the paths that only the folder has, then sets modes and times of directories.
    fn finish(&mut self) -> Result {
        for (relative, path) in std::mem::take(&mut self.gone) {
            match self.remove(&relative, &path) {
                Ok(_) => {}
                Err(failure) => self.fail(failure)?,
            }
            self.touch(&path);
        }
        if self.policy.dry_run {
            return Ok(());
        }
        // Deepest first: without its final permissions, a directory above can still be entered.
        for (path, directory) in std::mem::take(&mut self.directories).iter().rev().filter(|(_, it)| it.dirty)
        {
            let settled =
                File::open(path).and_then(|folder| settle(&folder, directory.mode, directory.mtime));
            settled.or_else(|error| self.fail(Failure::host(path)(error)))?;
        }
        Ok(())
    }

    /// Removes `path` except for excluded entries. Returns true if everything was removed.
    fn remove(&mut self, relative: &str, path: &Path) -> Result<bool> {
        let meta = fs::symlink_metadata(path).map_err(Failure::host(path))?;
        let is_directory = meta.is_dir();
        if self.exclude.leaves_out(relative, is_directory) {
            return Ok(false);
        }
        if self.own.is(&meta) {
            self.fail(CurrentFolder::skipped(path))?;
            return Ok(false);
        }
        let mut all = true;
        if is_directory {
            for entry in fs::read_dir(path).map_err(Failure::host(path))? {
                let entry = entry.map_err(Failure::host(path))?;
                let below = format!("{relative}/{}", entry.file_name().to_string_lossy());
                all &= self.remove(&below, &entry.path())?;
            }
        }
        if all {
            let removed = match (self.policy.dry_run, is_directory) {
                (true, _) => Ok(()),
                (false, true) => fs::remove_dir(path),
                (false, false) => fs::remove_file(path),
            };
            removed.map_err(Failure::host(path))?;
            self.report.removed(&path.to_string_lossy(), 0)?;
        }
        Ok(all)
    }
}

/// Returns true if bytes are written into the entry at `to`: a device or pipe, or standard output
/// (`/dev/stdout`), which is a link to an open file of the process.
fn takes_bytes(to: &Path) -> bool {
    let special = fs::metadata(to).is_ok_and(|meta| {
        let kind = meta.file_type();
        kind.is_char_device() || kind.is_block_device() || kind.is_fifo()
    });
    special || fs::read_link(to).is_ok_and(|target| target.starts_with("/proc"))
}

fn same_mode(there: &Metadata, entry: &Entry) -> bool {
    there.mode() & PERMISSIONS == entry.mode & PERMISSIONS
}

/// Sets the time and permissions of a file or folder.
fn settle(file: &File, mode: Option<u32>, mtime: Timestamp) -> io::Result<()> {
    file.set_times(FileTimes::new().set_modified(system_time(mtime)))?;
    mode.map_or(Ok(()), |mode| file.set_permissions(Permissions::from_mode(mode)))
}

/// Sets the time of the entry at `path`; of a symbolic link, not of its target.
fn set_time(path: &Path, time: Timestamp) -> io::Result<()> {
    // The time of the last access stays.
    let read = FileTime::from_last_access_time(&fs::symlink_metadata(path)?);
    filetime::set_symlink_file_times(path, read, FileTime::from_system_time(system_time(time)))
}

fn system_time(time: Timestamp) -> SystemTime {
    let distance = Duration::from_nanos(time.0.unsigned_abs());
    if time.0 < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}
