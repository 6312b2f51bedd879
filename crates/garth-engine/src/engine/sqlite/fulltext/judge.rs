//! Questions of a search to its caller: which files and passages it may show, and their text.

use crate::engine::sqlite::fulltext::passages::Passage;
use crate::model::Ino;
use crate::sqlite::DbResult;

/// Decides which files and passages a search may show.
pub(crate) trait Judge {
    /// Result for a file that may be shown.
    type File: Clone;

    /// Returns the file if the query may show it. Called once for each file.
    fn allow(&mut self, ino: Ino) -> DbResult<Option<Self::File>>;

    /// Returns what may be shown of a passage of a file.
    fn shows(&mut self, file: &Self::File, passage: &Passage) -> DbResult<Shown>;

    /// Returns one text for each passage of a file, in their order in the file: what may be shown of it,
    /// without withheld lines and secrets.
    fn texts(&mut self, file: &Self::File, passages: &[Passage]) -> DbResult<Vec<String>>;

    /// Returns at most `limit` nodes in the subtrees of the query, and true if these are all; `None` if the
    /// query is not limited to subtrees.
    fn below(&mut self, limit: usize) -> DbResult<Option<(Vec<u64>, bool)>>;

    /// Called for each row of the index that is read. Fails to end a search that takes too long.
    fn step(&mut self) -> DbResult<()>;
}

/// Part of a passage that may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Nothing,
    All,
    /// This text, without withheld lines. Words that only those have do not count.
    Part(String),
}
