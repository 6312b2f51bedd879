//! Handle to the files of a tree.

use std::sync::Arc;

use super::expected::Expected;
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
    pub(super) fs: &'a dyn FileSystem,
    pub(super) stop: Option<&'a (dyn Fn() -> bool + Sync)>,
    pub(super) author: Author,
    pub(super) message: String,
    /// Request that the next edit, batch or restore carries out.
    pub(super) once: Once,
    pub(super) expected: Expected,
    /// True for a caller who may write files and not read them.
    pub(super) writes_only: bool,
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
            writes_only: false,
        }
    }

    /// Ends calls that search early, with a cursor, once `stop` returns true: at a deadline, for example. A
    /// call asks after each name, each 64 KiB of searched lines and each MiB of content, and always gets
    /// further than the page before.
    #[must_use]
    pub fn until(self, stop: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Sets the author of edits, batches and restores.
    #[must_use]
    pub fn author(self, author: Author) -> Self {
        Self { author, ..self }
    }

    /// Sets the reason for edits, batches and restores, in the caller's words.
    #[must_use]
    pub fn message(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }

    /// Sets the request that the handle carries out with one edit, batch or restore.
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

    /// Sets whether the caller may write files and not read them. Rules then refuse writes and batches where
    /// their answer would tell about stored content.
    #[must_use]
    #[doc(hidden)]
    pub fn writes_only(self, writes_only: bool) -> Self {
        Self { writes_only, ..self }
    }

    /// Returns the tree at a time; `None` for now.
    pub(super) async fn past(&self, at: Option<&Moment>) -> Result<Option<Arc<dyn FileSystem>>> {
        match at {
            Some(moment) => Ok(Some(self.fs.as_of(moment).await?)),
            None => Ok(None),
        }
    }
}
