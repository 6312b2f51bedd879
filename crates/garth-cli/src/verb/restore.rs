//! `garth restore`: a path brought back to what it was, in one commit.

use clap::Args;
use garth_engine::fs::resolve::Follow;
use garth_engine::fs::restore::{self, Restoration, RestoreAction, RestorePlan, RestoreResult};
use garth_engine::model::{At, Batch, Moment, Op, Seq};
use garth_engine::{Error, ErrorKind, TreePath};
use serde_json::json;

use crate::app::{App, AuthoredTree, Plan, resolve_path, stat_path};
use crate::args::{CommitArgs, TREE_PATH};
use crate::escape::escaped;
use crate::fail::Result;
use crate::out::counted;
use crate::progress;

/// Make a path what it was, in one commit
///
/// Content, attributes, names and hard links become those of then. What is the same is not touched, what was
/// added since is removed (history keeps it), what was moved inside the path moves back, and nothing outside
/// the path changes. If nothing differs there is no commit. A time means the state right after the last
/// commit before it, with what has expired since. With --json one object: path, version, created, seq, time
/// (both null without a commit), restored, removed, unchanged; with -n path, at (the sequence that would be
/// restored), dry_run (true), created, restored, removed, unchanged. With -n or -v first one object per
/// change: path, action, from.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  garth restore /notes/today.md --at yesterday\n  garth restore -n /notes --at 1h"
)]
pub(crate) struct Restore {
    /// Path to restore; a symbolic link itself, not its target
    #[arg(value_hint = TREE_PATH)]
    path: String,
    /// State to restore: a sequence, snapshot, version, time or age, as for --at of other verbs
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    at: String,
    /// Copy it here instead, where nothing may be yet
    #[arg(value_hint = TREE_PATH, long, value_name = "PATH")]
    to: Option<String>,
    /// Say what would be done and change nothing
    #[arg(short = 'n', long, conflicts_with = "to")]
    dry_run: bool,
    /// List each change
    #[arg(short, long, conflicts_with = "to")]
    verbose: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

impl Restore {
    pub(crate) async fn run(mut self, app: &mut App) -> Result {
        let tree = app.tree().await?;
        let seq = app.as_of(&*tree.fs, &self.at).await?.head().await?.seq;
        let past = tree.fs.as_of(&Moment::Seq(seq)).await?;
        let (path, _) = stat_path(&*past, &self.path, Follow::No).await.map_err(|error| {
            let Some(path) = error.path().filter(|_| error.is(ErrorKind::NotFound)) else { return error };
            Error::at(ErrorKind::NotFound, path, format!("was not there at {}", escaped(&self.at)))
        })?;
        self.commit.message.get_or_insert_with(|| format!("restore {path} as of {seq}"));
        if let Some(to) = &self.to {
            return copy(app, &tree, &self.commit, &path, seq, to).await;
        }
        let moment = Moment::Seq(seq);
        if self.dry_run {
            let plan = restore::plan(&*tree.fs, &path, &moment, app.env.now()).await?;
            list(app, &plan)?;
            let json = json!({
                "path": path.as_str(), "at": seq, "dry_run": true, "created": plan.created,
                "restored": plan.restored, "removed": plan.removed, "unchanged": plan.unchanged,
            });
            let (restored, removed) = (counted(plan.restored, "entry", "entries"), plan.removed);
            let text =
                format!("would restore {restored}, remove {removed}, leave {} unchanged", plan.unchanged);
            return app.out.item(&json, text);
        }
        let batch = Batch {
            author: tree.author.clone(),
            message: self.commit.message.clone().unwrap_or_default(),
            // whoever holds the data folder gets back what garth noted, too
            by_garth: tree.access().is_none(),
            ..Batch::default()
        };
        let work = restore::restore(&*tree.fs, &path, &moment, app.env.now(), &batch);
        let done = progress::waiting("restoring", work).await?;
        if self.verbose {
            list(app, &done.plan)?;
        }
        show(app, &tree, &path, &done).await
    }
}

/// `--to`: a copy of then under a new name.
async fn copy(
    app: &mut App,
    tree: &AuthoredTree,
    commit: &CommitArgs,
    from: &TreePath,
    seq: Seq,
    to: &str,
) -> Result {
    app.commit(tree, commit, async || {
        let to = resolve_path(&*tree.fs, to, Follow::No).await?;
        let mut plan = Plan::default();
        let op = Op::copy_tree(from.clone(), to.clone()).as_of(seq).with_parents();
        plan.push(op, to);
        Ok(plan)
    })
    .await
}

fn list(app: &mut App, plan: &RestorePlan) -> Result {
    for Restoration { path, action } in &plan.changes {
        let (word, from) = match action {
            RestoreAction::Created => ("created", None),
            RestoreAction::Changed => ("changed", None),
            RestoreAction::Moved { from } => ("moved", Some(from)),
            RestoreAction::Linked => ("linked", None),
            RestoreAction::Removed => ("removed", None),
            _ => ("other", None),
        };
        let json = json!({"path": path.as_str(), "action": word, "from": from.map(TreePath::as_str)});
        let origin = from.map(|from| format!(" (from {})", escaped(from.as_str()))).unwrap_or_default();
        app.out.item(&json, format_args!("{word:<8}  {}{origin}", escaped(path.as_str())))?;
    }
    Ok(())
}

fn summary(plan: &RestorePlan) -> String {
    let (restored, removed) = (counted(plan.restored, "entry", "entries"), plan.removed);
    format!("{restored} restored, {removed} removed, {} unchanged", plan.unchanged)
}

async fn show(app: &mut App, tree: &AuthoredTree, path: &TreePath, done: &RestoreResult) -> Result {
    let plan = &done.plan;
    let entry = tree.fs.stat(&At::Path(path.clone())).await?;
    let json = json!({
        "path": path.as_str(), "version": entry.version.to_string(), "created": plan.created,
        "seq": done.commit.as_ref().map(|commit| commit.seq),
        "time": done.commit.as_ref().map(|commit| commit.time.to_rfc3339()),
        "restored": plan.restored, "removed": plan.removed, "unchanged": plan.unchanged,
    });
    app.out.item(&json, format_args!("{}  {}", entry.version, escaped(path.as_str())))?;
    match done.commit {
        Some(_) => app.out.note(summary(plan)),
        None => app.out.note("nothing to restore: it is as it was"),
    }
}
