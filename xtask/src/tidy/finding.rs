//! Input and output of every rule: the files of the repository, and findings about them.

use std::collections::BTreeMap;

/// Text files of the repository by path, as git lists them.
pub(super) type Files = BTreeMap<String, String>;

/// Violation of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) message: String,
}

impl Finding {
    pub(super) fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}
