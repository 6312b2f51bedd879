//! The text files of a workspace: their size limit, and how they are read.

use crate::small_file::File;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::path::TreePath;

/// Size limit of the text files of a workspace, those of daily memory included: 1 MiB.
pub const MAX_FILE: usize = 1 << 20;

/// Returns the text of a file.
///
/// # Errors
/// `TooLarge` above [`MAX_FILE`]; `InvalidArgument` if it is not UTF-8.
pub(super) fn text_of<'f>(path: &TreePath, file: &'f File) -> Result<&'f str> {
    let Some(bytes) = &file.bytes else {
        let message = format!("has more than {MAX_FILE} bytes; shorten it");
        return Err(Error::at(ErrorKind::TooLarge, path, message));
    };
    let not_text = |_| Error::at(ErrorKind::InvalidArgument, path, "is not UTF-8 text; write it as that");
    std::str::from_utf8(bytes).map_err(not_text)
}
