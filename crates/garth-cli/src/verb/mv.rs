//! `garth mv`: other names for what is there.

use clap::Args;
use garth::fs::resolve::Follow;
use garth::model::{At, Kind, Op, RenameMode};

use crate::app::{App, Plan, destination, stat_path};
use crate::args::CommitArgs;
use crate::fail::Result;

/// Move or rename, all in one commit; history moves along
///
/// With --json one object a source: path (the new one), version, created, seq, time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth mv /inbox/plan.md /projects/")]
pub(crate) struct Mv {
    /// What to move; a link itself, not what it names
    #[arg(required = true, value_name = "SOURCE")]
    from: Vec<String>,
    /// Where to; into it, if it is a directory
    #[arg(value_name = "DEST")]
    to: String,
    /// Fail rather than replace what is there
    #[arg(short, long)]
    no_clobber: bool,
    /// Make missing parents of the destination
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

impl Mv {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let tree = app.tree()?;
        let mode = if self.no_clobber { RenameMode::NoReplace } else { RenameMode::Replace };
        app.commit(&tree, &self.commit, async || {
            let mut plan = Plan::default();
            for from in &self.from {
                let (from, entry) = stat_path(&*tree.fs, from, Follow::No).await?;
                let into = self.from.len() > 1 || (self.to.ends_with('/') && entry.kind != Kind::Directory);
                let to = destination(&*tree.fs, &from, &self.to, Follow::No, into).await?;
                let (from, at) = (At::Path(from), At::Path(to.clone()));
                plan.push(Op::Rename { from, to: at, mode, parents: self.parents }, to);
            }
            Ok(plan)
        })
        .await
    }
}
