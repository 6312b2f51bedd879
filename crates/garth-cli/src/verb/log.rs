//! `garth log`: the versions of a file, or the commits below a directory.

use std::sync::Arc;

use clap::Args;
use garth_agent::files::{Commits, with_path};
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, CommitInfo, HistoryPage, Kind, Seq, Version};
use garth_engine::{ErrorKind, FileSystem, FileSystemExt as _, TreePath};
use serde_json::{Value, json};

use crate::app::{App, resolve_path};
use crate::args::{Past, TREE_PATH};
use crate::compare::Form;
use crate::fail::{Failure, Result};
use crate::history::{changes_json, changes_text};
use crate::out::{author_text, commit_json, kind_word, message_text};
use crate::patch::show_patches_of;
use crate::size::parse_count;

/// Versions of one page.
const PAGE: usize = 500;
/// Limit on the changes of one commit that are printed for people.
const SHOWN: usize = 20;

/// List the versions of a file, or the commits below a directory, newest first
///
/// Shows only those changes of a commit that are below the directory. `log -5` means `log -n 5`.
///
/// With --json, prints one object per version (version, commit, kind, size; `deleted` after a removal or
/// move) or per commit (seq, time, author, message, changes); with --patch, --stat or --name-status each is
/// followed by one object per path that differs, as for `garth diff`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth log /notes/today.md --since yesterday\n  \
        garth log -p -3 /notes\n  \
        garth log --author scout --grep 'clean up'")]
pub(crate) struct Log {
    /// File or directory, also one that was removed
    #[arg(value_hint = TREE_PATH, default_value = "/")]
    path: String,
    /// Maximum number of versions or commits
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = parse_count::<usize>)]
    limit: Option<usize>,
    /// Show only versions or commits after this time (as for --at)
    #[arg(long, visible_alias = "after", value_name = "SEQUENCE|TIME|NAME")]
    since: Option<String>,
    /// Show only commits whose author contains this text: agent, key, session, user or class
    #[arg(long, value_name = "TEXT")]
    author: Option<String>,
    /// Show only commits whose message contains this text
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,
    /// Show each commit without its changes
    #[arg(long, conflicts_with = "patch")]
    oneline: bool,
    /// Show the patch of each version or commit
    #[arg(short, long)]
    patch: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    past: Past,
}

impl Log {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let (fs, account) = app.logged(&self.path, &self.past).await?;
        if self.past.at.is_none() {
            app.warn_of_clock(&account, &fs.head().await?);
        }
        let since = match &self.since {
            Some(text) => since(app, &*fs, text).await?,
            None => Seq(0),
        };
        let path = resolve_path(&*fs, &self.path, Follow::No).await?;
        // The root of an account has commits, and no versions.
        let is_root = path.is_root() || (app.global.operator && path.segments().count() == 2);
        if is_root || was_directory(&*fs, &path).await.map_err(with_path(&self.path))? {
            return self.commits(app, fs, &path, since).await;
        }
        self.versions(app, &*fs, &At::Path(path), since).await
    }

    /// Returns true for a commit that --author and --grep select.
    fn selects(&self, commit: &CommitInfo) -> bool {
        let has = |text: &str, wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| text.to_lowercase().contains(&wanted.to_lowercase()))
        };
        has(&author_text(&commit.author), &self.author) && has(&commit.message, &self.grep)
    }

    fn shows_patches(&self) -> bool {
        self.patch || self.form.stat || self.form.name_status
    }

    async fn commits(&self, app: &mut App, fs: Arc<dyn FileSystem>, dir: &TreePath, since: Seq) -> Result {
        let shown = if self.oneline || self.shows_patches() { 0 } else { SHOWN };
        let until = fs.head().await?.seq;
        let mut commits = Commits::new(Arc::clone(&fs), (since, until), dir);
        let mut left = self.limit.unwrap_or(usize::MAX);
        while left > 0 {
            let Some(commit) = commits.older().await? else { break };
            if !self.selects(&commit.commit) {
                continue;
            }
            app.out.item(&changes_json(&commit), changes_text(&commit, shown))?;
            if self.shows_patches() {
                show_patches_of(app, &self.form, &commit, &*fs).await?;
            }
            left -= 1;
        }
        Ok(())
    }

    async fn versions(&self, app: &mut App, fs: &dyn FileSystem, at: &At, since: Seq) -> Result {
        let mut left = self.limit.unwrap_or(usize::MAX);
        let is_filtered = self.author.is_some() || self.grep.is_some();
        let mut page = HistoryPage::default();
        while left > 0 {
            // With a filter, more versions may have to be read than are shown.
            page.limit = if is_filtered { PAGE } else { left.min(PAGE) };
            let versions = fs.history(at, &page).await?;
            for version in &versions.items {
                if version.id.seq <= since || left == 0 {
                    return Ok(());
                }
                if !self.selects(&version.commit) {
                    continue;
                }
                app.out.item(&version_json(version), version_text(version))?;
                if self.shows_patches() {
                    // From the commit, because the file may have had another path then.
                    match fs.changes_of(version.id.seq).await {
                        Ok(mut commit) => {
                            commit.changes.retain(|change| change.ino == version.id.ino);
                            show_patches_of(app, &self.form, &commit, fs).await?;
                        }
                        // The oldest version: the state before it is no longer stored.
                        Err(error) if error.is(ErrorKind::Gone) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                left -= 1;
            }
            page.before = versions.items.last().map(|version| version.id);
            if !versions.more {
                break;
            }
        }
        Ok(())
    }
}

/// Returns the last commit that is not after the given time; 0 if that is beyond retention, because all
/// commits are then after it.
async fn since(app: &App, fs: &dyn FileSystem, text: &str) -> Result<Seq> {
    match app.as_of(fs, text).await {
        Ok(past) => Ok(past.head().await?.seq),
        Err(Failure::Tree(error)) if error.is(ErrorKind::Gone) => Ok(Seq(0)),
        Err(failure) => Err(failure),
    }
}

/// Returns true if a path is a directory, or was one when it last existed.
async fn was_directory(fs: &dyn FileSystem, path: &TreePath) -> garth_engine::Result<bool> {
    // The newest version of a deleted path is its deletion.
    let page = HistoryPage::default().limit(2);
    let versions = fs.history(&At::from(path), &page).await?;
    let last = versions.items.iter().find_map(|version| version.entry.as_ref());
    Ok(last.is_some_and(|entry| entry.kind == Kind::Directory))
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
