//! `garth snapshot`: names for states of the tree.

use clap::{Args, Subcommand};
use futures::TryStreamExt;
use garth_engine::error::Advice;
use garth_engine::model::{Op, Owner};
use garth_engine::{ErrorKind, FileSystemExt, TreePath};
use serde_json::json;

use crate::app::{App, Plan};
use crate::args::CommitArgs;
use crate::escape::escaped;
use crate::fail::{Failure, Result};

/// Create, list and remove snapshots: names for states of the tree
///
/// --at, restore and diff take the name of a snapshot. In the tree of the account, the list also has the
/// snapshots of agents, API keys and views, each with its owner.
///
/// With --json, prints one object per snapshot: name, seq, time, and owner unless that is the account.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  garth snapshot create before-cleanup",
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Snapshot {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Create a snapshot of the tree as it is now
    #[command(after_help = "Example:\n  garth snapshot create before-cleanup")]
    Create {
        /// Name of the snapshot; not a number, a time or an age
        name: String,
        #[command(flatten)]
        commit: CommitArgs,
    },
    /// List snapshots (the default)
    #[command(alias = "ls", after_help = "Example:\n  garth snapshot list")]
    List,
    /// Remove a snapshot; history stays
    #[command(
        alias = "delete",
        after_help = "Examples:\n  garth snapshot rm before-cleanup\n  \
                      garth snapshot rm morning --owner files"
    )]
    Rm {
        /// Name of the snapshot
        name: String,
        /// Owner of the snapshot, as the list of the account shows it
        #[arg(long)]
        owner: Option<String>,
        #[command(flatten)]
        commit: CommitArgs,
    },
}

impl Snapshot {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        match self.action.unwrap_or(Action::List) {
            Action::List => {
                let fs = app.tree().await?.fs;
                let mut snapshots = fs.all_snapshots();
                while let Some(snapshot) = snapshots.try_next().await? {
                    let (seq, time) = (snapshot.seq.0, snapshot.time.to_rfc3339());
                    match snapshot.owner {
                        None => show(app, &snapshot.name, seq, &time)?,
                        Some(owner) => show_of(app, &snapshot.name, seq, &time, &owner.to_string())?,
                    }
                }
                Ok(())
            }
            Action::Create { name, commit } => {
                commit_op(app, &commit, Op::snapshot(name.clone()), (&name, None)).await
            }
            Action::Rm { name, owner: None, commit } => {
                commit_op(app, &commit, Op::drop_snapshot(name.clone()), (&name, None)).await
            }
            Action::Rm { name, owner: Some(owner), commit } => {
                app.no_tree("snapshot rm --owner")?;
                let owner = Owner::parse(&owner).map_err(|_| {
                    Failure::Usage(format!("`{}`: `garth snapshot` shows no such owner", escaped(&owner)))
                })?;
                commit_op(app, &commit, Op::drop_snapshot(name.clone()), (&name, Some(owner))).await
            }
        }
    }
}

/// Commits an operation on the snapshot of a name and an owner, and prints it.
async fn commit_op(
    app: &mut App,
    commit: &CommitArgs,
    op: Op,
    (name, owner): (&str, Option<Owner>),
) -> Result {
    let tree = app.tree().await?;
    let done = tree
        .commit(commit, async || {
            let mut plan = Plan { owner: owner.clone(), ..Plan::default() };
            plan.push(op.clone(), TreePath::root());
            Ok(plan)
        })
        .await;
    // Only the tree of the account lists those of others.
    let done = if tree.access().is_none() { done.map_err(advised)? } else { done? };
    let Some((commit, _)) = done else { return Ok(()) };
    let (seq, time) = (commit.seq.0, commit.time.to_rfc3339());
    match owner {
        None => show(app, name, seq, &time),
        Some(owner) => show_of(app, name, seq, &time, &owner.to_string()),
    }
}

/// Returns the failure of a commit, with advice if it found no snapshot of the name and owner.
fn advised(failure: Failure) -> Failure {
    match failure {
        Failure::Tree(error) if error.is(ErrorKind::NotFound) => {
            let advice =
                "`garth snapshot` lists them, and `garth snapshot rm --owner` removes those of others";
            Failure::Tree(error.advising(Advice::Command, advice))
        }
        other => other,
    }
}

/// Prints a snapshot of another owner than the account.
fn show_of(app: &mut App, name: &str, seq: u64, time: &str, owner: &str) -> Result {
    let json = json!({"name": name, "seq": seq, "time": time, "owner": owner});
    app.out.item(&json, format_args!("{seq:<6}  {time}  {}  of {}", escaped(name), escaped(owner)))
}

fn show(app: &mut App, name: &str, seq: u64, time: &str) -> Result {
    let json = json!({"name": name, "seq": seq, "time": time});
    app.out.item(&json, format_args!("{seq:<6}  {time}  {}", escaped(name)))
}
