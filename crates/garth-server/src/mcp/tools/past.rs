//! States of a path that a version names, and what became of a path that is missing now.

use bytes::Bytes;
use garth_engine::error::OptionalExt as _;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{At, ByteRange, Entry, HistoryPage, Moment, NamesPage, Seq, Version, VersionId};
use garth_engine::{ErrorKind, FileSystem, Result, TreePath};

use super::paths::by;
use crate::errors::{Code, Refusal};

/// Limit on the versions of one path that one commit makes.
const MAX_IN_COMMIT: usize = 8;

/// Returns the state before the commit of a version.
pub(super) const fn before(version: VersionId) -> VersionId {
    VersionId { seq: Seq(version.seq.0.saturating_sub(1)), ..version }
}

/// Reads the beginning of a file in a version of it. `past` is the tree after the commit of the version.
///
/// # Errors
/// `VALIDATION_ERROR` for a version of another file, or one that removed the file.
pub(super) async fn fetch_version(
    (fs, past): (&dyn FileSystem, &dyn FileSystem),
    asked: &str,
    version: VersionId,
    range: ByteRange,
) -> Result<(TreePath, Entry, Bytes), Refusal> {
    let found = resolve::retry(past, asked, Follow::Yes, |path| async move {
        let (entry, bytes) = past.fetch(&At::from(&path), range).await?;
        Ok((path, entry, bytes))
    });
    if let Some(found) = found.await.optional()?
        && found.1.ino == version.ino
    {
        return Ok(found);
    }
    // History also lists the versions that the file had at another path.
    let path = resolve::resolve(fs, asked, Follow::Yes).await?;
    match listed(fs, &path, version).await? {
        Some(Version { entry: Some(_), .. }) => {
            let (entry, bytes) = past.fetch(&At::Node(version.ino), range).await?;
            Ok((path, entry, bytes))
        }
        Some(_) => Err(ended(fs, &path, version).await),
        None => Err(of_another(&path, version)),
    }
}

/// Checks that a path can be restored to its state after the commit of a version: the version is one of the
/// node that was there, or, for a directory, of a node below it.
///
/// # Errors
/// `VALIDATION_ERROR` for a version of another file, one that removed the file, or one of a time when it had
/// another path.
pub(super) async fn check_restorable(
    fs: &dyn FileSystem,
    asked: &str,
    version: VersionId,
) -> Result<(), Refusal> {
    let past = fs.as_of(&Moment::Seq(version.seq)).await?;
    if let Some((path, entry)) = resolve::stat(&*past, asked, Follow::No).await.optional()?
        && (entry.ino == version.ino || (entry.is_dir() && is_below(fs, &path, version).await))
    {
        return Ok(());
    }
    let path = resolve::resolve(fs, asked, Follow::No).await?;
    match listed(fs, &path, version).await? {
        Some(Version { entry: Some(_), .. }) => {
            let then = name(&*past, version).await;
            let place = then.map_or_else(|| "had another path".to_owned(), |then| format!("was at {then}"));
            let hint = "read this version with `read_file`, and write it with `write_file`";
            Err(Refusal::validation(format!("{path} {place} in {version}")).hinting(hint))
        }
        Some(_) => Err(ended(fs, &path, version).await),
        None => Err(of_another(&path, version)),
    }
}

/// Returns a version as the history of a path lists it; `None` if it is not among its versions.
async fn listed(fs: &dyn FileSystem, path: &TreePath, version: VersionId) -> Result<Option<Version>> {
    let after = Seq(version.seq.0.saturating_add(1));
    let page = HistoryPage::default().before_commit(after).limit(MAX_IN_COMMIT);
    let found = fs.history(&At::from(path), &page).await?;
    Ok(found.items.into_iter().find(|found| found.id == version))
}

/// Returns true if the node of a version was below a directory after its commit, or before it.
async fn is_below(fs: &dyn FileSystem, dir: &TreePath, version: VersionId) -> bool {
    for version in [version, before(version)] {
        let Ok(past) = fs.as_of(&Moment::Seq(version.seq)).await else { continue };
        let names = past.names(&At::Node(version.ino), &NamesPage::default()).await;
        if names.is_ok_and(|names| names.items.iter().any(|name| name.is_within(dir))) {
            return true;
        }
    }
    false
}

