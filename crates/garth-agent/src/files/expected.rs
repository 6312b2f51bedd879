//! Content that is to arrive.

/// Content that a write or an upload is to receive, as far as that is known.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Expected {
    /// Number of bytes; `None` if it is unknown.
    pub length: Option<u64>,
    /// Limit on the bytes of uploads of the tree's owner that no commit has used, this one included.
    pub room: u64,
}

impl Default for Expected {
    fn default() -> Self {
        Self { length: None, room: u64::MAX }
    }
}

impl Expected {
    /// Returns content of this length, within this room.
    pub fn new(length: Option<u64>, room: u64) -> Self {
        Self { length, room }
    }
}
