//! Versions in an answer of `history`.

use garth_engine::model::{CommitInfo, Timestamp, VersionId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::mcp::tools::answer::bytes;
use crate::mcp::tools::paths::{by, shown};

/// Limit on the bytes of the message of a commit in the answer.
const MAX_MESSAGE: usize = 200;

/// Versions of a page, newest first.
pub(super) struct Found {
    pub(super) versions: Vec<(Timestamp, ListedVersion)>,
    /// Version before which there may be more.
    pub(super) before: Option<VersionId>,
}

/// Version of a path.
#[derive(Serialize, JsonSchema)]
pub(super) struct ListedVersion {
    pub(super) version: VersionId,
    pub(super) time: String,
    /// Size; none if this version removed the node, or moved it away, and none of a commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<u64>,
    /// Path to which this version moved the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) moved_to: Option<String>,
    /// Changes below a directory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) changes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl ListedVersion {
    pub(super) fn of(version: VersionId, commit: &CommitInfo) -> Self {
        let message = commit.message.get(..commit.message.floor_char_boundary(MAX_MESSAGE));
        Self {
            version,
            time: String::new(),
            size: None,
            moved_to: None,
            changes: Vec::new(),
            author: by(&commit.author),
            message: message.filter(|message| !message.is_empty()).map(str::to_owned),
        }
    }

    pub(super) fn text(&self) -> String {
        let state = match (self.size, &self.moved_to) {
            _ if !self.changes.is_empty() => String::new(),
            (Some(size), _) => format!("  {}", bytes(size)),
            (None, Some(to)) => format!("  moved to {}", shown(to)),
            (None, None) => "  removed".to_owned(),
        };
        let author = self.author.as_ref().map(|author| format!("  by {author}")).unwrap_or_default();
        let message =
            self.message.as_ref().map(|message| format!("  {}", shown(message))).unwrap_or_default();
        let changes: String = self.changes.iter().map(|change| format!("\n  {change}")).collect();
        format!("{}  {}{state}{author}{message}{changes}", self.version, self.time)
    }
}
