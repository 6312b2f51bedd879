//! Limits on the content below a path, and its usage.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::path::TreePath;

/// Limit on the quotas of a tree: all of them are read when a commit is the first after others have written.
pub const MAX_QUOTAS: usize = 1000;

/// Largest limit, in bytes and in entries, and largest count below a path with a quota: the largest signed
/// integer of 64 bits.
pub const MAX_COUNTED: u64 = i64::MAX as u64;

/// Limits on the content below a path. Bytes and entries are counted even without a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Limit on the bytes: the sizes of the files that have a name below the path, each file once.
    pub bytes: Option<u64>,
    /// Limit on the names below the path, including those of directories, but not the path itself.
    pub entries: Option<u64>,
}

impl Limits {
    /// Sets the limit on the bytes.
    #[must_use]
    pub fn bytes(self, bytes: u64) -> Self {
        Self { bytes: Some(bytes), ..self }
    }

    /// Sets the limit on the names.
    #[must_use]
    pub fn entries(self, entries: u64) -> Self {
        Self { entries: Some(entries), ..self }
    }

    /// Checks that there is a limit, and that it can be stored.
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

/// Usage below a path, as quotas count it. Expired entries count until their end is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Sizes of the files that have a name below the path, each file once.
    pub bytes: u64,
    /// Names below the path.
    pub entries: u64,
}

/// Quota of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Quota {
    /// Path; `/` for the complete tree. It need not exist: a quota belongs to the path.
    pub path: TreePath,
    /// Limits on the content below the path.
    pub limits: Limits,
    /// Usage below the path.
    pub used: Usage,
}
