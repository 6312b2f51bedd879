//! Describes directories among skills that have no `SKILL.md`.

use std::collections::HashMap;

use super::listing::SKILL;
use crate::small_file::read_all;
use garth_engine::error::{OptionalExt as _, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, Kind, Page};
use garth_engine::path::TreePath;

/// Limit on the directories of a list that are read.
const MAX_DIRECTORIES: usize = 32;
/// Limit on the names of a directory that are read.
const MAX_NAMES: usize = 64;
/// Limit on the subdirectories that are searched for a `SKILL.md`.
const MAX_INNER: usize = 4;

/// Describes the directories of some missing `SKILL.md` files, by the paths of these files. Omits directories
/// that are empty or have only names that begin with a dot.
pub(super) async fn found_instead(
    fs: &dyn FileSystem,
    absent: Vec<TreePath>,
) -> Result<HashMap<TreePath, String>> {
    let page = Page::default().limit(MAX_NAMES);
    let (mut found, mut inner, mut paths) = (HashMap::new(), Vec::new(), Vec::new());
    for (number, file) in absent.into_iter().enumerate() {
        let Some(directory) = file.parent() else { continue };
        if number >= MAX_DIRECTORIES {
            found.insert(file, format!("has no {SKILL}"));
            continue;
        }
        let Some(listing) = fs.list(&At::from(&directory), &page).await.optional()? else { continue };
        let names = || listing.items.iter().map(|item| item.name.as_str());
        if let Some(name) = names().find(|name| name.eq_ignore_ascii_case(SKILL)) {
            found.insert(file, format!("has no {SKILL}, but {name}; rename it to {SKILL}"));
            continue;
        }
        if !listing.more && names().all(|name| name.starts_with('.')) {
            continue;
        }
        for item in listing.items.iter().filter(|item| item.kind == Kind::Directory).take(MAX_INNER) {
            let below = TreePath::from_row(directory.key(), item.name.as_str());
            paths.push(TreePath::from_row(below.key(), SKILL));
            inner.push((file.clone(), format!("{}/{SKILL}", item.name.as_str())));
        }
        found.insert(file, format!("has no {SKILL}"));
    }
    // Without content: only the existence of these files matters.
    let files = read_all(fs, &paths, 0).await?;
    // Reversed, so that the first of several is named.
    for ((file, name), _) in inner.into_iter().zip(files).rev().filter(|(_, there)| there.is_some()) {
        found
            .insert(file, format!("has no {SKILL}, but {name}; move that directory up, to the other skills"));
    }
    Ok(found)
}
