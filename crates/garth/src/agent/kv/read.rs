//! Reading values: one, its past, and those that a search finds. A value and the version shown with it always belong
//! together, also while somebody else writes.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::error::{KvError, KvResult};
use super::key::Key;
use super::{Kv, MAX_VALUE, is_missing};
use crate::error::{Error, ErrorKind};
use crate::fs::OpenFile;
use crate::model::{
    At, ByteRange, Entry, HistoryPage, Kind, SearchQuery, Seq, Timestamp, Version, VersionId,
};
use crate::path::TreePath;

/// Versions that `history` gives unless told. Issue 2, item 7.
pub const DEFAULT_HISTORY: usize = 20;
/// Most versions of one `history`. Seed 4.
pub const MAX_HISTORY: usize = 100;
/// Hits that `search` gives unless told. Issue 2, item 7.
pub const DEFAULT_HITS: usize = 10;
/// Most hits of one `search`. Seed 4.
pub const MAX_HITS: usize = 50;
/// Longest query, in characters. Seed 4.
pub const MAX_QUERY_CHARS: usize = 2000;
/// Most hits that a filesystem gives.
const MAX_FS_HITS: usize = 1000;

/// The text of one JSON value: valid JSON in UTF-8, without space around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonText(Bytes);

impl JsonText {
    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// `None` if it is no JSON, or too long to be a value.
    fn parse(bytes: &Bytes) -> Option<Self> {
        if bytes.len() > MAX_VALUE {
            return None;
        }
        let value: &RawValue = serde_json::from_slice(bytes).ok()?;
        Some(Self(bytes.slice_ref(value.get().as_bytes())))
    }
}

/// A value that is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The key path, normalised.
    pub path: String,
    /// The value.
    pub value: JsonText,
    /// Its version.
    pub version: VersionId,
    /// When that version was made.
    pub created_at: Timestamp,
    /// From this moment on it is absent.
    pub expires_at: Option<Timestamp>,
    /// Labels.
    pub tags: Vec<String>,
}

/// A version of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// Its id.
    pub version: VersionId,
    /// When it was made.
    pub created_at: Timestamp,
    /// The value; `None` where this version is its end.
    pub value: Option<JsonText>,
    /// From which moment on this version was absent.
    pub expires_at: Option<Timestamp>,
}

/// What to search for.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    /// Plain words, 1 to [`MAX_QUERY_CHARS`] characters.
    pub query: &'a str,
    /// Most hits, 1 to [`MAX_HITS`].
    pub limit: usize,
    /// Only this key and those below it.
    pub path_prefix: Option<&'a str>,
    /// Only values with one of these labels; empty: any.
    pub tags_any: Vec<String>,
}

/// A value that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    /// The value.
    pub found: Found,
    /// Relevance in (0, 1), see [`crate::model::Hit::score`]. Compares hits of one search only.
    pub similarity: f64,
}

