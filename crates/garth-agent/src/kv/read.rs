//! Reads values: the current one, its history, and search results. A value and the version returned
//! with it always belong together, also while another client writes.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::error::{KvError, KvResult};
use super::key::Key;
use super::page::{MAX_PAGE_VALUES, PageRequest, Paged};
use super::{Kv, MAX_VALUE};
use crate::boxed;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _};
use garth_engine::fs::OpenFile;
use garth_engine::model::{
    At, ByteRange, Entry, HistoryPage, Hit, Kind, SearchQuery, Seq, Timestamp, Version, VersionId, Weigh,
};
use garth_engine::path::TreePath;

/// Default limit of `history`, in versions.
pub const DEFAULT_HISTORY: usize = 20;
/// Largest limit of `history`.
pub const MAX_HISTORY: usize = 100;
/// Default limit of `search`, in hits.
pub const DEFAULT_HITS: usize = 10;
/// Largest limit of `search`.
pub const MAX_HITS: usize = 50;
/// Limit on the characters of a query.
pub const MAX_QUERY_CHARS: usize = 2000;
/// Limit on the labels of which a search asks for any.
pub const MAX_TAGS_ANY: usize = 20;
/// Limit on the keys of one [`Kv::get_many`].
pub const MAX_GETS: usize = 1000;
/// Range read of a value's file: one byte more than a value may have, so that a larger file is
/// recognised without reading it all.
pub(super) const VALUE: ByteRange = ByteRange { offset: 0, length: MAX_VALUE as u64 + 1 };
/// Limit on the hits of one search of a filesystem.
const MAX_FS_HITS: usize = 1000;

/// Current value of a key.
#[derive(Clone, Debug)]
pub struct CurrentValue {
    /// Key path, normalised.
    pub path: String,
    /// Value, digit for digit as it was put.
    pub value: Box<RawValue>,
    /// Version of the value.
    pub version: VersionId,
    /// Time of the commit that created the version.
    pub created_at: Timestamp,
    /// Expiry time, from which on the value is absent.
    pub expires_at: Option<Timestamp>,
    /// Labels.
    pub tags: Vec<String>,
    /// Weight.
    pub importance: f64,
    /// True if search finds the value.
    pub searchable: bool,
}

/// Values of several keys, all read at one point in time.
#[derive(Debug)]
#[non_exhaustive]
pub struct Many {
    /// Commit after which they were read; see [`Fetched::seq`](garth_engine::model::Fetched::seq).
    pub seq: Seq,
    /// Results of [`Kv::get`] for the first keys, in their order.
    pub values: Vec<KvResult<Option<CurrentValue>>>,
}

/// Version of a value.
#[derive(Clone, Debug)]
pub struct Past {
    /// Version id.
    pub version: VersionId,
    /// Time of the commit.
    pub created_at: Timestamp,
    /// Value; `None` for a version that ended it, and for one whose content is gone.
    pub value: Option<Box<RawValue>>,
    /// True if the content of the version is no longer stored, because of retention.
    pub gone: bool,
    /// Expiry time of this version.
    pub expires_at: Option<Timestamp>,
}

/// Search request.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    /// Plain words, 1 to [`MAX_QUERY_CHARS`] characters.
    pub query: &'a str,
    /// Restricts the search to this key and those below it.
    pub path_prefix: Option<&'a str>,
    /// Restricts the search to values with one of these labels, at most [`MAX_TAGS_ANY`]; empty: any.
    pub tags_any: Vec<String>,
}

/// Search result.
#[derive(Clone, Debug)]
pub struct Match {
    /// Value.
    pub found: CurrentValue,
    /// Share of the question that the value covers, above 0 and up to 1: see
    /// [`garth_engine::model::Hit::score`].
    pub similarity: f64,
}

