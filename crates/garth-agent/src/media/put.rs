//! Puts a media file. The body is streamed: only one piece of it is in memory at a time.

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use serde::{Deserialize, Serialize};

use super::attributes::{FILE_NAME, attributes};
use super::key::MediaKey;
use super::limit::{MAX_MEDIA, too_large};
use super::mime_types::extension;
use super::{Media, Stored};
use crate::ids::random_uuid;
use crate::once::{Outcome, PENDING, discard};
use garth_engine::error::{Error, Result};
use garth_engine::model::{At, Body, Commit, Moment, Op, Seq};

/// Limit on the bytes of a MIME type, and of a file name.
const MAX_LABEL: usize = 1024;

/// Media file to put, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewMedia {
    /// Session key, or the UUID of a session that has no key.
    #[doc(hidden)]
    pub session_key: String,
    /// MIME type, stored as given.
    #[doc(hidden)]
    pub mime_type: String,
    /// Original file name; may be empty.
    #[doc(hidden)]
    pub file_name: String,
    /// UUID of the session that owns the file. Without it, no session does.
    #[doc(hidden)]
    pub session_id: Option<String>,
}

impl NewMedia {
    /// Returns a file of this session key and type, without a name.
    pub fn new(session_key: impl Into<String>, mime_type: impl Into<String>) -> Self {
        let (session_key, mime_type) = (session_key.into(), mime_type.into());
        Self { session_key, mime_type, file_name: String::new(), session_id: None }
    }

    /// Sets the session that owns the file. Only this session refers to it, removes or moves it.
    #[must_use]
    pub fn session(self, id: impl Into<String>) -> Self {
        Self { session_id: Some(id.into()), ..self }
    }

    /// Sets the original file name.
    #[must_use]
    pub fn file_name(self, name: impl Into<String>) -> Self {
        Self { file_name: name.into(), ..self }
    }

    fn check(&self) -> Result<()> {
        let is_long = |text: &str| text.len() > MAX_LABEL || text.chars().any(char::is_control);
        if is_long(&self.mime_type) || !self.mime_type.contains('/') {
            let message = format!("`{}`: not a MIME type; use one such as image/png", self.mime_type);
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

/// Outcome of a write that creates a file. Each attempt draws a key of its own.
#[derive(Serialize, Deserialize)]
pub(crate) struct CreatedMedia {
    key: MediaKey,
    seq: Seq,
}

impl CreatedMedia {
    /// Returns the outcome of a commit that is still to be made.
    pub(crate) const fn pending(key: MediaKey) -> Self {
        Self { key, seq: PENDING }
    }
}

impl Outcome for CreatedMedia {
    fn committed(self, commit: &Commit) -> Self {
        Self { seq: commit.seq, ..self }
    }
}

impl Media<'_> {
    /// Puts a file under a new UUID, in one commit. If it fails, nothing is written.
    ///
    /// # Errors
    /// - `InvalidArgument`: the session key or the MIME type is invalid.
    /// - `TooLarge`: more than [`MAX_MEDIA`] bytes.
    /// - Errors of `body` and of the filesystem.
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
        let (mut body, mut hash) = (std::pin::pin!(body), self.once.body_hash());
        while let Some(piece) = body.next().await {
            let piece = piece?;
            size += piece.len() as u64;
            if size > MAX_MEDIA {
                return Err(too_large());
            }
            // The hash is part of the recorded request, so that a repeat with another body is noticed.
            hash.add(&piece).await?;
            if !piece.is_empty() {
                upload.write(piece).await?;
            }
        }
        let session_id = new.session_id.as_deref();
        let attrs = attributes(&self.env, &key, session_id, (&new.mime_type, &new.file_name));
        let once = self.once.with_body(&hash.finish().await?).await?;
        // A repeat ends here: its upload is dropped, which removes the content.
        let created = once.run(async {
            let staged = upload.finish().await?;
            let write = Op::write(key.path(), Body::Staged(staged.clone()));
            let write = write.create_new().with_parents().with_attrs(attrs);
            let batch = self.batch(write, &format!("put {key}"));
            let created = once.commit(self.fs, batch, CreatedMedia::pending(key)).await;
            if created.is_err() || once.records() {
                discard(self.fs, &at, &staged).await;
            }
            created
        });
        self.made(created.await?).await
    }

    /// Returns the file that an earlier attempt of the request put, even if its session was deleted since;
    /// `None` if there was no such attempt. Reads all of the body.
    ///
    /// # Errors
    /// `TooLarge` for more than [`MAX_MEDIA`] bytes; errors of `body` and of the filesystem.
    #[doc(hidden)]
    pub async fn put_before(&self, body: impl Stream<Item = Result<Bytes>> + Send) -> Result<Option<Stored>> {
        if !self.once.records() {
            return Ok(None);
        }
        let (mut body, mut hash, mut size) = (std::pin::pin!(body), self.once.body_hash(), 0);
        while let Some(piece) = body.next().await {
            let piece = piece?;
            size += piece.len() as u64;
            if size > MAX_MEDIA {
                return Err(too_large());
            }
            hash.add(&piece).await?;
        }
        // Only with the hash of the body is the recorded request the same one.
        match self.once.with_body(&hash.finish().await?).await?.recorded()? {
            Some(made) => Ok(Some(self.made(made).await?)),
            None => Ok(None),
        }
    }

    /// Returns a file as it was created. After a repeated request, the file of the earlier attempt may be
    /// deleted or changed by now.
    pub(crate) async fn made(&self, made: CreatedMedia) -> Result<Stored> {
        if !self.once.records() {
            return self.get(&made.key).await;
        }
        // Read as of the commit, so that a repeat returns what the first attempt returned.
        let (path, then) = (made.key.path(), self.fs.as_of(&Moment::Seq(made.seq)).await?);
        let entry = then.stat(&At::from(&path)).await?;
        Ok(Stored { key: made.key, path, entry })
    }
}

impl Media<'_> {
    /// Returns the operations that copy a file to the session with a session key (or none) and a UUID, and
    /// the key of the copy. The content is shared. `id` is the UUID of the copy.
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
