//! Content that an operation writes: in memory, or uploaded before.

use std::fmt;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// New content. Its `Debug` output shows at most the first 64 bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// In memory; at most [`MAX_INLINE_BODY`](crate::model::MAX_INLINE_BODY).
    Bytes(#[serde(with = "crate::model::json::bytes")] Bytes),
    /// Uploaded before through `stage`. Each staged body can be used by one operation.
    Staged(StagedBody),
}

impl Body {
    /// Returns the size of the content in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Staged(staged) => staged.size,
        }
    }
}

/// Writes at most the beginning: content may be 16 MiB of a user's text, and ends up in messages and logs.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Bytes shown.
        const SHOWN: usize = 64;
        match self {
            Self::Bytes(bytes) if bytes.len() <= SHOWN => f.debug_tuple("Bytes").field(bytes).finish(),
            Self::Bytes(bytes) => {
                write!(f, "Bytes({:?}... {} bytes)", bytes.slice(..SHOWN), bytes.len())
            }
            Self::Staged(staged) => f.debug_tuple("Staged").field(staged).finish(),
        }
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Self::Bytes(bytes.into())
    }
}

/// Uploaded content before its commit: safe on disk, but in no version. `gc` collects abandoned bodies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StagedBody {
    /// Id in the filesystem.
    #[serde(with = "crate::model::json::id")]
    #[schemars(with = "String")]
    pub id: u128,
    /// Size in bytes.
    pub size: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_debug_output_shows_first_64_bytes() {
        let shown = |length| format!("{:?}", Body::from(vec![b'x'; length]));
        assert_eq!(shown(64), format!("Bytes(b\"{}\")", "x".repeat(64)));
        assert_eq!(shown(65), format!("Bytes(b\"{}\"... 65 bytes)", "x".repeat(64)));
        assert_eq!(shown(16 << 20).matches('x').count(), 64);
    }
}
