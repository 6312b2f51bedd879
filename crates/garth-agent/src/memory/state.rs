//! What the directory of a memory holds, read at one moment.

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

/// Largest text of a memory, 4 MiB: of one that is longer no layers are made.
pub const MAX_CONTENT: usize = 4 << 20;

/// What the directory of a memory holds.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The memory.
    pub uri: Uri,
    /// What is known of it.
    pub meta: Option<File>,
    /// Its text.
    pub content: Option<File>,
    /// Its edges.
    pub relations: Option<File>,
    /// L0.
    pub brief: Option<File>,
    /// L1.
    pub overview: Option<File>,
    /// Whether its content is found under [`CONTENT`]: of a skill that is a link.
    pub linked: bool,
}

impl State {
    /// Reads what is there.
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

    /// What its meta says, if it is there and can be read.
    pub fn known(&self) -> Option<Meta> {
        self.meta.as_ref().and_then(|file| Meta::parse(file.bytes.as_ref()?).ok())
    }

    /// What its meta says, if the memory is there.
    pub fn active(&self) -> Option<Meta> {
        self.known().filter(|meta| meta.status == Status::Active)
    }

    /// Its edges; none if they cannot be read.
    pub fn edges(&self) -> Option<Vec<Edge>> {
        edge::parse(self.relations.as_ref()?.bytes.as_ref()?).ok()
    }

    /// That all of it is as it was read: what a batch that was made of it asks for.
    pub fn unchanged(&self) -> Vec<(At, Precondition)> {
        let files = [
            (META, &self.meta),
            (text_of(&self.uri), &self.content),
            (RELATIONS, &self.relations),
            (ABSTRACT, &self.brief),
            (OVERVIEW, &self.overview),
        ];
        files.map(|(name, file)| (self.uri.file(name).into(), as_read(file.as_ref()))).into()
    }
}

/// The file that has a memory's text: of a skill [`SKILL`].
pub fn text_of(uri: &Uri) -> &'static str {
    if uri.is_skill() { SKILL } else { CONTENT }
}

/// Reads the files of a memory at one moment: of one that is longer than any that a memory has no bytes.
pub(super) async fn read_all<const N: usize>(
    fs: &dyn FileSystem,
    paths: &[TreePath; N],
) -> Result<[Option<File>; N]> {
    let files = small_file::read_all(fs, paths, MAX_CONTENT).await?;
    Ok(<[_; N]>::try_from(files).unwrap_or([const { None }; N]))
}
