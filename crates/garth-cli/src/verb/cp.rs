//! `garth cp`: copies, their content by reference.

use clap::Args;
use garth::ErrorKind;
use garth::fs::resolve::Follow;
use garth::model::{At, Kind, Op};

use crate::app::{App, Plan, check_parent, destination, stat_path};
use crate::args::{CommitArgs, TREE_PATH};
use crate::fail::{Result, suggest};

/// Copy files, and with -r directories, all in one commit
///
/// Copies keep mode, owner, modification time and attributes; content is not stored twice. Hard links among
/// what one source directory holds are kept.
///
/// With --json one object per source: path (the new one), version, created, seq, time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth cp -r /skills/review /agents/default/skills/review -p")]
pub(crate) struct Cp {
    /// Paths to copy; symbolic links are followed, with -r copied
    #[arg(value_hint = TREE_PATH, required = true, value_name = "SOURCE")]
    from: Vec<String>,
    /// Destination; an existing directory is copied into
    #[arg(value_hint = TREE_PATH, value_name = "DEST")]
    to: String,
    /// Copy directories with all that is in them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Same as -r: mode, owner, time and attributes are kept anyway
    #[arg(short, long)]
    archive: bool,
    /// Fail rather than replace a file that is there
    #[arg(short, long)]
    no_clobber: bool,
    /// Replace a file that is there (the default); undoes an earlier -n
    #[arg(short, long, overrides_with = "no_clobber")]
    force: bool,
    /// Create missing parents of the destination
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

impl Cp {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let tree = app.tree().await?;
        let recursive = self.recursive || self.archive;
        let follow = if recursive { Follow::No } else { Follow::Yes };
        app.commit(&tree, &self.commit, async || {
            let mut plan = Plan::default();
            for from in &self.from {
                // The copy is named as its source was written, not as what a link led to.
                let (named, _) = stat_path(&*tree.fs, from, Follow::No).await?;
                let (from, entry) = stat_path(&*tree.fs, from, follow).await?;
                let into = self.from.len() > 1 || (self.to.ends_with('/') && entry.kind != Kind::Directory);
                let to = destination(&*tree.fs, &named, &self.to, Follow::Yes, into).await?;
                if !self.parents {
                    check_parent(&*tree.fs, &to).await?;
                }
                let op = Op::Copy {
                    from: At::Path(from),
                    as_of: None,
                    to: At::Path(to.clone()),
                    recursive,
                    replace: !self.no_clobber || self.force,
                    parents: self.parents,
                };
                plan.push(op, to);
            }
            Ok(plan)
        })
        .await
        .map_err(suggest(ErrorKind::IsADirectory, "is a directory; -r copies it with everything in it"))
    }
}
