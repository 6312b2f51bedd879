//! Comparison of handles that exclude some of the tree.

use garth_engine::model::{
    At, Batch, ByteRange, ChangesQuery, Confinement, HistoryPage, Ino, Listing, Moment, Owner, Page, Seq,
    Version, Within,
};

use super::comparisons::{Checked, same, same_found, same_history, same_tree};
use crate::tools::{Fs, at, can, names_of, p};

/// One of this many batches is confined.
const EVERY: u64 = 5;

/// Returns some of the places that steps use, with an island.
fn within() -> Within {
    let left_out = ["/d/kv", "/kv/a", "/kv/d/b", "/agents/d/a", "/b"].map(p);
    Within::everything().without(left_out).with([p("/d/kv/d")])
}

/// Confines some of the batches to a part.
pub(super) fn confine(batches: &mut [Batch], number: u64) {
    if number % EVERY == EVERY - 1 {
        batches.iter_mut().for_each(|batch| batch.within = Some(within()));
    }
}

/// Compares a part: its past after a commit, its present, a path, and the node of the path.
pub(super) async fn same_part(subject: &Fs, model: &Fs, path: &str, seq: Seq) -> Checked {
    if !can(subject).confinement {
        return Ok(());
    }
    // The root of a scope was created before that of the model.
    let path = if path == "/" { "/kv/d" } else { path };
    // For a missing path some inode, which may exist.
    let ino = model.stat(&at(path)).await.map_or(Ino(seq.0 + 2), |entry| entry.ino);
    let owner = Owner::new("part").map_err(|error| error.to_string())?;
    let to = Confinement::new(within(), owner);
    let subject = subject.confined(&to).await.map_err(|error| error.to_string())?;
    let model = model.confined(&to).await.map_err(|error| error.to_string())?;
    let query = ChangesQuery::since(seq).limit(20);
    same("changes of a part", subject.changes(&query).await, model.changes(&query).await)?;
    same_reads(&*subject, &*model, path, ino).await?;
    same_found(&*subject, &*model, false).await?;
    let moment = Moment::Seq(seq);
    match (subject.as_of(&moment).await, model.as_of(&moment).await) {
        (Ok(subject), Ok(model)) => same_reads(&*subject, &*model, path, ino).await,
        (subject, model) => same("as_of of a part", subject.map(drop), model.map(drop)).map(drop),
    }
}

async fn same_reads(subject: &Fs, model: &Fs, path: &str, ino: Ino) -> Checked {
    same_tree(subject, model).await?;
    same_history(subject, model, path, 20).await?;
    let (page, versions) = (Page::default().limit(3), HistoryPage::default().limit(20));
    let all_versions = HistoryPage::default().limit(1_000);
    for place in [at(path), At::Node(ino)] {
        let stat = same("stat in a part", subject.stat(&place).await, model.stat(&place).await)?;
        same("names in a part", names_of(subject, &place).await, names_of(model, &place).await)?;
        same("a list in a part", subject.list(&place, &page).await, model.list(&place, &page).await)?;
        // A node without a name has versions that a collection removes once nobody holds it open.
        let versions = if stat.is_none() { &all_versions } else { &versions };
        let (found, due) = (subject.history(&place, versions).await, model.history(&place, versions).await);
        match stat {
            Some(_) => same("history in a part", found, due).map(drop)?,
            None => same("history of names in a part", found.map(named), due.map(named)).map(drop)?,
        }
        if stat.is_some_and(|entry| entry.size < 1 << 20) {
            let all = ByteRange::ALL;
            same("content in a part", subject.read(&place, all).await, model.read(&place, all).await)?;
        }
    }
    Ok(())
}

/// Returns the versions except those that were written to a node after it had lost its last name.
fn named(history: Listing<Version>) -> Vec<Version> {
    let has_name = |version: &Version| version.entry.as_ref().is_none_or(|entry| entry.nlink > 0);
    history.items.into_iter().filter(has_name).collect()
}
