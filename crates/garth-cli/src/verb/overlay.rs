//! `garth overlay`: changes in a separate tree that can be applied later.

use std::sync::Arc;

use clap::{Args, Subcommand};
use garth_engine::ErrorKind;
use garth_engine::Name;
use garth_engine::fs::AccountStore;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{Batch, Commit, NamesPage, Page};
use garth_engine::view::overlay::{DifferenceKind, LowerLayer, Side, StoredInfo, StoredOverlay};
use serde_json::json;

use crate::app::{App, resolve_path};
use crate::args::{CommitArgs, TREE_PATH};
use crate::escape::escaped;
use crate::fail::{Failure, Result, suggest};
use crate::out::{counted, kind_word};
use crate::progress;

/// Create overlays, and list, apply or remove their changes
///
/// An overlay is a copy-on-write view of a directory: changes in it leave the account unchanged until the
/// overlay is applied. Other commands work in it with --overlay ID. It has no history. With --json, prints
/// one object per overlay: id, path, as_of; of create and rm also seq and time.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  garth overlay create draft --of /notes\n  garth write /today.md --overlay draft\n  garth overlay apply draft"
)]
pub(crate) struct Overlay {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Create an overlay over a directory
    #[command(after_help = "Example:\n  garth overlay create draft --of /notes")]
    Create {
        /// Id of the overlay: 1 to 128 bytes, without `/` and control characters
        id: String,
        /// Directory that the overlay shows
        #[arg(long, value_name = "PATH", value_hint = TREE_PATH, default_value = "/")]
        of: String,
        /// Show the directory as of this time: a sequence, snapshot, version, time or age, as for --at of
        /// other commands [default: follow the directory]
        #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
        at: Option<String>,
        #[command(flatten)]
        commit: CommitArgs,
    },
    /// List overlays
    #[command(alias = "ls", after_help = "Example:\n  garth overlay list")]
    List,
    /// List the changed paths of an overlay
    ///
    /// A for added, M for modified, D for removed; for a removed directory only its path. With --json,
    /// prints one object per path: path (in the overlay), change (added, modified, removed), kind.
    #[command(after_help = "Example:\n  garth overlay diff draft")]
    Diff {
        /// Id of the overlay
        id: String,
    },
    /// Apply the changes of an overlay, in one commit that also empties it
    ///
    /// A path that was also changed in the directory since is a conflict: then nothing is applied, unless
    /// --ours or --theirs takes a side. With --json, prints one object: id, seq, time (both null without a
    /// commit), changed (number of paths), conflicts (paths in the overlay).
    #[command(after_help = "Example:\n  garth overlay apply draft -m 'reviewed'")]
    Apply {
        /// Id of the overlay
        id: String,
        /// Resolve conflicts with the overlay's version
        #[arg(long, conflicts_with = "theirs")]
        ours: bool,
        /// Resolve conflicts with the directory's version
        #[arg(long)]
        theirs: bool,
        #[command(flatten)]
        commit: CommitArgs,
    },
    /// Remove an overlay and its changes
    #[command(alias = "delete", after_help = "Example:\n  garth overlay rm draft")]
    Rm {
        /// Id of the overlay
        id: String,
        #[command(flatten)]
        commit: CommitArgs,
    },
}

impl Overlay {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.only_account("overlay")?;
        if app.global.overlay.is_some() {
            return Err(Failure::Usage("overlays are the account's: remove --overlay".to_owned()));
        }
        // Other verbs check this when they open a tree, which these do not.
        garth_engine::path::check_id("agent", &app.global.agent)?;
        match self.action {
            Action::Create { id, of, at, commit } => create(app, &id, &of, at.as_deref(), commit).await,
            Action::List => list(app).await,
            Action::Diff { id } => diff(app, &id).await,
            Action::Apply { id, ours, theirs, commit } => {
                let side = match (ours, theirs) {
                    (true, _) => Side::Ours,
                    (_, true) => Side::Theirs,
                    _ => Side::Neither,
                };
                apply(app, &id, side, commit).await
            }
            Action::Rm { id, commit } => {
                let batch = batch(app, commit, || format!("discard overlay {id}"))?.by_garth();
                let account = account(app).await?;
                let commit = StoredOverlay::discard(&*account, &id, &batch).await?;
                let json = json!({"id": id, "seq": commit.seq, "time": commit.time.to_rfc3339()});
                app.out.item(&json, format_args!("discarded  {}", escaped(&id)))
            }
        }
    }
}

