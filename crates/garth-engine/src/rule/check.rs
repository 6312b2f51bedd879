//! The check of files that exist when a rule is set, and the report of those that break it.

use super::Rule;
use super::content_check::ContentCheck;
use super::lines::Place;
use super::schema::{Budget, MAX_STEPS};
use crate::path::TreePath;

/// An existing entry that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
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
    /// Begins with a file of this size. `None` if nothing of it is to be read.
    ///
    /// # Errors
    /// The flaw, in words that follow the path.
    pub fn begin(rule: &'a Rule, size: u64, expires: bool) -> Result<Option<Self>, String> {
        if let Some(reason) = rule.demand().expiry_refused(expires) {
            return Err(reason);
        }
        let content = rule.demand().begin(size, Place::START)?;
        Ok(content.map(|content| Self { content, budget: Budget::new(MAX_STEPS) }))
    }

    /// Takes the next piece of the content.
    ///
    /// # Errors
    /// As [`Check::begin`].
    pub fn feed(&mut self, piece: &[u8]) -> Result<(), String> {
        self.content.feed(piece, &mut self.budget)
    }

    /// Ends the check. Gives the place from which to go on once the file has grown.
    ///
    /// # Errors
    /// As [`Check::begin`].
    pub fn finish(mut self) -> Result<Option<Place>, String> {
        self.content.finish(&mut self.budget)
    }
}
