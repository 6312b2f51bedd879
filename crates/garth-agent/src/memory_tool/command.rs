//! Commands of the memory tool.

use garth_engine::error::{Error, Result};
use serde::{Deserialize, Serialize};

use super::tool_path::ToolPath;

/// Command, in the JSON that a model sends as the input of the tool.
///
/// ```
/// use garth_agent::memory_tool::Command;
///
/// let input = r#"{"command": "insert", "path": "/memories/a.md", "insert_line": 0, "insert_text": "Hi."}"#;
/// let command = Command::parse(input)?;
/// assert_eq!(command.name(), "insert");
/// # Ok::<(), garth_engine::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Command {
    /// Shows a directory two levels deep, or the numbered lines of a file.
    View {
        /// Path of the directory or file.
        path: String,
        /// First and last line to show, from 1; -1 as the last one is the end of the file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        view_range: Option<[i64; 2]>,
    },
    /// Creates a file, and the missing directories above it.
    Create {
        /// Path of the new file.
        path: String,
        /// Content.
        file_text: String,
    },
    /// Replaces a text that occurs once in a file.
    StrReplace {
        /// Path of the file.
        path: String,
        /// Text to replace.
        old_str: String,
        /// Text that takes its place. Absent: the empty text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        new_str: Option<String>,
    },
    /// Inserts lines into a file.
    Insert {
        /// Path of the file.
        path: String,
        /// Line after which to insert; 0 is before the first one.
        insert_line: i64,
        /// Lines to insert.
        insert_text: String,
    },
    /// Deletes a file, or a directory with everything below it.
    Delete {
        /// Path of the file or directory.
        path: String,
    },
    /// Moves a file or directory to a path that does not exist.
    Rename {
        /// Path of the file or directory.
        old_path: String,
        /// New path.
        new_path: String,
    },
}

impl Command {
    /// Reads the input of a model's call, in JSON.
    ///
    /// # Errors
    /// `InvalidArgument`: it is not a command.
    pub fn parse(input: &str) -> Result<Self> {
        let wrong = |error| Error::invalid(format!("the input is no command of the memory tool: {error}"));
        serde_json::from_str(input).map_err(wrong)
    }

    /// Returns the name of the command.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::View { .. } => "view",
            Self::Create { .. } => "create",
            Self::StrReplace { .. } => "str_replace",
            Self::Insert { .. } => "insert",
            Self::Delete { .. } => "delete",
            Self::Rename { .. } => "rename",
        }
    }

    /// Returns true for every command but `view`.
    pub const fn writes(&self) -> bool {
        !matches!(self, Self::View { .. })
    }

    /// Returns true for a command that may create the first file. An interface creates the missing
    /// directories of an agent's tree for it alone: the other commands need a file that exists.
    pub fn creates(&self) -> bool {
        match self {
            // A path that is refused creates nothing.
            Self::Create { path, .. } => ToolPath::parse(path).is_ok_and(|path| !path.is_top()),
            _ => false,
        }
    }
}
