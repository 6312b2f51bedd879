//! Commits and their changes, newest first.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::boxed;
use garth_engine::error::{ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{ChangesQuery, CommitChanges, MAX_PAGE, Seq};
use garth_engine::path::TreePath;

/// Commits of the first page. Each further page has twice as many, so that a short answer costs little.
const FIRST_PAGE: u64 = 16;
/// Limit on the commits of a page.
const PAGE: u64 = 500;

/// Iterator over the commits of a tree, newest first, as far as retention permits.
pub struct Commits {
    fs: Arc<dyn FileSystem>,
    /// Newest commit that is still to be read.
    next: Seq,
    /// Commit at which to stop: it and older ones are not returned.
    since: Seq,
    page: u64,
    most: u64,
    ready: VecDeque<CommitChanges>,
    /// Directory below which changes are returned; all changes for the root.
    dir: TreePath,
    /// Limit on the changes of a commit.
    listed: usize,
}

impl Commits {
    /// Returns the commits after `since`, up to `until`, that changed something at or below `dir`, with only
    /// these changes.
    pub fn new(fs: Arc<dyn FileSystem>, (since, until): (Seq, Seq), dir: &TreePath) -> Self {
        let ready = VecDeque::new();
        Self {
            fs,
            next: until,
            since,
            page: FIRST_PAGE,
            most: PAGE,
            ready,
            dir: dir.clone(),
            listed: usize::MAX,
        }
    }

    /// Sets the limit on the changes of a commit. Further ones are left out.
    #[must_use]
    pub fn listing(self, listed: usize) -> Self {
        Self { listed, ..self }
    }

    /// Returns true if no commit is beyond retention, as far as commits were read.
    pub fn is_complete(&self) -> bool {
        self.next <= self.since
    }

    /// Returns the next older commit.
    ///
    /// # Errors
    /// As [`FileSystem::as_of`] and [`FileSystem::changes`].
    #[boxed]
    pub async fn older(&mut self) -> Result<Option<CommitChanges>> {
        while self.ready.is_empty() && self.next > self.since {
            let start = Seq(self.next.0.saturating_sub(self.page).max(self.since.0));
            match self.behind(start).await {
                Ok(commits) => {
                    self.ready.extend(commits.into_iter().rev());
                    self.next = start;
                    self.page = (self.page * 2).min(self.most);
                }
                // Part of the page is beyond retention: smaller pages, down to a single commit, find the
                // oldest one kept.
                Err(error) if error.is(ErrorKind::Gone) && self.page > 1 => {
                    self.most = self.page.div_ceil(2);
                    self.page = self.most;
                }
                Err(error) if error.is(ErrorKind::Gone) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(self.ready.pop_front())
    }

    /// Returns the commits from `start` to `next`, oldest first, each with its changes.
    async fn behind(&self, start: Seq) -> Result<Vec<CommitChanges>> {
        let then = self.fs.as_of(&self.next.into()).await?;
        let mut query = ChangesQuery::since(start).limit(MAX_PAGE);
        query.within.extend(Some(self.dir.clone()).filter(|dir| !dir.is_root()));
        let mut commits: Vec<CommitChanges> = Vec::new();
        loop {
            let page = then.changes(&query).await?;
            // A commit with many changes may be split between two pages.
            for mut part in page.commits {
                part.changes.truncate(self.listed);
                match commits.last_mut().filter(|last| last.commit.seq == part.commit.seq) {
                    Some(last) => {
                        let room = self.listed.saturating_sub(last.changes.len());
                        last.changes.extend(part.changes.into_iter().take(room));
                    }
                    None => commits.push(part),
                }
            }
            if page.until.seq >= self.next {
                return Ok(commits);
            }
            query.since = page.until;
        }
    }
}
