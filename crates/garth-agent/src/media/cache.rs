//! Cache of media files. An image of a conversation is sent to the model with every call, but read only once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt as _;
use lru::LruCache;

use super::Media;
use super::key::MediaKey;
use super::limit::{MAX_MEDIA, too_large};
use crate::boxed;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{ByteRange, Timestamp, VersionId};

/// Default size of the cache of a hydrator, 50 MB.
pub const BUDGET: usize = 52_428_800;

/// Key of cached bytes. A replaced file has another version. `changed` distinguishes a file from one in a
/// deleted account of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CacheKey {
    account: String,
    id: String,
    version: VersionId,
    changed: Timestamp,
}

/// Reads media files and caches those used last, up to [`BUDGET`] bytes. Threads share it.
#[derive(Debug)]
pub struct Hydrator {
    cache: Mutex<Cache>,
    budget: usize,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Result of reading a media file.
#[derive(Debug)]
pub(crate) enum MediaBytes {
    /// Content.
    Read(Bytes),
    /// Size in bytes, above the limit.
    Larger(u64),
}

#[derive(Debug)]
struct Cache {
    files: LruCache<CacheKey, Bytes>,
    bytes: usize,
}

impl Default for Hydrator {
    fn default() -> Self {
        Self::with_budget(BUDGET)
    }
}

impl Hydrator {
    /// Returns a hydrator that caches at most `budget` bytes.
    pub fn with_budget(budget: usize) -> Self {
        let cache = Mutex::new(Cache { files: LruCache::unbounded(), bytes: 0 });
        Self { cache, budget, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// Returns the bytes of a media file of an account; `None` if the file does not exist, or belongs to a
    /// session whose UUID is not in `of`. The cache is keyed by the name of the account, which separates the
    /// files of accounts.
    ///
    /// # Errors
    /// `TooLarge` for a file of more than [`MAX_MEDIA`] bytes, which was written by other means; from the
    /// filesystem.
    #[boxed]
    pub async fn bytes(
        &self,
        account: &str,
        media: &Media<'_>,
        key: &MediaKey,
        of: &[String],
    ) -> Result<Option<Bytes>> {
        match self.read((account, key), media, of, MAX_MEDIA).await? {
            Some(MediaBytes::Read(bytes)) => Ok(Some(bytes)),
            Some(MediaBytes::Larger(_)) => Err(too_large()),
            None => Ok(None),
        }
    }

    /// Returns a media file as [`Hydrator::bytes`] does. For a file of more than `most` bytes only the size
    /// is returned, and its content is not read.
    pub(crate) async fn read(
        &self,
        (account, key): (&str, &MediaKey),
        media: &Media<'_>,
        of: &[String],
        most: u64,
    ) -> Result<Option<MediaBytes>> {
        let found = match media.found(key).await? {
            Some(stored) if stored.session_id().is_some_and(|id| of.iter().any(|own| own == id)) => {
                media.opened(stored).await
            }
            _ => return Ok(None),
        };
        let (stored, file) = match found {
            Err(error) if error.is(ErrorKind::NotFound) => return Ok(None),
            found => found?,
        };
        let entry = stored.entry;
        if entry.size > most.min(MAX_MEDIA) {
            return Ok(Some(MediaBytes::Larger(entry.size)));
        }
        // The owner was checked above, on every read, so a cached file is not returned to a session that lost
        // it.
        let (account, id) = (account.to_owned(), key.id().to_owned());
        let cache_key = CacheKey { account, id, version: entry.etag, changed: entry.mtime };
        if let Some(bytes) = self.cache().files.get(&cache_key).cloned() {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(Some(MediaBytes::Read(bytes)));
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let whole = file.stream(ByteRange::ALL).try_fold(BytesMut::new(), |mut whole, piece| async move {
            whole.extend_from_slice(&piece);
            Ok::<_, Error>(whole)
        });
        let bytes = whole.await?.freeze();
        // A filesystem without versions may return other bytes than `entry` describes, if the file was
        // written in between.
        if bytes.len() as u64 == entry.size {
            self.cache().keep(cache_key, bytes.clone(), self.budget);
        }
        Ok(Some(MediaBytes::Read(bytes)))
    }

    /// Returns the number of hits and of misses.
    pub fn counts(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    /// Returns the number of cached bytes.
    pub fn held(&self) -> usize {
        self.cache().bytes
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    fn keep(&mut self, cache_key: CacheKey, bytes: Bytes, budget: usize) {
        // Otherwise one file would evict all others, and then itself.
        if bytes.len() > budget {
            return;
        }
        self.bytes += bytes.len();
        // Two concurrent reads of one file both add it.
        if let Some(before) = self.files.put(cache_key, bytes) {
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

    fn cache_key(account: &str, seq: u64) -> CacheKey {
        let version = VersionId { seq: Seq(seq), ino: Ino(7) };
        CacheKey { account: account.to_owned(), id: "id".to_owned(), version, changed: Timestamp(0) }
    }

    #[test]
    fn cache_evicts_least_recently_used_files() {
        let mut cache = Cache { files: LruCache::unbounded(), bytes: 0 };
        let file = |length: usize| Bytes::from(vec![0; length]);
        cache.keep(cache_key("a", 1), file(4), 10);
        cache.keep(cache_key("a", 2), file(4), 10);
        assert!(cache.files.get(&cache_key("a", 1)).is_some());
        cache.keep(cache_key("a", 3), file(5), 10);
        assert_eq!((cache.bytes, cache.files.len()), (9, 2));
        assert!(cache.files.get(&cache_key("a", 2)).is_none(), "the other was used since");
        // A repeated file counts once, and one that is too large is not cached.
        cache.keep(cache_key("a", 3), file(5), 10);
        cache.keep(cache_key("a", 4), file(11), 10);
        assert_eq!((cache.bytes, cache.files.len()), (9, 2));
        cache.keep(cache_key("a", 5), file(10), 10);
        assert_eq!((cache.bytes, cache.files.len()), (10, 1));
    }

    #[test]
    fn accounts_and_versions_have_separate_cache_entries() {
        let mut cache = Cache { files: LruCache::unbounded(), bytes: 0 };
        cache.keep(cache_key("a", 1), Bytes::from_static(b"a"), 10);
        assert!(cache.files.get(&cache_key("b", 1)).is_none());
        assert!(cache.files.get(&cache_key("a", 2)).is_none());
        assert!(cache.files.get(&cache_key("a", 1)).is_some());
    }
}
