//! Follows the log of an account: repairs the memories whose files changed, once these have not changed for a
//! while, and writes events about those whose directory was removed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::super::Memories;
use super::super::file_names::{META, OUTBOX};
use super::super::list::Prefix;
use super::super::state::read_all;
use super::super::uri::Uri;
use super::judge::EDITING;
use super::report::{Finding, FindingReport, Report};
use super::{READ, Repair};
use crate::boxed;
use garth_engine::error::{ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{Change, ChangeKind, ChangesQuery, LogPosition, Moment, Op, Seq, Timestamp};
use garth_engine::path::TreePath;

/// Limit on the memories that wait for repair; the log is only read further when there are fewer.
const MAX_WAITING: usize = if cfg!(test) { 100 } else { 10_000 };

/// File in the account's outbox with the commit up to which the log was followed.
const FOLLOWED: &str = ".followed";

/// Interval at which the position is recorded. Later changes are read again after a restart.
const NOTED: Duration = Duration::from_secs(60);

/// Segments of the paths of memories: `users/U/memories/profile` and `users/U/memories/events/E`.
const DEPTHS: [usize; 2] = [4, 5];

/// Time of the next work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Immediately.
    Now,
    /// At this time, or after the next commit.
    At(Timestamp),
    /// After the next commit.
    Commit,
}

/// Position up to which an account was followed, and the paths that wait to be inspected.
#[derive(Debug)]
pub struct Follow {
    since: LogPosition,
    /// Memories by their directories, with the time of their repair.
    waiting: BTreeMap<TreePath, Timestamp>,
    /// Directories whose memories came with them, and behind which.
    came: VecDeque<(TreePath, Option<TreePath>)>,
    /// Removed memories, in the order of their commits.
    went: VecDeque<RemovedEntry>,
    /// True if memories changed after the position was recorded.
    moved_on: bool,
    /// Time at which the position was recorded.
    noted: Timestamp,
}

/// Directory, or meta in it, that a commit removed.
#[derive(Clone, Debug)]
struct RemovedEntry {
    seq: Seq,
    dir: TreePath,
    after: Option<TreePath>,
    /// Time of its check.
    due: Timestamp,
}

impl Follow {
    /// Returns a follower that starts after a commit.
    pub fn since(position: impl Into<LogPosition>) -> Self {
        let (waiting, came, went) = (BTreeMap::new(), VecDeque::new(), VecDeque::new());
        Self { since: position.into(), waiting, came, went, moved_on: false, noted: Timestamp(0) }
    }

    /// Returns a follower that continues at the noted position. Without one, all memories of the account are
    /// checked.
    ///
    /// # Errors
    /// From the filesystem.
    #[boxed]
    pub async fn resume(memories: &Memories<'_>) -> Result<Self> {
        let head = memories.fs.head().await?.seq;
        let [noted] = read_all(memories.fs, &[followed()]).await?;
        let noted = noted.and_then(|file| file.text()?.trim().parse().ok()).map(Seq);
        match noted.filter(|noted| *noted <= head) {
            Some(noted) => Ok(Self::since(noted)),
            None => {
                let mut follow = Self::since(head);
                follow.came.push_back((TreePath::root(), None));
                Ok(follow)
            }
        }
    }

    /// Notes the position in the account, if that is due. Returns the time of the next note.
    async fn note_place(&mut self, repair: &Repair<'_>) -> Result<Next> {
        if !self.moved_on || repair.dry_run {
            return Ok(Next::Commit);
        }
        let now = repair.memories.env.now();
        let due = Timestamp(self.noted.0.saturating_add(NOTED.as_nanos() as i64));
        if now < due {
            return Ok(Next::At(due));
        }
        let op = Op::write(followed(), format!("{}\n", self.since.seq)).with_parents();
        let batch = repair.memories.batch(vec![op], Vec::new()).message("repair: followed");
        self.noted = now;
        match repair.memories.fs.commit(batch.visible()).await {
            Ok(_) => self.moved_on = false,
            // Without the note, the next start only examines more commits again.
            Err(error) => tracing::debug!(%error, "how far memories were followed is not noted"),
        }
        Ok(Next::Commit)
    }

    /// Returns the position up to which all changes were checked; `None` while memories wait.
    pub fn settled(&self) -> Option<LogPosition> {
        let waits = !self.waiting.is_empty() || !self.came.is_empty() || !self.went.is_empty();
        (!waits).then_some(self.since)
    }

