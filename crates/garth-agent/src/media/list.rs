//! Lists and removes media.

use super::key::{MediaKey, directory};
use super::{Media, Stored, missing};
use crate::boxed;
use crate::once::PENDING;
use crate::retry::retry;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::model::{At, Batch, Entry, Op, Page, Precondition, Seq};
use garth_engine::path::Name;

/// Most files of a page.
pub const MAX_LISTED: usize = 1000;

impl Media<'_> {
    /// A page of a session's media, by name, behind the name `after`, and where to go on if there may be
    /// more: a page with few, or none, is not always the last. Those that a reset has moved are with the
    /// archive.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no session key, no name, or a limit outside 1 to [`MAX_LISTED`]; from
    /// the filesystem.
    #[boxed]
    pub async fn list(
        &self,
        session_key: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Stored>, Option<String>)> {
        self.check_place(session_key)?;
        if !(1..=MAX_LISTED).contains(&limit) {
            return Err(Error::invalid(format!("the limit of a list of media is 1 to {MAX_LISTED}")));
        }
        let dir = directory(session_key);
        let page = Page::default().after(after.map(Name::parse).transpose()?).limit(limit).with_entries();
        let Some(listing) = self.fs.list(&At::from(&dir), &page).await.optional()? else {
            return Ok((Vec::new(), None));
        };
        let last = listing.items.last().map(|item| item.name.as_str().to_owned());
        let next = last.filter(|_| listing.more);
        let stored = listing.items.into_iter().filter_map(|item| {
            let key = MediaKey::of_name(session_key, item.name.as_str())?;
            let entry = item.entry.filter(|entry| entry.is_file())?;
            Some(Stored { path: key.path(), key, entry: *entry })
        });
        Ok((stored.collect(), next))
    }

    /// Removes a media file, wherever it is now.
    ///
    /// # Errors
    /// `NotFound`; from the filesystem.
    #[boxed]
    pub async fn remove(&self, key: &MediaKey) -> Result<Seq> {
        let removed = retry(|| async {
            let Stored { path, entry, .. } = self.get(key).await?;
            let batch = self.batch(Op::remove(path.clone()), &format!("remove {key}"));
            let batch = batch.require(path, Precondition::Etag(entry.etag));
            self.once.commit(self.fs, batch, PENDING).await
        });
        self.once.run(removed).await.map_err(|error| match error.is(ErrorKind::NotFound) {
            // it went or moved meanwhile
            true => missing(key),
            false => error,
        })
    }

    /// Removes all media of a session, in one commit. None if there were none.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no session key; from the filesystem.
    #[boxed]
    pub async fn clear(&self, session_key: &str) -> Result<Option<Seq>> {
        self.check_place(session_key)?;
        let dir = directory(session_key);
        if self.fs.stat(&At::from(&dir)).await.optional()?.filter(Entry::is_dir).is_none() {
            return Ok(None);
        }
        let batch = self.batch(Op::remove_tree(dir), &format!("remove the media of {session_key}"));
        match self.fs.commit(batch).await {
            Err(error) if error.is(ErrorKind::NotFound) => Ok(None),
            done => Ok(Some(done?.seq)),
        }
    }

    fn batch(&self, op: Op, message: &str) -> Batch {
        Batch::new([op]).author(self.author.clone()).message(message)
    }
}
