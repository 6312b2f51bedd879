//! `garth ln`: hard links and symbolic links.

use clap::Args;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, Op, SetAttrs};
use garth_engine::{FileSystem, Name, TreePath};

use crate::app::{App, Plan, check_parent, destination, resolve_path, stat_optional, stat_path};
use crate::args::{CommitArgs, TREE_PATH};
use crate::fail::{Result, suggest_across};

/// Create a hard link, or with -s a symbolic link
///
/// If the same link exists (with -f), there is no commit. With --json, prints one object: path (the new
/// one), version, created, seq, time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth ln -s ../shared/plan.md /projects/garth/plan.md")]
pub(crate) struct Ln {
    /// File to link to; with -s the text of the link, kept as typed
    #[arg(value_hint = TREE_PATH)]
    target: String,
    /// Path of the link; if it is a directory, the link is created inside
    #[arg(value_hint = TREE_PATH)]
    link: String,
    /// Create a symbolic link; its target need not exist
    #[arg(short, long)]
    symbolic: bool,
    /// Replace an existing file or link
    #[arg(short, long)]
    force: bool,
    /// Treat LINK as the path of the link, even if it is a directory or a link to one
    #[arg(short = 'T', long, visible_short_alias = 'n')]
    no_target_directory: bool,
    /// Create missing parents
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

impl Ln {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let tree = app.tree().await?;
        app.commit(&tree, &self.commit, async || {
            let fs = &*tree.fs;
            let mut plan = Plan::default();
            let parents = self.parents;
            if self.symbolic {
                // The target need not exist, so its name is taken from the text.
                let to = self.link_path(fs, last_name(&self.target)).await?;
                let there = stat_optional(fs, to.as_str(), Follow::No).await?.1;
                if self.force && there.is_some_and(|entry| entry.target.as_deref() == Some(&*self.target)) {
                    return Ok(plan);
                }
                self.clear(&mut plan, &to);
                let (at, target) = (At::Path(to.clone()), self.target.clone());
                plan.push(Op::Symlink { at, target, parents, attrs: SetAttrs::default() }, to);
            } else {
                let (from, entry) = stat_path(fs, &self.target, Follow::No).await?;
                let to = self.link_path(fs, from.name().and_then(|name| Name::parse(name).ok())).await?;
                let there = stat_optional(fs, to.as_str(), Follow::No).await?.1;
                if self.force && there.is_some_and(|there| there.ino == entry.ino) {
                    return Ok(plan);
                }
                self.clear(&mut plan, &to);
                plan.push(Op::Link { from: At::Path(from), to: At::Path(to.clone()), parents }, to);
            }
            Ok(plan)
        })
        .await
        .map_err(suggest_across("a hard link cannot cross to another store; use `garth cp` or `garth ln -s`"))
    }

    /// Returns the path of the link to a target named `name`.
    async fn link_path(&self, fs: &dyn FileSystem, name: Option<Name>) -> garth_engine::Result<TreePath> {
        let to = match name {
            Some(name) if !self.no_target_directory => {
                // Only the name of this path is used.
                let from = TreePath::root().join(&name)?;
                destination(fs, &from, &self.link, Follow::No, self.link.ends_with('/')).await?
            }
            _ => resolve_path(fs, &self.link, Follow::No).await?,
        };
        if !self.parents {
            check_parent(fs, &to).await?;
        }
        Ok(to)
    }

    /// Removes an existing entry at the path of the link, in the same commit.
    fn clear(&self, plan: &mut Plan, to: &TreePath) {
        if self.force {
            plan.ops.push(Op::remove_file(to.clone()).if_exists());
        }
    }
}

/// Returns the last segment of the target of a link, if it is a name.
fn last_name(target: &str) -> Option<Name> {
    let last = target.rsplit('/').find(|segment| !segment.is_empty())?;
    Name::parse(last).ok()
}
