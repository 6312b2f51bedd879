//! `garth mkdir`: new directories.

use clap::Args;
use garth::fs::resolve::Follow;
use garth::model::{At, Op, SetAttrs};

use crate::app::{App, Plan, resolve_path, suggest_parents};
use crate::args::CommitArgs;
use crate::fail::Result;

/// Make directories, all in one commit
///
/// With --json one object a directory: path, version, created, seq, time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth mkdir -p /projects/garth/notes")]
pub(crate) struct Mkdir {
    /// Which directories
    #[arg(required = true)]
    paths: Vec<String>,
    /// Make missing parents; a directory that is there already is fine
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

impl Mkdir {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let tree = app.tree_or_new()?;
        let follow = if self.parents { Follow::Yes } else { Follow::No };
        app.commit(&tree, &self.commit, async || {
            let mut plan = Plan::default();
            for path in &self.paths {
                let path = resolve_path(&*tree.fs, path, follow).await?;
                let attrs = SetAttrs::default();
                plan.push(Op::Mkdir { at: At::Path(path.clone()), parents: self.parents, attrs }, path);
            }
            Ok(plan)
        })
        .await
        .map_err(suggest_parents)
    }
}
