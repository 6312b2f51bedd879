//! Uploads that must not replace a file. They get a free name if the requested one is taken.

use crate::retry::ATTEMPTS;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, Batch, Commit};
use garth_engine::path::{MAX_NAME, Name, TreePath};

/// Writes a new file at `path` or, if that exists, next to it: `notes.md`, `notes (2).md`, `notes (3).md`.
/// Returns the path of the file. `write` returns the batch for a path; it must
/// [create](garth_engine::model::Op::create_new) the file.
///
/// The number follows a taken one. A few lookups find it, however many are taken.
///
/// # Errors
/// `Busy` for the root; as [`FileSystem::commit`], except for `AlreadyExists`.
pub async fn write_free(
    fs: &dyn FileSystem,
    path: &TreePath,
    write: impl Fn(&TreePath) -> Batch,
) -> Result<(TreePath, Commit)> {
    at_free_name(fs, path, move |free| {
        let batch = write(&free);
        async move {
            let commit = fs.commit(batch).await?;
            Ok((free, commit))
        }
    })
    .await
}

/// Runs `write` with `path` or, while it fails with `AlreadyExists`, with the next free path beside it.
///
/// # Errors
/// Errors of `write`, except for `AlreadyExists`; as [`write_free`].
pub(crate) async fn at_free_name<T, F: Future<Output = Result<T>>>(
    fs: &dyn FileSystem,
    path: &TreePath,
    mut write: impl FnMut(TreePath) -> F,
) -> Result<T> {
    let mut free = path.clone();
    // Of writers that ask for one name at the same time, each takes a number that the others have tried as
    // well, so that the last one fails as often as there are others.
    for _ in 0..ATTEMPTS {
        match write(free).await {
            // Another writer may have taken the name since the last lookup.
            Err(error) if error.is(ErrorKind::AlreadyExists) => free = numbered(fs, path).await?,
            done => return done,
        }
    }
    Err(Error::at(ErrorKind::WouldBlock, path, "other writers keep taking the free names; try again"))
}

/// Returns a free path with a number.
async fn numbered(fs: &dyn FileSystem, path: &TreePath) -> Result<TreePath> {
    let is_taken = async |number: u64| {
        let at = At::Path(with_number(path, number)?);
        match fs.stat(&at).await {
            Ok(_) => Ok(true),
            Err(error) if error.is(ErrorKind::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    };
    // `below` is taken and `free` is free. Between them is a free number that follows a taken one.
    let (mut below, mut free) = (1, 2);
    while is_taken(free).await? {
        (below, free) = (free, free * 2);
    }
    while below + 1 < free {
        let middle = below.midpoint(free);
        *if is_taken(middle).await? { &mut below } else { &mut free } = middle;
    }
    with_number(path, free)
}

/// Returns `notes (2).md` for `notes.md`; a long name loses the end of its stem.
fn with_number(path: &TreePath, number: u64) -> Result<TreePath> {
    let Some((dir, name)) = path.split() else {
        return Err(Error::at(ErrorKind::Busy, path, "the root already exists"));
    };
    let name = name.as_str();
    // In a name like `.profile` the dot starts no extension.
    let end = name.rfind('.').filter(|end| *end > 0).unwrap_or(name.len());
    let (mut stem, mut extension) = name.split_at(end);
    // A very long extension leaves no room for the stem and number.
    if extension.len() > MAX_NAME / 2 {
        (stem, extension) = (name, "");
    }
    let number = format!(" ({number})");
    let room = MAX_NAME.saturating_sub(number.len() + extension.len());
    let cut = (0..=stem.len().min(room)).rev().find(|end| stem.is_char_boundary(*end)).unwrap_or(0);
    Ok(dir.join(&Name::parse(&format!("{}{number}{extension}", &stem[..cut]))?)?)
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use garth_engine::Env;
    use garth_engine::engine::memory::MemoryFs;
    use garth_engine::model::Op;
    use garth_engine::rule::Registry;

    use super::*;

    #[test]
    fn name_is_found_whenever_others_were_faster() {
        for others in [16, 160] {
            let memory = MemoryFs::new(Env::system(), Registry::empty());
            let fs: &dyn FileSystem = &memory;
            let mut faster = 0;
            let free = block_on(at_free_name(fs, &TreePath::parse("/notes.md").unwrap(), |free| {
                faster += 1;
                let theirs = (faster <= others).then(|| Op::write(&free, "theirs").create_new());
                async move {
                    if let Some(theirs) = theirs {
                        fs.commit(theirs.into()).await?;
                    }
                    fs.commit(Op::write(&free, "ours").create_new().into()).await?;
                    Ok(free)
                }
            }));
            assert_eq!(free.unwrap().as_str(), format!("/notes ({}).md", others + 1));
        }
    }
}
