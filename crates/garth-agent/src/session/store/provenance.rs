//! Provenance: the files that a session wrote anywhere in the account, and the bytes in them that are still
//! its own.

use std::ops::Range;

use crate::boxed;
use crate::retry::yield_now;
use crate::session::handle::Sessions;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{
    At, ByteRange, ChangeKind, ChangesQuery, Kind, LogPosition, NamesPage, Seq, SessionOf,
};
use garth_engine::path::TreePath;

/// Changes that one page examines.
const CHANGES: usize = 200;
/// Runs of blame read at a time.
const RUNS: usize = 1000;
/// Limit on the pieces of one file that a page names.
const MAX_PIECES: usize = 1000;
/// Limit on the runs of a file that are examined.
const MAX_RUNS: usize = 100_000;

/// A file that a session wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wrote {
    /// Its path now, in the session's own tree.
    pub path: TreePath,
    /// Its size.
    pub size: u64,
    /// Ranges that the session wrote.
    pub bytes: Vec<Range<u64>>,
    /// True if there are more ranges than listed.
    pub more: bool,
}

/// Page of the files that a session wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenFiles {
    /// Files of the page.
    pub items: Vec<Wrote>,
    /// Position at which the next page starts; `None` on the last page.
    pub next: Option<LogPosition>,
    /// First commit whose state is readable, on the first page, if the session may have written files up to
    /// it. The log no longer says which, so files that it did not write again later are missing.
    pub oldest: Option<Seq>,
}

impl Sessions<'_> {
    /// Returns a page of the files that still contain bytes of a session. Without a position, it starts with
    /// the first commit whose changes are stored. A file that the session changed more than once can occur on
    /// several pages, each time as it is now.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id; `Gone` if commits after the given position are beyond retention;
    /// `Unsupported` for a filesystem that does not record authors; from the filesystem.
    #[boxed]
    pub async fn wrote(&self, session: &str, since: Option<LogPosition>) -> Result<WrittenFiles> {
        let dir = At::from(self.directory(session)?);
        let [user, agent, session] = [&self.user, &self.agent, session].map(str::to_owned);
        let of = SessionOf { user, agent, session };
        let mut query = ChangesQuery::since(since.unwrap_or_default()).limit(CHANGES).session(of.clone());
        let (mut page, mut oldest) = (self.fs.changes(&query).await, None);
        if since.is_none()
            && let Some(begin) = page.as_ref().err().and_then(Error::oldest).map(Seq)
        {
            query.since = begin.into();
            page = self.fs.changes(&query).await;
            oldest = (!self.is_later(&dir, begin).await?).then_some(begin);
        }
        let page = page?;
        let mut nodes = Vec::new();
        for change in page.commits.iter().flat_map(|commit| &commit.changes) {
            let wrote = matches!(change.kind, ChangeKind::Created | ChangeKind::Modified);
            if wrote && !nodes.contains(&change.ino) {
                nodes.push(change.ino);
            }
        }
        let mut items = Vec::new();
        for ino in nodes {
            match self.own_bytes(&of, &At::from(ino)).await {
                Ok(file) => items.extend(file),
                // The file was deleted meanwhile, or is out of reach of this view.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AccessDenied) => {}
                Err(error) => return Err(error),
            }
            yield_now().await;
        }
        let next = (page.until.seq < page.head).then_some(page.until);
        Ok(WrittenFiles { items, next, oldest })
    }

    /// Returns true if a session began after a commit: its directory exists, and did not then.
    async fn is_later(&self, dir: &At, commit: Seq) -> Result<bool> {
        let then = self.fs.as_of(&commit.into()).await?;
        Ok(then.stat(dir).await.is_err_and(|error| error.is_absent()) && self.fs.stat(dir).await.is_ok())
    }

    /// Returns the ranges of a file that a session wrote; `None` if there are none.
    async fn own_bytes(&self, of: &SessionOf, file: &At) -> Result<Option<Wrote>> {
        let entry = self.fs.stat(file).await?;
        if entry.kind != Kind::File {
            return Ok(None);
        }
        // By inode, not by the path in the log: the file may have been renamed.
        let names = self.fs.names(file, &NamesPage::default().limit(1)).await?;
        let Some(path) = names.items.into_iter().next() else { return Ok(None) };
        let path = self.shown(&path);
        let mut wrote = Wrote { path, size: entry.size, bytes: Vec::new(), more: false };
        let (mut at, mut seen) = (0, 0);
        while at < entry.size {
            let range = ByteRange { offset: at, length: entry.size - at };
            let blame = self.fs.blame(file, range, RUNS).await?;
            for run in &blame.runs {
                let by = blame.commits.iter().find(|commit| Some(commit.seq) == run.commit);
                seen += 1;
                if by.is_none_or(|commit| !of.is_of(&commit.author)) {
                    continue;
                }
                let bytes = run.range.offset..run.range.offset + run.range.length;
                // Consecutive runs of several commits of the session are one piece.
                match wrote.bytes.last_mut().filter(|before| before.end == bytes.start) {
                    Some(before) => before.end = bytes.end,
                    None => wrote.bytes.push(bytes),
                }
            }
            at = blame.next.unwrap_or(entry.size);
            if wrote.bytes.len() >= MAX_PIECES || seen >= MAX_RUNS {
                wrote.more = at < entry.size;
                break;
            }
        }
        Ok((!wrote.bytes.is_empty()).then_some(wrote))
    }
}
