//! Commits and their changes, for verbs that read the log.

use std::sync::Arc;

use garth_agent::files::Commits;
use garth_engine::error::OptionalExt as _;
use garth_engine::model::{At, Change, ChangeKind, CommitChanges, HistoryPage, Kind, Seq};
use garth_engine::{FileSystem, Result, TreePath};
use serde_json::{Value, json};

use crate::escape::escaped;
use crate::out::{author_text, commit_json, message_text};

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
    let all = (Seq(0), fs.head().await?.seq);
    let below = Commits::new(Arc::clone(fs), all, path).older().await?;
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
