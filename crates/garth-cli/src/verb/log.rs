//! `garth log`: the versions of a path, or the commits of the account.

use clap::Args;
use garth::fs::resolve::Follow;
use garth::model::{At, Change, ChangeKind, CommitChanges, HistoryPage, Seq, Version};
use garth::{ErrorKind, FileSystem};
use serde_json::{Value, json};

use crate::app::{App, resolve_path};
use crate::args::Past;
use crate::escape::escaped;
use crate::fail::Result;
use crate::out::{author_text, commit_json, kind_word};

/// Versions or commits of one page.
const PAGE: usize = 500;
/// Most changes of one commit that people are shown.
const SHOWN: usize = 20;

/// Show the versions of a path, or without a path the commits, newest first
///
/// With --json one object a version (version, commit, kind, size; `deleted` where it ended or moved away), or
/// one a commit (seq, time, author, message, changes).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth log /notes/today.md")]
pub(crate) struct Log {
    /// Which path, there or not any more
    path: Option<String>,
    /// Show at most this many
    #[arg(short = 'n', long, value_name = "COUNT")]
    limit: Option<usize>,
    #[command(flatten)]
    past: Past,
}

impl Log {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fs = app.view(&self.past).await?;
        let limit = self.limit.unwrap_or(usize::MAX);
        match &self.path {
            Some(path) => {
                let path = resolve_path(&*fs, path, Follow::No).await?;
                versions(app, &*fs, &At::Path(path), limit).await
            }
            None => commits(app, &*fs, limit).await,
        }
    }
}

async fn versions(app: &mut App, fs: &dyn FileSystem, at: &At, limit: usize) -> Result {
    let mut left = limit;
    let mut before = None;
    while left > 0 {
        let mut page = fs.history(at, &HistoryPage { before, limit: PAGE }).await?;
        let full = page.len() == PAGE;
        // The next page begins before a whole commit: what this one may have cut is left to it.
        if let (true, Some(last)) = (full, page.last().map(|version| version.id.seq))
            && page.first().is_some_and(|first| first.id.seq != last)
        {
            page.retain(|version| version.id.seq != last);
        }
        for version in page.iter().take(left) {
            app.out.item(&version_json(version), version_text(version))?;
        }
        left = left.saturating_sub(page.len());
        before = page.last().map(|version| version.id.seq);
        if !full {
            break;
        }
    }
    Ok(())
}

fn version_json(version: &Version) -> Value {
    let entry = version.entry.as_deref();
    json!({
        "version": version.id.to_string(),
        "commit": commit_json(&version.commit),
        "kind": entry.map(|entry| kind_word(entry.kind)),
        "size": entry.map(|entry| entry.size),
        "etag": entry.map(|entry| entry.etag.to_string()),
        "deleted": entry.is_none(),
    })
}

fn version_text(version: &Version) -> String {
    let commit = &version.commit;
    let size = version.entry.as_ref().map_or_else(|| "deleted".to_owned(), |entry| entry.size.to_string());
    let (id, time, author) = (version.id.to_string(), commit.time.to_rfc3339(), author_text(&commit.author));
    format!("{id:<12}  {time}  {author}  {size:>9}  {}", escaped(&commit.message)).trim_end().to_owned()
}

async fn commits(app: &mut App, fs: &dyn FileSystem, limit: usize) -> Result {
    let mut newest = fs.head().await?.seq;
    let mut left = limit;
    let mut step = PAGE as u64;
    while left > 0 && newest > Seq(0) {
        let since = Seq(newest.0.saturating_sub(step));
        let wanted = usize::try_from(newest.0 - since.0).unwrap_or(PAGE);
        let page = match fs.changes(since, wanted).await {
            Ok(page) => page,
            // Part of the page is beyond retention: take less, down to a single commit.
            Err(error) if error.is(ErrorKind::Gone) && step > 1 => {
                step = step.div_ceil(2);
                continue;
            }
            Err(error) if error.is(ErrorKind::Gone) => break,
            Err(error) => return Err(error.into()),
        };
        for commit in page.commits.iter().rev().take(left) {
            app.out.item(&changes_json(commit), changes_text(commit))?;
        }
        left = left.saturating_sub(page.commits.len());
        newest = since;
    }
    Ok(())
}

fn changes_json(commit: &CommitChanges) -> Value {
    let mut json = commit_json(&commit.commit);
    json["changes"] = commit.changes.iter().map(change_json).collect();
    json
}

fn change_json(change: &Change) -> Value {
    let (kind, from, name) = parts(&change.kind);
    let mut json = json!({
        "kind": kind,
        "path": change.path.as_ref().map(|path| path.as_str()),
        "ino": change.ino,
    });
    if let Some(from) = from {
        json["from"] = from.into();
    }
    if let Some(name) = name {
        json["name"] = name.into();
    }
    json
}

/// A kind of change in one word, where it came from, and the snapshot it names.
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

fn changes_text(commit: &CommitChanges) -> String {
    let info = &commit.commit;
    let (time, author) = (info.time.to_rfc3339(), author_text(&info.author));
    let head = format!("{:<6}  {time}  {author}  {}", info.seq.0, escaped(&info.message));
    let mut text = head.trim_end().to_owned();
    for change in commit.changes.iter().take(SHOWN) {
        let (kind, from, name) = parts(&change.kind);
        let from = from.map(|from| format!("{from} -> ")).unwrap_or_default();
        let what = name.unwrap_or_else(|| change.path.as_ref().map_or("?", |path| path.as_str()));
        text.push_str(&format!("\n        {kind:<10}  {}", escaped(&format!("{from}{what}"))));
    }
    if let Some(more) = commit.changes.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        text.push_str(&format!("\n        and {more} more changes (--json shows them)"));
    }
    text
}
