//! Copies of a node of one layer in the other one: content, attributes and kind.

use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::model::{At, Body, ByteRange, Entry, Kind, MAX_INLINE_BODY, SetAttrs, Special};
use crate::path::TreePath;

/// Bytes copied at a time. Content up to this size is part of the batch; longer content is staged.
const STEP: usize = 1 << 20;

/// Returns the attributes that a copy of a node keeps.
pub(super) fn carried(entry: &Entry) -> SetAttrs {
    let attributes = &entry.attributes;
    let of_directory = entry.is_dir();
    SetAttrs {
        // A folder of the host refuses a mode for a symbolic link; every new one has 0o777 anyway.
        mode: (entry.target.is_none() || entry.mode != 0o777).then_some(entry.mode),
        uid: Some(entry.uid),
        gid: Some(entry.gid),
        atime: Some(entry.atime),
        mtime: Some(entry.mtime),
        content_type: attributes.content_type.clone().map(Some),
        tags: (!attributes.tags.is_empty()).then(|| attributes.tags.clone()),
        importance: (attributes.importance != 0.0).then_some(attributes.importance),
        searchable: attributes.searchable.map(Some),
        metadata: attributes.metadata.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect(),
        xattrs: attributes.xattrs.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect(),
        // A directory does not expire.
        expires_at: entry.expires_at.filter(|_| !of_directory).map(Some),
    }
}

/// Reads the content of a file of one layer for a file of another one. Fails with `Stale` if it is no longer
/// the content of `entry`: the copy would have the attributes of one version and the content of another.
pub(super) async fn content(
    from: &dyn FileSystem,
    at: &At,
    entry: &Entry,
    to: &dyn FileSystem,
    place: &TreePath,
) -> Result<Body> {
    let changed = || Error::new(ErrorKind::Stale, "the file changed while it was copied");
    if entry.size <= STEP.min(MAX_INLINE_BODY) as u64 {
        let (now, bytes) = from.fetch(at, ByteRange::ALL).await?;
        return if now.etag == entry.etag { Ok(Body::Bytes(bytes)) } else { Err(changed()) };
    }
    // Staged before the commit: no writer waits for the copy, and a batch holds at most 16 MiB of content.
    let file = from.open(at).await?;
    let mut upload = to.stage(&At::Path(place.clone())).await?;
    let mut offset = 0;
    loop {
        let bytes = file.read_at(offset, STEP).await?;
        if bytes.is_empty() {
            break;
        }
        offset += bytes.len() as u64;
        upload.write(bytes).await?;
    }
    if file.stat().await?.etag != entry.etag {
        return Err(changed());
    }
    Ok(Body::Staged(upload.finish().await?))
}

/// Returns the argument of `mknod` for a node of this kind.
pub(super) fn special(kind: Kind, rdev: u64) -> Result<Special> {
    Ok(match kind {
        Kind::Fifo => Special::Fifo,
        Kind::Socket => Special::Socket,
        Kind::CharDevice => Special::CharDevice(rdev),
        Kind::BlockDevice => Special::BlockDevice(rdev),
        Kind::Whiteout => Special::Whiteout,
        // The callers handle these before; only a link without a target gets here.
        Kind::File | Kind::Directory | Kind::Symlink => {
            return Err(Error::new(ErrorKind::Corrupt, "a symbolic link without a target"));
        }
    })
}
