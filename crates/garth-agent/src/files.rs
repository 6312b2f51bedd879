//! Operations on the files of a tree, for the tools of an agent: search of lines ([`Files::grep`]),
//! paths by pattern ([`Files::glob`]) and differences ([`Files::diff`]). Each
//! call is bounded in bytes and time, and a cursor continues an answer that is not complete.

mod cursor;
mod diff;
mod glob;
mod glob_pattern;
mod grep;
mod limits;
mod matches;
mod walker;

pub use self::diff::{
    Change, ContentDifference, Diff, DiffForm, DiffPage, Difference, Differences, MAX_COMPARED_LINES,
    MAX_COMPARED_TEXT, Side, unified,
};
pub use self::glob::{Glob, GlobMatch, GlobPage};
pub use self::glob_pattern::{GlobPattern, is_pattern};
pub use self::grep::{
    BinaryFiles, Grep, GrepFile, GrepLine, GrepPage, LineMatcher, MAX_EXPRESSIONS, MAX_LINE, Show, Whole,
};
pub use self::limits::Limits;
pub use self::matches::Matches;

use std::sync::Arc;

use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::Moment;

/// Handle to the files of a tree, or of a view of one.
///
/// Paths are taken as a person or program writes them: `.`, `..` and symbolic links are resolved inside the
/// tree ([`resolve`](garth_engine::fs::resolve)). Calls compute in proportion to what they read, so a program
/// that serves others awaits them within [`Env::compute`](garth_engine::Env::compute).
#[derive(Clone)]
pub struct Files<'a> {
    fs: &'a dyn FileSystem,
    stop: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl<'a> Files<'a> {
    /// Returns a handle to the files of `fs`.
    pub fn new(fs: &'a dyn FileSystem) -> Self {
        Self { fs, stop: None }
    }

    /// Ends calls that search early, with a cursor, once `stop` returns true: at a deadline, for example. A
    /// call asks after each name and each MiB of content, and always gets further than the page before.
    #[must_use]
    pub fn until(self, stop: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Returns the tree at a time; `None` for now.
    async fn past(&self, at: Option<&Moment>) -> Result<Option<Arc<dyn FileSystem>>> {
        match at {
            Some(moment) => Ok(Some(self.fs.as_of(moment).await?)),
            None => Ok(None),
        }
    }
}
