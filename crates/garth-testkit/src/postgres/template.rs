//! New cluster of `initdb`, which is kept in the folder of the build: a copy takes a fraction of the time
//! that `initdb` takes.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Numbers of a user and a group.
pub(super) type Owner = (u32, u32);

/// Kept cluster.
pub(super) struct Template {
    /// Its folder; `None` if this program is not in the folder of a build.
    folder: Option<PathBuf>,
}

impl Template {
    /// Returns the cluster that `initdb` of a folder of programs creates with some arguments. It may not
    /// exist yet.
    pub(super) fn of(programs: &Path, arguments: &[String]) -> Self {
        let folder = || {
            let program = std::env::current_exe().ok()?;
            // Cargo marks the folder of a build.
            let build = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file())?;
            let postgres = fs::metadata(programs.join("postgres")).ok()?;
            let changed = postgres.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
            let mut hasher = DefaultHasher::new();
            (postgres.len(), changed, programs, arguments).hash(&mut hasher);
            Some(build.join(format!("postgres-{:016x}", hasher.finish())))
        };
        Self { folder: folder() }
    }

    /// Copies the cluster to a folder that does not exist. Returns false if it cannot be copied, as one that
    /// another user has kept; the folder does not exist then.
    pub(super) fn copy_to(&self, data: &Path, owner: Option<Owner>) -> bool {
        let Some(folder) = self.folder.as_deref().filter(|folder| folder.is_dir()) else { return false };
        let is_copied = copy(folder, data, owner).is_ok();
        if !is_copied {
            let _ = fs::remove_dir_all(data);
        }
        is_copied
    }

    /// Keeps a copy of a new cluster. Does nothing if that fails: the next cluster is created as well then.
    pub(super) fn keep(&self, data: &Path) {
        let Some(folder) = &self.folder else { return };
        let new = folder.with_extension(std::process::id().to_string());
        // Another process may have kept one meanwhile: no folder replaces one with files.
        if copy(data, &new, None).and_then(|()| fs::rename(&new, folder)).is_err() {
            let _ = fs::remove_dir_all(&new);
        }
    }
}

/// Copies a folder of files and folders, with their permissions.
fn copy(from: &Path, to: &Path, owner: Option<Owner>) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target, owner)?;
            continue;
        }
        fs::copy(entry.path(), &target)?;
        own(&target, owner)?;
    }
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    own(to, owner)
}

fn own(path: &Path, owner: Option<Owner>) -> io::Result<()> {
    owner.map_or(Ok(()), |(user, group)| chown(path, Some(user), Some(group)))
}