impl Kv<'_> {
    /// Returns the value of a key; `None` if it has none, or if the value expired or was deleted.
    ///
    /// # Errors
    /// `InvalidPath`; errors of the filesystem.
    #[boxed]
    pub async fn get(&self, path: &str) -> KvResult<Option<CurrentValue>> {
        let key = Key::parse_value(path)?;
        let file = self.base.file(&key)?;
        value_of(&key, self.fs.fetch(&file.into(), VALUE).await)
    }

    /// Checks key paths, so that a call with several reads none if one of them is invalid.
    ///
    /// # Errors
    /// `InvalidPath`, with the key.
    #[doc(hidden)]
    pub fn check_paths(paths: &[String]) -> KvResult<()> {
        paths.iter().try_for_each(|path| Key::parse_value(path).map(drop).map_err(|error| error.about(path)))
    }

    /// Returns the values of up to [`MAX_GETS`] keys, all read at one point in time. If they exceed 16 MiB
    /// together, only the first are returned, at least one; ask again for the others.
    ///
    /// # Errors
    /// `Validation` for more keys; errors of the filesystem. An error of one key is its own result.
    #[boxed]
    pub async fn get_many(&self, paths: &[&str]) -> KvResult<Many> {
        if paths.len() > MAX_GETS {
            return Err(KvError::validation(format!("one call reads at most {MAX_GETS} keys")));
        }
        let place = |path: &&str| {
            let key = Key::parse_value(path)?;
            let file = self.base.file(&key)?;
            Ok((key, file))
        };
        let keys: Vec<KvResult<(Key, TreePath)>> = paths.iter().map(place).collect();
        let items: Vec<_> = keys.iter().flatten().map(|(_, file)| (At::from(file), VALUE)).collect();
        let fetched = self.fs.fetch_many(&items).await?;
        let (mut answers, mut values) = (fetched.items.into_iter(), Vec::with_capacity(keys.len()));
        // `answers` has no item for a key that failed to parse, and may end early.
        for key in keys {
            let value = match key {
                Ok((key, _)) => match answers.next() {
                    Some(answer) => value_of(&key, answer),
                    None => break,
                },
                Err(error) => Err(error),
            };
            values.push(value);
        }
        Ok(Many { seq: fetched.seq.unwrap_or_default(), values })
    }

    /// Returns the versions of a key's value, newest first, also those before a deletion. At most
    /// [`MAX_HISTORY`] and [`MAX_PAGE_VALUES`] bytes in a page.
    ///
    /// # Errors
    /// `InvalidPath`; `Validation` for the limit or the cursor; errors of the filesystem.
    pub async fn history(&self, path: &str, page: PageRequest<'_>) -> KvResult<Paged<Past>> {
        let file = self.base.file(&Key::parse_value(path)?)?;
        page.check(MAX_HISTORY)?;
        let mut items = PastPage { limit: page.limit, bytes: 0, items: Vec::new() };
        // A deletion counts only if the version before it is a value. Otherwise it ended a directory.
        let mut end: Option<Version> = None;
        let mut versions = HistoryPage::default().before(page.version()?).limit(page.limit + 1);
        loop {
            let Some(read) = self.fs.history(&(&file).into(), &versions).await.optional()? else {
                return Ok(Paged { items: Vec::new(), next: None });
            };
            versions.before = read.items.last().map(|version| version.id);
            for version in read.items {
                let Some(entry) = &version.entry else {
                    end = Some(version);
                    continue;
                };
                let is_file = entry.kind == Kind::File;
                if let Some(end) = end.take()
                    && (is_file || end.id.ino != version.id.ino)
                    && !items.add(&end, PastContent::Ended)
                {
                    return Ok(items.cut());
                }
                if !is_file || !fits(entry.size) {
                    continue;
                }
                // Checked by the size in the entry, before the content of a version that does not fit is
                // read.
                if !items.has_room(entry.size) {
                    return Ok(items.cut());
                }
                if let Some(content) = self.load_version(version.id).await?
                    && !items.add(&version, content)
                {
                    return Ok(items.cut());
                }
            }
            if !read.more {
                let complete = end.is_none_or(|end| items.add(&end, PastContent::Ended));
                return Ok(if complete { Paged { items: items.items, next: None } } else { items.cut() });
            }
        }
    }

    /// Returns the values that match best, best first. Only values that were put as searchable are found,
    /// in their newest version. At most [`MAX_HITS`] and [`MAX_PAGE_VALUES`] bytes in a page; all pages
    /// together cover the best 1,000 files.
    ///
    /// # Errors
    /// `Validation` for the query, the labels, the limit or the cursor; `InvalidPath`; errors of the
    /// filesystem.
    pub async fn search(&self, search: &Search<'_>, page: PageRequest<'_>) -> KvResult<Paged<Match>> {
        if !(1..=MAX_QUERY_CHARS).contains(&search.query.chars().count()) {
            return Err(KvError::validation(format!("`query` must have 1 to {MAX_QUERY_CHARS} characters")));
        }
        if search.tags_any.len() > MAX_TAGS_ANY {
            return Err(KvError::validation(format!("a search asks for at most {MAX_TAGS_ANY} tags")));
        }
        page.check(MAX_HITS)?;
        let prefix = Key::parse(search.path_prefix.unwrap_or("/"))?;
        let mut within = vec![self.base.directory(&prefix)?];
        if !prefix.is_top() {
            // The value of the prefix itself is in a file next to the directory.
            within.push(self.base.file(&prefix)?);
        }
        let mut rank = page.rank()?;
        let limit = rank.saturating_add(page.limit + 1).min(MAX_FS_HITS);
        let query = SearchQuery::new(search.query).within_any(within).limit(limit).without_text();
        let mut query = query.tags_any(search.tags_any.iter().cloned());
        let (mut items, mut bytes) = (Vec::new(), 0);
        loop {
            let hits = self.fs.search(&query).await?.hits;
            // Hits that are not values are skipped, so a full list of hits may yield too few items. Ask
            // again for more.
            let more = hits.len() == query.limit && query.limit < MAX_FS_HITS;
            for hit in hits.into_iter().skip(rank) {
                if let Some(found) = self.hit(&hit).await? {
                    bytes += found.value.get().len() + found.tags.iter().map(Weigh::weight).sum::<usize>();
                    if items.len() == page.limit || (bytes > MAX_PAGE_VALUES && !items.is_empty()) {
                        // The cursor is a rank among the hits of the filesystem, not among the items: the
                        // next page skips hits that this one looked at.
                        return Ok(Paged { items, next: Some(rank.to_string()) });
                    }
                    items.push(Match { found, similarity: hit.score });
                }
                rank += 1;
            }
            if !more {
                return Ok(Paged { items, next: None });
            }
            query.limit = (query.limit * 4).min(MAX_FS_HITS);
        }
    }

    /// Returns the value that a search hit; `None` for a file of another interface that is not marked as
    /// searchable.
    async fn hit(&self, hit: &Hit) -> KvResult<Option<CurrentValue>> {
        let Some(key) = self.base.key_of(&hit.path) else { return Ok(None) };
        let Some((entry, value)) = self.load(&hit.path).await? else { return Ok(None) };
        Ok(is_searchable(&entry).then(|| found(&key, entry, value)))
    }

    /// Returns the value in a file, and the entry of its version.
    async fn load(&self, file: &TreePath) -> KvResult<Option<(Entry, Box<RawValue>)>> {
        let Some((entry, bytes)) = readable(self.fs.fetch(&file.into(), VALUE).await)? else {
            return Ok(None);
        };
        Ok(parse(&bytes).map(|value| (entry, value)))
    }

    /// Returns the content of a version; `None` if it is not a value.
    async fn load_version(&self, version: VersionId) -> KvResult<Option<PastContent>> {
        let read = async { read_whole(self.fs.open_version(version).await?).await };
        match read.await {
            Err(error) if error.is(ErrorKind::Gone) => Ok(Some(PastContent::Gone)),
            read => Ok(readable(read)?.and_then(|bytes| parse(&bytes)).map(PastContent::Value)),
        }
    }
}

