//! Report of a repair: findings, and how often each was made.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::uri::Uri;
use garth_engine::error::Error;
use garth_engine::model::Timestamp;

/// Most broken memories, memories of unknown status, and failures that a report has by name.
const MAX_NAMED: usize = 1000;

/// Finding about a memory, and what repair did about it. Of two findings about layers the later variant names
/// the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// There is text and no meta: the rest was made of the text.
    Orphan,
    /// It was written step by step, and all of it is there: it is ACTIVE now.
    Activated,
    /// It cannot be made whole: it is BROKEN, until it is put again or a retry succeeds.
    Broken,
    /// Something lay where a file of the memory belongs; it has another name now.
    Misplaced,
    /// Files or fields were missing that can be made.
    Incomplete,
    /// Somebody changed a layer: it counts as given.
    ChangedLayer,
    /// Somebody changed the text: layers were made again, given ones are stale.
    ChangedContent,
    /// Nobody was told of the memory as it is.
    MissingEvent,
    /// Meta and text of a memory are gone: whoever keeps an index is told. Files that are left stay.
    Deleted,
    /// It was moved by other hands, or a move was cut short.
    Moved,
    /// It is a copy of another memory, or came from another owner: it is a memory of its own now.
    Copied,
    /// A delete was cut short.
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
    /// Directories of memories that were looked at.
    pub memories: u64,
    /// Memories that were changed or told of (of a dry run: would be), by what was found. Those under
    /// `broken` were marked as BROKEN; all others were repaired.
    pub found: BTreeMap<&'static str, u64>,
    /// Memories that wait until they are at rest.
    pub waiting: u64,
    /// Memories that are BROKEN, those that just became so included.
    pub broken: u64,
    /// The first of them.
    pub broken_memories: Vec<String>,
    /// Memories whose status garth does not know. They are left as they are.
    pub unknown: u64,
    /// The first of them, with the status.
    pub unknown_memories: Vec<String>,
    /// Memories that could not be repaired now: others changed them meanwhile, or the storage refused.
    pub failed: u64,
    /// The first of them, with why.
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

    /// Returns how many memories were repaired, or would be. A memory that was marked as BROKEN is none of
    /// them.
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
pub struct Told<'a> {
    /// URI of the memory, or the directory of an unfinished delete.
    pub memory: &'a str,
    /// Finding about it.
    pub finding: Finding,
    /// Time until which nobody may change it before repair does; `None` if it is repaired, or would be.
    pub until: Option<Timestamp>,
}
