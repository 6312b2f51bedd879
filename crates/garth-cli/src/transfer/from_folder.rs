//! A folder of this machine as a source of entries.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use garth::model::Timestamp;
use garth::{Error, ErrorKind, TreePath};

use super::load::{Loader, Make, utf8};
use crate::body::read_body;
use crate::fail::{Failure, Result};

/// Hard links seen so far: device and inode of this machine, and the path first given to them.
type Links = HashMap<(u64, u64), TreePath>;

/// Reads everything below `top`, which itself becomes the base. `skip` is the data folder: garth does not read
/// its own database but through its engine.
pub(crate) async fn from_folder(loader: &mut Loader<'_>, top: &Path, skip: &Path) -> Result {
    let mut links = Links::new();
    // Directories still to read, relative to the top, the next one last.
    let mut todo = vec![PathBuf::new()];
    while let Some(relative) = todo.pop() {
        let folder = top.join(&relative);
        let names = match names(&folder) {
            Ok(names) => names,
            Err(failure) if relative.as_os_str().is_empty() => return Err(failure),
            Err(failure) => {
                loader.fail(failure)?;
                continue;
            }
        };
        let mut below = Vec::new();
        for name in names {
            let relative = relative.join(name);
            match entry(loader, top, &relative, skip, &mut links).await {
                Ok(true) => below.push(relative),
                Ok(false) => {}
                Err(failure) if failure.code() == 7 && !matches!(failure, Failure::Host(..)) => {
                    return Err(failure);
                }
                Err(failure) => loader.fail(failure)?,
            }
        }
        todo.extend(below.into_iter().rev());
    }
    Ok(())
}

/// The names in a folder, in byte order.
fn names(folder: &Path) -> Result<Vec<OsString>> {
    let read = || -> std::io::Result<Vec<OsString>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
    };
    let mut names = read().map_err(Failure::host(folder))?;
    names.sort();
    Ok(names)
}

/// Adds one entry; gives whether it is a directory to go into.
async fn entry(
    loader: &mut Loader<'_>,
    top: &Path,
    relative: &Path,
    skip: &Path,
    links: &mut Links,
) -> Result<bool> {
    let source = top.join(relative);
    if loader.exclude.leaves_out(&relative.to_string_lossy()) {
        return Ok(false);
    }
    let path = loader.path_of(utf8(relative.as_os_str().as_bytes(), &source.to_string_lossy())?)?;
    let meta = fs::symlink_metadata(&source).map_err(Failure::host(&source))?;
    let (kind, mode, mtime) = (meta.file_type(), meta.mode(), mtime(&meta));
    if kind.is_dir() {
        if source.canonicalize().is_ok_and(|folder| folder == skip) {
            let message = format!("{}: not imported, it is garth's own data folder", source.display());
            return Err(Error::new(ErrorKind::NotPermitted, message).into());
        }
        loader.add(path, Make::Directory, mode, mtime).await?;
        return Ok(true);
    }
    if kind.is_symlink() {
        let target = fs::read_link(&source).map_err(Failure::host(&source))?;
        let target = utf8(target.as_os_str().as_bytes(), &source.to_string_lossy())?.to_owned();
        loader.add(path, Make::Symlink(target), mode, mtime).await?;
        return Ok(false);
    }
    if !kind.is_file() {
        let message =
            format!("{}: not imported, neither file, directory nor symbolic link", source.display());
        return Err(Error::new(ErrorKind::Unsupported, message).into());
    }
    if meta.nlink() > 1 {
        if let Some(first) = links.get(&(meta.dev(), meta.ino())) {
            loader.add(path, Make::HardLink(first.clone()), mode, mtime).await?;
            return Ok(false);
        }
        links.insert((meta.dev(), meta.ino()), path.clone());
    }
    let mut file = File::open(&source).map_err(Failure::host(&source))?;
    let body = read_body(&*loader.tree.fs, &mut file, &source).await?;
    loader.add(path, Make::File(body), mode, mtime).await?;
    Ok(false)
}

fn mtime(meta: &Metadata) -> Timestamp {
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