/// Content of a version of a key.
enum PastContent {
    Value(Box<RawValue>),
    /// The version ended the value.
    Ended,
    /// The content is no longer stored.
    Gone,
}

/// Page of versions under construction.
struct PastPage {
    limit: usize,
    /// Bytes of the values in `items`.
    bytes: u64,
    items: Vec<Past>,
}

impl PastPage {
    /// Returns true if a version of `size` bytes fits.
    fn has_room(&self, size: u64) -> bool {
        self.items.len() < self.limit
            && (self.items.is_empty() || self.bytes.saturating_add(size) <= MAX_PAGE_VALUES as u64)
    }

    /// Adds a version. Returns false if the page is full.
    fn add(&mut self, version: &Version, content: PastContent) -> bool {
        let size = match &content {
            PastContent::Value(value) => value.get().len() as u64,
            PastContent::Ended | PastContent::Gone => 0,
        };
        let room = self.has_room(size);
        if room {
            self.bytes += size;
            self.items.push(past_of(version, content));
        }
        room
    }

    /// Returns the page, with the cursor of the next one.
    fn cut(self) -> Paged<Past> {
        let next = self.items.last().map(|past| past.version.to_string());
        Paged { items: self.items, next }
    }
}

/// Parses a value. Returns `None` if the text is not JSON, or too long.
pub(super) fn parse(text: &[u8]) -> Option<Box<RawValue>> {
    if text.len() > MAX_VALUE {
        return None;
    }
    serde_json::from_slice(text).ok()
}

