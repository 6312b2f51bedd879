//! Questions of a local search to its caller: which files and passages it may show, and their text.

use super::names::NamedFile;
use super::passage::Passage;
use crate::model::Ino;

/// Decides which files and passages a search may show, many at once.
pub trait Judge {
    /// Error of the storage.
    type Error;
    /// Result for a file that may be shown.
    type File: NamedFile;

    /// Returns each file that the query may show. Called once for each file.
    fn allow(&mut self, inos: &[Ino]) -> Result<Vec<Option<Self::File>>, Self::Error>;

    /// Returns what may be shown of each passage.
    fn shows(&mut self, passages: &[(&Self::File, &Passage)]) -> Result<Vec<Shown>, Self::Error>;

    /// Returns one text for each passage of some files, in their order in the file: what may be shown of it,
    /// without withheld lines and secrets.
    fn texts(&mut self, files: &[(Self::File, Vec<Passage>)]) -> Result<Vec<String>, Self::Error>;

    /// Returns true if the query is limited to subtrees.
    fn is_limited(&self) -> bool;

    /// Returns at most `limit` nodes in the subtrees of the query, and true if these are all; `None` if the
    /// query is not limited to subtrees.
    fn below(&mut self, limit: usize) -> Result<Option<(Vec<u64>, bool)>, Self::Error>;

    /// Called for each row of the index that is read. Fails to end a search that takes too long.
    fn step(&mut self) -> Result<(), Self::Error>;
}

/// Part of a passage that may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Nothing of it.
    Nothing,
    /// All of it.
    All,
    /// This text, without withheld lines. Words that only those have do not count.
    Part(String),
}
