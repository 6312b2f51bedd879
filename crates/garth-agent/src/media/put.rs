//! Puts a media file, of which no more than a piece is held.

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::attributes::{FILE_NAME, attributes};
use super::key::MediaKey;
use super::limit::{MAX_MEDIA, too_large};
use super::mime_types::extension;
use super::{Media, Stored};
use crate::ids::random_uuid;
use crate::once::{Outcome, PENDING};
use garth_engine::error::{Error, Result};
use garth_engine::model::{At, Body, Commit, Moment, Op, Seq};

/// Longest MIME type, and longest name of a file, in bytes.
const MAX_LABEL: usize = 1024;

/// What to put, but for its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewMedia {
    /// Of which session: its key, or the UUID of one that has no key.
    #[doc(hidden)]
    pub session_key: String,
    /// Its MIME type, as it came; kept as it is.
    #[doc(hidden)]
    pub mime_type: String,
    /// How its file was called; may be empty.
    #[doc(hidden)]
    pub file_name: String,
    /// UUID of the session whose file it is; nobody's without one.
    #[doc(hidden)]
    pub session_id: Option<String>,
}

impl NewMedia {
    /// Of this session and type, without a name.
    pub fn new(session_key: impl Into<String>, mime_type: impl Into<String>) -> Self {
        let (session_key, mime_type) = (session_key.into(), mime_type.into());
        Self { session_key, mime_type, file_name: String::new(), session_id: None }
    }

    /// As a file of the session with this UUID, which alone refers to it, removes or moves it.
    #[must_use]
    pub fn session(self, id: impl Into<String>) -> Self {
        Self { session_id: Some(id.into()), ..self }
    }

    /// With the name that its file had.
    #[must_use]
    pub fn file_name(self, name: impl Into<String>) -> Self {
        Self { file_name: name.into(), ..self }
    }

    fn check(&self) -> Result<()> {
        let is_long = |text: &str| text.len() > MAX_LABEL || text.chars().any(char::is_control);
        if is_long(&self.mime_type) || !self.mime_type.contains('/') {
            let message = format!("`{}`: is no MIME type; write one such as image/png", self.mime_type);
            return Err(Error::invalid(message));
        }
        if is_long(&self.file_name) {
            let message =
                format!("the name of a media file has at most {MAX_LABEL} bytes and no control characters");
            return Err(Error::invalid(message));
        }
        Ok(())
    }
}

/// Outcome of a write that makes a file: each try draws a key of its own.
#[derive(Serialize, Deserialize)]
pub(crate) struct Made {
    key: MediaKey,
    seq: Seq,
}

impl Made {
    /// Returns the outcome of a commit that is not made yet.
    pub(crate) const fn pending(key: MediaKey) -> Self {
        Self { key, seq: PENDING }
    }
}

impl Outcome for Made {
    fn committed(self, commit: &Commit) -> Self {
        Self { seq: commit.seq, ..self }
    }
}

impl Media<'_> {
    /// Puts a file under a new UUID, in one commit. If it fails, nothing of it is there.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no session key or MIME type; `TooLarge` for more than [`MAX_MEDIA`]
    /// bytes; those of `body`; from the filesystem.
    pub async fn put(
        &self,
        new: &NewMedia,
        body: impl Stream<Item = Result<Bytes>> + Send,
    ) -> Result<Stored> {
        new.check()?;
        self.check_place(&new.session_key)?;
        let id = random_uuid(&self.env)?;
        let key = MediaKey::new(&new.session_key, &id, extension(&new.mime_type))?;
        let at = At::from(&key.path());
        let (mut upload, mut size) = (self.fs.stage(&at).await?, 0);
        let (mut body, mut hash) = (std::pin::pin!(body), Sha256::new());
        while let Some(piece) = body.next().await {
            let piece = piece?;
            size += piece.len() as u64;
            if size > MAX_MEDIA {
                return Err(too_large());
            }
            if self.once.records() {
                hash.update(&piece);
            }
            if !piece.is_empty() {
                upload.write(piece).await?;
            }
        }
        let session_id = new.session_id.as_deref();
        let attrs = attributes(&self.env, &key, session_id, (&new.mime_type, &new.file_name));
        let write = Op::write(key.path(), Body::Staged(upload.finish().await?));
        let write = write.create_new().with_parents().with_attrs(attrs);
        let batch = self.batch(write, &format!("put {key}"));
        let once = self.once.with_body(&hash.finalize().into()).await?;
        self.made(once.run(once.commit(self.fs, batch, Made::pending(key))).await?).await
    }

    /// Returns the file that an earlier try of the request put, of which the session may be gone; `None` if
    /// there was none. Reads all of the body.
    ///
    /// # Errors
    /// `TooLarge` for more than [`MAX_MEDIA`] bytes; those of `body`; from the filesystem.
    #[doc(hidden)]
    pub async fn put_before(&self, body: impl Stream<Item = Result<Bytes>> + Send) -> Result<Option<Stored>> {
        if !self.once.records() {
            return Ok(None);
        }
        let (mut body, mut hash, mut size) = (std::pin::pin!(body), Sha256::new(), 0);
        while let Some(piece) = body.next().await {
            let piece = piece?;
            size += piece.len() as u64;
            if size > MAX_MEDIA {
                return Err(too_large());
            }
            hash.update(&piece);
        }
        match self.once.with_body(&hash.finalize().into()).await?.recorded()? {
            Some(made) => Ok(Some(self.made(made).await?)),
            None => Ok(None),
        }
    }

    /// Returns a file as it was made: where an earlier try made it, it can be gone or changed by now.
    pub(crate) async fn made(&self, made: Made) -> Result<Stored> {
        if !self.once.records() {
            return self.get(&made.key).await;
        }
        let (path, then) = (made.key.path(), self.fs.as_of(&Moment::Seq(made.seq)).await?);
        let entry = then.stat(&At::from(&path)).await?;
        Ok(Stored { key: made.key, path, entry })
    }
}

impl Media<'_> {
    /// Returns what copies a file to the session with a session key (or none) and a UUID, and its key there.
    /// The content is shared. With `id` the copy has this UUID.
    pub(crate) fn copy_ops(
        &self,
        stored: &Stored,
        (session_key, session_id): (&str, &str),
        id: &str,
    ) -> Result<(Vec<Op>, MediaKey)> {
        let of = &stored.entry.attributes;
        let mime_type = of.content_type.as_deref().unwrap_or("application/octet-stream");
        let key = MediaKey::new(session_key, id, stored.key.ending())?;
        let name = of.metadata.get(FILE_NAME).map_or("", String::as_str);
        let attrs = attributes(&self.env, &key, Some(session_id), (mime_type, name));
        let dir = key.path().parent().unwrap_or_default();
        let copy = Op::copy(&stored.path, key.path()).replace();
        Ok((vec![Op::mkdir_all(dir), copy, Op::set_attrs(key.path(), attrs)], key))
    }
}
