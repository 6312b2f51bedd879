//! `garth restore`: restores an earlier state of a path, in one commit.

use clap::Args;
use garth_agent::files::with_path;
use garth_engine::fs::resolve::Follow;
use garth_engine::fs::restore::{self, Restoration, RestoreAction, RestorePlan, RestoreResult};
use garth_engine::model::{At, Batch, Moment, Op, Seq};
use garth_engine::{Error, ErrorKind, TreePath};
use serde_json::json;

use crate::app::{App, AuthoredTree, Plan, resolve_path, stat_path};
use crate::args::{CommitArgs, TREE_PATH};
use crate::escape::escaped;
use crate::fail::Result;
use crate::history::last_change;
use crate::out::counted;
use crate::progress;

/// Restore a path to an earlier state, in one commit
///
/// Without --at, restores the state before the last change of the path, or for a directory of anything below
/// it: a removed file comes back, an overwritten one gets its earlier content. Another restore undoes the
/// first one.
///
/// Restores content, attributes, names and hard links. Equal entries are not touched, entries that were added
/// since are removed (history keeps them), entries that were moved inside the path move back, and nothing
/// outside the path changes. If nothing differs, there is no commit. A time means the state after the last
/// commit before it, including what has expired since.
///
/// Files below a directory whose earlier content is no longer stored (`garth retention`) are left as they are
/// now, and listed. For such a file itself, and with --to, the command fails.
///
/// With --json, prints one object: path, at (the restored sequence), version, created, seq, time (both null
/// without a commit), restored, removed, unchanged, gone (files that were left because their earlier content
/// is no longer stored), gone_paths (the first 20 of them); with --dry-run path, at, dry_run (true), created,
/// restored, removed, unchanged, gone, gone_paths. With --dry-run or -v first one object per change: path,
/// action, from.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  garth restore /notes/today.md\n  garth restore /notes/today.md --at yesterday\n  \
                  garth restore /notes --at 1h --dry-run"
)]
pub(crate) struct Restore {
    /// Path to restore; a symbolic link itself, not its target
    #[arg(value_hint = TREE_PATH)]
    path: String,
    /// State to restore: a sequence, snapshot, version, time or age, as for --at of other commands [default:
    /// before the last change of the path]
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    at: Option<String>,
    /// Copy the earlier state to this path instead, which must not exist
    #[arg(value_hint = TREE_PATH, long, value_name = "PATH")]
    to: Option<String>,
    /// Report what would be done, and change nothing
    #[arg(long, conflicts_with = "to")]
    dry_run: bool,
    /// List each change
    #[arg(short, long, conflicts_with = "to")]
    verbose: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

impl Restore {
    /// Returns the sequence before the last change of the path or of anything below it.
    async fn before_last_change(&self, tree: &AuthoredTree) -> Result<Seq> {
        let path = resolve_path(&*tree.fs, &self.path, Follow::No).await?;
        let Some(last) = last_change(&tree.fs, &path).await.map_err(with_path(&self.path))? else {
            let message = "no such file or directory, now or in the log";
            return Err(Error::at(ErrorKind::NotFound, &path, message).into());
        };
        // The sequence numbers of commits begin at 1.
        let before = Seq(last.0 - 1);
        let there = tree.fs.as_of(&Moment::Seq(before)).await?.stat(&At::Path(path.clone())).await;
        if there.is_err_and(|error| error.is_absent()) {
            let message =
                format!("did not exist before its last change, commit {last}; `garth rm` removes it");
            return Err(Error::at(ErrorKind::NotFound, &path, message).into());
        }
        Ok(before)
    }

    pub(crate) async fn run(mut self, app: &mut App) -> Result {
        let tree = app.tree().await?;
        let seq = match &self.at {
            Some(at) => app.as_of(&*tree.fs, at).await?.head().await?.seq,
            None => self.before_last_change(&tree).await?,
        };
        let past = tree.fs.as_of(&Moment::Seq(seq)).await?;
        let (path, _) = stat_path(&*past, &self.path, Follow::No).await.map_err(|error| {
            let Some(path) = error.path().filter(|_| error.is(ErrorKind::NotFound)) else { return error };
            let at = self.at.as_ref().map_or_else(|| seq.to_string(), |at| escaped(at).into_owned());
            Error::at(ErrorKind::NotFound, path, format!("did not exist at {at}"))
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
                "gone": plan.gone, "gone_paths": plan.gone_paths,
            });
            let (restored, removed) = (counted(plan.restored, "entry", "entries"), plan.removed);
            let text =
                format!("would restore {restored}, remove {removed}, leave {} unchanged", plan.unchanged);
            app.out.item(&json, text)?;
            return list_gone(app, &plan);
        }
        let batch = Batch {
            author: tree.author.clone(),
            message: self.commit.message.clone().unwrap_or_default(),
            // A user with access to the data folder may also restore attributes of garth.
            by_garth: tree.access().is_none(),
            ..Batch::default()
        };
        let work = restore::restore(&*tree.fs, &path, &moment, app.env.now(), &batch);
        let done = progress::waiting("restoring", work).await?;
        if self.verbose {
            list(app, &done.plan)?;
        }
        show(app, &tree, &path, seq, &done).await
    }
}

/// Copies the earlier state to a new path, for `--to`.
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

/// Lists the files that are left as they are, because their earlier content is no longer stored.
fn list_gone(app: &mut App, plan: &RestorePlan) -> Result {
    if plan.gone == 0 {
        return Ok(());
    }
    let files = counted(plan.gone, "file", "files");
    app.out.note(format_args!("{files} left as now, because the earlier content is no longer stored:"))?;
    for path in &plan.gone_paths {
        app.out.note(format_args!("  {}", escaped(path.as_str())))?;
    }
    match plan.gone - plan.gone_paths.len() as u64 {
        0 => Ok(()),
        more => app.out.note(format_args!("  and {more} more")),
    }
}

fn summary(plan: &RestorePlan) -> String {
    let (restored, removed) = (counted(plan.restored, "entry", "entries"), plan.removed);
    format!("{restored} restored, {removed} removed, {} unchanged", plan.unchanged)
}

async fn show(app: &mut App, tree: &AuthoredTree, path: &TreePath, at: Seq, done: &RestoreResult) -> Result {
    let plan = &done.plan;
    let entry = tree.fs.stat(&At::Path(path.clone())).await?;
    let json = json!({
        "path": path.as_str(), "at": at, "version": entry.version.to_string(), "created": plan.created,
        "seq": done.commit.as_ref().map(|commit| commit.seq),
        "time": done.commit.as_ref().map(|commit| commit.time.to_rfc3339()),
        "restored": plan.restored, "removed": plan.removed, "unchanged": plan.unchanged,
        "gone": plan.gone, "gone_paths": plan.gone_paths,
    });
    app.out.item(&json, format_args!("{}  {}", entry.version, escaped(path.as_str())))?;
    match done.commit {
        Some(_) => app.out.note(summary(plan))?,
        None if plan.gone > 0 => app.out.note("nothing else to restore")?,
        None => app.out.note("nothing to restore: the state is the same")?,
    }
    list_gone(app, plan)
}
