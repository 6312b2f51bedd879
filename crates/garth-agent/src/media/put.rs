//! Puts a media file, of which no more than a piece is held.

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::attributes::attributes;
use super::key::MediaKey;
use super::limit::{MAX_MEDIA, too_large};
use super::mime_types::extension;
use super::{Media, Stored};
use crate::ids::random_uuid;
use crate::once::{Outcome, PENDING};
use garth_engine::error::{Error, Result};
use garth_engine::model::{At, Batch, Body, Commit, Moment, Op, Seq};

/// Longest MIME type, and longest name of a file, in bytes.
const MAX_LABEL: usize = 1024;

/// What to put, but for its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewMedia {
    /// Of which session: its key, or the UUID of one that has no key.
    pub session_key: String,
    /// Its MIME type, as it came; kept as it is.
    pub mime_type: String,
    /// How its file was called; may be empty.
    pub file_name: String,
}

impl NewMedia {
    /// Of this session and type, without a name.
    pub fn new(session_key: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self { session_key: session_key.into(), mime_type: mime_type.into(), file_name: String::new() }
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

/// Outcome of a put: each try draws a key of its own.
#[derive(Serialize, Deserialize)]
struct Put {
    key: MediaKey,
    seq: Seq,
}

impl Outcome for Put {
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
        let attrs = attributes(&self.env, &key, &new.mime_type, &new.file_name);
        let write = Op::write(key.path(), Body::Staged(upload.finish().await?));
        let write = write.create_new().with_parents().with_attrs(attrs);
        let batch = Batch::new([write]).author(self.author.clone()).message(format!("put {key}"));
        let once = self.once.with_body(&hash.finalize().into()).await?;
        let put = once.run(once.commit(self.fs, batch, Put { key: key.clone(), seq: PENDING })).await?;
        if put.key == key {
            return self.get(&key).await;
        }
        // The file of an earlier try, as it was put: it can be gone or changed by now.
        let (path, then) = (put.key.path(), self.fs.as_of(&Moment::Seq(put.seq)).await?);
        let entry = then.stat(&At::from(&path)).await?;
        Ok(Stored { key: put.key, path, entry })
    }
}
