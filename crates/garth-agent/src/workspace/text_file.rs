//! Text files of a workspace: size limit and reading.

use crate::small_file::{File, unreadable};
use garth_engine::error::Result;
use garth_engine::path::TreePath;

/// Size limit of the text files of a workspace, those of daily memory included: 1 MiB.
pub const MAX_FILE: usize = 1 << 20;

/// Limit on the bytes of all files that a prompt is built from, 32 MiB.
pub(super) const MAX_READ: usize = 32 << 20;

/// Returns the text of a file.
///
/// # Errors
/// `Corrupt` above [`MAX_FILE`], and if it is not UTF-8.
pub(super) fn text_of<'f>(path: &TreePath, file: &'f File) -> Result<&'f str> {
    let Some(bytes) = &file.bytes else {
        return Err(unreadable(path, &format!("it has more than {MAX_FILE} bytes"), "shorten it"));
    };
    let not_text = |_| unreadable(path, "it is not UTF-8 text", "write it as that");
    std::str::from_utf8(bytes).map_err(not_text)
}
