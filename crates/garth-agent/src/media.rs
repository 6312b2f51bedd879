//! Media: images, sound, video and documents of messages, each a file of its own that messages refer to.
//! `docs/specs/workspace.md` describes their places and how a reset treats them.

mod attributes;
mod cache;
mod encoded;
mod image_header;
mod inline_images;
mod key;
mod limit;
mod list;
mod mime_types;
mod put;
mod reset;
mod sessionless;

pub(crate) use self::cache::MediaBytes;
pub use self::cache::{BUDGET, Hydrator};
pub(crate) use self::encoded::{data_url, from_base64, percent_decoded, standard_base64};
#[cfg(test)]
pub(crate) use self::image_header::tests::{gif_of, png_of};
pub use self::image_header::{ImageHeader, ImageType};
pub(crate) use self::inline_images::{InlineImage, extract_images};
pub use self::key::MediaKey;
pub use self::limit::MAX_MEDIA;
pub use self::list::MAX_LISTED;
pub use self::mime_types::{bare, extension, type_of};
pub(crate) use self::put::CreatedMedia;
pub use self::put::NewMedia;
pub use self::reset::Fate;
pub(crate) use self::sessionless::SessionlessMedia;

use std::sync::Arc;

pub(crate) use self::attributes::media_attrs;
use self::attributes::{ID, OF, SESSION_KEY};
pub(crate) use self::key::MEDIA;
use crate::identity::{Class, SessionKey};
use crate::once::Once;
use crate::registry::projections::SESSION;
use crate::registry::projections::sessions::id_key;
use crate::{boxed, own_paths};
use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::{FileSystem, OpenFile};
use garth_engine::model::{At, Author, Entry, FindQuery};
use garth_engine::path::TreePath;

/// Limit on the files with one UUID that are checked. More than one are copies.
const MAX_COPIES: usize = 100;

/// Media of an account.
///
/// ```
/// use garth::media::{Media, NewMedia};
///
/// # futures::executor::block_on(async {
/// let fs = garth::in_memory();
/// let media = Media::new(&fs);
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
    /// Request that the next write carries out.
    once: Once,
    /// Directory of the sessions whose files are visible, and the visible files without a session; `None` for
    /// all files.
    seen: Option<(TreePath, SessionlessMedia)>,
}

/// Media file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stored {
    /// Key by which messages refer to it.
    pub key: MediaKey,
    /// Current path.
    pub path: TreePath,
    /// Type, size and metadata.
    pub entry: Entry,
}

impl<'a> Media<'a> {
    /// Returns the media of an account whose tree is `fs`. A view of a part of the tree works if it keeps the
    /// paths. Calls fail with `InvalidArgument` for a tree with other paths, such as that of a chat.
    pub fn new(fs: &'a dyn FileSystem) -> Self {
        Self { fs, env: Env::system(), author: Author::default(), seen: None, once: Once::default() }
    }

    /// Sets the clock, the randomness and the threads to compute on. The default is those of the machine.
    #[must_use]
    pub fn env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// Sets the author of commits.
    #[must_use]
    pub fn author(self, author: Author) -> Self {
        Self { author, ..self }
    }

    /// Sets the request that the handle carries out with one write.
    #[must_use]
    #[doc(hidden)]
    pub fn once(self, once: Once) -> Self {
        Self { once, ..self }
    }

    /// Fails if the tree is confined, so that its paths are not those of the account.
    fn check_place(&self, session_key: &str) -> Result<()> {
        key::check_session_key(session_key)?;
        own_paths::check(self.fs, &key::directory(session_key), "give it the account's own tree")
    }

    /// Restricts the media to those of the sessions in a directory, and for a main session those without a
    /// session that `sessionless` includes.
    #[must_use]
    pub(crate) fn of_sessions(self, home: TreePath, sessionless: SessionlessMedia) -> Self {
        Self { seen: Some((home, sessionless)), ..self }
    }

