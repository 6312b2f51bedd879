//! Surroundings of a view: the state that must not change, and the inodes that must not be found.

use garth_engine::model::{At, HistoryPage, NamesPage, WalkPage};
use garth_engine::{FileSystem, TreePath};

use super::Hidden;
use crate::proof::Proven;

/// Prefix of the names of directories and files that others swap for links.
pub(crate) const SWAPPED: &str = "swap-";

/// Returns a line for each path that is not `inside`, except for moving nodes and those with a name inside.
pub(crate) async fn outside(fs: &dyn FileSystem, inside: impl Fn(&TreePath) -> bool) -> Proven<Vec<String>> {
    let page = WalkPage::default().limit(10_000).with_entries();
    let all = fs.walk(&At::Path(TreePath::root()), &page).await?;
    let moves = |path: &TreePath| {
        // These change while the attempts run.
        let own = ["shuttle", "linked"].map(Some).contains(&path.name());
        own || path.segments().any(|segment| segment.starts_with(SWAPPED))
    };
    let seen = all.items.iter().filter(|item| !inside(&item.path) && !moves(&item.path));
    Ok(seen
        .map(|item| format!("{} {:?} {:?}", item.path, item.ino, item.entry.as_ref().map(|it| it.etag)))
        .collect())
}

/// Adds the inodes and versions of all nodes without a name `inside`.
pub(crate) async fn numbers(
    fs: &dyn FileSystem,
    hidden: &mut Hidden,
    inside: impl Fn(&TreePath) -> bool,
) -> Proven<()> {
    let all = fs.walk(&At::Path(TreePath::root()), &WalkPage::default().limit(10_000)).await?;
    let swapped = |path: &TreePath| path.segments().any(|segment| segment.starts_with(SWAPPED));
    for item in all.items.into_iter().filter(|item| !inside(&item.path) && !swapped(&item.path)) {
        let at = At::Node(item.ino);
        if fs.names(&at, &NamesPage::default()).await?.items.iter().any(&inside)
            || Some(item.ino) == hidden.shuttle
        {
            continue;
        }
        let versions = fs.history(&at, &HistoryPage::default()).await?.items;
        hidden.versions.extend(versions.iter().map(|version| version.id));
        hidden.nodes.push(item.ino);
    }
    Ok(())
}