impl Kv<'_> {
    /// The value of a key; `None` if it has none, or one that expired or was deleted.
    ///
    /// # Errors
    /// `InvalidPath`; those of the filesystem.
    pub async fn get(&self, path: &str) -> KvResult<Option<Found>> {
        let key = Key::parse_value(path)?;
        let file = self.base.file(&key)?;
        Ok(self.load(&file).await?.map(|(entry, value)| found(&key, entry, value)))
    }

    /// The versions of a key's value, newest first, through delete and re-create.
    ///
    /// # Errors
    /// `InvalidPath`; `Validation` for a limit outside 1 to [`MAX_HISTORY`]; those of the filesystem.
    pub async fn history(&self, path: &str, limit: usize) -> KvResult<Vec<Past>> {
        let file = self.base.file(&Key::parse_value(path)?)?;
        if !(1..=MAX_HISTORY).contains(&limit) {
            return Err(KvError::validation(format!("`limit` is 1 to {MAX_HISTORY}")));
        }
        let mut past = Vec::new();
        // An end counts once the version before it shows that a value ended, not a directory.
        let mut end: Option<Version> = None;
        let mut before = None;
        loop {
            let (versions, more) = self.versions(&file, before, limit + 1).await?;
            before = versions.last().map(|version| version.commit.seq);
            for version in versions {
                let Some(entry) = &version.entry else {
                    end = Some(version);
                    continue;
                };
                let is_file = entry.kind == Kind::File;
                if let Some(end) = end.take()
                    && (is_file || end.id.ino != version.id.ino)
                {
                    past.push(past_of(&end, None));
                }
                if is_file
                    && past.len() < limit
                    && let Some(value) = self.load_version(version.id, entry.size).await?
                {
                    past.push(past_of(&version, Some(value)));
                }
                if past.len() >= limit {
                    past.truncate(limit);
                    return Ok(past);
                }
            }
            if !more {
                past.extend(end.map(|end| past_of(&end, None)));
                return Ok(past);
            }
        }
    }

    /// The values that match best, best first: only those that were put as searchable, in their newest version.
    ///
    /// # Errors
    /// `Validation` for a query or limit outside the limits; `InvalidPath`; those of the filesystem.
    pub async fn search(&self, search: &Search<'_>) -> KvResult<Vec<Match>> {
        if !(1..=MAX_QUERY_CHARS).contains(&search.query.chars().count()) {
            return Err(KvError::validation(format!("`query` has 1 to {MAX_QUERY_CHARS} characters")));
        }
        if !(1..=MAX_HITS).contains(&search.limit) {
            return Err(KvError::validation(format!("`limit` is 1 to {MAX_HITS}")));
        }
        let prefix = Key::parse(search.path_prefix.unwrap_or("/"))?;
        let mut within = vec![self.base.directory(&prefix)?];
        if !prefix.is_top() {
            within.push(self.base.file(&prefix)?);
        }
        let mut query = SearchQuery {
            text: search.query.to_owned(),
            within,
            tags_any: search.tags_any.clone(),
            limit: search.limit,
        };
        loop {
            let hits = self.fs.search(&query).await?;
            let more = hits.len() == query.limit && query.limit < MAX_FS_HITS;
            let mut matches = Vec::with_capacity(search.limit);
            for hit in hits {
                let Some(key) = self.base.key_of(&hit.path) else { continue };
                // Files that other interfaces wrote are no values of this search unless they say so.
                if let Some((entry, value)) = self.load(&hit.path).await?
                    && entry.attributes.searchable == Some(true)
                {
                    matches.push(Match { found: found(&key, entry, value), similarity: hit.score });
                }
                if matches.len() == search.limit {
                    return Ok(matches);
                }
            }
            if !more {
                return Ok(matches);
            }
            query.limit = (query.limit * 4).min(MAX_FS_HITS);
        }
    }

    /// The value in a file and the entry of the version that it is of.
    async fn load(&self, file: &TreePath) -> KvResult<Option<(Entry, JsonText)>> {
        // one byte more than a value has: a longer file is none, and is not read whole to find that out
        let range = ByteRange { offset: 0, length: MAX_VALUE as u64 + 1 };
        let Some((entry, bytes)) = readable(self.fs.fetch(&At::Path(file.clone()), range).await)? else {
            return Ok(None);
        };
        Ok(JsonText::parse(&bytes).map(|value| (entry, value)))
    }

    async fn load_version(&self, version: VersionId, size: u64) -> KvResult<Option<JsonText>> {
        if !fits(size) {
            return Ok(None);
        }
        let Some(file) = readable(self.fs.open_version(version).await)? else { return Ok(None) };
        let Some(bytes) = readable(read_whole(file).await)? else { return Ok(None) };
        Ok(JsonText::parse(&bytes))
    }

    /// A page of a file's versions that never ends within a commit, and whether there are more.
    async fn versions(
        &self,
        file: &TreePath,
        before: Option<Seq>,
        limit: usize,
    ) -> KvResult<(Vec<Version>, bool)> {
        let page = HistoryPage { before, limit };
        let mut versions = match self.fs.history(&At::Path(file.clone()), &page).await {
            Ok(versions) => versions,
            Err(error) if is_missing(&error) => return Ok((Vec::new(), false)),
            Err(error) => return Err(error.into()),
        };
        let more = versions.len() == limit;
        if more && let Some(last) = versions.last().map(|version| version.commit.seq) {
            let whole = versions.iter().take_while(|version| version.commit.seq != last).count();
            if whole > 0 {
                versions.truncate(whole);
            }
        }
        Ok((versions, more))
    }
}

fn fits(size: u64) -> bool {
    size <= MAX_VALUE as u64
}

async fn read_whole(file: Arc<dyn OpenFile>) -> Result<Bytes, Error> {
    file.read_at(0, MAX_VALUE + 1).await
}

/// `None` where there is nothing to read any more, or it is no regular file, or beyond what a value can have.
fn readable<T>(answer: Result<T, Error>) -> KvResult<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::IsADirectory | ErrorKind::NotPermitted | ErrorKind::TooLarge | ErrorKind::Gone
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn found(key: &Key, entry: Entry, value: JsonText) -> Found {
    Found {
        path: key.as_str().to_owned(),
        value,
        version: entry.version,
        // The last change of anything is what made the version.
        created_at: entry.ctime,
        expires_at: entry.expires_at,
        tags: entry.attributes.tags,
    }
}

fn past_of(version: &Version, value: Option<JsonText>) -> Past {
    Past {
        version: version.id,
        created_at: version.commit.time,
        value,
        expires_at: version.entry.as_ref().and_then(|entry| entry.expires_at),
    }
}