/// Returns a path of the node of a version.
async fn name(fs: &dyn FileSystem, version: VersionId) -> Option<TreePath> {
    let names = fs.names(&At::Node(version.ino), &NamesPage::default().limit(1)).await.ok()?;
    names.items.into_iter().next()
}

/// Returns the path to which the commit of a version moved a node, as far as the caller reaches it.
pub(super) async fn moved_to(fs: &dyn FileSystem, version: VersionId) -> Option<TreePath> {
    let then = fs.as_of(&Moment::Seq(version.seq)).await.ok()?;
    let path = name(&*then, version).await?;
    let earlier = fs.as_of(&Moment::Seq(before(version).seq)).await.ok()?;
    // Another name that a file with several names has kept.
    let had = earlier.stat(&At::from(&path)).await.is_ok_and(|entry| entry.ino == version.ino);
    (!had).then_some(path)
}

/// Returns the refusal of a version that removed a path, or moved it away.
async fn ended(fs: &dyn FileSystem, path: &TreePath, version: VersionId) -> Refusal {
    let done = match moved_to(fs, version).await {
        Some(to) => format!("moved to {to}"),
        None => "deleted".to_owned(),
    };
    let earlier = before(version);
    Refusal::validation(format!("{path} was {done} in {version}; name the version before it, {earlier}"))
}

fn of_another(path: &TreePath, version: VersionId) -> Refusal {
    let message = format!("{version} is a version of another file than {path}");
    Refusal::validation(message).hinting("`history` lists the versions of a path")
}

/// Reason of a refusal.
#[derive(Debug)]
pub(super) struct Reason {
    pub(super) text: String,
    /// Hint, which names a tool in backquotes.
    pub(super) hint: Option<String>,
}

impl Reason {
    /// Returns a reason without a hint.
    pub(super) fn new(text: String) -> Self {
        Self { text, hint: None }
    }

    /// Returns the refusal for this reason, which `refusal` makes of its text.
    pub(super) fn refusal(self, refusal: impl FnOnce(String) -> Refusal) -> Refusal {
        let refusal = refusal(self.text);
        match self.hint {
            Some(hint) => refusal.hinting(hint),
            None => refusal,
        }
    }
}

/// Returns what became of a missing path, and what to do: "was moved to /b.md by agent scout". `None` if that
/// is unknown, or if the path never existed.
pub(super) async fn departure(fs: &dyn FileSystem, path: &TreePath) -> Result<Option<Reason>> {
    let newest = fs.history(&At::from(path), &HistoryPage::default().limit(1)).await?;
    let Some(Version { id, commit, entry: None, .. }) = newest.items.first() else { return Ok(None) };
    let author = by(&commit.author).map(|author| format!(" by {author}")).unwrap_or_default();
    Ok(Some(match moved_to(fs, *id).await {
        Some(to) => Reason::new(format!("was moved to {to}{author}")),
        None => {
            let hint = format!("`restore` with at = \"{}\" brings it back", before(*id));
            Reason { text: format!("was deleted{author}"), hint: Some(hint) }
        }
    }))
}

/// Adds to the refusal of a missing path what became of it.
pub(super) async fn explained(fs: &dyn FileSystem, refusal: Refusal) -> Refusal {
    let is_missing = refusal.kind == ErrorKind::NotFound;
    let Some(path) = refusal.path().filter(|_| is_missing) else { return refusal };
    let reason = departure(fs, path).await.ok().flatten();
    match reason {
        // With its path, the message is complete: nothing else is to be said about it.
        Some(reason) => reason.refusal(|text| refusal.saying(text).naming_path()),
        None => refusal,
    }
}

/// Returns the refusal of a state in which a path did not exist.
pub(super) fn not_there(path: &str, at: &str) -> Refusal {
    let message = format!("{path} did not exist at {at}");
    Refusal::new(Code::NotFound, message).hinting("`history` lists its versions")
}
