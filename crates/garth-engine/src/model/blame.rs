//! Commits that wrote the bytes of a file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::commit::CommitInfo;
use super::id::Seq;
use super::query::ByteRange;

/// Limit on the bytes of messages and authors in an answer (4 MiB).
pub const MAX_BLAME: usize = 4 << 20;

/// Runs of a file's bytes by the commit that wrote them, in the order of offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blame {
    /// Runs, one after the other. Neighbours in an answer are of different commits.
    pub runs: Vec<BlameRun>,
    /// Commits of these runs, by sequence number.
    pub commits: Vec<CommitInfo>,
    /// Offset at which to continue; `None` at the end of the range or file.
    pub next: Option<u64>,
}

/// Bytes that one commit wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct BlameRun {
    /// Range of the bytes.
    #[serde(flatten)]
    pub range: ByteRange,
    /// Commit that wrote them into this file, by a write, append, patch or copy. Bytes around them that it
    /// left keep their own. `None` for a hole, which nobody wrote.
    pub commit: Option<Seq>,
}

impl Blame {
    /// Returns an answer without runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes after the last run, to it if they are of the same commit.
    pub fn push(&mut self, range: ByteRange, commit: Option<Seq>) {
        match self.runs.last_mut() {
            // An empty run would separate two runs of one commit.
            _ if range.length == 0 => {}
            Some(run) if run.commit == commit && run.range.offset + run.range.length == range.offset => {
                run.range.length += range.length;
            }
            _ => self.runs.push(BlameRun { range, commit }),
        }
    }

    /// Looks up the commits, and cuts the answer to `limit` runs and [`MAX_BLAME`] bytes, but to no less than
    /// one run.
    ///
    /// # Errors
    /// Errors of `commit`.
    #[doc(hidden)]
    pub fn with_commits<E>(
        mut self,
        limit: usize,
        mut commit: impl FnMut(Seq) -> Result<CommitInfo, E>,
    ) -> Result<Self, E> {
        let (mut commits, mut bytes, mut kept) = (BTreeMap::new(), 0, 0);
        for run in self.runs.iter().take(limit) {
            if let Some(seq) = run.commit
                && !commits.contains_key(&seq)
            {
                let info = commit(seq)?;
                bytes += info.message.len() + info.author.len();
                // At least one run, so that the caller gets further.
                if bytes > MAX_BLAME && kept > 0 {
                    break;
                }
                commits.insert(seq, info);
            }
            kept += 1;
        }
        if let Some(cut) = self.runs.get(kept) {
            self.next = Some(cut.range.offset);
            self.runs.truncate(kept);
        }
        self.commits = commits.into_values().collect();
        Ok(self)
    }
}
