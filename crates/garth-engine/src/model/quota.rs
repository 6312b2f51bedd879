//! How much may lie below a path, and how much does.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::path::TreePath;

/// Most quotas of a tree: so many are read when a commit is the first after others have written.
pub const MAX_QUOTAS: usize = 1000;

/// The largest limit, in bytes and in entries, and the most that is counted below a path which has a quota:
/// what a signed number of 64 bits holds.
pub const MAX_COUNTED: u64 = i64::MAX as u64;

/// How much may lie below a path. What is not limited is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes: the sizes of the files that have a name below the path, each file once.
    pub bytes: Option<u64>,
    /// Names below the path, those of directories too; the path itself is not among them.
    pub entries: Option<u64>,
}

impl Limits {
    /// At most so many bytes.
    #[must_use]
    pub fn bytes(self, bytes: u64) -> Self {
        Self { bytes: Some(bytes), ..self }
    }

    /// At most so many names.
    #[must_use]
    pub fn entries(self, entries: u64) -> Self {
        Self { entries: Some(entries), ..self }
    }

    /// Refuses what is no limit, or none that can be kept.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check(&self) -> Result<()> {
        if self.bytes.is_none() && self.entries.is_none() {
            return Err(Error::invalid("a quota limits bytes, entries, or both"));
        }
        if self.bytes.max(self.entries) > Some(MAX_COUNTED) {
            return Err(Error::invalid(format!("a quota is at most {MAX_COUNTED}")));
        }
        Ok(())
    }
}

/// What lies below a path, as quotas count it. What has expired counts until its end is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// The sizes of the files that have a name below the path, each file once.
    pub bytes: u64,
    /// Names below the path.
    pub entries: u64,
}

/// The quota of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Quota {
    /// The path; of the whole tree `/`. Nothing has to be there: a quota belongs to the path.
    pub path: TreePath,
    /// How much may lie below it.
    pub limits: Limits,
    /// How much does.
    pub used: Usage,
}
