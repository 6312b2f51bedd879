//! One of the two states that are compared.

use futures::TryStreamExt as _;

use super::hunks::Text;
use crate::files::limits::Budget;
use crate::files::open_version::open_version;
use garth_engine::compute::{go_on, working};
use garth_engine::error::{ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::FileSystem;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{At, ByteRange, Entry, Kind, Seq};
use garth_engine::path::TreePath;

/// State of a path to compare. Both sides are of one tree, of its past, or of views of it: files with equal
/// etags are taken for equal.
#[derive(Clone, Debug)]
pub struct Side<'a> {
    pub(super) fs: &'a dyn FileSystem,
    pub(super) path: TreePath,
    pub(super) entry: Option<Entry>,
    seq: Seq,
}

/// Content of a side.
pub(super) enum Content {
    Text(Text),
    Binary,
    Long,
    Gone,
}

impl<'a> Side<'a> {
    /// Returns the state of a path as a person or program writes it. It need not exist.
    ///
    /// # Errors
    /// As [`resolve::resolve`]; errors of the filesystem.
    pub async fn at(fs: &'a dyn FileSystem, path: &str, follow: Follow) -> Result<Self> {
        let path = resolve::resolve(fs, path, follow).await?;
        let entry = Self::entry_at(fs, &path).await?;
        Ok(Self { fs, path, entry, seq: fs.head().await?.seq })
    }

    pub(super) async fn entry_at(fs: &dyn FileSystem, path: &TreePath) -> Result<Option<Entry>> {
        fs.stat(&At::from(path)).await.optional()
    }

    /// Returns another path and entry of this side.
    pub(super) fn with(&self, path: &TreePath, entry: Option<Entry>) -> Self {
        Self { fs: self.fs, path: path.clone(), entry, seq: self.seq }
    }

    /// Returns this side as if the path did not exist.
    #[must_use]
    pub fn without(self) -> Self {
        Self { entry: None, ..self }
    }

    /// Returns the path, without links.
    pub fn path(&self) -> &TreePath {
        &self.path
    }

    /// Returns the node there; `None` if the path does not exist.
    pub fn entry(&self) -> Option<&Entry> {
        self.entry.as_ref()
    }

    /// Returns the last commit of the tree.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Returns true for a directory.
    pub fn is_directory(&self) -> bool {
        self.kind() == Some(Kind::Directory)
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        self.entry.as_ref().map(|entry| entry.kind)
    }

    /// Returns the content as text: the target of a link; empty for a directory or a missing entry.
    pub(super) async fn content(&self, budget: &mut Budget<'_>) -> Result<Content> {
        let Some(entry) = &self.entry else { return Ok(Content::Text(Text::default())) };
        if entry.kind != Kind::File {
            let target = entry.target.as_ref().map(|target| format!("{target}\n"));
            return Ok(Content::Text(Text::new(target.unwrap_or_default())));
        }
        let (longest, most_lines) = budget.compared();
        if entry.size > longest {
            return Ok(Content::Long);
        }
        let file = match open_version(self.fs, &self.path, entry.version).await {
            Err(error) if error.is(ErrorKind::Gone) => return Ok(Content::Gone),
            file => file?,
        };
        let mut content = Vec::new();
        // In a tree without versions a file that grows meanwhile is not read further.
        let mut parts = std::pin::pin!(file.stream(ByteRange { offset: 0, length: entry.size }));
        while let Some(part) = parts.try_next().await? {
            go_on()?;
            working(part.len());
            budget.read(part.len());
            content.extend_from_slice(&part);
        }
        Ok(match String::from_utf8(content) {
            // UTF-8, but not text.
            Ok(text) if text.contains('\0') => Content::Binary,
            Ok(text) if text.split_inclusive('\n').nth(most_lines).is_some() => Content::Long,
            Ok(text) => Content::Text(Text::new(text)),
            Err(_) => Content::Binary,
        })
    }
}
