//! Versions that writes expect, and what has changed since a version.

use std::borrow::Cow;

use garth_agent::files::unified;
use garth_engine::error::OptionalExt as _;
use garth_engine::model::{
    At, Batch, ByteRange, Commit, Entry, HistoryPage, Moment, Precondition, Version, VersionId,
};
use garth_engine::{ErrorKind, FileSystem, Result, TreePath};

use super::answer::second;
use super::past::{Reason, departure};
use super::paths::by;
use crate::errors::{Code, Refusal};
use crate::fields::{fields, string_of};
use crate::routes::call::Call;
use crate::routes::open;
use crate::routes::tree::Tree;

/// Longest file that is compared with an earlier version of it, in bytes.
pub(super) const MAX_COMPARED: u64 = 1 << 20;
/// Limit on the versions of a file that are looked at.
pub(super) const MAX_VERSIONS: usize = 20;
/// Limit on the ranges of lines that a refusal lists.
const MAX_RANGES: usize = 10;

fields! {
    /// Version that a write of an existing path requires.
    pub(crate) struct IfVersion<'a> {
        /// Fails unless this is the current version.
        if_version: Option<Cow<'a, str>> = string_of("version");
    }
}

impl IfVersion<'_> {
    /// Parses the version.
    pub(super) fn version(&self) -> Result<Option<VersionId>, Refusal> {
        version("if_version", self.if_version.as_deref())
    }
}

/// Parses the version in an argument.
pub(super) fn version(name: &str, text: Option<&str>) -> Result<Option<VersionId>, Refusal> {
    let wrong = |_| {
        let message = format!("\"{name}\" must be a version such as ver_7-3");
        Refusal::validation(message).hinting("`read_file` or `history` returns it")
    };
    text.map(|text| text.parse::<VersionId>().map_err(wrong)).transpose()
}

/// Returns true if a node has the content of a version. A change of attributes leaves the content as it is.
fn is_at(entry: &Entry, version: VersionId) -> bool {
    [entry.version, entry.etag].contains(&version)
}

/// Returns the node at a path, if its content is that of a version.
///
/// # Errors
/// `CONFLICT` for another content or none, with what has changed since.
pub(super) async fn expected(
    fs: &dyn FileSystem,
    call: &Call<'_>,
    path: &TreePath,
    version: VersionId,
) -> Result<Entry, Refusal> {
    match fs.stat(&At::from(path)).await.optional()? {
        Some(entry) if is_at(&entry, version) => Ok(entry),
        _ => Err(conflict(fs, call, path, version).await),
    }
}

/// Commits a batch, if the content of a path is that of the version that the caller expects.
///
/// # Errors
/// `CONFLICT` for another content or none, with what has changed since. The inner error is that of the
/// commit.
pub(super) async fn commit_at(
    fs: &dyn FileSystem,
    call: &Call<'_>,
    (path, version): (&TreePath, Option<VersionId>),
    batch: Batch,
) -> Result<Result<Commit>, Refusal> {
    let Some(version) = version else { return Ok(fs.commit(batch).await) };
    let etag = expected(fs, call, path, version).await?.etag;
    match fs.commit(batch.require(path, Precondition::Etag(etag))).await {
        // Another writer was faster than this one since the version was looked up.
        Err(error) if error.is(ErrorKind::Conflict) && error.path() == Some(path) => {
            Err(conflict(fs, call, path, version).await)
        }
        committed => Ok(committed),
    }
}

/// Returns the refusal of a write that expects another version than the current one.
pub(super) async fn conflict(
    fs: &dyn FileSystem,
    call: &Call<'_>,
    path: &TreePath,
    version: VersionId,
) -> Refusal {
    let changes = changes_since(fs, call, path, version).await;
    changes.refusal(|text| Refusal::new(Code::Conflict, format!("nothing was written, because {text}")))
}

/// Returns what has changed at a path since a version, by whom, and what to do. Parts that cannot be read are
/// left out.
pub(super) async fn changes_since(
    fs: &dyn FileSystem,
    call: &Call<'_>,
    path: &TreePath,
    since: VersionId,
) -> Reason {
    let Ok(entry) = fs.stat(&At::from(path)).await else {
        return match departure(fs, path).await {
            Ok(Some(Reason { text, hint })) => Reason { text: format!("{path} {text}"), hint },
            Err(error) if error.is(ErrorKind::NotFound) => {
                Reason::new(format!("{path} never existed, so it has no version; leave if_version out"))
            }
            Ok(None) | Err(_) => Reason::new(format!("{path} does not exist any more")),
        };
    };
    let author = authors_since(fs, call, path, since).await.unwrap_or_default();
    let lines = lines_since(fs, path, since).await.ok().flatten().unwrap_or_default();
    Reason::new(format!(
        "{path} is now version {}, not {since}{author}{lines}; read it again and repeat the change with the \
         new version",
        entry.etag
    ))
}