    /// Does a bounded part of the work, and returns the time of the next step. If the log begins after the
    /// position, all memories of the account are checked.
    ///
    /// # Errors
    /// From the filesystem; `Unsupported` if the tree has no log.
    #[boxed]
    pub async fn step(
        &mut self,
        repair: &Repair<'_>,
        report: &mut Report,
        told: &mut (impl FnMut(&FindingReport<'_>) + Send),
    ) -> Result<Next> {
        let is_behind = self.read(repair).await?;
        self.expand(repair).await?;
        let now = repair.memories.env.now();
        self.look_back(repair, now, report, told).await?;
        let due: Vec<TreePath> = self
            .waiting
            .iter()
            .filter(|(_, due)| **due <= now)
            .map(|(dir, _)| dir.clone())
            .take(READ)
            .collect();
        for dir in &due {
            self.waiting.remove(dir);
        }
        let memories: Vec<Uri> =
            due.iter().filter_map(|dir| Uri::of_dir(&repair.memories.account, dir)).collect();
        let waiting = &mut self.waiting;
        repair
            .look(&memories, report, &mut |one: &FindingReport<'_>| {
                told(one);
                let dir = one.memory.parse::<Uri>().ok().map(|uri| uri.dir());
                if let (Some(until), Some(dir)) = (one.until, dir) {
                    waiting.insert(dir, until);
                }
            })
            .await?;
        if is_behind || !self.came.is_empty() {
            return Ok(Next::Now);
        }
        let dues = self.waiting.values().chain(self.went.iter().map(|went| &went.due));
        Ok(match dues.min() {
            Some(due) if *due <= repair.memories.env.now() => Next::Now,
            Some(due) => Next::At(*due),
            None => return self.note_place(repair).await,
        })
    }

    /// Reads a page of the log. Returns true if there is more.
    async fn read(&mut self, repair: &Repair<'_>) -> Result<bool> {
        if self.waiting.len() + self.went.len() + self.came.len() >= MAX_WAITING {
            return Ok(true);
        }
        let fs = repair.memories.fs;
        let page = match fs.changes(&ChangesQuery::since(self.since)).await {
            Ok(page) => page,
            Err(error) if error.is(ErrorKind::Gone) => {
                self.since = fs.head().await?.seq.into();
                self.came.push_back((TreePath::root(), None));
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        for commit in &page.commits {
            let due = Timestamp(commit.commit.time.0.saturating_add(EDITING.as_nanos() as i64));
            let message = &commit.commit.message;
            let by_us = message.starts_with("repair ctx://") || message.starts_with("move ctx://");
            for change in &commit.changes {
                self.note(change, commit.commit.seq, due, by_us);
            }
        }
        self.since = page.until;
        Ok(page.until.seq < page.head)
    }

    /// Adds the memories that a change affects.
    fn note(&mut self, change: &Change, seq: Seq, due: Timestamp, by_us: bool) {
        let comes =
            matches!(change.kind, ChangeKind::Created | ChangeKind::Renamed { .. } | ChangeKind::Linked);
        for path in &change.paths {
            match place(path) {
                Place::Memory(dir) => {
                    self.moved_on = true;
                    self.waiting.insert(dir, due);
                }
                Place::Above if comes => self.came.push_back((path.clone(), None)),
                Place::Above | Place::Elsewhere => {}
            }
            let is_gone = matches!(change.kind, ChangeKind::Removed | ChangeKind::Expired);
            if is_gone && !by_us {
                self.note_gone(path, seq, due);
            }
        }
        if let ChangeKind::Renamed { from } = &change.kind
            && let Some(to) = change.path()
        {
            if let Place::Memory(dir) = place(from) {
                self.waiting.insert(dir, due);
            }
            // A directory that moved to another memory place of the same owner needs no note: its meta still
            // names the old URI. Nor does a deletion by garth, which writes its own event.
            let is_delete = to.as_str().starts_with("/.outbox/") && to.as_str().ends_with(".d");
            let says = place(to) != Place::Elsewhere && is_same_owner(from, to);
            if !is_delete && !says && !by_us {
                self.note_gone(from, seq, due);
            }
        }
    }

    fn note_gone(&mut self, path: &TreePath, seq: Seq, due: Timestamp) {
        let dir = match place(path) {
            Place::Above => path.clone(),
            Place::Memory(dir) if dir == *path || path.name() == Some(META) => dir,
            Place::Memory(_) | Place::Elsewhere => return,
        };
        self.moved_on = true;
        self.went.push_back(RemovedEntry { seq, dir, after: None, due });
    }

    /// Adds the memories in directories that were created or moved.
    async fn expand(&mut self, repair: &Repair<'_>) -> Result<()> {
        let Some((dir, after)) = self.came.pop_front() else { return Ok(()) };
        let prefix = if dir.is_root() { Prefix::Account } else { Prefix::Below(dir.clone()) };
        let (memories, next) = repair.memories.candidates(&prefix, after).await?;
        let now = repair.memories.env.now();
        // An account without memories is not written to.
        self.moved_on |= !memories.is_empty();
        self.waiting.extend(memories.into_iter().map(|uri| (uri.dir(), now)));
        if next.is_some() {
            self.came.push_front((dir, next));
        }
        Ok(())
    }

    /// Checks the memories that were in a removed directory, as they were before.
    async fn look_back(
        &mut self,
        repair: &Repair<'_>,
        now: Timestamp,
        report: &mut Report,
        told: &mut (impl FnMut(&FindingReport<'_>) + Send),
    ) -> Result<()> {
        let Some(went) = self.went.pop_front_if(|went| went.due <= now) else { return Ok(()) };
        let before = Moment::Seq(Seq(went.seq.0.saturating_sub(1)));
        let past: Arc<dyn FileSystem> = match repair.memories.fs.as_of(&before).await {
            Ok(past) => past,
            // The state before is no longer stored, so the memories in it are unknown.
            Err(error) if matches!(error.kind(), ErrorKind::Gone | ErrorKind::NotFound) => return Ok(()),
            Err(error) => return Err(error),
        };
        let then = Memories { fs: &*past, tops: None, ..repair.memories.clone() };
        let (memories, next) = then.candidates(&Prefix::Below(went.dir.clone()), went.after.clone()).await?;
        for uri in memories {
            let gone = repair.memories.went(&past, &uri).await?;
            for uri in &gone.uris {
                let name = uri.to_string();
                if !repair.dry_run
                    && let Err(error) = repair.memories.tell_gone(uri, gone.not_before).await
                {
                    report.failed(&name, &error);
                    continue;
                }
                *report.found.entry(Finding::Deleted.as_str()).or_default() += 1;
                told(&FindingReport { memory: &name, finding: Finding::Deleted, until: None });
            }
        }
        if next.is_some() {
            self.went.push_front(RemovedEntry { after: next, ..went });
        }
        Ok(())
    }
}

fn followed() -> TreePath {
    TreePath::from_row(TreePath::from_row("", OUTBOX).key(), FOLLOWED)
}

/// Returns true if both paths are below one owner's directory.
fn is_same_owner(one: &TreePath, other: &TreePath) -> bool {
    let owner = |path: &TreePath| path.segments().take(2).map(str::to_owned).collect::<Vec<_>>();
    owner(one).len() == 2 && owner(one) == owner(other)
}

/// Role of a path for memories.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// Directory of a memory, or a path in it; except for events, which the outbox handles.
    Memory(TreePath),
    /// Directory that may have memories below it.
    Above,
    Elsewhere,
}

fn place(path: &TreePath) -> Place {
    let segments: Vec<&str> = path.segments().collect();
    for depth in DEPTHS.into_iter().filter(|depth| *depth <= segments.len()) {
        let dir =
            segments[..depth].iter().fold(TreePath::root(), |dir, name| TreePath::from_row(dir.key(), name));
        if Uri::of_dir("", &dir).is_some() {
            let is_event = segments.get(depth) == Some(&OUTBOX);
            return if is_event { Place::Elsewhere } else { Place::Memory(dir) };
        }
    }
    match segments.as_slice() {
        ["users" | "agents"] | ["users" | "agents", _] | ["users" | "agents", _, "memories"] => Place::Above,
        ["users" | "agents", _, "memories", _] | ["agents", _, "skills"] => Place::Above,
        _ => Place::Elsewhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_of_memories_above_them_or_elsewhere() {
        let place = |path: &str| super::place(&TreePath::parse(path).unwrap());
        let memory = |path: &str| Place::Memory(TreePath::parse(path).unwrap());
        for (path, due) in [
            ("/users/a/memories/profile", memory("/users/a/memories/profile")),
            ("/users/a/memories/profile/content.md", memory("/users/a/memories/profile")),
            ("/users/a/memories/events/e/x/y", memory("/users/a/memories/events/e")),
            ("/agents/a/skills/s/SKILL.md", memory("/agents/a/skills/s")),
            ("/users/a/memories/events/e/.outbox/1.json", Place::Elsewhere),
            ("/users/a/memories/events", Place::Above),
            ("/users/a", Place::Above),
            ("/agents/a/skills", Place::Above),
            ("/users/a/files", Place::Elsewhere),
            ("/chats/c", Place::Elsewhere),
            ("/", Place::Elsewhere),
        ] {
            assert_eq!(place(path), due, "{path}");
        }
    }
}
