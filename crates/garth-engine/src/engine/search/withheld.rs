//! Lines that search leaves out: lines for which another file has keys.

use std::collections::HashSet;
use std::ops::Range;

use super::files::Files;
use crate::model::Projection;
use crate::path::TreePath;
use crate::text::withheld::blanked;

/// Returns true if the file at a path has a key.
pub(super) fn has_key<F: Files>(
    files: &F,
    file: &TreePath,
    projection: Projection,
    key: &str,
) -> Result<bool, F::Error> {
    match files.live_file(file)? {
        Some(ino) => files.has_key(ino, projection, key),
        None => Ok(false),
    }
}

/// Returns true if search leaves out lines of the file at a path.
pub(super) fn withholds<F: Files>(files: &F, path: &TreePath) -> Result<bool, F::Error> {
    match files.registry().withheld(path) {
        Some(by) => has_key(files, &by.file, by.projection, by.any),
        None => Ok(false),
    }
}

/// Returns the lines of a range that search leaves out of the file at a path.
pub(super) fn withheld<F: Files>(
    files: &F,
    path: &TreePath,
    lines: Range<u64>,
) -> Result<HashSet<u64>, F::Error> {
    let mut withheld = HashSet::new();
    let Some(by) = files.registry().withheld(path) else { return Ok(withheld) };
    let Some(ino) = files.live_file(&by.file)? else { return Ok(withheld) };
    // One lookup for the common case that nothing is withheld.
    if !files.has_key(ino, by.projection, by.any)? {
        return Ok(withheld);
    }
    for line in lines {
        for key in (by.keys)(line) {
            if files.has_key(ino, by.projection, &key)? {
                withheld.insert(line);
                break;
            }
        }
    }
    Ok(withheld)
}

/// Blanks the withheld lines in a part of the file at a path. `first` is the number of its first line.
pub(super) fn without_withheld<F: Files>(
    files: &F,
    path: &TreePath,
    text: Vec<u8>,
    first: u64,
) -> Result<Vec<u8>, F::Error> {
    let end = first + text.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    let withheld = withheld(files, path, first..end)?;
    Ok(if withheld.is_empty() { text } else { blanked(text, first, |line| withheld.contains(&line)) })
}
