//! `garth show`: the changes of one commit.

use std::sync::Arc;

use clap::Args;
use garth_agent::files::Commits;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{Change, ChangeKind, Moment, Seq, VersionId};
use garth_engine::{Error, ErrorKind, FileSystem, FileSystemExt, TreePath};

use crate::app::{App, resolve_path};
use crate::args::TREE_PATH;
use crate::compare::Form;
use crate::fail::Result;
use crate::history::{changes_json, changes_text};
use crate::patch::show_patches;

/// Show one commit: author, message, changes, and a diff of each file
///
/// For a version (ver_...), only the changes of its file are shown. With --json, the first object is the
/// commit (seq, time, author, message, id, changes), followed by one object per path that differs, as for
/// `garth diff`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth show 42")]
pub(crate) struct Show {
    /// Sequence (42), version (ver_...), snapshot, or a time, which means the last commit before it [default:
    /// the last commit]
    #[arg(value_name = "SEQUENCE|VERSION|NAME")]
    what: Option<String>,
    /// Show only changes at or below these paths
    #[arg(value_hint = TREE_PATH)]
    paths: Vec<String>,
    #[command(flatten)]
    form: Form,
}

impl Show {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fs = app.tree().await?.fs;
        let seq = match &self.what {
            Some(what) => match app.moment(&*fs, what).await? {
                Moment::Seq(seq) => seq,
                moment => fs.as_of(&moment).await?.head().await?.seq,
            },
            None => last(&fs).await?,
        };
        let mut commit = fs.changes_of(seq).await?;
        if let Some(Ok(version)) = self.what.as_ref().map(|what| what.parse::<VersionId>()) {
            commit.changes.retain(|change| change.ino == version.ino);
        }
        let after = fs.as_of(&Moment::Seq(seq)).await?;
        let before = fs.as_of(&Moment::Seq(Seq(seq.0 - 1))).await?;
        let mut within = Vec::new();
        for path in &self.paths {
            within.push(resolve_path(&*after, path, Follow::No).await?);
        }
        if !within.is_empty() {
            commit.changes.retain(|change| within.iter().any(|path| touches(change, path)));
        }
        app.out.item(&changes_json(&commit), changes_text(&commit, usize::MAX))?;
        if self.form.name_status {
            return Ok(());
        }
        show_patches(app, &self.form, &commit, [&*before, &*after]).await
    }
}

/// Returns the last commit that changed the tree. The last commit of the store may be outside of the tree.
async fn last(fs: &Arc<dyn FileSystem>) -> Result<Seq> {
    let all = (Seq(0), fs.head().await?.seq);
    let commit = Commits::new(Arc::clone(fs), all, &TreePath::root()).older().await?;
    match commit {
        Some(commit) => Ok(commit.commit.seq),
        None => Err(Error::new(ErrorKind::NotFound, "no commit changed this tree").into()),
    }
}

/// Returns true if a change is at or below `dir`, or created, moved or removed a directory above it.
fn touches(change: &Change, dir: &TreePath) -> bool {
    let (from, whole) = match &change.kind {
        ChangeKind::Renamed { from } => (Some(from), true),
        ChangeKind::Created | ChangeKind::Removed => (None, true),
        _ => (None, false),
    };
    let near = |path: &TreePath| path.is_within(dir) || (whole && dir.is_within(path));
    change.paths.iter().any(near) || from.is_some_and(near)
}
