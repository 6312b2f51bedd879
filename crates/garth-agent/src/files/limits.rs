//! Limits of one call, and what is left of them.

use garth_engine::error::{Error, Result};

/// Longest file in bytes that is compared by line, 32 MiB: both sides are held in memory.
pub const MAX_COMPARED_TEXT: u64 = 32 << 20;
/// Limit on the lines of a file that is compared by line: each takes some hundred bytes of memory.
pub const MAX_COMPARED_LINES: usize = 500_000;

/// Limits of one call. It ends when one of them is reached, and its answer has a cursor. It always gets
/// further than the page before, if need be beyond a limit: by one item, one line of a file with those around
/// it, one MiB of content, or two files that are compared by line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Items of the answer: files, paths or differences.
    pub items: usize,
    /// Bytes of the answer.
    pub bytes: usize,
    /// Bytes of content that are read.
    pub read: u64,
    /// Names that are looked at.
    pub names: usize,
}

impl Default for Limits {
    /// Returns 1,000 items, 1 MiB, 256 MiB of content and 100,000 names.
    fn default() -> Self {
        Self { items: 1000, bytes: 1 << 20, read: 256 << 20, names: 100_000 }
    }
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self { items: usize::MAX, bytes: usize::MAX, read: u64::MAX, names: usize::MAX };
}

/// Rest of the limits of a call.
pub(super) struct Budget<'a> {
    left: Limits,
    stop: Option<&'a (dyn Fn() -> bool + Sync)>,
    /// Bytes and lines of the longest file that is compared by line.
    compared: (u64, usize),
}

/// Bytes and lines of the longest file that is ever compared by line.
const COMPARED: (u64, usize) = (MAX_COMPARED_TEXT, MAX_COMPARED_LINES);

impl<'a> Budget<'a> {
    /// Returns the budget of a call.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit of 0.
    pub(super) fn new(limits: Limits, stop: Option<&'a (dyn Fn() -> bool + Sync)>) -> Result<Self> {
        if limits.items == 0 || limits.bytes == 0 || limits.read == 0 || limits.names == 0 {
            return Err(Error::invalid("a limit of a page is at least 1"));
        }
        Ok(Self { left: limits, stop, compared: COMPARED })
    }

    /// Returns the budget of a call without limits.
    pub(super) fn unlimited() -> Self {
        Self { left: Limits::NONE, stop: None, compared: COMPARED }
    }

    /// Lowers the limits on the bytes and lines of a file that is compared by line.
    pub(super) fn comparing(self, bytes: u64, lines: usize) -> Self {
        Self { compared: (bytes.min(COMPARED.0), lines.min(COMPARED.1)), ..self }
    }

    /// Returns the limits on the bytes and lines of a file that is compared by line.
    pub(super) fn compared(&self) -> (u64, usize) {
        self.compared
    }

    /// Counts an item of the answer, and its bytes.
    pub(super) fn item(&mut self, bytes: usize) {
        self.left.items = self.left.items.saturating_sub(1);
        self.bytes(bytes);
    }

    /// Counts bytes of the answer.
    pub(super) fn bytes(&mut self, bytes: usize) {
        self.left.bytes = self.left.bytes.saturating_sub(bytes);
    }

    /// Counts bytes of content.
    pub(super) fn read(&mut self, bytes: usize) {
        self.left.read = self.left.read.saturating_sub(bytes as u64);
    }

    /// Counts a name.
    pub(super) fn name(&mut self) {
        self.left.names = self.left.names.saturating_sub(1);
    }

    /// Returns the number of bytes that the answer still takes.
    pub(super) fn bytes_left(&self) -> usize {
        self.left.bytes
    }

    /// Returns true once the call is to end.
    pub(super) fn is_spent(&self) -> bool {
        let Limits { items, bytes, read, names } = self.left;
        items == 0 || bytes == 0 || read == 0 || names == 0 || self.is_stopped()
    }

    /// Returns true if the caller wants the call to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop())
    }
}
