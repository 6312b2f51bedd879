//! Media: pictures, sound, films and documents of messages, each a file of its own that messages refer to.
//! `docs/specs/workspace.md` describes where they are and what becomes of them.

mod key;
mod kinds;
mod leave;
mod list;
mod put;
mod shelf;
mod take;

pub use self::key::MediaKey;
pub use self::kinds::{bare, extension, type_of};
pub use self::leave::Fate;
pub use self::list::MAX_LISTED;
pub use self::put::NewMedia;
pub use self::shelf::{BUDGET, Hydrator};
pub(crate) use self::take::{Taken, take};

use std::sync::Arc;

use crate::boxed;
use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::{FileSystem, OpenFile};
use garth_engine::model::{At, Author, Entry, FindQuery, Op, SetAttrs};
use garth_engine::path::TreePath;

/// Most bytes of a media file, 25 MB.
pub const MAX_MEDIA: u64 = 26_214_400;

/// The name of custom metadata by which a file is found, wherever it was moved: its UUID.
pub(crate) const ID: &str = "garth.media";
/// Of which session it is.
const SESSION_KEY: &str = "sessionKey";
/// How its file was called where it is from.
const FILE_NAME: &str = "originalFilename";
/// When it came; milliseconds since 1970.
const UPLOADED_AT: &str = "uploadedAt";

/// Files with one UUID that are looked at: more than one are copies.
const MAX_COPIES: usize = 100;

/// The media of an account.
///
/// ```
/// use garth::agent::media::{Media, NewMedia};
/// use garth::engine::memory::Memory;
/// use garth::Env;
///
/// # futures::executor::block_on(async {
/// let fs = Memory::new(Env::system(), garth::agent::registry());
/// let media = Media::new(&fs, Env::system());
/// let body = futures::stream::iter([Ok("GIF89a".into())]);
/// let put = media.put(&NewMedia::new("agent:scout:main", "image/gif"), body).await?;
/// assert!(put.key.to_string().starts_with("media/agent:scout:main/"));
/// assert_eq!(media.get(&put.key).await?.entry.size, 6);
/// # Ok::<(), garth::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Media<'a> {
    fs: &'a dyn FileSystem,
    env: Env,
    author: Author,
}

/// A media file that is there.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stored {
    /// By which messages refer to it.
    pub key: MediaKey,
    /// Where it is now.
    pub path: TreePath,
    /// Its type, its size, its metadata.
    pub entry: Entry,
}

impl<'a> Media<'a> {
    /// The media in an account, whose tree is `fs`, or as much of it as `fs` reaches.
    pub fn new(fs: &'a dyn FileSystem, env: Env) -> Self {
        Self { fs, env, author: Author::default() }
    }

    /// In the name of this author.
    #[must_use]
    pub fn author(self, author: Author) -> Self {
        Self { author, ..self }
    }

    /// Whether the tree reaches the place of a session's media: that of a chat, for one, does not.
    pub(crate) fn reaches(&self, session_key: &str) -> bool {
        let at = key::check_session_key(session_key).map(|()| key::directory(session_key));
        at.is_ok_and(|at| self.fs.view_base().lowering().home().within.contains(&at))
    }

    /// Whether there is a directory of a session's media.
    pub(crate) async fn has_some(&self, session_key: &str) -> Result<bool> {
        key::check_session_key(session_key)?;
        Ok(self
            .fs
            .stat(&At::from(key::directory(session_key)))
            .await
            .optional()?
            .is_some_and(|entry| entry.is_dir()))
    }

    /// A media file: where its key says, or where it was moved since, among media or beside an archive.
    ///
    /// # Errors
    /// `NotFound`; from the filesystem.
    #[boxed]
    pub async fn get(&self, key: &MediaKey) -> Result<Stored> {
        let path = key.path();
        if let Some(entry) = self.fs.stat(&At::from(&path)).await.optional()?.filter(Entry::is_file) {
            return Ok(Stored { key: key.clone(), path, entry });
        }
        self.moved(key).await?.ok_or_else(|| missing(key))
    }

    /// A media file and a handle that reads it, whatever becomes of it meanwhile.
    ///
    /// # Errors
    /// As [`Media::get`].
    #[boxed]
    pub async fn open(&self, key: &MediaKey) -> Result<(Stored, Arc<dyn OpenFile>)> {
        let stored = self.get(key).await?;
        let file = match self.fs.open_version(stored.entry.version).await {
            Err(error) if error.is(ErrorKind::Unsupported) => self.fs.open(&At::from(&stored.path)).await?,
            file => file?,
        };
        Ok((stored, file))
    }

    /// The file that has the UUID of a key, the name that it has there and its session key, and that lies
    /// where media do. A file elsewhere that says the same of itself is another.
    async fn moved(&self, key: &MediaKey) -> Result<Option<Stored>> {
        let tops = ["media", "agents"].map(|top| TreePath::from_row("", top));
        let query = FindQuery::metadata(ID, key.id()).within_any(tops).limit(MAX_COPIES);
        let found = match self.fs.find(&query).await {
            // nothing is found in the past
            Err(error) if error.is(ErrorKind::Unsupported) => return Ok(None),
            found => found?,
        };
        let mut paths: Vec<_> = found.items.into_iter().map(|item| item.path).collect();
        paths.retain(|path| is_place(path) && path.name() == Some(&key.name()));
        // of copies always the same one
        paths.sort_unstable();
        for path in paths {
            let Some(entry) = self.fs.stat(&At::from(&path)).await.optional()?.filter(Entry::is_file) else {
                continue;
            };
            let says = |name: &str| entry.attributes.metadata.get(name).map(String::as_str);
            if says(SESSION_KEY) == Some(key.session_key()) && says(ID) == Some(key.id()) {
                return Ok(Some(Stored { key: key.clone(), path, entry }));
            }
        }
        Ok(None)
    }
}

/// Whether media lie there: `/media/*/*`, or `/agents/*/sessions/*/media/*`.
fn is_place(path: &TreePath) -> bool {
    let segments: Vec<&str> = path.segments().collect();
    matches!(*segments, [key::MEDIA, _, _] | ["agents", _, "sessions", _, key::MEDIA, _])
}

/// What a media file says of itself.
fn attributes(env: &Env, key: &MediaKey, mime_type: &str, name: &str) -> SetAttrs {
    let now = (env.now().0.div_euclid(1_000_000)).to_string();
    SetAttrs::new()
        .content_type(mime_type)
        .metadata(FILE_NAME, name)
        .metadata(UPLOADED_AT, now)
        .metadata(SESSION_KEY, key.session_key())
        .metadata(ID, key.id())
}

impl Taken {
    /// What writes a picture that was taken out of a message. It may be there already, with the same bytes.
    pub(crate) fn op(&self, env: &Env, body: garth_engine::model::Body) -> Op {
        let attrs = attributes(env, &self.key, &self.mime_type, "");
        Op::write(self.key.path(), body).with_parents().with_attrs(attrs)
    }
}

fn missing(key: &MediaKey) -> Error {
    Error::new(ErrorKind::NotFound, format!("{key}: is not there; it was removed, or is another account's"))
}

fn too_large() -> Error {
    Error::new(ErrorKind::TooLarge, format!("a media file has at most {MAX_MEDIA} bytes; make it smaller"))
}
