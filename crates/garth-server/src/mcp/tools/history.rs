//! The tool `history`: versions of a file, or the commits below a directory.

mod commits;

use std::borrow::Cow;
use std::sync::Arc;

use garth_engine::error::OptionalExt as _;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{At, CommitInfo, HistoryPage, Timestamp, Version, VersionId};
use garth_engine::{FileSystem, TreePath};
use schemars::JsonSchema;
use serde::Serialize;

use self::commits::commits_below;
use super::answer::{Lines, ToolAnswer, bytes, distinct};
use super::past::moved_to;
use super::paths::{by, place, shown, text_path};
use super::versions::version;
use crate::errors::Refusal;
use crate::fields::{fields, integer, string_of};
use crate::routes::call::Call;

/// Limit on the versions of an answer.
const MAX_VERSIONS: u64 = 100;
/// Limit on the bytes of the message of a commit in the answer.
const MAX_MESSAGE: usize = 200;

fields! {
    /// Lists the versions of a path, also a deleted one, newest first: version, time, size, author, message
    /// if any. Use them in `read_file` or `restore`.
    pub(crate) struct HistoryFields<'a> {
        /// Path.
        path: Cow<'a, str> = string_of("path");
        /// Limit.
        limit: usize = integer(1, MAX_VERSIONS), or 20;
        /// Version to continue before.
        before: Option<Cow<'a, str>> = string_of("version");
    }
}

/// Versions of a page, newest first.
struct Found {
    versions: Vec<(Timestamp, ListedVersion)>,
    /// Version before which there may be more.
    before: Option<VersionId>,
}

/// Runs the tool.
pub(super) async fn history(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: HistoryFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    let before = version("before", fields.before.as_deref())?;
    let asked = place(call, &fields.path, text_path).await?;
    let path = resolve::resolve(&**fs, &asked, Follow::Yes).await?;
    let found = match is_directory(&**fs, &path).await? {
        true => commits_below(fs, &path, before, fields.limit).await?,
        false => versions_of(&**fs, &path, before, fields.limit).await?,
    };
    let times: Vec<Timestamp> = found.versions.iter().map(|(time, _)| *time).collect();
    let times = distinct(&times, before.is_some());
    let (mut lines, mut versions) = (Lines::default(), Vec::new());
    let count = found.versions.len();
    lines.push(&format!("{}:", shown(path.as_str())));
    for ((_, mut listed), time) in found.versions.into_iter().zip(times) {
        listed.time = time;
        if !lines.push(&listed.text()) {
            break;
        }
        versions.push(listed);
    }
    let is_cut = versions.len() < count;
    let before = if is_cut { versions.last().map(|last| last.version) } else { found.before };
    match before {
        Some(before) => lines.end_with(&format!("There are older ones: call again with before = {before}.")),
        None if versions.is_empty() => lines.end_with("There are no older versions."),
        None => {}
    }
    ToolAnswer::new(lines.into_text(), &VersionsListed { versions, before })
}

/// Returns true if a path is a directory, or was one when it last existed.
async fn is_directory(fs: &dyn FileSystem, path: &TreePath) -> Result<bool, Refusal> {
    if let Some(entry) = fs.stat(&At::from(path)).await.optional()? {
        return Ok(entry.is_dir());
    }
    // The newest version of a deleted path is its deletion.
    let page = HistoryPage::default().limit(2);
    let versions = fs.history(&At::from(path), &page).await?;
    let last = versions.items.iter().find_map(|version| version.entry.as_deref());
    Ok(last.is_some_and(|entry| entry.is_dir()))
}

async fn versions_of(
    fs: &dyn FileSystem,
    path: &TreePath,
    before: Option<VersionId>,
    limit: usize,
) -> Result<Found, Refusal> {
    let page = HistoryPage::default().before(before).limit(limit);
    let found = fs.history(&At::from(path), &page).await?;
    let before = found.items.last().filter(|_| found.more).map(|last| last.id);
    let mut versions = Vec::with_capacity(found.items.len());
    for Version { id, commit, entry, .. } in &found.items {
        let mut listed = ListedVersion::of(*id, commit);
        match entry.as_deref() {
            Some(entry) => listed.size = Some(entry.size),
            None => listed.moved_to = moved_to(fs, *id).await.map(|to| to.as_str().to_owned()),
        }
        versions.push((commit.time, listed));
    }
    Ok(Found { versions, before })
}

/// Structured answer.
#[derive(Serialize, JsonSchema)]
pub(super) struct VersionsListed {
    versions: Vec<ListedVersion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<VersionId>,
}

/// Version of a path.
#[derive(Serialize, JsonSchema)]
struct ListedVersion {
    version: VersionId,
    time: String,
    /// Size; none if this version removed the node, or moved it away, and none of a commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// Path to which this version moved the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_to: Option<String>,
    /// Changes below a directory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl ListedVersion {
    fn of(version: VersionId, commit: &CommitInfo) -> Self {
        let message = commit.message.get(..commit.message.floor_char_boundary(MAX_MESSAGE));
        Self {
            version,
            time: String::new(),
            size: None,
            moved_to: None,
            changes: Vec::new(),
            author: by(&commit.author),
            message: message.filter(|message| !message.is_empty()).map(str::to_owned),
        }
    }

    fn text(&self) -> String {
        let state = match (self.size, &self.moved_to) {
            _ if !self.changes.is_empty() => String::new(),
            (Some(size), _) => format!("  {}", bytes(size)),
            (None, Some(to)) => format!("  moved to {}", shown(to)),
            (None, None) => "  removed".to_owned(),
        };
        let author = self.author.as_ref().map(|author| format!("  by {author}")).unwrap_or_default();
        let message =
            self.message.as_ref().map(|message| format!("  {}", shown(message))).unwrap_or_default();
        let changes: String = self.changes.iter().map(|change| format!("\n  {change}")).collect();
        format!("{}  {}{state}{author}{message}{changes}", self.version, self.time)
    }
}