    /// Returns true if a file belongs to a visible session. A file without a session belongs to its agent.
    async fn sees(&self, stored: &Stored) -> Result<bool> {
        let Some((home, sessionless)) = &self.seen else { return Ok(true) };
        let key = stored.key.session_key();
        // A key of another form than a session key is the UUID of a session that has no key.
        let id = match stored.session_id() {
            Some(id) => id,
            None => match key.parse::<SessionKey>() {
                Ok(key) => return Ok(self.is_main() && sessionless.includes(&key)),
                Err(_) => key,
            },
        };
        let query = FindQuery::new(SESSION).equal(&id_key(id)).within(home.clone()).limit(1);
        Ok(!self.fs.find(&query).await?.items.is_empty())
    }

    fn is_main(&self) -> bool {
        self.author.class.as_deref().is_none_or(|class| Class::named(class) == Class::Main)
    }

    /// Returns a media file. It may have moved from the path of its key to another place of media, such as
    /// next to an archive.
    ///
    /// # Errors
    /// `NotFound`; from the filesystem.
    #[boxed]
    pub async fn get(&self, key: &MediaKey) -> Result<Stored> {
        self.check_place(key.session_key())?;
        let stored = self.found(key).await?.ok_or_else(|| missing(key))?;
        // The same error as for a missing file: a caller must not learn that other sessions have it.
        if self.sees(&stored).await? { Ok(stored) } else { Err(missing(key)) }
    }

    async fn found(&self, key: &MediaKey) -> Result<Option<Stored>> {
        let path = key.path();
        if let Some(entry) = self.fs.stat(&At::from(&path)).await.optional()?.filter(Entry::is_file) {
            return Ok(Some(Stored { key: key.clone(), path, entry }));
        }
        self.moved(key).await
    }

    /// Returns a media file and a handle that reads its content even if the file is changed or removed later.
    #[boxed]
    pub async fn open(&self, key: &MediaKey) -> Result<(Stored, Arc<dyn OpenFile>)> {
        self.opened(self.get(key).await?).await
    }

    async fn opened(&self, stored: Stored) -> Result<(Stored, Arc<dyn OpenFile>)> {
        // By version, so that content and `entry` match even if the file is replaced in between. Host folders
        // have no versions.
        let file = match self.fs.open_version(stored.entry.version).await {
            Err(error) if error.is(ErrorKind::Unsupported) => self.fs.open(&At::from(&stored.path)).await?,
            file => file?,
        };
        Ok((stored, file))
    }

    /// Finds a file by the UUID of its key. Its name and session key must be those of the key, and it must be
    /// in a place of media: anyone can give a file elsewhere the same metadata.
    async fn moved(&self, key: &MediaKey) -> Result<Option<Stored>> {
        let query = FindQuery::metadata(ID, key.id()).within_any(places()).limit(MAX_COPIES);
        let found = match self.fs.find(&query).await {
            // A view of the past cannot find by metadata.
            Err(error) if error.is(ErrorKind::Unsupported) => return Ok(None),
            found => found?,
        };
        let mut paths: Vec<_> = found.items.into_iter().map(|item| item.path).collect();
        paths.retain(|path| is_place(path) && path.name() == Some(&key.name()));
        // Of copies, always returns the same one.
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

impl Stored {
    /// Returns the media file at a path; `None` if it is not a media file.
    fn of(path: TreePath, entry: Entry) -> Option<Self> {
        let session_key = entry.attributes.metadata.get(SESSION_KEY)?;
        let key = MediaKey::of_name(session_key, path.name()?)?;
        entry.is_file().then_some(Self { key, path, entry })
    }

    /// Returns the UUID of the session that owns the file; `None` if no session does.
    pub fn session_id(&self) -> Option<&str> {
        // The attribute also names the file. On a file with another UUID it does not count.
        let of = self.entry.attributes.metadata.get(OF)?;
        of.split_once('/').filter(|(_, id)| *id == self.key.id()).map(|(session, _)| session)
    }
}

/// Returns the directories at or below which media are stored.
fn places() -> [TreePath; 2] {
    ["media", "agents"].map(|top| TreePath::from_row("", top))
}

/// Returns true for the places of media: `/media/*/*` and `/agents/*/sessions/*/media/*`.
pub(crate) fn is_place(path: &TreePath) -> bool {
    let segments: Vec<&str> = path.segments().collect();
    matches!(*segments, [key::MEDIA, _, _] | ["agents", _, "sessions", _, key::MEDIA, _])
}

fn missing(key: &MediaKey) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("{key}: no such media file; it was removed, or belongs to another account"),
    )
}
