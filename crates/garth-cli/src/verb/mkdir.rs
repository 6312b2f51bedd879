//! `garth mkdir`: creates directories.

use clap::Args;
use garth_agent::files::parse_mode;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, Entry, Kind, Op, SetAttrs};

use crate::app::{App, Plan, resolve_path, stat_optional};
use crate::args::{CommitArgs, TREE_PATH};
use crate::fail::{Result, suggest_parents};

/// Create directories, in one commit
///
/// If all of them exist (with -p), there is no commit. With --json, prints one object per created
/// directory: path, version, created, seq, time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth mkdir -p /projects/garth/notes")]
pub(crate) struct Mkdir {
    /// Directories to create
    #[arg(value_hint = TREE_PATH, required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Create missing parents; ignore directories that exist
    #[arg(short, long)]
    parents: bool,
    /// Permissions of the new directories, octal; parents get 0755
    #[arg(short, long, value_name = "MODE", value_parser = parse_mode)]
    mode: Option<u32>,
    /// Message of the commit
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
}

impl Mkdir {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let tree = app.tree_or_new().await?;
        let args = CommitArgs { message: self.message };
        app.commit(&tree, &args, async || {
            let mut plan = Plan::default();
            for path in &self.paths {
                let path = if self.parents {
                    match stat_optional(&*tree.fs, path, Follow::Yes).await? {
                        (_, Some(Entry { kind: Kind::Directory, .. })) => continue,
                        (path, _) => path,
                    }
                } else {
                    resolve_path(&*tree.fs, path, Follow::No).await?
                };
                let attrs = SetAttrs { mode: self.mode, ..SetAttrs::default() };
                plan.push(Op::Mkdir { at: At::Path(path.clone()), parents: self.parents, attrs }, path);
            }
            Ok(plan)
        })
        .await
        .map_err(suggest_parents)
    }
}
