//! `garth mv`: renames and moves paths.

use clap::Args;
use garth_engine::ErrorKind;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, Kind, Op, RenameMode};

use crate::app::{App, Plan, check_parent, destination, resolve_path, stat_path};
use crate::args::{CommitArgs, TREE_PATH};
use crate::fail::{Result, suggest, suggest_across};

/// Move or rename files and directories, in one commit; their history moves along
///
/// With --json, prints one object per source: path (the new one), version, created, seq, time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth mv /inbox/plan.md /projects/")]
pub(crate) struct Mv {
    /// Files and directories to move; of a symbolic link, the link itself
    #[arg(value_hint = TREE_PATH, required = true, value_name = "SOURCE")]
    from: Vec<String>,
    /// New path; if it is a directory, the sources go into it
    #[arg(value_hint = TREE_PATH, value_name = "DEST")]
    to: String,
    /// Fail if the destination exists
    #[arg(short, long)]
    no_clobber: bool,
    /// Replace the destination if it exists (the default); undoes an earlier -n
    #[arg(short, long, overrides_with = "no_clobber")]
    force: bool,
    /// Treat DEST as the new path, even if it is a directory
    #[arg(short = 'T', long)]
    no_target_directory: bool,
    /// Create missing parents of the destination
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

impl Mv {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        if self.no_target_directory && self.from.len() > 1 {
            return Err(crate::fail::Failure::Usage("-T requires exactly one source".to_owned()));
        }
        let tree = app.tree().await?;
        let mode = if self.no_clobber && !self.force { RenameMode::NoReplace } else { RenameMode::Replace };
        app.commit(&tree, &self.commit, async || {
            let mut plan = Plan::default();
            for from in &self.from {
                let (from, entry) = stat_path(&*tree.fs, from, Follow::No).await?;
                let to = if self.no_target_directory {
                    resolve_path(&*tree.fs, &self.to, Follow::No).await?
                } else {
                    let is_dir = entry.kind == Kind::Directory;
                    let into = self.from.len() > 1 || (self.to.ends_with('/') && !is_dir);
                    destination(&*tree.fs, &from, &self.to, Follow::No, into).await?
                };
                // A move onto itself changes nothing, as in rename(2).
                if from == to {
                    continue;
                }
                if !self.parents {
                    check_parent(&*tree.fs, &to).await?;
                }
                let (from, at) = (At::Path(from), At::Path(to.clone()));
                plan.push(Op::Rename { from, to: at, mode, parents: self.parents }, to);
            }
            Ok(plan)
        })
        .await
        .map_err(suggest(ErrorKind::NotEmpty, "the directory is not empty; remove it first with rm -r"))
        .map_err(suggest_across("cannot move to another store; copy with `garth cp`, then remove"))
    }
}
