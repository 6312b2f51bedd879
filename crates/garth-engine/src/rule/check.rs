//! Check of existing files when a rule is set, and report of those that violate it.

use super::Rule;
use super::content_check::ContentCheck;
use super::lines::Place;
use super::schema::{Budget, MAX_STEPS};
use crate::path::TreePath;

/// Existing entry that violates a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileViolation {
    /// Path of the entry.
    pub path: TreePath,
    /// Reason, in words that follow the path.
    pub reason: String,
}

/// Check of an existing file by a rule that is to be set.
pub struct Check<'a> {
    content: ContentCheck<'a>,
    budget: Budget,
}

impl<'a> Check<'a> {
    /// Starts the check of a file of `size` bytes. `None` if its content need not be read.
    ///
    /// # Errors
    /// The violation, in words that follow the path.
    pub fn begin(rule: &'a Rule, size: u64, expires: bool) -> Result<Option<Self>, String> {
        if let Some(reason) = rule.constraint().expiry_refused(expires) {
            return Err(reason);
        }
        let content = rule.constraint().begin(size, Place::START)?;
        Ok(content.map(|content| Self { content, budget: Budget::new(MAX_STEPS) }))
    }

    /// Takes the next piece of the content.
    ///
    /// # Errors
    /// As [`Check::begin`].
    pub fn feed(&mut self, piece: &[u8]) -> Result<(), String> {
        self.content.feed(piece, &mut self.budget)
    }

    /// Ends the check. Returns the place from which to continue once the file has grown.
    ///
    /// # Errors
    /// As [`Check::begin`].
    pub fn finish(mut self) -> Result<Option<Place>, String> {
        self.content.finish(&mut self.budget)
    }
}
