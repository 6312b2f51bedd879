//! Media files that were read lately, so that a picture that goes to a model with every call is read once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt as _;
use lru::LruCache;

use super::{MAX_MEDIA, Media, MediaKey, too_large};
use crate::boxed;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{ByteRange, Timestamp, VersionId};

/// Bytes of media that a hydrator keeps, 50 MB.
pub const BUDGET: usize = 52_428_800;

/// Which bytes. A file that was replaced, or is of an account that took the name of another, is another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Which {
    account: String,
    id: String,
    version: VersionId,
    changed: Timestamp,
}

/// Reads media files, and keeps those that were used last, up to [`BUDGET`] bytes. Threads share it.
#[derive(Debug)]
pub struct Hydrator {
    shelf: Mutex<Shelf>,
    budget: usize,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Debug)]
struct Shelf {
    files: LruCache<Which, Bytes>,
    bytes: usize,
}

impl Default for Hydrator {
    fn default() -> Self {
        Self::with_budget(BUDGET)
    }
}

impl Hydrator {
    /// One that keeps at most so many bytes.
    pub fn with_budget(budget: usize) -> Self {
        let shelf = Mutex::new(Shelf { files: LruCache::unbounded(), bytes: 0 });
        Self { shelf, budget, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// The bytes of a media file of an account; none if it is not there. The name of the account keeps the
    /// files of others apart.
    ///
    /// # Errors
    /// `TooLarge` for a file of more than [`MAX_MEDIA`] bytes, which was put there by other means; from the
    /// filesystem.
    #[boxed]
    pub async fn bytes(&self, account: &str, media: &Media<'_>, key: &MediaKey) -> Result<Option<Bytes>> {
        let (stored, file) = match media.open(key).await {
            Err(error) if error.is(ErrorKind::NotFound) => return Ok(None),
            found => found?,
        };
        let entry = stored.entry;
        let (account, id) = (account.to_owned(), key.id().to_owned());
        let which = Which { account, id, version: entry.etag, changed: entry.mtime };
        if let Some(bytes) = self.shelf().files.get(&which).cloned() {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(Some(bytes));
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        if entry.size > MAX_MEDIA {
            return Err(too_large());
        }
        let whole = file.stream(ByteRange::ALL).try_fold(BytesMut::new(), |mut whole, piece| async move {
            whole.extend_from_slice(&piece);
            Ok::<_, Error>(whole)
        });
        let bytes = whole.await?.freeze();
        // of a tree without versions other bytes may have come meanwhile
        if bytes.len() as u64 == entry.size {
            self.shelf().keep(which, bytes.clone(), self.budget);
        }
        Ok(Some(bytes))
    }

    /// How often a file was there, and how often it was read.
    pub fn counts(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    /// How many bytes it has.
    pub fn held(&self) -> usize {
        self.shelf().bytes
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn keep(&mut self, which: Which, bytes: Bytes, budget: usize) {
        if bytes.len() > budget {
            return;
        }
        self.bytes += bytes.len();
        if let Some(before) = self.files.put(which, bytes) {
            self.bytes -= before.len();
        }
        while self.bytes > budget
            && let Some((_, out)) = self.files.pop_lru()
        {
            self.bytes -= out.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use garth_engine::model::{Ino, Seq};

    fn which(account: &str, seq: u64) -> Which {
        let version = VersionId { seq: Seq(seq), ino: Ino(7) };
        Which { account: account.to_owned(), id: "id".to_owned(), version, changed: Timestamp(0) }
    }

    #[test]
    fn what_was_used_longest_ago_goes_once_there_are_more_bytes_than_it_may_keep() {
        let mut shelf = Shelf { files: LruCache::unbounded(), bytes: 0 };
        let file = |length: usize| Bytes::from(vec![0; length]);
        shelf.keep(which("a", 1), file(4), 10);
        shelf.keep(which("a", 2), file(4), 10);
        assert!(shelf.files.get(&which("a", 1)).is_some());
        shelf.keep(which("a", 3), file(5), 10);
        assert_eq!((shelf.bytes, shelf.files.len()), (9, 2));
        assert!(shelf.files.get(&which("a", 2)).is_none(), "the other was used since");
        // the same again counts once, and what is too large is not kept
        shelf.keep(which("a", 3), file(5), 10);
        shelf.keep(which("a", 4), file(11), 10);
        assert_eq!((shelf.bytes, shelf.files.len()), (9, 2));
        shelf.keep(which("a", 5), file(10), 10);
        assert_eq!((shelf.bytes, shelf.files.len()), (10, 1));
    }

    #[test]
    fn accounts_and_versions_do_not_share_what_is_kept() {
        let mut shelf = Shelf { files: LruCache::unbounded(), bytes: 0 };
        shelf.keep(which("a", 1), Bytes::from_static(b"a"), 10);
        assert!(shelf.files.get(&which("b", 1)).is_none());
        assert!(shelf.files.get(&which("a", 2)).is_none());
        assert!(shelf.files.get(&which("a", 1)).is_some());
    }
}
