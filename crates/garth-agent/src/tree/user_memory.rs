//! Memory that an agent keeps about a user, or a template for it if the file does not exist yet.

use crate::boxed;
use garth_engine::error::{ErrorKind, Result};
use garth_engine::fs::{FileSystem, FileSystemExt};

/// Where it is in the agent's tree.
pub const USER_MEMORY: &str = "/.user/memory/MEMORY.md";

/// What to begin with.
const TEMPLATE: &str = "# Memory\n\nWhat to remember about this user, one fact a line.\n\n\
                        ## Preferences\n\n## People\n\n## Projects\n";

/// The text of [`USER_MEMORY`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct UserMemory {
    /// The text.
    pub content: String,
    /// Whether it is a template: no such file is there.
    pub synthetic: bool,
}

/// The memory of an agent's tree, or a template for it. Whoever reads the file itself finds nothing where
/// nothing is.
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
