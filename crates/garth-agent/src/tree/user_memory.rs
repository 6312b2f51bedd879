//! Notes that an agent keeps about a user, or a template for them if the file does not exist yet.

use crate::boxed;
use garth_engine::error::{ErrorKind, Result};
use garth_engine::fs::{FileSystem, FileSystemExt};

/// Path in the agent's tree.
pub const USER_MEMORY: &str = "/.user/memory/MEMORY.md";

/// Initial content.
const TEMPLATE: &str = "# Memory\n\nWhat to remember about this user, one fact a line.\n\n\
                        ## Preferences\n\n## People\n\n## Projects\n";

/// Text of [`USER_MEMORY`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct UserMemory {
    /// Text of the file, or the template.
    pub content: String,
    /// True if it is the template, because the file does not exist.
    pub synthetic: bool,
}

/// Returns the notes in an agent's tree, or a template. Reading the file itself fails if it does not exist.
///
/// # Errors
/// From reading the file; `InvalidData` if it is not UTF-8.
#[boxed]
pub async fn user_memory(tree: &dyn FileSystem) -> Result<UserMemory> {
    match tree.read_to_string(USER_MEMORY).await {
        Err(error) if error.is(ErrorKind::NotFound) => {
            Ok(UserMemory { content: TEMPLATE.to_owned(), synthetic: true })
        }
        content => Ok(UserMemory { content: content?, synthetic: false }),
    }
}
