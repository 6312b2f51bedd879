//! Files opened in the version that was found: an open file shows later writes, in part before and in part
//! after a write.

use std::sync::Arc;

use crate::small_file::is_no_file;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::{FileSystem, OpenFile};
use garth_engine::model::{At, VersionId};
use garth_engine::path::TreePath;

/// Opens a version of a file. A tree without versions opens the file as long as it has this version.
///
/// # Errors
/// `Conflict` if the file has another version or was removed, and this version cannot be read any more;
/// `Gone` if it has this version, whose content is no longer stored.
pub(super) async fn open_version(
    fs: &dyn FileSystem,
    path: &TreePath,
    version: VersionId,
) -> Result<Arc<dyn OpenFile>> {
    let changed = || Error::at(ErrorKind::Conflict, path, "changed while it was read; read it again");
    match fs.open_version(version).await {
        Err(error) if error.is(ErrorKind::Unsupported) => {}
        Err(error) if error.is(ErrorKind::NotFound) => return Err(changed()),
        Err(error) if error.is(ErrorKind::Gone) => {
            let there = fs.stat(&At::from(path)).await;
            let is_shown = there.is_ok_and(|entry| entry.version == version);
            // A version has no path of its own: the error names the first one of the file.
            return Err(if is_shown { error.mapped(|_| Some(path.clone())) } else { changed() });
        }
        file => return file,
    }
    let at = At::from(path);
    let opened = match fs.open(&at).await {
        Ok(file) => fs.stat(&at).await.map(|entry| (file, entry)),
        Err(error) => Err(error),
    };
    match opened {
        Ok((file, entry)) if entry.version == version => Ok(file),
        Ok(_) => Err(changed()),
        Err(error) if is_no_file(&error) => Err(changed()),
        Err(error) => Err(error),
    }
}
