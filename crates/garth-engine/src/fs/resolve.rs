//! Resolution of symbolic links, `.` and `..` into a canonical path. It happens above the engine, in the
//! namespace of the filesystem that is asked: the target of a link is looked up there like any path, and `..`
//! stops at its root.
//!
//! A tree can consist of parts that must not lead to each other, such as accounts. Each link has a
//! [root](crate::fs::ViewBase::link_root): `/`, or the root of its part. Once a link is followed, neither its
//! target nor the rest of the path leaves this root, whatever links and `..` follow. So a part cannot lead a
//! path that a reader writes into another part. In a tree without such parts the root is always `/`, and `..`
//! after a link is the parent of its target, as in POSIX.
//!
//! Engines follow no links. If a link is swapped in after a path was resolved, the engine returns an error
//! about that link, or the link itself, and the caller resolves again ([`retry`], [`stat`]). No race can lead
//! outside. The reasons: `docs/decisions/links-above-engines.md`.

use std::future::Future;

use crate::error::{Error, ErrorKind, OptionalExt as _, Result};
use crate::fs::FileSystem;
use crate::model::{At, Entry, Kind};
use crate::path::{MAX_PATH, Name, PathError, TreePath};

/// Limit on the links followed for one path, as `MAXSYMLINKS` of Linux.
pub const MAX_SYMLINKS: usize = 40;
/// Attempts after a lost race against a swapped link.
const MAX_RETRIES: usize = 8;

/// Treatment of a link at the end of a path. Links before the end are always followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// Follow it (`stat`, `open`).
    Yes,
    /// Stay at the link itself (`lstat`, `unlink`, `rename`).
    No,
}

/// Resolves a path, as a person or program wrote it, into a canonical one. The last segment need not exist;
/// with [`Follow::Yes`] a link whose target is missing resolves to that target. A trailing `/` follows a last
/// link and requires a directory. A missing directory on the way is `NotFound` only if `..` follows it;
/// otherwise an operation with `parents` can create it.
///
/// # Errors
/// `InvalidArgument` (not absolute, NUL), `NameTooLong`, `SymlinkLoop`, `NotADirectory`; errors of the
/// filesystem.
pub async fn resolve<F: FileSystem + ?Sized>(fs: &F, path: &str, follow: Follow) -> Result<TreePath> {
    if !path.starts_with('/') {
        return Err(PathError::NotAbsolute.into());
    }
    if path.len() > MAX_PATH {
        return Err(PathError::PathTooLong { bytes: path.len() }.into());
    }
    let wants_directory = wants_directory(path);
    // As in POSIX, `link/` is the directory that the link leads to.
    let follow = if wants_directory { Follow::Yes } else { follow };
    if let Some(found) = shortcut(fs, path, follow).await? {
        return Ok(found);
    }
    let resolved = walk(fs, path, follow).await?;
    if wants_directory
        && let Some(entry) = fs.stat(&At::Path(resolved.clone())).await.optional()?
        && entry.kind != Kind::Directory
    {
        return Err(Error::not_a_directory(&resolved));
    }
    Ok(resolved)
}

/// Returns true if a path requires a directory, so that a link at its end is followed.
fn wants_directory(path: &str) -> bool {
    path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..")
}

/// Resolves `path` and runs `action` on the result. Runs it again if it fails because a link was swapped in
/// between, on the way or, with [`Follow::Yes`], at the end. An action that succeeds on a link is not run
/// again: to learn what a path leads to, use [`stat`].
///
/// # Errors
/// As [`resolve`]; errors of the action.
pub async fn retry<F, T, A, R>(fs: &F, path: &str, follow: Follow, mut action: A) -> Result<T>
where
    F: FileSystem + ?Sized,
    A: FnMut(TreePath) -> R,
    R: Future<Output = Result<T>>,
{
    let mut tries = 0;
    loop {
        let resolved = resolve(fs, path, follow).await?;
        let error = match action(resolved.clone()).await {
            Err(error) if tries < MAX_RETRIES => error,
            answer => return answer,
        };
        tries += 1;
        // Without a path the error is not about a link.
        let Some(at) = error.path().cloned() else { return Err(error) };
        let at_the_end = at == resolved;
        let stays = at_the_end && follow == Follow::No && !wants_directory(path);
        // An error about another path comes from an action that resolves more paths itself.
        let by_link = matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::NotPermitted);
        if stays || !(at_the_end || by_link) || !is_link(fs, &at).await {
            return Err(error);
        }
    }
}

