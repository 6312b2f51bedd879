//! Folders in the layout of a bucket: sidecars next to their files, and the check before an import.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use garth_agent::workspace::layout::{MAX_SIDECAR, SIDECAR, Sidecar, described, is_own};
use garth_engine::{Name, TreePath};

use super::Exclude;
use super::host::{HostEntry, HostWalk, Step};
use super::own::CurrentFolder;
use super::report::Report;
use crate::fail::{Failure, Result};

/// Returns the path of the sidecar of a file.
pub(super) fn sidecar_path(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(SIDECAR);
    name.into()
}

/// Returns true for a sidecar. A file with the name of a sidecar that has a sidecar itself is not one.
pub(super) fn is_sidecar(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| described(name).is_some()) && is_file(path) && !is_sidecar(&sidecar_path(path))
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file())
}

/// Reads the sidecar of a file; empty if there is none.
pub(super) fn read_sidecar(file: &Path) -> Result<Sidecar> {
    let path = sidecar_path(file);
    if is_sidecar(&path) { read(&path) } else { Ok(Sidecar::default()) }
}

fn read(path: &Path) -> Result<Sidecar> {
    let mut json = Vec::new();
    // One more byte shows that the file is too long.
    let opened =
        fs::File::open(path).and_then(|file| file.take(MAX_SIDECAR as u64 + 1).read_to_end(&mut json));
    opened.map_err(Failure::host(path))?;
    Sidecar::parse(&json).map_err(|error| refused(path, error.message()))
}

fn refused(path: &Path, message: &str) -> Failure {
    Failure::Host(path.to_owned(), io::Error::new(io::ErrorKind::InvalidData, message.to_owned()))
}

/// Checks a folder before anything is written: each sidecar is valid and has its file, and no entry has a
/// path that is reserved for garth. Reports errors. Returns true if the folder may be imported.
pub(crate) fn check(
    top: &Path,
    exclude: Exclude,
    own: &CurrentFolder,
    report: &mut Report<'_>,
) -> Result<bool> {
    let mut walk = HostWalk::new(top, Rc::new(exclude))?;
    let mut sound = true;
    while let Some(step) = walk.next() {
        report.interrupt().check()?;
        // The import reports entries that cannot be read, and continues.
        let Step::Entry(entry) = step else { continue };
        if entry.meta.is_dir() && own.is(&entry.meta) {
            continue;
        }
        match check_entry(&entry) {
            Ok(()) if entry.meta.is_dir() => walk.enter(&entry.path),
            Ok(()) => {}
            Err(failure) => {
                sound = false;
                report.fail(failure)?;
            }
        }
    }
    Ok(sound)
}

fn check_entry(entry: &HostEntry) -> Result {
    let HostEntry { path, source, meta } = entry;
    let target = if meta.is_symlink() { fs::read_link(source).ok() } else { None };
    let target = target.as_deref().and_then(Path::to_str);
    // The import reports invalid paths.
    if at(path).is_ok_and(|path| is_own(&path, target)) {
        let message = "this path is reserved for garth, and an import of the layout does not change it; \
                       import without --layout, or exclude it (--exclude)";
        return Err(refused(source, message));
    }
    let Some(file) = described(path).filter(|_| is_sidecar(source)) else { return Ok(()) };
    let beside = source.with_file_name(file.rsplit_once('/').map_or(file, |(_, name)| name));
    if !is_file(&beside) {
        let message = format!(
            "metadata of a file that does not exist; if this is a file itself, add metadata for it: \
             {}{SIDECAR} with the content {{}}",
            source.file_name().unwrap_or_default().to_string_lossy()
        );
        return Err(refused(source, &message));
    }
    read(source).map(drop)
}

/// Returns the path of an object in the tree.
fn at(path: &str) -> garth_engine::Result<TreePath> {
    let mut at = TreePath::root();
    for name in path.split('/') {
        at = at.join(&Name::parse(name)?)?;
    }
    Ok(at)
}
