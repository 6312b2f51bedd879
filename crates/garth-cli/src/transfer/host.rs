//! Walk of a folder of this machine in the order of [`FileSystem::walk`](garth_engine::FileSystem::walk), so
//! that both can be compared side by side.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use garth_engine::model::Timestamp;

use super::Exclude;
use crate::fail::{Failure, Result};

/// Entry below the top.
pub(crate) struct HostEntry {
    /// Path from the top, with `/` between names.
    pub(crate) path: String,
    /// Path on this machine.
    pub(crate) source: PathBuf,
    /// Metadata; for a symbolic link its own.
    pub(crate) meta: Metadata,
}

/// Step of the walk.
pub(crate) enum Step {
    Entry(HostEntry),
    /// Entry or directory that cannot be read, with its path if that is UTF-8.
    Lost(Option<String>, Failure),
}

/// Walk of a folder. It enters only directories given to [`HostWalk::enter`].
pub(crate) struct HostWalk {
    top: PathBuf,
    exclude: Rc<Exclude>,
    /// Directories to read. The smallest one is next: everything below a directory is larger than itself.
    pending: BinaryHeap<Reverse<String>>,
    dir: String,
    listing: std::vec::IntoIter<DirEntry>,
}

impl HostWalk {
    /// Starts a walk below `top`.
    pub(crate) fn new(top: &Path, exclude: Rc<Exclude>) -> Result<Self> {
        let listing = list(top).map_err(Failure::host(top))?.into_iter();
        Ok(Self { listing, ..Self::empty(top, exclude) })
    }

    /// Returns the walk of a folder that does not exist yet.
    pub(crate) fn empty(top: &Path, exclude: Rc<Exclude>) -> Self {
        let (pending, listing) = (BinaryHeap::new(), Vec::new().into_iter());
        Self { top: top.to_owned(), exclude, pending, dir: String::new(), listing }
    }

    /// Enters the directory at `path` when its turn comes.
    pub(crate) fn enter(&mut self, path: &str) {
        self.pending.push(Reverse(path.to_owned()));
    }

    /// Returns the next entry that is not excluded.
    pub(crate) fn next(&mut self) -> Option<Step> {
        loop {
            while let Some(entry) = self.listing.next() {
                if let Some(step) = self.step(&entry) {
                    return Some(step);
                }
            }
            let Reverse(dir) = self.pending.pop()?;
            let folder = self.top.join(&dir);
            match list(&folder) {
                Ok(listing) => (self.dir, self.listing) = (dir, listing.into_iter()),
                Err(error) => return Some(Step::Lost(Some(dir), Failure::host(&folder)(error))),
            }
        }
    }

    fn step(&self, entry: &DirEntry) -> Option<Step> {
        let (name, source) = (entry.file_name(), entry.path());
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let path = match name.to_str() {
            Some(name) if self.dir.is_empty() => name.to_owned(),
            Some(name) => format!("{}/{name}", self.dir),
            None => {
                // A pattern may exclude a name that is not UTF-8.
                let lossy = Path::new(&self.dir).join(&name);
                let left_out = self.exclude.leaves_out(&lossy.to_string_lossy(), is_directory);
                return (!left_out).then(|| Step::Lost(None, not_utf8(&source)));
            }
        };
        if self.exclude.leaves_out(&path, is_directory) {
            return None;
        }
        Some(match entry.metadata() {
            Ok(meta) => Step::Entry(HostEntry { path, source, meta }),
            Err(error) => Step::Lost(Some(path), Failure::host(&source)(error)),
        })
    }
}

/// Returns the failure for a name or link target that the tree cannot hold.
pub(crate) fn not_utf8(source: &Path) -> Failure {
    let message = "skipped, its name or target is not UTF-8";
    Failure::Host(source.to_owned(), io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Returns the entries of a folder in byte order.
fn list(folder: &Path) -> io::Result<Vec<DirEntry>> {
    let mut listing = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    listing.sort_by_cached_key(|entry| entry.file_name().as_bytes().to_vec());
    Ok(listing)
}

/// Compares two paths in the order of the walk: by directory, then by name.
pub(crate) fn order(one: &str, other: &str) -> Ordering {
    parts(one).cmp(&parts(other))
}

/// Splits a path from the top into its directory and its name.
pub(crate) fn parts(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Returns the time of the last change of content.
pub(crate) fn mtime(meta: &Metadata) -> Timestamp {
    Timestamp(meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec()))
}

/// Counts the entries below a folder, for the progress bar.
pub(crate) fn count(top: &Path) -> u64 {
    let mut todo = vec![top.to_owned()];
    let mut count = 0;
    while let Some(folder) = todo.pop() {
        // The walk reports folders that cannot be read.
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            count += 1;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                todo.push(entry.path());
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_walk_follows_tree_order() {
        let top = tempfile::tempdir().expect("a folder");
        for path in ["a/b/x", "a-x/y", "a/z", "a.d", "b"] {
            let path = top.path().join(path);
            fs::create_dir_all(path.parent().expect("it has one")).expect("folders");
            fs::write(path, "").expect("a file");
        }
        let exclude = Rc::new(Exclude::new(&[]).expect("no patterns"));
        let mut walk = HostWalk::new(top.path(), exclude).expect("a folder");
        let mut paths = Vec::new();
        while let Some(step) = walk.next() {
            let Step::Entry(entry) = step else { panic!("all can be read") };
            if entry.meta.is_dir() {
                walk.enter(&entry.path);
            }
            paths.push(entry.path);
        }
        // `-` and `.` precede `/`: directories are compared as text, as in the index of the tree.
        assert_eq!(paths, ["a", "a-x", "a.d", "b", "a/b", "a/z", "a-x/y", "a/b/x"]);
        assert!(paths.is_sorted_by(|one, other| order(one, other).is_lt()));
    }
}
