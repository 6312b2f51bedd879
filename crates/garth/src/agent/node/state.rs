//! What the directory of a node holds, read at one moment.

use super::edge::{self, Edge};
use super::files::{ABSTRACT, CONTENT, META, OVERVIEW, RELATIONS, SKILL};
use super::meta::{Meta, Status};
use super::uri::Uri;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{FileSystem, FileSystemExt};
use crate::model::{At, ByteRange, Precondition, VersionId};
use crate::path::TreePath;

/// Largest text of a node, 4 MiB: of one that is longer no layers are made.
pub const MAX_CONTENT: usize = 4 << 20;

/// A file of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// The last change of its content.
    pub etag: VersionId,
    /// Its bytes; none if it is longer than any that a node has.
    pub bytes: Option<Vec<u8>>,
}

/// What the directory of a node holds.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The node.
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

    /// What its meta says, if the node is there.
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

impl File {
    /// Its text; none if it is too long or not UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes.as_ref()?).ok()
    }
}

/// The file that has a node's text: of a skill [`SKILL`].
pub fn text_of(uri: &Uri) -> &'static str {
    if uri.is_skill() { SKILL } else { CONTENT }
}

/// That a file is as it was read.
pub(super) fn as_read(file: Option<&File>) -> Precondition {
    file.map_or(Precondition::Absent, |file| Precondition::Etag(file.etag))
}

/// Reads small files at one moment. What is no file counts as absent: a commit that would write there says
/// why it cannot.
pub(super) async fn read_all<const N: usize>(
    fs: &dyn FileSystem,
    paths: &[TreePath; N],
) -> Result<[Option<File>; N]> {
    // one byte more tells what is too long
    let range = ByteRange { offset: 0, length: MAX_CONTENT as u64 + 1 };
    let items: Vec<_> = paths.iter().map(|path| (At::from(path), range)).collect();
    let (mut files, mut read) = ([const { None }; N], 0);
    let mut now = None;
    while read < N {
        let moment: &dyn FileSystem = now.as_deref().unwrap_or(fs);
        let fetched = moment.fetch_many(&items[read..]).await?;
        if fetched.items.is_empty() {
            return Err(Error::new(ErrorKind::Io, "the account gave no answer"));
        }
        for answer in fetched.items {
            files[read] = match answer {
                Ok((entry, bytes)) => {
                    let bytes = (bytes.len() <= MAX_CONTENT).then(|| bytes.to_vec());
                    Some(File { etag: entry.etag, bytes })
                }
                Err(error) => match error.kind() {
                    ErrorKind::NotFound
                    | ErrorKind::NotADirectory
                    | ErrorKind::IsADirectory
                    | ErrorKind::NotPermitted => None,
                    _ => return Err(error),
                },
            };
            read += 1;
        }
        if read < N && now.is_none() && fs.capabilities(&paths[0]).history {
            now = Some(fs.as_of(&crate::model::Moment::Seq(fetched.seq)).await?);
        }
    }
    Ok(files)
}
