//! `garth rm`: away with files and trees. Their past stays.

use clap::Args;
use garth::fs::resolve::Follow;
use garth::model::{At, Op, Remove};

use crate::app::{App, Plan, resolve_path};
use crate::args::CommitArgs;
use crate::fail::Result;

/// Remove files, and with -r directories, all in one commit; `restore` brings them back
///
/// With --json one object a path: path, version, created, seq, time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth rm -r /drafts -m 'published'")]
pub(crate) struct Rm {
    /// What to remove; a link itself, not what it names
    #[arg(required = true)]
    paths: Vec<String>,
    /// Remove directories with all that is in them
    #[arg(short, long)]
    recursive: bool,
    /// A path that is not there is fine
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

impl Rm {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let tree = app.tree()?;
        let what = if self.recursive { Remove::Tree } else { Remove::File };
        app.commit(&tree, &self.commit, async || {
            let mut plan = Plan::default();
            for path in &self.paths {
                let path = resolve_path(&*tree.fs, path, Follow::No).await?;
                plan.push(Op::Remove { at: At::Path(path.clone()), what, missing_ok: self.force }, path);
            }
            Ok(plan)
        })
        .await
    }
}
