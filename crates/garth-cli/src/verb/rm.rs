//! `garth rm`: removes files and directories. Their history stays.

use clap::Args;
use garth_engine::ErrorKind;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, Op, Remove};

use crate::app::{App, Plan, stat_optional};
use crate::args::{CommitArgs, TREE_PATH};
use crate::fail::{Result, suggest};

/// Remove files, and with -r directories, in one commit
///
/// `garth restore PATH` restores a removed path. If there is nothing to remove, there is no commit. With
/// --json, prints one object per removed path: path, removed, seq, time, and version (null).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth rm -r /drafts -m 'published'")]
pub(crate) struct Rm {
    /// Files and directories to remove; of a symbolic link, the link itself
    #[arg(value_hint = TREE_PATH, required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Remove directories and everything in them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Ignore paths that do not exist
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

impl Rm {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let tree = app.tree().await?;
        let what = if self.recursive { Remove::Tree } else { Remove::File };
        app.commit(&tree, &self.commit, async || {
            let mut plan = Plan::default();
            for path in &self.paths {
                let (path, there) = match stat_optional(&*tree.fs, path, Follow::No).await {
                    // Below a file, nothing exists.
                    Err(error) if self.force && error.is(ErrorKind::NotADirectory) => continue,
                    found => found?,
                };
                if there.is_none() && self.force {
                    continue;
                }
                plan.push(Op::Remove { at: At::Path(path.clone()), what, missing_ok: self.force }, path);
            }
            Ok(plan)
        })
        .await
        .map_err(suggest(ErrorKind::IsADirectory, "is a directory; -r removes it with everything in it"))
    }
}
