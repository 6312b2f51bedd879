//! Size limit of a media file. It applies to uploads, to images in messages and to files read into a cache.

use garth_engine::error::{Error, ErrorKind};

/// Limit on the bytes of a media file, 25 MB.
pub const MAX_MEDIA: u64 = 26_214_400;

/// Returns the error for a larger file.
pub(super) fn too_large() -> Error {
    Error::new(ErrorKind::TooLarge, format!("a media file has at most {MAX_MEDIA} bytes; make it smaller"))
}