fn fits(size: u64) -> bool {
    size <= MAX_VALUE as u64
}

async fn read_whole(file: Arc<dyn OpenFile>) -> Result<Bytes, Error> {
    file.read_at(0, MAX_VALUE + 1).await
}

/// Maps errors of a path without a readable value to `None`: absent, not a regular file, too large, or
/// a version that no longer exists.
fn readable<T>(answer: Result<T, Error>) -> KvResult<Option<T>> {
    match answer {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::IsADirectory | ErrorKind::NotPermitted | ErrorKind::TooLarge | ErrorKind::Gone
            ) =>
        {
            Ok(None)
        }
        answer => Ok(answer.optional()?),
    }
}

/// Returns the value of a key from a read of its file.
fn value_of(key: &Key, read: Result<(Entry, Bytes), Error>) -> KvResult<Option<CurrentValue>> {
    let Some((entry, bytes)) = readable(read)? else { return Ok(None) };
    Ok(parse(&bytes).map(|value| found(key, entry, value)))
}

pub(super) fn found(key: &Key, entry: Entry, value: Box<RawValue>) -> CurrentValue {
    CurrentValue {
        path: key.as_str().to_owned(),
        value,
        version: entry.version,
        // `ctime` is the last change of any kind, which is the time of the version; `mtime` misses changes
        // of attributes.
        created_at: entry.ctime,
        expires_at: entry.expires_at,
        searchable: is_searchable(&entry),
        importance: entry.attributes.importance,
        tags: entry.attributes.tags,
    }
}

/// Returns true if a key was put as searchable. A file of another interface has no such mark.
pub(super) fn is_searchable(entry: &Entry) -> bool {
    entry.attributes.searchable == Some(true)
}

fn past_of(version: &Version, content: PastContent) -> Past {
    let entry = version.entry.as_ref();
    let (value, gone) = match content {
        PastContent::Value(value) => (Some(value), false),
        PastContent::Ended => (None, false),
        PastContent::Gone => (None, true),
    };
    Past {
        version: version.id,
        // As in `found`: the log no longer has the times of commits before the oldest state.
        created_at: entry.map_or(version.commit.time, |entry| entry.ctime),
        value,
        gone,
        expires_at: entry.and_then(|entry| entry.expires_at),
    }
}
