//! `garth snapshot`: names for moments.

use clap::{Args, Subcommand};
use garth::TreePath;
use garth::model::Op;
use serde_json::json;

use crate::app::{App, Plan};
use crate::args::Why;
use crate::fail::Done;
use crate::out::shown;

/// Name the tree as it is now; list and drop such names
///
/// With --json one object a snapshot: name, seq, time.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  garth snapshot create before-cleanup",
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Snapshot {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Name the tree as it is now
    #[command(after_help = "Example:\n  garth snapshot create before-cleanup")]
    Create {
        /// The name; not a number or a time
        name: String,
        #[command(flatten)]
        why: Why,
    },
    /// List the names (the default)
    #[command(after_help = "Example:\n  garth snapshot list")]
    List,
    /// Forget a name; history stays
    #[command(after_help = "Example:\n  garth snapshot drop before-cleanup")]
    Drop {
        /// The name
        name: String,
        #[command(flatten)]
        why: Why,
    },
}

impl Snapshot {
    pub(crate) async fn run(self, app: &mut App) -> Done {
        match self.what.unwrap_or(What::List) {
            What::List => {
                for snapshot in app.tree()?.fs.snapshots().await? {
                    show(app, &snapshot.name, snapshot.seq.0, &snapshot.time.to_rfc3339())?;
                }
                Ok(())
            }
            What::Create { name, why } => {
                name_it(app, &why, Op::Snapshot { name: name.clone() }, &name).await
            }
            What::Drop { name, why } => {
                name_it(app, &why, Op::DropSnapshot { name: name.clone() }, &name).await
            }
        }
    }
}

async fn name_it(app: &mut App, why: &Why, op: Op, name: &str) -> Done {
    let tree = app.tree()?;
    let (commit, _) = tree
        .commit(why, async || {
            let mut plan = Plan::default();
            plan.push(op.clone(), TreePath::root());
            Ok(plan)
        })
        .await?;
    show(app, name, commit.seq.0, &commit.time.to_rfc3339())
}

fn show(app: &mut App, name: &str, seq: u64, time: &str) -> Done {
    let json = json!({"name": name, "seq": seq, "time": time});
    app.out.item(&json, format_args!("{seq:<6}  {time}  {}", shown(name)))
}
