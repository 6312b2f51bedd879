//! Patches of commits: a diff of each file that a commit changed.

use std::collections::HashSet;

use garth_agent::files::Side;
use garth_engine::FileSystem;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{Change, ChangeKind, CommitChanges, Moment, Seq};

use crate::app::App;
use crate::compare::{Form, show};
use crate::fail::Result;

/// Prints the patch of a commit, from the trees before and after it.
pub(crate) async fn show_patches(
    app: &mut App,
    form: &Form,
    commit: &CommitChanges,
    [before, after]: [&dyn FileSystem; 2],
) -> Result {
    // A commit may change a file several times, but its patch shows it once.
    let mut seen = HashSet::new();
    let mut first = true;
    for change in &commit.changes {
        let Some((from, to)) = sides(change, before, after).await? else { continue };
        if from.is_directory() || to.is_directory() || !seen.insert((from.path().clone(), to.path().clone()))
        {
            continue;
        }
        if std::mem::take(&mut first) {
            app.out.note("")?;
        }
        show(app, form, &from, &to).await?;
    }
    Ok(())
}

/// Prints the patch of a commit of `fs`.
pub(crate) async fn show_patches_of(
    app: &mut App,
    form: &Form,
    commit: &CommitChanges,
    fs: &dyn FileSystem,
) -> Result {
    let seq = commit.commit.seq;
    let after = fs.as_of(&Moment::Seq(seq)).await?;
    let before = fs.as_of(&Moment::Seq(Seq(seq.0 - 1))).await?;
    show_patches(app, form, commit, [&*before, &*after]).await?;
    app.out.note("")
}

/// Returns the two sides of a change; `None` if it has no content to compare.
async fn sides<'a>(
    change: &Change,
    before: &'a dyn FileSystem,
    after: &'a dyn FileSystem,
) -> Result<Option<(Side<'a>, Side<'a>)>> {
    let Some(path) = change.path() else { return Ok(None) };
    let old_path = match &change.kind {
        ChangeKind::Renamed { from } => from,
        ChangeKind::Linked | ChangeKind::Snapshot { .. } | ChangeKind::SnapshotDropped { .. } => {
            return Ok(None);
        }
        _ => path,
    };
    let from = Side::at(before, old_path.as_str(), Follow::No).await?;
    let to = Side::at(after, path.as_str(), Follow::No).await?;
    // An entry that was replaced in the same commit has changes of its own.
    Ok(Some(match &change.kind {
        ChangeKind::Created => (from.without(), to),
        ChangeKind::Removed | ChangeKind::Expired => (from, to.without()),
        _ => (from, to),
    }))
}
