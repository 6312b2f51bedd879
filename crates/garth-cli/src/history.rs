//! Commits and their changes, newest first, for verbs that read the log.

use std::collections::VecDeque;
use std::sync::Arc;

use garth_engine::error::OptionalExt as _;
use garth_engine::model::{
    At, Change, ChangeKind, ChangesQuery, CommitChanges, HistoryPage, Kind, MAX_PAGE, Seq,
};
use garth_engine::{ErrorKind, FileSystem, Result, TreePath};
use serde_json::{Value, json};

use crate::escape::escaped;
use crate::out::{author_text, commit_json, message_text};

/// Commits of the first page. Each further page has twice as many, so that a short answer costs little.
const FIRST_PAGE: u64 = 16;
/// Limit on the commits of a page.
const PAGE: u64 = 500;

/// Iterator over the commits of an account, newest first, as far as retention permits.
pub(crate) struct Commits {
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
}

impl Commits {
    /// Starts at the last commit of `fs`. Returns commits after `since` that changed something at or below
    /// `dir`, with only these changes.
    pub(crate) async fn new(fs: Arc<dyn FileSystem>, since: Seq, dir: &TreePath) -> Result<Self> {
        let next = fs.head().await?.seq;
        let ready = VecDeque::new();
        Ok(Self { fs, next, since, page: FIRST_PAGE, most: PAGE, ready, dir: dir.clone() })
    }

    /// Returns the next older commit.
    pub(crate) async fn next(&mut self) -> Result<Option<CommitChanges>> {
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
            for part in page.commits {
                match commits.last_mut().filter(|last| last.commit.seq == part.commit.seq) {
                    Some(last) => last.changes.extend(part.changes),
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

/// Returns the last commit that changed `path`, or anything below it if it is a directory; `None` if nothing
/// ever had the path.
pub(crate) async fn last_change(fs: &Arc<dyn FileSystem>, path: &TreePath) -> Result<Option<Seq>> {
    // After a removal, the newest version is the removal, and only the one before it has the kind.
    let page = HistoryPage::default().limit(2);
    let versions = match path.is_root() {
        true => Vec::new(),
        false => match fs.history(&At::from(path), &page).await.optional()? {
            Some(versions) => versions.items,
            None => return Ok(None),
        },
    };
    let kind = versions.iter().find_map(|version| version.entry.as_ref()).map(|entry| entry.kind);
    let own = versions.first().map(|version| version.id.seq);
    if !path.is_root() && kind != Some(Kind::Directory) {
        return Ok(own);
    }
    let below = Commits::new(Arc::clone(fs), Seq(0), path).await?.next().await?;
    // The directory itself may have changed last.
    Ok(below.map(|commit| commit.commit.seq).max(own))
}

/// Returns a commit with its changes as JSON.
pub(crate) fn changes_json(commit: &CommitChanges) -> Value {
    let mut json = commit_json(&commit.commit);
    json["changes"] = commit.changes.iter().map(change_json).collect();
    json
}

/// Returns a change as JSON.
pub(crate) fn change_json(change: &Change) -> Value {
    let (kind, from, name) = parts(&change.kind);
    let mut json = json!({
        "kind": kind,
        "path": change.path().map(|path| path.as_str()),
        "ino": change.ino,
    });
    if change.paths.len() > 1 {
        json["paths"] = change.paths.iter().map(|path| path.as_str()).collect();
    }
    if let Some(from) = from {
        json["from"] = from.into();
    }
    if let Some(name) = name {
        json["name"] = name.into();
    }
    json
}

/// Returns a change for people: its kind, and its path or name.
pub(crate) fn change_text(change: &Change) -> String {
    let (kind, from, name) = parts(&change.kind);
    let from = from.map(|from| format!("{from} -> ")).unwrap_or_default();
    let what = name.unwrap_or_else(|| change.path().map_or("?", |path| path.as_str()));
    format!("{kind:<10}  {}", escaped(&format!("{from}{what}")))
}

/// Returns a kind of change in one word, the source of a move, and the name of a snapshot.
fn parts(kind: &ChangeKind) -> (&'static str, Option<&str>, Option<&str>) {
    match kind {
        ChangeKind::Created => ("created", None, None),
        ChangeKind::Modified => ("modified", None, None),
        ChangeKind::Attributes => ("attributes", None, None),
        ChangeKind::Removed => ("removed", None, None),
        ChangeKind::Expired => ("expired", None, None),
        ChangeKind::Linked => ("linked", None, None),
        ChangeKind::Renamed { from } => ("renamed", Some(from.as_str()), None),
        ChangeKind::Snapshot { name } => ("snapshot", None, Some(name)),
        ChangeKind::SnapshotDropped { name } => ("snapshot_dropped", None, Some(name)),
    }
}

/// Returns a commit as lines for people, with at most `most` of its changes; as one line if `most` is 0.
pub(crate) fn changes_text(commit: &CommitChanges, most: usize) -> String {
    let info = &commit.commit;
    let (time, author) = (info.time.to_rfc3339(), author_text(&info.author));
    let head = format!("{:<6}  {time}  {author}  {}", info.seq.0, message_text(info));
    let mut text = head.trim_end().to_owned();
    for change in commit.changes.iter().take(most) {
        text.push_str(&format!("\n        {}", change_text(change)));
    }
    // With 0, changes are not shown at all.
    if let Some(more) = commit.changes.len().checked_sub(most).filter(|more| most > 0 && *more > 0) {
        let seq = info.seq;
        text.push_str(&format!("\n        and {more} more (`garth show {seq}` lists them)"));
    }
    text
}