/// Returns the canonical path that `path` leads to, and the node there. With [`Follow::Yes`] this is never a
/// link.
///
/// # Errors
/// As [`resolve`]; errors of a lookup; `SymlinkLoop` if the end of the path is a new link at each attempt.
pub async fn stat<F: FileSystem + ?Sized>(fs: &F, path: &str, follow: Follow) -> Result<(TreePath, Entry)> {
    let stays = follow == Follow::No && !wants_directory(path);
    let mut found = TreePath::root();
    for _ in 0..=MAX_RETRIES {
        let (resolved, entry) = retry(fs, path, follow, |path| async move {
            let entry = fs.stat(&At::Path(path.clone())).await?;
            Ok((path, entry))
        })
        .await?;
        if entry.kind != Kind::Symlink || stays {
            return Ok((resolved, entry));
        }
        found = resolved;
    }
    Err(Error::at(ErrorKind::SymlinkLoop, &found, "the symbolic link changes faster than it can be followed"))
}

async fn is_link<F: FileSystem + ?Sized>(fs: &F, path: &TreePath) -> bool {
    matches!(fs.stat(&path.into()).await, Ok(Entry { kind: Kind::Symlink, .. }))
}

/// Resolves the usual case, a canonical path without a link, in one lookup.
async fn shortcut<F: FileSystem + ?Sized>(fs: &F, path: &str, follow: Follow) -> Result<Option<TreePath>> {
    let Ok(plain) = TreePath::parse(path) else { return Ok(None) };
    match fs.stat(&At::Path(plain.clone())).await {
        Ok(entry) if entry.kind == Kind::Symlink && follow == Follow::Yes => Ok(None),
        Ok(_) => Ok(Some(plain)),
        // A lookup through a link fails with `NotADirectory`, so no link is on the way.
        Err(error) if error.is(ErrorKind::NotFound) => Ok(Some(plain)),
        // A link or a file is on the way; `walk` finds out which.
        Err(error) if error.is(ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn walk<F: FileSystem + ?Sized>(fs: &F, path: &str, follow: Follow) -> Result<TreePath> {
    // Segments still to take, the next one last, each with the depth of the directory that it cannot leave.
    let mut todo: Vec<(String, usize)> = segments(path).map(|segment| (segment, 0)).collect();
    let mut done = TreePath::root();
    let mut links = 0;
    while let Some((segment, floor)) = todo.pop() {
        if segment == ".." {
            // `..` of the root is the root, so nothing outside of the tree is reached, and after a link
            // nothing outside of its root.
            if done.segments().count() > floor {
                done = done.parent().unwrap_or_default();
            }
            continue;
        }
        let here = done.join(&Name::parse(&segment)?)?;
        let Some(entry) = fs.stat(&At::Path(here.clone())).await.optional()? else {
            // `..` of a missing directory leads nowhere. Anything else below it is missing as well and needs
            // no lookup.
            if todo.iter().any(|(segment, _)| segment == "..") {
                return Err(Error::not_found(&here));
            }
            done = here;
            continue;
        };
        match (entry.kind, entry.target) {
            // A link before the end is always followed.
            (Kind::Symlink, Some(target)) if follow == Follow::Yes || !todo.is_empty() => {
                links += 1;
                if links > MAX_SYMLINKS {
                    return Err(Error::at(
                        ErrorKind::SymlinkLoop,
                        &here,
                        "too many levels of symbolic links",
                    ));
                }
                // An absolute target is one of this tree, or of the part of it that the link is in.
                let root = link_root(fs, &here, floor);
                let floor = root.segments().count();
                if target.starts_with('/') || !done.is_within(&root) {
                    done = root;
                }
                // Those that follow the link, too: otherwise a link to the root of its part, and a `..` that
                // the reader wrote after it, would leave the part.
                todo.iter_mut().for_each(|(_, depth)| *depth = floor.max(*depth));
                // The segments of the target come before those that follow the link.
                todo.extend(segments(&target).map(|segment| (segment, floor)));
                if todo.iter().map(|(segment, _)| segment.len() + 1).sum::<usize>() > 2 * MAX_PATH {
                    return Err(Error::at(
                        ErrorKind::NameTooLong,
                        &here,
                        "the link expands to too long a path",
                    ));
                }
            }
            (Kind::Directory, _) => done = here,
            _ if todo.is_empty() => done = here,
            _ => return Err(Error::not_a_directory(&here)),
        }
    }
    Ok(done)
}

/// Returns the directory that the path cannot leave after a link at `link`: the root of the link, but nothing
/// above the first `floor` segments, which an earlier link has set.
fn link_root<F: FileSystem + ?Sized>(fs: &F, link: &TreePath, floor: usize) -> TreePath {
    let root = fs.view_base().link_root(link);
    if root.segments().count() >= floor {
        return root;
    }
    link.segments().take(floor).fold(TreePath::root(), |dir, name| TreePath::from_row(dir.key(), name))
}

fn segments(path: &str) -> impl Iterator<Item = String> + '_ {
    path.rsplit('/').filter(|segment| !segment.is_empty() && *segment != ".").map(str::to_owned)
}
