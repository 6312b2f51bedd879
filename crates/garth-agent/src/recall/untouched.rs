//! Files of a workspace that nobody has changed.

use std::collections::{HashMap, HashSet};

use super::read::{Wanted, fetched};
use crate::account_paths::AccountPaths;
use crate::workspace::initial_text;
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, ByteRange, Hit};
use garth_engine::path::TreePath;

/// Returns the paths of hits in files of a workspace that still have the text with which garth created
/// them. They are no evidence either: nobody has said what they say.
///
/// # Errors
/// Errors of the filesystem.
pub(crate) async fn untouched(
    paths: &AccountPaths,
    fs: &dyn FileSystem,
    hits: &[Hit],
) -> Result<HashSet<TreePath>> {
    let created = hits.iter().filter_map(|hit| Some((&hit.path, initial_text(&paths.own(&hit.path)?)?)));
    // A file can have several hits.
    let created: HashMap<&TreePath, &str> = created.collect();
    let created: Vec<(&TreePath, &str)> = created.into_iter().collect();
    // One byte more than the text, by which a longer file differs.
    let wanted = |(path, text): &(&TreePath, &str)| -> Wanted {
        vec![(At::from(*path), ByteRange { offset: 0, length: text.len() as u64 + 1 })]
    };
    let wanted: Vec<Wanted> = created.iter().map(wanted).collect();
    let answers = fetched(fs, &wanted).await?;
    let mut untouched = HashSet::new();
    for ((path, text), mut answers) in created.into_iter().zip(answers) {
        // The error of a file that is gone is found where the file is read to be shown.
        if answers.due().is_ok_and(|(_, bytes)| bytes == text.as_bytes()) {
            untouched.insert(path.clone());
        }
    }
    Ok(untouched)
}
