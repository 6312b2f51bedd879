//! Limits on uploads, refusals of content before it is received, and the errors of uploads.

use crate::engine::planner::MAX_EXTENT;
use crate::engine::relational::upload_counts::{OwnUploads, UploadCount};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Incoming, MAX_UPLOADS};
use crate::model::{MAX_FILE, Within};
use crate::path::TreePath;
use crate::rule::quota::{Count, Quotas, refuse};

/// Bytes of a stored chunk: one extent refers to one chunk.
pub const CHUNK: usize = MAX_EXTENT;
/// Lease of an upload in seconds, until its next chunk or its commit. A process that dies cannot give up its
/// uploads; after this time they are garbage.
pub const LEASE: i64 = 24 * 3600;

/// Fails if the uploads of an owner leave no room for `content`. `held` are the finished ones that no commit
/// has used, `arriving` those in progress, and discarded ones.
///
/// # Errors
/// `QuotaExceeded`.
pub fn check_uploads(content: &Incoming, held: UploadCount, arriving: &OwnUploads) -> Result<()> {
    let uploads = held.uploads + arriving.count.uploads + u64::from(!content.has_begun);
    let bytes = held.bytes.saturating_add(arriving.count.bytes).saturating_add(content.arrives);
    let room = content.room;
    let is_many = uploads > MAX_UPLOADS;
    if bytes <= room && !is_many {
        return Ok(());
    }
    let advice = match is_many {
        true => "commit or discard some of them, or wait until they expire".to_owned(),
        false => how_to_free(bytes.saturating_sub(room), arriving),
    };
    let message = format!(
        "uploads that arrive or that no commit has used may have {room} bytes and be {MAX_UPLOADS}; \
         {advice}"
    );
    Err(Error::new(ErrorKind::QuotaExceeded, message))
}

/// Returns advice on how to free `bytes` of the room for uploads.
fn how_to_free(bytes: u64, uploads: &OwnUploads) -> String {
    let discarded = "discarded uploads take their room for another hour";
    match (uploads.freed_at(bytes), uploads.all_freed_at()) {
        (Some(time), _) => format!("{discarded}: enough of it is free at {}", time.to_rfc3339()),
        (None, Some(time)) => format!(
            "{discarded}: all of it is free at {}; commit some of the others, or wait until they expire",
            time.to_rfc3339()
        ),
        (None, None) => format!("commit some of them, or wait until they expire; {discarded}"),
    }
}

/// Fails for a path out of reach, as the commit that creates it would: rules and quotas there are not the
/// caller's to know.
///
/// # Errors
/// `AccessDenied` for a path that is excluded, `NotFound` for another one.
pub fn check_reach(within: &Within, path: &TreePath) -> Result<()> {
    match within.contains(path) {
        true => Ok(()),
        false if within.is_excluded(path) => Err(Error::closed(path)),
        false => Err(Error::not_found(path)),
    }
}

/// Fails if a quota above a path refuses `content` there, whatever the content replaces. `within` is the part
/// of the tree that the caller may know of.
///
/// # Errors
/// `QuotaExceeded`.
pub fn check_quotas(quotas: &Quotas, within: &Within, path: &TreePath, content: &Incoming) -> Result<()> {
    let above = quotas.iter().filter(|quota| path.is_within(&quota.path));
    let counted = above.map(|quota| {
        let used = Count::from(quota.used);
        // The file is below the path as well, whatever it replaces.
        let bytes = (used.bytes + i128::from(content.growth)).max(i128::from(content.size));
        (quota, Count { bytes, ..used })
    });
    refuse(within, counted)
}

/// Returns the error of content that is too long for a file.
pub fn too_long() -> Error {
    Error::new(ErrorKind::TooLarge, format!("a file has at most {MAX_FILE} bytes"))
}

/// Returns the error of an upload after a step that failed, or whose future was dropped.
pub fn broken() -> Error {
    Error::new(ErrorKind::Io, "an earlier step of the upload failed; start it again")
}

/// Returns the error of an upload whose lease has ended.
pub fn collected() -> Error {
    Error::new(ErrorKind::NotFound, "the upload was idle for too long and was collected; start it again")
}
