//! Commits that changed something in or below a directory.

use std::sync::Arc;

use garth_agent::files::Commits;
use garth_engine::model::{Change, ChangeKind, CommitChanges, Ino, Seq, VersionId};
use garth_engine::{FileSystem, TreePath};

use super::listed::{Found, ListedVersion};
use crate::errors::Refusal;
use crate::mcp::tools::past::moved_to;
use crate::mcp::tools::paths::shown;

/// Limit on the commits of the tree that one call looks at.
const MAX_COMMITS: u64 = 10_000;
/// Limit on the changes of one commit in the answer.
const MAX_CHANGES: usize = 10;

/// Limit on the bytes of the changes of one commit, after which no further one is listed.
const MAX_BYTES: usize = 1 << 10;

/// Returns the commits below a directory before a version, newest first. The version of each is that of a
/// node that it changed, so that it names the state of the directory after the commit.
pub(super) async fn commits_below(
    fs: &Arc<dyn FileSystem>,
    dir: &TreePath,
    before: Option<VersionId>,
    limit: usize,
) -> Result<Found, Refusal> {
    let head = fs.head().await?.seq.0;
    let until = before.map_or(head, |before| before.seq.0.saturating_sub(1).min(head));
    let since = until.saturating_sub(MAX_COMMITS);
    let mut commits = Commits::new(Arc::clone(fs), (Seq(since), Seq(until)), dir).listing(MAX_CHANGES + 1);
    let (mut versions, mut more) = (Vec::new(), None);
    while let Some(commit) = commits.older().await? {
        let Some(version) = version_of(&commit) else { continue };
        if versions.len() == limit {
            more = versions.last().map(|(_, last): &(_, ListedVersion)| last.version);
            break;
        }
        let mut listed = ListedVersion::of(version, &commit.commit);
        listed.changes = changes(&**fs, &commit).await;
        versions.push((commit.commit.time, listed));
    }
    if more.is_none() && since > 0 && commits.is_complete() {
        // Older commits of the tree were not looked at.
        more = Some(VersionId { seq: Seq(since + 1), ino: Ino::ROOT });
    }
    Ok(Found { versions, before: more })
}

/// Returns the version of the first node that a commit changed.
fn version_of(commit: &CommitChanges) -> Option<VersionId> {
    let first = commit.changes.first()?;
    Some(VersionId { seq: commit.commit.seq, ino: first.ino })
}

/// Returns the changes of a commit, each as one line.
async fn changes(fs: &dyn FileSystem, commit: &CommitChanges) -> Vec<String> {
    let (mut lines, mut bytes) = (Vec::new(), 0);
    for change in commit.changes.iter().take(MAX_CHANGES) {
        // At least one, so that the answer has something of each commit.
        if bytes > MAX_BYTES {
            break;
        }
        let version = VersionId { seq: commit.commit.seq, ino: change.ino };
        let to = match change.kind {
            ChangeKind::Removed => moved_to(fs, version).await,
            _ => None,
        };
        let line = line(change, to.as_ref());
        bytes += line.len();
        lines.push(line);
    }
    if commit.changes.len() > lines.len() {
        lines.push("and more".to_owned());
    }
    lines
}

/// Returns a change as a line. `to` is the path to which it moved a node out of the directory.
fn line(change: &Change, to: Option<&TreePath>) -> String {
    let path = change.path().map_or(".", TreePath::as_str);
    let path = shown(path);
    match (&change.kind, to) {
        (ChangeKind::Created | ChangeKind::Linked, _) => format!("created {path}"),
        (ChangeKind::Modified, _) => format!("changed {path}"),
        (ChangeKind::Attributes, _) => format!("changed attributes of {path}"),
        (ChangeKind::Removed, Some(to)) => format!("moved {path} to {}", shown(to.as_str())),
        (ChangeKind::Removed, None) => format!("removed {path}"),
        (ChangeKind::Expired, _) => format!("expired {path}"),
        (ChangeKind::Renamed { from }, _) => format!("moved {} to {path}", shown(from.as_str())),
        (ChangeKind::Snapshot { name }, _) => format!("snapshot {}", shown(name)),
        (ChangeKind::SnapshotDropped { name }, _) => format!("dropped snapshot {}", shown(name)),
    }
}
