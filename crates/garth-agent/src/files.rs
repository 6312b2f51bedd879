//! Operations on the files of a tree, for the tools of an agent: search of lines ([`Files::grep`]), paths by
//! pattern ([`Files::glob`]), differences ([`Files::diff`]), exact edits ([`Files::edit`]) and batches
//! ([`Files::batch`]). Each call is bounded in bytes and time, and a cursor continues an answer that is not
//! complete. `docs/specs/files.md` and `docs/specs/batch.md` describe them. [`Files::write`],
//! [`Files::upload`] and [`Files::remove`] take content of any size as a stream, for interfaces that
//! receive it.

mod batch;
mod cursor;
mod diff;
mod edit;
mod glob;
mod glob_pattern;
mod grep;
mod limits;
mod matches;
pub(crate) mod occurrences;
mod open_version;
mod streamed;
mod walker;

pub use self::batch::{
    BatchLine, BatchLines, BatchRequest, BatchResult, CommittedBatch, ContentForm, Lifetime, LineContent,
    LineError, MAX_BATCH_LINE, parse_mode, parse_span,
};
pub use self::diff::{
    Change, ContentDifference, Diff, DiffForm, DiffPage, Difference, Differences, Side, unified,
};
pub use self::edit::{Edit, EditError, Edited, MAX_EDITED, MAX_OLD};
pub use self::glob::{Glob, GlobMatch, GlobPage};
pub use self::glob_pattern::{GlobPattern, is_pattern};
pub use self::grep::{
    BinaryFiles, Grep, GrepFile, GrepLine, GrepPage, LineMatcher, MAX_COMPILED, MAX_EXPRESSIONS, MAX_LINE,
    Show, Whole,
};
pub use self::limits::{Limits, MAX_COMPARED_LINES, MAX_COMPARED_TEXT};
pub use self::matches::Matches;
pub use self::streamed::{Expected, FileWrite, FileWritten, UPLOAD_LIFETIME, Uploaded};

use std::sync::Arc;

use crate::once::Once;
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::{Author, Moment};

/// Handle to the files of a tree, or of a view of one.
///
/// ```
/// use garth::FileSystemExt;
/// use garth_agent::files::{Diff, Edit, Files, Glob, Grep};
///
/// # futures::executor::block_on(async {
/// let fs = garth::in_memory();
/// fs.mkdir_all("/notes").await?;
/// let first = fs.write("/notes/todo.md", "call Alice\ncall Bob\n").await?;
///
/// let files = Files::new(&fs);
/// let found = files.grep(&Grep::new("^call B")).await?;
/// assert_eq!((found.files[0].path.as_str(), found.files[0].lines[0].number), ("/notes/todo.md", 2));
/// assert_eq!(files.glob(&Glob::new("/notes/*.md")).await?.items.len(), 1);
///
/// files.edit("/notes/todo.md", &Edit::replace("Bob", "Carol")).await?;
/// files.edit("/notes/todo.md", &Edit::insert(1, "wash up")).await?;
/// let changed = files.diff(&Diff::since("/notes", first.seq)).await?;
/// let hunks = "@@ -1,2 +1,3 @@\n call Alice\n-call Bob\n+wash up\n+call Carol\n";
/// assert_eq!(changed.items[0].hunks(), Some(hunks));
/// # Ok::<(), garth::Error>(()) }).unwrap();
/// ```
///
/// Paths are taken as a person or program writes them: `.`, `..` and symbolic links are resolved inside the
/// tree ([`resolve`](garth_engine::fs::resolve)). Calls compute in proportion to what they read, so a program
/// that serves others awaits them within [`Env::compute`](garth_engine::Env::compute).
#[derive(Clone)]
pub struct Files<'a> {
    fs: &'a dyn FileSystem,
    stop: Option<&'a (dyn Fn() -> bool + Sync)>,
    author: Author,
    message: String,
    /// Request that the next edit or batch carries out.
    once: Once,
    expected: Expected,
}

impl<'a> Files<'a> {
    /// Returns a handle to the files of `fs`.
    pub fn new(fs: &'a dyn FileSystem) -> Self {
        Self {
            fs,
            stop: None,
            author: Author::default(),
            message: String::new(),
            once: Once::default(),
            expected: Expected::default(),
        }
    }

    /// Ends calls that search early, with a cursor, once `stop` returns true: at a deadline, for example. A
    /// call asks after each name, each 64 KiB of searched lines and each MiB of content, and always gets
    /// further than the page before.
    #[must_use]
    pub fn until(self, stop: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Sets the author of edits and batches.
    #[must_use]
    pub fn author(self, author: Author) -> Self {
        Self { author, ..self }
    }

    /// Sets the reason for edits and batches, in the caller's words.
    #[must_use]
    pub fn message(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }

    /// Sets the request that the handle carries out with one edit or batch.
    #[must_use]
    #[doc(hidden)]
    pub fn once(self, once: Once) -> Self {
        Self { once, ..self }
    }

    /// Sets what is known of content that the next write or upload receives.
    #[must_use]
    pub fn expecting(self, expected: Expected) -> Self {
        Self { expected, ..self }
    }

    /// Returns the tree at a time; `None` for now.
    async fn past(&self, at: Option<&Moment>) -> Result<Option<Arc<dyn FileSystem>>> {
        match at {
            Some(moment) => Ok(Some(self.fs.as_of(moment).await?)),
            None => Ok(None),
        }
    }
}
