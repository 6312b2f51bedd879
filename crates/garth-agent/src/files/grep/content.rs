//! Content of a file, in parts that begin and end at multiples of their size. They do not depend on where a
//! page begins, so that all pages of a search judge in the same way which part of a file is binary.

use std::sync::Arc;

use bytes::Bytes;

use crate::files::open_version::open_version;
use garth_engine::error::Result;
use garth_engine::fs::{FileSystem, OpenFile};
use garth_engine::model::{At, VersionId};
use garth_engine::path::TreePath;

/// Size of a part, 1 MiB: that of the largest extent.
const PART: u64 = 1 << 20;

/// One version of a file, as far as it was not read yet.
pub(super) struct Content {
    pub(super) version: VersionId,
    pub(super) size: u64,
    offset: u64,
    /// First part, which was read with the entry.
    first: Option<Bytes>,
    /// Open file; `None` if the first part is all of it.
    file: Option<Arc<dyn OpenFile>>,
}

impl Content {
    /// Returns the current content of a file.
    pub(super) async fn begin(fs: &dyn FileSystem, path: &TreePath) -> Result<Self> {
        let (entry, first) = fs.fetch(&At::from(path), (0..PART).into()).await?;
        let is_all = first.len() as u64 == entry.size;
        let file = if is_all { None } else { Some(open_version(fs, path, entry.version).await?) };
        Ok(Self { version: entry.version, size: entry.size, offset: 0, first: Some(first), file })
    }

    /// Returns the content of a version from an offset on.
    ///
    /// # Errors
    /// `Conflict` if the file has another version, and this one cannot be read any more.
    pub(super) async fn resume(
        fs: &dyn FileSystem,
        path: &TreePath,
        version: VersionId,
        offset: u64,
    ) -> Result<Self> {
        let file = open_version(fs, path, version).await?;
        let size = file.stat().await?.size;
        Ok(Self { version, size, offset, first: None, file: Some(file) })
    }

    /// Returns the next part; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
        let part = match (self.first.take(), &self.file) {
            (Some(first), _) => first,
            (None, Some(file)) => {
                let end = (self.offset / PART + 1) * PART;
                let length = end.min(self.size).saturating_sub(self.offset);
                if length == 0 {
                    return Ok(None);
                }
                file.read_at(self.offset, usize::try_from(length).unwrap_or_default()).await?
            }
            (None, None) => return Ok(None),
        };
        self.offset += part.len() as u64;
        Ok(Some(part).filter(|part| !part.is_empty()))
    }
}
