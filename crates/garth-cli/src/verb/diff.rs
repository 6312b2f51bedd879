//! `garth diff`: differences between two states of a path, or between two paths.

use std::sync::Arc;

use clap::Args;
use garth_agent::files::{Side, with_path};
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{Moment, Seq};
use garth_engine::{Error, ErrorKind, FileSystem, TreePath};

use crate::app::App;
use crate::args::{Past, TREE_PATH};
use crate::compare::{Form, show_trees};
use crate::fail::{Failure, Result};
use crate::history::last_change;

/// Compare two states of a path, or two paths, as a unified diff
///
/// Directories are compared recursively. With --json, prints one object per path that differs: path, change
/// (added, removed, changed), from and to (sequences), attributes (names of the different ones), binary,
/// diff; from_path if it is another path; with --stat added and removed instead of diff.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth diff /notes --from yesterday --stat")]
pub(crate) struct Diff {
    /// Path to compare; with two paths the older side
    #[arg(value_hint = TREE_PATH)]
    path: String,
    /// The newer side
    #[arg(value_hint = TREE_PATH)]
    other: Option<String>,
    /// State of the older side, as for --at of other commands [default: before the last change; with two
    /// paths now]
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    from: Option<String>,
    /// State of the newer side [default: now]
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    to: Option<String>,
    /// With one path the same as --from; with two paths the state of both
    #[arg(long, value_name = "SEQUENCE|TIME|NAME", conflicts_with = "from")]
    at: Option<String>,
    #[command(flatten)]
    form: Form,
    /// Exit with 1 if anything differs
    #[arg(long)]
    exit_code: bool,
    /// Accepted and ignored: directories are always compared recursively
    #[arg(short, long, hide = true)]
    recursive: bool,
    /// Accepted and ignored: a diff is always unified
    #[arg(short = 'u', hide = true)]
    unified_format: bool,
}

impl Diff {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let newer = self.newer(app).await?;
        let other = self.other.as_ref().unwrap_or(&self.path);
        let to = Side::at(&*newer, other, Follow::Yes).await.map_err(with_path(other))?;
        let older = self.older(app, &newer, to.path()).await?;
        let from = Side::at(&*older, &self.path, Follow::Yes).await.map_err(with_path(&self.path))?;
        if self.other.is_none() && from.entry().is_none() && to.entry().is_none() {
            let message = "no such file or directory at either time";
            let missing = Error::at(ErrorKind::NotFound, from.path(), message);
            return Err(with_path(&self.path)(missing).into());
        }
        if let Some(other) = &self.other {
            for (written, side) in [(&self.path, &from), (other, &to)] {
                if side.entry().is_none() {
                    let missing = Error::at(ErrorKind::NotFound, side.path(), "no such file or directory");
                    return Err(with_path(written)(missing).into());
                }
            }
        }
        let differ = show_trees(app, &self.form, from, to).await?;
        if differ && self.exit_code { Err(Failure::Reported(1)) } else { Ok(()) }
    }

    /// Returns the tree of the newer side.
    async fn newer(&self, app: &App) -> Result<Arc<dyn FileSystem>> {
        // With two paths, `--at` applies to both sides.
        let at = if self.other.is_some() { self.to.as_ref().or(self.at.as_ref()) } else { self.to.as_ref() };
        app.pinned(&Past { at: at.cloned() }).await
    }

    /// Returns the tree of the older side, given that of the newer one and its path there.
    async fn older(
        &self,
        app: &App,
        newer: &Arc<dyn FileSystem>,
        path: &TreePath,
    ) -> Result<Arc<dyn FileSystem>> {
        let at = self.from.as_ref().or(self.at.as_ref());
        match at {
            _ if self.other.is_some() => app.pinned(&Past { at: at.cloned() }).await,
            Some(text) => app.as_of(&*app.tree().await?.fs, text).await,
            None => before_last(newer, path).await,
        }
    }
}

/// Returns the tree just before the last change of a path; for a directory, of anything below it.
async fn before_last(fs: &Arc<dyn FileSystem>, path: &TreePath) -> Result<Arc<dyn FileSystem>> {
    let last = last_change(fs, path).await?;
    let before = Seq(last.unwrap_or_default().0.saturating_sub(1));
    Ok(fs.as_of(&Moment::Seq(before)).await?)
}
