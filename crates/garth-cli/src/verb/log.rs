//! `garth log`: the versions of a file, or the commits below a directory.

use std::sync::Arc;

use clap::Args;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, HistoryPage, Kind, Seq, Version};
use garth_engine::{ErrorKind, FileSystem, TreePath};
use serde_json::{Value, json};

use crate::app::{App, resolve_path, with_path};
use crate::args::{Past, TREE_PATH};
use crate::fail::{Failure, Result};
use crate::history::{Commits, changes_json, changes_text};
use crate::out::{author_text, commit_json, kind_word, message_text};
use crate::size::parse_count;

/// Versions of one page.
const PAGE: usize = 500;
/// Most changes of one commit that people are shown.
const SHOWN: usize = 20;

/// Show the versions of a file, or the commits below a directory, newest first
///
/// Of a commit only the changes below the directory are shown. `log -5` means `log -n 5`. With --json one
/// object per version (version, commit, kind, size; `deleted` where it was removed or moved away) or per
/// commit (seq, time, author, message, changes).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth log /notes/today.md --since yesterday")]
pub(crate) struct Log {
    /// File or directory, also one that was removed
    #[arg(value_hint = TREE_PATH, default_value = "/")]
    path: String,
    /// Show at most this many
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = parse_count::<usize>)]
    limit: Option<usize>,
    /// Show only what came after this moment (as for --at)
    #[arg(long, visible_alias = "after", value_name = "SEQUENCE|TIME|NAME")]
    since: Option<String>,
    /// Show each commit without its changes
    #[arg(long)]
    oneline: bool,
    #[command(flatten)]
    past: Past,
}

impl Log {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fs = app.view(&self.past).await?;
        if self.past.at.is_none() {
            app.warn_of_clock(&app.global.account, &fs.head().await?);
        }
        let limit = self.limit.unwrap_or(usize::MAX);
        let since = match &self.since {
            Some(text) => since(app, &*fs, text).await?,
            None => Seq(0),
        };
        let path = resolve_path(&*fs, &self.path, Follow::No).await?;
        if path.is_root() || was_directory(&*fs, &path).await.map_err(with_path(&self.path))? {
            let shown = if self.oneline { 0 } else { SHOWN };
            return commits(app, fs, &path, since, limit, shown).await;
        }
        versions(app, &*fs, &At::Path(path), since, limit).await
    }
}

/// The last commit that is not after the moment; 0 if that is beyond retention, where everything comes after
/// it.
async fn since(app: &App, fs: &dyn FileSystem, text: &str) -> Result<Seq> {
    match app.as_of(fs, text).await {
        Ok(past) => Ok(past.head().await?.seq),
        Err(Failure::Tree(error)) if error.is(ErrorKind::Gone) => Ok(Seq(0)),
        Err(failure) => Err(failure),
    }
}

/// Whether a path names a directory, or if nothing is there did so last.
async fn was_directory(fs: &dyn FileSystem, path: &TreePath) -> garth_engine::Result<bool> {
    // A path that nothing is at any more has its end as the newest version.
    let page = HistoryPage::default().limit(2);
    let versions = fs.history(&At::from(path), &page).await?;
    let last = versions.items.iter().find_map(|version| version.entry.as_ref());
    Ok(last.is_some_and(|entry| entry.kind == Kind::Directory))
}

async fn commits(
    app: &mut App,
    fs: Arc<dyn FileSystem>,
    dir: &TreePath,
    since: Seq,
    limit: usize,
    shown: usize,
) -> Result {
    let mut commits = Commits::new(fs, since, dir).await?;
    for _ in 0..limit {
        let Some(commit) = commits.next().await? else { break };
        app.out.item(&changes_json(&commit), changes_text(&commit, shown))?;
    }
    Ok(())
}

async fn versions(app: &mut App, fs: &dyn FileSystem, at: &At, since: Seq, limit: usize) -> Result {
    let mut left = limit;
    let mut page = HistoryPage::default();
    while left > 0 {
        page.limit = left.min(PAGE);
        let versions = fs.history(at, &page).await?;
        for version in &versions.items {
            if version.id.seq <= since {
                return Ok(());
            }
            app.out.item(&version_json(version), version_text(version))?;
        }
        left -= versions.items.len();
        page.before = versions.items.last().map(|version| version.id);
        if !versions.more {
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
    let (seq, id) = (commit.seq.0, version.id.to_string());
    let (time, author) = (commit.time.to_rfc3339(), author_text(&commit.author));
    let text = format!("{seq:<6}  {id:<12}  {time}  {author}  {size:>9}  {}", message_text(commit));
    text.trim_end().to_owned()
}
