//! A folder of this machine as a target. Nothing is ever written through a link: every name is made new in a
//! folder that was empty, and symbolic links are made when all else is there.

use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use garth::model::{Entry, Timestamp};

use super::save::Target;
use crate::fail::{Failure, Result};

/// Permissions that are given on: set-user-id and its like are not, as what an agent wrote is not to be trusted
/// with them.
const PERMISSIONS: u32 = 0o777;

/// A folder that was empty.
pub(crate) struct Folder {
    top: PathBuf,
    links: Vec<(PathBuf, String)>,
    directories: Vec<(PathBuf, u32, Timestamp)>,
}

impl Folder {
    /// Takes a folder that is empty, or makes it.
    pub(crate) fn new(top: &Path) -> Result<Self> {
        match fs::create_dir(top) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if fs::read_dir(top).map_err(Failure::host(top))?.next().is_some() {
                    let full = io::Error::new(io::ErrorKind::DirectoryNotEmpty, "the folder is not empty");
                    return Err(Failure::host(top)(full));
                }
            }
            made => made.map_err(Failure::host(top))?,
        }
        Ok(Self { top: top.to_owned(), links: Vec::new(), directories: Vec::new() })
    }
}

impl Target for Folder {
    fn directory(&mut self, path: &str, entry: &Entry) -> Result {
        let path = self.top.join(path);
        DirBuilder::new().mode(0o700).create(&path).map_err(Failure::host(&path))?;
        self.directories.push((path, entry.mode & PERMISSIONS, entry.mtime));
        Ok(())
    }

    fn file(&mut self, path: &str, entry: &Entry, content: &mut dyn Read) -> Result {
        let path = self.top.join(path);
        let mut options = OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o600).open(&path);
        let mut file = opened.map_err(Failure::host(&path))?;
        io::copy(content, &mut file).map_err(Failure::host(&path))?;
        settle(&file, entry.mode & PERMISSIONS, entry.mtime).map_err(Failure::host(&path))
    }

    fn symlink(&mut self, path: &str, _: &Entry, target: &str) -> Result {
        self.links.push((self.top.join(path), target.to_owned()));
        Ok(())
    }

    fn hard_link(&mut self, path: &str, _: &Entry, first: &str) -> Result {
        let path = self.top.join(path);
        fs::hard_link(self.top.join(first), &path).map_err(Failure::host(&path))
    }

    fn finish(&mut self) -> Result {
        for (path, target) in &self.links {
            symlink(target, path).map_err(Failure::host(path))?;
        }
        // Deepest first: what is in a directory has to be reached to be settled.
        for (path, mode, mtime) in self.directories.iter().rev() {
            let settled = File::open(path).and_then(|folder| settle(&folder, *mode, *mtime));
            settled.map_err(Failure::host(path))?;
        }
        Ok(())
    }
}

/// Gives a file or folder its time and permissions.
fn settle(file: &File, mode: u32, mtime: Timestamp) -> io::Result<()> {
    file.set_times(FileTimes::new().set_modified(system_time(mtime)))?;
    file.set_permissions(Permissions::from_mode(mode))
}

fn system_time(time: Timestamp) -> SystemTime {
    let distance = Duration::from_nanos(time.0.unsigned_abs());
    if time.0 < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}
