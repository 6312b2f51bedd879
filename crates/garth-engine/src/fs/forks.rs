//! Places of the overlays that an account stores, and what they lie over. Engines keep the states of the past
//! that overlays need.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::Seq;
use crate::path::{Name, SYSTEM, TreePath};

/// Name of the file that describes the lower layer of a stored overlay.
pub const ABOUT: &str = "overlay.json";

/// Name of the directory of an overlay that has everything that was written in it.
pub const TREE: &str = "tree";

/// Lower layer of a stored overlay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LowerLayer {
    /// Directory of the account.
    pub root: TreePath,
    /// Commit whose state is shown, so that later changes by others do not show: a fork. `None` for the
    /// current state.
    pub as_of: Option<Seq>,
}

/// Returns the directory of the overlays of an account.
pub fn overlays() -> Result<TreePath> {
    Ok(TreePath::parse(SYSTEM)?.join(&Name::parse("overlays")?)?)
}

/// Returns the path of the description in the directory of an overlay.
///
/// # Errors
/// `NameTooLong` for a directory that no path fits into.
pub fn about(overlay: &TreePath) -> Result<TreePath> {
    Ok(overlay.join(&Name::parse(ABOUT)?)?)
}

/// Replaces the paths of files that were written in overlays by the paths that they have in the trees which
/// these overlays show, as far as these are known. `read` returns the description of an overlay, by its path,
/// in the state that the paths are of.
///
/// # Errors
/// Errors of `read`.
pub fn as_shown<E: From<Error>>(
    paths: &mut [TreePath],
    mut read: impl FnMut(&TreePath) -> Result<Option<Vec<u8>>, E>,
) -> Result<(), E> {
    let overlays = overlays()?;
    // A file can have many names in one overlay.
    let mut roots: HashMap<TreePath, Option<TreePath>> = HashMap::new();
    for path in paths {
        let Some((overlay, tree)) = written_in(&overlays, path) else { continue };
        let root = match roots.get(&overlay) {
            Some(known) => known.clone(),
            None => {
                let lower: Option<LowerLayer> =
                    read(&about(&overlay)?)?.and_then(|text| serde_json::from_slice(&text).ok());
                roots.entry(overlay).or_insert(lower.map(|lower| lower.root)).clone()
            }
        };
        if let Some(Ok(shown)) = root.and_then(|root| path.rebase(&tree, &root)) {
            *path = shown;
        }
    }
    Ok(())
}

/// Returns the directory of the overlay in which a path was written, and that of its tree; `None` for any
/// other path.
fn written_in(overlays: &TreePath, path: &TreePath) -> Option<(TreePath, TreePath)> {
    let mut names = path.segments().skip(overlays.segments().count());
    let (id, tree, below) = (names.next()?, names.next()?, names.next());
    if !path.is_within(overlays) || tree != TREE || below.is_none() {
        return None;
    }
    let overlay = overlays.join(&Name::parse(id).ok()?).ok()?;
    let tree = overlay.join(&Name::parse(tree).ok()?).ok()?;
    Some((overlay, tree))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    #[test]
    fn files_of_overlays_have_the_paths_that_these_show() {
        let mut paths = [
            "/.garth/overlays/o/tree/cache/a",
            "/.garth/overlays/o/tree/b",
            "/.garth/overlays/o/tree",
            "/.garth/overlays/o/nodes/7",
            "/.garth/overlays/o/overlay.json",
            "/.garth/overlays/none/tree/a",
            "/d/.garth/overlays/o/tree/a",
            "/a",
        ]
        .map(path);
        let mut reads = Vec::new();
        let done = as_shown(&mut paths, |about| {
            reads.push(about.to_string());
            let lower = LowerLayer { root: path("/d"), as_of: None };
            Ok::<_, Error>(
                about.is_within(&path("/.garth/overlays/o")).then(|| serde_json::to_vec(&lower).unwrap()),
            )
        });
        done.unwrap();
        let expected = [
            "/d/cache/a",
            "/d/b",
            "/.garth/overlays/o/tree",
            "/.garth/overlays/o/nodes/7",
            "/.garth/overlays/o/overlay.json",
            "/.garth/overlays/none/tree/a",
            "/d/.garth/overlays/o/tree/a",
            "/a",
        ];
        assert_eq!(paths, expected.map(path));
        let expected = ["/.garth/overlays/o/overlay.json", "/.garth/overlays/none/overlay.json"];
        assert_eq!(reads, expected, "once for each overlay");
    }
}
