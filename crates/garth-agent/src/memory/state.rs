//! Files of a memory's directory, read at one point in time.

use super::edge::{self, Edge};
use super::file_names::{ABSTRACT, CONTENT, META, OVERVIEW, RELATIONS, SKILL};
use super::meta::{Meta, Status};
use super::uri::Uri;
use crate::boxed;
pub use crate::small_file::File;
use crate::small_file::{self, as_read};
use garth_engine::error::Result;
use garth_engine::fs::{FileSystem, FileSystemExt};
use garth_engine::model::{At, Precondition};
use garth_engine::path::TreePath;

/// Limit on the bytes of a memory's text, 4 MiB. A longer one has no derived layers.
pub const MAX_CONTENT: usize = 4 << 20;

/// Files of a memory's directory.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// URI of the memory.
    pub uri: Uri,
    /// Meta.
    pub meta: Option<File>,
    /// Text.
    pub content: Option<File>,
    /// Edges.
    pub relations: Option<File>,
    /// Abstract (L0).
    pub brief: Option<File>,
    /// Overview (L1).
    pub overview: Option<File>,
    /// True if the text is found as [`CONTENT`]: for a skill that is a link.
    pub linked: bool,
}

impl State {
    /// Reads the files of a memory.
    ///
    /// # Errors
    /// From the storage.
    #[boxed]
    pub async fn read(fs: &dyn FileSystem, uri: &Uri) -> Result<Self> {
        let paths = [META, text_of(uri), RELATIONS, ABSTRACT, OVERVIEW].map(|name| uri.file(name));
        let [meta, content, relations, brief, overview] = read_all(fs, &paths).await?;
        let linked = match uri.is_skill() {
            true => fs.lookup(uri.file(CONTENT)).await?.is_some(),
            false => true,
        };
        Ok(Self { uri: uri.clone(), meta, content, relations, brief, overview, linked })
    }

    /// Returns the meta, if it exists and can be read.
    pub fn known(&self) -> Option<Meta> {
        self.meta.as_ref().and_then(|file| Meta::parse(file.bytes.as_ref()?).ok())
    }

    /// Returns the meta, if the memory is active.
    pub fn active(&self) -> Option<Meta> {
        self.known().filter(|meta| meta.status == Status::Active)
    }

    /// Returns the edges; `None` if they are missing or cannot be read.
    pub fn edges(&self) -> Option<Vec<Edge>> {
        edge::parse(self.relations.as_ref()?.bytes.as_ref()?).ok()
    }

    /// Returns the conditions that all files are as they were read, for a batch derived from them.
    pub fn unchanged(&self) -> Vec<(At, Precondition)> {
        let files = [
            (META, &self.meta),
            (text_of(&self.uri), &self.content),
            (RELATIONS, &self.relations),
            (ABSTRACT, &self.brief),
            (OVERVIEW, &self.overview),
        ];
        // Missing files as well: one that is created in between is a change.
        files.map(|(name, file)| (self.uri.file(name).into(), as_read(file.as_ref()))).into()
    }
}

/// Returns the name of the file with a memory's text: for a skill [`SKILL`].
pub fn text_of(uri: &Uri) -> &'static str {
    if uri.is_skill() { SKILL } else { CONTENT }
}

/// Reads the files of a memory at one point in time. Files over the limit of memories have no content.
pub(super) async fn read_all<const N: usize>(
    fs: &dyn FileSystem,
    paths: &[TreePath; N],
) -> Result<[Option<File>; N]> {
    let files = small_file::read_all(fs, paths, MAX_CONTENT).await?;
    Ok(<[_; N]>::try_from(files).unwrap_or([const { None }; N]))
}
