//! Past of a memory: its versions, and reads as of a point in time.

use std::collections::HashSet;

use super::file_names::META;
use super::get::{Level, Memory};
use super::meta::Meta;
use super::uri::Uri;
use super::{Memories, missing};
use crate::boxed;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::{FileSystem, FileSystemExt as _};
use garth_engine::model::{CommitInfo, HistoryPage, Listing, Moment, Seq, VersionId};

/// Limit on the versions of a page: the meta of each is read.
pub const MAX_LOGGED: usize = 100;

/// Limit on the bytes of a meta in a page. A version with a longer one has no meta.
const MAX_META: usize = 64 << 10;

/// Version of a memory: a commit that wrote its meta, or ended it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MemoryVersion {
    /// Version of the meta; also the cursor of the next page.
    pub id: VersionId,
    /// Commit that created it.
    pub commit: CommitInfo,
    /// True if the memory was deleted or moved away.
    pub deleted: bool,
    /// Meta after the commit. `None` for the end of a memory, for an unreadable meta, and for one whose
    /// content is beyond retention.
    pub meta: Option<Meta>,
}

impl Memories<'_> {
    /// Returns a page of the versions of a memory, newest first, also of a deleted one. A moved memory has
    /// its versions from before the move. Relations have no version.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit outside 1 to [`MAX_LOGGED`]; `AccessDenied` for another account;
    /// `NotFound` if the memory never existed; `Unsupported` if the tree has no history; from the filesystem.
    #[boxed]
    pub async fn log(&self, uri: &Uri, page: &HistoryPage) -> Result<Listing<MemoryVersion>> {
        self.check(uri)?;
        if page.limit > MAX_LOGGED {
            return Err(Error::invalid(format!("a page of a memory's log has 1 to {MAX_LOGGED} versions")));
        }
        let versions = self.fs.history(&uri.file(META).into(), page).await.optional()?;
        // A deleted memory still has versions; only one that never existed has none.
        let versions = versions.ok_or_else(|| missing(uri))?;
        let mut log = Listing::default();
        log.more = versions.more;
        for version in versions.items {
            let deleted = version.entry.is_none();
            let meta = if deleted { None } else { self.meta_of(version.id).await? };
            log.items.push(MemoryVersion { id: version.id, commit: version.commit, deleted, meta });
        }
        Ok(log)
    }

    /// Returns the newest readable meta of a memory, among its last [`MAX_LOGGED`] versions, if it is of the
    /// same URI and the memory was not deleted since.
    pub(super) async fn newest_meta(&self, uri: &Uri) -> Result<Option<Meta>> {
        if !self.fs.capabilities(&uri.dir()).log {
            return Ok(None);
        }
        let page = HistoryPage::default().limit(MAX_LOGGED);
        let versions = self.fs.history(&uri.file(META).into(), &page).await.optional()?;
        for version in versions.unwrap_or_default().items {
            // A memory created after a deletion starts with version 1 again.
            if version.entry.is_none() {
                return Ok(None);
            }
            if let Some(meta) = self.meta_of(version.id).await? {
                return Ok(Some(meta).filter(|meta| meta.uri == uri.to_string()));
            }
        }
        Ok(None)
    }

    async fn meta_of(&self, version: VersionId) -> Result<Option<Meta>> {
        let read = async {
            let file = self.fs.open_version(version).await?;
            file.read_at(0, MAX_META + 1).await
        };
        match read.await {
            Ok(bytes) if bytes.len() <= MAX_META => Ok(Meta::parse(&bytes).ok()),
            Ok(_) => Ok(None),
            // A directory or link in the place of the meta, or content that retention has removed.
            Err(error)
                if error.is_absent()
                    || matches!(
                        error.kind(),
                        ErrorKind::IsADirectory | ErrorKind::NotPermitted | ErrorKind::Gone
                    ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns a memory as of a point in time, also under the URI that it had then before it was moved.
    ///
    /// # Errors
    /// As [`Memories::get`]; `NotFound` for a memory that did not exist or was incomplete at that time, and
    /// for a time in the future; `Gone` if it is beyond retention; `Unsupported` if the tree has no history.
    #[boxed]
    pub async fn get_at(&self, uri: &Uri, level: Level, moment: &Moment) -> Result<Memory> {
        self.check(uri)?;
        let past = self.fs.as_of(moment).await?;
        let then = Memories { fs: &*past, ..self.clone() };
        let mut memory = then.read(uri, level).await?;
        if memory.is_none()
            && let Some(old) = self.earlier_uri(uri, &*past).await?
        {
            memory = then.read(&old, level).await?;
        }
        memory.ok_or_else(|| {
            let message = format!("{uri}: no such memory at that time; see its log for its versions");
            Error::new(ErrorKind::NotFound, message)
        })
    }

    /// Returns the URI that a memory had in the past, where its log has it under another one.
    async fn earlier_uri(&self, uri: &Uri, past: &dyn FileSystem) -> Result<Option<Uri>> {
        let after = Seq(past.head().await?.seq.0.saturating_add(1));
        let page = HistoryPage::default().before_commit(after).limit(MAX_LOGGED);
        let versions = self.fs.history(&uri.file(META).into(), &page).await.optional()?.unwrap_or_default();
        let mut seen = HashSet::from([uri.to_string()]);
        for version in versions.items.iter().filter(|version| version.entry.is_some()) {
            let Some(meta) = self.meta_of(version.id).await? else { continue };
            let old = meta.uri.parse::<Uri>().ok().filter(|_| seen.insert(meta.uri.clone()));
            let Some(old) = old.filter(|old| self.check(old).is_ok()) else { continue };
            // Another memory may have taken the URI since.
            let there = past.lookup(old.file(META)).await?;
            if there.is_some_and(|there| there.ino == version.id.ino) {
                return Ok(Some(old));
            }
        }
        Ok(None)
    }
}
