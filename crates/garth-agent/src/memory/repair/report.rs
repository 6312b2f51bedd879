//! Report of a repair: findings, and the number of each.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::uri::Uri;
use garth_engine::error::Error;
use garth_engine::model::Timestamp;

/// Limit on the broken memories, on those of unknown status, and on the failures that a report names.
const MAX_NAMED: usize = 1000;

/// Finding about a memory, and what repair did about it. Of two findings about layers the later variant names
/// the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Text without a meta: the other files were derived from the text.
    Orphan,
    /// Written file by file, and complete: it is ACTIVE now.
    Activated,
    /// Cannot be completed: it is BROKEN until it is put again or a retry succeeds.
    Broken,
    /// Another object occupied the place of one of its files, and was renamed.
    Misplaced,
    /// Missing files or fields were derived.
    Incomplete,
    /// A layer was edited: it counts as given.
    ChangedLayer,
    /// The text was edited: layers were derived again, given ones are stale.
    ChangedContent,
    /// No event had the current state of the memory.
    MissingEvent,
    /// Meta and text were removed: a deletion event was written. Other files stay.
    Deleted,
    /// Moved by another interface, or by a move that was cut short.
    Moved,
    /// Copied from another memory, or moved from another owner: it is a memory of its own now.
    Copied,
    /// Deleted incompletely.
    UnfinishedDelete,
}

impl Finding {
    /// Returns the name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Orphan => "orphan",
            Self::Activated => "activated",
            Self::Broken => "broken",
            Self::Misplaced => "misplaced",
            Self::Incomplete => "incomplete",
            Self::ChangedLayer => "changed_layer",
            Self::ChangedContent => "changed_content",
            Self::MissingEvent => "missing_event",
            Self::Deleted => "deleted",
            Self::Moved => "moved",
            Self::Copied => "copied",
            Self::UnfinishedDelete => "unfinished_delete",
        }
    }
}

/// Report of a repair.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Number of directories of memories that were checked.
    pub memories: u64,
    /// Memories that were changed or reported (in a dry run: would be), by finding. Those under `broken` were
    /// marked as BROKEN; all others were repaired.
    pub found: BTreeMap<&'static str, u64>,
    /// Number of memories that wait until they have not changed for a while.
    pub waiting: u64,
    /// Number of BROKEN memories, those marked by this run included.
    pub broken: u64,
    /// First of these memories.
    pub broken_memories: Vec<String>,
    /// Memories whose status garth does not know. They are left as they are.
    pub unknown: u64,
    /// First of these memories, with the status.
    pub unknown_memories: Vec<String>,
    /// Number of memories that could not be repaired: others changed them concurrently, or the storage
    /// failed.
    pub failed: u64,
    /// First of these memories, with the error.
    pub failures: Vec<String>,
}

impl Report {
    /// Returns true if nothing was found, nothing waits, nothing is broken and every status is known.
    pub fn is_sound(&self) -> bool {
        self.found.is_empty() && self.waiting == 0 && self.unknown == 0 && self.is_whole()
    }

    /// Returns true if no memory is broken and no repair failed.
    pub fn is_whole(&self) -> bool {
        self.broken == 0 && self.failed == 0
    }

    /// Returns the number of memories that were repaired, or would be. Memories marked as BROKEN do not
    /// count.
    pub fn repaired(&self) -> u64 {
        let repaired = self.found.iter().filter(|(finding, _)| **finding != Finding::Broken.as_str());
        repaired.map(|(_, count)| count).sum()
    }

    pub(super) fn broken(&mut self, uri: &Uri) {
        self.broken += 1;
        if self.broken_memories.len() < MAX_NAMED {
            self.broken_memories.push(uri.to_string());
        }
    }

    pub(super) fn unknown(&mut self, uri: &Uri, status: &str) {
        self.unknown += 1;
        if self.unknown_memories.len() < MAX_NAMED {
            self.unknown_memories.push(format!("{uri}: {status}"));
        }
    }

    pub(super) fn failed(&mut self, what: &str, error: &Error) {
        self.failed += 1;
        if self.failures.len() < MAX_NAMED {
            self.failures.push(format!("{what}: {error}"));
        }
    }
}

/// Finding, as it is reported while repair runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FindingReport<'a> {
    /// URI of the memory, or the directory of an unfinished delete.
    pub memory: &'a str,
    /// Finding about this memory.
    pub finding: Finding,
    /// Time until which nobody may change it before repair does; `None` if it is repaired, or would be.
    pub until: Option<Timestamp>,
}
