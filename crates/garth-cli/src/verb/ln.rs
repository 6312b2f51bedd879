//! `garth ln`: more names, and links.

use clap::Args;
use garth::fs::resolve::Follow;
use garth::model::{At, Op, SetAttrs};
use garth::{Name, TreePath};

use crate::app::{App, Plan, destination, resolve_path};
use crate::args::CommitArgs;
use crate::fail::Result;

/// Give a file one more name, or with -s make a symbolic link
///
/// With --json one object: path (the new one), version, created, seq, time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth ln -s ../shared/plan.md /projects/garth/plan.md")]
pub(crate) struct Ln {
    /// The file, or the text of the symbolic link
    target: String,
    /// The new name; inside it, if it is a directory
    link: String,
    /// Make a symbolic link; its target need not exist
    #[arg(short, long)]
    symbolic: bool,
    /// Make missing parents
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

impl Ln {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let tree = app.tree()?;
        app.commit(&tree, &self.commit, async || {
            let mut plan = Plan::default();
            let parents = self.parents;
            if self.symbolic {
                let last = self.target.rsplit('/').find(|segment| !segment.is_empty());
                let named = last.and_then(|name| Name::parse(name).ok());
                let to = match named {
                    Some(name) => {
                        let from = TreePath::root().join(&name)?;
                        destination(&*tree.fs, &from, &self.link, Follow::No, self.link.ends_with('/'))
                            .await?
                    }
                    None => resolve_path(&*tree.fs, &self.link, Follow::No).await?,
                };
                let (at, target) = (At::Path(to.clone()), self.target.clone());
                plan.push(Op::Symlink { at, target, parents, attrs: SetAttrs::default() }, to);
            } else {
                let from = resolve_path(&*tree.fs, &self.target, Follow::No).await?;
                let to =
                    destination(&*tree.fs, &from, &self.link, Follow::No, self.link.ends_with('/')).await?;
                plan.push(Op::Link { from: At::Path(from), to: At::Path(to.clone()), parents }, to);
            }
            Ok(plan)
        })
        .await
    }
}