/// Returns the newest versions of a path, the newest first.
pub(super) async fn versions(fs: &dyn FileSystem, path: &TreePath) -> Result<Vec<Version>> {
    let page = HistoryPage::default().limit(MAX_VERSIONS);
    Ok(fs.history(&At::from(path), &page).await?.items)
}

async fn authors_since(
    fs: &dyn FileSystem,
    call: &Call<'_>,
    path: &TreePath,
    since: VersionId,
) -> Result<String> {
    let versions = versions(fs, path).await?;
    let own = open::reach(call, Tree::Files).await.ok().map(|opened| opened.author());
    let mut names: Vec<String> = Vec::new();
    for version in versions.iter().take_while(|version| version.id.seq > since.seq) {
        let author = &version.commit.author;
        let name = by(author).map(|name| match own.as_ref() == Some(author) {
            true => format!("you ({name})"),
            false => name,
        });
        let new = name.filter(|name| !names.contains(name));
        names.extend(new);
    }
    let time = versions.first().map(|version| second(version.commit.time)).unwrap_or_default();
    Ok(if names.is_empty() {
        String::new()
    } else {
        format!(": changed by {}, last at {time}", names.join(" and "))
    })
}

/// Returns the lines of a file that differ from a version of it; `None` if they cannot be compared.
async fn lines_since(fs: &dyn FileSystem, path: &TreePath, since: VersionId) -> Result<Option<String>> {
    let past = fs.as_of(&Moment::Seq(since.seq)).await?;
    let (Some(old), Some(new)) = (text(&*past, path).await?, text(fs, path).await?) else { return Ok(None) };
    let ranges = changed_lines(&unified(&old, &new, 0)?);
    let is_one = matches!(&*ranges, [one] if one.bytes().all(|byte| byte.is_ascii_digit()));
    let word = if is_one { "line" } else { "lines" };
    let more = if ranges.len() > MAX_RANGES { " and more" } else { "" };
    let shown: Vec<&str> = ranges.iter().take(MAX_RANGES).map(String::as_str).collect();
    Ok((!shown.is_empty()).then(|| format!(" ({word} {}{more})", shown.join(", "))))
}

/// Returns the text of a file; `None` for a long or binary one.
pub(super) async fn text(fs: &dyn FileSystem, path: &TreePath) -> Result<Option<String>> {
    let range = ByteRange { offset: 0, length: MAX_COMPARED };
    let (entry, bytes) = fs.fetch(&At::from(path), range).await?;
    let is_whole = entry.size == bytes.len() as u64;
    Ok(String::from_utf8(bytes.into()).ok().filter(|_| is_whole))
}

/// Returns the ranges of lines in the newer text that the hunks of a unified diff change.
fn changed_lines(hunks: &str) -> Vec<String> {
    let header = |line: &str| {
        let (_, new) = line.strip_prefix("@@ -")?.strip_suffix(" @@")?.split_once(" +")?;
        Some(range(new))
    };
    hunks.lines().filter_map(header).collect()
}

/// Returns a range as the header of a hunk has it, `FIRST,COUNT`, as `FIRST-LAST`.
fn range(text: &str) -> String {
    let Some((first, count)) = text.split_once(',') else { return text.to_owned() };
    match (first.parse::<u64>(), count.parse::<u64>()) {
        // Lines were removed after this one.
        (Ok(first), Ok(0)) => format!("after {first}"),
        (Ok(first), Ok(count)) => format!("{first}-{}", first.saturating_add(count) - 1),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_give_the_lines_of_the_newer_text() {
        let hunks = unified("a\nb\nc\nd\n", "a\nB\nB\nc\n", 0).unwrap();
        assert_eq!(changed_lines(&hunks), ["2-3", "after 4"]);
        assert_eq!(changed_lines("@@ -1 +1 @@\n-@@ -7 +7 @@\n+x\n"), ["1"]);
    }

    #[test]
    fn version_has_one_spelling() {
        assert_eq!(version("if_version", None).unwrap(), None);
        assert!(version("if_version", Some("ver_7-3")).unwrap().is_some());
        let refused = version("if_version", Some("7")).unwrap_err();
        assert!(refused.message.starts_with("\"if_version\" must be a version"), "{}", refused.message);
    }
}
