//! Lists and removes media.

use super::attributes::{OF, of_session};
use super::key::{MEDIA, MediaKey};
use super::{Media, Stored, missing};
use crate::once::PENDING;
use crate::retry::retry;
use crate::{boxed, own_paths};
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::model::{At, Batch, FindQuery, MAX_PAGE, Op, Precondition, Seq};
use garth_engine::path::TreePath;

/// Largest number of files in a page.
pub const MAX_LISTED: usize = 1000;

impl Media<'_> {
    /// Returns a page of the files of a session, in the order of their UUIDs, after the UUID `after`; and the
    /// cursor of the next page, if there are more. Files that a reset has moved are included.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to [`MAX_LISTED`]; from the filesystem.
    #[boxed]
    pub async fn list(
        &self,
        session_id: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Stored>, Option<String>)> {
        own_paths::check(self.fs, &TreePath::from_row("", MEDIA), "give it the account's own tree")?;
        if !(1..=MAX_LISTED).contains(&limit) {
            return Err(Error::invalid(format!("the limit of a list of media is 1 to {MAX_LISTED}")));
        }
        let (places, next) = self.places_of(session_id, after, limit).await?;
        let mut stored = Vec::new();
        for (_, path) in places {
            let Some(entry) = self.fs.stat(&At::from(&path)).await.optional()? else { continue };
            stored.extend(Stored::of(path, entry));
        }
        // All files of a session have one owner, so the first one decides for the page.
        if !stored.is_empty() && !self.sees(&stored[0]).await? {
            return Ok((Vec::new(), None));
        }
        Ok((stored, next))
    }

    /// Returns the files of a session, each with its UUID, and the UUID after which the next page starts.
    pub(super) async fn places_of(
        &self,
        session_id: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<(String, TreePath)>, Option<String>)> {
        // `~` sorts after every character of a UUID, so this starts right after `after`.
        let from = after.map_or_else(String::new, |after| format!("{after}~"));
        let query = FindQuery::metadata_from(OF, &of_session(session_id, &from))
            .to(format!("{OF}\0{}", of_session(session_id, "~~")))
            .within_any(super::places())
            .limit(MAX_PAGE);
        let (mut found, mut query) = (Vec::new(), query);
        loop {
            let answer = self.fs.find(&query).await?;
            for item in answer.items.into_iter().filter(|item| super::is_place(&item.path)) {
                let Some((_, id)) = item.key.rsplit_once('/') else { continue };
                // Only now is it known that a file follows the full page.
                if found.len() == limit {
                    let last = found.last().map(|(id, _): &(String, TreePath)| id.clone());
                    return Ok((found, last));
                }
                found.push((id.to_owned(), item.path));
            }
            match answer.next {
                Some(next) => query = query.after(next),
                None => return Ok((found, None)),
            }
        }
    }

    /// Removes a media file, wherever it is now.
    ///
    /// # Errors
    /// `NotFound`; from the filesystem.
    #[boxed]
    pub async fn remove(&self, key: &MediaKey) -> Result<Seq> {
        let removed = retry(|| async {
            let Stored { path, entry, .. } = self.get(key).await?;
            // Only this version: a file that another client replaced meanwhile is not removed.
            let batch = self.batch(Op::remove(path.clone()), &format!("remove {key}"));
            let batch = batch.require(path, Precondition::Etag(entry.etag));
            self.once.commit(self.fs, batch, PENDING).await
        });
        self.once.run(removed).await.map_err(|error| match error.is(ErrorKind::NotFound) {
            // It was removed or moved in between.
            true => missing(key),
            false => error,
        })
    }

    pub(super) fn batch(&self, op: Op, message: &str) -> Batch {
        Batch::new([op]).author(self.author.clone()).message(message).by_garth()
    }
}
