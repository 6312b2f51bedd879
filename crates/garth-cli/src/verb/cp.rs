//! `garth cp`: copies by reference, or to another store by reading and writing the content.

use std::slice;

use clap::Args;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, Entry, Kind, Op};
use garth_engine::{Error, ErrorKind, FileSystem, TreePath};

use crate::app::{App, AuthoredTree, Plan, check_parent, destination, stat_optional, stat_path};
use crate::args::{CommitArgs, TREE_PATH};
use crate::fail::{Failure, Result, suggest};
use crate::progress::Interrupt;
use crate::transfer::{Loader, Policy, Report, Style, from_tree};

/// Copy files, and with -r directories, in one commit
///
/// Copies keep mode, owner, modification time and attributes; content is not stored twice. Hard links
/// inside one source directory are kept.
///
/// A copy to another store, such as from a skill of a chat to the chat, reads and writes the content, many
/// entries to a commit. Entries that cannot be copied are reported on stderr, and the rest is copied. Ctrl-C
/// stops between two commits.
///
/// With --json, prints one object per source: path (the new one), version, created, seq, time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth cp -r /skills/review /agents/default/skills/review -p")]
pub(crate) struct Cp {
    /// Paths to copy; symbolic links are followed, with -r copied
    #[arg(value_hint = TREE_PATH, required = true, value_name = "SOURCE")]
    from: Vec<String>,
    /// Destination; an existing directory is copied into
    #[arg(value_hint = TREE_PATH, value_name = "DEST")]
    to: String,
    /// Copy directories recursively
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Same as -r: mode, owner, time and attributes are kept anyway
    #[arg(short, long)]
    archive: bool,
    /// Fail if the destination exists
    #[arg(short, long)]
    no_clobber: bool,
    /// Replace the destination if it exists (the default); undoes an earlier -n
    #[arg(short, long, overrides_with = "no_clobber")]
    force: bool,
    /// Create missing parents of the destination
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

/// Source of a copy with its destination.
struct Route {
    from: TreePath,
    entry: Entry,
    to: TreePath,
}

impl Cp {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let tree = app.tree().await?;
        let copied = match self.by_reference(app, &tree, &self.from).await {
            // One commit changes only one store.
            Err(failure) if crosses(&failure) => self.one_by_one(app, &tree).await,
            copied => copied,
        };
        copied.map_err(suggest(ErrorKind::IsADirectory, "is a directory; -r copies it with everything in it"))
    }

    fn recursive(&self) -> bool {
        self.recursive || self.archive
    }

    fn replaces(&self) -> bool {
        !self.no_clobber || self.force
    }

    async fn route(&self, fs: &dyn FileSystem, from: &str) -> garth_engine::Result<Route> {
        let follow = if self.recursive() { Follow::No } else { Follow::Yes };
        // The copy is named after the path as written, not after the target of a link.
        let (named, _) = stat_path(fs, from, Follow::No).await?;
        let (from, entry) = stat_path(fs, from, follow).await?;
        // Several sources, or a file and a `/` at the end, need a directory.
        let into = self.from.len() > 1 || (self.to.ends_with('/') && entry.kind != Kind::Directory);
        let to = destination(fs, &named, &self.to, Follow::Yes, into).await?;
        if !self.parents {
            check_parent(fs, &to).await?;
        }
        Ok(Route { from, entry, to })
    }

    /// Copies within a store in one commit, by reference.
    async fn by_reference(&self, app: &mut App, tree: &AuthoredTree, sources: &[String]) -> Result {
        app.commit(tree, &self.commit, async || {
            let mut plan = Plan::default();
            for from in sources {
                let Route { from, to, .. } = self.route(&*tree.fs, from).await?;
                let op = Op::Copy {
                    from: At::Path(from),
                    as_of: None,
                    to: At::Path(to.clone()),
                    recursive: self.recursive(),
                    replace: self.replaces(),
                    parents: self.parents,
                };
                plan.push(op, to);
            }
            Ok(plan)
        })
        .await
    }

    /// Copies each source separately, because only some of them may be copied to another store.
    async fn one_by_one(&self, app: &mut App, tree: &AuthoredTree) -> Result {
        let interrupt = Interrupt::listen()?;
        for from in &self.from {
            interrupt.check()?;
            // Sources in the store of the destination are still copied by reference.
            match self.by_reference(app, tree, slice::from_ref(from)).await {
                Err(failure) if crosses(&failure) => self.by_reading(app, tree, from, &interrupt).await?,
                copied => copied?,
            }
        }
        Ok(())
    }

    /// Copies to another store, with the same conditions as [`Op::Copy`].
    async fn by_reading(
        &self,
        app: &mut App,
        tree: &AuthoredTree,
        from: &str,
        interrupt: &Interrupt,
    ) -> Result {
        let Route { from, entry, to } = self.route(&*tree.fs, from).await?;
        if entry.kind == Kind::Directory && !self.recursive() {
            return Err(Error::at(ErrorKind::IsADirectory, &from, "is a directory").into());
        }
        let onto = stat_optional(&*tree.fs, to.as_str(), Follow::No).await?.1;
        // Only a file replaces another: a directory is not merged into an existing entry.
        let is_file = |entry: &Entry| entry.kind == Kind::File;
        if onto.as_ref().is_some_and(|onto| !self.replaces() || !is_file(onto) || !is_file(&entry)) {
            return Err(Error::at(ErrorKind::AlreadyExists, &to, "already exists").into());
        }
        let style = Style { list: false, to_stderr: false };
        let report = Report::new(&mut app.out, None, style, interrupt.clone());
        let policy = Policy { delete: false, dry_run: false, layout: false };
        let mut loader = Loader::new(tree, &self.commit, to.clone(), true, policy, report);
        from_tree(&mut loader, (&from, &entry), &to, onto.as_ref()).await?;
        loader.finish().await?;
        loader.report.first_failure()?;
        let Some(commit) = loader.last_commit().cloned() else { return Ok(()) };
        let version = tree.fs.stat(&At::Path(to.clone())).await?.version;
        app.out.written(&commit, version, onto.is_none(), &to)
    }
}

/// Returns true if one commit would have to change two stores.
fn crosses(failure: &Failure) -> bool {
    matches!(failure, Failure::Tree(error) if error.is(ErrorKind::CrossesMounts))
}