async fn account(app: &App) -> Result<Arc<dyn AccountStore>> {
    app.account_of(&*app.home().await?).await
}

/// Returns a batch in the name of the caller, with a message.
fn batch(app: &App, commit: CommitArgs, why: impl FnOnce() -> String) -> Result<Batch> {
    let batch = Batch::default().author(app.author()).message(commit.message.unwrap_or_else(why));
    Ok(if app.global.override_rules { batch.overriding_rules() } else { batch })
}

async fn create(app: &mut App, id: &str, of: &str, at: Option<&str>, commit: CommitArgs) -> Result {
    // Checked first: an invalid name must not leave a new data folder behind.
    garth_engine::path::check_id("overlay", id)?;
    let batch = batch(app, commit, || format!("create overlay {id}"))?.by_garth();
    let account = app.account_of(&*app.home_of_account().await?).await?;
    let as_of = match at {
        Some(text) => Some(app.as_of(&*account, text).await?.head().await?.seq),
        None => None,
    };
    let root = resolve_path(&*account, of, Follow::Yes).await?;
    let lower = LowerLayer { root, as_of };
    let commit = StoredOverlay::create(&*account, id, &lower, &batch).await?;
    show(app, id, &lower, Some(&commit))
}

async fn list(app: &mut App) -> Result {
    let account = account(app).await?;
    let mut page = Page::default();
    loop {
        let listing = StoredOverlay::list(&*account, &page).await?;
        for StoredInfo { id, lower, .. } in &listing.items {
            show(app, id, lower, None)?;
        }
        match listing.items.last() {
            Some(last) if listing.more => page = page.after(Name::parse(&last.id)?),
            _ => return Ok(()),
        }
    }
}

fn show(app: &mut App, id: &str, lower: &LowerLayer, commit: Option<&Commit>) -> Result {
    let mut json = json!({"id": id, "path": lower.root.as_str(), "as_of": lower.as_of});
    if let Some(commit) = commit {
        json["seq"] = json!(commit.seq);
        json["time"] = json!(commit.time.to_rfc3339());
    }
    let at = lower.as_of.map(|seq| format!(" at {seq}")).unwrap_or_default();
    app.out.item(&json, format_args!("{}  {}{at}", escaped(id), escaped(lower.root.as_str())))
}

async fn diff(app: &mut App, id: &str) -> Result {
    let stored = StoredOverlay::open(&*account(app).await?, id).await?;
    let mut page = NamesPage::default();
    loop {
        let listing = stored.diff(&page).await?;
        for item in &listing.items {
            let (letter, word) = match item.change {
                DifferenceKind::Added => ('A', "added"),
                DifferenceKind::Modified => ('M', "modified"),
                DifferenceKind::Removed => ('D', "removed"),
            };
            let json = json!({"path": item.path.as_str(), "change": word, "kind": kind_word(item.kind)});
            app.out.item(&json, format_args!("{letter}  {}", escaped(item.path.as_str())))?;
        }
        match listing.items.last() {
            Some(last) if listing.more => page = page.after(last.path.clone()),
            _ => return Ok(()),
        }
    }
}

async fn apply(app: &mut App, id: &str, side: Side, commit: CommitArgs) -> Result {
    // Not `by_garth`: drafts hold what clients wrote, and rules reserve some fields and lines for garth.
    let batch = batch(app, commit, || format!("apply overlay {id}"))?;
    let stored = StoredOverlay::open(&*account(app).await?, id).await?;
    let applied = progress::waiting("applying", async { Ok(stored.apply(side, &batch).await?) }).await;
    let message = "was changed in the account, too; --ours takes the overlay's side, --theirs the account's";
    let applied = applied.map_err(suggest(ErrorKind::Conflict, message))?;
    let json = json!({
        "id": id,
        "seq": applied.commit.as_ref().map(|commit| commit.seq),
        "time": applied.commit.as_ref().map(|commit| commit.time.to_rfc3339()),
        "changed": applied.changed,
        "conflicts": applied.conflicts.iter().map(garth_engine::TreePath::as_str).collect::<Vec<_>>(),
    });
    for path in &applied.conflicts {
        app.out.note(format_args!("conflict  {}", escaped(path.as_str())))?;
    }
    match &applied.commit {
        Some(commit) => {
            let changed = counted(applied.changed, "path", "paths");
            app.out.item(&json, format_args!("{:<6}  {changed} changed", commit.seq))
        }
        None => app.out.item(&json, "nothing to apply: the overlay has no changes"),
    }
}
