//! `garth restore`: the past brought back, in one commit.

use std::sync::Arc;

use clap::Args;
use garth::fs::resolve::Follow;
use garth::model::{At, Entry, Kind, Op, Remove, Seq};
use garth::{Error, ErrorKind, FileSystem, TreePath};

use crate::app::{App, Plan, resolve_path, stat_optional, stat_path};
use crate::args::CommitArgs;
use crate::escape::escaped;
use crate::fail::Result;
use crate::walk::Lister;

/// Bring back what a path was, in one commit
///
/// A file keeps its history and gets its old content and attributes back; what was removed is there again; a
/// directory becomes equal to what it was (what came later is removed from it, and stays in history). With
/// --json one object: path, version, created, seq, time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth restore /notes/today.md --at yesterday")]
pub(crate) struct Restore {
    /// What to bring back; a link itself, not what it names
    path: String,
    /// Which past: a sequence, a snapshot, a version, a time or an age, as for --at of other verbs
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    at: String,
    /// Bring it back here instead, where nothing may be yet
    #[arg(long, value_name = "PATH")]
    to: Option<String>,
    #[command(flatten)]
    commit: CommitArgs,
}

impl Restore {
    pub(crate) async fn run(mut self, app: &mut App) -> Result {
        let tree = app.tree()?;
        let past = app.as_of(&*tree.fs, &self.at).await?;
        let seq = past.head().await?.seq;
        let (from, entry) = stat_path(&*past, &self.path, Follow::No).await.map_err(|error| {
            let Some(path) = error.path().filter(|_| error.is(ErrorKind::NotFound)) else { return error };
            Error::at(ErrorKind::NotFound, path, format!("was not there at {}", escaped(&self.at)))
        })?;
        if self.commit.message.is_none() {
            self.commit.message = Some(format!("restore {from} as of {seq}"));
        }
        app.commit(&tree, &self.commit, async || self.plan(&*tree.fs, &past, &from, &entry, seq).await).await
    }

    async fn plan(
        &self,
        now: &dyn FileSystem,
        past: &Arc<dyn FileSystem>,
        from: &TreePath,
        entry: &Entry,
        seq: Seq,
    ) -> garth::Result<Plan> {
        let mut plan = Plan::default();
        if let Some(to) = &self.to {
            let to = resolve_path(now, to, Follow::No).await?;
            plan.push(copy(from, seq, &to, false), to);
            return Ok(plan);
        }
        let (to, there) = stat_optional(now, &self.path, Follow::No).await?;
        if to.is_root() {
            // The root itself stays: everything in it goes and comes.
            for path in children(now, &to).await? {
                plan.ops.push(remove(&path));
            }
            for path in children(&**past, from).await? {
                plan.ops.push(copy(&path, seq, &path, false));
            }
            plan.shown.push((plan.ops.len(), to));
            return Ok(plan);
        }
        let both_files = entry.kind == Kind::File && there.as_ref().is_some_and(|now| now.kind == Kind::File);
        if there.is_some() && !both_files {
            plan.ops.push(remove(&to));
        }
        plan.push(copy(from, seq, &to, both_files), to);
        Ok(plan)
    }
}

fn remove(path: &TreePath) -> Op {
    Op::Remove { at: At::Path(path.clone()), what: Remove::Tree, missing_ok: true }
}

fn copy(from: &TreePath, seq: Seq, to: &TreePath, replace: bool) -> Op {
    let (from, to) = (At::Path(from.clone()), At::Path(to.clone()));
    Op::Copy { from, as_of: Some(seq), to, recursive: true, replace, parents: true }
}

async fn children(fs: &dyn FileSystem, dir: &TreePath) -> garth::Result<Vec<TreePath>> {
    let mut paths = Vec::new();
    let mut lister = Lister::new(dir);
    loop {
        let page = lister.page(fs).await?;
        if page.is_empty() {
            return Ok(paths);
        }
        paths.extend(page.into_iter().map(|(path, _)| path));
    }
}
