//! A folder of this machine, read in the order of [`FileSystem::walk`](garth_engine::FileSystem::walk), so that the
//! two can be compared side by side.

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

/// One entry below the top.
pub(crate) struct HostEntry {
    /// Path from the top, with `/` between names.
    pub(crate) path: String,
    /// Where it is on this machine.
    pub(crate) source: PathBuf,
    /// Its metadata; those of a link itself.
    pub(crate) meta: Metadata,
}

/// A step of the walk.
pub(crate) enum Step {
    Entry(HostEntry),
    /// An entry or a directory (at this path, if it has one in UTF-8) that cannot be read.
    Lost(Option<String>, Failure),
}

/// The walk. It goes only into directories that [`HostWalk::enter`] names.
pub(crate) struct HostWalk {
    top: PathBuf,
    exclude: Rc<Exclude>,
    /// Directories still to read. The next is always the smallest: what is below it is larger than it.
    pending: BinaryHeap<Reverse<String>>,
    dir: String,
    listing: std::vec::IntoIter<DirEntry>,
}

impl HostWalk {
    /// Begins below `top`.
    pub(crate) fn new(top: &Path, exclude: Rc<Exclude>) -> Result<Self> {
        let listing = list(top).map_err(Failure::host(top))?.into_iter();
        Ok(Self { listing, ..Self::empty(top, exclude) })
    }

    /// A folder that is not there yet.
    pub(crate) fn empty(top: &Path, exclude: Rc<Exclude>) -> Self {
        let (pending, listing) = (BinaryHeap::new(), Vec::new().into_iter());
        Self { top: top.to_owned(), exclude, pending, dir: String::new(), listing }
    }

    /// Goes into the directory that was given last, when its turn comes.
    pub(crate) fn enter(&mut self, path: &str) {
        self.pending.push(Reverse(path.to_owned()));
    }

    /// The next entry that is not excluded.
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

/// A name or link target that the tree cannot hold.
pub(crate) fn not_utf8(source: &Path) -> Failure {
    let message = "skipped, its name or target is not UTF-8";
    Failure::Host(source.to_owned(), io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// The entries of a folder, in byte order.
fn list(folder: &Path) -> io::Result<Vec<DirEntry>> {
    let mut listing = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    listing.sort_by_cached_key(|entry| entry.file_name().as_bytes().to_vec());
    Ok(listing)
}

/// The order of the walk: by directory, then by name.
pub(crate) fn order(one: &str, other: &str) -> Ordering {
    parts(one).cmp(&parts(other))
}

/// The directory that holds a path from the top, and the name in it.
pub(crate) fn parts(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// The last change of content.
pub(crate) fn mtime(meta: &Metadata) -> Timestamp {
    Timestamp(meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec()))
}

/// Entries below a folder, for the progress bar.
pub(crate) fn count(top: &Path) -> u64 {
    let mut todo = vec![top.to_owned()];
    let mut count = 0;
    while let Some(folder) = todo.pop() {
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
        // `-` and `.` come before `/`: directories are compared as text, as in the tree's index.
        assert_eq!(paths, ["a", "a-x", "a.d", "b", "a/b", "a/z", "a-x/y", "a/b/x"]);
        assert!(paths.is_sorted_by(|one, other| order(one, other).is_lt()));
    }
}
